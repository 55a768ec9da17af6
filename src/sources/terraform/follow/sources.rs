//! Where states are looked for.

use std::path::PathBuf;

use jiff::SignedDuration;

use crate::types::Scope;

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
