//! A watched resource type.

use std::fmt;

/// A resource type as the API server names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// API group; empty for the core group.
    pub group: Box<str>,
    /// API version within the group.
    pub version: Box<str>,
    /// The name used in manifests, `Deployment`.
    pub kind: Box<str>,
    /// The name used in URLs, `deployments`.
    pub plural: Box<str>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

/// What manifests call group and version of a kind: `apps/v1`, or `v1` for the core group.
#[derive(Clone, Copy, Debug)]
pub struct ApiVersion<'a>(pub &'a Kind);

impl fmt::Display for ApiVersion<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(Kind { group, version, .. }) = self;
        if group.is_empty() { formatter.write_str(version) } else { write!(formatter, "{group}/{version}") }
    }
}

impl Kind {
    /// `apps/v1` Deployment.
    pub fn deployment() -> Self {
        Self::namespaced("apps", "v1", "Deployment", "deployments")
    }

    /// `v1` Service.
    pub fn service() -> Self {
        Self::namespaced("", "v1", "Service", "services")
    }

    /// `v1` Namespace.
    pub fn namespace() -> Self {
        Self { namespaced: false, ..Self::namespaced("", "v1", "Namespace", "namespaces") }
    }

    /// `autoscaling/v2` `HorizontalPodAutoscaler`.
    pub fn autoscaler() -> Self {
        Self::namespaced(AUTOSCALER.0, "v2", AUTOSCALER.1, "horizontalpodautoscalers")
    }

    /// A kind that nobody has seen in the cluster: its name stands for the plural, which is not known.
    pub fn unseen(group: &str, version: &str, kind: &str) -> Self {
        Self::namespaced(group, version, kind, kind)
    }

    /// Whether both are the same kind, in whatever version.
    pub fn is_same_type(&self, other: &Self) -> bool {
        self.group == other.group && self.kind == other.kind
    }

    /// Whether its objects hold what nobody should read by the way: they are asked for by a name or a selector only.
    pub fn is_guarded(&self) -> bool {
        is_guarded(&self.group, &self.kind)
    }

    /// Whether its objects set the replicas of others, in whatever version.
    pub fn is_autoscaler(&self) -> bool {
        (&*self.group, &*self.kind) == AUTOSCALER
    }

    /// `apps/v1`, or `v1` for the core group.
    pub fn api_version(&self) -> String {
        ApiVersion(self).to_string()
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

/// The group and name of the kind that sets the replicas of others.
const AUTOSCALER: (&str, &str) = ("autoscaling", "HorizontalPodAutoscaler");

/// Whether a kind by its group and name is guarded.
pub(super) fn is_guarded(group: &str, kind: &str) -> bool {
    matches!((group, kind), ("", "Secret") | ("coordination.k8s.io", "Lease"))
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
