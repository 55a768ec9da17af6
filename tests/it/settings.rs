//! The settings file: validation with positions, overrides, and `check` and `rules` on files.

use std::{fs, path::Path, process::Command};

use drift_exporter::{
    config::{Overrides, ShownResources, load},
    types::{RedactionKey, Source, ValueDigest},
};
use jiff::Timestamp;

fn problems_in(text: &str) -> Vec<String> {
    load(text, &Overrides::default(), Timestamp::UNIX_EPOCH)
        .unwrap_err()
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// Asserts the problems of a settings file, in order; `…` matches any text.
#[track_caller]
pub(crate) fn check(text: &str, expected: &[&str]) {
    let problems = problems_in(text);
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    for (problem, expected) in problems.iter().zip(expected) {
        let mut rest = problem.as_str();
        for part in expected.split('…') {
            let at = rest.find(part).unwrap_or_else(|| panic!("no {part:?} in {problem:?}"));
            rest = &rest[at + part.len()..];
        }
    }
}

#[test]
fn problems_have_line_column_and_suggestion() {
    check("kindz: []\n", &["line 1, column 1: unknown field `kindz`…did you mean `kinds`?"]);
    check(
        "metrics: {resources: trackd}\n",
        &["line 1, column 22: unknown value `trackd`…did you mean `tracked`?"],
    );
    check("metrics:\n  max_series: many\n", &["line 2, column 15: "]);
    check(
        "metrics:\n  max_series: 0\n",
        &["line 2, column 15: metrics.max_series: 0 would hide every series"],
    );
    check("kinds:\n- {kind: Deployment}\n", &["line 2, …missing field `apiVersion`"]);
    check("kinds: Deployment\n", &["line 1, column 8: "]);
    check(
        "kinds:\n- {apiVersion: apps, kind: Deployment}\n- {apiVersion: v1, kind: Service, selector: 'a b'}\n",
        &["line 2, column 3: kinds[0]: invalid apiVersion `apps`", "line 3, column 45: kinds[1].selector: "],
    );
    check(
        "namespaces: [shop, Shop]\nsources: {annotation: {prefix: 'a/b'}}\n",
        &[
            "line 1, column 20: namespaces[1]: invalid namespace `Shop`",
            "line 2, column 32: sources.annotation.prefix: ",
        ],
    );
    check("sources: {}\n", &["line 1, column 10: sources: no source is enabled"]);
    check("sources: {teraform: {}}\n", &["line 1, column 11: unknown field `teraform`"]);
    check(
        "sources: {terraform: {namespaces: [Shop], lock_max_age: soon}}\n",
        &["sources.terraform.namespaces[0]", "sources.terraform.lock_max_age: invalid duration `soon`"],
    );
    check(
        "sources: {helm: {namespaces: [Shop], pending_max_age: 0s}}\n",
        &["sources.helm.namespaces[0]", "sources.helm.pending_max_age: invalid duration `0s`"],
    );
    check("a: [b\n", &["line "]);
    check("- a\n- b\n", &["line 1, column 1: "]);
    check("log: {level: loud}\n", &["line 1, column 14: unknown value `loud`; want one of error, warn"]);
}

#[test]
fn yaml_errors_are_reported_in_plain_words() {
    for (text, expected) in [
        ("kinds: []\nkinds: []\n", "line 2, column 1: duplicate field `kinds`"),
        ("kinds: []\n---\nkinds: []\n", "line 3, column 1: more than one document"),
        ("metrics: {max_series: many}\n", "line 1, column 23: want an integer that is not negative"),
        ("metrics: {max_series: -1}\n", "line 1, column 23: want an integer that is not negative"),
        (
            "metrics: {max_series: 99999999999999999999}\n",
            "line 1, column 23: the integer is out of range; want one from 0 to 18446744073709551615",
        ),
        (
            "sources: {last_applied: {foo: 1}}\n",
            "line 1, column 26: unknown field `foo`; want {}, without fields",
        ),
        ("metrics: {health: maybe}\n", "line 1, column 19: want true or false"),
        ("metrics: many\n", "line 1, column 10: want a map"),
        ("just a text\n", "line 1, column 1: want a map"),
        ("kinds: Deployment\n", "line 1, column 8: want a list"),
        ("namespaces: [[a]]\n", "line 1, column 14: want a string"),
        ("namespaces: [null]\n", "line 1, column 14: empty value; want a string"),
        ("? [a]\n: b\n", "line 1, column 3: want a string"),
        ("metrics: {resources: [a]}\n", "line 1, column 22: want a single word"),
        ("metrics: {resources: drift}\n", "line 1, column 22: unknown value `drift`…did you mean `drifted`?"),
        ("namespaces: [!!binary x]\n", "line 1, column 23: want a string without a tag"),
        ("<<: 5\n", "line 1, column 5: want a map or a list of maps after `<<`"),
        ("kinds: &a [*a]\n", "line 1, column 12: an alias cannot be inside its anchor"),
        ("kinds: *nope\n", "line 1, column 8: unknown anchor"),
        ("\"a\n", "line 1, column 1: unclosed quote"),
    ] {
        check(text, &[expected]);
    }
}

#[test]
fn all_problems_in_rules_are_reported_at_once() {
    let text = "\
rules:
- name: one
  match: {paths: ['spec..x'], actors: [kubectil]}
  effect: ignore
- name: one
  effect: ignor
- name: late
  effect: ignore
  expires: soon
";
    check(
        text,
        &[
            "line 3, column 19: rules[0].match.paths[0]: rule one: ",
            "line 3, column 40: rules[0].match.actors[0]: rule one: …did you mean `kubectl`?",
            "line 5, column 9: rules[1].name: …",
            "line 6, column 11: rules[1].effect: …did you mean `ignore`?",
            "line 9, column 12: rules[2].expires: …",
        ],
    );
}

#[test]
fn rule_that_matches_everything_is_a_warning() {
    let loaded =
        load("rules:\n- {name: all, effect: ignore}\n", &Overrides::default(), Timestamp::UNIX_EPOCH)
            .unwrap();
    let warnings: Vec<String> = loaded.warnings.iter().map(ToString::to_string).collect();
    assert!(matches!(&*warnings, [one] if one.starts_with("line 2, column 3: rules[0]")), "{warnings:?}");
}

#[test]
fn expired_rule_that_matches_everything_is_not_a_warning() {
    let text = "rules:\n- {name: all, effect: ignore, expires: 2026-01-31}\n";
    let warnings =
        |now: &str| load(text, &Overrides::default(), now.parse().unwrap()).unwrap().warnings.len();
    assert_eq!(warnings("2026-01-31T23:59:59Z"), 1);
    assert_eq!(warnings("2026-02-01T00:00:00Z"), 0);
}

#[test]
fn contradictory_settings_are_rejected() {
    check(
        "actors: [{actor: gitops, manager: ''}]\n",
        &["line 1, column 35: actors[0].manager: …would match every manager"],
    );
    check(
        "severities:\n- {severity: critical, fields: [rbac, hash]}\n- {severity: info, fields: [hash]}\n",
        &["line 3, column 29: severities[1].fields[0]: `hash` is critical already"],
    );
}

#[test]
fn suspicious_settings_are_warnings() {
    let warnings = |text: &str| -> Vec<String> {
        let loaded = load(text, &Overrides::default(), Timestamp::UNIX_EPOCH)
            .unwrap_or_else(|problems| panic!("{problems:?}"));
        loaded.warnings.iter().map(ToString::to_string).collect()
    };
    for (text, expected) in [
        (
            "kinds:\n- {apiVersion: v1, kind: service}\n",
            "line 2, column 26: kinds[0].kind: `service`: names of kinds begin with an upper-case letter; did you mean `Service`?",
        ),
        (
            "namespaces: [shop]\nteam_rules: {namespaces: [shop, ops]}\n",
            "line 2, column 33: team_rules.namespaces[1]: `ops` is not watched, so its rules are not read",
        ),
        (
            "rules:\n- {name: rolout-restart, effect: off}\n",
            "line 2, column 10: rules[0].name: rule rolout-restart: it switches nothing off: no built-in rule has its name; did you mean `rollout-restart`?",
        ),
    ] {
        assert_eq!(warnings(text), [expected]);
    }
    let fine = "severities:\n- {severity: info, fields: [hash]}\n- {severity: info, fields: [hash]}\n\
                kinds:\n- {apiVersion: v1, kind: '*'}\nteam_rules: {namespaces: [shop]}\n";
    assert_eq!(warnings(fine), [""; 0]);
}

#[test]
fn command_line_overrides_the_file() {
    let text = "namespaces: [shop]\nmetrics: {resources: drifted, max_series: 7, health: true}\nkinds:\n- {apiVersion: v1, kind: Service}\n";
    let file = load(text, &Overrides::default(), Timestamp::UNIX_EPOCH).unwrap().settings;
    assert_eq!((file.max_series, file.only_drifted, file.health_series), (7, true, true));
    assert_eq!((&*file.namespaces, &*file.sources), (&["shop".into()][..], &[Source::Annotation][..]));
    let overrides = Overrides {
        namespaces: Some(vec!["ops".into()]),
        resources: Some(ShownResources::Tracked),
        max_series: Some(9),
        ..Overrides::default()
    };
    let both = load(text, &overrides, Timestamp::UNIX_EPOCH).unwrap().settings;
    assert_eq!((both.max_series, both.only_drifted, both.health_series), (9, false, true));
    assert_eq!(&*both.namespaces, ["ops".into()]);
    assert_eq!(both.kinds, file.kinds);
}

#[test]
fn empty_file_uses_defaults() {
    for text in ["", "# nothing\n", "---\n", "{}\n", "null\n", "rules: []\n"] {
        let settings = load(text, &Overrides::default(), Timestamp::UNIX_EPOCH).unwrap().settings;
        assert_eq!(settings.wanted_kinds().len(), 2, "{text:?}");
    }
}

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_drift-exporter")).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn committed_schema_equals_printed_one_and_fits_the_example() {
    let (code, printed, _) = run(&["check", "--schema"]);
    let committed =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/settings.schema.json")).unwrap();
    assert_eq!(code, Some(0));
    assert!(printed == committed, "run `make schema` and read the diff");
    let guide =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md")).unwrap();
    let example = guide.split("```yaml\n").find(|part| part.starts_with("kinds:")).unwrap();
    let example = example.split("```").next().unwrap();
    let loaded = load(example, &Overrides::default(), Timestamp::UNIX_EPOCH)
        .unwrap_or_else(|problems| panic!("{problems:?}"));
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let schema: serde_json::Value = serde_json::from_str(&committed).unwrap();
    let written: serde_json::Value = serde_saphyr::from_str(example).unwrap();
    for key in schema["properties"].as_object().unwrap().keys() {
        assert!(written.get(key).is_some(), "the example does not show {key}");
    }
}

#[test]
fn check_prints_file_line_and_column_and_exits_with_1() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.yaml").display().to_string();
    fs::write(&file, "rules:\n- {name: a, effect: ignor}\n").unwrap();
    let (code, _, stderr) = run(&["check", "--pre", "--config.file", &file]);
    assert_eq!(code, Some(1));
    assert!(stderr.starts_with(&format!("{file}:2:21: rules[0].effect: ")), "{stderr}");
    fs::write(&file, "rules:\n- {name: a, match: {names: [web]}, effect: ignore}\n").unwrap();
    let (code, stdout, stderr) = run(&["check", "--pre", "--config.file", &file]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert!(stdout.contains("2 kinds wanted"), "{stdout}");
    let (code, _, stderr) = run(&["check", "--pre", "--config.file", "/nonexistent/s.yaml"]);
    assert_eq!(code, Some(2), "{stderr}");
    fs::write(&file, "#".repeat(10 << 20)).unwrap();
    let (code, _, stderr) = run(&["check", "--pre", "--config.file", &file]);
    assert!(code == Some(2) && stderr.contains("more than 1048576 bytes"), "{stderr}");
    let pipe = folder.path().join("pipe").display().to_string();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (code, _, stderr) = run(&["check", "--pre", "--config.file", &pipe]);
    assert!(code == Some(2) && stderr.contains("this is a named pipe; want a regular file"), "{stderr}");
}

#[test]
fn rules_list_and_rules_test_work() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name).display().to_string();
        fs::write(&path, text).unwrap();
        path
    };
    let settings = write(
        "s.yaml",
        "rules:\n- {name: rollout-restart, effect: off}\n- name: mine\n  match: {namespaces: [shop], paths: [spec.replicas]}\n  effect: ignore\n  owner: me\n",
    );
    let (code, stdout, _) = run(&["rules", "list", "--config.file", &settings]);
    let line = |name: &str| stdout.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    assert_eq!(code, Some(0));
    assert!(line("mine ").contains("settings") && line("mine ").ends_with("me"), "{stdout}");
    assert!(
        line("rollout-restart ").contains("off") && line("privileged ").contains("severity critical"),
        "{stdout}"
    );
    let cases = write(
        "cases.yaml",
        "\
cases:
- name: replicas in the shop do not count
  object: {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: web}
  difference: {path: spec.replicas, field: replicas, expected: '3', actual: '7', manager: kubectl}
  want: {ignored: true, actor: kubectl, rules: [mine]}
- name: elsewhere they do
  object: {apiVersion: apps/v1, kind: Deployment, namespace: ops, name: web}
  difference: {path: spec.replicas, field: replicas, expected: '3', actual: '0', manager: kubectl}
  want: {ignored: false, severity: critical}
- name: any manager that scales for an autoscaler
  object: {apiVersion: apps/v1, kind: Deployment, namespace: ops, name: web, autoscaled: true}
  difference: {path: spec.replicas, expected: '3', actual: '7', manager: my-scaler}
  want: {actor: autoscaler, expectation: expected}
",
    );
    let (code, stdout, stderr) = run(&["rules", "test", "--config.file", &settings, &cases]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    assert!(stdout.ends_with("3 passed, 0 failed\n"), "{stdout}");
    let (code, stdout, _) = run(&["rules", "test", &cases]);
    assert_eq!(code, Some(1));
    assert!(
        stdout
            .contains("FAILED  replicas in the shop do not count: it is not ignored; mine does not match it"),
        "{stdout}"
    );
    assert!(stdout.ends_with("2 passed, 1 failed\n"), "{stdout}");
}

#[test]
fn rule_case_distinguishes_absent_null_and_empty_values() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name).display().to_string();
        fs::write(&path, text).unwrap();
        path
    };
    let null = ValueDigest::of_null();
    let rules = [("absent", ""), ("null", &*null.to_string()), ("empty", "\"\""), ("text", "null")];
    let digest_like = RedactionKey::new([1; 32]).digest(b"x").to_string();
    let rules = rules.into_iter().chain([("digest", &*digest_like)]);
    let rules = rules.map(|(name, value)| {
        format!("- {{name: is-{name}, match: {{values: ['{value}']}}, effect: ignore}}\n")
    });
    let settings = write("s.yaml", &format!("rules:\n{}", rules.collect::<String>()));
    let cases = [
        ("absent", ""),
        ("absent", ", actual: ''"),
        ("null", ", actual: null"),
        ("empty", ", actual: '\"\"'"),
        ("text", ", actual: 'null'"),
        ("digest", &format!(", actual: '{digest_like}'")),
    ];
    let cases = cases.map(|(name, actual)| {
        format!(
            "- name: is-{name}\n  object: {{apiVersion: apps/v1, kind: Deployment, namespace: shop, name: web}}\n  \
             difference: {{path: spec.a, expected: x{actual}}}\n  want: {{ignored: true, rules: [is-{name}]}}\n"
        )
    });
    let cases = write("cases.yaml", &format!("cases:\n{}", cases.concat()));
    let (code, stdout, stderr) = run(&["rules", "test", "--config.file", &settings, &cases]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
}

#[test]
fn invalid_rule_case_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cases.yaml").display().to_string();
    let object = "object: {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: web}";
    for (text, message) in [
        (
            "cases:\n- {name: x, object: {}, want: {}}\n",
            "cases.yaml: line 2, column 21: missing field `apiVersion`",
        ),
        ("cases: []\n", "cases.yaml has no cases"),
        ("", "cases.yaml: "),
        ("cases: many\n", "line 1, column 8: want a list"),
        (
            &format!("cases:\n- {{name: x, {object}, difference: {{path: 'spec..x'}}, want: {{}}}}\n"),
            "case x: invalid path `spec..x`: ",
        ),
        (
            &format!(
                "cases:\n- {{name: x, {object}, difference: {{path: spec, field: hush}}, want: {{}}}}\n"
            ),
            "unknown value `hush`; want one of replicas, image",
        ),
    ] {
        fs::write(&file, text).unwrap();
        let (code, stdout, stderr) = run(&["rules", "test", &file]);
        assert!(code == Some(2) && stderr.contains(message), "{text}: {stdout}{stderr}");
    }
}

#[test]
fn rule_case_derives_field_class_from_path() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cases.yaml").display().to_string();
    let case = |path: &str, rule: &str| {
        format!(
            "- name: {rule}\n  object: {{apiVersion: apps/v1, kind: Deployment, namespace: shop, name: web}}\n  \
             difference: {{path: '{path}'}}\n  want: {{rules: [{rule}]}}\n"
        )
    };
    let cases = [
        case("spec.replicas", "scaling"),
        case("spec.template.spec.containers[name=web].image", "configuration"),
        case("spec.template.spec.containers[name=web].securityContext.privileged", "security"),
        case("spec", "hash"),
    ];
    fs::write(&file, format!("cases:\n{}", cases.concat())).unwrap();
    let (code, stdout, stderr) = run(&["rules", "test", &file]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
}

#[test]
fn rule_cases_in_the_documentation_pass() {
    let folder = tempfile::tempdir().unwrap();
    let guide = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/rules.md")).unwrap();
    let example = |start: &str, name: &str| {
        let text = guide.split("```yaml\n").find(|part| part.starts_with(start)).unwrap();
        let path = folder.path().join(name).display().to_string();
        fs::write(&path, text.split("```").next().unwrap()).unwrap();
        path
    };
    let (settings, cases) = (example("rules:", "settings.yaml"), example("cases:", "cases.yaml"));
    let (code, stdout, stderr) = run(&["rules", "test", "--config.file", &settings, &cases]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    let keys =
        ["apiVersion", "labels", "path", "source", "field", "expected", "actual", "manager", "subresource"];
    for key in
        keys.into_iter().chain(["at", "ignored", "severity", "expectation", "advice", "actor", "rules"])
    {
        assert!(guide.contains(&format!("`{key}`")), "docs/rules.md does not mention {key}");
    }
    let accepted = guide.split("```yaml\n").find(|part| part.starts_with("- name: accepted-")).unwrap();
    let accepted = format!("rules:\n{}", accepted.split("```").next().unwrap());
    assert!(
        load(&accepted, &Overrides::default(), Timestamp::UNIX_EPOCH)
            .is_ok_and(|loaded| loaded.warnings.is_empty()),
        "{accepted}"
    );
}
