//! Directories on disk.

use std::{ffi::OsString, fs, io, path::Path};

/// The names in a directory that do not begin with a dot, as the inner directories of mounted volumes do.
pub(super) fn visible_names(directory: &Path) -> io::Result<Vec<OsString>> {
    let names = fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name()));
    let is_visible = |name: &io::Result<OsString>| {
        name.as_ref().map_or(true, |name| !name.as_encoded_bytes().starts_with(b"."))
    };
    names.filter(is_visible).collect()
}
