//! What people see on a terminal and no program that reads a pipe: colours, and how far a look is.

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
    programs::demo::{Demo, UNCHANGED},
};

/// A new terminal: what a person sees of it, and what a program writes to.
fn terminal() -> (File, File) {
    let seen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&seen).unwrap();
    unlockpt(&seen).unwrap();
    let path = ptsname(&seen, Vec::new()).unwrap();
    let path = std::ffi::OsStr::from_bytes(path.as_bytes()).to_owned();
    let flags = OFlags::NOCTTY.bits().cast_signed();
    let written = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).unwrap();
    (seen.into(), written)
}

/// What of a command's output goes to the terminal.
#[derive(Clone, Copy)]
enum Shown {
    Answer,
    Progress,
}

/// Runs a command with one of its outputs on a terminal; what is seen there.
fn seen(demo: &Demo, shown: Shown, arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let (mut seen, written) = terminal();
    let mut command = Command::new(env!("CARGO_BIN_EXE_drift-exporter"));
    command.args(arguments).env("DRIFT_KUBECONFIG", &demo.kubeconfig).env("HOME", "/nonexistent");
    command.env_remove("NO_COLOR").env("TERM", "xterm").envs(variables.iter().copied()).stdin(Stdio::null());
    match shown {
        Shown::Answer => command.stdout(written).stderr(Stdio::null()),
        Shown::Progress => command.stdout(Stdio::null()).stderr(written),
    };
    let mut child = command.spawn().unwrap();
    // The command holds the terminal open as long as anybody does.
    drop(command);
    let mut bytes = Vec::new();
    // The last one who writes to a terminal leaves an error behind, and no end.
    let _ = seen.read_to_end(&mut bytes);
    child.wait().unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_terminal_shows_colours_unless_somebody_says_otherwise() {
    let demo = Demo::start(&["--no-story"]);
    let refunds = "/apis/apps/v1/namespaces/payments/deployments/refunds";
    assert_eq!(patch(demo.api_port(), refunds, r#"{"spec":{"replicas":9}}"#), "HTTP/1.1 200 OK");
    let diff = ["diff", "deploy/refunds", "-n", "payments"];
    let coloured = seen(&demo, Shown::Answer, &diff, &[]);
    assert!(coloured.contains("\u{1b}[32m+  replicas: 9\u{1b}[0m"), "{coloured:?}");
    for variable in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let plain = seen(&demo, Shown::Answer, &diff, &[variable]);
        assert!(plain.contains("+  replicas: 9") && !plain.contains('\u{1b}'), "{plain:?}");
    }
}

#[test]
fn a_terminal_shows_how_far_a_look_is_and_nothing_of_that_stays() {
    let demo = UNCHANGED.get();
    let shown = seen(&demo, Shown::Progress, &["get", "svc", "-n", "shop"], &[]);
    assert!(shown.starts_with("\r\u{1b}[2Kreading the declared state"), "{shown:?}");
    let stays = shown.rsplit("\u{1b}[2K").next().unwrap();
    assert_eq!(stays.trim_end(), "none of 5 declared objects drifted", "{shown:?}");
}
