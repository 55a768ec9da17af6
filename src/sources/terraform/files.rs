//! State files and their locks.

use std::{
    collections::BTreeMap,
    fs::{self, File, Metadata},
    io::{self, BufReader},
    path::{Path, PathBuf},
};

use jiff::{SignedDuration, Timestamp};

use super::state::{StateReader, TerraformState};
use crate::{
    config::{BaselineLimits, FileVersion},
    sources::{
        driver::{DecodeSlots, ReadResult, read_blocking},
        file_system::visible_names,
        inflate::{InflateReader, ReadError},
        metadata_watch::LockInfo,
    },
    types::Lock,
};

/// Larger than any lock file of Terraform.
const MAX_LOCK_SIZE: u64 = 64 << 10;

/// A state file that a scan found.
#[derive(Debug)]
pub(super) struct StateFile {
    /// The error if the file, or the directory at its path, cannot be opened.
    pub(super) version: io::Result<FileVersion>,
    /// None if it is not locked.
    pub(super) lock: Option<LockFile>,
}

#[derive(Debug)]
pub(super) struct LockFile {
    /// Empty if the file is not a lock of Terraform.
    pub(super) info: LockInfo,
    pub(super) modified: Option<Timestamp>,
}

/// Finds the states at these paths: files, and directories with `*.tfstate` files and workspaces.
pub(super) fn find_state_files(paths: &[PathBuf]) -> BTreeMap<PathBuf, StateFile> {
    let mut found = BTreeMap::new();
    for path in paths {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => match states_in_directory(path) {
                Ok(files) => found.extend(files.into_iter().map(|file| {
                    let state = StateFile::new(&file, fs::metadata(&file));
                    (file, state)
                })),
                Err(error) => drop(found.insert(path.clone(), StateFile::new(path, Err(error)))),
            },
            // To open a pipe would block.
            Ok(metadata) if !metadata.is_file() => {
                let error = io::Error::other("neither a file nor a directory");
                found.insert(path.clone(), StateFile::new(path, Err(error)));
            }
            metadata => drop(found.insert(path.clone(), StateFile::new(path, metadata))),
        }
    }
    found
}

fn states_in_directory(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for name in visible_names(directory)? {
        let path = directory.join(&name);
        if path.extension().is_some_and(|extension| extension == "tfstate") && path.is_file() {
            files.push(path);
        } else if name == "terraform.tfstate.d" && path.is_dir() {
            let workspaces = visible_names(&path)?.into_iter();
            let states = workspaces.map(|workspace| path.join(workspace).join("terraform.tfstate"));
            files.extend(states.filter(|state| state.is_file()));
        }
    }
    Ok(files)
}

impl StateFile {
    fn new(path: &Path, metadata: io::Result<Metadata>) -> Self {
        let version = metadata.map(|metadata| FileVersion::new(&metadata));
        Self { version, lock: read_lock_file(path) }
    }
}

/// Terraform locks `a.tfstate` by `.a.tfstate.lock.info`.
fn read_lock_file(path: &Path) -> Option<LockFile> {
    let name = path.file_name()?.to_str()?;
    let lock = path.with_file_name(format!(".{name}.lock.info"));
    let metadata = fs::metadata(&lock).ok()?;
    let is_valid = metadata.is_file() && metadata.len() < MAX_LOCK_SIZE;
    let info = is_valid.then(|| fs::read_to_string(&lock).ok()).flatten().unwrap_or_default();
    Some(LockFile { info: LockInfo::parse(&info), modified: FileVersion::new(&metadata).modified() })
}

pub(super) async fn read_file(
    path: PathBuf,
    reader: StateReader,
    slots: DecodeSlots,
    limits: BaselineLimits,
) -> (StateReader, ReadResult) {
    read_blocking(reader, &slots, usize::MAX, move |reader| decode_file(&path, reader, &limits)).await
}

fn decode_file(path: &Path, reader: &mut StateReader, limits: &BaselineLimits) -> ReadResult {
    let file = File::open(path).map_err(ReadError::Io)?;
    let version = FileVersion::new(&file.metadata().map_err(ReadError::Io)?);
    // Terraform creates the file before it writes the first state.
    if version.length == 0 {
        return Ok(TerraformState::default().into_baseline(version.modified(), None));
    }
    let text = InflateReader::of_state(BufReader::new(file), version.length, limits)?;
    Ok(reader.read(text, limits)?.into_baseline(version.modified(), None))
}

/// The lock with a description that was written at `last_write`. If it is invalid, the lock is not known to change objects.
pub(super) fn lock_of(info: &LockInfo, last_write: Option<Timestamp>, max_age: SignedDuration) -> Lock {
    let LockInfo { operation, who, created } = info.clone();
    // The clock of the holder may be ahead.
    let created =
        created.map(|claimed| last_write.map_or(claimed, |write| claimed.min(write))).or(last_write);
    let expires = created.and_then(|created: Timestamp| created.checked_add(max_age).ok());
    let in_flight_until = expires.filter(|_| changes_objects(&operation));
    Lock { operation: Some(operation), who, created, in_flight_until }
}

/// Whether an operation changes objects, and not only the state.
pub(super) fn changes_objects(operation: &str) -> bool {
    ["OperationTypeApply", "OperationTypeDestroy", "apply", "destroy"].contains(&operation)
}

#[cfg(test)]
mod tests {
    use std::{fs, io, path::Path};

    use jiff::{SignedDuration, Timestamp};

    use super::{LockInfo, find_state_files, lock_of};
    use crate::types::Lock;

    #[test]
    fn states_are_found_in_directories_and_workspaces_and_not_in_hidden_ones() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str| {
            let path = directory.path().join(name);
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
        let found = find_state_files(&[directory.path().to_owned(), "/nonexistent/x.tfstate".into()]);
        let summary: Vec<_> = found
            .iter()
            .map(|(path, file)| {
                let name = path.strip_prefix(directory.path()).unwrap_or(path);
                (name.to_str().unwrap(), file.version.is_ok(), file.lock.is_some())
            })
            .collect();
        assert_eq!(
            summary,
            [
                ("/nonexistent/x.tfstate", false, false),
                ("a.tfstate", true, true),
                ("terraform.tfstate.d/prod/terraform.tfstate", true, false)
            ]
        );
        assert!(
            found[Path::new("/nonexistent/x.tfstate")]
                .version
                .as_ref()
                .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        );
    }

    #[test]
    fn special_files_are_never_opened() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("shop.tfstate");
        let _open = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert!(find_state_files(&[directory.path().to_owned()]).is_empty());
        let found = find_state_files(std::slice::from_ref(&socket));
        assert!(
            found[&socket].version.as_ref().is_err_and(|error| error.to_string().contains("neither a file"))
        );
    }

    fn parse_lock(info: &str, last_write: Option<Timestamp>) -> Lock {
        lock_of(&LockInfo::parse(info), last_write, SignedDuration::from_mins(30))
    }

    #[test]
    fn only_an_apply_holds_until_it_expires() {
        let info = |operation: &str| {
            format!(
                r#"{{"ID":"a","Operation":"{operation}","Info":"","Who":"ci@runner-7","Version":"1.11.4","Created":"2026-01-01T00:00:00.123456789Z","Path":""}}"#
            )
        };
        let lock = parse_lock(&info("OperationTypeApply"), None);
        assert_eq!((&*lock.who, lock.operation.as_deref()), ("ci@runner-7", Some("OperationTypeApply")));
        assert_eq!(lock.in_flight_until, Some("2026-01-01T00:30:00.123456789Z".parse().unwrap()));
        for operation in ["OperationTypePlan", "init", "OperationTypeRefresh", ""] {
            assert_eq!(parse_lock(&info(operation), None).in_flight_until, None, "{operation}");
        }
    }

    #[test]
    fn creation_time_in_the_future_is_ignored() {
        let info = r#"{"Operation":"OperationTypeApply","Created":"2099-01-01T00:00:00Z"}"#;
        let last_write = "2026-01-01T00:00:00Z".parse().ok();
        assert_eq!(parse_lock(info, last_write).in_flight_until, "2026-01-01T00:30:00Z".parse().ok());
    }

    #[test]
    fn invalid_lock_info_has_no_holder() {
        for info in ["", "{", "[]", "7", r#"{"Operation":7}"#] {
            let lock = parse_lock(info, None);
            assert_eq!((&*lock.who, lock.in_flight_until), ("", None), "{info}");
        }
    }
}
