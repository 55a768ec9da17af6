//! The last-applied annotation as a declaration.

use drift_exporter::{
    diff::{LAST_APPLIED, Node, last_applied, pack_live_object, unpack},
    types::{DeclaredBody, Kind, ObjectKey, RedactionKey, RedactionPolicy, UnknownReason},
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
    last_applied(&object(annotation, 1), &object_key(Kind::deployment()), &key).unwrap().body
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
fn secrets_and_objects_without_the_annotation_have_no_baseline() {
    let key = RedactionKey::new([1; 32]);
    let deployment = object_key(Kind::deployment());
    let secret = object_key(Kind::undiscovered("", "v1", "Secret"));
    assert_eq!(last_applied(&object(&json!("{}"), 1), &secret, &key), None);
    assert_eq!(last_applied(&Node::from(json!({"metadata": {"name": "web"}})), &deployment, &key), None);
}

#[test]
fn annotation_changes_the_content_and_not_the_content_beside_it() {
    let redaction = RedactionPolicy::new(RedactionKey::new([1; 32]));
    let content = |annotation: &str, replicas| {
        let document =
            pack_live_object(object(&json!(annotation), replicas), &Kind::deployment(), &redaction);
        (document.content, document.content_beside_last_applied)
    };
    let (applied, applied_again, edited) = (content("a", 1), content("b", 1), content("a", 2));
    assert_eq!(applied.1, applied_again.1);
    assert_ne!(applied.0, applied_again.0);
    assert!(applied.0 != edited.0 && applied.1 != edited.1);
}
