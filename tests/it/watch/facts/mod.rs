//! The facts about objects: health, replicas, requests, endpoints, owners.

mod custom;
mod infrastructure;
mod workloads;

use drift_exporter::{
    types::{Kind, LabelSet, ObjectFacts},
    watch::DecodeConfig,
};
use serde_json::{Value, json};

use crate::support::objects::decode_live;

/// The facts of an object of generation 2.
fn facts_of(group: &str, kind: &str, spec: &Value, status: &Value) -> ObjectFacts {
    let object = json!({"metadata": {"name": "web", "generation": 2}, "spec": spec, "status": status});
    decode_live(&Kind::undiscovered(group, "v1", kind), &DecodeConfig::default(), &object).facts
}

/// Asserts the health of an object of this kind, such as `Degraded Progressing: it is not ready yet`.
fn health_check(group: &'static str, kind: &'static str) -> impl Fn(&Value, &Value, &str) {
    move |spec, status, expected| {
        let ObjectFacts { health, phase, message, .. } = facts_of(group, kind, spec, status);
        let phase = phase.map(|phase| format!(" {phase:?}")).unwrap_or_default();
        let message = if message.is_empty() { String::new() } else { format!(": {message}") };
        assert_eq!(format!("{health:?}{phase}{message}"), expected, "{kind} {spec} {status}");
    }
}

#[test]
fn objects_without_a_status_are_healthy() {
    health_check("", "ConfigMap")(&json!(null), &json!(null), "Healthy");
    health_check("networking.k8s.io", "NetworkPolicy")(&json!({}), &json!({}), "Healthy");
    health_check("example.com", "ConfigMap")(&json!({}), &json!(null), "Unknown: no status");
}

#[test]
fn workloads_have_the_requests_of_their_pods() {
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
        assert_eq!((facts.port, facts.connection_secret.as_deref()), (Some(8080), Some("whole")), "{kind}");
        assert_eq!(facts.labels, LabelSet::new([("app", "web")]), "{kind}");
    }
    let nested = json!({"jobTemplate": {"spec": {"template": template}}});
    assert_eq!(facts_of("batch", "CronJob", &nested, &json!({})).cpu_request, Some(1250));
    assert_eq!(facts_of("", "Pod", &pod, &json!({"phase": "Running"})).cpu_request, Some(1250));
    let mounted = json!({"template": {"spec": {"containers": [{"name": "web"}], "volumes": [{"secret": {"secretName": "mounted"}}]}}});
    let facts = facts_of("apps", "Deployment", &mounted, &json!({}));
    assert_eq!(facts.connection_secret.as_deref(), Some("mounted"));
}

#[track_caller]
fn check_target(kind: &Kind, spec: &Value, target: Option<(&str, &str)>) {
    let object = json!({"metadata": {"namespace": "shop", "name": "web-scaler"}, "spec": spec});
    let scaled = decode_live(kind, &DecodeConfig::default(), &object).facts.scales;
    let found = scaled.as_ref().map(|key| (&*key.kind.group, key.to_string()));
    assert_eq!(found, target.map(|(group, object)| (group, object.to_owned())), "{spec}");
}

#[test]
fn autoscaler_has_a_scale_target_in_every_version() {
    let spec = json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}});
    let web = Some(("apps", "Deployment shop/web"));
    check_target(&Kind::autoscaler(), &spec, web);
    check_target(&Kind { version: "v1".into(), ..Kind::autoscaler() }, &spec, web);
    check_target(&Kind::deployment(), &spec, None);
    let core =
        json!({"scaleTargetRef": {"apiVersion": "v1", "kind": "ReplicationController", "name": "old"}});
    check_target(&Kind::autoscaler(), &core, Some(("", "ReplicationController shop/old")));
    check_target(&Kind::autoscaler(), &json!({"scaleTargetRef": {"name": "web"}}), None);
    check_target(&Kind::autoscaler(), &json!({"scaleTargetRef": 7}), None);
}

#[test]
fn controller_is_preferred_to_other_owners() {
    let owner = |references: Value| {
        let metadata = json!({"namespace": "shop", "name": "web-1", "ownerReferences": references});
        let pod = Kind::undiscovered("", "v1", "Pod");
        let object = decode_live(&pod, &DecodeConfig::default(), &json!({"metadata": metadata}));
        object.facts.owner.map(|key| key.to_string())
    };
    let other = json!({"apiVersion": "v1", "kind": "Node", "name": "n"});
    let controller =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": true});
    assert_eq!(owner(json!([other, controller])).as_deref(), Some("ReplicaSet shop/web"));
    assert_eq!(owner(json!([other])).as_deref(), Some("Node shop/n"));
    assert_eq!((owner(json!([])), owner(json!("odd")), owner(json!(null))), (None, None, None));
}
