//! The resources that the embedded cluster has.

use crate::model::Kind;

/// One resource type.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Resource {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) kind: &'static str,
    pub(super) plural: &'static str,
    pub(super) singular: &'static str,
    pub(super) short_name: &'static str,
    pub(super) namespaced: bool,
    /// Whether it has replicas that can be set through `scale`, and counts the generations of its spec.
    pub(super) scales: bool,
}

pub(super) const RESOURCES: &[Resource] = &[
    Resource {
        group: "",
        version: "v1",
        kind: "Namespace",
        plural: "namespaces",
        singular: "namespace",
        short_name: "ns",
        namespaced: false,
        scales: false,
    },
    Resource {
        group: "",
        version: "v1",
        kind: "Service",
        plural: "services",
        singular: "service",
        short_name: "svc",
        namespaced: true,
        scales: false,
    },
    Resource {
        group: "apps",
        version: "v1",
        kind: "Deployment",
        plural: "deployments",
        singular: "deployment",
        short_name: "deploy",
        namespaced: true,
        scales: true,
    },
];

impl Resource {
    pub(super) fn find(group: &str, version: &str, plural: &str) -> Option<&'static Self> {
        RESOURCES.iter().find(|own| own.group == group && own.version == version && own.plural == plural)
    }

    /// The resource of a watched kind.
    pub(super) fn of(kind: &Kind) -> Option<&'static Self> {
        Self::find(&kind.group, &kind.version, &kind.plural)
    }

    /// `apps/v1`, or `v1` for the core group.
    pub(super) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// `deployments.apps`.
    pub(super) fn qualified(&self) -> String {
        self.with_group(self.plural)
    }

    /// `Deployment.apps`.
    pub(super) fn qualified_kind(&self) -> String {
        self.with_group(self.kind)
    }

    fn with_group(&self, name: &str) -> String {
        if self.group.is_empty() { name.to_owned() } else { format!("{name}.{}", self.group) }
    }
}
