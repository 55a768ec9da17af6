//! The resources that the embedded cluster has.

use k8s_openapi::api::{
    apps::v1::Deployment,
    autoscaling::v2::HorizontalPodAutoscaler,
    coordination::v1::Lease,
    core::v1::{ConfigMap, Namespace, Secret, Service, ServiceAccount},
    networking::v1::{Ingress, NetworkPolicy},
};
use serde_json::Value;

use self::Trait::{All, Farewell, Generation, Scale, Status};
use super::check::through;
use crate::types::Kind;

/// One resource type.
#[derive(Debug)]
pub(super) struct Resource {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) kind: &'static str,
    pub(super) plural: &'static str,
    /// Empty where it has none.
    pub(super) short_name: &'static str,
    pub(super) namespaced: bool,
    /// What can be done with it beside reading and writing.
    pub(super) traits: &'static [Trait],
    /// The object as its type writes it; the error says what does not fit.
    pub(super) typed: fn(Value) -> Result<Value, String>,
}

/// What some resource types have and others do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trait {
    /// `kubectl get all` shows it.
    All,
    /// Its status is written by itself.
    Status,
    /// Its replicas can be set through `scale`.
    Scale,
    /// It counts how often its spec was written.
    Generation,
    /// Whoever deletes it is shown the object once more.
    Farewell,
}

/// In the order in which the real server tells of their groups.
#[rustfmt::skip]
pub(super) const RESOURCES: &[Resource] = &[
    Resource { group: "", version: "v1", kind: "ConfigMap", plural: "configmaps", short_name: "cm", namespaced: true, traits: &[], typed: through::<ConfigMap> },
    Resource { group: "", version: "v1", kind: "Namespace", plural: "namespaces", short_name: "ns", namespaced: false, traits: &[Status, Farewell], typed: through::<Namespace> },
    Resource { group: "", version: "v1", kind: "Secret", plural: "secrets", short_name: "", namespaced: true, traits: &[], typed: through::<Secret> },
    Resource { group: "", version: "v1", kind: "ServiceAccount", plural: "serviceaccounts", short_name: "sa", namespaced: true, traits: &[Farewell], typed: through::<ServiceAccount> },
    Resource { group: "", version: "v1", kind: "Service", plural: "services", short_name: "svc", namespaced: true, traits: &[All, Status, Farewell], typed: through::<Service> },
    Resource { group: "apps", version: "v1", kind: "Deployment", plural: "deployments", short_name: "deploy", namespaced: true, traits: &[All, Status, Scale, Generation], typed: through::<Deployment> },
    Resource { group: "autoscaling", version: "v2", kind: "HorizontalPodAutoscaler", plural: "horizontalpodautoscalers", short_name: "hpa", namespaced: true, traits: &[All, Status], typed: through::<HorizontalPodAutoscaler> },
    Resource { group: "networking.k8s.io", version: "v1", kind: "Ingress", plural: "ingresses", short_name: "ing", namespaced: true, traits: &[Status, Generation], typed: through::<Ingress> },
    Resource { group: "networking.k8s.io", version: "v1", kind: "NetworkPolicy", plural: "networkpolicies", short_name: "netpol", namespaced: true, traits: &[Generation], typed: through::<NetworkPolicy> },
    Resource { group: "coordination.k8s.io", version: "v1", kind: "Lease", plural: "leases", short_name: "", namespaced: true, traits: &[], typed: through::<Lease> },
];

impl Resource {
    pub(super) fn find(group: &str, version: &str, plural: &str) -> Option<&'static Self> {
        RESOURCES.iter().find(|own| own.group == group && own.version == version && own.plural == plural)
    }

    /// The resource of a watched kind.
    pub(super) fn of(kind: &Kind) -> Option<&'static Self> {
        Self::find(&kind.group, &kind.version, &kind.plural)
    }

    /// The kind that people write in a manifest.
    pub(super) fn called(api_version: &str, kind: &str) -> Option<&'static Self> {
        RESOURCES.iter().find(|own| own.kind == kind && own.api_version() == api_version)
    }

    pub(super) fn has(&self, one: Trait) -> bool {
        self.traits.contains(&one)
    }

    /// `deployment`.
    pub(super) fn singular(&self) -> String {
        self.kind.to_lowercase()
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
