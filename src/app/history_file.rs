//! The history file keeps transitions and corroborations across restarts: one JSON object per line.

use std::{
    collections::HashSet,
    fs::{self, File, OpenOptions},
    io::{self, BufRead as _, BufReader, ErrorKind, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use serde::Serialize;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use crate::engine::{Corroboration, Corroborations, History, SnapshotReader, Transition};

/// The file is rewritten when it has grown to twice as many lines.
const MAX_LINES: usize = 10_000;

/// Every line starts with one of these, so an incomplete line still shows that an exporter wrote it.
const LINE_STARTS: [&[u8]; 2] = [b"{\"sequence\":", b"{\"corroborated_release\":"];

/// A file that would become larger than this is rewritten with half as many bytes. Of a larger one, only the end is read.
const MAX_BYTES: u64 = 256 << 20;

#[derive(Debug, thiserror::Error)]
pub enum HistoryFileError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(
        "the directory {directory} does not exist; create it, or choose another file with --history.file"
    )]
    NoDirectory { directory: PathBuf },
    #[error(
        "a symbolic link to a file that does not exist; create the file, or choose another one with --history.file"
    )]
    DanglingLink,
    #[error("not a file that an exporter wrote; choose another file with --history.file")]
    NotRegular,
    #[error(
        "no line of it was written by an exporter; it is left as it is, choose another file with --history.file"
    )]
    Foreign,
    #[error("another exporter is using it; choose another file with --history.file")]
    InUse,
}

#[derive(Debug)]
pub(super) struct HistoryFile {
    path: PathBuf,
    /// None after a failed write, which may have left an incomplete line: the next write replaces the file.
    file: Option<File>,
    lines: usize,
    bytes: u64,
    max_bytes: u64,
    /// The sequence number of the newest transition in the file.
    written: u64,
    /// The corroborations in the file.
    corroborations: Corroborations,
}

impl HistoryFile {
    /// Reads the history of an earlier run, and opens the file for appending. Drops lines that a crash left incomplete. A file in
    /// which an exporter wrote no line belongs to another program and is an error.
    pub(super) fn open(path: &Path) -> Result<(History, Self), HistoryFileError> {
        Self::open_limited(path, MAX_BYTES)
    }

    fn open_limited(path: &Path, max_bytes: u64) -> Result<(History, Self), HistoryFileError> {
        let mut history = History::restore([]);
        let mut corroborations: HashSet<Corroboration> = HashSet::new();
        let (mut invalid, mut has_own, mut has_foreign) = (0_usize, false, false);
        // A rename replaces a link, not the file that it leads to.
        let path = &match fs::canonicalize(path) {
            Ok(target) => target,
            Err(_) if path.is_symlink() => return Err(HistoryFileError::DanglingLink),
            Err(_) => path.to_owned(),
        };
        // Checked before the file is opened: opening a named pipe waits for a writer.
        match fs::metadata(path) {
            Ok(metadata) if !metadata.is_file() => return Err(HistoryFileError::NotRegular),
            Ok(metadata) => {
                let file = File::open(path)?;
                file.try_lock_shared().map_err(|_| HistoryFileError::InUse)?;
                let mut reader = BufReader::new(file);
                if metadata.len() > max_bytes {
                    warn!(path = %path.display(), bytes = metadata.len(), max_bytes, "The history file is too large; only its end is read.");
                    reader.seek(SeekFrom::Start(metadata.len() - max_bytes))?;
                    reader.skip_until(b'\n')?;
                    // Unless a line shows that an exporter wrote the file, it is left as it is.
                    (invalid, has_foreign) = (1, true);
                }
                for line in reader.split(b'\n') {
                    let line = line?;
                    match serde_json::from_slice(&line) {
                        Ok(transition) => history.restore_next(transition),
                        Err(_) => match serde_json::from_slice(&line) {
                            Ok(corroboration) => drop(corroborations.insert(corroboration)),
                            Err(_) => invalid += 1,
                        },
                    }
                    let text = without_zeros(&line);
                    let is_own = LINE_STARTS.iter().any(|start| text.starts_with(start));
                    has_own |= is_own;
                    has_foreign |= !is_own && !LINE_STARTS.iter().any(|start| start.starts_with(text));
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => check_directory(path)?,
            Err(error) => return Err(error.into()),
        }
        if invalid > 0 {
            if has_foreign && !has_own {
                return Err(HistoryFileError::Foreign);
            }
            warn!(path = %path.display(), invalid, "Dropped incomplete lines of the history file.");
        }
        history.corroborations = corroborations.into_iter().collect();
        let (written, corroborations) = (history.last_sequence(), history.corroborations.clone());
        let (path, file) = (path.to_owned(), None);
        let mut file = Self { path, file, lines: 0, bytes: 0, max_bytes, written, corroborations };
        file.rewrite(&history)?;
        Ok((history, file))
    }

    /// Appends new transitions until `stop` is cancelled; the last ones are written even then.
    pub(super) async fn run(mut self, mut state: SnapshotReader, stop: CancellationToken) {
        loop {
            let running = tokio::select! {
                changed = state.changed() => changed,
                () = stop.cancelled() => false,
            };
            let history = state.snapshot().history.clone();
            if let Err(error) = self.append(&history) {
                error!(path = %self.path.display(), %error, "Cannot write the history file; the next transition retries.");
            }
            if !running {
                return;
            }
        }
    }

    fn append(&mut self, history: &History) -> Result<(), HistoryFileError> {
        let new: Vec<&Transition> = history.after(self.written).map(|transition| &**transition).collect();
        let corroborations = &history.corroborations;
        let is_new = |corroboration: &&Corroboration| !self.corroborations.contains(corroboration);
        let (mut added, mut removed) = (Vec::new(), false);
        if !corroborations.is_same(&self.corroborations) {
            added.extend(corroborations.iter().filter(is_new));
            removed = self.corroborations.iter().any(|known| !corroborations.contains(known));
        }
        if new.is_empty() && added.is_empty() && !removed {
            return Ok(());
        }
        let mut lines = to_lines(new.iter().copied())?;
        lines.extend(to_lines(added.into_iter())?);
        let bytes = self.bytes + lines.len() as u64;
        let has_room = self.lines + new.len() <= 2 * MAX_LINES && bytes <= self.max_bytes;
        match self.file.take() {
            Some(mut file) if has_room && !removed => {
                file.write_all(&lines)?;
                self.file = Some(file);
                self.lines += new.len();
                self.bytes = bytes;
            }
            _ => self.rewrite(history)?,
        }
        self.written = history.last_sequence();
        self.corroborations = corroborations.clone();
        Ok(())
    }

    /// Writes the whole history to a new file, and renames it: a crash leaves either the old or the new file.
    fn rewrite(&mut self, history: &History) -> Result<(), HistoryFileError> {
        let transitions = to_lines(history.to_restore())?;
        let corroborations = to_lines(history.corroborations.iter())?;
        let kept = newest_lines(&transitions, usize::try_from(self.max_bytes / 2).unwrap_or(usize::MAX));
        if kept.len() < transitions.len() {
            warn!(path = %self.path.display(), "The history file is too large; its oldest transitions are dropped.");
        }
        let new_path = self.path.with_added_extension("new");
        let mut file = File::create(&new_path)?;
        file.write_all(kept)?;
        file.write_all(&corroborations)?;
        file.sync_all()?;
        fs::rename(&new_path, &self.path)?;
        let file = OpenOptions::new().append(true).open(&self.path)?;
        file.try_lock().map_err(|_| HistoryFileError::InUse)?;
        self.file = Some(file);
        self.lines = history.newest_first().count();
        self.bytes = (kept.len() + corroborations.len()) as u64;
        Ok(())
    }
}

/// The last lines that have at most this number of bytes together.
fn newest_lines(lines: &[u8], max_bytes: usize) -> &[u8] {
    let Some(excess) = lines.len().checked_sub(max_bytes).filter(|excess| *excess > 0) else { return lines };
    let end = lines[excess - 1..].iter().position(|byte| *byte == b'\n');
    end.map_or(&[], |end| &lines[excess + end..])
}

/// After a crash, a file that was extended but not yet written may contain zeros.
fn without_zeros(line: &[u8]) -> &[u8] {
    let start = line.iter().position(|byte| *byte != 0).unwrap_or(line.len());
    let end = line.iter().rposition(|byte| *byte != 0).map_or(start, |last| last + 1);
    &line[start..end]
}

fn to_lines<'a, T: Serialize + 'a>(records: impl Iterator<Item = &'a T>) -> io::Result<Vec<u8>> {
    let mut lines = Vec::new();
    for record in records {
        serde_json::to_writer(&mut lines, record)?;
        lines.push(b'\n');
    }
    Ok(lines)
}

/// The directory of a file that does not exist yet.
fn check_directory(path: &Path) -> Result<(), HistoryFileError> {
    match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(directory) if !directory.exists() => {
            Err(HistoryFileError::NoDirectory { directory: directory.to_owned() })
        }
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::{Corroboration, History, HistoryFile, Transition};
    use crate::types::{HelmRelease, Kind, ObjectKey};

    const LINE: &str = r#"{"sequence":7,"time":"2026-01-01T00:00:00Z","group":"apps","version":"v1","kind":"Deployment","plural":"deployments","namespaced":true,"namespace":"shop","name":"web","uid":"u","source":"annotation","from":"in_sync","to":"drifted","reason":null,"episode":null}"#;

    fn history(last: u64) -> History {
        let first: Transition = serde_json::from_str(LINE).unwrap();
        History::restore((1..=last).map(|sequence| Transition { sequence, ..first.clone() }))
    }

    #[test]
    fn restart_restores_written_transitions_and_drops_invalid_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        fs::write(&path, format!("{LINE}\nhalf a li")).unwrap();
        let (restored, mut file) = HistoryFile::open(&path).unwrap();
        assert_eq!(restored.last_sequence(), 7);
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{LINE}\n"));
        file.append(&history(9)).unwrap();
        drop(file);
        let (restored, _) = HistoryFile::open(&path).unwrap();
        assert_eq!((restored.last_sequence(), restored.newest_first().count()), (9, 3));
    }

    #[test]
    fn restart_restores_corroborations_and_removed_ones_are_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        let corroboration = |name: &str| Corroboration {
            release: HelmRelease { namespace: "ops".into(), name: "web".into() },
            key: ObjectKey::new(Kind::service(), "shop", name),
        };
        let with = |names: &[&str], last| {
            let mut history = history(last);
            history.corroborations = names.iter().map(|name| corroboration(name)).collect();
            history
        };
        let restored = || {
            let (history, _) = HistoryFile::open(&path).unwrap();
            let mut names: Vec<String> =
                history.corroborations.iter().map(|known| known.key.name.to_string()).collect();
            names.sort();
            (names, history.last_sequence())
        };
        let (_, mut file) = HistoryFile::open(&path).unwrap();
        file.append(&with(&["a"], 0)).unwrap();
        file.append(&with(&["a", "b"], 2)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 4, "each is written once");
        drop(file);
        assert_eq!(restored(), (vec!["a".to_owned(), "b".to_owned()], 2));
        let (_, mut file) = HistoryFile::open(&path).unwrap();
        file.append(&with(&["b"], 3)).unwrap();
        drop(file);
        assert_eq!(restored(), (vec!["b".to_owned()], 3));
        let text = fs::read_to_string(&path).unwrap();
        let line = text.lines().find(|line| line.contains("corroborated")).unwrap();
        assert!(line.contains(r#""corroborated_release":{"namespace":"ops","name":"web"}"#), "{line}");
    }

    #[test]
    fn file_that_ends_or_has_zeros_anywhere_is_repaired() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        let lines = format!("{LINE}\n{}\n", LINE.replace(":7,", ":8,"));
        for end in 0..=lines.len() {
            let complete = lines[..end].matches('\n').count();
            let (cut, zeros) = (&lines.as_bytes()[..end], vec![0; lines.len() - end]);
            for content in [cut.to_vec(), [cut, &zeros].concat(), [cut, &zeros, lines.as_bytes()].concat()] {
                fs::write(&path, &content).unwrap();
                let (restored, _) = HistoryFile::open(&path).unwrap_or_else(|error| panic!("{end}: {error}"));
                assert!(restored.newest_first().count() >= complete, "{end}");
                let repaired = fs::read_to_string(&path).unwrap();
                assert!(repaired.lines().all(|line| line.ends_with('}')), "{end}: {repaired}");
            }
        }
    }

    #[test]
    fn foreign_and_locked_files_are_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        for text in ["dear diary\n\n", "{\n  \"level\": 1\n}\n", "\0\0ELF"] {
            fs::write(&path, text).unwrap();
            assert!(HistoryFile::open(&path).unwrap_err().to_string().contains("left as it is"));
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        let device = folder.path().join("device");
        symlink("/dev/null", &device).unwrap();
        for odd in [&*device, folder.path()] {
            let error = HistoryFile::open(odd).unwrap_err().to_string();
            assert!(error.contains("not a file"), "{}: {error}", odd.display());
        }
        assert!(device.is_symlink(), "it was replaced");
        let path = folder.path().join("history");
        let _locked = HistoryFile::open(&path).unwrap();
        assert!(HistoryFile::open(&path).unwrap_err().to_string().contains("another exporter"));
    }

    #[test]
    fn file_behind_a_symbolic_link_is_written_and_the_link_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (link, target) = (folder.path().join("history"), folder.path().join("target"));
        symlink("target", &link).unwrap();
        let error = HistoryFile::open(&link).unwrap_err().to_string();
        assert!(error.contains("a symbolic link to a file that does not exist"), "{error}");
        fs::write(&target, format!("{LINE}\n")).unwrap();
        let (restored, mut file) = HistoryFile::open(&link).unwrap();
        assert_eq!(restored.last_sequence(), 7);
        file.append(&history(9)).unwrap();
        assert!(link.is_symlink(), "it was replaced");
        assert_eq!(fs::read_to_string(&target).unwrap().lines().count(), 3);
    }

    #[test]
    fn missing_directory_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("absent");
        let error = HistoryFile::open(&directory.join("history")).unwrap_err().to_string();
        let expected = format!("the directory {} does not exist; create it", directory.display());
        assert!(error.starts_with(&expected), "{error}");
    }

    #[test]
    fn file_has_at_most_its_maximum_of_bytes_and_a_larger_one_is_read_from_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        let line = LINE.len() as u64 + 1;
        let size = || fs::metadata(&path).unwrap().len();
        let (_, mut file) = HistoryFile::open_limited(&path, 10 * line).unwrap();
        for last in 1..=100 {
            file.append(&history(last)).unwrap();
            assert!(size() <= 10 * line, "{last}: {}", size());
        }
        drop(file);
        let (restored, _) = HistoryFile::open_limited(&path, 10 * line).unwrap();
        assert_eq!(restored.last_sequence(), 100);

        let lines: Vec<String> = (1..=9).map(|at| LINE.replace(":7,", &format!(":{at},"))).collect();
        fs::write(&path, lines.join("\n") + "\n").unwrap();
        let (restored, _) = HistoryFile::open_limited(&path, 4 * line + 3).unwrap();
        let sequences: Vec<u64> = restored.after(0).map(|known| known.sequence).collect();
        assert_eq!(sequences, [6, 7, 8, 9]);

        let foreign = "x".repeat(100);
        fs::write(&path, &foreign).unwrap();
        assert!(HistoryFile::open_limited(&path, 10).unwrap_err().to_string().contains("left as it is"));
        assert_eq!(fs::read_to_string(&path).unwrap(), foreign);
    }

    #[test]
    fn file_is_truncated_when_it_has_twice_the_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        let (_, mut file) = HistoryFile::open(&path).unwrap();
        for last in [9_000, 18_000, 27_000] {
            file.append(&history(last)).unwrap();
        }
        drop(file);
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        assert!((10_000..=20_000).contains(&lines), "{lines}");
        assert_eq!(HistoryFile::open(&path).unwrap().0.last_sequence(), 27_000);
    }
}
