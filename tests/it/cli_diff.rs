//! The YAML that `diff` compares.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::Value;

use crate::{
    cli_flags::{run, write},
    cli_server::{claim, fake_exporter, list, status},
};

/// Runs `diff` on claims; returns what a script writes that gets the folders with the declared and the live files.
fn external_diff(claims: &[Value], script: &str) -> String {
    let (status, list) = (status(), list(claims));
    let server = fake_exporter(move |path, _| match path.split('?').next() {
        Some("/v1/status") => (200, status.clone()),
        _ => (200, list.clone()),
    });
    let folder = tempfile::tempdir().unwrap();
    let program = write(folder.path(), "script", &format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let arguments = ["diff", "-n", "shop", "--server", &server];
    let ended = run(&arguments, "", &[("KUBECTL_EXTERNAL_DIFF", &program)]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended.stdout
}

/// Declared and live YAML of an object with these differences: path, declared value, live value. An empty text is absent, and
/// `form` reads the others.
fn both_as_yaml(differences: &[(&str, &str, &str)], form: &str) -> (String, String) {
    let mut claim = claim("shop", "web", true);
    let difference = claim["differences"][0].clone();
    let with_values = |(path, expected, actual): &(&str, &str, &str)| {
        let mut difference = difference.clone();
        difference["path"] = (*path).into();
        difference["expected"] = (*expected).into();
        difference["actual"] = (*actual).into();
        for (name, text) in [("expectedForm", expected), ("actualForm", actual)] {
            difference[name] = if text.is_empty() { "absent".into() } else { form.into() };
        }
        difference
    };
    claim["differences"] = differences.iter().map(with_values).collect();
    let output = external_diff(&[claim], "cat $1/*; echo %; cat $2/*");
    let (declared, live) = output.split_once("%\n").unwrap();
    (declared.to_owned(), live.to_owned())
}

/// The declared YAML of these fields, whose live values differ.
fn as_yaml<const N: usize>(fields: [(&str, &str); N], form: &str) -> String {
    both_as_yaml(&fields.map(|(path, value)| (path, value, "other")), form).0
}

#[test]
fn shortened_file_names_stay_unique() {
    let long = "ü".repeat(200);
    let claims = [&*long, &format!("{long}a"), &format!("{long}b"), "web"];
    let names = external_diff(&claims.map(|name| claim("shop", name, true)), "cd $1; printf '%s\\n' *");
    let names: Vec<&str> = names.lines().collect();
    assert!(names.iter().all(|name| name.len() <= 255), "{names:?}");
    assert_eq!(names.len(), claims.len(), "{names:?}");
    assert!(names.contains(&"apps.v1.Deployment.shop.web.terraform"), "{names:?}");
}

#[test]
fn fields_keep_their_position_in_the_object() {
    let yaml = as_yaml(
        [
            ("spec.strategy", "fast"),
            ("spec.template.spec.containers[name=web].image", "web:1"),
            ("spec.template.spec.containers[name=web].env[name=A].value", "x"),
            ("metadata.annotations[\"example.com/owner\"]", "me"),
            ("metadata.finalizers[=example.com/hold]", "example.com/hold"),
            ("spec.args[2]", "-v"),
            ("spec.ports[port=80,protocol=TCP].name", "http"),
            ("spec.hosts[name=80].a", "b"),
        ],
        "plain",
    );
    let expected = "\
metadata:
  annotations:
    example.com/owner: me
  finalizers:
  - example.com/hold
spec:
  args:
    '[2]': -v
  hosts:
  - a: b
    name: \"80\"
  ports:
  - name: http
    port: 80
    protocol: TCP
  strategy: fast
  template:
    spec:
      containers:
      - env:
        - name: A
          value: x
        image: web:1
        name: web
";
    assert_eq!(yaml.replace("\"[2]\"", "'[2]'"), expected);
}

#[test]
fn absent_fields_leave_their_list_element() {
    assert_eq!(as_yaml([("spec.replicas", "")], "plain"), "");
    assert_eq!(as_yaml([("metadata.finalizers[=a]", "")], "plain"), "");
    assert_eq!(as_yaml([("c[name=web].image", "")], "plain"), "c:\n- name: web\n");
    assert_eq!(as_yaml([("c[name=web]", "")], "plain"), "");
    assert_eq!(as_yaml([("c[name=web]", "{\"name\":\"web\",\"a\":1}")], "json"), "c:\n- a: 1\n  name: web\n");
    assert_eq!(as_yaml([("c[name=web]", "{}")], "json"), "c:\n- name: web\n");
}

#[test]
fn added_and_removed_list_elements_are_on_one_side_only() {
    let (declared, live) = both_as_yaml(
        &[
            ("c[name=new].name", "", "new"),
            ("c[name=new].env[name=A].name", "", "A"),
            ("c[name=old].name", "old", ""),
            ("c[name=old].image", "old:1", ""),
            ("c[name=web].env[name=B].name", "", "B"),
            ("c[name=web].env[name=B].value", "", "b"),
        ],
        "plain",
    );
    assert_eq!(declared, "c:\n- image: old:1\n  name: old\n- name: web\n");
    assert_eq!(
        live,
        "c:\n- env:\n  - name: A\n  name: new\n- env:\n  - name: B\n    value: b\n  name: web\n"
    );
}

#[test]
fn redacted_values_are_tagged() {
    let digest = format!("hmac:01020304:{}", "ab".repeat(16));
    let list = format!("[\"{digest}\",\"a\",1]");
    let fields = || {
        [
            ("a", &*digest),
            ("b", &*list),
            ("c[name=hmac:01020304:abababababababababababababababab].d", &*digest),
        ]
    };
    assert_eq!(
        as_yaml(fields(), "redacted"),
        format!(
            "a: !redacted {digest}\nb:\n- !redacted {digest}\n- a\n- 1\nc:\n- d: !redacted {digest}\n  name: !redacted {digest}\n"
        )
    );
    for form in ["plain", "json"] {
        assert!(!as_yaml([("a", &*list)], form).contains('!'), "{form}");
    }
}

#[test]
fn absent_value_does_not_overwrite_another_one_with_the_same_path() {
    for fields in [[("tags[0]", "a"), ("tags[0]", "")], [("tags[0]", ""), ("tags[0]", "a")]] {
        assert_eq!(as_yaml(fields, "plain").replace('"', "'"), "tags:\n  '[0]': a\n");
    }
}

#[test]
fn different_values_give_different_yaml() {
    for (path, declared, live) in [
        ("data.b", "x", "\"x\""),
        ("data.c", r#"{"a":1,"b":[1,2]}"#, r#"{"b": [1, 2], "a": 1}"#),
        ("spec.s", "{}", "{ }"),
        ("spec.s", "a", "\"a\""),
        ("spec.s", r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#),
        ("c[name=web].env[name=A].value", "[\"a\"]", "[ \"a\" ]"),
        ("data.n", "1", "1 "),
    ] {
        let (declared, live) = both_as_yaml(&[(path, declared, live)], "plain");
        assert_ne!(declared, live, "{path}");
    }
}

#[test]
fn string_fields_are_quoted() {
    let yaml = as_yaml(
        [
            ("data.a", "1"),
            ("metadata.labels.b", "true"),
            ("spec.template.metadata.annotations[\"example.com/c\"]", "null"),
            ("spec.containers[name=web].env[name=A].value", "10"),
            ("spec.data.d", "1"),
        ],
        "plain",
    );
    for line in [
        "  a: \"1\"\n",
        "    b: \"true\"\n",
        "example.com/c: \"null\"\n",
        "value: \"10\"\n",
        "    d: \"1\"\n",
    ] {
        assert!(yaml.contains(line), "{line} is not in\n{yaml}");
    }
    let env = ("spec.containers[name=web].env[name=B]", "{\"name\":\"B\",\"value\":\"1\"}");
    assert!(as_yaml([env], "json").contains("value: \"1\"\n"));
}

#[test]
fn numbers_keep_their_notation() {
    let fields = [("a", "1.10"), ("b", "4e10"), ("c", "3"), ("d", "true")];
    assert_eq!(as_yaml(fields, "plain"), "a: \"1.10\"\nb: \"4e10\"\nc: \"3\"\nd: \"true\"\n");
    let fields = [("c", "3"), ("d", "true")];
    assert_eq!(as_yaml(fields, "json"), "c: 3\nd: true\n");
}
