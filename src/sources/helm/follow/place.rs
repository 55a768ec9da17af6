//! Where releases are looked for, and where one is.

use std::fmt;

use jiff::SignedDuration;

use crate::{
    sources::feed::{Feed, Objects},
    types::{Origin, Scope},
};

/// The label that all objects have that Helm keeps releases in.
const SELECTOR: &str = "owner=helm";

/// Where releases are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseSources {
    /// Whether they are looked for at all.
    pub enabled: bool,
    /// The namespaces in which they are looked for.
    pub scope: Scope,
    /// For how long an install, upgrade or rollback is believed to be under way.
    pub pending_max_age: SignedDuration,
}

impl Default for ReleaseSources {
    fn default() -> Self {
        Self { enabled: false, scope: Scope::default(), pending_max_age: SignedDuration::from_mins(30) }
    }
}

/// What Helm keeps releases in: one of its drivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Driver {
    Secrets,
    ConfigMaps,
}

/// A release.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) driver: Driver,
    pub(super) namespace: Box<str>,
    pub(super) release: Box<str>,
}

impl Driver {
    pub(super) const ALL: [Self; 2] = [Self::Secrets, Self::ConfigMaps];

    /// What it keeps a release in.
    pub(super) fn object(self) -> &'static str {
        match self {
            Self::Secrets => "Secret",
            Self::ConfigMaps => "ConfigMap",
        }
    }

    pub(super) fn origin(self) -> Origin {
        match self {
            Self::Secrets => Origin::HelmSecret,
            Self::ConfigMaps => Origin::HelmConfigMap,
        }
    }
}

/// `release shop/web`, as messages say where something is wrong.
impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "release {}/{}", self.namespace, self.release)
    }
}

/// The feeds that these settings want.
pub(super) fn feeds(sources: &ReleaseSources) -> Vec<Feed<Driver>> {
    if !sources.enabled {
        return Vec::new();
    }
    let of = |driver, objects| Feed::within(&sources.scope, driver, objects, SELECTOR);
    [of(Driver::Secrets, Objects::Secrets), of(Driver::ConfigMaps, Objects::ConfigMaps)].concat()
}
