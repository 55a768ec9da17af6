//! The sample lines of one block of objects.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use super::{
    MetricsOptions,
    catalog::{BLIND, DRIFTED, EPISODES, FIELDS, HEALTH, ONSET},
    fragment::Fragment,
    limit::Selection,
    text::push_labels,
};
use crate::{
    config::ShownLabel,
    engine::{Claim, ClaimEntry},
    types::{DriftKind, Episode, Severity, ShortText, Source, UnknownReason, VerdictKind},
};

#[derive(Debug)]
pub(super) struct BlockLines {
    /// `drift_resource_drifted` at 1.
    pub(super) drifted: Lines,
    /// `drift_resource_drifted` at 0.
    pub(super) clean: Lines,
    pub(super) onset: Lines,
    pub(super) fields: Lines,
    pub(super) blind: Lines,
    pub(super) episodes: Lines,
    /// `drift_resource_health`, if enabled.
    pub(super) health: Lines,
    pub(super) tally: BTreeMap<TallyKey, u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TallyKey {
    pub(super) namespace: ShortText,
    pub(super) source: Source,
    pub(super) verdict: VerdictKind,
    pub(super) reason: Option<UnknownReason>,
}

#[derive(Debug)]
pub(super) struct Lines {
    pub(super) count: usize,
    pub(super) fragment: Fragment,
}

#[derive(Default)]
struct LineBuffer {
    count: usize,
    text: String,
}

impl LineBuffer {
    fn line(&mut self, name: &str, labels: &str, value: i64) {
        self.count += 1;
        writeln!(self.text, "{name}{{{labels}}} {value}").expect("writing to a string cannot fail");
    }

    fn finish(mut self) -> Lines {
        self.text.shrink_to_fit();
        Lines { count: self.count, fragment: Fragment::new(self.text) }
    }
}

/// The series of one claim.
struct ClaimSeries<'a> {
    episode: Option<&'a Episode>,
    /// The value of `drift_resource_drifted`.
    drifted: Option<bool>,
    blind_fields: usize,
    episodes: Option<u32>,
    health: Option<&'static str>,
}

impl<'a> ClaimSeries<'a> {
    fn of(entry: &'a ClaimEntry, options: &MetricsOptions) -> Self {
        let claim = &entry.claim;
        // An untrusted claim has no series.
        let is_trusted = !claim.verdict.is_untrusted();
        let live = entry.object.live().filter(|_| options.health && is_trusted);
        Self {
            episode: claim.verdict.episode(),
            drifted: claim.verdict.drifted_value(),
            blind_fields: claim.details.as_ref().map_or(0, |details| details.blind_fields.len()),
            episodes: claim.episodes.map(|episodes| episodes.count),
            health: live.map(|object| object.facts.health.as_str()),
        }
    }

    /// The number of differing fields, for an object that exists.
    fn fields(&self) -> Option<usize> {
        let drifted = self.episode.filter(|episode| episode.drift_kind == DriftKind::Drifted);
        drifted.map(|episode| episode.differences.len())
    }

    /// The series of an object that drifts, drifted within the last day, or has undeclared fields.
    fn drifting(&self) -> usize {
        let exists = [
            self.drifted == Some(true),
            self.episode.is_some(),
            self.fields().is_some(),
            self.blind_fields > 0,
            self.episodes.is_some(),
        ];
        exists.into_iter().map(usize::from).sum()
    }

    /// The group of [`Self::drifting`].
    fn drifting_group(&self) -> SeriesGroup {
        let is_critical = self.episode.is_some_and(|episode| episode.worst().severity == Severity::Critical);
        if is_critical { SeriesGroup::Critical } else { SeriesGroup::Drifting }
    }
}

/// Groups of series in the order in which they get room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SeriesGroup {
    /// Of objects with critical drift.
    Critical,
    /// Of other objects that drift, drifted within the last day, or have undeclared fields.
    Drifting,
    /// `drift_resource_drifted` at 0.
    Clean,
    Health,
}

impl SeriesGroup {
    pub(super) const ALL: [Self; 4] = [Self::Critical, Self::Drifting, Self::Clean, Self::Health];

    /// The number of series of a claim in this group.
    pub(super) fn count(self, entry: &ClaimEntry, options: &MetricsOptions) -> usize {
        let series = ClaimSeries::of(entry, options);
        match self {
            Self::Critical | Self::Drifting if series.drifting_group() == self => series.drifting(),
            Self::Critical | Self::Drifting => 0,
            Self::Clean => usize::from(series.drifted == Some(false) && !options.only_drifted),
            Self::Health => usize::from(series.health.is_some()),
        }
    }
}

impl BlockLines {
    pub(super) fn render<'a>(
        entries: impl IntoIterator<Item = &'a Arc<ClaimEntry>>,
        options: &MetricsOptions,
    ) -> Self {
        const ALL: &Selection = &[true; SeriesGroup::ALL.len()];
        Self::render_selected(entries.into_iter().map(|entry| (entry, ALL)), options)
    }

    /// Only the selected series of each claim.
    pub(super) fn render_selected<'a>(
        entries: impl IntoIterator<Item = (&'a Arc<ClaimEntry>, &'a Selection)>,
        options: &MetricsOptions,
    ) -> Self {
        let [mut drifted, mut clean, mut onset, mut fields, mut blind, mut episodes, mut health] =
            std::array::from_fn(|_| LineBuffer::default());
        let mut tally = BTreeMap::new();
        let mut labels = String::new();
        for (entry, selection) in entries {
            let is_selected = |group: SeriesGroup| selection[group as usize];
            let claim = &entry.claim;
            let series = ClaimSeries::of(entry, options);
            labels.clear();
            push_object_labels(&mut labels, entry, &options.labels);
            if series.drifted == Some(false) && is_selected(SeriesGroup::Clean) {
                clean.line(DRIFTED.name, &labels, 0);
            }
            if let Some(word) = series.health.filter(|_| is_selected(SeriesGroup::Health)) {
                let length = labels.len();
                labels.push(',');
                push_labels(&mut labels, &[("health", word)]);
                health.line(HEALTH.name, &labels, 1);
                labels.truncate(length);
            }
            if series.drifting() > 0 && is_selected(series.drifting_group()) {
                let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
                if series.drifted == Some(true) {
                    drifted.line(DRIFTED.name, &labels, 1);
                }
                if series.blind_fields > 0 {
                    blind.line(BLIND.name, &labels, number(series.blind_fields));
                }
                if let Some(count) = series.episodes {
                    episodes.line(EPISODES.name, &labels, i64::from(count));
                }
                if let Some(count) = series.fields() {
                    fields.line(FIELDS.name, &labels, number(count));
                }
                if let Some(episode) = series.episode {
                    labels.push(',');
                    push_labels(&mut labels, &episode_labels(episode, claim));
                    onset.line(ONSET.name, &labels, episode.onset.as_second());
                }
            }
            let key = TallyKey {
                namespace: entry.key().namespace.clone(),
                source: claim.source,
                verdict: claim.verdict.kind(),
                reason: claim.verdict.reason(),
            };
            *tally.entry(key).or_insert(0) += 1;
        }
        Self {
            drifted: drifted.finish(),
            clean: clean.finish(),
            onset: onset.finish(),
            fields: fields.finish(),
            blind: blind.finish(),
            episodes: episodes.finish(),
            health: health.finish(),
            tally,
        }
    }

    /// The number of series, without those at 0 if only drifted objects are shown.
    pub(super) fn series(&self, options: &MetricsOptions) -> usize {
        let clean = if options.only_drifted { 0 } else { self.clean.count };
        self.drifted.count
            + self.onset.count
            + self.fields.count
            + self.blind.count
            + self.episodes.count
            + self.health.count
            + clean
    }
}

/// The labels of every series of an object; configured object labels come last.
fn push_object_labels(out: &mut String, entry: &ClaimEntry, shown: &[ShownLabel]) {
    push_labels(out, &object_labels(entry));
    for ShownLabel { key, name } in shown {
        if let Some((_, value)) = entry.object.rule_inputs().labels.iter().find(|(label, _)| label == key) {
            out.push(',');
            push_labels(out, &[(name, value)]);
        }
    }
}

fn object_labels(entry: &ClaimEntry) -> [(&str, &str); 5] {
    let key = entry.key();
    [
        ("group", &key.kind.group),
        ("kind", &key.kind.kind),
        ("namespace", &key.namespace),
        ("name", &key.name),
        ("source", entry.claim.source.as_str()),
    ]
}

fn episode_labels<'a>(episode: &Episode, claim: &'a Claim) -> [(&'static str, &'a str); 6] {
    let worst = episode.worst();
    let declared_by = claim.declared_by().first();
    [
        ("severity", worst.severity.as_str()),
        ("expectation", worst.expectation.as_str()),
        ("actor", worst.actor.as_str()),
        ("field", worst.field.as_str()),
        // Empty for sources without addresses and states.
        ("address", declared_by.map_or("", |declaration| &declaration.address)),
        ("state", declared_by.map_or("", |declaration| &declaration.baseline)),
    ]
}
