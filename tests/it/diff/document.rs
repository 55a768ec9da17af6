//! Packed documents: their content, creators and labels.

use drift_exporter::{
    diff::{
        Node, creator, declared_labels, is_written_by_terraform, pack, pack_live_object,
        terraform::redact_field, unpack,
    },
    types::{
        DeclaredBody, DeclaredObject, Document, Kind, ObjectRef, PackedJson, RedactionKey, RedactionPolicy,
        UnknownReason,
    },
};
use proptest::prelude::*;
use serde_json::{Value, json};

#[test]
fn unpack_restores_the_document() {
    let document =
        Node::from(json!({"spec": {"replicas": 3, "name": "ä", "none": null, "list": [1.5, true]}}));
    assert_eq!(unpack(&pack(&document)), document);
    assert_eq!(pack(&document), pack(&document.clone()));
}

#[test]
fn codec_keeps_nothing_of_the_previous_document() {
    let document = Node::from(json!({"spec": {"replicas": 3}}));
    let packed = pack(&document);
    let other = pack(&Node::from(json!({"data": "abc".repeat(100_000)})));
    let truncated = PackedJson::new(other.bytes()[..other.bytes().len() / 2].to_vec());
    for previous in [&other, &truncated, &PackedJson::new(vec![255; 99]), &PackedJson::new(Vec::new())] {
        let _ = unpack(previous);
        assert_eq!(unpack(&packed), document);
    }
    assert_eq!(pack(&document), packed);
}

#[test]
fn dictionary_covers_common_fields() {
    let ports = json!([{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}]);
    let document = Node::from(
        json!({"kind": "Service", "metadata": {"name": "web", "namespace": "shop"}, "spec": {"ports": ports,
        "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None"}}),
    );
    let (text, packed) = (document.to_string().len(), pack(&document).bytes().len());
    assert!(packed * 3 < text, "{packed} of {text}");
    let dictionary = include_bytes!("../../../src/diff/document/dictionary");
    assert!(dictionary.len() < 32 << 10, "the DEFLATE window");
}

proptest! {
    #[test]
    fn unpack_restores_documents_of_any_size(text in ".{0,200}", times in 0..400_usize) {
        let document = Node::String(text.repeat(times));
        prop_assert_eq!(unpack(&pack(&document)), document);
    }
}

fn pack_deployment(object: Value) -> Document {
    pack_live_object(object, &Kind::deployment(), &RedactionPolicy::new(RedactionKey::new([1; 32])))
}

fn object(replicas: i64, status: i64, version: &str) -> Value {
    json!({"metadata": {"name": "web", "resourceVersion": version, "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [
        {"manager": "HashiCorp", "time": "2026-01-01T00:00:01Z", "fieldsV1": {}},
        {"manager": "kubectl", "subresource": "scale", "fieldsV1": {}},
        {"manager": "controller", "subresource": "status", "time": version, "fieldsV1": {}}]},
        "spec": {"replicas": replicas}, "status": {"replicas": status}})
}

#[test]
fn status_is_not_packed_and_does_not_change_the_content() {
    assert_eq!(pack_deployment(object(1, 1, "1")), pack_deployment(object(1, 2, "2")));
    assert_ne!(pack_deployment(object(1, 1, "1")).content, pack_deployment(object(2, 1, "1")).content);
}

#[test]
fn creator_is_the_oldest_field_manager() {
    let object = unpack(&pack_deployment(object(1, 1, "1")).packed);
    assert!(is_written_by_terraform(&object));
    let creator = creator(&object).unwrap();
    assert_eq!(
        (&*creator.manager, creator.time.unwrap().to_string()),
        ("HashiCorp", "2026-01-01T00:00:00Z".into())
    );
}

fn declared_object(body: DeclaredBody) -> DeclaredObject {
    let object = ObjectRef::new("", "v1", "ConfigMap", "shop", "a");
    DeclaredObject::new("kubernetes_config_map_v1", object, RedactionKey::new([3; 32]), body)
}

#[track_caller]
fn check(body: DeclaredBody, expected: &[(&str, &str)]) {
    let labels = declared_labels(&declared_object(body));
    let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(labels, expected);
}

#[test]
fn labels_are_read_from_every_kind_of_body() {
    let labels = json!({"team": "front", "number": 1});
    check(
        DeclaredBody::Attributes(pack(&Node::from(json!({"metadata": [{"labels": labels}]})))),
        &[("team", "front")],
    );
    for body in [DeclaredBody::Whole, DeclaredBody::Subset] {
        check(body(pack(&Node::from(json!({"metadata": {"labels": labels}})))), &[("team", "front")]);
    }
    check(DeclaredBody::Parts(pack(&Node::from(json!({"metadata": {"labels": labels}})))), &[]);
    check(DeclaredBody::Opaque(UnknownReason::Stale), &[]);
}

#[test]
fn redacted_labels_are_left_out() {
    let mut document = Node::from(json!({"metadata": {"labels": {"team": "front", "tier": "web"}}}));
    redact_field(&mut document, "metadata.labels.team", &[RedactionKey::new([3; 32])]);
    check(DeclaredBody::Subset(pack(&document)), &[("tier", "web")]);
}

#[test]
fn malformed_labels_are_left_out() {
    let malformed =
        [json!(null), json!([]), json!("x"), json!({}), json!([{"labels": []}]), json!({"labels": 1})];
    for metadata in malformed {
        let document = Node::from(json!({"metadata": metadata}));
        for body in [DeclaredBody::Attributes, DeclaredBody::Whole, DeclaredBody::Subset] {
            check(body(pack(&document)), &[]);
            check(body(pack(&Node::Null)), &[]);
        }
    }
}
