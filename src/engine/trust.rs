//! Whether a baseline may speak for an object. [`Corroborations::trust`] is the only place that decides it.

use std::{collections::HashSet, sync::Arc};

use serde::{Deserialize, Serialize};

use super::history::flat_key;
use crate::types::{Baseline, HelmRelease, ObjectKey};

/// A Helm release and an object beyond its namespace whose annotations named the release. One line of the history file is its
/// JSON form.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Corroboration {
    #[serde(rename = "corroborated_release")]
    pub release: HelmRelease,
    #[serde(flatten, with = "flat_key")]
    pub key: ObjectKey,
}

/// The corroborations that hold: each until its release declares the object no longer, or until the annotations name another
/// release that declares it. So neither deleting an object nor editing its annotations hides its drift. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Corroborations(Arc<HashSet<Corroboration>>);

impl Corroborations {
    /// Whether a baseline may speak for an object.
    pub(super) fn trust(&self, baseline: &Baseline, key: &ObjectKey) -> bool {
        let is_corroborated = |release: &HelmRelease| {
            self.0.contains(&Corroboration { release: release.clone(), key: key.clone() })
        };
        baseline.authority.covers(&key.namespace) || baseline.authority.release().is_some_and(is_corroborated)
    }

    /// Updates the corroborations of an object whose annotations name `named`. `declaring` are all releases that declare it.
    pub(super) fn observe(&mut self, key: &ObjectKey, named: &HelmRelease, declaring: Vec<HelmRelease>) {
        if !declaring.contains(named) {
            return;
        }
        for release in declaring {
            let holds = release == *named;
            let corroboration = Corroboration { release, key: key.clone() };
            if self.0.contains(&corroboration) == holds {
                continue;
            }
            let corroborations = Arc::make_mut(&mut self.0);
            if holds {
                corroborations.insert(corroboration);
            } else {
                corroborations.remove(&corroboration);
            }
        }
    }

    /// Forgets an object that a release declares no longer.
    pub(super) fn remove(&mut self, release: &HelmRelease, key: &ObjectKey) {
        let corroboration = Corroboration { release: release.clone(), key: key.clone() };
        if self.0.contains(&corroboration) {
            Arc::make_mut(&mut self.0).remove(&corroboration);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Corroboration> {
        self.0.iter()
    }

    pub fn contains(&self, corroboration: &Corroboration) -> bool {
        self.0.contains(corroboration)
    }

    /// Whether both are the same value, without comparing them.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl FromIterator<Corroboration> for Corroborations {
    fn from_iter<I: IntoIterator<Item = Corroboration>>(corroborations: I) -> Self {
        Self(Arc::new(corroborations.into_iter().collect()))
    }
}
