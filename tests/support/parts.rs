//! Paths of the real programs.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// The program `name` of a part: from `$KUBEBUILDER_ASSETS` if it is there, else built once into the user's cache.
pub fn program(part: &str, name: &str) -> PathBuf {
    if let Some(assets) = std::env::var_os("KUBEBUILDER_ASSETS") {
        let program = Path::new(&assets).join(name);
        if program.exists() {
            return program;
        }
    }
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("parts/build");
    let output = Command::new(build).arg(part).output().expect("parts/build can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let line = String::from_utf8(output.stdout).expect("a path");
    let (_, folder) = line.trim().split_once('=').expect("NAME=DIRECTORY");
    Path::new(folder).join(name)
}
