//! The lines of one block of objects.

use std::{collections::BTreeMap, fmt::Write as _};

use super::{
    catalog::{DRIFTED, EPISODES, FIELDS, HEALTH, ONSET},
    fragment::Fragment,
    text::push_labels,
};
use crate::{
    model::{Actor, Episode, Expectation, FieldClass, Severity, Source, Trouble},
    state::{Block, Entry},
};

/// Everything that a page shows of one block.
#[derive(Debug)]
pub(super) struct BlockLines {
    /// `drift_resource_drifted` of objects that drift.
    pub(super) drifted: Lines,
    /// `drift_resource_drifted` of objects that do not.
    pub(super) clean: Lines,
    /// `drift_resource_drifted_timestamp_seconds`.
    pub(super) onset: Lines,
    /// `drift_resource_drifted_fields`.
    pub(super) fields: Lines,
    /// `drift_resource_episodes_total`.
    pub(super) episodes: Lines,
    /// `drift_resource_health`, where switched on.
    pub(super) health: Lines,
    /// How many objects of a namespace have which verdict of their own.
    pub(super) tally: BTreeMap<TallyKey, u64>,
}

/// What objects of one kind are counted by: namespace, source, verdict, reason.
pub(super) type TallyKey = (Box<str>, Source, &'static str, &'static str);

/// Some lines of one family.
#[derive(Debug)]
pub(super) struct Lines {
    pub(super) count: usize,
    pub(super) fragment: Fragment,
}

#[derive(Default)]
struct Draft {
    count: usize,
    text: String,
}

impl Draft {
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
    pub(super) fn render(block: &Block, with_health: bool) -> Self {
        let [mut drifted, mut clean, mut onset, mut fields, mut episodes, mut health] =
            std::array::from_fn(|_| Draft::default());
        let mut tally = BTreeMap::new();
        let mut labels = String::new();
        for entry in block.entries() {
            let claim = &entry.claim;
            labels.clear();
            push_labels(&mut labels, &object_labels(entry));
            match claim.verdict.drifted() {
                Some(true) => drifted.line(DRIFTED.name, &labels, 1),
                Some(false) => clean.line(DRIFTED.name, &labels, 0),
                None => {}
            }
            if let Some(episodes_seen) = claim.episodes {
                episodes.line(EPISODES.name, &labels, i64::from(episodes_seen.count));
            }
            if let Some(episode) = claim.verdict.episode() {
                if episode.trouble == Trouble::Drifted {
                    fields.line(
                        FIELDS.name,
                        &labels,
                        i64::try_from(episode.differences.len()).unwrap_or(i64::MAX),
                    );
                }
                labels.push(',');
                push_labels(&mut labels, &episode_labels(episode));
                onset.line(ONSET.name, &labels, episode.onset.as_second());
            }
            if with_health {
                labels.clear();
                push_labels(&mut labels, &object_labels(entry));
                labels.push(',');
                push_labels(&mut labels, &[("health", entry.object.facts.health.as_str())]);
                health.line(HEALTH.name, &labels, 1);
            }
            let namespace = entry.object.key.namespace.clone();
            let key = (namespace, claim.source, claim.verdict.as_str(), claim.verdict.reason());
            *tally.entry(key).or_insert(0) += 1;
        }
        Self {
            drifted: drifted.finish(),
            clean: clean.finish(),
            onset: onset.finish(),
            fields: fields.finish(),
            episodes: episodes.finish(),
            health: health.finish(),
            tally,
        }
    }

    /// How many series the objects that drift, drifted or may be ill have.
    pub(super) fn important(&self) -> usize {
        self.drifted.count + self.onset.count + self.fields.count + self.episodes.count
    }

    /// How many series the other ones have.
    pub(super) fn ordinary(&self) -> usize {
        self.clean.count + self.health.count
    }
}

fn object_labels(entry: &Entry) -> [(&str, &str); 5] {
    let key = &entry.object.key;
    [
        ("group", &key.kind.group),
        ("kind", &key.kind.kind),
        ("namespace", &key.namespace),
        ("name", &key.name),
        ("source", entry.claim.source.as_str()),
    ]
}

/// What is told about the worst difference. An object that is missing or replaced has none.
fn episode_labels(episode: &Episode) -> [(&str, &str); 6] {
    let worst = episode.differences.first();
    let field = match episode.trouble {
        Trouble::Drifted => worst.map_or(FieldClass::Other, |worst| worst.finding.class),
        Trouble::Missing | Trouble::Replaced => FieldClass::Existence,
    };
    [
        ("severity", worst.map_or(Severity::Critical, |worst| worst.severity).as_str()),
        ("expectation", worst.map_or(Expectation::Unexpected, |worst| worst.expectation).as_str()),
        ("actor", worst.map_or(Actor::Nobody, |worst| worst.actor).as_str()),
        ("field", field.as_str()),
        // Only sources that have addresses and states fill these.
        ("address", ""),
        ("state", ""),
    ]
}
