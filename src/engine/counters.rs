//! Counters of episodes since the start. They outlive the objects that they were counted on.

use std::{cmp::Ordering, sync::Arc};

use jiff::Timestamp;

use super::shared_map::SharedMap;
use crate::types::{Actor, Episode, GroupKind, Kind, ResolutionCause, Severity, ShortText, Source};

/// Upper bounds of `drift_resolved_age_seconds`: 1m 5m 15m 1h 4h 1d 3d 7d 30d.
pub const AGE_BOUNDS: [u32; 9] = [60, 300, 900, 3_600, 14_400, 86_400, 259_200, 604_800, 2_592_000];

/// Episodes of drift since the start. A count copies the few counters next to it, not all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DriftCounters {
    episodes: SharedMap<CounterKey, EpisodeCounts>,
    actors: SharedMap<ActorKey, u64>,
    ages: SharedMap<AgeKey, AgeHistogram>,
}

/// The labels of the episodes that an actor started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ActorKey {
    pub source: Source,
    pub actor: Actor,
    pub severity: Severity,
}

/// The labels of the ages of episodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AgeKey {
    pub source: Source,
    pub cause: ResolutionCause,
    pub severity: Severity,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct EpisodeCounts {
    detections: u64,
    /// By cause.
    resolutions: [u64; ResolutionCause::ALL.len()],
}

/// The labels of a counter. Their number is bounded by kinds and namespaces; versions of a kind share a
/// counter.
#[derive(Clone, Debug)]
pub struct CounterKey {
    pub kind: Arc<Kind>,
    pub namespace: ShortText,
    pub source: Source,
}

impl CounterKey {
    fn labels(&self) -> (GroupKind<&str>, &str, Source) {
        (self.kind.group_kind(), &self.namespace, self.source)
    }
}

impl PartialEq for CounterKey {
    fn eq(&self, other: &Self) -> bool {
        self.labels() == other.labels()
    }
}

impl Eq for CounterKey {}

impl PartialOrd for CounterKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for CounterKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.labels().cmp(&other.labels())
    }
}

/// A histogram with the upper bounds [`AGE_BOUNDS`], in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgeHistogram {
    /// Not cumulative; the last bucket is unbounded.
    pub buckets: [u64; AGE_BOUNDS.len() + 1],
    pub sum: f64,
}

impl DriftCounters {
    /// Every actor starts at zero, so that `increase()` sees the first detection.
    pub(super) fn new(sources: &[Source]) -> Self {
        let mut counters = Self::default();
        sources.iter().for_each(|source| counters.init_source(*source));
        counters
    }

    /// Episodes that started.
    pub fn detections(&self) -> impl Iterator<Item = (&CounterKey, u64)> {
        self.episodes.iter().map(|(key, counts)| (key, counts.detections))
    }

    /// Episodes that ended.
    pub fn resolutions(&self) -> impl Iterator<Item = (&CounterKey, ResolutionCause, u64)> {
        self.episodes.iter().flat_map(|(key, counts)| {
            ResolutionCause::ALL
                .iter()
                .zip(counts.resolutions)
                .map(move |(cause, count)| (key, *cause, count))
        })
    }

    /// Episodes that started, by the actor and severity of the worst difference.
    pub fn actors(&self) -> impl Iterator<Item = (&ActorKey, &u64)> {
        self.actors.iter()
    }

    /// The ages of episodes that ended.
    pub fn ages(&self) -> impl Iterator<Item = (&AgeKey, &AgeHistogram)> {
        self.ages.iter()
    }

    /// Exposes the counters of a source with the value zero.
    pub(super) fn init_source(&mut self, source: Source) {
        for &actor in Actor::ALL {
            for &severity in Severity::ALL {
                self.actors.get_or_default(&ActorKey { source, actor, severity });
            }
        }
    }

    pub(super) fn has_key(&self, key: &CounterKey) -> bool {
        self.episodes.get(key).is_some()
    }

    /// Exposes the counters of a key with the value zero.
    pub(super) fn init_key(&mut self, key: &CounterKey) {
        if key.source != Source::Unclaimed {
            self.init_source(key.source);
        }
        self.episodes.get_or_default(key);
    }

    /// Drops the counters of a key without objects, unless an episode was counted.
    pub(super) fn drop_if_zero(&mut self, key: &CounterKey) {
        if self.episodes.get(key).is_some_and(|counts| *counts == EpisodeCounts::default()) {
            self.episodes.remove(key);
        }
    }

    pub(super) fn count_detection(&mut self, key: &CounterKey, episode: &Episode) {
        let worst = episode.worst();
        let actor = ActorKey { source: key.source, actor: worst.actor, severity: worst.severity };
        *self.actors.get_or_default(&actor) += 1;
        self.episodes.get_or_default(key).detections += 1;
    }

    pub(super) fn count_resolution(
        &mut self,
        key: &CounterKey,
        episode: &Episode,
        cause: ResolutionCause,
        now: Timestamp,
    ) {
        let severity = episode.worst().severity;
        let age = now.duration_since(episode.onset).as_secs_f64().max(0.0);
        self.ages.get_or_default(&AgeKey { source: key.source, cause, severity }).observe(age);
        self.episodes.get_or_default(key).resolutions[cause as usize] += 1;
    }

    /// Only the counters of visible objects. Counters without a namespace are dropped.
    pub(super) fn scoped_to(&self, is_visible: &impl Fn(GroupKind<&str>, &str) -> bool) -> Self {
        let episodes = self.episodes.filtered(|key| is_visible(key.kind.group_kind(), &key.namespace));
        Self { episodes, ..Self::default() }
    }

    /// How many counters the other ones do not share.
    #[cfg(test)]
    pub(super) fn copied_since(&self, before: &Self) -> usize {
        self.episodes.copied_since(&before.episodes)
            + self.actors.copied_since(&before.actors)
            + self.ages.copied_since(&before.ages)
    }
}

impl AgeHistogram {
    fn observe(&mut self, seconds: f64) {
        let bucket =
            AGE_BOUNDS.iter().position(|bound| seconds <= f64::from(*bound)).unwrap_or(AGE_BOUNDS.len());
        self.buckets[bucket] += 1;
        self.sum += seconds;
    }
}

#[cfg(test)]
mod tests {
    use super::AgeHistogram;

    #[test]
    fn age_is_counted_in_the_first_bucket_that_includes_it() {
        let mut ages = AgeHistogram::default();
        for seconds in [0.0, 60.0, 60.1, 3_600_000.0] {
            ages.observe(seconds);
        }
        assert_eq!(ages.buckets, [2, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
    }
}
