//! The field managers of `metadata.managedFields`.

use drift_exporter::diff::{FieldOwners, Node};
use serde_json::{Value, json};

fn object() -> Value {
    let container = |fields: Value| json!({"f:spec": {"f:containers": {"k:{\"name\":\"web\"}": fields}}});
    json!({"metadata": {"managedFields": [
        {"manager": "HashiCorp", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {"f:tolerations": {}}}},
        {"manager": "HashiCorp", "time": "2026-01-01T00:00:00Z", "fieldsV1": container(json!({".": {}, "f:name": {}, "f:image": {}}))},
        {"manager": "kubectl-edit", "time": "2026-01-02T00:00:00Z", "fieldsV1": container(json!({"f:image": {}}))},
        {"manager": "kubectl", "subresource": "scale", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
        {"manager": "ports", "fieldsV1": {"f:spec": {"f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {"f:name": {}}}}}},
        {"manager": "broken", "fieldsV1": [1]}, 7, null,
    ]}})
}

fn owner_of<'a>(owners: &'a FieldOwners<'_>, path: &str) -> Option<&'a str> {
    owners.owner_at(&path.parse().unwrap()).map(|owner| &*owner.manager)
}

#[track_caller]
fn check(path: &str, manager: Option<&str>) {
    let object = Node::from(object());
    let owners = FieldOwners::of(&object);
    assert_eq!(owner_of(&owners, path), manager, "{path}");
}

#[test]
fn newest_owner_of_the_field_is_its_owner() {
    check("spec.containers[name=web].image", Some("kubectl-edit"));
    check("spec.containers[name=web].name", Some("HashiCorp"));
    check("spec.containers[name=db].image", None);
    check("spec.replicas", Some("kubectl"));
    check("spec.ports[containerPort=80,protocol=TCP].name", Some("ports"));
    check("metadata.labels.a", None);
}

#[test]
fn owner_of_a_key_takes_precedence_over_the_owner_of_its_map() {
    let object = json!({"metadata": {"managedFields": [
        {"manager": "kubectl-edit", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:data": {"f:a": {}}}},
        {"manager": "HashiCorp", "time": "2026-01-02T00:00:00Z", "fieldsV1": {"f:data": {}}},
    ]}});
    let object = Node::from(object);
    let owners = FieldOwners::of(&object);
    assert_eq!(
        (owner_of(&owners, "data.a"), owner_of(&owners, "data.b")),
        (Some("kubectl-edit"), Some("HashiCorp"))
    );
}

#[test]
fn owner_of_an_atomic_list_owns_its_elements() {
    check("spec.tolerations[0].key", Some("HashiCorp"));
}
