//! The objects that a filter leaves, the worst first.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use maud::{Markup, html};

use super::{
    filter::Filter,
    streams::{Sight, sight},
};
use crate::{
    expose::lookup::Found,
    model::{Episode, UnknownReason, VerdictKind},
    state::Snapshot,
};

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
    /// Those that the text and the namespace leave, by verdict.
    pub(super) counts: BTreeMap<VerdictKind, usize>,
    /// All there are, by verdict.
    pub(super) totals: BTreeMap<VerdictKind, usize>,
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
            counts: BTreeMap::new(),
            totals: BTreeMap::new(),
            namespaces: BTreeSet::new(),
            kinds: snapshot.kinds.iter().map(|state| state.kind.to_string()).collect(),
            had_drifted: 0,
            sight: sight(snapshot),
        };
        for state in &snapshot.kinds {
            for entry in state.blocks.entries() {
                let row = Row::new((state, entry));
                let key = &entry.object.key;
                overview.namespaces.insert(&key.namespace);
                *overview.totals.entry(row.verdict).or_default() += 1;
                overview.had_drifted += usize::from(row.had_drifted());
                if !filter.takes_namespace(key) || !(words.is_empty() || row.has_all(&words)) {
                    continue;
                }
                *overview.counts.entry(row.verdict).or_default() += 1;
                if filter.verdict.is_none_or(|verdict| verdict == row.verdict) {
                    overview.rows.push(row);
                }
            }
        }
        overview.rows.sort_unstable_by(|a, b| a.order().cmp(&b.order()));
        overview
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

    /// Off ones by severity and then the newest, then the others by what needs attention most, each by name.
    fn order(&self) -> impl Ord + use<'a> {
        let urgency = match self.verdict {
            VerdictKind::Drifted | VerdictKind::Missing | VerdictKind::Replaced => 0,
            VerdictKind::Unknown => 1,
            VerdictKind::InFlight => 2,
            VerdictKind::NoBaseline => 3,
            VerdictKind::Ignored => 4,
            VerdictKind::InSync => 5,
        };
        let worst = self.episode.map(|episode| (episode.worst().severity, episode.onset));
        let key = &self.found.1.object.key;
        (urgency, Reverse(worst), &key.namespace, &key.name, &key.kind)
    }

    fn has_all(&self, words: &[String]) -> bool {
        let key = &self.found.1.object.key;
        let mut text = format!("{} {} {}/{}", key.kind.kind, key.kind, key.namespace, key.name);
        for declared in self.found.1.claim.declared_by() {
            text.extend([" ", &declared.address, " ", &declared.baseline]);
        }
        for difference in self.episode.iter().flat_map(|episode| &episode.differences) {
            for part in [
                difference.actor.as_str(),
                difference.manager().unwrap_or(""),
                difference.finding.class.as_str(),
                &difference.finding.path,
            ] {
                text.push(' ');
                text.push_str(part);
            }
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
        model::{
            Actor, Advice, Difference, Episode, Expectation, FieldClass, Finding, Held, Ignored, Kind,
            LiveObject, ObjectKey, Severity, Source, Trouble, UnknownReason, Verdict,
        },
        state::{Blocks, Claim, Entry, KindState},
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
        Episode { trouble: Trouble::Drifted, onset, differences, ignored: Vec::new() }
    }

    #[test]
    fn the_worst_stands_first_and_what_is_fine_last() {
        let unknown = |held| Verdict::Unknown(UnknownReason::BadHash, held);
        let wanted = [
            ("critical", Verdict::Off(Box::new(episode(Severity::Critical, 1)))),
            ("newer-warning", Verdict::Off(Box::new(episode(Severity::Warning, 9)))),
            ("older-warning", Verdict::Off(Box::new(episode(Severity::Warning, 5)))),
            ("info", Verdict::Off(Box::new(episode(Severity::Info, 10)))),
            ("was-drifted", unknown(Held::Episode(Box::new(episode(Severity::Warning, 3))))),
            ("never-judged", unknown(Held::Nothing)),
            ("in-flight", Verdict::InFlight(Held::Clean)),
            ("no-baseline", Verdict::NoBaseline),
            (
                "ignored",
                Verdict::Ignored(Box::new(Ignored {
                    trouble: Trouble::Drifted,
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
        rows.sort_by(|a, b| a.order().cmp(&b.order()));
        let names: Vec<&str> = rows.iter().map(|row| &*row.found.1.object.key.name).collect();
        assert_eq!(names, wanted.map(|(name, _)| name));
    }
}
