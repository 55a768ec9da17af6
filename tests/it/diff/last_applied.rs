//! The last-applied annotation as a declaration.

use drift_exporter::{
    diff::{LAST_APPLIED, Node, last_applied, unpack},
    types::{DeclaredBody, Kind, ObjectKey, RedactionKey, UnknownReason},
};
use serde_json::{Value, json};

fn object(annotation: &Value, replicas: i64) -> Node {
    Node::from(
        json!({"metadata": {"name": "web", "namespace": "shop", "annotations": {LAST_APPLIED: annotation, "a": "b"}},
        "spec": {"replicas": replicas}, "status": {}}),
    )
}

fn object_key(kind: Kind) -> ObjectKey {
    ObjectKey::new(kind, "shop", "web")
}

fn read(annotation: &Value) -> DeclaredBody {
    let key = RedactionKey::new([1; 32]);
    last_applied(&object(annotation, 1), &object_key(Kind::deployment()), &key).unwrap().declared.body
}

#[test]
fn manifest_is_read_without_nulls() {
    let text = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop"},"spec":{"replicas":3,"paused":null}}"#;
    let DeclaredBody::Subset(packed) = read(&json!(text)) else { panic!("the manifest is valid") };
    assert_eq!(unpack(&packed)["spec"], Node::from(json!({"replicas": 3})));
}

#[test]
fn invalid_json_and_manifest_of_another_object_are_unreadable() {
    let other = |name: &str, kind: &str, namespace: &str| {
        json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}})
            .to_string()
    };
    for text in [
        json!("not JSON"),
        json!(7),
        json!("[]"),
        json!(other("api", "Deployment", "shop")),
        json!(other("web", "StatefulSet", "shop")),
        json!(other("web", "Deployment", "ops")),
    ] {
        assert_eq!(read(&text), DeclaredBody::Opaque(UnknownReason::UnreadableBaseline), "{text}");
    }
}

#[test]
fn secrets_have_no_baseline_and_the_annotation_is_not_part_of_the_rest() {
    let key = RedactionKey::new([1; 32]);
    let deployment = object_key(Kind::deployment());
    let secret = object_key(Kind::undiscovered("", "v1", "Secret"));
    assert_eq!(last_applied(&object(&json!("{}"), 1), &secret, &key), None);
    assert_eq!(last_applied(&Node::from(json!({"metadata": {"name": "web"}})), &deployment, &key), None);
    let rest = |annotation: &str, replicas| {
        last_applied(&object(&json!(annotation), replicas), &deployment, &key).unwrap().rest
    };
    assert_eq!(rest("a", 1), rest("b", 1));
    assert_ne!(rest("a", 1), rest("a", 2));
}
