//! Which manifests there are.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// Whoever has more of them has named the wrong directory.
const MOST_FILES: usize = 50_000;
/// So has whoever has more of these: links may lead to each of them in many ways.
const MOST_FOLDERS: usize = 50_000;
/// Directories within directories; links may go round in circles.
const DEEPEST: usize = 32;
const EXTENSIONS: &[&str] = &["yaml", "yml", "json"];

/// Tells whether a file was written anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) modified: Option<SystemTime>,
    pub(super) length: u64,
    inode: u64,
    device: u64,
}

/// The manifests at a path, each under what it is called there: its own name, or its way from the directory.
pub(super) type Files = BTreeMap<PathBuf, Stamp>;

/// Looks for manifests: a file itself, or all in a directory and those below it. Links are followed, as git-sync and volumes
/// need it; what begins with a dot is not looked at. A directory that cannot be looked into stands for itself, and is found
/// unreadable like any manifest.
pub(super) fn scan(path: &Path) -> io::Result<Files> {
    let facts = fs::metadata(path)?;
    let mut files = Files::new();
    if facts.is_dir() {
        let mut walk = Walk { root: path, above: BTreeSet::new(), folders: 0, files };
        walk.descend(Path::new(""), &facts)?;
        files = walk.files;
    } else if facts.is_file() {
        files.insert(path.file_name().unwrap_or_default().into(), stamp(&facts));
    } else {
        return Err(io::Error::other("neither a file nor a directory"));
    }
    Ok(files)
}

/// A walk through a directory and all below it.
struct Walk<'a> {
    root: &'a Path,
    /// The directories that it is in.
    above: BTreeSet<(u64, u64)>,
    /// How many directories it has been in.
    folders: usize,
    files: Files,
}

impl Walk<'_> {
    fn descend(&mut self, way: &Path, facts: &Metadata) -> io::Result<()> {
        let identity = (facts.dev(), facts.ino());
        if self.above.len() >= DEEPEST || !self.above.insert(identity) {
            return Ok(());
        }
        self.folders += 1;
        if self.folders > MOST_FOLDERS {
            return Err(io::Error::other(format!("more than {MOST_FOLDERS} directories are in it")));
        }
        for entry in fs::read_dir(self.root.join(way))? {
            let name = entry?.file_name();
            if !name.as_encoded_bytes().starts_with(b".") {
                self.meet(way.join(name))?;
            }
        }
        self.above.remove(&identity);
        Ok(())
    }

    fn meet(&mut self, way: PathBuf) -> io::Result<()> {
        // What went meanwhile, or is a link to nothing, is not there.
        let Ok(facts) = fs::metadata(self.root.join(&way)) else { return Ok(()) };
        if facts.is_dir() {
            match self.descend(&way, &facts) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return Err(error),
                Err(_) => drop(self.above.remove(&(facts.dev(), facts.ino()))),
                Ok(()) => return Ok(()),
            }
        } else if !facts.is_file() || !is_manifest(&way) {
            return Ok(());
        }
        if self.files.len() >= MOST_FILES {
            return Err(io::Error::other(format!("more than {MOST_FILES} manifests are in it")));
        }
        self.files.insert(way, stamp(&facts));
        Ok(())
    }
}

fn is_manifest(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| EXTENSIONS.contains(&extension))
}

fn stamp(facts: &Metadata) -> Stamp {
    Stamp { modified: facts.modified().ok(), length: facts.len(), inode: facts.ino(), device: facts.dev() }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink, path::Path};

    use super::scan;

    fn found(path: &Path) -> Vec<String> {
        scan(path).unwrap().keys().map(|way| way.display().to_string()).collect()
    }

    #[test]
    fn manifests_are_found_through_links_and_not_in_hidden_places() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
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
        assert!(scan(&root.join("nowhere")).is_err());
    }

    #[test]
    fn a_swapped_link_shows_as_other_files() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for revision in [".1", ".2"] {
            fs::create_dir(root.join(revision)).unwrap();
            fs::write(root.join(revision).join("web.yaml"), "same length").unwrap();
        }
        symlink(".1", root.join("current")).unwrap();
        let before = scan(root).unwrap();
        assert_eq!(scan(root).unwrap(), before);
        symlink(".2", root.join("next")).unwrap();
        fs::rename(root.join("next"), root.join("current")).unwrap();
        assert_ne!(scan(root).unwrap(), before);
    }

    #[test]
    fn links_that_multiply_have_an_end() {
        let folder = tempfile::tempdir().unwrap();
        for at in 0..30 {
            let path = folder.path().join(at.to_string());
            fs::create_dir(&path).unwrap();
            for way in ["left", "right"] {
                symlink(format!("../{}", at + 1), path.join(way)).unwrap();
            }
        }
        let error = scan(folder.path()).unwrap_err();
        assert!(error.to_string().contains("directories"), "{error}");
    }
}
