//! Which kinds have namespaces: whoever writes an object down need not say in which one it is.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use kube::Client;
use tokio::time::timeout;

use super::metadata_watch::Refusal;
use crate::types::{DownReason, ObjectName};

const PATIENCE: Duration = Duration::from_secs(20);

/// The groups of Kubernetes itself. Which of their kinds have no namespaces is said below.
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

/// Whether a group is of Kubernetes itself, whose objects have no fields that their schemas do not tell.
pub(super) fn is_built_in(group: &str) -> bool {
    BUILT_IN.contains(&group)
}

/// The kinds of Kubernetes itself that have no namespaces, by group.
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

/// Whether a kind of Kubernetes itself has no namespaces.
pub fn is_cluster_scoped(group: &str, kind: &str) -> bool {
    CLUSTER_SCOPED.iter().any(|(own, kinds)| *own == group && kinds.contains(&kind))
}

/// What is known about which kinds have namespaces. Of one that nobody knows, it is taken that it has.
#[derive(Clone, Debug, Default)]
pub(super) struct Scopes {
    /// Whether kinds of other groups have namespaces, as the API server says.
    namespaced: BTreeMap<(Box<str>, Box<str>), bool>,
}

/// What came of asking.
#[derive(Debug)]
pub(super) struct Learned {
    /// Whether anything is known now that was not.
    pub(super) anything: bool,
    /// Groups with their versions that the server told nothing about, and why.
    refused: BTreeMap<String, Refusal>,
}

impl Learned {
    /// Whether it could be asked where an object is. Nothing can be said about others.
    pub(super) fn covers(&self, object: &ObjectName) -> bool {
        self.refused.is_empty() || !self.refused.contains_key(&format!("{}/{}", object.group, object.version))
    }

    /// Why something could not be asked.
    pub(super) fn refusal(self) -> Option<Refusal> {
        self.refused.into_values().next()
    }
}

impl Scopes {
    /// Says where an object is that may not say so itself: in this namespace, unless it has none.
    pub(super) fn place(&self, object: &mut ObjectName, namespace: &str) {
        if !self.is_namespaced(object).unwrap_or(true) {
            object.namespace = Box::default();
        } else if object.namespace.is_empty() {
            object.namespace = namespace.into();
        }
    }

    /// Asks the API server about the kinds of these objects that are not known.
    pub(super) async fn learn<'a>(
        &mut self,
        client: &Client,
        objects: impl Iterator<Item = &'a ObjectName>,
    ) -> Learned {
        let unknown = objects.filter(|object| self.is_namespaced(object).is_none());
        let versions: BTreeSet<String> =
            unknown.map(|object| format!("{}/{}", object.group, object.version)).collect();
        let (before, mut refused) = (self.namespaced.len(), BTreeMap::new());
        for version in versions {
            let doing = format!("ask which kinds {version} has");
            let group = version.split('/').next().unwrap_or_default();
            let asked = timeout(PATIENCE, client.list_api_group_resources(&version)).await;
            let Ok(asked) = asked else {
                refused.insert(version, Refusal::stalled(&doing));
                continue;
            };
            match asked {
                Ok(list) => {
                    let kinds = list.resources.into_iter().filter(|own| !own.name.contains('/'));
                    self.namespaced
                        .extend(kinds.map(|own| ((group.into(), own.kind.into()), own.namespaced)));
                }
                Err(error) => match Refusal::new(&error, &doing) {
                    // It is not there yet, or not any more.
                    refusal if refusal.reason == DownReason::NotFound => {}
                    refusal => drop(refused.insert(version, refusal)),
                },
            }
        }
        Learned { anything: self.namespaced.len() > before, refused }
    }

    /// Knows what another one has learned, too.
    pub(super) fn join(&mut self, other: Self) {
        self.namespaced.extend(other.namespaced);
    }

    /// Whether it is known of all these objects where they are.
    pub(super) fn knows<'a>(&self, mut objects: impl Iterator<Item = &'a ObjectName>) -> bool {
        objects.all(|object| self.is_namespaced(object).is_some())
    }

    fn is_namespaced(&self, object: &ObjectName) -> Option<bool> {
        if is_built_in(&object.group) {
            return Some(!is_cluster_scoped(&object.group, &object.kind));
        }
        self.namespaced.get(&(object.group.clone(), object.kind.clone())).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::{CLUSTER_SCOPED, Scopes, is_built_in};
    use crate::types::ObjectName;

    #[test]
    fn every_group_with_a_kind_without_namespaces_is_known() {
        for (group, _) in CLUSTER_SCOPED {
            assert!(is_built_in(group), "{group}");
        }
    }

    #[test]
    fn an_object_is_where_it_says_or_where_its_release_is_or_nowhere() {
        let mut scopes = Scopes::default();
        scopes.namespaced.insert(("example.com".into(), "Fleet".into()), false);
        for (group, kind, said, is) in [
            ("apps", "Deployment", "", "shop"),
            ("apps", "Deployment", "ops", "ops"),
            ("rbac.authorization.k8s.io", "ClusterRole", "shop", ""),
            ("", "Namespace", "", ""),
            ("example.com", "Fleet", "", ""),
            ("example.com", "Widget", "", "shop"),
        ] {
            let mut object = ObjectName {
                group: group.into(),
                version: "v1".into(),
                kind: kind.into(),
                namespace: said.into(),
                name: "a".into(),
            };
            scopes.place(&mut object, "shop");
            assert_eq!(&*object.namespace, is, "{group} {kind}");
        }
    }
}
