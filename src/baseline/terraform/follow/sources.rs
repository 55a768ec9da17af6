//! Where states are looked for, and what follows from what they declare.

use std::{path::PathBuf, sync::Arc};

use jiff::SignedDuration;

use crate::model::{Scope, SealKey, WantedKind};

/// Where states are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateSources {
    /// Whether they are looked for at all.
    pub enabled: bool,
    /// The namespaces in which state Secrets, their locks and published baselines are looked for.
    pub scope: Scope,
    /// States in files, and directories of such.
    pub files: Vec<PathBuf>,
    /// For how long whoever holds a lock is believed to be at work.
    pub lock_max_age: SignedDuration,
    /// Whether all of them declare objects of this cluster, so that nobody has to find out.
    pub here: bool,
    /// What labels and annotations of published baselines begin with, without a slash.
    pub prefix: Box<str>,
}

impl Default for StateSources {
    fn default() -> Self {
        Self {
            enabled: false,
            scope: Scope::default(),
            files: Vec::new(),
            lock_max_age: SignedDuration::from_mins(30),
            here: false,
            prefix: "tfdrift.jin.dev".into(),
        }
    }
}

/// What has to be watched for what states declare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The kinds that they name, and single objects of kinds that nobody should read by the way.
    pub kinds: Vec<WantedKind>,
    /// The keys that live Secrets are to be sealed with: that of this process first, then those of published baselines.
    pub keys: Arc<[SealKey]>,
}

impl Wanted {
    /// Nothing but this key.
    pub fn nothing(key: SealKey) -> Self {
        Self { kinds: Vec::new(), keys: [key].into() }
    }

    /// What several sources want, together.
    pub fn merged<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        let (mut kinds, mut keys) = (Vec::new(), Vec::new());
        for wanted in all {
            kinds.extend(wanted.kinds.iter().cloned());
            for key in wanted.keys.iter() {
                if !keys.contains(key) {
                    keys.push(key.clone());
                }
            }
        }
        Self { kinds, keys: keys.into() }
    }
}
