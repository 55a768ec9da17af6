//! Notices that a file has changed, and reads it when nobody writes to it any more.

use std::{
    fs::{self, FileType, Metadata, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

/// A file that is looked at now and then.
///
/// Looking costs one call of `stat`. It sees what a notification may not: the symlinks that Kubernetes swaps for a `ConfigMap`, files
/// on network drives, files that are gone and come back.
#[derive(Debug)]
pub struct FileWatch {
    path: PathBuf,
    /// What the file was like when it was last read.
    read: Option<FileVersion>,
    /// What it was like at the last look.
    last: Option<FileVersion>,
    /// Why it could not be read, which is told once.
    failure: Option<String>,
}

/// What tells two states of a file apart without reading it. None of a file: it is not there.
///
/// The time of the last change to its entry is part of it, because rights can change and nothing else.
pub type FileVersion = Option<(u64, u64, [i64; 4], u64)>;

impl FileWatch {
    /// Watches a file, whose content is new at the first look.
    pub fn new(path: PathBuf) -> Self {
        Self { path, read: None, last: None, failure: None }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The content, if it is another than at the last time and nothing about it has changed since the last look. A file that
    /// cannot be read is tried at every look, and one reason is told once.
    pub fn look(&mut self) -> Option<io::Result<String>> {
        self.look_with(read_settings)
    }

    /// The content as it is; none if somebody writes to it at this moment.
    pub fn read_now(&mut self) -> Option<io::Result<String>> {
        self.read_with(read_settings)
    }

    fn look_with(&mut self, read: impl Fn(&Path) -> io::Result<String>) -> Option<io::Result<String>> {
        let now = stamp(&self.path);
        let settled = self.last == Some(now);
        self.last = Some(now);
        if self.read == Some(now) || !settled {
            return None;
        }
        let told = self.failure.clone();
        let content = self.read_with(read)?;
        (content.is_ok() || self.failure != told).then_some(content)
    }

    fn read_with(&mut self, read: impl Fn(&Path) -> io::Result<String>) -> Option<io::Result<String>> {
        let before = stamp(&self.path);
        let content = read(&self.path);
        if stamp(&self.path) != before {
            return None;
        }
        // What could not be read was not read: it may become readable with nothing to be seen of that from here.
        self.read = content.is_ok().then_some(before);
        self.failure = content.as_ref().err().map(ToString::to_string);
        self.last = Some(before);
        Some(content)
    }
}

/// As large as a `ConfigMap` can be.
const LARGEST: u64 = 1 << 20;

/// Reads a settings file of a size that one can have.
pub fn read_settings(path: &Path) -> io::Result<String> {
    check(&fs::metadata(path)?)?;
    // Another file may stand there by now. Opening a pipe would wait for somebody who writes to it.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    check(&file.metadata()?)?;
    let mut content = String::new();
    let read = file.take(LARGEST + 1).read_to_string(&mut content)?;
    check_size(read as u64)?;
    Ok(content)
}

/// Whether this is a file that ends, and soon.
fn check(metadata: &Metadata) -> io::Result<()> {
    if !metadata.is_file() {
        let message = format!("this is {}; want a regular file", what(metadata.file_type()));
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    check_size(metadata.len())
}

fn check_size(bytes: u64) -> io::Result<()> {
    if bytes <= LARGEST {
        return Ok(());
    }
    let message = format!("the file has more than {LARGEST} bytes, which is more than fits into a ConfigMap");
    Err(io::Error::new(io::ErrorKind::FileTooLarge, message))
}

fn what(file: FileType) -> &'static str {
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

/// What a file is like now.
pub fn stamp(path: &Path) -> FileVersion {
    let metadata = fs::metadata(path).ok()?;
    let times = [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()];
    Some((metadata.dev(), metadata.ino(), times, metadata.len()))
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        io,
        os::unix::{
            fs::{PermissionsExt as _, symlink},
            net::UnixListener,
        },
        path::Path,
        process::Command,
    };

    use super::{FileWatch, read_settings};

    fn content(watch: &mut FileWatch) -> Option<Result<String, ()>> {
        watch.look().map(|read| read.map_err(|_| ()))
    }

    #[test]
    fn a_file_is_read_once_it_rests_and_again_when_it_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.yaml");
        fs::write(&path, "a").unwrap();
        let mut watch = FileWatch::new(path.clone());
        assert_eq!(
            [content(&mut watch), content(&mut watch), content(&mut watch)],
            [None, Some(Ok("a".into())), None]
        );
        fs::write(&path, "half").unwrap();
        assert_eq!(content(&mut watch), None);
        fs::write(&path, "whole").unwrap();
        assert_eq!([content(&mut watch), content(&mut watch)], [None, Some(Ok("whole".into()))]);
        fs::remove_file(&path).unwrap();
        assert_eq!(
            [content(&mut watch), content(&mut watch), content(&mut watch)],
            [None, Some(Err(())), None]
        );
    }

    #[test]
    fn only_a_regular_file_is_opened_and_a_good_one_put_back_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let inside = |name: &str| folder.path().join(name);
        assert!(Command::new("mkfifo").arg(inside("pipe")).status().unwrap().success());
        fs::create_dir(inside("directory")).unwrap();
        let _socket = UnixListener::bind(inside("socket")).unwrap();
        symlink("pipe", inside("link")).unwrap();
        for (path, word) in [
            (inside("pipe"), "a named pipe"),
            (inside("link"), "a named pipe"),
            (inside("directory"), "a directory"),
            (inside("socket"), "a socket"),
            ("/dev/zero".into(), "a device"),
        ] {
            let wanted = format!("this is {word}; want a regular file");
            assert_eq!(read_settings(&path).unwrap_err().to_string(), wanted);
        }
        let mut watch = FileWatch::new(inside("pipe"));
        assert_eq!(
            [content(&mut watch), content(&mut watch), content(&mut watch)],
            [None, Some(Err(())), None]
        );
        fs::write(inside("good"), "good").unwrap();
        fs::rename(inside("good"), inside("pipe")).unwrap();
        assert_eq!([content(&mut watch), content(&mut watch)], [None, Some(Ok("good".into()))]);
    }

    #[test]
    fn other_rights_are_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.yaml");
        fs::write(&path, "a").unwrap();
        let mut watch = FileWatch::new(path.clone());
        assert_eq!(watch.read_now().unwrap().unwrap(), "a");
        assert_eq!([content(&mut watch), content(&mut watch)], [None, None]);
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert_eq!([content(&mut watch), content(&mut watch)], [None, Some(Ok("a".into()))]);
    }

    #[test]
    fn what_cannot_be_read_is_tried_at_every_look_and_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.yaml");
        fs::write(&path, "a").unwrap();
        let mut watch = FileWatch::new(path);
        let denied = |_: &Path| Err(io::Error::from(io::ErrorKind::PermissionDenied));
        let broken = |_: &Path| Err(io::Error::other("the disk is gone"));
        assert!(watch.look_with(denied).is_none());
        assert!(watch.look_with(denied).is_some_and(|read| read.is_err()));
        assert!(watch.look_with(denied).is_none());
        assert!(watch.look_with(broken).is_some_and(|read| read.is_err()));
        assert!(watch.look_with(broken).is_none());
        assert!(watch.read_with(broken).is_some_and(|read| read.is_err()), "whoever asks is told");
        assert_eq!([content(&mut watch), content(&mut watch)], [Some(Ok("a".into())), None]);
        assert!(watch.read_with(denied).is_some());
        assert_eq!(content(&mut watch), Some(Ok("a".into())), "what was good is good again");
    }

    #[test]
    fn the_symlinks_of_a_config_map_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        let inside = |name: &str| folder.path().join(name);
        for version in ["v1", "v2"] {
            fs::create_dir(inside(version)).unwrap();
            fs::write(inside(version).join("settings.yaml"), version).unwrap();
        }
        symlink("v1", inside("..data")).unwrap();
        symlink("..data/settings.yaml", inside("settings.yaml")).unwrap();
        let mut watch = FileWatch::new(inside("settings.yaml"));
        assert_eq!(watch.read_now().unwrap().unwrap(), "v1");
        symlink("v2", inside("..data_tmp")).unwrap();
        fs::rename(inside("..data_tmp"), inside("..data")).unwrap();
        assert_eq!([content(&mut watch), content(&mut watch)], [None, Some(Ok("v2".into()))]);
    }
}
