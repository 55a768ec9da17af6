//! Dockerfile and workflows, by the word of their linters.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::support::parts::program;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

#[track_caller]
fn finds_nothing(command: &mut Command) {
    let output = command.output().expect("the linter can be run");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && said.is_empty(), "{}", String::from_utf8_lossy(&said));
}

#[test]
fn actionlint_finds_nothing_wrong_with_the_workflows() {
    let files = ["ci", "release"].map(|name| path(&format!(".github/workflows/{name}.yaml")));
    // Where there is a shellcheck or not must make no difference.
    let linter = program("actionlint", "actionlint");
    finds_nothing(Command::new(linter).args(["-shellcheck=", "-pyflakes="]).args(files));
}

#[test]
fn nothing_is_wrong_with_the_dockerfile() {
    let linter = program("dockerfile-utils", "node_modules/.bin/dockerfile-utils");
    finds_nothing(Command::new(linter).arg("lint").arg(path("Dockerfile")));
}
