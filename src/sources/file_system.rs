//! Files on disk, identified without reading them.

use std::{
    ffi::OsString,
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt as _,
    path::Path,
    time::SystemTime,
};

use jiff::Timestamp;

/// Differs if a file was written or replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileVersion {
    modified: Option<SystemTime>,
    pub(super) length: u64,
    inode: u64,
    device: u64,
}

impl FileVersion {
    pub(super) fn new(metadata: &Metadata) -> Self {
        Self {
            modified: metadata.modified().ok(),
            length: metadata.len(),
            inode: metadata.ino(),
            device: metadata.dev(),
        }
    }

    pub(super) fn modified(&self) -> Option<Timestamp> {
        self.modified.and_then(|time| Timestamp::try_from(time).ok())
    }
}

/// The names in a directory that do not begin with a dot, as the inner directories of mounted volumes do.
pub(super) fn visible_names(directory: &Path) -> io::Result<Vec<OsString>> {
    let names = fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name()));
    let is_visible = |name: &io::Result<OsString>| {
        name.as_ref().map_or(true, |name| !name.as_encoded_bytes().starts_with(b"."))
    };
    names.filter(is_visible).collect()
}
