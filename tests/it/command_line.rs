//! The program as people run it: `hash`, bad flags, bad files.

use std::{
    io::Write as _,
    net::TcpListener,
    path::Path,
    process::{Command, Stdio},
};

use crate::support::objects::{HASH, deployment, service};

pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) fn run(arguments: &[&str], stdin: &str, environment: &[(&str, &str)]) -> Ended {
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
    // A program that ends early does not read all of its input.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn whole(api_version: &str, kind: &str, mut object: serde_json::Value) -> serde_json::Value {
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    object
}

/// A file in a folder; its path.
pub(crate) fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn hash_reads_files_lists_and_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let (web, svc) =
        (whole("apps/v1", "Deployment", deployment("web")), whole("v1", "Service", service("web")));
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
            let ended = run(&arguments, stdin, &[]);
            assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), expected.as_str()), "{}", ended.stderr);
        }
    }
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: shop}\ndata: {a: b}\n";
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
fn hash_names_the_bad_and_prints_the_good() {
    let folder = tempfile::tempdir().unwrap();
    let web = whole("apps/v1", "Deployment", deployment("web"));
    let text = format!(
        "{web}\n---\nkind: Deployment\nspec: [1\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: odd}}\nspec: {{replicas: many}}\n---\nkind: Nameless\n"
    );
    let file = write(folder.path(), "objects.yaml", &format!("# all kinds\n---\n{text}"));
    let ended = run(&["hash", "-f", &file], "", &[]);
    assert_eq!(ended.code, Some(1));
    assert_eq!(ended.stdout.lines().count(), 1, "{}", ended.stdout);
    let complaints: Vec<_> = ended.stderr.lines().collect();
    assert_eq!(complaints.len(), 3, "{}", ended.stderr);
    let place =
        complaints[0].strip_prefix(&format!("drift-exporter: {file}:")).expect("file, line and column");
    let (line, column) = place.split_once(':').unwrap();
    assert!((5..=6).contains(&line.parse::<usize>().unwrap()), "{place}");
    assert!(column.split(':').next().unwrap().parse::<usize>().is_ok(), "{place}");
    assert!(complaints[1].contains("Deployment odd: not a valid Deployment"), "{}", complaints[1]);
    assert!(complaints[2].contains("object 4: missing field apiVersion"), "{}", complaints[2]);

    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n";
    let ended = run(&["hash", "-a", "tfdrift-v1", "-f", "-"], pod, &[]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("tfdrift-v1 has no definition for Pod; use jcs-v1"), "{}", ended.stderr);
    assert_eq!(run(&["hash", "-f", "-"], "", &[]).code, Some(1));

    // A file that cannot be read hides no other one, and neither does a List in a List.
    let good = write(
        folder.path(),
        "good.json",
        &serde_json::json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "List", "items": [web]}]})
        .to_string(),
    );
    let ended = run(&["hash", "-f", "/nonexistent.yaml", "-f", &good], "", &[]);
    assert_eq!((ended.code, ended.stdout.lines().count()), (Some(2), 1), "{}", ended.stderr);
    let ended =
        run(&["hash", "-f", "-"], "apiVersion: v1\nkind: Pod\nmetadata: {name: \"a\\nb\\e[31m\"}\n", &[]);
    assert!(ended.stdout.lines().count() == 1 && !ended.stdout.contains('\u{1b}'), "{:?}", ended.stdout);
}

#[test]
fn a_kubeconfig_that_cannot_be_read_is_not_quoted() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "config", "users: [{name: a, user: {token: s3cret\n");
    let ended = run(&["run", "--kubeconfig", &file], "", &[]);
    assert!(ended.stderr.contains("line 1") && !ended.stderr.contains("s3cret"), "{}", ended.stderr);
    let ended = run(&["run"], "", &[("KUBECONFIG", &file)]);
    assert!(!ended.stderr.contains("s3cret"), "{}", ended.stderr);
}

#[test]
fn large_lists_in_yaml_are_ordinary() {
    let item = "- {apiVersion: v1, kind: Service, metadata: {name: web}, spec: {type: ClusterIP, ports: [{port: 80}, {port: 81}, {port: 82}]}}\n";
    let ended = run(
        &["hash", "-f", "-"],
        &format!("apiVersion: v1\nkind: List\nitems:\n{}", item.repeat(12_000)),
        &[],
    );
    assert_eq!((ended.code, ended.stdout.lines().count()), (Some(0), 12_000), "{}", ended.stderr);
}

#[test]
fn what_cannot_run_says_why_in_one_sentence_and_exits_2() {
    let folder = tempfile::tempdir().unwrap();
    let broken = write(folder.path(), "broken", "clusters: [");
    let cluster = "{name: c, cluster: {server: 'http://127.0.0.1:9'}}";
    let config = write(
        folder.path(),
        "config",
        &format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{cluster}]\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nusers: [{{name: u, user: {{}}}}]\n"
        ),
    );
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
                "--history.file",
                "/nonexistent/history",
                "--web.listen-address",
                "127.0.0.1:0",
            ],
            "cannot use history file",
        ),
        (&["run", "--log.level", "loud"], "invalid value 'loud'"),
        (&["run", "--metrics.max-series", "many"], "many"),
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
    for (arguments, told) in cases {
        let ended = run(arguments, "", &[]);
        assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(told), "{arguments:?}: {}", ended.stderr);
        assert!(!ended.stderr.contains("panicked"), "{arguments:?}: {}", ended.stderr);
    }
}

#[test]
fn whoever_accepts_says_who_and_why() {
    for (owner, reason, told) in [
        ("", "load test", "'--owner <NAME>': expected a text"),
        ("me", " ", "'--reason <TEXT>': expected a text"),
    ] {
        let ended =
            run(&["accept", "deploy/web", "--for", "1d", "--owner", owner, "--reason", reason], "", &[]);
        assert!(ended.code == Some(2) && ended.stderr.contains(told), "{}", ended.stderr);
    }
}

#[test]
fn flags_beat_the_environment() {
    let ended = run(&["run"], "", &[("DRIFT_KUBECONFIG", "/nonexistent/from-environment")]);
    assert!(ended.stderr.contains("/nonexistent/from-environment"), "{}", ended.stderr);
    let flag = ["run", "--kubeconfig", "/nonexistent/from-flag"];
    let ended = run(&flag, "", &[("DRIFT_KUBECONFIG", "/nonexistent/from-environment")]);
    assert!(ended.stderr.contains("/nonexistent/from-flag"), "{}", ended.stderr);
}

#[test]
fn switches_in_the_environment_are_read_as_people_write_them() {
    for (value, told) in [
        ("", "no cluster"),
        ("false", "no cluster"),
        ("1", "no cluster"),
        ("maybe", "expected true or false"),
    ] {
        for variable in ["DRIFT_EVENTS", "DRIFT_METRICS_HEALTH"] {
            let ended = run(&["run"], "", &[(variable, value)]);
            assert!(ended.stderr.contains(told), "{variable}={value}: {}", ended.stderr);
        }
    }
}

#[test]
fn help_teaches() {
    let ended = run(&["--help"], "", &[]);
    assert_eq!(ended.code, Some(0));
    for word in ["run", "hash", "Examples:", "Exit codes:"] {
        assert!(ended.stdout.contains(word), "{word}");
    }
    assert!(run(&["--version"], "", &[]).stdout.starts_with("drift-exporter "));
}
