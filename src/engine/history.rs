//! The most recent transitions of claims, and their JSON form in the history file.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{claim::ClaimKey, shared_map::SharedMap, trust::Corroborations};
use crate::types::{
    Actor, Difference, Episode, FieldClass, Kind, ObjectKey, OnsetSource, ResolutionCause, Severity,
    ShortText, Source, UnknownReason, VerdictKind,
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
    /// None for an object that does not exist.
    #[serde(with = "empty_if_none")]
    pub uid: Option<Box<str>>,
    pub source: Source,
    /// None if the claim is new.
    pub from: Option<VerdictKind>,
    /// None if the claim ended.
    pub to: Option<VerdictKind>,
    /// Why the verdict is `unknown`.
    pub reason: Option<UnknownReason>,
    pub episode: Option<EpisodeSummary>,
}

impl Transition {
    /// The observed onsets of an episode that did not end with this transition.
    fn open_observed_onsets(&self) -> Option<&BTreeMap<Box<str>, Timestamp>> {
        let episode = self.episode.as_ref()?;
        let is_open = !matches!(episode.change, EpisodeChange::Ended(_));
        Some(&episode.observed).filter(|observed| is_open && !observed.is_empty())
    }
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
    /// The onsets that no object records, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub observed: BTreeMap<Box<str>, Timestamp>,
}

/// The onsets of a claim that an earlier run observed, by path.
#[derive(Debug)]
pub(super) struct ObservedOnsets {
    pub(super) uid: Option<Box<str>>,
    pub(super) onsets: BTreeMap<Box<str>, Timestamp>,
}

/// The most paths that a transition keeps, and the most bytes of them: one object may differ in thousands of fields.
const MAX_PATHS: usize = 50;
const MAX_PATH_BYTES: usize = 4 << 10;

impl EpisodeSummary {
    pub(super) fn new(episode: &Episode, change: EpisodeChange) -> Self {
        let worst = episode.worst();
        let observed = episode.differences.iter().chain(&episode.ignored);
        let observed = observed.filter(|difference| difference.onset_source != OnsetSource::FieldManager);
        let path = |difference: &Difference| difference.finding.path.as_str().into();
        Self {
            observed: within_path_limits(observed)
                .map(|difference| (path(difference), difference.onset))
                .collect(),
            change,
            onset: episode.onset,
            severity: worst.severity,
            actor: worst.actor,
            manager: worst.manager.map(Into::into),
            field: worst.field,
            paths: within_path_limits(episode.differences.iter()).map(path).collect(),
        }
    }
}

/// The first differences, as far as a transition has room for their paths.
fn within_path_limits<'a>(
    differences: impl Iterator<Item = &'a Difference>,
) -> impl Iterator<Item = &'a Difference> {
    let mut room = MAX_PATH_BYTES;
    let fits = move |difference: &&Difference| {
        let rest = room.checked_sub(difference.finding.path.as_str().len());
        room = rest.unwrap_or(room);
        rest.is_some()
    };
    differences.filter(fits).take(MAX_PATHS)
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
    /// Does not count a start that was not observed.
    pub(super) fn without_unobserved_start(self, is_observed: bool) -> Self {
        if self == Self::Started && !is_observed { Self::Unchanged } else { self }
    }
}

/// The JSON form of an optional text: empty if there is none.
mod empty_if_none {
    use super::{Deserialize, Deserializer, Serialize};
    use serde::Serializer;

    #[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
    pub(super) fn serialize<S: Serializer>(
        text: &Option<Box<str>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        text.as_deref().unwrap_or_default().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Box<str>>, D::Error> {
        let text = Box::<str>::deserialize(deserializer)?;
        Ok((!text.is_empty()).then_some(text))
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

/// The most recent transitions, oldest first. If it is full, it drops the oldest of the namespace that has most of them, so that
/// one namespace cannot evict those of others. Cheap to clone: whole chunks are shared.
#[derive(Clone, Debug, Default)]
pub struct History {
    chunks: VecDeque<Arc<Vec<Arc<Transition>>>>,
    /// Evicted transitions whose episodes had observed onsets and were open then: a restart needs the onsets.
    evicted_open: SharedMap<ClaimKey, Arc<Transition>>,
    /// The number of transitions in each namespace, once the history was full.
    namespaces: Option<SharedMap<ShortText, usize>>,
    /// No transition after this sequence number was evicted.
    complete_after: u64,
    last: u64,
    /// They have to survive a restart, too.
    pub corroborations: Corroborations,
    /// Whether the transitions survive a restart.
    is_persistent: bool,
}

/// The most transitions that are kept, except those of open episodes.
const CAPACITY: usize = 10_000;
/// The most transitions in a chunk, and the most that are evicted at once.
const CHUNK: usize = 100;
/// The most chunks from which transitions are evicted at once.
const EVICTED_CHUNKS: usize = 4;

impl History {
    /// Continues an earlier history, including its sequence numbers. The next run continues this one.
    pub fn restore(transitions: impl IntoIterator<Item = Transition>) -> Self {
        let mut history = Self { is_persistent: true, ..Self::default() };
        transitions.into_iter().for_each(|transition| history.restore_next(transition));
        history
    }

    /// Continues with the next transition of an earlier history.
    pub fn restore_next(&mut self, transition: Transition) {
        if transition.sequence > self.last.saturating_add(1) {
            self.complete_after = transition.sequence - 1;
        }
        self.last = transition.sequence.max(self.last);
        self.append(Arc::new(transition));
    }

    /// The sequence number of the newest transition; 0 if there is none.
    pub fn last_sequence(&self) -> u64 {
        self.last
    }

    pub(super) fn is_persistent(&self) -> bool {
        self.is_persistent
    }

    /// The observed onsets of all episodes that have not ended.
    pub(super) fn observed_onsets(&self) -> HashMap<ClaimKey, ObservedOnsets> {
        let mut open = HashMap::new();
        for transition in self.before_and_after_eviction() {
            let claim = ClaimKey { object: transition.key.clone(), source: transition.source };
            match transition.open_observed_onsets() {
                Some(onsets) => {
                    let (uid, onsets) = (transition.uid.clone(), onsets.clone());
                    open.insert(claim, ObservedOnsets { uid, onsets });
                }
                None => drop(open.remove(&claim)),
            }
        }
        open
    }

    /// The transitions that a restart needs, oldest first.
    pub fn to_restore(&self) -> impl Iterator<Item = &Transition> {
        let all = self.before_and_after_eviction();
        let all: BTreeMap<u64, &Transition> =
            all.map(|transition| (transition.sequence, &**transition)).collect();
        all.into_values()
    }

    /// The evicted transitions that a restart needs, and then all others.
    fn before_and_after_eviction(&self) -> impl Iterator<Item = &Arc<Transition>> {
        self.evicted_open.iter().map(|(_, transition)| transition).chain(self.after(0))
    }

    pub fn newest_first(&self) -> impl Iterator<Item = &Arc<Transition>> {
        self.chunks.iter().rev().flat_map(|chunk| chunk.iter().rev())
    }

    /// The transitions after this sequence number, oldest first.
    pub fn after(&self, sequence: u64) -> impl Iterator<Item = &Arc<Transition>> {
        self.chunks.iter().flat_map(move |chunk| {
            &chunk[chunk.partition_point(|transition| transition.sequence <= sequence)..]
        })
    }

    /// Whether no transition after this sequence number was evicted. False for numbers of another history.
    pub fn reaches_back_to(&self, sequence: u64) -> bool {
        (self.complete_after..=self.last).contains(&sequence)
    }

    /// Only the visible transitions. Sequence numbers do not change.
    pub(super) fn filtered(&self, is_visible: impl Fn(&Transition) -> bool) -> Self {
        let filter = |chunk: &Arc<Vec<Arc<Transition>>>| {
            let visible: Vec<_> = chunk.iter().filter(|transition| is_visible(transition)).cloned().collect();
            if visible.len() == chunk.len() { chunk.clone() } else { Arc::new(visible) }
        };
        let chunks = self.chunks.iter().map(filter).filter(|chunk| !chunk.is_empty());
        let chunks = chunks.collect();
        let (last, complete_after, is_persistent) = (self.last, self.complete_after, self.is_persistent);
        Self { chunks, complete_after, last, is_persistent, ..Self::default() }
    }

    /// Appends a transition with the next sequence number.
    pub(super) fn push(&mut self, transition: Transition) {
        self.last += 1;
        self.append(Arc::new(Transition { sequence: self.last, ..transition }));
    }

    /// How many transitions are in chunks that the other history does not share.
    #[cfg(test)]
    pub(super) fn copied_since(&self, before: &Self) -> usize {
        let namespaces = match (&self.namespaces, &before.namespaces) {
            (Some(namespaces), Some(before)) => namespaces.copied_since(before),
            _ => 0,
        };
        let maps = self.evicted_open.copied_since(&before.evicted_open) + namespaces;
        let is_shared =
            |chunk: &&Arc<Vec<Arc<Transition>>>| before.chunks.iter().any(|old| Arc::ptr_eq(old, chunk));
        maps + self.chunks.iter().filter(|chunk| !is_shared(chunk)).map(|chunk| chunk.len()).sum::<usize>()
    }

    fn append(&mut self, transition: Arc<Transition>) {
        let namespace = transition.key.namespace.clone();
        match self.chunks.back_mut() {
            Some(chunk) if chunk.len() < CHUNK => Arc::make_mut(chunk).push(transition),
            Some(_) | None => self.chunks.push_back(Arc::new(vec![transition])),
        }
        if let Some(namespaces) = &mut self.namespaces {
            *namespaces.get_or_default(&namespace) += 1;
        }
        if self.chunks.iter().map(|chunk| chunk.len()).sum::<usize>() > CAPACITY {
            self.evict();
        }
    }

    /// Drops the oldest transitions of the namespace that has most of them: at most [`CHUNK`], from at most [`EVICTED_CHUNKS`] chunks.
    /// The other chunks stay shared with snapshots.
    fn evict(&mut self) {
        let namespaces = self.namespaces.get_or_insert_with(|| count_namespaces(&self.chunks));
        let largest = namespaces.iter().max_by_key(|(namespace, count)| (**count, *namespace));
        // If no namespace has so many, the oldest of all are dropped.
        let namespace = largest.filter(|(_, count)| **count >= CHUNK).map(|(namespace, _)| namespace.clone());
        let is_of_largest = |transition: &Arc<Transition>| {
            namespace.as_ref().is_none_or(|namespace| transition.key.namespace == *namespace)
        };
        let mut evicted = Vec::with_capacity(CHUNK);
        let affected = self.chunks.iter_mut().filter(|chunk| chunk.iter().any(is_of_largest));
        for chunk in affected.take(EVICTED_CHUNKS) {
            let mut remaining = Vec::with_capacity(chunk.len());
            for transition in chunk.iter() {
                let is_evicted = evicted.len() < CHUNK && is_of_largest(transition);
                if is_evicted { &mut evicted } else { &mut remaining }.push(transition.clone());
            }
            if remaining.len() < chunk.len() {
                *chunk = Arc::new(remaining);
            }
        }
        for transition in evicted {
            let namespace = &transition.key.namespace;
            match namespaces.get(namespace) {
                Some(count) if *count > 1 => *namespaces.get_or_default(namespace) -= 1,
                Some(_) | None => namespaces.remove(namespace),
            }
            self.complete_after = transition.sequence.max(self.complete_after);
            let claim = ClaimKey { object: transition.key.clone(), source: transition.source };
            if transition.open_observed_onsets().is_some() {
                self.evicted_open.insert(claim, transition);
            } else {
                self.evicted_open.remove(&claim);
            }
        }
        self.merge_small_chunks();
    }

    /// Joins neighbours that fit into one chunk, so that a snapshot copies few pointers to chunks.
    fn merge_small_chunks(&mut self) {
        let mut at = 1;
        while at < self.chunks.len() {
            if self.chunks[at - 1].len() + self.chunks[at].len() > CHUNK {
                at += 1;
            } else if let Some(next) = self.chunks.remove(at) {
                Arc::make_mut(&mut self.chunks[at - 1]).extend(next.iter().cloned());
            }
        }
    }
}

fn count_namespaces(chunks: &VecDeque<Arc<Vec<Arc<Transition>>>>) -> SharedMap<ShortText, usize> {
    let mut counts = SharedMap::default();
    for transition in chunks.iter().flat_map(|chunk| chunk.iter()) {
        *counts.get_or_default(&transition.key.namespace) += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::{
        CAPACITY, CHUNK, Difference, EVICTED_CHUNKS, EpisodeChange, EpisodeSummary, History, MAX_PATH_BYTES,
        MAX_PATHS, Transition, within_path_limits,
    };
    use crate::{
        rules::{RatedObject, RuleSet},
        types::{Actor, FieldClass, Finding, Kind, ObjectKey, ResolutionCause, Severity, Source},
    };

    fn transition(sequence: u64) -> Transition {
        Transition {
            sequence,
            time: Timestamp::UNIX_EPOCH,
            key: ObjectKey::new(Kind::service(), "shop", "web"),
            uid: Some("uid".into()),
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
        assert!(oldest > 1, "the oldest were evicted");
        assert!(!full.reaches_back_to(0) && !full.reaches_back_to(oldest - 2));
        assert!(full.reaches_back_to(oldest - 1) && full.reaches_back_to(pushed));
        assert!(!full.reaches_back_to(pushed + 1) && !full.reaches_back_to(u64::MAX));
    }

    fn of_namespace(namespace: &str, change: EpisodeChange) -> Transition {
        let onset = Timestamp::UNIX_EPOCH;
        let episode = EpisodeSummary {
            change,
            onset,
            severity: Severity::Info,
            actor: Actor::Kubectl,
            manager: None,
            field: FieldClass::Other,
            paths: Vec::new(),
            observed: [("spec.replicas".into(), onset)].into(),
        };
        let key = ObjectKey::new(Kind::service(), namespace, "web");
        Transition { key, episode: Some(episode), ..transition(0) }
    }

    #[test]
    fn namespace_with_many_transitions_evicts_only_its_own() {
        let mut history = History::default();
        history.push(of_namespace("quiet", EpisodeChange::Started));
        for _ in 0..CAPACITY {
            history.push(of_namespace("noisy", EpisodeChange::Started));
            history.push(of_namespace("noisy", EpisodeChange::Ended(ResolutionCause::Reverted)));
        }
        assert!((CAPACITY - CHUNK..=CAPACITY).contains(&history.newest_first().count()));
        assert_eq!(&*history.after(0).next().unwrap().key.namespace, "quiet");
        assert!(!history.reaches_back_to(1) && history.reaches_back_to(history.last_sequence()));
        assert!(history.after(0).is_sorted_by_key(|transition| transition.sequence));
    }

    #[test]
    fn eviction_rebuilds_few_chunks_and_leaves_no_small_ones() {
        for namespaces in [1, 2, 60, 90, 300] {
            let mut history = History::default();
            for number in 0..2 * CAPACITY {
                let transition =
                    of_namespace(&format!("team-{}", number % namespaces), EpisodeChange::Started);
                if number % 7 > 0 || number < CAPACITY {
                    history.push(transition);
                    continue;
                }
                let published = history.clone();
                history.push(transition);
                let copied = history.copied_since(&published);
                assert!(copied <= 2 * (EVICTED_CHUNKS + 2) * CHUNK, "{namespaces}: {copied} were copied");
            }
            assert!((CAPACITY - CHUNK..=CAPACITY).contains(&history.newest_first().count()));
            let chunks = history.chunks.len();
            assert!(chunks <= 2 * CAPACITY / CHUNK + 1, "{namespaces}: {chunks} chunks");
            assert!(history.after(0).is_sorted_by_key(|transition| transition.sequence));
        }
    }

    #[test]
    fn observed_onsets_of_open_episodes_survive_eviction() {
        let mut history = History::default();
        history.push(of_namespace("shop", EpisodeChange::Started));
        let other = |number| {
            let key = ObjectKey::new(Kind::service(), "shop", &format!("other-{number}"));
            Transition { key, ..of_namespace("shop", EpisodeChange::Ended(ResolutionCause::Reverted)) }
        };
        (0..CAPACITY).for_each(|number| history.push(other(number)));
        assert!(history.after(0).next().unwrap().sequence > 1);
        let restored = History::restore(history.to_restore().cloned());
        for history in [&history, &restored] {
            assert_eq!(history.observed_onsets().len(), 1);
        }
        history.push(of_namespace("shop", EpisodeChange::Ended(ResolutionCause::Reverted)));
        assert!(history.observed_onsets().is_empty());
        (0..CAPACITY).for_each(|number| history.push(other(number)));
        assert_eq!(history.evicted_open.iter().count(), 0);
    }

    #[test]
    fn transition_keeps_a_limited_number_of_paths() {
        let rate = |path: &str| {
            let finding = Finding::new(path.parse().unwrap(), FieldClass::Data, "a".into(), "b".into());
            let key = ObjectKey::new(Kind::service(), "shop", "web");
            let (labels, muted_paths, source) = (&[][..], &[][..], Source::Annotation);
            let object = RatedObject { key: &key, labels, muted_paths, source, autoscaled: false };
            RuleSet::default().rate(&object, finding, Timestamp::UNIX_EPOCH)
        };
        let summary = |paths: Vec<String>| {
            let differences: Vec<Difference> = paths.iter().map(|path| rate(path)).collect();
            within_path_limits(differences.iter()).count()
        };
        assert_eq!(summary((0..1_000).map(|key| format!("data.k{key}")).collect()), MAX_PATHS);
        let long = "x".repeat(MAX_PATH_BYTES / 2 + 1);
        let paths = vec![format!("data.a{long}"), format!("data.b{long}"), "data.c".to_owned()];
        assert_eq!(summary(paths), 2, "a long path leaves room for short ones");
    }

    #[test]
    fn transitions_after_a_number_are_oldest_first_across_chunks() {
        let history = History::restore((1..=250).map(transition));
        let after: Vec<u64> = history.after(98).map(|transition| transition.sequence).collect();
        assert_eq!(after, (99..=250).collect::<Vec<_>>());
        assert_eq!(history.after(250).count(), 0);
    }
}
