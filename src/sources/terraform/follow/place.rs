//! A place where a state is.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use super::StateSources;
use crate::types::{Origin, Scope};

/// A place where a state is: the first of its Secrets, or a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// Secrets of Terraform's Kubernetes backend.
    State(SecretName),
    /// Secrets that `drift-exporter baseline` made.
    Published(SecretName),
    /// A file, or something that should have been one.
    File(PathBuf),
}

/// The name of a Secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SecretName {
    pub(super) namespace: Box<str>,
    pub(super) name: Box<str>,
}

impl Place {
    pub(super) fn origin(&self) -> Origin {
        match self {
            Self::State(_) => Origin::StateSecret,
            Self::Published(_) => Origin::Published,
            Self::File(_) => Origin::File,
        }
    }

    /// Whether it is still looked at with other settings.
    pub(super) fn belongs(&self, before: &StateSources, now: &StateSources) -> bool {
        let has = |scope: &Scope, secret: &SecretName| scope.has(&secret.namespace);
        now.enabled
            && match self {
                Self::State(secret) => has(&now.scope, secret),
                Self::Published(secret) => has(&now.scope, secret) && before.prefix == now.prefix,
                Self::File(path) => now.files.iter().any(|given| is_of(path, given)),
            }
    }
}

/// Whether a file was found where one, or a directory, was given.
fn is_of(path: &Path, given: &Path) -> bool {
    path.starts_with(given)
}

impl fmt::Display for SecretName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.namespace, self.name)
    }
}

/// `Secret terraform/tfstate-default-shop`, as messages say where something is wrong.
impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State(secret) | Self::Published(secret) => write!(formatter, "Secret {secret}"),
            Self::File(path) => write!(formatter, "file {}", path.display()),
        }
    }
}
