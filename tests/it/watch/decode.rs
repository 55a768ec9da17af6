//! An object decodes alike from its text and from its tree, whatever its shape is.

use drift_exporter::{
    diff::{Algorithm, fingerprint},
    types::Kind,
    watch::DecodeConfig,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use self::kinds_with_facts::KINDS_WITH_FACTS;
use crate::support::objects::{HASH, decode_text, decode_tree};

const PREFIX: &str = "tfdrift.jin.dev";

#[path = "../../../src/watch/facts/kinds_with_facts.rs"]
mod kinds_with_facts;

/// An object with the fields of all kinds.
fn object() -> Value {
    let pod = json!({
        "restartPolicy": "OnFailure", "volumes": [{"secret": {"secretName": "mounted"}}],
        "containers": [
            {"name": "web", "image": "web:1", "env": [{"name": "A", "value": "a\n\"b\""}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s"}}}],
                "envFrom": [{"secretRef": {"name": "whole"}}], "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
                "resources": {"requests": {"cpu": 0.5, "memory": "64Mi"}, "limits": {"cpu": 2}, "claims": [{"name": "gpu"}]}},
        ],
    });
    let template = json!({"metadata": {"labels": {"app": "web"}, "annotations": {"a": "ä"}}, "spec": pod});
    let condition = |name: &str, status: &str| json!({"type": name, "status": status, "message": format!("{name}\t{status}")});
    let state =
        json!({"waiting": {"reason": "ErrImagePull"}, "terminated": {"exitCode": 1, "reason": "OOMKilled"}});
    json!({
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "4fdb", "resourceVersion": "7", "generation": 2,
            "labels": {"app.kubernetes.io/instance": "shop", "team": "checkout"},
            "annotations": {"tfdrift.jin.dev/ignore": "spec.replicas", "note": "a \\ b"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": true}],
            "managedFields": [{"manager": "kubectl-edit", "time": "2026-01-02T00:00:00Z", "apiVersion": "apps/v1",
                "fieldsV1": {"f:spec": {"f:replicas": {}}}}],
        },
        "spec": {
            "replicas": 2, "paused": false, "suspend": false, "parallelism": 3, "type": "LoadBalancer", "template": template,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "25%"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}},
            "volumeClaimTemplates": [{"spec": {"resources": {"requests": {"storage": "1Gi"}}}}],
            "jobTemplate": {"spec": {"template": template}}, "containers": pod["containers"], "volumes": pod["volumes"],
            "selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http", "name": "http", "nodePort": 30001}],
            "rules": [{"host": "shop.example"}], "tls": [{}], "resources": {"requests": {"storage": "2Gi"}},
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "writeConnectionSecretToRef": {"name": "db"}, "secretName": "tls",
            "length": 16, "prefix": "test", "vars": {"upper": "true"},
        },
        "status": {
            "observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 1, "availableReplicas": 1,
            "currentRevision": "a", "updateRevision": "b", "desiredNumberScheduled": 3, "numberAvailable": 2,
            "conditions": [condition("Ready", "True"), condition("Available", "False"), condition("Failed", "Unknown")],
            "phase": "Running", "state": "creating", "health": {"status": "Degraded", "message": "down"},
            "binding": {"name": "b"}, "loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}, "active": [{}],
            "containerStatuses": [{"name": "web", "state": state, "lastState": state}],
            "currentHealthy": 1, "desiredHealthy": 2, "desiredReplicas": 2, "lastScaleTime": "2026-01-02T00:00:00Z",
        },
        "data": {"a": "b"},
    })
}

fn value() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-3..3_i32).prop_map(Value::from),
    ];
    let text = prop_oneof!["[a-zA-Z]{0,8}", "[0-9]{1,3}(m|Mi|)", any::<String>()].prop_map(Value::from);
    let scalar = prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), number, text];
    let name = prop_oneof!["name", "type", "status", "spec", "requests", "\u{1}?[a-z]{0,2}"];
    scalar.prop_recursive(3, 12, 3, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(name.clone(), inner, 0..3)
                .prop_map(|members| members.into_iter().collect()),
        ]
    })
}

/// Replaces the value that a depth-first walk visits at this position. Returns whether there was one.
fn replace(value: &mut Value, position: &mut usize, new: &Value) -> bool {
    if *position == 0 {
        *value = new.clone();
        return true;
    }
    *position -= 1;
    match value {
        Value::Array(elements) => elements.iter_mut().any(|element| replace(element, position, new)),
        Value::Object(members) => members.values_mut().any(|member| replace(member, position, new)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[track_caller]
fn check(kind: &Kind, config: &DecodeConfig, object: &Value) {
    let text = object.to_string();
    assert_eq!(decode_text(kind, config, &text), decode_tree(kind, config, &text), "{kind} {text}");
}

fn config() -> DecodeConfig {
    DecodeConfig {
        annotation_prefix: PREFIX.into(),
        label_names: ["team".into(), "tier".into()].into(),
        honor_ignore_annotation: true,
        ..DecodeConfig::default()
    }
}

/// Checks the object without a hash, and with a matching and another hash of each algorithm.
fn check_hashes(kind: &Kind, object: &Value) {
    check(kind, &config(), object);
    for algorithm in [Algorithm::TfdriftV1, Algorithm::JcsV1, Algorithm::Opr8rV1, Algorithm::Sha256Jcs] {
        let hash = fingerprint(algorithm, kind, &object.to_string(), PREFIX);
        let hash = hash.map(|digest| format!("{}:{digest}", algorithm.as_str()));
        let other = format!("{}:{}", algorithm.as_str(), "0".repeat(64));
        for hash in hash.into_iter().chain([other]) {
            let mut object = object.clone();
            if let Some(annotations) =
                object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
            {
                annotations.insert(HASH.to_owned(), hash.into());
            }
            check(kind, &config(), &object);
        }
    }
}

#[test]
fn object_of_every_kind_decodes_alike_from_text_and_tree() {
    for (group, kind) in KINDS_WITH_FACTS {
        check_hashes(&Kind::undiscovered(group, "v1", kind), &object());
    }
}

proptest! {
    #[test]
    fn malformed_object_decodes_alike_from_text_and_tree(
        (group, kind) in prop::sample::select(KINDS_WITH_FACTS),
        positions in prop::collection::vec(1..220_usize, 1..4),
        new in value(),
    ) {
        let mut object = object();
        for mut position in positions {
            replace(&mut object, &mut position, &new);
        }
        check_hashes(&Kind::undiscovered(group, "v1", kind), &object);
    }
}
