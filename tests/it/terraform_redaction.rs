//! Secrets are compared and never exposed: every declared form against live objects with digests only.

use drift_exporter::{
    diff::{Comparison, manifest::Schemas},
    sources::terraform::decode,
    types::{FieldValue, RedactionKey},
};
use serde_json::{Value, json};

use crate::support::diff::{cached, compare, diff, paths};

/// `canary` in base64, as the API server returns it.
const CANARY: &str = "Y2FuYXJ5";
/// The bytes ff 00, which are not UTF-8.
const BINARY: &str = "/wA=";

fn key(number: u8) -> RedactionKey {
    RedactionKey::new([number; 32])
}

/// Compares with the live object as it is cached with these keys.
fn compare_resource(
    (resource_type, attributes): &(&str, Value),
    key: &RedactionKey,
    live: &Value,
    keys: &[RedactionKey],
) -> Comparison {
    let instance = json!({"schema_version": 0, "attributes": attributes});
    let resource = json!({"mode": "managed", "type": resource_type, "name": "s", "instances": [instance]});
    let state = json!({"version": 4, "resources": [resource]});
    let declared = &decode(state.to_string().as_bytes(), key).unwrap().objects[0];
    compare(declared, &cached(declared, live, keys), &Schemas::default())
}

/// The same Secret in every form that a state can have: resource type, attributes.
fn declared() -> Vec<(&'static str, Value)> {
    let metadata = json!([{"name": "s", "namespace": "shop", "annotations": {"team": "shop"}}]);
    let document = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": {"token": CANARY, "key": BINARY},
        "metadata": {"name": "s", "namespace": "shop", "annotations": {"team": "shop"}}});
    let yaml = |data: &str| {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: s, namespace: shop, annotations: {{team: shop}}}}\n{data}\n"
        )
    };
    vec![
        (
            "kubernetes_secret",
            json!({"id": "shop/s", "metadata": metadata, "type": "Opaque", "data": {"token": "canary"}, "binary_data": {"key": BINARY}}),
        ),
        // Bytes that are not UTF-8, as Terraform stores them.
        (
            "kubernetes_secret_v1",
            json!({"id": "shop/s", "metadata": metadata, "type": "Opaque", "data": {"token": "canary", "key": "\u{fffd}\0"}}),
        ),
        (
            "kubernetes_secret_v1_data",
            json!({"id": "shop/s", "metadata": metadata, "data": {"token": "canary"}}),
        ),
        ("kubernetes_manifest", json!({"object": {"value": document, "type": ["object", {}]}})),
        (
            "kubectl_manifest",
            json!({"yaml_body": yaml(&format!("data: {{token: {CANARY}, key: {BINARY}}}"))}),
        ),
        (
            "kubectl_manifest",
            json!({"yaml_body": yaml(&format!("data: {{key: {BINARY}, token: bm90IHRoaXM=}}\nstringData: {{token: canary}}"))}),
        ),
        (
            "kubernetes_annotations",
            json!({"api_version": "v1", "kind": "Secret", "metadata": metadata, "annotations": {"team": "shop"}}),
        ),
    ]
}

fn live(token: &str, team: &str) -> Value {
    let annotations = json!({"team": team, "kubectl.kubernetes.io/last-applied-configuration": "{\"data\":{\"token\":\"Y2FuYXJ5\"}}"});
    json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": {"token": token, "key": BINARY},
        "metadata": {"name": "s", "namespace": "shop", "annotations": annotations}})
}

#[test]
fn secret_is_in_sync_in_every_declared_form() {
    let keys = [key(1), key(2)];
    for declared in declared() {
        for key in &keys {
            for known in [std::slice::from_ref(key), &keys] {
                let comparison = compare_resource(&declared, key, &live(CANARY, "shop"), known);
                assert_eq!(comparison, Comparison::default(), "{declared:?}");
            }
        }
    }
}

#[test]
fn changed_secret_is_drift_and_never_exposed() {
    let keys = [key(1), key(2)];
    for declared in declared() {
        let resource_type = declared.0;
        for key in &keys {
            // `canary2`
            let live = live("Y2FuYXJ5Mg==", "canary2");
            for known in [std::slice::from_ref(key), &keys] {
                let comparison = compare_resource(&declared, key, &live, known);
                let wanted: &[&str] = match resource_type {
                    "kubernetes_annotations" => &["metadata.annotations.team"],
                    "kubernetes_secret_v1_data" => &["data.token"],
                    _ => &["data.token", "metadata.annotations.team"],
                };
                assert_eq!(paths(&comparison.findings), wanted, "{resource_type}");
                for found in &comparison.findings {
                    let is_redacted = |value: &FieldValue| matches!(value, FieldValue::Redacted(digest) if digest.key() == key.id());
                    assert!(is_redacted(&found.expected) && is_redacted(&found.actual), "{found:?}");
                    assert_ne!(found.expected, found.actual);
                }
                let text = format!("{comparison:?}");
                assert!(!text.contains("anary") && !text.contains("Y2Fu"), "{text}");
            }
        }
    }
}

#[test]
fn value_redacted_with_another_key_is_not_compared() {
    for declared in declared() {
        let comparison = compare_resource(&declared, &key(1), &live(CANARY, "shop"), &[key(2)]);
        assert!(comparison.unknown_key && comparison.findings.is_empty(), "{declared:?} {comparison:?}");
    }
}

/// Otherwise a user who can edit the object could cause endless relists.
#[test]
fn live_value_cannot_imitate_a_digest() {
    let metadata = json!([{"name": "c", "namespace": "shop"}]);
    let instance = json!({"attributes": {"metadata": metadata, "data": {"a": "b"}}});
    let resource =
        json!({"mode": "managed", "type": "kubernetes_config_map", "name": "c", "instances": [instance]});
    let state = json!({"version": 4, "resources": [resource]});
    let state = decode(state.to_string().as_bytes(), &key(1)).unwrap();
    let forged = format!("\u{1}{}", key(3).digest(b"b"));
    let live = json!({"metadata": {"name": "c", "namespace": "shop"}, "data": {"a": forged}});
    let comparison = diff(&state.objects[0], &live);
    assert!(!comparison.unknown_key);
    assert_eq!(paths(&comparison.findings), ["data.a"]);
}

#[test]
fn sensitive_values_of_custom_resources_are_compared_and_redacted() {
    let object = json!({"apiVersion": "example.com/v1", "kind": "Database", "metadata": {"name": "db", "namespace": "shop"},
        "spec": {"users": [{"name": "a", "password": "canary"}, {"name": "b", "from": "x"}], "keys": ["canary"]}});
    let path = |names: &[&str]| -> Value {
        names.iter().map(|name| json!({"type": "get_attr", "value": name})).collect::<Vec<_>>().into()
    };
    let marks =
        json!([path(&["manifest", "spec", "users", "password"]), path(&["manifest", "spec", "keys"])]);
    let instance = json!({"attributes": {"object": {"value": object, "type": ["object", {}]}}, "sensitive_attributes": marks});
    let resource =
        json!({"mode": "managed", "type": "kubernetes_manifest", "name": "db", "instances": [instance]});
    let state = json!({"version": 4, "resources": [resource]});
    let state = decode(state.to_string().as_bytes(), &key(1)).unwrap();
    assert_eq!(diff(&state.objects[0], &object), Comparison::default());
    let mut live = object;
    live["spec"]["users"][0]["password"] = json!("canary2");
    live["spec"]["keys"] = json!(["canary3"]);
    live["spec"]["users"][1]["from"] = json!("y");
    let comparison = diff(&state.objects[0], &live);
    let found = &comparison.findings;
    assert_eq!(paths(found), ["spec.keys", "spec.users[name=a].password", "spec.users[name=b].from"]);
    assert_eq!(found[2].expected, FieldValue::Text("x".into()));
    assert!(!format!("{comparison:?}").contains("anary"), "{comparison:?}");
}
