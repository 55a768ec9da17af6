//! Output on a terminal: colours and progress.

use std::{
    fs::{File, OpenOptions},
    io::Read as _,
    os::unix::{ffi::OsStrExt as _, fs::OpenOptionsExt as _},
    process::{Command, Stdio},
};

use rustix::{
    fs::OFlags,
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
};

use crate::{
    demo::patch,
    support::demo::{Demo, UNCHANGED},
};

/// A new pseudo-terminal: the side of the user and the side of the program.
fn terminal() -> (File, File) {
    let user_side = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&user_side).unwrap();
    unlockpt(&user_side).unwrap();
    let path = ptsname(&user_side, Vec::new()).unwrap();
    let path = std::ffi::OsStr::from_bytes(path.as_bytes()).to_owned();
    let flags = OFlags::NOCTTY.bits().cast_signed();
    let program_side = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).unwrap();
    (user_side.into(), program_side)
}

/// The output of a command that goes to the terminal.
#[derive(Clone, Copy)]
enum TerminalOutput {
    Stdout,
    Stderr,
}

/// Runs a command with one of its outputs on a terminal; returns that output.
fn run_on_terminal(
    demo: &Demo,
    output: TerminalOutput,
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> String {
    let (mut user_side, program_side) = terminal();
    let mut command = Command::new(env!("CARGO_BIN_EXE_drift-exporter"));
    command
        .args(arguments)
        .env("DRIFT_KUBECONFIG", &demo.kubeconfig)
        .env("HOME", "/nonexistent")
        .env("DRIFT_TRUSTED_NAMESPACES", "terraform");
    command.env_remove("NO_COLOR").env("TERM", "xterm").envs(variables.iter().copied()).stdin(Stdio::null());
    match output {
        TerminalOutput::Stdout => command.stdout(program_side).stderr(Stdio::null()),
        TerminalOutput::Stderr => command.stdout(Stdio::null()).stderr(program_side),
    };
    let mut child = command.spawn().unwrap();
    // The command keeps its side of the terminal open.
    drop(command);
    let mut bytes = Vec::new();
    // Reading returns an error instead of EOF after the last writer has closed the terminal.
    let _ = user_side.read_to_end(&mut bytes);
    child.wait().unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn terminal_shows_colours_unless_disabled() {
    let demo = Demo::start(&["--no-story"]);
    let refunds = "/apis/apps/v1/namespaces/payments/deployments/refunds";
    assert_eq!(patch(demo.api_port(), refunds, r#"{"spec":{"replicas":9}}"#), "HTTP/1.1 200 OK");
    let diff = ["diff", "deploy/refunds", "-n", "payments"];
    let coloured = run_on_terminal(&demo, TerminalOutput::Stdout, &diff, &[]);
    assert!(coloured.contains("\u{1b}[32m+  replicas: 9\u{1b}[0m"), "{coloured:?}");
    for variable in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let plain = run_on_terminal(&demo, TerminalOutput::Stdout, &diff, &[variable]);
        assert!(plain.contains("+  replicas: 9") && !plain.contains('\u{1b}'), "{plain:?}");
    }
}

#[test]
fn terminal_shows_progress_and_clears_it() {
    let demo = UNCHANGED.get();
    let output = run_on_terminal(&demo, TerminalOutput::Stderr, &["get", "svc", "-n", "shop"], &[]);
    assert!(output.starts_with("\r\u{1b}[2Kreading the declared state"), "{output:?}");
    let stays = output.rsplit("\u{1b}[2K").next().unwrap();
    assert_eq!(stays.trim_end(), "none of 5 declared objects drifted", "{output:?}");
}

/// Runs a command with a closed stdout; returns its exit code and stderr.
fn run_with_closed_stdout(demo: &Demo, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drift-exporter"));
    command
        .args(arguments)
        .env("DRIFT_KUBECONFIG", &demo.kubeconfig)
        .env("HOME", "/nonexistent")
        .env("DRIFT_TRUSTED_NAMESPACES", "terraform");
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
