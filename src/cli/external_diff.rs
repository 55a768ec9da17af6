//! A program of the user's own that shows differences, called as kubectl calls it.

use std::{fs, io::Write, path::Path, process::Command};

use super::{Outcome, diff::Sides};
use crate::types::ValueDigest;

/// The variable that names the program.
pub(super) const PROGRAM: &str = "KUBECTL_EXTERNAL_DIFF";

/// No file has a longer name, in bytes.
const LONGEST_NAME: usize = 255;

/// Has another program show two folders with a file for each object. Its first word is the program; of the others kubectl takes
/// those that are letters, digits, `-` and `=`, and puts them after the folders. It has this program's terminal: some ask, some
/// scroll, some use colours.
pub(super) fn run(program: &str, sides: &[Sides], stdout: &mut dyn Write) -> Result<Outcome, String> {
    let unwritable = |error: std::io::Error| format!("cannot write files for {PROGRAM}: {error}");
    let folder = |name: &str| tempfile::Builder::new().prefix(name).tempdir().map_err(unwritable);
    let (declared, live) = (folder("DECLARED-")?, folder("LIVE-")?);
    for side in sides {
        write(declared.path(), &side.file, &side.declared).map_err(unwritable)?;
        write(live.path(), &side.file, &side.live).map_err(unwritable)?;
    }
    let (name, words) = split(program);
    stdout.flush().map_err(|error| format!("cannot write: {error}"))?;
    let ended = Command::new(name).arg(declared.path()).arg(live.path()).args(words).status();
    let ended = ended.map_err(|error| format!("cannot run `{name}`, which {PROGRAM} names: {error}"))?;
    match ended.code() {
        Some(0) => Ok(Outcome::Fine),
        Some(1) => Ok(Outcome::Negative),
        _ => Err(format!("`{name}`, which {PROGRAM} names, ended with {ended}")),
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
    fs::write(folder.join(file_name(name)), text)
}

/// A name that a file can have, and no other: where it is too long, a digest stands for its end.
fn file_name(name: &str) -> String {
    if name.len() <= LONGEST_NAME {
        return name.to_owned();
    }
    let digest = ValueDigest::of(name).to_string().replace(':', "-");
    let kept = LONGEST_NAME - digest.len() - 1;
    let end = (0..=kept).rev().find(|at| name.is_char_boundary(*at)).unwrap_or_default();
    format!("{}.{digest}", &name[..end])
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_NAME, file_name, split};

    #[test]
    fn words_are_split_as_kubectl_splits_them() {
        assert_eq!(split("colordiff -N -u"), ("colordiff", vec!["-N", "-u"]));
        assert_eq!(split("diff --color=always  ;rm /tmp/x $(y)"), ("diff", vec!["--color=always"]));
        assert_eq!(split("meld"), ("meld", vec![]));
    }

    #[test]
    fn every_object_has_a_file_of_its_own_however_long_its_name_is() {
        let long = "ü".repeat(200);
        let names = [&long, &format!("{long}a"), &format!("{long}b")].map(|name| file_name(name));
        assert!(names.iter().all(|name| name.len() <= LONGEST_NAME), "{names:?}");
        assert!(names[0] != names[1] && names[1] != names[2], "{names:?}");
        assert_eq!(file_name("v1.Service.shop.web.helm"), "v1.Service.shop.web.helm");
    }
}
