//! A program of the user's own that shows differences, called as kubectl calls it.

use std::{fs, io::Write, path::Path, process::Command};

use super::{Outcome, diff::Sides};

/// The variable that names the program.
pub(super) const PROGRAM: &str = "KUBECTL_EXTERNAL_DIFF";

/// Has another program show two folders with a file for each object. Its first word is the program; of the others kubectl takes
/// those that are letters, digits, `-` and `=`, and puts them after the folders.
pub(super) fn run(program: &str, sides: &[Sides], stdout: &mut dyn Write) -> Result<Outcome, String> {
    let unwritable = |error: std::io::Error| format!("cannot write files for {PROGRAM}: {error}");
    let folder = |name: &str| tempfile::Builder::new().prefix(name).tempdir().map_err(unwritable);
    let (declared, live) = (folder("DECLARED-")?, folder("LIVE-")?);
    for side in sides {
        write(declared.path(), &side.file, &side.declared).map_err(unwritable)?;
        write(live.path(), &side.file, &side.live).map_err(unwritable)?;
    }
    let (name, words) = split(program);
    let output = Command::new(name).arg(declared.path()).arg(live.path()).args(words).output();
    let output = output.map_err(|error| format!("cannot run `{name}`, which {PROGRAM} names: {error}"))?;
    stdout.write_all(&output.stdout).map_err(|error| format!("cannot write: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => Ok(Outcome::Fine),
        Some(1) => Ok(Outcome::Negative),
        _ => Err(format!("`{name}`, which {PROGRAM} names, ended with {}: {}", output.status, said.trim())),
    }
}

/// The program, and the words that it gets.
fn split(program: &str) -> (&str, Vec<&str>) {
    let mut words = program.split(' ');
    let name = words.next().unwrap_or_default();
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '=');
    (name, words.filter(|word| !word.is_empty() && word.chars().all(allowed)).collect())
}

fn write(folder: &Path, name: &str, text: &str) -> std::io::Result<()> {
    fs::write(folder.join(name), text)
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn words_are_split_as_kubectl_splits_them() {
        assert_eq!(split("colordiff -N -u"), ("colordiff", vec!["-N", "-u"]));
        assert_eq!(split("diff --color=always  ;rm /tmp/x $(y)"), ("diff", vec!["--color=always"]));
        assert_eq!(split("meld"), ("meld", vec![]));
    }
}
