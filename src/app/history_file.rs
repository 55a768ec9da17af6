//! The history file: one transition as JSON per line, so that the history survives a restart.

use std::{
    collections::VecDeque,
    fs::{self, File, OpenOptions},
    io::{self, BufRead as _, BufReader, ErrorKind, Write as _},
    path::{Path, PathBuf},
};

use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use crate::engine::{History, SnapshotReader, Transition};

/// The file is truncated to this number of lines when it has grown to twice as many.
const MAX_LINES: usize = 10_000;

/// No history file is larger than this.
const MAX_BYTES: u64 = 256 << 20;

#[derive(Debug, thiserror::Error)]
pub enum HistoryFileError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(
        "the directory {directory} does not exist; create it, or choose another file with --history.file"
    )]
    NoDirectory { directory: PathBuf },
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
    /// The sequence number of the newest transition in the file.
    written: u64,
}

impl HistoryFile {
    /// Reads the history of an earlier run, and opens the file for appending. Invalid lines are dropped, but
    /// a file without any valid line belongs to another program and is an error.
    pub(super) fn open(path: &Path) -> Result<(History, Self), HistoryFileError> {
        let mut transitions: VecDeque<Transition> = VecDeque::new();
        let mut invalid = 0_usize;
        // Checked before the file is opened: opening a named pipe waits for a writer.
        match fs::metadata(path) {
            Ok(metadata) if !metadata.is_file() || metadata.len() > MAX_BYTES => {
                return Err(HistoryFileError::NotRegular);
            }
            Ok(_) => {
                let file = File::open(path)?;
                file.try_lock_shared().map_err(|_| HistoryFileError::InUse)?;
                for line in BufReader::new(file).split(b'\n') {
                    match serde_json::from_slice(&line?) {
                        Ok(transition) => transitions.push_back(transition),
                        Err(_) => invalid += 1,
                    }
                    if transitions.len() > MAX_LINES {
                        transitions.pop_front();
                    }
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => check_directory(path)?,
            Err(error) => return Err(error.into()),
        }
        if invalid > 0 && transitions.is_empty() {
            return Err(HistoryFileError::Foreign);
        }
        if invalid > 0 {
            warn!(path = %path.display(), invalid, "Dropped invalid lines of the history file.");
        }
        let lines = transitions.len();
        let history = History::restore(transitions);
        let file = Some(rewrite(path, &history)?);
        let written = history.last_sequence();
        Ok((history, Self { path: path.to_owned(), file, lines, written }))
    }

    /// Appends new transitions until `stop` is cancelled; the last ones are written even then.
    pub(super) async fn run(mut self, mut state: SnapshotReader, stop: CancellationToken) {
        loop {
            let running = tokio::select! {
                changed = state.changed() => changed,
                () = stop.cancelled() => false,
            };
            let history = state.snapshot().history.clone();
            if let Err(error) = tokio::task::block_in_place(|| self.append(&history)) {
                error!(path = %self.path.display(), %error, "Cannot write the history file; the next transition retries.");
            }
            if !running {
                return;
            }
        }
    }

    fn append(&mut self, history: &History) -> Result<(), HistoryFileError> {
        let new: Vec<&Transition> = history.after(self.written).map(|transition| &**transition).collect();
        let Some(last) = new.last().map(|transition| transition.sequence) else { return Ok(()) };
        match self.file.take() {
            Some(mut file) if self.lines + new.len() <= 2 * MAX_LINES => {
                file.write_all(&to_lines(new.iter().copied())?)?;
                self.file = Some(file);
                self.lines += new.len();
            }
            _ => {
                self.file = Some(rewrite(&self.path, history)?);
                self.lines = history.newest_first().count();
            }
        }
        self.written = last;
        Ok(())
    }
}

/// Writes the whole history to a new file, and renames it: a crash leaves either the old or the new file.
fn rewrite(path: &Path, history: &History) -> Result<File, HistoryFileError> {
    let new_path = path.with_added_extension("new");
    let mut file = File::create(&new_path)?;
    file.write_all(&to_lines(history.after(0).map(|transition| &**transition))?)?;
    file.sync_all()?;
    fs::rename(&new_path, path)?;
    let file = OpenOptions::new().append(true).open(path)?;
    file.try_lock().map_err(|_| HistoryFileError::InUse)?;
    Ok(file)
}

fn to_lines<'a>(transitions: impl Iterator<Item = &'a Transition>) -> io::Result<Vec<u8>> {
    let mut lines = Vec::new();
    for transition in transitions {
        serde_json::to_writer(&mut lines, transition)?;
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

    use super::{History, HistoryFile, Transition};

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
    fn foreign_and_locked_files_are_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        fs::write(&path, "dear diary\n").unwrap();
        assert!(HistoryFile::open(&path).unwrap_err().to_string().contains("left as it is"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "dear diary\n");
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
    fn missing_directory_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("absent");
        let error = HistoryFile::open(&directory.join("history")).unwrap_err().to_string();
        let expected = format!("the directory {} does not exist; create it", directory.display());
        assert!(error.starts_with(&expected), "{error}");
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
