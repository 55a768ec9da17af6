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
    model::{Actor, Cause, FieldClass, Kind, ObjectKey, Severity, Source},
    state::{EpisodeNote, History, StateReader, Transition, Turn},
};

/// Lines that are kept when the file is shortened, which happens when it has grown to twice as many.
const KEPT: usize = 10_000;

/// The open file.
#[derive(Debug)]
pub(super) struct HistoryFile {
    path: PathBuf,
    file: File,
    lines: usize,
}

/// Reads what an earlier run wrote, and opens the file for more. Lines that cannot be read are passed over.
pub(super) fn open(path: &Path) -> io::Result<(History, HistoryFile)> {
    let mut kept: VecDeque<Transition> = VecDeque::new();
    let mut unreadable = 0_usize;
    match File::open(path) {
        Ok(file) => {
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
    if unreadable > 0 {
        warn!(path = %path.display(), unreadable, "Some lines of the history file are not ours and are dropped.");
    }
    let lines = kept.len();
    let history = History::restore(kept);
    let file = rewrite(path, &history)?;
    Ok((history, HistoryFile { path: path.to_owned(), file, lines }))
}

/// Writes the whole history beside the file and puts it in its place, so that a crash leaves one or the other.
fn rewrite(path: &Path, history: &History) -> io::Result<File> {
    let beside = path.with_added_extension("new");
    let mut text = Vec::new();
    for transition in history.since(0) {
        push_line(&mut text, &transition)?;
    }
    fs::write(&beside, text)?;
    fs::rename(&beside, path)?;
    OpenOptions::new().append(true).open(path)
}

fn push_line(text: &mut Vec<u8>, transition: &Transition) -> io::Result<()> {
    serde_json::to_writer(&mut *text, &Line::from(transition))?;
    text.push(b'\n');
    Ok(())
}

impl HistoryFile {
    /// Appends new transitions until told to stop; what came last is written even then.
    pub(super) async fn follow(mut self, mut state: StateReader, stop: CancellationToken) {
        let mut seen = state.snapshot().history.last_sequence();
        loop {
            let more = tokio::select! {
                more = state.changed() => more,
                () = stop.cancelled() => false,
            };
            let history = state.snapshot().history.clone();
            if let Err(error) = self.append(&history, &mut seen) {
                error!(path = %self.path.display(), %error, "Cannot write the history file.");
            }
            if !more {
                return;
            }
        }
    }

    fn append(&mut self, history: &History, seen: &mut u64) -> io::Result<()> {
        let mut text = Vec::new();
        for transition in history.since(*seen) {
            *seen = transition.sequence;
            self.lines += 1;
            push_line(&mut text, &transition)?;
        }
        if self.lines > 2 * KEPT {
            self.file = rewrite(&self.path, history)?;
            self.lines = KEPT;
            return Ok(());
        }
        self.file.write_all(&text)
    }
}

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
    from: String,
    to: String,
    reason: String,
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
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            uid: transition.uid.clone(),
            source: transition.source.to_string(),
            from: transition.from.to_owned(),
            to: transition.to.to_owned(),
            reason: transition.reason.to_owned(),
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
            key: ObjectKey { kind: Arc::new(kind), namespace: self.namespace, name: self.name },
            uid: self.uid,
            source: Source::parse(&self.source)?,
            from: Transition::verdict_word(&self.from)?,
            to: Transition::verdict_word(&self.to)?,
            reason: Transition::reason_word(&self.reason)?,
            episode,
        })
    }
}
