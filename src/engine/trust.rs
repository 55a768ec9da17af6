//! Whether a baseline has authority over an object. Only [`Corroborations::trust`] decides it.

use std::{collections::HashSet, sync::Arc};

use serde::{Deserialize, Serialize};

use super::history::flat_key;
use crate::types::{Baseline, HelmRelease, ObjectKey};

/// A Helm release, and an object outside its namespace whose annotations named the release. One line of the history file is
/// its JSON form.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Corroboration {
    #[serde(rename = "corroborated_release")]
    pub release: HelmRelease,
    #[serde(flatten, with = "flat_key")]
    pub key: ObjectKey,
}

/// The current corroborations. Each ends when its release no longer declares the object. Deleting an object or editing its
/// annotations therefore does not hide its drift, even if they name another release that declares it. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Corroborations(Arc<HashSet<Corroboration>>);

impl Corroborations {
    /// Whether a baseline has authority over an object.
    pub(super) fn trust(&self, baseline: &Baseline, key: &ObjectKey) -> bool {
        let is_corroborated = |release: &HelmRelease| {
            self.0.contains(&Corroboration { release: release.clone(), key: key.clone() })
        };
        baseline.authority.covers(&key.namespace) || baseline.authority.release().is_some_and(is_corroborated)
    }

    /// Adds the corroboration of a release that declares an object whose annotations name it.
    pub(super) fn add(&mut self, release: &HelmRelease, key: &ObjectKey) {
        let corroboration = Corroboration { release: release.clone(), key: key.clone() };
        if !self.0.contains(&corroboration) {
            Arc::make_mut(&mut self.0).insert(corroboration);
        }
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&Corroboration) -> bool) {
        if !self.0.iter().all(&keep) {
            Arc::make_mut(&mut self.0).retain(keep);
        }
    }

    /// Removes an object that a release no longer declares.
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
