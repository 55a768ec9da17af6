//! Which kinds are namespaced, since a manifest need not name the namespace of an object.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use kube::Client;
use tokio::time::timeout;

use super::metadata_watch::{ApiFailure, REQUEST_TIMEOUT};
use crate::types::{DownReason, ObjectRef};

/// The API groups of Kubernetes itself.
const BUILT_IN: &[&str] = &[
    "",
    "apps",
    "batch",
    "autoscaling",
    "policy",
    "extensions",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// Whether a group belongs to Kubernetes itself, so that the schemas of its kinds are complete.
pub(super) fn is_built_in(group: &str) -> bool {
    BUILT_IN.contains(&group)
}

/// The cluster-scoped kinds of Kubernetes itself.
const CLUSTER_SCOPED: &[(&str, &[&str])] = &[
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
];

/// Whether a kind of Kubernetes itself is cluster-scoped; `false` for custom kinds.
pub fn is_cluster_scoped(group: &str, kind: &str) -> bool {
    CLUSTER_SCOPED.iter().any(|(candidate, kinds)| *candidate == group && kinds.contains(&kind))
}

/// Which custom kinds are namespaced. Unknown kinds are taken for namespaced.
#[derive(Clone, Debug, Default)]
pub(super) struct KindScopes {
    /// By group and kind, as the API server returned it.
    namespaced: BTreeMap<(Box<str>, Box<str>), bool>,
}

/// The scopes that all reads of one source have discovered so far.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedScopes(Arc<Mutex<KindScopes>>);

/// The result of asking the API server about kinds.
#[derive(Debug)]
pub(super) struct ScopeDiscovery {
    /// Whether the scope of any kind became known.
    pub(super) is_new: bool,
    /// By group and version.
    failures: BTreeMap<String, ApiFailure>,
}

impl ScopeDiscovery {
    /// Whether the API server answered for the kind of an object. The namespace of others may be wrong.
    pub(super) fn covers(&self, object: &ObjectRef) -> bool {
        self.failures.is_empty()
            || !self.failures.contains_key(&format!("{}/{}", object.group, object.version))
    }

    pub(super) fn into_failure(self) -> Option<ApiFailure> {
        self.failures.into_values().next()
    }
}

impl SharedScopes {
    pub(super) fn snapshot(&self) -> KindScopes {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn extend(&self, scopes: KindScopes) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).namespaced.extend(scopes.namespaced);
    }
}

/// Collects group, kind, and whether the kind is namespaced.
#[cfg(test)]
impl<'a> FromIterator<(&'a str, &'a str, bool)> for KindScopes {
    fn from_iter<T: IntoIterator<Item = (&'a str, &'a str, bool)>>(scopes: T) -> Self {
        let scopes =
            scopes.into_iter().map(|(group, kind, namespaced)| ((group.into(), kind.into()), namespaced));
        Self { namespaced: scopes.collect() }
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

    /// Asks the API server about unknown kinds of these objects, one request for each group and version.
    pub(super) async fn discover<'a>(
        &mut self,
        client: &Client,
        objects: impl Iterator<Item = &'a ObjectRef>,
    ) -> ScopeDiscovery {
        let unknown = objects.filter(|object| self.is_namespaced(object).is_none());
        let versions: BTreeSet<String> =
            unknown.map(|object| format!("{}/{}", object.group, object.version)).collect();
        let (known_before, mut failures) = (self.namespaced.len(), BTreeMap::new());
        for version in versions {
            let request = format!("discover the kinds of {version}");
            let group = version.split('/').next().unwrap_or_default();
            let response = timeout(REQUEST_TIMEOUT, client.list_api_group_resources(&version)).await;
            match response {
                Ok(Ok(list)) => {
                    let kinds = list.resources.into_iter().filter(|resource| !resource.name.contains('/'));
                    let scopes =
                        kinds.map(|resource| ((group.into(), resource.kind.into()), resource.namespaced));
                    self.namespaced.extend(scopes);
                }
                Ok(Err(error)) => {
                    let failure = ApiFailure::new(&error, &request);
                    // A group that the cluster does not serve is no failure: its definition may follow.
                    if failure.reason != DownReason::NotFound {
                        failures.insert(version, failure);
                    }
                }
                Err(_) => drop(failures.insert(version, ApiFailure::timeout(&request))),
            }
        }
        ScopeDiscovery { is_new: self.namespaced.len() > known_before, failures }
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
        self.namespaced.get(&(object.group.clone(), object.kind.clone())).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::{CLUSTER_SCOPED, KindScopes, is_built_in};
    use crate::types::ObjectRef;

    #[test]
    fn every_group_with_a_cluster_scoped_kind_is_built_in() {
        for (group, _) in CLUSTER_SCOPED {
            assert!(is_built_in(group), "{group}");
        }
    }

    #[test]
    fn namespace_is_completed_for_namespaced_kinds_and_removed_for_cluster_scoped_ones() {
        let scopes = KindScopes::from_iter([("example.com", "Fleet", false)]);
        for (group, kind, declared, expected) in [
            ("apps", "Deployment", "", "shop"),
            ("apps", "Deployment", "ops", "ops"),
            ("rbac.authorization.k8s.io", "ClusterRole", "shop", ""),
            ("", "Namespace", "", ""),
            ("example.com", "Fleet", "", ""),
            ("example.com", "Widget", "", "shop"),
        ] {
            let mut object = ObjectRef {
                group: group.into(),
                version: "v1".into(),
                kind: kind.into(),
                namespace: declared.into(),
                name: "a".into(),
            };
            scopes.set_namespace(&mut object, "shop");
            assert_eq!(&*object.namespace, expected, "{group} {kind}");
        }
    }
}
