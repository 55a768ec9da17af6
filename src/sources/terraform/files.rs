//! Which files hold states, and who writes a state right now.

use std::{
    collections::BTreeMap,
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use crate::types::Lock;

/// A file as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileSeen {
    /// What tells one version of it from another; or why it cannot be looked at.
    pub(super) stamp: Result<Stamp, Box<str>>,
    /// What is written down about its lock, and since when, where somebody holds it.
    pub(super) held: Option<(Box<str>, Option<Timestamp>)>,
}

/// What tells one version of a file from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    modified: Option<SystemTime>,
    length: u64,
    inode: u64,
}

/// The states in these files and directories.
pub(super) fn scan(given: &[PathBuf]) -> BTreeMap<PathBuf, FileSeen> {
    let mut found = BTreeMap::new();
    for path in given {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => match states_in(path) {
                Ok(files) => found.extend(files.into_iter().map(|file| {
                    let seen = look(&file, fs::metadata(&file));
                    (file, seen)
                })),
                Err(error) => drop(found.insert(path.clone(), look(path, Err(error)))),
            },
            // Opening a pipe would wait for somebody to write to it.
            Ok(metadata) if !metadata.is_file() => {
                let error = io::Error::other("it is neither a file nor a directory");
                found.insert(path.clone(), look(path, Err(error)));
            }
            metadata => drop(found.insert(path.clone(), look(path, metadata))),
        }
    }
    found
}

/// `*.tfstate` in a directory, and those of its workspaces.
fn states_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in visible(folder)? {
        if path.extension().is_some_and(|extension| extension == "tfstate") && path.is_file() {
            files.push(path);
        } else if path.file_name().is_some_and(|name| name == "terraform.tfstate.d") && path.is_dir() {
            let states = visible(&path)?.into_iter().map(|workspace| workspace.join("terraform.tfstate"));
            files.extend(states.filter(|state| state.is_file()));
        }
    }
    Ok(files)
}

/// What is in a directory and does not begin with a dot, as the inner parts of mounted volumes do.
fn visible(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            paths.push(entry.path());
        }
    }
    Ok(paths)
}

fn look(path: &Path, metadata: io::Result<Metadata>) -> FileSeen {
    let stamp = metadata.map_err(|error| error.to_string().into()).map(|metadata| Stamp {
        modified: metadata.modified().ok(),
        length: metadata.len(),
        inode: metadata.ino(),
    });
    FileSeen { stamp, held: lock_of(path) }
}

/// Terraform writes who holds the lock of `a.tfstate` into `.a.tfstate.lock.info`.
fn lock_of(path: &Path) -> Option<(Box<str>, Option<Timestamp>)> {
    let name = path.file_name()?.to_str()?;
    let lock = path.with_file_name(format!(".{name}.lock.info"));
    let metadata = fs::metadata(&lock).ok()?;
    let since = metadata.modified().ok().and_then(|time| Timestamp::try_from(time).ok());
    // Larger than any that Terraform writes.
    let readable = metadata.is_file() && metadata.len() < 64 << 10;
    let info = readable.then(|| fs::read_to_string(&lock).ok()).flatten().unwrap_or_default();
    Some((info.into(), since))
}

/// What Terraform writes down about a lock.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Info {
    operation: Box<str>,
    who: Box<str>,
    created: Box<str>,
}

/// The lock that is held with this information, at the latest since `seen`.
///
/// Where nobody can read what it says, nobody knows that objects are being changed.
pub(super) fn read_lock(info: &str, seen: Option<Timestamp>, max_age: SignedDuration) -> Lock {
    let Info { operation, who, created } = serde_json::from_str(info).unwrap_or_default();
    // Nobody takes a lock after it was seen; clocks may differ, and texts may lie.
    let told: Option<Timestamp> = created.parse().ok();
    let created = told.map(|told| seen.map_or(told, |seen| told.min(seen))).or(seen);
    let until = created.and_then(|created: Timestamp| created.checked_add(max_age).ok());
    let holds_until = until.filter(|_| changes_objects(&operation));
    Lock { operation, who, created, holds_until }
}

/// Whether whoever holds a lock for this changes objects, and not only looks or writes the state.
pub(super) fn changes_objects(operation: &str) -> bool {
    ["OperationTypeApply", "OperationTypeDestroy", "apply", "destroy"].contains(&operation)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use jiff::SignedDuration;

    use super::{read_lock, scan};

    #[test]
    fn states_are_found_in_directories_and_workspaces_and_not_in_hidden_ones() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "{}").unwrap();
        };
        for name in [
            "a.tfstate",
            "b.tfstate.backup",
            ".hidden.tfstate",
            ".terraform/c.tfstate",
            "deeper/d.tfstate",
            "terraform.tfstate.d/prod/terraform.tfstate",
            ".a.tfstate.lock.info",
        ] {
            write(name);
        }
        let found = scan(&[folder.path().to_owned(), "/nonexistent/x.tfstate".into()]);
        let told: Vec<_> = found
            .iter()
            .map(|(path, seen)| {
                let name = path.strip_prefix(folder.path()).unwrap_or(path);
                (name.to_str().unwrap(), seen.stamp.is_ok(), seen.held.is_some())
            })
            .collect();
        assert_eq!(
            told,
            [
                ("/nonexistent/x.tfstate", false, false),
                ("a.tfstate", true, true),
                ("terraform.tfstate.d/prod/terraform.tfstate", true, false)
            ]
        );
        assert!(
            found[Path::new("/nonexistent/x.tfstate")]
                .stamp
                .as_ref()
                .is_err_and(|why| why.contains("No such"))
        );
    }

    #[test]
    fn what_is_no_file_is_never_opened() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("shop.tfstate");
        let _open = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert!(scan(&[folder.path().to_owned()]).is_empty());
        let found = scan(std::slice::from_ref(&socket));
        assert!(found[&socket].stamp.as_ref().is_err_and(|why| why.contains("neither a file")));
    }

    const HALF_AN_HOUR: SignedDuration = SignedDuration::from_mins(30);

    #[test]
    fn only_an_apply_holds_and_not_for_ever() {
        let info = |operation: &str| {
            format!(
                r#"{{"ID":"a","Operation":"{operation}","Info":"","Who":"ci@runner-7","Version":"1.11.4","Created":"2026-01-01T00:00:00.123456789Z","Path":""}}"#
            )
        };
        let lock = read_lock(&info("OperationTypeApply"), None, HALF_AN_HOUR);
        assert_eq!((&*lock.who, &*lock.operation), ("ci@runner-7", "OperationTypeApply"));
        assert_eq!(lock.holds_until, Some("2026-01-01T00:30:00.123456789Z".parse().unwrap()));
        for operation in ["OperationTypePlan", "init", "OperationTypeRefresh", ""] {
            assert_eq!(read_lock(&info(operation), None, HALF_AN_HOUR).holds_until, None, "{operation}");
        }
    }

    #[test]
    fn nobody_holds_a_lock_since_the_future() {
        let info = r#"{"Operation":"OperationTypeApply","Created":"2099-01-01T00:00:00Z"}"#;
        let seen = "2026-01-01T00:00:00Z".parse().ok();
        assert_eq!(read_lock(info, seen, HALF_AN_HOUR).holds_until, "2026-01-01T00:30:00Z".parse().ok());
    }

    #[test]
    fn what_cannot_be_read_is_a_lock_of_nobody() {
        for info in ["", "{", "[]", "7", r#"{"Operation":7}"#] {
            let lock = read_lock(info, None, HALF_AN_HOUR);
            assert_eq!((&*lock.who, lock.holds_until), ("", None), "{info}");
        }
    }
}
