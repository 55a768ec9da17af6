//! Notices that a file has changed, and reads it when nobody writes to it any more.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
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
    read: Option<Stamp>,
    /// What it was like at the last look.
    last: Option<Stamp>,
}

/// What tells two states of a file apart without reading it. None of a file: it is not there.
type Stamp = Option<(u64, u64, i64, i64, u64)>;

impl FileWatch {
    /// Watches a file, whose content is new at the first look.
    pub fn new(path: PathBuf) -> Self {
        Self { path, read: None, last: None }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The content, if it is another than at the last time and nothing about it has changed since the last look.
    pub fn look(&mut self) -> Option<io::Result<String>> {
        let now = stamp(&self.path);
        let settled = self.last == Some(now);
        self.last = Some(now);
        if self.read == Some(now) || !settled {
            return None;
        }
        self.read_now()
    }

    /// The content as it is; none if somebody writes to it at this moment.
    pub fn read_now(&mut self) -> Option<io::Result<String>> {
        let before = stamp(&self.path);
        let content = read_settings(&self.path);
        if stamp(&self.path) != before {
            return None;
        }
        self.read = Some(before);
        self.last = Some(before);
        Some(content)
    }
}

/// As large as a `ConfigMap` can be.
const LARGEST: u64 = 1 << 20;

/// Reads a settings file of a size that one can have.
pub fn read_settings(path: &Path) -> io::Result<String> {
    let mut content = String::new();
    let read = File::open(path)?.take(LARGEST + 1).read_to_string(&mut content)?;
    if read as u64 > LARGEST {
        let message =
            format!("the file has more than {LARGEST} bytes, which is more than fits into a ConfigMap");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(content)
}

fn stamp(path: &Path) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino(), metadata.mtime(), metadata.mtime_nsec(), metadata.len()))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::FileWatch;

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
