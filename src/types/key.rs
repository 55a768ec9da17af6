//! The identity of an object.

use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use ecow::EcoString;
use hashbrown::Equivalent;
use serde::{Deserialize, Serialize};

use super::{GroupKind, Kind, api_version};

/// A name, a resource version or a part of a field path. Up to 15 bytes need no allocation; clones of a longer text share it.
pub type ShortText = EcoString;

/// Kind, namespace and name. The API version is not part of the identity.
#[derive(Clone, Debug)]
pub struct ObjectKey {
    pub kind: Arc<Kind>,
    /// Empty for cluster-scoped objects.
    pub namespace: ShortText,
    pub name: ShortText,
}

impl PartialEq for ObjectKey {
    fn eq(&self, other: &Self) -> bool {
        self.kind.is_same_type(&other.kind) && self.namespace == other.namespace && self.name == other.name
    }
}

impl Eq for ObjectKey {}

impl Hash for ObjectKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.kind.group_kind(), &self.namespace, &self.name).hash(state);
    }
}

impl ObjectKey {
    pub fn new(kind: impl Into<Arc<Kind>>, namespace: &str, name: &str) -> Self {
        Self { kind: kind.into(), namespace: namespace.into(), name: name.into() }
    }

    pub fn namespaced_name(&self) -> NamespacedName<&str> {
        NamespacedName { namespace: &self.namespace, name: &self.name }
    }

    pub fn cmp_within_kind(&self, namespace: &str, name: &str) -> Ordering {
        (*self.namespace).cmp(namespace).then_with(|| (*self.name).cmp(name))
    }
}

/// `Deployment shop/web`, as `drift-exporter hash` and the log write it.
impl fmt::Display for ObjectKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ", self.kind.kind)?;
        if !self.namespace.is_empty() {
            write!(formatter, "{}/", self.namespace)?;
        }
        formatter.write_str(&self.name)
    }
}

/// The name of an object whose kind follows from the context, owned or borrowed: `NamespacedName<&str>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespacedName<S = Box<str>> {
    /// Empty for cluster-scoped objects.
    pub namespace: S,
    pub name: S,
}

/// A map with owned names is read by borrowed ones.
impl Equivalent<NamespacedName<ShortText>> for NamespacedName<&str> {
    fn equivalent(&self, owned: &NamespacedName<ShortText>) -> bool {
        *self.namespace == *owned.namespace && *self.name == *owned.name
    }
}

/// `shop/web`.
impl fmt::Display for NamespacedName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.namespace, self.name)
    }
}

/// A reference to an object by group, version, kind, namespace and name, as a baseline declares it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectRef {
    /// API group; empty for the core group.
    pub group: Box<str>,
    /// The API version that the baseline is written for.
    pub version: Box<str>,
    pub kind: Box<str>,
    /// Empty for cluster-scoped objects.
    pub namespace: Box<str>,
    pub name: Box<str>,
}

impl ObjectRef {
    pub fn new(group: &str, version: &str, kind: &str, namespace: &str, name: &str) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    pub fn group_kind(&self) -> GroupKind<&str> {
        GroupKind::new(&self.group, &self.kind)
    }

    /// As in manifests: `apps/v1`, or `v1` for the core group.
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// See [`GroupKind::requires_selector`].
    pub fn requires_selector(&self) -> bool {
        self.group_kind().requires_selector()
    }
}
