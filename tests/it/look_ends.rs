//! How commands end: for whoever has heard enough, and for whom nothing can be seen.

use std::process::{Command, Stdio};

use crate::programs::demo::{Demo, UNCHANGED};

/// Runs a command whose output nobody reads; its exit code and what it said beside it.
fn unheard(demo: &Demo, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drift-exporter"));
    command.args(arguments).env("DRIFT_KUBECONFIG", &demo.kubeconfig).env("HOME", "/nonexistent");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn whoever_has_heard_enough_gets_no_error() {
    let demo = UNCHANGED.get();
    for (arguments, code) in [
        (&["get", "-A", "--all"][..], 0),
        (&["get", "-A", "--all", "-o", "json"], 0),
        (&["get", "deploy/nonesuch", "-n", "shop"], 1),
        (&["explain", "deploy/web", "-n", "shop"], 0),
        (&["hash", "deploy/web", "-n", "shop"], 0),
        (&["check", "--pre"], 0),
        (&["completions", "bash"], 0),
        (&["man"], 0),
    ] {
        let (ended, said) = unheard(&demo, arguments);
        assert_eq!(ended, Some(code), "{arguments:?}: {said}");
        assert!(!said.contains("pipe"), "{arguments:?}: {said}");
    }
}
