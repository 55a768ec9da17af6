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

#[cfg(test)]
mod tests {
    use super::{Corroboration, Corroborations, HelmRelease, ObjectKey};
    use crate::types::Kind;

    #[test]
    fn corroborations_are_copied_if_one_changes() {
        let release = |name: &str| HelmRelease { namespace: "shop".into(), name: name.into() };
        let key = ObjectKey::new(Kind::service(), "attic", "web");
        let mut corroborations = Corroborations::default();
        corroborations.add(&release("one"), &key);
        let published = corroborations.clone();
        corroborations.add(&release("one"), &key);
        corroborations.remove(&release("two"), &key);
        corroborations.retain(|_| true);
        assert!(corroborations.is_same(&published), "nothing changed");
        let change: [fn(&mut Corroborations, &HelmRelease, &ObjectKey); 3] = [
            |all, _, key| all.add(&HelmRelease { namespace: "shop".into(), name: "two".into() }, key),
            |all, one, key| all.remove(one, key),
            |all, _, _| all.retain(|_| false),
        ];
        for change in change {
            let mut changed = published.clone();
            change(&mut changed, &release("one"), &key);
            assert!(!changed.is_same(&published));
        }
        assert!(published.contains(&Corroboration { release: release("one"), key }), "readers keep theirs");
    }
}
