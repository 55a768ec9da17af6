//! The command line: `hash`, invalid flags, invalid files.

use std::{
    io::Write as _,
    net::TcpListener,
    path::Path,
    process::{Command, Stdio},
};

use crate::support::{
    live_objects::{deployment, service},
    objects::HASH,
};

pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) fn run(arguments: &[&str], stdin: &str, environment: &[(&str, &str)]) -> CommandOutput {
    let mut child = Command::new(env!("CARGO_BIN_EXE_drift-exporter"))
        .args(arguments)
        .env_remove("KUBECONFIG")
        .env("HOME", "/nonexistent")
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A process that exits early does not read all of its input.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    CommandOutput { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn with_type_meta(api_version: &str, kind: &str, mut object: serde_json::Value) -> serde_json::Value {
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    object
}

/// Writes a file and returns its path.
pub(crate) fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn hash_reads_files_lists_and_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let (web, svc) = (
        with_type_meta("apps/v1", "Deployment", deployment("web")),
        with_type_meta("v1", "Service", service("web")),
    );
    let (web_hash, svc_hash) = (
        web["metadata"]["annotations"][HASH].as_str().unwrap(),
        svc["metadata"]["annotations"][HASH].as_str().unwrap(),
    );
    let expected = format!("{web_hash}  Deployment shop/web\n{svc_hash}  Service shop/web\n");
    let documents = format!("---\n{web}\n---\n{svc}\n");
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": [web, svc]});
    for text in
        [documents, list.to_string(), format!("{web}\n{svc}"), serde_json::to_string_pretty(&list).unwrap()]
    {
        let file = write(folder.path(), "objects", &text);
        for (arguments, stdin) in [(["hash", "-f", file.as_str()], ""), (["hash", "-f", "-"], text.as_str())]
        {
            let output = run(&arguments, stdin, &[]);
            assert_eq!(
                (output.code, output.stdout.as_str()),
                (Some(0), expected.as_str()),
                "{}",
                output.stderr
            );
        }
    }
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: shop}\ndata: {a: b}\n";
    let annotated = yaml.replace("shop}", "shop, annotations: {drift.example.com/spec-hash: recorded}}");
    let hash = |prefix: &[&str], text: &str| run(&[&["hash", "-f", "-"], prefix].concat(), text, &[]).stdout;
    assert_ne!(hash(&[], &annotated), hash(&[], yaml), "the annotation is a declared field");
    assert_eq!(hash(&["--prefix", "drift.example.com"], &annotated), hash(&[], yaml));
    let other = "data:\n  a: b\nmetadata:\n  labels: {}\n  namespace: shop\n  name: settings\nkind: ConfigMap\napiVersion: v1\n";
    let hashes = [yaml, other].map(|text| run(&["hash", "-f", "-"], text, &[]).stdout);
    assert!(
        hashes[0].starts_with("jcs-v1:") && hashes[0].ends_with("  ConfigMap shop/settings\n"),
        "{}",
        hashes[0]
    );
    assert_eq!(hashes[0], hashes[1]);
}

#[test]
fn hash_reports_invalid_objects_and_prints_valid_ones() {
    let folder = tempfile::tempdir().unwrap();
    let web = with_type_meta("apps/v1", "Deployment", deployment("web"));
    let text = format!(
        "{web}\n---\nkind: Deployment\nspec: [1\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: odd}}\nspec: {{replicas: many}}\n---\nkind: Nameless\n"
    );
    let file = write(folder.path(), "objects.yaml", &format!("# all kinds\n---\n{text}"));
    let output = run(&["hash", "-f", &file], "", &[]);
    assert_eq!(output.code, Some(1));
    assert_eq!(output.stdout.lines().count(), 1, "{}", output.stdout);
    let errors: Vec<_> = output.stderr.lines().collect();
    assert_eq!(errors.len(), 3, "{}", output.stderr);
    let position =
        errors[0].strip_prefix(&format!("drift-exporter: {file}:")).expect("file, line and column");
    let (line, column) = position.split_once(':').unwrap();
    assert!((5..=6).contains(&line.parse::<usize>().unwrap()), "{position}");
    assert!(column.split(':').next().unwrap().parse::<usize>().is_ok(), "{position}");
    assert!(errors[1].contains("Deployment odd: not a valid Deployment"), "{}", errors[1]);
    assert!(errors[2].contains("object 4: apiVersion is missing or not a string"), "{}", errors[2]);

    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n";
    let output = run(&["hash", "-a", "tfdrift-v1", "-f", "-"], pod, &[]);
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.contains("tfdrift-v1 has no definition for Pod; use jcs-v1"), "{}", output.stderr);
    assert_eq!(run(&["hash", "-f", "-"], "", &[]).code, Some(1));

    // An unreadable file does not hide other files, and a List may contain a List.
    let good = write(
        folder.path(),
        "good.json",
        &serde_json::json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "List", "items": [web]}]})
        .to_string(),
    );
    let output = run(&["hash", "-f", "/nonexistent.yaml", "-f", &good], "", &[]);
    assert_eq!((output.code, output.stdout.lines().count()), (Some(2), 1), "{}", output.stderr);
    let output =
        run(&["hash", "-f", "-"], "apiVersion: v1\nkind: Pod\nmetadata: {name: \"a\\nb\\e[31m\"}\n", &[]);
    assert!(output.stdout.lines().count() == 1 && !output.stdout.contains('\u{1b}'), "{:?}", output.stdout);
}

#[test]
fn kubeconfig_error_does_not_quote_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "config", "users: [{name: a, user: {token: s3cret\n");
    let output = run(&["run", "--kubeconfig", &file], "", &[]);
    assert!(output.stderr.contains("line 1") && !output.stderr.contains("s3cret"), "{}", output.stderr);
    let output = run(&["run"], "", &[("KUBECONFIG", &file)]);
    assert!(!output.stderr.contains("s3cret"), "{}", output.stderr);
}

#[test]
fn hash_reports_yaml_with_too_many_aliases_in_plain_words() {
    let aliases = |of: &str| format!("[{}]", [of; 9].join(", "));
    let bomb = ["b", "c", "d", "e", "f", "g", "h", "i"].iter().zip(["a", "b", "c", "d", "e", "f", "g", "h"]);
    let bomb = bomb.map(|(name, of)| format!("{name}: &{name} {}\n", aliases(&format!("*{of}"))));
    let bomb = bomb.collect::<Vec<_>>().concat();
    let output = run(&["hash", "-f", "-"], &format!("a: &a {}\n{bomb}", aliases("x")), &[]);
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.contains("too large, too deep or too many aliases"), "{}", output.stderr);
    assert!(!output.stderr.contains(['{', '}']), "{}", output.stderr);
}

#[test]
fn hash_reads_large_yaml_lists() {
    let item = "- {apiVersion: v1, kind: Service, metadata: {name: web}, spec: {type: ClusterIP, ports: [{port: 80}, {port: 81}, {port: 82}]}}\n";
    let output = run(
        &["hash", "-f", "-"],
        &format!("apiVersion: v1\nkind: List\nitems:\n{}", item.repeat(12_000)),
        &[],
    );
    assert_eq!((output.code, output.stdout.lines().count()), (Some(0), 12_000), "{}", output.stderr);
}

/// A kubeconfig of an API server that does not answer.
const UNREACHABLE: &str = "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n";

#[test]
fn invalid_invocation_explains_and_exits_2() {
    let folder = tempfile::tempdir().unwrap();
    let broken = write(folder.path(), "broken", "clusters: [");
    let config = write(folder.path(), "config", UNREACHABLE);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let cases: &[(&[&str], &str)] = &[
        (&["run", "--kubeconfig", "/nonexistent/config"], "cannot use kubeconfig /nonexistent/config"),
        (&["run", "--kubeconfig", &broken], "cannot use kubeconfig"),
        (&["run"], "no cluster to talk to"),
        (&["run", "--kubeconfig", &config, "--context", "nope"], "nope"),
        (
            &["run", "--kubeconfig", &config, "--web.listen-address", &taken],
            "is in use; choose another address with --web.listen-address",
        ),
        (&["run", "--kubeconfig", &config, "--web.listen-address", "nonsense"], "--web.listen-address"),
        (
            &[
                "run",
                "--kubeconfig",
                &config,
                "--web.listen-address=127.0.0.1:0",
                "--web.health-address",
                &taken,
            ],
            "is in use; choose another address with --web.health-address",
        ),
        (
            &[
                "run",
                "--kubeconfig",
                &config,
                "--history.file",
                "/nonexistent/history",
                "--web.listen-address",
                "127.0.0.1:0",
            ],
            "cannot use history file /nonexistent/history: the directory /nonexistent does not exist; create it",
        ),
        (&["run", "--log.level", "loud"], "invalid value 'loud'"),
        (&["run", "--metrics.max-series", "many"], "many"),
        (&["run", "--metrics.max-series", "0"], "0 would hide every series; want at least 1"),
        (&["run", "--sources", "astrology"], "astrology"),
        (&["run", "--web.listen-adress", ":1"], "--web.listen-address"),
        (&["hash"], "KIND/NAME"),
        (&["hash"], "--file <FILE>"),
        (&["hash", "web"], "expected KIND/NAME"),
        (&["hash", "deploy/web/x"], "expected KIND/NAME"),
        (&["run", "--namespaces", "*"], "leave the flag out"),
        (&["run", "--namespaces", "shop,../x"], "lower-case letters"),
        (&["hash", "-f", "/nonexistent.yaml"], "cannot read /nonexistent.yaml"),
        (&["hash", "deploy/web", "--kubeconfig", &config], "cannot get deploy/web from the cluster"),
        (&["frobnicate"], "frobnicate"),
        (&[], "Usage"),
    ];
    for (arguments, message) in cases {
        let output = run(arguments, "", &[]);
        assert_eq!(output.code, Some(2), "{arguments:?}: {}", output.stderr);
        assert!(output.stderr.contains(message), "{arguments:?}: {}", output.stderr);
        assert!(!output.stderr.contains("panicked"), "{arguments:?}: {}", output.stderr);
    }
}

#[test]
fn accept_requires_owner_and_reason() {
    for (owner, reason, message) in [
        ("", "load test", "'--owner <NAME>': expected a text"),
        ("me", " ", "'--reason <TEXT>': expected a text"),
    ] {
        let output =
            run(&["accept", "deploy/web", "--for", "1d", "--owner", owner, "--reason", reason], "", &[]);
        assert!(output.code == Some(2) && output.stderr.contains(message), "{}", output.stderr);
    }
    let negative =
        run(&["accept", "deploy/web", "--for", "-1d", "--owner", "me", "--reason", "test"], "", &[]);
    assert_eq!(negative.code, Some(2));
    assert!(
        negative.stderr.contains("expected at least one hour and at most ten years"),
        "{}",
        negative.stderr
    );
}

#[test]
fn flag_overrides_environment_variable() {
    let output = run(&["run"], "", &[("DRIFT_KUBECONFIG", "/nonexistent/from-environment")]);
    assert!(output.stderr.contains("/nonexistent/from-environment"), "{}", output.stderr);
    let flag = ["run", "--kubeconfig", "/nonexistent/from-flag"];
    let output = run(&flag, "", &[("DRIFT_KUBECONFIG", "/nonexistent/from-environment")]);
    assert!(output.stderr.contains("/nonexistent/from-flag"), "{}", output.stderr);
}

#[test]
fn boolean_environment_variables_accept_common_spellings() {
    for (value, message) in [
        ("", "no cluster"),
        ("false", "no cluster"),
        ("1", "no cluster"),
        ("maybe", "expected true or false"),
    ] {
        for variable in ["DRIFT_EVENTS", "DRIFT_METRICS_HEALTH"] {
            let output = run(&["run"], "", &[(variable, value)]);
            assert!(output.stderr.contains(message), "{variable}={value}: {}", output.stderr);
        }
    }
}

#[test]
fn help_lists_commands_examples_and_exit_codes() {
    let output = run(&["--help"], "", &[]);
    assert_eq!(output.code, Some(0));
    for word in ["run", "hash", "Examples:", "Exit codes:"] {
        assert!(output.stdout.contains(word), "{word}");
    }
    assert!(run(&["--version"], "", &[]).stdout.starts_with("drift-exporter "));
}
