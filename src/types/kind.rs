//! Resource types: as the API server names them, as settings request them, as discovery reports them.

use std::{collections::BTreeMap, fmt, sync::Arc};

use hashbrown::Equivalent;
use serde::{Deserialize, Serialize};

use super::{NameSet, Scope, Selector};

/// A resource type as the API server names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Kind {
    /// API group; empty for the core group.
    pub group: Box<str>,
    pub version: Box<str>,
    /// The name used in manifests, `Deployment`.
    pub kind: Box<str>,
    /// The name used in URLs, `deployments`.
    pub plural: Box<str>,
    pub namespaced: bool,
}

/// A resource type in whatever version, owned or borrowed: `GroupKind<&str>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKind<S = Box<str>> {
    /// API group; empty for the core group.
    pub group: S,
    /// The name used in manifests, `Deployment`.
    pub kind: S,
}

impl<'a> GroupKind<&'a str> {
    pub const DEPLOYMENT: Self = Self::new("apps", "Deployment");
    pub const SERVICE: Self = Self::new("", "Service");
    pub const SECRET: Self = Self::new("", "Secret");
    pub const JOB: Self = Self::new("batch", "Job");
    const LEASE: Self = Self::new("coordination.k8s.io", "Lease");
    const AUTOSCALER: Self = Self::new("autoscaling", "HorizontalPodAutoscaler");

    pub const fn new(group: &'a str, kind: &'a str) -> Self {
        Self { group, kind }
    }

    pub fn into_owned(self) -> GroupKind {
        GroupKind { group: self.group.into(), kind: self.kind.into() }
    }

    /// Secrets hold credentials and Leases change every few seconds, so the exporter never lists all of them.
    pub fn requires_selector(self) -> bool {
        [GroupKind::SECRET, GroupKind::LEASE].contains(&self)
    }
}

/// A map with owned kinds is read by borrowed ones.
impl Equivalent<GroupKind> for GroupKind<&str> {
    fn equivalent(&self, owned: &GroupKind) -> bool {
        *self == owned.as_deref()
    }
}

impl GroupKind {
    pub fn as_deref(&self) -> GroupKind<&str> {
        GroupKind::new(&self.group, &self.kind)
    }
}

impl Kind {
    pub fn deployment() -> Self {
        Self::namespaced("apps", "v1", "Deployment", "deployments")
    }

    pub fn service() -> Self {
        Self::namespaced("", "v1", "Service", "services")
    }

    pub fn namespace() -> Self {
        Self { namespaced: false, ..Self::namespaced("", "v1", "Namespace", "namespaces") }
    }

    /// `autoscaling/v2` `HorizontalPodAutoscaler`.
    pub fn autoscaler() -> Self {
        let GroupKind { group, kind } = GroupKind::AUTOSCALER;
        Self::namespaced(group, "v2", kind, "horizontalpodautoscalers")
    }

    /// A kind that discovery has not returned. Its plural is unknown, so `plural` repeats the kind.
    pub fn undiscovered(group: &str, version: &str, kind: &str) -> Self {
        Self::namespaced(group, version, kind, kind)
    }

    pub fn group_kind(&self) -> GroupKind<&str> {
        GroupKind::new(&self.group, &self.kind)
    }

    /// Whether group and kind are equal; versions may differ.
    pub fn is_same_type(&self, other: &Self) -> bool {
        self.group == other.group && self.kind == other.kind
    }

    /// Whether this kind is watched only by name or selector: see [`GroupKind::requires_selector`].
    pub fn requires_selector(&self) -> bool {
        self.group_kind().requires_selector()
    }

    pub fn is_autoscaler(&self) -> bool {
        self.group_kind() == GroupKind::AUTOSCALER
    }

    /// As in manifests: `apps/v1`, or `v1` for the core group.
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    fn namespaced(group: &str, version: &str, kind: &str, plural: &str) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            plural: plural.into(),
            namespaced: true,
        }
    }
}

/// As in manifests: `apps/v1`, or `v1` for the core group.
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// `deployments.apps`, as kubectl writes a resource.
impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.plural)?;
        if !self.group.is_empty() {
            write!(formatter, ".{}", self.group)?;
        }
        Ok(())
    }
}

/// A kind, or all kinds of a group, that settings or baselines request. The cluster may not serve it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WantedKind {
    /// API group; empty for the core group.
    pub group: Box<str>,
    /// The preferred version; another one is watched if the API server does not serve it.
    pub version: Option<Box<str>>,
    pub kind: KindName,
    /// The namespaces to watch. A scope that names namespaces includes cluster-scoped kinds only if it has the empty one.
    pub scope: Scope,
    pub selector: Option<Selector>,
    /// The one object to watch; only for kinds that [`Kind::requires_selector`].
    pub name: Option<Box<str>>,
    /// Objects that must be read in exactly this version. If it is not served, the preferred version delivers them.
    pub versions: Arc<BTreeMap<Box<str>, NameSet>>,
    /// Watched only because other objects refer to it. It is not reported as missing if the cluster does not serve it, and it never
    /// widens the permissions that an explicitly requested kind needs.
    pub implicit: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KindName {
    /// Every kind that supports `list` and `watch`.
    Any,
    Named(Box<str>),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KindError {
    #[error("invalid apiVersion `{0}`; want GROUP/VERSION, GROUP/* or v1")]
    ApiVersion(Box<str>),
    #[error("invalid API group `{0}`")]
    Group(Box<str>),
    #[error("invalid version `{0}`; want v1, v1beta1 or similar, or *")]
    Version(Box<str>),
    #[error("invalid kind `{0}`; want a name such as Deployment, or *")]
    Kind(Box<str>),
}

impl WantedKind {
    /// Parses `apps/v1` or `v1` with `Deployment`. Version and kind may be `*`: `apps/*` is the preferred version.
    pub fn parse(api_version: &str, kind: &str) -> Result<Self, KindError> {
        let (group, version) = match api_version.split_once('/') {
            Some((group, version)) => (group, version),
            None if looks_like_version(api_version) => ("", api_version),
            None => return Err(KindError::ApiVersion(api_version.into())),
        };
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
        if !group.chars().all(allowed) || (group.is_empty() && api_version.contains('/')) {
            return Err(KindError::Group(group.into()));
        }
        if version != "*" && !looks_like_version(version) {
            return Err(KindError::Version(version.into()));
        }
        if kind != "*" && (kind.is_empty() || !kind.chars().all(|c| c.is_ascii_alphanumeric())) {
            return Err(KindError::Kind(kind.into()));
        }
        let named = Self::exactly(&Kind::undiscovered(group, version, kind));
        Ok(Self {
            version: named.version.filter(|_| version != "*"),
            kind: if kind == "*" { KindName::Any } else { named.kind },
            ..named
        })
    }

    /// Exactly this kind, in all namespaces.
    pub fn exactly(kind: &Kind) -> Self {
        Self {
            group: kind.group.clone(),
            version: Some(kind.version.clone()),
            kind: KindName::Named(kind.kind.clone()),
            scope: Scope::default(),
            selector: None,
            name: None,
            versions: Arc::default(),
            implicit: false,
        }
    }

    /// Whether it requests this object. Several requests share one watch, which delivers the objects of all of them.
    pub fn matches_object<'a>(
        &self,
        kind: &Kind,
        namespace: &str,
        value_of: impl Fn(&str) -> Option<&'a str>,
    ) -> bool {
        self.matches(kind)
            && self.scope.has(namespace)
            && self.selector.as_ref().is_none_or(|selector| selector.matches(value_of))
    }

    /// Whether it requests this kind; versions may differ.
    pub fn matches(&self, kind: &Kind) -> bool {
        let matches_name = match &self.kind {
            KindName::Any => true,
            KindName::Named(name) => *name == kind.kind,
        };
        matches_name && self.group == kind.group
    }
}

/// `v1`, `v2beta3`.
fn looks_like_version(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let rest = text.strip_prefix('v').unwrap_or("");
    rest.starts_with(|c: char| c.is_ascii_digit()) && rest.chars().all(allowed)
}

/// `apps/v1 Deployment`, as in the settings.
impl fmt::Display for WantedKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.group.is_empty() {
            write!(formatter, "{}/", self.group)?;
        }
        let kind = match &self.kind {
            KindName::Any => "*",
            KindName::Named(name) => name,
        };
        write!(formatter, "{} {kind}", self.version.as_deref().unwrap_or("*"))
    }
}

/// The kinds that discovery returned, in every served version. The preferred version of a kind comes first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedKinds {
    pub kinds: Vec<ServedKind>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedKind {
    pub kind: Arc<Kind>,
    /// Whether it supports `list` and `watch`.
    pub watchable: bool,
}

impl ServedKinds {
    pub fn has(&self, kind: &Kind) -> bool {
        self.kinds.iter().any(|served| served.kind.is_same_type(kind))
    }
}
