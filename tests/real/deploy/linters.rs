//! Linters for the Dockerfile and the workflows.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::support::parts::program;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

#[track_caller]
fn assert_clean(command: &mut Command) {
    let output = command.output().expect("the linter can be run");
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && text.is_empty(), "{}", String::from_utf8_lossy(&text));
}

#[test]
fn actionlint_accepts_the_workflows() {
    let files = ["ci", "release"].map(|name| path(&format!(".github/workflows/{name}.yaml")));
    // The result must not depend on an installed shellcheck.
    let linter = program("actionlint", "actionlint");
    assert_clean(Command::new(linter).args(["-shellcheck=", "-pyflakes="]).args(files));
}

#[test]
fn linter_accepts_the_dockerfile() {
    let linter = program("dockerfile-utils", "node_modules/.bin/dockerfile-utils");
    assert_clean(Command::new(linter).arg("lint").arg(path("Dockerfile")));
}
