//! The most recent transitions of claims, and their JSON form in the history file.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::trust::Corroborations;
use crate::types::{
    Actor, Episode, FieldClass, Kind, ObjectKey, OnsetSource, ResolutionCause, Severity, Source,
    UnknownReason, VerdictKind,
};

/// A claim that moved from one verdict to another. One line of the history file is its JSON form, which other
/// versions of the exporter read: names and words in it never change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    /// Counts from 1. A gap means that older transitions were dropped.
    pub sequence: u64,
    /// The time of detection.
    pub time: Timestamp,
    #[serde(flatten, with = "flat_key")]
    pub key: ObjectKey,
    pub uid: Box<str>,
    pub source: Source,
    /// None for an object that was not known before.
    pub from: Option<VerdictKind>,
    /// None for an object that was deleted.
    pub to: Option<VerdictKind>,
    /// Why the verdict is `unknown`.
    pub reason: Option<UnknownReason>,
    pub episode: Option<EpisodeSummary>,
}

/// The episode of a transition. It has no values except keys and set elements in paths, so
/// history and Events need no redaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpisodeSummary {
    #[serde(rename = "turn")]
    pub change: EpisodeChange,
    pub onset: Timestamp,
    /// Severity, actor, field manager and field class are those of the worst difference.
    pub severity: Severity,
    pub actor: Actor,
    pub manager: Option<Box<str>>,
    pub field: FieldClass,
    pub paths: Vec<Box<str>>,
    /// The onsets that nothing else records, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub observed: BTreeMap<Box<str>, Timestamp>,
}

/// The onsets of a claim that an earlier run observed, by path.
#[derive(Debug)]
pub(super) struct ObservedOnsets {
    pub(super) uid: Box<str>,
    pub(super) onsets: BTreeMap<Box<str>, Timestamp>,
}

impl EpisodeSummary {
    pub(super) fn new(episode: &Episode, change: EpisodeChange) -> Self {
        let worst = episode.worst();
        let observed = episode.differences.iter().chain(&episode.ignored);
        let observed = observed.filter(|difference| difference.onset_source != OnsetSource::FieldManager);
        Self {
            observed: observed
                .map(|difference| (difference.finding.path.as_str().into(), difference.onset))
                .collect(),
            change,
            onset: episode.onset,
            severity: worst.severity,
            actor: worst.actor,
            manager: worst.manager.map(Into::into),
            field: worst.field,
            paths: episode
                .differences
                .iter()
                .map(|difference| difference.finding.path.as_str().into())
                .collect(),
        }
    }
}

/// The effect of a transition on the episode of its claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EpisodeChange {
    #[serde(rename = "began")]
    Started,
    /// The episode continues or started before the watch, or there is none.
    #[serde(rename = "goes_on")]
    Unchanged,
    #[serde(untagged)]
    Ended(ResolutionCause),
}

impl EpisodeChange {
    /// A start that was not observed changes no count.
    pub(super) fn without_unobserved_start(self, is_observed: bool) -> Self {
        if self == Self::Started && !is_observed { Self::Unchanged } else { self }
    }
}

/// The JSON form of a key: the fields of the kind and of the object on one level.
pub(super) mod flat_key {
    use super::{Deserialize, Deserializer, Kind, ObjectKey, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct FlatKey {
        #[serde(flatten)]
        kind: Kind,
        namespace: Box<str>,
        name: Box<str>,
    }

    pub(in crate::engine) fn serialize<S: Serializer>(
        key: &ObjectKey,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let (namespace, name) = (key.namespace.as_str().into(), key.name.as_str().into());
        FlatKey { kind: Kind::clone(&key.kind), namespace, name }.serialize(serializer)
    }

    pub(in crate::engine) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<ObjectKey, D::Error> {
        let FlatKey { kind, namespace, name } = FlatKey::deserialize(deserializer)?;
        Ok(ObjectKey::new(kind, &namespace, &name))
    }
}

/// A ring of transitions, oldest first. Cheap to clone: whole chunks are shared.
#[derive(Clone, Debug, Default)]
pub struct History {
    chunks: VecDeque<Arc<Vec<Arc<Transition>>>>,
    /// The sequence number of the oldest transition in the ring, visible or not.
    first: Option<u64>,
    last: u64,
    /// They have to survive a restart, too.
    pub corroborations: Corroborations,
    /// Whether the transitions survive a restart.
    is_persistent: bool,
}

/// The most transitions that are kept. The oldest chunk is dropped as a whole.
const CAPACITY: usize = 10_100;
const CHUNK: usize = 100;

impl History {
    /// Continues an earlier history, including its sequence numbers. The next run continues this one.
    pub fn restore(transitions: impl IntoIterator<Item = Transition>) -> Self {
        let mut history = Self { is_persistent: true, ..Self::default() };
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

    pub(super) fn is_persistent(&self) -> bool {
        self.is_persistent
    }

    /// The observed onsets of all episodes that have not ended.
    pub(super) fn observed_onsets(&self) -> HashMap<(ObjectKey, Source), ObservedOnsets> {
        let mut open = HashMap::new();
        for transition in self.after(0) {
            let id = (transition.key.clone(), transition.source);
            let episode = transition.episode.as_ref();
            match episode.filter(|episode| !matches!(episode.change, EpisodeChange::Ended(_))) {
                Some(episode) if !episode.observed.is_empty() => {
                    let (uid, onsets) = (transition.uid.clone(), episode.observed.clone());
                    open.insert(id, ObservedOnsets { uid, onsets });
                }
                Some(_) | None => drop(open.remove(&id)),
            }
        }
        open
    }

    pub fn newest_first(&self) -> impl Iterator<Item = &Arc<Transition>> {
        self.chunks.iter().rev().flat_map(|chunk| chunk.iter().rev())
    }

    /// The transitions after this sequence number, oldest first.
    pub fn after(&self, sequence: u64) -> impl Iterator<Item = &Arc<Transition>> {
        self.chunks
            .iter()
            .flat_map(move |chunk| &chunk[chunk.partition_point(|known| known.sequence <= sequence)..])
    }

    /// Whether all transitions after this sequence number are still in the ring. False for numbers of another
    /// history.
    pub fn reaches_back_to(&self, sequence: u64) -> bool {
        sequence.saturating_add(1) >= self.first.unwrap_or(1) && sequence <= self.last
    }

    /// Only the visible transitions. Sequence numbers do not change.
    pub(super) fn filtered(&self, is_visible: impl Fn(&Transition) -> bool) -> Self {
        let filter = |chunk: &Arc<Vec<Arc<Transition>>>| {
            let visible: Vec<_> = chunk.iter().filter(|transition| is_visible(transition)).cloned().collect();
            if visible.len() == chunk.len() { chunk.clone() } else { Arc::new(visible) }
        };
        let chunks = self.chunks.iter().map(filter).filter(|chunk| !chunk.is_empty());
        Self { chunks: chunks.collect(), corroborations: Corroborations::default(), ..*self }
    }

    /// Appends a transition with the next sequence number.
    pub(super) fn push(&mut self, transition: Transition) {
        self.last += 1;
        self.append(Arc::new(Transition { sequence: self.last, ..transition }));
    }

    /// How many transitions are in chunks that the other history does not share.
    #[cfg(test)]
    pub(super) fn copied_since(&self, before: &Self) -> usize {
        let is_shared =
            |chunk: &&Arc<Vec<Arc<Transition>>>| before.chunks.iter().any(|old| Arc::ptr_eq(old, chunk));
        self.chunks.iter().filter(|chunk| !is_shared(chunk)).map(|chunk| chunk.len()).sum()
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
    use jiff::Timestamp;

    use super::{CAPACITY, History, Transition};
    use crate::types::{Kind, ObjectKey, Source};

    fn transition(sequence: u64) -> Transition {
        Transition {
            sequence,
            time: Timestamp::UNIX_EPOCH,
            key: ObjectKey::new(Kind::service(), "shop", "web"),
            uid: "uid".into(),
            source: Source::Annotation,
            from: None,
            to: None,
            reason: None,
            episode: None,
        }
    }

    #[test]
    fn history_reaches_back_to_its_oldest_transition() {
        let empty = History::default();
        assert!(empty.reaches_back_to(0));
        assert!(!empty.reaches_back_to(1), "the number of another history");

        let mut full = History::default();
        let pushed = CAPACITY as u64 + 1;
        (0..pushed).for_each(|_| full.push(transition(0)));
        let oldest = full.after(0).next().unwrap().sequence;
        assert!(oldest > 1, "the ring dropped the oldest");
        assert!(!full.reaches_back_to(0) && !full.reaches_back_to(oldest - 2));
        assert!(full.reaches_back_to(oldest - 1) && full.reaches_back_to(pushed));
        assert!(!full.reaches_back_to(pushed + 1) && !full.reaches_back_to(u64::MAX));
    }

    #[test]
    fn transitions_after_a_number_are_oldest_first_across_chunks() {
        let history = History::restore((1..=250).map(transition));
        let after: Vec<u64> = history.after(98).map(|transition| transition.sequence).collect();
        assert_eq!(after, (99..=250).collect::<Vec<_>>());
        assert_eq!(history.after(250).count(), 0);
    }
}
