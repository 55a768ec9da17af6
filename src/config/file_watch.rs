//! Detects changes of a file, and reads it once writers have finished.

use std::{
    fs::{self, FileType, Metadata, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use jiff::Timestamp;

/// A polled file.
///
/// A poll costs one call of `stat`. Unlike inotify it detects the symlinks that Kubernetes swaps for a `ConfigMap`, files on
/// network drives, and files that are deleted and created again.
#[derive(Debug)]
pub struct FileWatch {
    path: PathBuf,
    /// None before the first successful read.
    read: Option<PolledVersion>,
    /// None before the first poll.
    polled: Option<PolledVersion>,
    /// The last error, to report it once.
    failure: Option<String>,
}

/// None if the file does not exist.
type PolledVersion = Option<FileVersion>;

/// Differs if a file was written or replaced, or if its permissions changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileVersion {
    device: u64,
    inode: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    changed: (i64, i64),
    pub length: u64,
}

impl FileVersion {
    pub fn new(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            length: metadata.len(),
        }
    }

    /// None if the file does not exist.
    pub fn of(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|metadata| Self::new(&metadata))
    }

    pub fn modified(&self) -> Option<Timestamp> {
        let (seconds, nanoseconds) = self.modified;
        Timestamp::new(seconds, i32::try_from(nanoseconds).ok()?).ok()
    }
}

impl FileWatch {
    /// The first poll after the file is stable returns its content.
    pub fn new(path: PathBuf) -> Self {
        Self { path, read: None, polled: None, failure: None }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The content, if it changed since the last read and the file did not change since the last poll. A file that cannot be read
    /// is retried at every poll, and the same error is returned once.
    pub fn poll(&mut self) -> Option<io::Result<String>> {
        self.poll_with(read_small_file)
    }

    /// The current content; none while the file is being written.
    pub fn read_now(&mut self) -> Option<io::Result<String>> {
        self.read_with(read_small_file)
    }

    fn poll_with(&mut self, read: impl Fn(&Path) -> io::Result<String>) -> Option<io::Result<String>> {
        let now = Some(FileVersion::of(&self.path));
        let is_stable = self.polled == now;
        let is_read = self.read == now;
        self.polled = now;
        if is_read || !is_stable {
            return None;
        }
        let reported = self.failure.clone();
        let content = self.read_with(read)?;
        (content.is_ok() || self.failure != reported).then_some(content)
    }

    fn read_with(&mut self, read: impl Fn(&Path) -> io::Result<String>) -> Option<io::Result<String>> {
        let before = FileVersion::of(&self.path);
        let content = read(&self.path);
        if FileVersion::of(&self.path) != before {
            return None;
        }
        // A file may become readable without a change of its version, so a failed read does not count.
        self.read = content.is_ok().then(|| before.clone());
        self.failure = content.as_ref().err().map(ToString::to_string);
        self.polled = Some(before);
        Some(content)
    }
}

/// The size limit of a `ConfigMap`.
const MAX_BYTES: u64 = 1 << 20;

/// Reads a regular file of at most [`MAX_BYTES`].
pub fn read_small_file(path: &Path) -> io::Result<String> {
    check_type(&fs::metadata(path)?)?;
    // The file may have been replaced in between. Without `O_NONBLOCK`, opening a pipe blocks until it has a writer.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    check_type(&file.metadata()?)?;
    let mut content = String::new();
    let read = file.take(MAX_BYTES + 1).read_to_string(&mut content)?;
    check_size(read as u64)?;
    Ok(content)
}

fn check_type(metadata: &Metadata) -> io::Result<()> {
    if !metadata.is_file() {
        let message = format!("this is {}; want a regular file", type_name(metadata.file_type()));
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    check_size(metadata.len())
}

fn check_size(bytes: u64) -> io::Result<()> {
    if bytes <= MAX_BYTES {
        return Ok(());
    }
    let message = format!("the file has more than {MAX_BYTES} bytes, the limit of a ConfigMap");
    Err(io::Error::new(io::ErrorKind::FileTooLarge, message))
}

fn type_name(file: FileType) -> &'static str {
    if file.is_dir() {
        "a directory"
    } else if file.is_fifo() {
        "a named pipe"
    } else if file.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io, path::Path};

    use super::FileWatch;

    #[test]
    fn unreadable_file_is_retried_and_reported_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.yaml");
        fs::write(&path, "a").unwrap();
        let mut watch = FileWatch::new(path);
        let denied = |_: &Path| Err(io::Error::from(io::ErrorKind::PermissionDenied));
        let broken = |_: &Path| Err(io::Error::other("the disk is gone"));
        assert!(watch.poll_with(denied).is_none());
        assert!(watch.poll_with(denied).is_some_and(|read| read.is_err()));
        assert!(watch.poll_with(denied).is_none());
        assert!(watch.poll_with(broken).is_some_and(|read| read.is_err()));
        assert!(watch.poll_with(broken).is_none());
        assert!(
            watch.read_with(broken).is_some_and(|read| read.is_err()),
            "an explicit read reports the error again"
        );
        assert_eq!(watch.poll().unwrap().unwrap(), "a");
        assert!(watch.poll().is_none());
        assert!(watch.read_with(denied).is_some());
        assert_eq!(watch.poll().unwrap().unwrap(), "a", "the file is readable again");
    }
}
