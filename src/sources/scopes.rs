//! Which kinds are namespaced, since a manifest need not name the namespace of an object.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use kube::Client;

use super::metadata_watch::{ApiFailure, REQUEST_TIMEOUT};
use crate::{
    types::{GroupKind, ObjectRef},
    watch::{ApiError, ConnectionError, DiscoveryClient, KindScope},
};

/// The API groups of Kubernetes itself, and their cluster-scoped kinds.
const BUILT_IN: &[(&str, &[&str])] = &[
    ("", &["ComponentStatus", "Namespace", "Node", "PersistentVolume"]),
    (
        "admissionregistration.k8s.io",
        &[
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
            "MutatingWebhookConfiguration",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingWebhookConfiguration",
        ],
    ),
    ("apiextensions.k8s.io", &["CustomResourceDefinition"]),
    ("apiregistration.k8s.io", &["APIService"]),
    ("authentication.k8s.io", &["SelfSubjectReview", "TokenReview"]),
    ("authorization.k8s.io", &["SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview"]),
    ("certificates.k8s.io", &["CertificateSigningRequest", "ClusterTrustBundle"]),
    ("flowcontrol.apiserver.k8s.io", &["FlowSchema", "PriorityLevelConfiguration"]),
    ("internal.apiserver.k8s.io", &["StorageVersion"]),
    ("networking.k8s.io", &["IPAddress", "IngressClass", "ServiceCIDR"]),
    ("node.k8s.io", &["RuntimeClass"]),
    ("rbac.authorization.k8s.io", &["ClusterRole", "ClusterRoleBinding"]),
    ("resource.k8s.io", &["DeviceClass", "DeviceTaintRule", "ResourceSlice"]),
    ("scheduling.k8s.io", &["PriorityClass"]),
    (
        "storage.k8s.io",
        &["CSIDriver", "CSINode", "StorageClass", "VolumeAttachment", "VolumeAttributesClass"],
    ),
    ("storagemigration.k8s.io", &["StorageVersionMigration"]),
    ("apps", &[]),
    ("batch", &[]),
    ("autoscaling", &[]),
    ("policy", &[]),
    ("extensions", &[]),
    ("coordination.k8s.io", &[]),
    ("discovery.k8s.io", &[]),
    ("events.k8s.io", &[]),
];

/// Whether a group belongs to Kubernetes itself, so that the schemas of its kinds are complete.
pub(super) fn is_built_in(group: &str) -> bool {
    BUILT_IN.iter().any(|(built_in, _)| *built_in == group)
}

/// Whether a kind of Kubernetes itself is cluster-scoped; `false` for custom kinds.
pub fn is_cluster_scoped(group: &str, kind: &str) -> bool {
    BUILT_IN.iter().any(|(candidate, kinds)| *candidate == group && kinds.contains(&kind))
}

/// Which custom kinds are namespaced. Unknown kinds are taken for namespaced.
#[derive(Clone, Debug, Default)]
pub(super) struct KindScopes {
    /// As the API server returned it.
    pub(super) namespaced: BTreeMap<GroupKind, bool>,
}

/// The scopes that all reads of one source have discovered so far.
#[derive(Clone)]
pub(super) struct SharedScopes {
    known: Arc<Mutex<KindScopes>>,
    discovery: Arc<tokio::sync::Mutex<DiscoveryClient>>,
}

/// The result of a discovery of kinds.
#[derive(Debug)]
pub(super) struct ScopeDiscovery {
    /// Whether the scope of any kind became known.
    pub(super) is_new: bool,
    failures: BTreeMap<GroupKind, ApiFailure>,
}

impl ScopeDiscovery {
    /// Whether the API server answered for the kind of an object. The namespace of others may be wrong.
    pub(super) fn covers(&self, object: &ObjectRef) -> bool {
        self.failures.is_empty() || !self.failures.contains_key(&object.group_kind().into_owned())
    }

    pub(super) fn into_failure(self) -> Option<ApiFailure> {
        self.failures.into_values().next()
    }
}

impl SharedScopes {
    pub(super) fn new(client: Client) -> Self {
        let discovery = DiscoveryClient::new(client, REQUEST_TIMEOUT);
        Self { known: Arc::default(), discovery: Arc::new(tokio::sync::Mutex::new(discovery)) }
    }

    pub(super) fn snapshot(&self) -> KindScopes {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds the scopes of kinds of these objects that are unknown. A kind that the cluster does not serve stays unknown: its
    /// definition may follow.
    pub(super) async fn discover<'a>(
        &self,
        scopes: &mut KindScopes,
        objects: impl Iterator<Item = &'a ObjectRef>,
    ) -> ScopeDiscovery {
        let unknown = objects.filter(|object| scopes.is_namespaced(object).is_none());
        let mut unknown: BTreeSet<GroupKind> =
            unknown.map(|object| object.group_kind().into_owned()).collect();
        let (known_before, mut failures) = (scopes.len(), BTreeMap::new());
        if !unknown.is_empty() {
            let mut discovery = self.discovery.lock().await;
            // Another read may have discovered them meanwhile.
            scopes.namespaced.extend(self.snapshot().namespaced);
            unknown.retain(|kind| !scopes.namespaced.contains_key(kind));
            let failed = if unknown.is_empty() { None } else { discovery.refresh().await.err() };
            for kind in unknown {
                let unavailable = || ApiError::Connection(ConnectionError::Unavailable);
                let scope = discovery.kind_scope(&kind.group, &kind.kind);
                let failure = match (&failed, scope) {
                    (Some(error), _) => Some(ApiFailure::new(error, "discover the kinds of the cluster")),
                    (None, KindScope::Unavailable) => Some(ApiFailure::new(
                        &unavailable(),
                        &format!("discover the kinds of {}", kind.group),
                    )),
                    (None, _) => None,
                };
                if let Some(failure) = failure {
                    failures.insert(kind, failure);
                } else if scope != KindScope::NotServed {
                    scopes.namespaced.insert(kind, scope == KindScope::Namespaced);
                }
            }
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.namespaced.extend(scopes.namespaced.clone());
        }
        ScopeDiscovery { is_new: scopes.len() > known_before, failures }
    }
}

impl KindScopes {
    /// Completes the name of an object that does not name its namespace, and removes the namespace of cluster-scoped ones.
    pub(super) fn set_namespace(&self, object: &mut ObjectRef, default: &str) {
        if !self.is_namespaced(object).unwrap_or(true) {
            object.namespace = Box::default();
        } else if object.namespace.is_empty() {
            object.namespace = default.into();
        }
    }

    /// The number of kinds whose scope is known.
    pub(super) fn len(&self) -> usize {
        self.namespaced.len()
    }

    /// Whether the scopes of all these objects are known.
    pub(super) fn covers<'a>(&self, mut objects: impl Iterator<Item = &'a ObjectRef>) -> bool {
        objects.all(|object| self.is_namespaced(object).is_some())
    }

    fn is_namespaced(&self, object: &ObjectRef) -> Option<bool> {
        if is_built_in(&object.group) {
            return Some(!is_cluster_scoped(&object.group, &object.kind));
        }
        self.namespaced.get(&object.group_kind().into_owned()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::KindScopes;
    use crate::types::{GroupKind, ObjectRef};

    #[test]
    fn namespace_is_completed_for_namespaced_kinds_and_removed_for_cluster_scoped_ones() {
        let fleets = GroupKind::new("example.com", "Fleet").into_owned();
        let scopes = KindScopes { namespaced: [(fleets, false)].into() };
        for (group, kind, declared, expected) in [
            ("apps", "Deployment", "", "shop"),
            ("apps", "Deployment", "ops", "ops"),
            ("rbac.authorization.k8s.io", "ClusterRole", "shop", ""),
            ("", "Namespace", "", ""),
            ("example.com", "Fleet", "", ""),
            ("example.com", "Widget", "", "shop"),
        ] {
            let mut object = ObjectRef::new(group, "v1", kind, declared, "a");
            scopes.set_namespace(&mut object, "shop");
            assert_eq!(&*object.namespace, expected, "{group} {kind}");
        }
    }
}
