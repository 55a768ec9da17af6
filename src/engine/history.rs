//! The last transitions, oldest first.

use std::{collections::VecDeque, sync::Arc};

use jiff::Timestamp;

use crate::types::{
    Actor, Cause, Episode, FieldClass, ObjectKey, Severity, Source, UnknownReason, VerdictKind,
};

/// One claim that moved from one verdict to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// Counts up from 1; a gap means that older ones have left the ring.
    pub sequence: u64,
    /// When we saw it.
    pub time: Timestamp,
    /// The object.
    pub key: ObjectKey,
    /// The object's uid.
    pub uid: Box<str>,
    /// The source of the claim.
    pub source: Source,
    /// The verdict before; none for an object that was not known.
    pub from: Option<VerdictKind>,
    /// The verdict after; none for an object that is gone.
    pub to: Option<VerdictKind>,
    /// Why the verdict is `unknown`.
    pub reason: Option<UnknownReason>,
    /// What it says about the episode that began, goes on or ended.
    pub episode: Option<EpisodeNote>,
}

/// What a transition tells about an episode. Values of fields are never kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpisodeNote {
    /// Whether it began or ended with this transition.
    pub turn: Turn,
    /// Since when it drifted.
    pub onset: Timestamp,
    /// How bad the worst difference is.
    pub severity: Severity,
    /// The class of tool that made it.
    pub actor: Actor,
    /// The raw name of that tool's field manager.
    pub manager: Option<Box<str>>,
    /// The class of the field.
    pub field: FieldClass,
    /// The paths that differ.
    pub paths: Vec<Box<str>>,
}

impl EpisodeNote {
    pub(super) fn new(episode: &Episode, turn: Turn) -> Self {
        let worst = episode.worst();
        Self {
            turn,
            onset: episode.onset,
            severity: worst.severity,
            actor: worst.actor,
            manager: worst.manager.map(Into::into),
            field: worst.field,
            paths: episode.differences.iter().map(|difference| difference.finding.path.clone()).collect(),
        }
    }
}

/// What happened to the episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It began.
    Began,
    /// It goes on.
    GoesOn,
    /// It ended.
    Ended(Cause),
}

/// A ring of transitions that is cheap to clone: whole chunks are shared.
#[derive(Clone, Debug, Default)]
pub struct History {
    chunks: VecDeque<Arc<Vec<Arc<Transition>>>>,
    /// The oldest that is told of, or was left out.
    first: Option<u64>,
    last: u64,
}

/// How many transitions are kept; a chunk at a time is forgotten.
const CAPACITY: usize = 10_100;
const CHUNK: usize = 100;

impl History {
    /// A history that goes on from an earlier one, whose sequence numbers are kept.
    pub fn restore(transitions: impl IntoIterator<Item = Transition>) -> Self {
        let mut history = Self::default();
        for transition in transitions {
            history.last = transition.sequence.max(history.last);
            history.append(Arc::new(transition));
        }
        history
    }

    /// The sequence number of the newest transition; 0 if there is none.
    pub fn last_sequence(&self) -> u64 {
        self.last
    }

    /// All transitions, newest first.
    pub fn newest_first(&self) -> impl Iterator<Item = &Arc<Transition>> {
        self.chunks.iter().rev().flat_map(|chunk| chunk.iter().rev())
    }

    /// The transitions after this sequence number, oldest first.
    pub fn after(&self, sequence: u64) -> impl Iterator<Item = &Arc<Transition>> {
        self.chunks
            .iter()
            .flat_map(move |chunk| &chunk[chunk.partition_point(|own| own.sequence <= sequence)..])
    }

    /// The transitions after this sequence number, oldest first, to keep.
    pub fn since(&self, sequence: u64) -> Vec<Arc<Transition>> {
        self.after(sequence).cloned().collect()
    }

    /// Whether everything that followed this sequence number is still here. Not so if the ring has moved on, nor if
    /// the number was given by another history.
    pub fn reaches_back_to(&self, sequence: u64) -> bool {
        sequence.saturating_add(1) >= self.first.unwrap_or(1) && sequence <= self.last
    }

    /// What is left where only some transitions may be seen. Numbers stay as they are.
    pub(super) fn only(&self, sees: impl Fn(&Transition) -> bool) -> Self {
        let rest_of = |chunk: &Arc<Vec<Arc<Transition>>>| {
            let left: Vec<_> = chunk.iter().filter(|own| sees(own)).cloned().collect();
            if left.len() == chunk.len() { chunk.clone() } else { Arc::new(left) }
        };
        let chunks = self.chunks.iter().map(rest_of).filter(|chunk| !chunk.is_empty());
        Self { chunks: chunks.collect(), ..*self }
    }

    /// Adds a transition and numbers it.
    pub(super) fn push(&mut self, transition: Transition) {
        self.last += 1;
        self.append(Arc::new(Transition { sequence: self.last, ..transition }));
    }

    fn append(&mut self, transition: Arc<Transition>) {
        match self.chunks.back_mut() {
            Some(chunk) if chunk.len() < CHUNK => Arc::make_mut(chunk).push(transition),
            Some(_) | None => self.chunks.push_back(Arc::new(vec![transition])),
        }
        if self.chunks.len() > CAPACITY / CHUNK {
            self.chunks.pop_front();
        }
        self.first = self.chunks.front().and_then(|chunk| chunk.first()).map(|oldest| oldest.sequence);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;

    use super::{CAPACITY, History, Transition};
    use crate::types::{Kind, ObjectKey, Source};

    fn transition(sequence: u64) -> Transition {
        let key = ObjectKey { kind: Arc::new(Kind::service()), namespace: "shop".into(), name: "web".into() };
        Transition {
            sequence,
            time: Timestamp::UNIX_EPOCH,
            key,
            uid: "uid".into(),
            source: Source::Annotation,
            from: None,
            to: None,
            reason: None,
            episode: None,
        }
    }

    #[test]
    fn a_history_tells_what_it_can_still_be_asked_for() {
        let empty = History::default();
        assert!(empty.reaches_back_to(0));
        assert!(!empty.reaches_back_to(1), "that number was given by another history");

        let mut full = History::default();
        let pushed = CAPACITY as u64 + 1;
        (0..pushed).for_each(|_| full.push(transition(0)));
        let oldest = full.after(0).next().unwrap().sequence;
        assert!(oldest > 1, "the ring has moved on");
        assert!(!full.reaches_back_to(0) && !full.reaches_back_to(oldest - 2));
        assert!(full.reaches_back_to(oldest - 1) && full.reaches_back_to(pushed));
        assert!(!full.reaches_back_to(pushed + 1) && !full.reaches_back_to(u64::MAX));
    }

    #[test]
    fn what_follows_a_number_comes_oldest_first_across_chunks() {
        let history = History::restore((1..=250).map(transition));
        let after: Vec<u64> = history.after(98).map(|own| own.sequence).collect();
        assert_eq!(after, (99..=250).collect::<Vec<_>>());
        assert_eq!(history.since(250).len(), 0);
    }
}
