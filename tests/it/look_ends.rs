//! Exit codes of commands whose output is closed early.

use std::process::{Command, Stdio};

use crate::programs::demo::{Demo, UNCHANGED};

/// Runs a command with a closed stdout; returns its exit code and stderr.
fn run_with_closed_stdout(demo: &Demo, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drift-exporter"));
    command.args(arguments).env("DRIFT_KUBECONFIG", &demo.kubeconfig).env("HOME", "/nonexistent");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn closed_stdout_is_not_an_error() {
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
        let (exit_code, stderr) = run_with_closed_stdout(&demo, arguments);
        assert_eq!(exit_code, Some(code), "{arguments:?}: {stderr}");
        assert!(!stderr.contains("pipe"), "{arguments:?}: {stderr}");
    }
}
