//! The objects that a filter leaves, and how many there are of each sort.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use jiff::Timestamp;
use maud::{Markup, html};

use super::{
    filter::Filter,
    streams::{Sight, sight},
};
use crate::{
    engine::Snapshot,
    server::lookup::Found,
    types::{Episode, Severity, Source, UnknownReason, VerdictKind, Worst},
};

/// How many claims there are by verdict.
pub(super) type Counts = BTreeMap<VerdictKind, usize>;

/// One claim as the table shows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    pub(super) found: Found<'a>,
    pub(super) verdict: VerdictKind,
    pub(super) reason: Option<UnknownReason>,
    /// What differs, or differed when we could last see it.
    pub(super) episode: Option<&'a Episode>,
}

/// What the overview counts and lists.
#[derive(Debug)]
pub(super) struct Overview<'a> {
    /// Those that the whole filter leaves.
    pub(super) rows: Vec<Row<'a>>,
    /// Those that the filter leaves, whatever verdict it asks for, by verdict.
    pub(super) counts: Counts,
    /// Those of them that are off, whatever severity it asks for, by severity.
    pub(super) severities: BTreeMap<Severity, usize>,
    /// All there are, by verdict.
    pub(super) totals: Counts,
    /// All there are, by source and verdict.
    pub(super) sources: BTreeMap<Source, Counts>,
    /// The one that has been off for longest, whatever the filter.
    pub(super) oldest: Option<Row<'a>>,
    /// Every namespace that has an object.
    pub(super) namespaces: BTreeSet<&'a str>,
    /// The kinds that are watched.
    pub(super) kinds: BTreeSet<String>,
    /// Those that cannot be judged now, and had drifted when they last could.
    pub(super) had_drifted: usize,
    /// Whether there may be more than that.
    pub(super) sight: Sight,
}

impl<'a> Overview<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, filter: &Filter) -> Self {
        let words = filter.words();
        let mut overview = Self {
            rows: Vec::new(),
            counts: Counts::new(),
            severities: BTreeMap::new(),
            totals: Counts::new(),
            sources: BTreeMap::new(),
            oldest: None,
            namespaces: BTreeSet::new(),
            kinds: snapshot.kinds.iter().map(|state| state.kind.to_string()).collect(),
            had_drifted: 0,
            sight: sight(snapshot),
        };
        for state in &snapshot.kinds {
            for entry in state.blocks.entries() {
                let row = Row::new((state, entry));
                overview.count(row);
                if filter.takes(&row, &words) {
                    overview.take(row, filter);
                }
            }
        }
        overview.rows.sort_unstable_by(|a, b| filter.sort.compare(a, b));
        overview
    }

    /// Counts a row of all there are.
    fn count(&mut self, row: Row<'a>) {
        let entry = row.found.1;
        self.namespaces.insert(&entry.object.key.namespace);
        *self.totals.entry(row.verdict).or_default() += 1;
        *self.sources.entry(entry.claim.source).or_default().entry(row.verdict).or_default() += 1;
        self.had_drifted += usize::from(row.had_drifted());
        let is_older = |other: Row<'a>| row.onset() < other.onset();
        if row.is_off() && self.oldest.is_none_or(is_older) {
            self.oldest = Some(row);
        }
    }

    /// Counts a row of those that the filter leaves, and lists it where it asks for its verdict and severity, too.
    fn take(&mut self, row: Row<'a>, filter: &Filter) {
        let has_verdict = filter.verdict.is_none_or(|verdict| verdict == row.verdict);
        if filter.takes_severity(&row) {
            *self.counts.entry(row.verdict).or_default() += 1;
            if has_verdict {
                self.rows.push(row);
            }
        }
        if let Some(worst) = row.worst().filter(|_| has_verdict && row.is_off()) {
            *self.severities.entry(worst.severity).or_default() += 1;
        }
    }

    /// How many claims each source has, by verdict.
    pub(super) fn by_source(snapshot: &Snapshot) -> BTreeMap<Source, Counts> {
        let mut sources: BTreeMap<Source, Counts> = BTreeMap::new();
        for state in &snapshot.kinds {
            for entry in state.blocks.entries() {
                let (verdict, _) = state.shown_verdict(entry);
                *sources.entry(entry.claim.source).or_default().entry(verdict).or_default() += 1;
            }
        }
        sources
    }

    /// How many objects there are, whatever the filter.
    pub(super) fn known(&self) -> usize {
        self.totals.values().sum()
    }

    /// How many have this verdict, whatever the filter.
    pub(super) fn total(&self, verdict: VerdictKind) -> usize {
        self.totals.get(&verdict).copied().unwrap_or(0)
    }
}

impl<'a> Row<'a> {
    pub(super) fn new(found: Found<'a>) -> Self {
        let (state, entry) = found;
        let (verdict, reason) = state.shown_verdict(entry);
        Self { found, verdict, reason, episode: entry.claim.verdict.episode() }
    }

    /// Whether it drifted when it could last be judged, which is not now.
    pub(super) fn had_drifted(&self) -> bool {
        matches!(self.verdict, VerdictKind::Unknown | VerdictKind::InFlight) && self.episode.is_some()
    }

    /// Whether it is not as declared, and that is known.
    pub(super) fn is_off(&self) -> bool {
        matches!(self.verdict, VerdictKind::Drifted | VerdictKind::Missing | VerdictKind::Replaced)
    }

    /// The worst of what differs, or differed when we could last see it.
    pub(super) fn worst(&self) -> Option<Worst<'a>> {
        self.episode.map(Episode::worst)
    }

    /// Since when it is off, as far as it is.
    pub(super) fn onset(&self) -> Option<Timestamp> {
        self.episode.map(|episode| episode.onset)
    }

    /// Off ones by severity and then the newest, then the others by what needs attention most.
    pub(super) fn urgency(&self) -> impl Ord + use<> {
        let urgency = match self.verdict {
            VerdictKind::Drifted | VerdictKind::Missing | VerdictKind::Replaced => 0,
            VerdictKind::Unknown => 1,
            VerdictKind::InFlight => 2,
            VerdictKind::NoBaseline => 3,
            VerdictKind::Ignored => 4,
            VerdictKind::InSync => 5,
        };
        (urgency, Reverse(self.worst().map(|worst| worst.severity)), Reverse(self.onset()))
    }

    /// What it is called, unlike all others.
    pub(super) fn name(&self) -> impl Ord + use<'a> {
        let (key, source) = (&self.found.1.object.key, self.found.1.claim.source);
        (&key.namespace, &key.name, &key.kind, source)
    }

    pub(super) fn has_all(&self, words: &[String]) -> bool {
        let key = &self.found.1.object.key;
        let mut text = format!("{} {} {}/{}", key.kind.kind, key.kind, key.namespace, key.name);
        for declared in self.found.1.claim.declared_by() {
            text.extend([" ", &declared.address, " ", &declared.baseline]);
        }
        // Those that rules ignore count too: people come here from the rule.
        for difference in self.found.1.claim.verdict.differences() {
            let rules = difference.matched.iter().map(|rule| &**rule);
            let parts = [
                difference.actor.as_str(),
                difference.manager().unwrap_or(""),
                difference.finding.class.as_str(),
                &difference.finding.path,
            ];
            text.extend(parts.into_iter().chain(rules).flat_map(|part| [" ", part]));
        }
        let text = text.to_lowercase();
        words.iter().all(|word| text.contains(word.as_str()))
    }
}

/// The object's health, which is as old as what we last heard of it.
pub(super) fn health(row: &Row<'_>) -> Markup {
    let facts = &row.found.1.object.facts;
    html! {
        span class={ "health " (facts.health) } { (facts.health) }
        @if row.reason == Some(UnknownReason::Stale) { span.detail { "when last seen" } }
        @if !facts.message.is_empty() { span.detail { (facts.message) } }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;

    use super::Row;
    use crate::{
        engine::{Blocks, Claim, Entry, KindState},
        server::ui::sort::Sort,
        types::{
            Actor, Advice, Difference, DriftKind, Episode, Expectation, FieldClass, Finding, Ignored, Kind,
            LastKnown, LiveObject, ObjectKey, Severity, Source, UnknownReason, Verdict,
        },
    };

    fn episode(severity: Severity, onset: i64) -> Episode {
        let onset = Timestamp::from_second(onset).unwrap();
        let finding = Finding {
            path: "spec".into(),
            class: FieldClass::Hash,
            expected: "a".into(),
            actual: "b".into(),
            writer: None,
        };
        let (expectation, advice, actor) = (Expectation::Unexpected, Advice::AlertOnly, Actor::Nobody);
        let differences = vec![Difference {
            finding,
            severity,
            expectation,
            advice,
            actor,
            onset,
            ignored_by: None,
            matched: Arc::default(),
        }];
        Episode { trouble: DriftKind::Drifted, onset, differences, ignored: Vec::new() }
    }

    #[test]
    fn the_worst_stands_first_and_what_is_fine_last() {
        let unknown = |held| Verdict::Unknown(UnknownReason::BadHash, held);
        let wanted = [
            ("critical", Verdict::Off(Box::new(episode(Severity::Critical, 1)))),
            ("newer-warning", Verdict::Off(Box::new(episode(Severity::Warning, 9)))),
            ("older-warning", Verdict::Off(Box::new(episode(Severity::Warning, 5)))),
            ("info", Verdict::Off(Box::new(episode(Severity::Info, 10)))),
            ("was-drifted", unknown(LastKnown::Episode(Box::new(episode(Severity::Warning, 3))))),
            ("never-judged", unknown(LastKnown::Nothing)),
            ("in-flight", Verdict::InFlight(LastKnown::Clean)),
            ("no-baseline", Verdict::NoBaseline),
            (
                "ignored",
                Verdict::Ignored(Box::new(Ignored {
                    trouble: DriftKind::Drifted,
                    differences: Vec::new(),
                    onset: None,
                })),
            ),
            ("a", Verdict::InSync),
            ("b", Verdict::InSync),
        ];
        let kind = Arc::new(Kind::deployment());
        let state = KindState { kind: kind.clone(), streams: Vec::new(), blocks: Blocks::default() };
        let mut entries: Vec<Entry> = wanted
            .iter()
            .map(|(name, verdict)| Entry {
                object: Arc::new(LiveObject {
                    exists: true,
                    uid: "uid".into(),
                    resource_version: "1".into(),
                    ..LiveObject::absent(ObjectKey {
                        kind: kind.clone(),
                        namespace: "shop".into(),
                        name: (*name).into(),
                    })
                }),
                claim: Claim {
                    source: Source::Annotation,
                    verdict: verdict.clone(),
                    episodes: None,
                    details: None,
                },
            })
            .collect();
        entries.sort_by(|a, b| a.object.key.name.cmp(&b.object.key.name));
        let mut rows: Vec<Row<'_>> = entries.iter().map(|entry| Row::new((&state, entry))).collect();
        rows.sort_by(|a, b| Sort::WORST_FIRST.compare(a, b));
        let names: Vec<&str> = rows.iter().map(|row| &*row.found.1.object.key.name).collect();
        assert_eq!(names, wanted.map(|(name, _)| name));
    }
}
