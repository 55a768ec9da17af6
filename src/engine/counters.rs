//! What happened since the start: counters that outlive the objects they were counted on.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;

use crate::{
    rules::{Origin, Rule, RuleSet},
    types::{Actor, Cause, Episode, Kind, Severity, ShortText, Source, Verdict},
};

/// Upper bounds of `drift_resolved_age_seconds`: 1m 5m 15m 1h 4h 1d 3d 7d 30d.
pub const AGE_BOUNDS: [u32; 9] = [60, 300, 900, 3_600, 14_400, 86_400, 259_200, 604_800, 2_592_000];

/// Detections and resolutions, by what they are counted by.
#[derive(Clone, Debug, Default)]
pub struct DriftCounters {
    /// Episodes that began, by place.
    pub detections: BTreeMap<Place, u64>,
    /// Episodes that ended, by place and cause.
    pub resolutions: BTreeMap<(Place, Cause), u64>,
    /// Episodes that began, by the tool that began them.
    pub actors: BTreeMap<(Source, Actor, Severity), u64>,
    /// How old ended episodes were.
    pub ages: BTreeMap<(Source, Cause, Severity), Ages>,
}

/// Where something is counted: bounded by kinds, whatever their version, and namespaces.
#[derive(Clone, Debug)]
pub struct Place {
    /// The kind.
    pub kind: Arc<Kind>,
    /// The namespace.
    pub namespace: ShortText,
    /// The source.
    pub source: Source,
}

impl Place {
    fn order(&self) -> (&str, &str, &str, Source) {
        (&self.kind.group, &self.kind.kind, &self.namespace, self.source)
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Place {}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

/// A histogram of ages in seconds.
#[derive(Clone, Debug, Default)]
pub struct Ages {
    /// How many fell under each bound and not under the one before; the last one has no bound.
    pub buckets: [u64; AGE_BOUNDS.len() + 1],
    /// The sum of all ages.
    pub sum: f64,
}

impl DriftCounters {
    /// A ledger in which every tool stands at zero, so that the first detection is seen as an increase.
    pub(super) fn new(sources: &[Source]) -> Self {
        let mut ledger = Self::default();
        sources.iter().for_each(|source| ledger.know(*source));
        ledger
    }

    /// Starts counting at zero for a source.
    pub(super) fn know(&mut self, source: Source) {
        for actor in Actor::ALL {
            for severity in Severity::ALL {
                self.actors.entry((source, *actor, *severity)).or_insert(0);
            }
        }
    }

    /// Whether this place is counted already.
    pub(super) fn knows(&self, place: &Place) -> bool {
        self.detections.contains_key(place)
    }

    /// Starts counting at zero here.
    pub(super) fn open(&mut self, place: Place) {
        if place.source != Source::Nothing {
            self.know(place.source);
        }
        for cause in Cause::ALL {
            self.resolutions.entry((place.clone(), *cause)).or_insert(0);
        }
        self.detections.entry(place).or_insert(0);
    }

    /// Forgets a place that has no object any more, unless something was counted there.
    pub(super) fn close(&mut self, place: &Place) {
        let of_place = |cause: &Cause| (place.clone(), *cause);
        let counted = self.detections.get(place).is_some_and(|count| *count > 0)
            || Cause::ALL
                .iter()
                .any(|cause| self.resolutions.get(&of_place(cause)).is_some_and(|count| *count > 0));
        if !counted {
            self.detections.remove(place);
            for cause in Cause::ALL {
                self.resolutions.remove(&of_place(cause));
            }
        }
    }

    /// Counts an episode that began.
    pub(super) fn began(&mut self, place: Place, episode: &Episode) {
        let worst = episode.worst();
        *self.actors.entry((place.source, worst.actor, worst.severity)).or_insert(0) += 1;
        *self.detections.entry(place).or_insert(0) += 1;
    }

    /// Counts an episode that ended.
    pub(super) fn ended(&mut self, place: Place, episode: &Episode, cause: Cause, now: Timestamp) {
        let severity = episode.worst().severity;
        let age = now.duration_since(episode.onset).as_secs_f64().max(0.0);
        self.ages.entry((place.source, cause, severity)).or_default().add(age);
        *self.resolutions.entry((place, cause)).or_insert(0) += 1;
    }
}

impl Ages {
    fn add(&mut self, seconds: f64) {
        let bucket =
            AGE_BOUNDS.iter().position(|bound| seconds <= f64::from(*bound)).unwrap_or(AGE_BOUNDS.len());
        self.buckets[bucket] += 1;
        self.sum += seconds;
    }
}

/// The rules that hold, and how many differences each of them matches now.
#[derive(Clone, Debug)]
pub struct RuleBook {
    set: Arc<RuleSet>,
    /// By the place of the rule.
    matches: Vec<u64>,
    /// The places of rules that are not told of.
    hidden: BTreeSet<usize>,
}

impl RuleBook {
    /// These rules, which have matched nothing yet.
    pub(super) fn new(set: Arc<RuleSet>) -> Self {
        let matches = vec![0; set.rules().len()];
        Self { set, matches, hidden: BTreeSet::new() }
    }

    /// What is left where only some namespaces may be seen, and these verdicts in them: rules of other teams are not told of.
    pub(super) fn only<'a>(
        &self,
        sees: impl Fn(&str) -> bool,
        verdicts: impl Iterator<Item = &'a Verdict>,
    ) -> Self {
        let is_hidden = |rule: &Rule| matches!(rule.origin(), Origin::Team { namespace } if !sees(namespace));
        let rules = self.set.rules().iter().enumerate();
        let hidden = rules.filter(|(_, rule)| is_hidden(rule)).map(|(at, _)| at).collect();
        let mut left = Self { hidden, ..Self::new(self.set.clone()) };
        verdicts.for_each(|verdict| left.add(verdict));
        left
    }

    /// Whether both have the same rules, which match as much.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.set, &other.set) && (&self.matches, &self.hidden) == (&other.matches, &other.hidden)
    }

    /// The rules.
    pub fn set(&self) -> &Arc<RuleSet> {
        &self.set
    }

    /// Every rule with the number of differences that it matches, ignored ones included.
    pub fn matches(&self) -> impl Iterator<Item = (&Rule, u64)> {
        let rules = self.set.rules().iter().zip(self.matches.iter().copied()).enumerate();
        rules.filter(|(at, _)| !self.hidden.contains(at)).map(|(_, own)| own)
    }

    /// Counts what a claim has.
    pub(super) fn add(&mut self, verdict: &Verdict) {
        self.change(verdict, |count| count + 1);
    }

    /// No longer counts what a claim had.
    pub(super) fn take(&mut self, verdict: &Verdict) {
        self.change(verdict, |count| count.saturating_sub(1));
    }

    fn change(&mut self, verdict: &Verdict, change: impl Fn(u64) -> u64) {
        for rule in verdict.differences().flat_map(|difference| &*difference.matched) {
            if let Some(at) = self.set.position(rule) {
                self.matches[at] = change(self.matches[at]);
            }
        }
    }
}

impl Default for RuleBook {
    fn default() -> Self {
        Self::new(Arc::default())
    }
}

/// Keeps the number of matches of each rule right when a claim comes, changes or goes.
pub(super) fn count_matches(book: &mut Arc<RuleBook>, before: Option<&Verdict>, after: Option<&Verdict>) {
    let matched = |verdict: Option<&Verdict>| {
        verdict.is_some_and(|own| own.differences().any(|difference| !difference.matched.is_empty()))
    };
    // Most claims match nothing, and a published book is not copied for them.
    if before == after || !(matched(before) || matched(after)) {
        return;
    }
    let book = Arc::make_mut(book);
    before.into_iter().for_each(|verdict| book.take(verdict));
    after.into_iter().for_each(|verdict| book.add(verdict));
}

#[cfg(test)]
mod tests {
    use super::Ages;

    #[test]
    fn ages_fall_into_the_first_bucket_whose_bound_they_do_not_exceed() {
        let mut ages = Ages::default();
        for seconds in [0.0, 60.0, 60.1, 3_600_000.0] {
            ages.add(seconds);
        }
        assert_eq!(ages.buckets, [2, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
    }
}
