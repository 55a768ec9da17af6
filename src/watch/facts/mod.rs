//! The small facts about an object that the API shows. Each kind is read as far as its facts need, and not at all where it has none.

mod batch;
mod control;
mod custom;
mod network;
mod pods;
mod references;
mod sealed;
mod storage;
mod wellness;
mod workloads;

use serde_json::value::RawValue;

use crate::{
    diff::SpecView,
    types::{Facts, Kind},
};
use wellness::Wellness;

pub(super) use references::{owner_of, scaled_by};
pub(super) use sealed::without_sealed;

/// What facts are made from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'a> {
    pub(super) spec: Option<&'a RawValue>,
    pub(super) status: Option<&'a RawValue>,
    pub(super) generation: Option<i64>,
}

/// Facts about an object whose spec was read before, as far as its kind is known there.
pub(super) fn facts(kind: &Kind, view: &SpecView<'_>, parts: Parts<'_>) -> Facts {
    match view {
        SpecView::Deployment(view) => workloads::of_deployment(view, parts),
        SpecView::Service(view) => network::of_service(view, parts),
        SpecView::Other => of_other(kind, parts),
    }
}

fn of_other(kind: &Kind, parts: Parts<'_>) -> Facts {
    match (&*kind.group, &*kind.kind) {
        ("apps", "StatefulSet") => workloads::of_stateful_set(parts),
        ("apps", "DaemonSet") => workloads::of_daemon_set(parts),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => workloads::of_replica_set(parts),
        ("batch", "Job") => batch::of_job(parts),
        ("batch", "CronJob") => batch::of_cron_job(parts),
        ("", "Pod") => pods::of_pod(parts),
        ("", "PersistentVolumeClaim") => storage::of_claim(parts),
        ("", "PersistentVolume") => storage::of_volume(parts),
        ("", "Namespace") => control::of_namespace(parts).into_facts(),
        ("networking.k8s.io" | "extensions", "Ingress") => network::of_ingress(parts),
        ("autoscaling", "HorizontalPodAutoscaler") => control::of_autoscaler(parts).into_facts(),
        ("policy", "PodDisruptionBudget") => control::of_budget(parts).into_facts(),
        ("apiregistration.k8s.io", "APIService") => control::of_api_service(parts).into_facts(),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => control::of_definition(parts).into_facts(),
        (group, name) if STATUSLESS.contains(&(group, name)) => Wellness::healthy().into_facts(),
        _ => custom::of_custom(parts),
    }
}

/// Kinds whose objects do nothing but stand there: they have no status by nature, or none that says how they are.
const STATUSLESS: &[(&str, &str)] = &[
    ("", "ConfigMap"),
    ("", "Endpoints"),
    ("", "LimitRange"),
    ("", "PodTemplate"),
    ("", "ResourceQuota"),
    ("", "Secret"),
    ("", "ServiceAccount"),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
    ("apps", "ControllerRevision"),
    ("coordination.k8s.io", "Lease"),
    ("discovery.k8s.io", "EndpointSlice"),
    ("networking.k8s.io", "IngressClass"),
    ("networking.k8s.io", "NetworkPolicy"),
    ("node.k8s.io", "RuntimeClass"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io", "Role"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("storage.k8s.io", "CSIDriver"),
    ("storage.k8s.io", "StorageClass"),
];

/// Facts about an object of generation 2.
#[cfg(test)]
fn facts_of(group: &str, kind: &str, spec: &serde_json::Value, status: &serde_json::Value) -> Facts {
    use serde_json::value::to_raw_value;
    let kind = Kind::unseen(group, "v1", kind);
    let (spec, status) = (to_raw_value(spec).unwrap(), to_raw_value(status).unwrap());
    let view = SpecView::read(&kind, spec.get()).unwrap();
    facts(&kind, &view, Parts { spec: Some(&spec), status: Some(&status), generation: Some(2) })
}

/// Checks how well an object of a kind is.
#[cfg(test)]
fn check_of(
    group: &'static str,
    kind: &'static str,
) -> impl Fn(&serde_json::Value, &serde_json::Value, crate::types::Health, Option<crate::types::Phase>, &str)
{
    move |spec, status, health, phase, message| {
        let facts = facts_of(group, kind, spec, status);
        assert_eq!(
            (facts.health, facts.phase, &*facts.message),
            (health, phase, message),
            "{kind} {spec} {status}"
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{check_of, facts_of};
    use crate::types::{Health, LabelSet};

    #[test]
    fn what_only_stands_there_is_well() {
        check_of("", "ConfigMap")(&json!(null), &json!(null), Health::Healthy, None, "");
        check_of("networking.k8s.io", "NetworkPolicy")(&json!({}), &json!({}), Health::Healthy, None, "");
        check_of("example.com", "ConfigMap")(&json!({}), &json!(null), Health::Unknown, None, "no status");
    }

    #[test]
    fn every_workload_tells_what_its_pods_ask_for() {
        let pod = json!({
            "containers": [
                {"name": "web", "ports": [{"containerPort": 8080}], "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}},
                    "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "single", "key": "k"}}}]},
                {"name": "side", "resources": {"requests": {"cpu": "1", "memory": "64Mi"}}, "envFrom": [{"secretRef": {"name": "whole"}}]},
            ],
            "volumes": [{"name": "v", "secret": {"secretName": "mounted"}}],
        });
        let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": pod});
        for (group, kind) in [
            ("apps", "Deployment"),
            ("apps", "StatefulSet"),
            ("apps", "DaemonSet"),
            ("apps", "ReplicaSet"),
            ("batch", "Job"),
        ] {
            let facts = facts_of(group, kind, &json!({"template": template}), &json!({}));
            assert_eq!((facts.cpu_request, facts.memory_request), (Some(1250), Some(128 << 20)), "{kind}");
            assert_eq!(
                (facts.port, facts.connection_secret.as_deref()),
                (Some(8080), Some("whole")),
                "{kind}"
            );
            assert_eq!(facts.labels, LabelSet::new([("app", "web")]), "{kind}");
        }
        let nested = json!({"jobTemplate": {"spec": {"template": template}}});
        assert_eq!(facts_of("batch", "CronJob", &nested, &json!({})).cpu_request, Some(1250));
        assert_eq!(facts_of("", "Pod", &pod, &json!({"phase": "Running"})).cpu_request, Some(1250));
        let mounted = json!({"template": {"spec": {"containers": [{"name": "web"}], "volumes": [{"secret": {"secretName": "mounted"}}]}}});
        let facts = facts_of("apps", "Deployment", &mounted, &json!({}));
        assert_eq!(facts.connection_secret.as_deref(), Some("mounted"));
    }
}
