//! States beside live objects: which fields differ, who set them, and what Terraform never sees.

use drift_exporter::{
    diff::{
        manifest::Schemas,
        terraform::{Comparison, compare},
    },
    sources::terraform::decode,
    types::{FieldClass, RedactionKey},
};
use serde_json::{Value, json};

fn key() -> RedactionKey {
    RedactionKey::new([7; 32])
}

fn compared(resource_type: &str, attributes: &Value, live: &Value) -> Comparison {
    compared_with(resource_type, attributes, live, &Schemas::default())
}

fn compared_with(resource_type: &str, attributes: &Value, live: &Value, shapes: &Schemas) -> Comparison {
    let instance = json!({"schema_version": 1, "attributes": attributes});
    let resource = json!({"mode": "managed", "type": resource_type, "name": "web", "instances": [instance]});
    let state = json!({"version": 4, "resources": [resource]});
    compare(&decode(state.to_string().as_bytes(), &key()).unwrap().objects[0], live, shapes)
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
    let comparison = compared("kubernetes_deployment", &deployment(), live);
    let found: Vec<_> =
        comparison.findings.iter().map(|found| (&*found.path, &*found.expected, &*found.actual)).collect();
    assert_eq!(found, expected);
}

#[test]
fn what_is_as_it_was_read_is_no_drift() {
    check(&live(&json!({}), &json!({})), &[]);
    check(&live(&json!({"tty": false, "env": []}), &json!({"minReadySeconds": 0})), &[]);
}

#[test]
fn a_changed_field_is_found_by_its_path_in_the_object() {
    check(&live(&json!({}), &json!({"replicas": 5})), &[("spec.replicas", "2", "5")]);
    let image = "spec.template.spec.containers[name=web].image";
    check(&live(&json!({"image": "nginx:1.28"}), &json!({})), &[(image, "nginx:1.27", "nginx:1.28")]);
}

#[test]
fn an_added_container_is_found_down_to_its_fields() {
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
            // The provider reads this block whether it is there or not.
            (&format!("{start}.resources"), "", "{}"),
        ],
    );
}

#[test]
fn the_writer_is_who_owns_exactly_the_field() {
    let mut live = live(&json!({"image": "nginx:1.28"}), &json!({"paused": true, "revisionHistoryLimit": 3}));
    let container = json!({"k:{\"name\":\"web\"}": {"f:image": {}}});
    live["metadata"]["managedFields"] = json!([
        {"manager": "HashiCorp", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {"f:revisionHistoryLimit": {}}}},
        {"manager": "kubectl-set", "time": "2026-01-02T00:00:00Z",
            "fieldsV1": {"f:spec": {"f:paused": {}, "f:template": {"f:spec": {"f:containers": container}}}}}]);
    let comparison = compared("kubernetes_deployment", &deployment(), &live);
    let image = comparison.findings.iter().find(|found| found.class == FieldClass::Image).unwrap();
    let owner = image.owner.as_ref().unwrap();
    assert_eq!(
        (&*owner.manager, owner.time.unwrap().to_string()),
        ("kubectl-set", "2026-01-02T00:00:00Z".to_owned())
    );
    let limit =
        comparison.findings.iter().find(|found| found.path.ends_with("revisionHistoryLimit")).unwrap();
    assert_eq!(&*limit.owner.as_ref().unwrap().manager, "HashiCorp");
    // `spec.paused` is in the provider's schema and never read back.
    assert_eq!(comparison.blind.iter().map(ToString::to_string).collect::<Vec<_>>(), ["spec.paused"]);
}

#[test]
fn what_a_provider_did_not_know_yet_is_blind_and_no_drift() {
    let mut live = live(&json!({"restartPolicy": "Always"}), &json!({}));
    let owned = json!({"f:containers": {"k:{\"name\":\"web\"}": {"f:restartPolicy": {}}}});
    live["metadata"]["managedFields"] = json!([{"manager": "kubectl-edit", "time": "2026-01-02T00:00:00Z",
        "fieldsV1": {"f:spec": {"f:template": {"f:spec": owned}}}}]);
    let mut state = deployment();
    let comparison = compared("kubernetes_deployment", &state, &live);
    assert_eq!(comparison.findings, []);
    let blind: Vec<_> = comparison.blind.iter().map(ToString::to_string).collect();
    assert_eq!(blind, ["spec.template.spec.containers[name=web].restartPolicy"]);
    state["spec"][0]["template"][0]["spec"][0]["container"][0]["restart_policy"] = Value::Null;
    let comparison = compared("kubernetes_deployment", &state, &live);
    assert_eq!((comparison.findings.len(), comparison.blind.len()), (1, 0));
}

#[test]
fn the_first_providers_read_no_keys_of_kubernetes_and_no_tolerations_that_it_adds() {
    let mut live = live(&json!({}), &json!({}));
    live["metadata"]["labels"] = json!({"app.kubernetes.io/name": "web"});
    let tolerations = json!([{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]);
    live["spec"]["template"]["spec"]["tolerations"] = tolerations;
    let mut state = deployment();
    state["spec"][0]["template"][0]["spec"][0]["toleration"] = json!([]);
    let found = |state: &Value| compared("kubernetes_deployment", state, &live).findings;
    assert!(found(&state).iter().all(|found| found.path.starts_with("metadata.labels")));
    state["metadata"][0]["self_link"] = "".into();
    assert_eq!(found(&state), []);
}

#[test]
fn limits_of_old_schemas_are_blocks() {
    let mut old = deployment();
    old["spec"][0]["template"][0]["spec"][0]["container"][0]["resources"] =
        json!([{"limits": [{"cpu": "500m", "memory": ""}], "requests": []}]);
    let resource = json!({"mode": "managed", "type": "kubernetes_deployment", "name": "web",
        "instances": [{"schema_version": 0, "attributes": old}]});
    let state =
        decode(json!({"version": 4, "resources": [resource]}).to_string().as_bytes(), &key()).unwrap();
    assert_eq!(compare(&state.objects[0], &live(&json!({}), &json!({})), &Schemas::default()).findings, []);
}

#[test]
fn a_manifest_written_down_declares_only_what_it_says() {
    let yaml = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}], selector: {app: web}}\n";
    let attributes = json!({"yaml_body": yaml});
    let live = |ports: Value| {
        json!({"metadata": {"name": "web", "labels": {"x": "y"}},
        "spec": {"type": "ClusterIP", "selector": {"app": "web"}, "ports": ports}})
    };
    let same = live(json!([{"port": 80, "protocol": "TCP", "targetPort": 80}]));
    assert_eq!(compared("kubectl_manifest", &attributes, &same).findings, []);
    let more = live(json!([{"port": 80, "protocol": "TCP"}, {"port": 443, "protocol": "TCP"}]));
    let paths: Vec<_> =
        compared("kubectl_manifest", &attributes, &more).findings.into_iter().map(|f| f.path).collect();
    assert_eq!(
        paths.iter().map(|path| &**path).collect::<Vec<_>>(),
        ["spec.ports[port=443,protocol=TCP].port", "spec.ports[port=443,protocol=TCP].protocol"]
    );
}

#[test]
fn modes_of_files_are_read_as_go_reads_them() {
    let yaml = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {volumes: [{name: a, secret: {defaultMode: 0644}}]}}";
    let volume = json!({"name": "a", "secret": {"defaultMode": 420}});
    let live = json!({"metadata": {"name": "web"}, "spec": {"volumes": [volume]}});
    assert_eq!(compared("kubectl_manifest", &json!({"yaml_body": yaml}), &live).findings, []);
}

#[test]
fn lists_of_custom_resources_are_compared_as_their_schema_says() {
    let text = json!({"type": "string"});
    let regions = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["zone"],
        "items": {"type": "object", "properties": {"zone": text, "size": {"type": "integer"}}}});
    let tags = json!({"type": "array", "items": text, "x-kubernetes-list-type": "set"});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"regions": regions, "tags": tags}}},
        "x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Fleet"}]});
    let document = json!({"components": {"schemas": {"Fleet": schema}}}).to_string();
    let shapes = Schemas::from_openapi(document.as_bytes(), |_, _| true).unwrap();
    let object = |size: u32| {
        json!({"apiVersion": "example.com/v1", "kind": "Fleet", "metadata": {"name": "north", "namespace": "shop"},
        "spec": {"regions": [{"zone": "eu", "size": size}, {"zone": "us", "size": 2}], "tags": ["a", "b"]}})
    };
    let turned = |size: u32| {
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
        let paths = |live: &Value, shapes: &Schemas| -> Vec<String> {
            let found = compared_with(resource_type, &attributes, live, shapes).findings;
            found.into_iter().map(|found| found.path.into()).collect()
        };
        // The API server keeps the order of a set, and Terraform calls another one drift.
        let order = (resource_type == "kubernetes_manifest").then_some("spec.tags");
        assert_eq!(paths(&turned(1), &shapes), order.into_iter().collect::<Vec<_>>(), "{resource_type}");
        let size = ["spec.regions[zone=eu].size"].into_iter().chain(order);
        assert_eq!(paths(&turned(3), &shapes), size.collect::<Vec<_>>(), "{resource_type}");
        assert!(!paths(&turned(3), &Schemas::default()).contains(&"spec.regions[zone=eu].size".to_owned()));
        let mut more = turned(1);
        more["spec"]["tags"] = json!(["a", "b", "c"]);
        assert_eq!(paths(&more, &shapes).len(), 1, "{resource_type}");
    }
}
