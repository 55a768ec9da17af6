//! Transitions on disk, one JSON object a line, so that a restart forgets nothing. Values are never written.

use std::{
    collections::VecDeque,
    fs::{self, File, OpenOptions},
    io::{self, BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use crate::{
    engine::{EpisodeNote, History, StateReader, Transition, Turn},
    types::{Actor, Cause, FieldClass, Kind, ObjectKey, Severity, Source, UnknownReason, VerdictKind},
};

/// Lines that are kept when the file is shortened, which happens when it has grown to twice as many.
const KEPT: usize = 10_000;

/// More than that many lines can ever take.
const LARGEST: u64 = 256 << 20;

/// The open file.
#[derive(Debug)]
pub(super) struct HistoryFile {
    path: PathBuf,
    /// None after a failed write, of which a part may be on disk: the file is written anew then.
    file: Option<File>,
    lines: usize,
    /// The newest transition that is in the file.
    written: u64,
}

/// Reads what an earlier run wrote, and opens the file for more. Lines that cannot be read are passed over, but a
/// file without any line of ours is somebody else's.
pub(super) fn open(path: &Path) -> io::Result<(History, HistoryFile)> {
    let mut kept: VecDeque<Transition> = VecDeque::new();
    let mut unreadable = 0_usize;
    // Asked before it is opened: opening a pipe would wait for somebody to write to it.
    match fs::metadata(path) {
        Ok(about) if !about.is_file() || about.len() > LARGEST => {
            return Err(io::Error::other("it is not a file that an exporter wrote"));
        }
        Ok(_) => {
            let file = File::open(path)?;
            file.try_lock_shared().map_err(|_| io::Error::other("another exporter is using it"))?;
            for line in BufReader::new(file).split(b'\n') {
                match serde_json::from_slice::<Line>(&line?).ok().and_then(Line::into_transition) {
                    Some(transition) => kept.push_back(transition),
                    None => unreadable += 1,
                }
                if kept.len() > KEPT {
                    kept.pop_front();
                }
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    if unreadable > 0 && kept.is_empty() {
        return Err(io::Error::other("nothing in it was written by an exporter; it is left as it is"));
    }
    if unreadable > 0 {
        warn!(path = %path.display(), unreadable, "Some lines of the history file are not ours and are dropped.");
    }
    let lines = kept.len();
    let history = History::restore(kept);
    let file = Some(rewrite(path, &history)?);
    let written = history.last_sequence();
    Ok((history, HistoryFile { path: path.to_owned(), file, lines, written }))
}

/// Writes the whole history beside the file and puts it in its place, so that a crash leaves one or the other.
fn rewrite(path: &Path, history: &History) -> io::Result<File> {
    let beside = path.with_added_extension("new");
    let mut text = Vec::new();
    for transition in history.since(0) {
        push_line(&mut text, &transition)?;
    }
    let mut file = File::create(&beside)?;
    file.write_all(&text)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    let file = OpenOptions::new().append(true).open(path)?;
    file.try_lock().map_err(|_| io::Error::other("another exporter is using it"))?;
    Ok(file)
}

fn push_line(text: &mut Vec<u8>, transition: &Transition) -> io::Result<()> {
    serde_json::to_writer(&mut *text, &Line::from(transition))?;
    text.push(b'\n');
    Ok(())
}

impl HistoryFile {
    /// Appends new transitions until told to stop; what came last is written even then.
    pub(super) async fn follow(mut self, mut state: StateReader, stop: CancellationToken) {
        loop {
            let more = tokio::select! {
                more = state.changed() => more,
                () = stop.cancelled() => false,
            };
            let history = state.snapshot().history.clone();
            if let Err(error) = tokio::task::block_in_place(|| self.append(&history)) {
                error!(path = %self.path.display(), %error, "Cannot write the history file; trying again with the next transition.");
            }
            if !more {
                return;
            }
        }
    }

    fn append(&mut self, history: &History) -> io::Result<()> {
        let new = history.since(self.written);
        let Some(last) = new.last().map(|transition| transition.sequence) else { return Ok(()) };
        match self.file.take() {
            Some(mut file) if self.lines + new.len() <= 2 * KEPT => {
                let mut text = Vec::new();
                for transition in &new {
                    push_line(&mut text, transition)?;
                }
                file.write_all(&text)?;
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

/// A word that may be absent, but not unknown.
fn word<T>(text: Option<String>, parse: fn(&str) -> Option<T>) -> Result<Option<T>, NotOurs> {
    text.map(|text| parse(&text).ok_or(NotOurs)).transpose()
}

/// A word that no exporter writes.
struct NotOurs;

/// A transition as it is written.
#[derive(Serialize, Deserialize)]
struct Line {
    sequence: u64,
    time: Timestamp,
    group: Box<str>,
    version: Box<str>,
    kind: Box<str>,
    plural: Box<str>,
    namespaced: bool,
    namespace: Box<str>,
    name: Box<str>,
    uid: Box<str>,
    source: String,
    from: Option<String>,
    to: Option<String>,
    reason: Option<String>,
    episode: Option<EpisodeLine>,
}

#[derive(Serialize, Deserialize)]
struct EpisodeLine {
    turn: String,
    onset: Timestamp,
    severity: String,
    actor: String,
    manager: Option<Box<str>>,
    field: String,
    paths: Vec<Box<str>>,
}

impl From<&Transition> for Line {
    fn from(transition: &Transition) -> Self {
        let key = &transition.key;
        Self {
            sequence: transition.sequence,
            time: transition.time,
            group: key.kind.group.clone(),
            version: key.kind.version.clone(),
            kind: key.kind.kind.clone(),
            plural: key.kind.plural.clone(),
            namespaced: key.kind.namespaced,
            namespace: key.namespace.as_str().into(),
            name: key.name.as_str().into(),
            uid: transition.uid.clone(),
            source: transition.source.to_string(),
            from: transition.from.map(|verdict| verdict.to_string()),
            to: transition.to.map(|verdict| verdict.to_string()),
            reason: transition.reason.map(|reason| reason.to_string()),
            episode: transition.episode.as_ref().map(|episode| EpisodeLine {
                turn: match episode.turn {
                    Turn::Began => "began".to_owned(),
                    Turn::GoesOn => "goes_on".to_owned(),
                    Turn::Ended(cause) => cause.to_string(),
                },
                onset: episode.onset,
                severity: episode.severity.to_string(),
                actor: episode.actor.to_string(),
                manager: episode.manager.clone(),
                field: episode.field.to_string(),
                paths: episode.paths.clone(),
            }),
        }
    }
}

impl Line {
    /// None where a word in it is not one of ours.
    fn into_transition(self) -> Option<Transition> {
        let kind = Kind {
            group: self.group,
            version: self.version,
            kind: self.kind,
            plural: self.plural,
            namespaced: self.namespaced,
        };
        let episode = match self.episode {
            None => None,
            Some(line) => Some(EpisodeNote {
                turn: match line.turn.as_str() {
                    "began" => Turn::Began,
                    "goes_on" => Turn::GoesOn,
                    cause => Turn::Ended(Cause::parse(cause)?),
                },
                onset: line.onset,
                severity: Severity::parse(&line.severity)?,
                actor: Actor::parse(&line.actor)?,
                manager: line.manager,
                field: FieldClass::parse(&line.field)?,
                paths: line.paths,
            }),
        };
        Some(Transition {
            sequence: self.sequence,
            time: self.time,
            key: ObjectKey {
                kind: Arc::new(kind),
                namespace: (*self.namespace).into(),
                name: (*self.name).into(),
            },
            uid: self.uid,
            source: Source::parse(&self.source)?,
            from: word(self.from, VerdictKind::parse).ok()?,
            to: word(self.to, VerdictKind::parse).ok()?,
            reason: word(self.reason, UnknownReason::parse).ok()?,
            episode,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::open;
    use crate::engine::History;

    const LINE: &str = r#"{"sequence":7,"time":"2026-01-01T00:00:00Z","group":"apps","version":"v1","kind":"Deployment","plural":"deployments","namespaced":true,"namespace":"shop","name":"web","uid":"u","source":"annotation","from":"in_sync","to":"drifted","reason":null,"episode":null}"#;

    fn history(last: u64) -> History {
        let line: super::Line = serde_json::from_str(LINE).unwrap();
        let first = line.into_transition().unwrap();
        History::restore((1..=last).map(|sequence| crate::engine::Transition { sequence, ..first.clone() }))
    }

    #[test]
    fn what_was_written_is_read_back_and_other_lines_are_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        fs::write(&path, format!("{LINE}\nhalf a li")).unwrap();
        let (restored, mut file) = open(&path).unwrap();
        assert_eq!(restored.last_sequence(), 7);
        file.append(&history(9)).unwrap();
        drop(file);
        let (restored, _) = open(&path).unwrap();
        assert_eq!((restored.last_sequence(), restored.newest_first().count()), (9, 3));
    }

    #[test]
    fn a_file_that_is_not_ours_or_in_use_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        fs::write(&path, "dear diary\n").unwrap();
        assert!(open(&path).unwrap_err().to_string().contains("left as it is"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "dear diary\n");
        let device = folder.path().join("device");
        std::os::unix::fs::symlink("/dev/null", &device).unwrap();
        for odd in [&*device, folder.path()] {
            assert!(open(odd).unwrap_err().to_string().contains("not a file"), "{}", odd.display());
        }
        assert!(device.is_symlink(), "it was replaced");
        let path = folder.path().join("history");
        let _held = open(&path).unwrap();
        assert!(open(&path).unwrap_err().to_string().contains("another exporter"));
    }

    #[test]
    fn a_file_that_has_grown_is_shortened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        let (_, mut file) = open(&path).unwrap();
        for last in [9_000, 18_000, 27_000] {
            file.append(&history(last)).unwrap();
        }
        drop(file);
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        assert!((10_000..=20_000).contains(&lines), "{lines}");
        assert_eq!(open(&path).unwrap().0.last_sequence(), 27_000);
    }
}
