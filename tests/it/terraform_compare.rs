//! Diffs of Terraform states and live objects: fields, field managers, and fields that Terraform does not read.

use drift_exporter::{
    diff::{Comparison, manifest::Schemas},
    sources::terraform::decode,
    types::{FieldClass, FieldValue, RedactionKey},
};
use serde_json::{Value, json};

use crate::support::diff::{diff, diff_with, paths, texts};

fn key() -> RedactionKey {
    RedactionKey::new([7; 32])
}

fn compare_resource(resource_type: &str, attributes: &Value, live: &Value) -> Comparison {
    compare_with_schemas(resource_type, attributes, live, &Schemas::default())
}

fn compare_with_schemas(
    resource_type: &str,
    attributes: &Value,
    live: &Value,
    schemas: &Schemas,
) -> Comparison {
    let instance = json!({"schema_version": 1, "attributes": attributes});
    let resource = json!({"mode": "managed", "type": resource_type, "name": "web", "instances": [instance]});
    let state = json!({"version": 4, "resources": [resource]});
    diff_with(&decode(state.to_string().as_bytes(), &key()).unwrap().objects[0], live, schemas)
}

fn deployment() -> Value {
    json!({"id": "shop/web", "metadata": [{"name": "web", "namespace": "shop", "labels": {}, "annotations": null}],
        "spec": [{"replicas": "2", "paused": false, "min_ready_seconds": 0, "revision_history_limit": null, "strategy": [{"type": "RollingUpdate", "rolling_update": []}], "template": [{"metadata": [{}], "spec": [{
            "active_deadline_seconds": 0, "affinity": [], "security_context": [],
            "container": [{"name": "web", "image": "nginx:1.27", "env": [], "tty": false,
                "resources": [{"limits": {"cpu": "500m"}, "requests": {}}]}]}]}]}]})
}

fn live(container: &Value, spec: &Value) -> Value {
    let mut live = json!({"metadata": {"name": "web", "annotations": {"deployment.kubernetes.io/revision": "1"}},
        "spec": {"replicas": 2, "strategy": {"type": "RollingUpdate"}, "template": {"metadata": {}, "spec": {"securityContext": {},
            "containers": [{"name": "web", "image": "nginx:1.27", "resources": {"limits": {"cpu": "0.5"}}}]}}}});
    merge(&mut live["spec"]["template"]["spec"]["containers"][0], container);
    merge(&mut live["spec"], spec);
    live
}

fn merge(into: &mut Value, from: &Value) {
    for (name, value) in from.as_object().into_iter().flatten() {
        into[name] = value.clone();
    }
}

#[track_caller]
fn check(live: &Value, expected: &[(&str, &str, &str)]) {
    let comparison = compare_resource("kubernetes_deployment", &deployment(), live);
    let findings = texts(&comparison.findings);
    let findings: Vec<_> =
        findings.iter().map(|(path, expected, actual)| (&**path, &**expected, &**actual)).collect();
    assert_eq!(findings, expected);
}

#[test]
fn equal_object_has_no_drift() {
    check(&live(&json!({}), &json!({})), &[]);
    check(&live(&json!({"tty": false, "env": []}), &json!({"minReadySeconds": 0})), &[]);
}

#[test]
fn changed_field_is_reported_with_its_path() {
    check(&live(&json!({}), &json!({"replicas": 5})), &[("spec.replicas", "2", "5")]);
    let image = "spec.template.spec.containers[name=web].image";
    check(&live(&json!({"image": "nginx:1.28"}), &json!({})), &[(image, "nginx:1.27", "nginx:1.28")]);
}

#[test]
fn added_container_is_reported_per_field() {
    let mut live = live(&json!({}), &json!({}));
    let miner = json!({"name": "miner", "image": "xmrig", "env": [{"name": "POOL", "value": "evil"}]});
    live["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap().insert(0, miner);
    let start = "spec.template.spec.containers[name=miner]";
    check(
        &live,
        &[
            (&format!("{start}.env[name=POOL].name"), "", "POOL"),
            (&format!("{start}.env[name=POOL].value"), "", "evil"),
            (&format!("{start}.image"), "", "xmrig"),
            (&format!("{start}.name"), "", "miner"),
            // The provider always reads this block.
            (&format!("{start}.resources"), "", "{}"),
        ],
    );
}

#[test]
fn owner_is_the_field_manager_of_the_exact_field() {
    let mut live = live(&json!({"image": "nginx:1.28"}), &json!({"paused": true, "revisionHistoryLimit": 3}));
    let container = json!({"k:{\"name\":\"web\"}": {"f:image": {}}});
    live["metadata"]["managedFields"] = json!([
        {"manager": "HashiCorp", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {"f:revisionHistoryLimit": {}}}},
        {"manager": "kubectl-set", "time": "2026-01-02T00:00:00Z",
            "fieldsV1": {"f:spec": {"f:paused": {}, "f:template": {"f:spec": {"f:containers": container}}}}}]);
    let comparison = compare_resource("kubernetes_deployment", &deployment(), &live);
    let image = comparison.findings.iter().find(|finding| finding.class == FieldClass::Image).unwrap();
    let owner = image.owner.as_ref().unwrap();
    assert_eq!(
        (&*owner.manager, owner.time.unwrap().to_string()),
        ("kubectl-set", "2026-01-02T00:00:00Z".to_owned())
    );
    let limit = comparison
        .findings
        .iter()
        .find(|finding| finding.path.as_str().ends_with("revisionHistoryLimit"))
        .unwrap();
    assert_eq!(&*limit.owner.as_ref().unwrap().manager, "HashiCorp");
    // The provider's schema has `spec.paused`, but the provider never reads it.
    assert_eq!(comparison.blind.iter().map(ToString::to_string).collect::<Vec<_>>(), ["spec.paused"]);
}

#[test]
fn field_unknown_to_the_provider_is_blind() {
    let mut live = live(&json!({"restartPolicy": "Always"}), &json!({}));
    let owned = json!({"f:containers": {"k:{\"name\":\"web\"}": {"f:restartPolicy": {}}}});
    live["metadata"]["managedFields"] = json!([{"manager": "kubectl-edit", "time": "2026-01-02T00:00:00Z",
        "fieldsV1": {"f:spec": {"f:template": {"f:spec": owned}}}}]);
    let mut state = deployment();
    let comparison = compare_resource("kubernetes_deployment", &state, &live);
    assert_eq!(comparison.findings, []);
    let blind: Vec<_> = comparison.blind.iter().map(ToString::to_string).collect();
    assert_eq!(blind, ["spec.template.spec.containers[name=web].restartPolicy"]);
    state["spec"][0]["template"][0]["spec"][0]["container"][0]["restart_policy"] = Value::Null;
    let comparison = compare_resource("kubernetes_deployment", &state, &live);
    assert_eq!((comparison.findings.len(), comparison.blind.len()), (1, 0));
}

#[test]
fn old_providers_ignore_kubernetes_keys_and_default_tolerations() {
    let mut live = live(&json!({}), &json!({}));
    live["metadata"]["labels"] = json!({"app.kubernetes.io/name": "web"});
    let tolerations = json!([{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]);
    live["spec"]["template"]["spec"]["tolerations"] = tolerations;
    let mut state = deployment();
    state["spec"][0]["template"][0]["spec"][0]["toleration"] = json!([]);
    let findings = |state: &Value| compare_resource("kubernetes_deployment", state, &live).findings;
    assert!(findings(&state).iter().all(|finding| finding.path.as_str().starts_with("metadata.labels")));
    state["metadata"][0]["self_link"] = "".into();
    assert_eq!(findings(&state), []);
}

#[test]
fn old_schemas_have_limits_as_blocks() {
    let mut old = deployment();
    old["spec"][0]["template"][0]["spec"][0]["container"][0]["resources"] =
        json!([{"limits": [{"cpu": "500m", "memory": ""}], "requests": []}]);
    let resource = json!({"mode": "managed", "type": "kubernetes_deployment", "name": "web",
        "instances": [{"schema_version": 0, "attributes": old}]});
    let state =
        decode(json!({"version": 4, "resources": [resource]}).to_string().as_bytes(), &key()).unwrap();
    assert_eq!(diff(&state.objects[0], &live(&json!({}), &json!({}))).findings, []);
}

#[test]
fn yaml_manifest_declares_only_its_fields() {
    let yaml = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}], selector: {app: web}}\n";
    let attributes = json!({"yaml_body": yaml});
    let live = |ports: Value| {
        json!({"metadata": {"name": "web", "labels": {"x": "y"}},
        "spec": {"type": "ClusterIP", "selector": {"app": "web"}, "ports": ports}})
    };
    let same = live(json!([{"port": 80, "protocol": "TCP", "targetPort": 80}]));
    assert_eq!(compare_resource("kubectl_manifest", &attributes, &same).findings, []);
    let more = live(json!([{"port": 80, "protocol": "TCP"}, {"port": 443, "protocol": "TCP"}]));
    assert_eq!(
        paths(&compare_resource("kubectl_manifest", &attributes, &more).findings),
        ["spec.ports[port=443,protocol=TCP].port", "spec.ports[port=443,protocol=TCP].protocol"]
    );
}

#[test]
fn file_modes_are_parsed_as_in_go() {
    let yaml = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {volumes: [{name: a, secret: {defaultMode: 0644}}]}}";
    let volume = json!({"name": "a", "secret": {"defaultMode": 420}});
    let live = json!({"metadata": {"name": "web"}, "spec": {"volumes": [volume]}});
    assert_eq!(compare_resource("kubectl_manifest", &json!({"yaml_body": yaml}), &live).findings, []);
}

#[test]
fn lists_of_custom_resources_follow_their_schema() {
    let text = json!({"type": "string"});
    let regions = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["zone"],
        "items": {"type": "object", "properties": {"zone": text, "size": {"type": "integer"}}}});
    let tags = json!({"type": "array", "items": text, "x-kubernetes-list-type": "set"});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"regions": regions, "tags": tags}}},
        "x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Fleet"}]});
    let document = json!({"components": {"schemas": {"Fleet": schema}}}).to_string();
    let schemas = Schemas::from_openapi(document.as_bytes(), |_| true).unwrap();
    let object = |size: u32| {
        json!({"apiVersion": "example.com/v1", "kind": "Fleet", "metadata": {"name": "north", "namespace": "shop"},
        "spec": {"regions": [{"zone": "eu", "size": size}, {"zone": "us", "size": 2}], "tags": ["a", "b"]}})
    };
    let reordered = |size: u32| {
        let mut live = object(size);
        for list in ["regions", "tags"] {
            live["spec"][list].as_array_mut().unwrap().reverse();
        }
        live
    };
    for (resource_type, attributes) in [
        ("kubernetes_manifest", json!({"object": {"value": object(1), "type": ["object", {}]}})),
        ("kubectl_manifest", json!({"yaml_body": object(1).to_string()})),
    ] {
        let paths = |live: &Value, schemas: &Schemas| -> Vec<String> {
            let findings = compare_with_schemas(resource_type, &attributes, live, schemas).findings;
            findings.into_iter().map(|finding| finding.path.to_string()).collect()
        };
        // The API server keeps the order of a set, and Terraform reports another order as drift.
        let order = (resource_type == "kubernetes_manifest").then_some("spec.tags");
        assert_eq!(paths(&reordered(1), &schemas), order.into_iter().collect::<Vec<_>>(), "{resource_type}");
        let size = ["spec.regions[zone=eu].size"].into_iter().chain(order);
        assert_eq!(paths(&reordered(3), &schemas), size.collect::<Vec<_>>(), "{resource_type}");
        assert!(
            !paths(&reordered(3), &Schemas::default()).contains(&"spec.regions[zone=eu].size".to_owned())
        );
        let mut more = reordered(1);
        more["spec"]["tags"] = json!(["a", "b", "c"]);
        assert_eq!(paths(&more, &schemas).len(), 1, "{resource_type}");
    }
}

#[test]
fn null_and_empty_string_of_a_custom_resource_are_shown() {
    let object = |spec: Value| json!({"apiVersion": "example.com/v1", "kind": "Fleet", "metadata": {"name": "north", "namespace": "shop"}, "spec": spec});
    let values = |declared: Value, live: Value| {
        let attributes = json!({"object": {"value": object(declared), "type": ["object", {}]}});
        let mut found = compare_resource("kubernetes_manifest", &attributes, &object(live)).findings;
        assert!(found.len() < 2, "{found:?}");
        found.pop().map(|found| (found.expected, found.actual))
    };
    let (x, empty) = (|| FieldValue::Text("x".into()), || FieldValue::Text("".into()));
    assert_eq!(values(json!({"a": "x"}), json!({})), Some((x(), FieldValue::Absent)));
    assert_eq!(values(json!({"a": "x"}), json!({"a": null})), Some((x(), FieldValue::Null)));
    assert_eq!(values(json!({"a": "x"}), json!({"a": ""})), Some((x(), empty())));
    assert_eq!(values(json!({"a": ""}), json!({"a": "x"})), Some((empty(), x())));
    // A state has null for a field that is not set.
    assert_eq!(values(json!({"a": null}), json!({"a": "x"})), Some((FieldValue::Absent, x())));
    let list = FieldValue::Json("[\"x\"]".into());
    assert_eq!(values(json!({"a": ["x"]}), json!({"a": null})), Some((list, FieldValue::Null)));
    // They are equal to Terraform.
    for declared in [json!({}), json!({"a": null}), json!({"a": ""})] {
        for live in [json!({}), json!({"a": null}), json!({"a": ""})] {
            assert_eq!(values(declared.clone(), live), None);
        }
    }
}

#[test]
fn order_of_elements_with_redacted_keys_is_not_plain() {
    let mut attributes = deployment();
    let env = |names: [&str; 2]| json!(names.map(|name| json!({"name": name, "value": "x"})));
    attributes["spec"][0]["template"][0]["spec"][0]["container"][0]["env"] = env(["canary", "other"]);
    let live = live(&json!({"env": env(["other", "canary"])}), &json!({}));
    let order = |marks: Value| {
        let instance = json!({"schema_version": 1, "attributes": attributes, "sensitive_attributes": marks});
        let resource = json!({"mode": "managed", "type": "kubernetes_deployment", "name": "web", "instances": [instance]});
        let state = json!({"version": 4, "resources": [resource]});
        let mut found =
            diff(&decode(state.to_string().as_bytes(), &key()).unwrap().objects[0], &live).findings;
        assert_eq!(paths(&found), ["spec.template.spec.containers[name=web].env"]);
        found.remove(0)
    };
    let plain = order(json!([]));
    assert_eq!(plain.expected, FieldValue::Json(r#"["canary","other"]"#.into()));
    assert_eq!(plain.actual, FieldValue::Json(r#"["other","canary"]"#.into()));
    let names = ["spec", "template", "spec", "container", "env", "name"];
    let mark: Vec<Value> = names.iter().map(|name| json!({"type": "get_attr", "value": name})).collect();
    let redacted = order(json!([mark]));
    let [one, other] = ["canary", "other"].map(|name| key().digest(name.as_bytes()));
    let list = |text: String| FieldValue::PartlyRedacted(text.into());
    assert_eq!(redacted.expected, list(format!("[\"{one}\",\"{other}\"]")));
    assert_eq!(redacted.actual, list(format!("[\"{other}\",\"{one}\"]")));
}
