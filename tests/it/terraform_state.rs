//! Decoding of Terraform states: objects, skipped resources, faults and redaction.

use std::io::Write as _;

use drift_exporter::{
    diff::unpack,
    sources::terraform::{TerraformState, decode},
    types::{BaselineFault, DeclaredBody, RedactionKey, SkipReason, UnknownReason},
};
use flate2::{Compression, write::DeflateEncoder};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::diff::diff;

fn state(resources: &Value) -> Vec<u8> {
    let state = json!({"version": 4, "terraform_version": "1.11.4", "serial": 7, "lineage": "abc",
        "outputs": {"password": {"value": "canary-output", "type": "string"}}, "resources": resources});
    state.to_string().into_bytes()
}

fn resource(resource_type: &str, instance: impl Into<Value>) -> Value {
    json!({"mode": "managed", "type": resource_type, "name": "web", "instances": [instance.into()],
        "provider": "provider[\"registry.terraform.io/hashicorp/kubernetes\"]"})
}

fn config_map(name: &str) -> Value {
    json!({"schema_version": 0, "private": "canary-private", "attributes": {"id": format!("shop/{name}"), "data": {"a": "b"},
        "metadata": [{"name": name, "namespace": "shop", "uid": "u-1", "labels": null}]}})
}

fn key() -> RedactionKey {
    RedactionKey::new([7; 32])
}

fn decode_resources(resources: &Value) -> TerraformState {
    decode(&state(resources), &key()).unwrap()
}

#[test]
fn objects_in_modules_and_with_indices_are_decoded() {
    let mut inner = resource("kubernetes_config_map_v1", config_map("a"));
    inner["module"] = json!("module.shop[\"eu\"]");
    inner["instances"][0]["index_key"] = json!("k");
    let decoded = decode_resources(&json!([inner]));
    assert_eq!((decoded.serial, &*decoded.lineage, &*decoded.terraform_version), (7, "abc", "1.11.4"));
    let object = &decoded.objects[0];
    assert_eq!(&*object.address, "module.shop[\"eu\"].kubernetes_config_map_v1.web[\"k\"]");
    assert_eq!(
        (&*object.object.kind, &*object.object.namespace, &*object.object.name),
        ("ConfigMap", "shop", "a")
    );
    assert_eq!(object.uid.as_deref(), Some("u-1"));
}

#[test]
fn other_unmanaged_and_deposed_resources_are_ignored() {
    let mut data = resource("kubernetes_config_map_v1", config_map("a"));
    data["mode"] = json!("data");
    let mut deposed = resource("kubernetes_config_map_v1", config_map("b"));
    deposed["instances"][0]["deposed"] = json!("12345678");
    // Ignored before its instances are decoded: they are not a list.
    let other = json!({"mode": "managed", "type": "aws_db_instance", "name": "db", "instances": {"password": "canary"}});
    assert!(decode_resources(&json!([data, deposed, other])).objects.is_empty());
}

#[test]
fn unknown_types_and_newer_schemas_are_reported() {
    let mut newer = resource("kubernetes_config_map_v1", config_map("a"));
    newer["instances"][0]["schema_version"] = json!(2);
    let decoded = decode_resources(&json!([
        resource("kubernetes_thing", json!({"attributes": {}})),
        newer,
        resource("kubernetes_secret", json!({"attributes": {}})),
        resource("kubernetes_role", json!({"attributes": null}))
    ]));
    let skipped: Vec<_> =
        decoded.skipped.iter().map(|skipped| (&*skipped.resource_type, skipped.reason)).collect();
    assert_eq!(
        skipped,
        [
            ("kubernetes_thing", SkipReason::UnknownType),
            ("kubernetes_secret", SkipReason::NoIdentity),
            ("kubernetes_role", SkipReason::Unreadable)
        ]
    );
    assert_eq!(decoded.objects[0].body, DeclaredBody::Opaque(UnknownReason::NewerSchema));
}

#[test]
fn duplicate_address_keeps_the_first_resource() {
    let decoded = decode_resources(&json!([
        resource("kubernetes_config_map_v1", config_map("a")),
        resource("kubernetes_config_map_v1", config_map("b"))
    ]));
    assert_eq!((decoded.objects.len(), &*decoded.objects[0].object.name), (1, "a"));
    assert_eq!(decoded.skipped[0].reason, SkipReason::Duplicate);
}

#[test]
fn invalid_state_has_a_fault() {
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let deep_attributes = format!(
        r#"{{"version":4,"resources":[{{"mode":"managed","type":"kubernetes_role","name":"a","instances":[{{"attributes":{deep}}}]}}]}}"#
    );
    let whole = state(&json!([]));
    for (bytes, fault) in [
        (br#"{"version":3,"modules":[]}"#.to_vec(), BaselineFault::UnsupportedVersion),
        (br#"{"version":5}"#.to_vec(), BaselineFault::UnsupportedVersion),
        (
            br#"{"serial":1,"lineage":"a","meta":{},"encrypted_data":"x","encryption_version":"v0"}"#
                .to_vec(),
            BaselineFault::Encrypted,
        ),
        (whole[..whole.len() - 3].to_vec(), BaselineFault::Truncated),
        (b"".to_vec(), BaselineFault::Truncated),
        (b"{}".to_vec(), BaselineFault::Unreadable),
        (b"\x80\x81".to_vec(), BaselineFault::Unreadable),
        (deep.clone().into_bytes(), BaselineFault::Unreadable),
        (deep_attributes.into_bytes(), BaselineFault::TooLarge),
    ] {
        assert_eq!(
            decode(&bytes, &key()).map(|_| ()),
            Err(fault),
            "{}",
            String::from_utf8_lossy(&bytes[..bytes.len().min(80)])
        );
    }
}

/// Gzip that inflates to this many MiB: one compressed MiB, repeated.
pub(crate) fn bomb(mebibytes: usize) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&vec![0; 1 << 20]).unwrap();
    encoder.flush().unwrap();
    let mebibyte = encoder.get_ref().clone();
    let mut bytes = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    bytes.extend(mebibyte.repeat(mebibytes));
    bytes
}

#[test]
fn gzip_bomb_is_too_large() {
    let bomb = bomb(1024);
    assert!(bomb.len() < 3 << 19, "{}", bomb.len());
    assert_eq!(decode(&bomb, &key()), Err(BaselineFault::TooLarge));
}

#[test]
fn secrets_are_redacted_in_state_and_findings() {
    let secret = json!({"attributes": {"data": {"token": "canary-data"}, "binary_data": {"key": "Y2FuYXJ5"}, "id": "shop/s",
        "metadata": [{"name": "s", "namespace": "shop"}]}});
    let sensitive = json!({"attributes": {"data": {"a": "canary-marked"}, "metadata": [{"name": "c", "namespace": "shop"}]},
        "sensitive_attributes": [[{"type": "get_attr", "value": "data"}, {"type": "index", "value": {"value": "a", "type": "string"}}]]});
    let object =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "m"}, "data": {"a": "Y2FuYXJ5"}});
    let manifest = json!({"attributes": {"manifest": {"value": {"data": {"a": "Y2FuYXJ5"}}, "type": []},
        "object": {"value": object, "type": ["object", {}]}}});
    let yaml = json!({"attributes": {"yaml_body": "apiVersion: v1\nkind: Secret\nmetadata: {name: yaml}\nstringData: {a: canary-yaml}\n"}});
    let decoded = decode_resources(&json!([
        resource("kubernetes_secret", secret),
        resource("kubernetes_config_map", sensitive),
        resource("kubernetes_manifest", manifest),
        resource("kubectl_manifest", yaml)
    ]));
    assert_eq!(decoded.skipped, []);
    assert!(!format!("{decoded:?}").contains("anary"));
    let live = json!({"kind": "Secret", "data": {"token": "Y2FuYXJ5LW5ldw==", "more": "Y2FuYXJ5LW5ldw==", "a": "Y2FuYXJ5"},
        "stringData": {"a": "canary-live"}});
    for object in &decoded.objects {
        assert!(!format!("{:?}", object.body).contains("anary"));
        let comparison = format!("{:?}", diff(object, &live));
        assert!(!comparison.contains("anary") && !comparison.contains("Y2FuYXJ5"), "{comparison}");
    }
    let token = diff(
        &decoded.objects[0],
        &json!({"metadata": {}, "data": {"token": "Y2FuYXJ5LWRhdGE=", "key": "Y2FuYXJ5"}}),
    );
    assert_eq!(token.findings, [], "equal values are not drift");
}

#[test]
fn terraform_show_output_is_decoded() {
    let values = json!({"data": {"a": "b"}, "metadata": [{"name": "a", "namespace": "shop"}]});
    let resource = json!({"address": "module.m.kubernetes_config_map_v1.web", "mode": "managed", "type": "kubernetes_config_map_v1",
        "name": "web", "schema_version": 0, "values": values, "sensitive_values": {"data": {}}});
    let root = json!({"root_module": {"child_modules": [{"address": "module.m", "resources": [resource]}]}});
    for shown in [
        json!({"format_version": "1.0", "terraform_version": "1.11.4", "values": root}),
        json!({"format_version": "1.2", "planned_values": {}, "prior_state": {"format_version": "1.0", "values": root}}),
    ] {
        let decoded = decode(shown.to_string().as_bytes(), &key()).unwrap();
        assert_eq!(&*decoded.objects[0].address, "module.m.kubernetes_config_map_v1.web");
    }
}

#[test]
fn plan_declares_the_state_before_the_refresh() {
    let values = |value: &str, name: &str| json!({"data": {"a": value}, "metadata": [{"name": name, "namespace": "shop"}]});
    let resource = |name: &str| {
        json!({"address": format!("kubernetes_config_map_v1.{name}"), "mode": "managed",
        "type": "kubernetes_config_map_v1", "name": name})
    };
    let mut refreshed = resource("changed");
    refreshed["values"] = values("edited", "changed");
    let drifted = |name: &str, after: &Value| {
        let mut drifted = resource(name);
        drifted["change"] =
            json!({"before": values("declared", name), "after": after, "before_sensitive": {}});
        drifted
    };
    let drift = [drifted("changed", &values("edited", "changed")), drifted("deleted", &Value::Null)];
    let plan = json!({"format_version": "1.2", "resource_drift": drift,
        "prior_state": {"values": {"root_module": {"resources": [refreshed]}}}});
    let decoded = decode(plan.to_string().as_bytes(), &key()).unwrap();
    let bodies: Vec<String> =
        decoded.objects.iter().map(|object| unpack(object.body.packed().unwrap()).to_string()).collect();
    assert_eq!(bodies.len(), 2);
    assert!(bodies.iter().all(|body| body.contains("declared") && !body.contains("edited")), "{bodies:?}");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z=/.-]{0,8}".prop_map(Value::from),
    ];
    let name = prop_oneof![
        Just("metadata".to_owned()),
        Just("spec".to_owned()),
        Just("data".to_owned()),
        Just("name".to_owned()),
        Just("template".to_owned()),
        Just("container".to_owned()),
        Just("containers".to_owned()),
        Just("object".to_owned()),
        Just("value".to_owned()),
        "[a-z_]{0,6}",
    ];
    leaf.prop_recursive(6, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(name.clone(), inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes, &key());
    }

    #[test]
    fn arbitrary_attributes_and_objects_do_not_panic(attributes in any_json(), live in any_json(), which in 0..6_usize) {
        let types = ["kubernetes_deployment", "kubernetes_secret", "kubernetes_manifest", "kubectl_manifest",
            "kubernetes_env", "kubernetes_storage_class"];
        let mut attributes = attributes;
        if let Value::Object(members) = &mut attributes {
            members.entry("id").or_insert(json!("a/b"));
        }
        let instance = json!({"attributes": attributes, "sensitive_attributes": live});
        for object in decode_resources(&json!([resource(types[which], instance)])).objects {
            let _ = diff(&object, &live);
        }
    }
}
