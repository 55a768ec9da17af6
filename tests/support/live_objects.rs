//! Live objects as an API server returns them.

use drift_exporter::types::Kind;
use serde_json::{Value, json};

use super::objects::{HASH, LABEL, hash_of};

/// A Deployment in namespace `shop` that is annotated with its hash.
pub fn deployment(name: &str) -> Value {
    let mut object = json!({
        "metadata": {
            "namespace": "shop", "name": name, "uid": format!("uid-{name}"), "generation": 1,
            "labels": {LABEL: "true", "app.kubernetes.io/instance": "shop-prod"},
            "annotations": {}, "managedFields": [
                {"manager": "HashiCorp", "operation": "Update", "time": "2026-01-01T00:00:00Z",
                    "fieldsV1": {"f:spec": {}, "f:metadata": {"f:annotations": {format!("f:{HASH}"): {}}}}},
            ],
        },
        "spec": {"replicas": 2, "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{
            "name": "web", "image": "nginx:1.27", "ports": [{"containerPort": 8080}],
            "resources": {"requests": {"cpu": "250m", "memory": "128Mi"}},
        }]}}},
        "status": {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2},
    });
    add_hash(&Kind::deployment(), &mut object);
    object
}

/// A Service in namespace `shop` that is annotated with its hash.
pub fn service(name: &str) -> Value {
    let mut object = json!({
        "metadata": {
            "namespace": "shop", "name": name, "uid": format!("uid-{name}"), "annotations": {}, "labels": {LABEL: "true"},
        },
        "spec": {"type": "ClusterIP", "selector": {"app": name}, "ports": [{"port": 80, "targetPort": 8080}]},
    });
    add_hash(&Kind::service(), &mut object);
    object
}

/// The same object after `kubectl edit` at this second of January 2nd, 2026.
pub fn edited(mut object: Value, second: u32) -> Value {
    object["spec"]["replicas"] = json!(5);
    let edit = json!({"manager": "kubectl-edit", "operation": "Update", "fieldsV1": {"f:spec": {"f:replicas": {}}},
        "time": format!("2026-01-02T00:00:{second:02}Z")});
    object["metadata"]["managedFields"].as_array_mut().unwrap().push(edit);
    object
}

/// The same object with another recorded hash.
pub fn recorded(mut object: Value, hash: &str) -> Value {
    object["metadata"]["annotations"][HASH] = hash.into();
    object
}

fn add_hash(kind: &Kind, object: &mut Value) {
    object["metadata"]["annotations"][HASH] = hash_of(kind, object).into();
}
