//! Finds manifests in a directory tree.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use crate::{config::FileVersion, sources::file_system::visible_names};

/// More files suggest a wrong path in the settings.
const MAX_FILES: usize = 50_000;
/// Symbolic links may lead to the same directory in many ways.
const MAX_DIRECTORIES: usize = 50_000;
/// Symbolic links may form cycles.
const MAX_DEPTH: usize = 32;
const EXTENSIONS: &[&str] = &["yaml", "yml", "json"];

/// By file name, or by path relative to the directory.
pub(super) type ManifestFiles = BTreeMap<PathBuf, FileVersion>;

/// Lists a single manifest, or all manifests below a directory. Follows symbolic links, as git-sync and volumes require it, and
/// ignores hidden files. A directory without read permission is listed itself, so that it is reported as unreadable.
pub(super) fn list_manifests(path: &Path) -> io::Result<ManifestFiles> {
    let metadata = fs::metadata(path)?;
    let mut files = ManifestFiles::new();
    if metadata.is_dir() {
        let mut walk = DirectoryWalk { root: path, ancestors: BTreeSet::new(), directories: 0, files };
        walk.descend(Path::new(""), &metadata)?;
        files = walk.files;
    } else if metadata.is_file() {
        files.insert(path.file_name().unwrap_or_default().into(), FileVersion::new(&metadata));
    } else {
        return Err(io::Error::other("neither a file nor a directory"));
    }
    Ok(files)
}

struct DirectoryWalk<'a> {
    root: &'a Path,
    /// Device and inode of the directories from the root to the current one.
    ancestors: BTreeSet<(u64, u64)>,
    /// The number of directories visited.
    directories: usize,
    files: ManifestFiles,
}

impl DirectoryWalk<'_> {
    fn descend(&mut self, relative_path: &Path, metadata: &Metadata) -> io::Result<()> {
        let identity = (metadata.dev(), metadata.ino());
        if self.ancestors.len() >= MAX_DEPTH || !self.ancestors.insert(identity) {
            return Ok(());
        }
        self.directories += 1;
        if self.directories > MAX_DIRECTORIES {
            return Err(io::Error::other(format!("contains more than {MAX_DIRECTORIES} directories")));
        }
        for name in visible_names(&self.root.join(relative_path))? {
            self.visit(relative_path.join(name))?;
        }
        self.ancestors.remove(&identity);
        Ok(())
    }

    fn visit(&mut self, relative_path: PathBuf) -> io::Result<()> {
        // Deleted meanwhile, or a dangling link.
        let Ok(metadata) = fs::metadata(self.root.join(&relative_path)) else { return Ok(()) };
        if metadata.is_dir() {
            match self.descend(&relative_path, &metadata) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return Err(error),
                Err(_) => drop(self.ancestors.remove(&(metadata.dev(), metadata.ino()))),
                Ok(()) => return Ok(()),
            }
        } else if !metadata.is_file() || !is_manifest(&relative_path) {
            return Ok(());
        }
        if self.files.len() >= MAX_FILES {
            return Err(io::Error::other(format!("contains more than {MAX_FILES} manifests")));
        }
        self.files.insert(relative_path, FileVersion::new(&metadata));
        Ok(())
    }
}

fn is_manifest(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| EXTENSIONS.contains(&extension))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink, path::Path};

    use super::list_manifests;

    fn found(path: &Path) -> Vec<String> {
        list_manifests(path).unwrap().keys().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn manifests_are_found_through_links_and_not_in_hidden_directories() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for name in [".git/a.yaml", ".rev/shop/web.yaml", ".rev/shop/deep/b.yml", ".rev/notes.txt", "c.json"]
        {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        symlink(".rev", root.join("current")).unwrap();
        symlink("..", root.join(".rev/shop/up")).unwrap();
        symlink("nowhere", root.join("gone.yaml")).unwrap();
        assert_eq!(found(root), ["c.json", "current/shop/deep/b.yml", "current/shop/web.yaml"]);
        assert_eq!(found(&root.join("c.json")), ["c.json"]);
        assert!(list_manifests(&root.join("nowhere")).is_err());
    }

    #[test]
    fn swapped_link_changes_the_file_versions() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for revision in [".1", ".2"] {
            fs::create_dir(root.join(revision)).unwrap();
            fs::write(root.join(revision).join("web.yaml"), "same length").unwrap();
        }
        symlink(".1", root.join("current")).unwrap();
        let before = list_manifests(root).unwrap();
        assert_eq!(list_manifests(root).unwrap(), before);
        symlink(".2", root.join("next")).unwrap();
        fs::rename(root.join("next"), root.join("current")).unwrap();
        assert_ne!(list_manifests(root).unwrap(), before);
    }

    #[test]
    fn exponentially_many_links_are_limited() {
        let directory = tempfile::tempdir().unwrap();
        for at in 0..30 {
            let path = directory.path().join(at.to_string());
            fs::create_dir(&path).unwrap();
            for name in ["left", "right"] {
                symlink(format!("../{}", at + 1), path.join(name)).unwrap();
            }
        }
        let error = list_manifests(directory.path()).unwrap_err();
        assert!(error.to_string().contains("directories"), "{error}");
    }
}
