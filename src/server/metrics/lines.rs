//! The sample lines of one block of objects.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use super::{
    MetricsOptions,
    catalog::{BLIND, DRIFTED, EPISODES, FIELDS, HEALTH, ONSET},
    fragment::Fragment,
    text::push_labels,
};
use crate::{
    config::ShownLabel,
    engine::{Claim, ClaimBlock, ClaimEntry},
    types::{DriftKind, Episode, ShortText, Source, UnknownReason, VerdictKind},
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
    /// Claims by namespace, source, verdict and reason.
    pub(super) tally: BTreeMap<TallyKey, u64>,
}

pub(super) type TallyKey = (ShortText, Source, VerdictKind, Option<UnknownReason>);

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

impl BlockLines {
    pub(super) fn render<'a>(
        entries: impl IntoIterator<Item = &'a Arc<ClaimEntry>>,
        options: &MetricsOptions,
    ) -> Self {
        let [mut drifted, mut clean, mut onset, mut fields, mut blind, mut episodes, mut health] =
            std::array::from_fn(|_| LineBuffer::default());
        let mut tally = BTreeMap::new();
        let mut labels = String::new();
        for entry in entries {
            let claim = &entry.claim;
            labels.clear();
            push_object_labels(&mut labels, entry, &options.labels);
            match claim.verdict.drifted_value() {
                Some(true) => drifted.line(DRIFTED.name, &labels, 1),
                Some(false) => clean.line(DRIFTED.name, &labels, 0),
                None => {}
            }
            if let Some(count) =
                claim.details.as_ref().map(|details| details.blind_fields.len()).filter(|count| *count > 0)
            {
                blind.line(BLIND.name, &labels, i64::try_from(count).unwrap_or(i64::MAX));
            }
            if let Some(episodes_seen) = claim.episodes {
                episodes.line(EPISODES.name, &labels, i64::from(episodes_seen.count));
            }
            if let Some(episode) = claim.verdict.episode() {
                if episode.drift_kind == DriftKind::Drifted {
                    fields.line(
                        FIELDS.name,
                        &labels,
                        i64::try_from(episode.differences.len()).unwrap_or(i64::MAX),
                    );
                }
                labels.push(',');
                push_labels(&mut labels, &episode_labels(episode, claim));
                onset.line(ONSET.name, &labels, episode.onset.as_second());
            }
            if options.health
                && let Some(object) = entry.object.live()
            {
                labels.clear();
                push_object_labels(&mut labels, entry, &options.labels);
                labels.push(',');
                push_labels(&mut labels, &[("health", object.facts.health.as_str())]);
                health.line(HEALTH.name, &labels, 1);
            }
            let namespace = entry.key().namespace.clone();
            let key = (namespace, claim.source, claim.verdict.kind(), claim.verdict.reason());
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

    /// The lines of the first drifted objects that fit; each has at most five series.
    pub(super) fn first_drifting(block: &ClaimBlock, options: &MetricsOptions, room: usize) -> Self {
        let drifting = block.entries().iter().filter(|entry| entry.claim.verdict.episode().is_some());
        Self::render(drifting.take(room / 5), &MetricsOptions { health: false, ..options.clone() })
    }

    /// Series of objects that drift, drifted within the last day, or have undeclared fields.
    pub(super) fn drifting(&self) -> usize {
        self.drifted.count + self.onset.count + self.fields.count + self.blind.count + self.episodes.count
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
