//! A custom resource, compared by its OpenAPI schema, on a real API server with the real kubectl.

use std::{fs, process::Command, time::Instant};

use serde_json::{Value, json};

use crate::support::{
    cluster::{Cluster, User},
    exporter::Exporter,
    objects::{create_namespace, grant},
    parts::program,
    wait::eventually,
};

/// Regions have the list map key `zone`. `stages` is atomic, or has the same list map key.
fn definition(stages: &Value) -> Value {
    let text = json!({"type": "string"});
    let texts = |order: &str| json!({"type": "array", "items": text, "x-kubernetes-list-type": order});
    let by = |keys: &[&str], members: Value| {
        json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys,
        "items": {"type": "object", "required": [keys[0]], "properties": members}})
    };
    let hosts = by(&["host"], json!({"host": text, "weight": {"type": "integer", "default": 100}}));
    let ports = by(
        &["port", "protocol"],
        json!({"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}}),
    );
    let regions = by(
        &["zone"],
        json!({"zone": text, "size": {"type": "integer"}, "mode": {"type": "string", "default": "fast"},
        "hosts": hosts, "labels": texts("set")}),
    );
    let mut stages_schema = json!({"type": "array", "items": {"type": "object", "required": ["zone"],
        "properties": {"zone": text, "wait": {"type": "integer", "default": 5}}}});
    for (name, value) in stages.as_object().unwrap() {
        stages_schema[name] = value.clone();
    }
    let amount = json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true,
        "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"});
    let spec = json!({"type": "object", "properties": {"regions": regions, "ports": ports, "tags": texts("set"), "steps": texts("atomic"),
        "stages": stages_schema, "memory": amount, "mode": {"type": "string", "default": "fast"},
        "limits": {"type": "object", "default": {"cpu": 1}, "properties": {"cpu": {"type": "integer", "default": 2}, "tries": {"type": "integer", "default": 3}}}}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    let free = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let kind = |kind: &str, plural: &str, schema: Value| {
        json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("{plural}.example.com")},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}})
    };
    json!({"apiVersion": "v1", "kind": "List", "items": [kind("Fleet", "fleets", schema), kind("Heap", "heaps", free)]})
}

fn fleet() -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Fleet", "metadata": {"name": "north", "namespace": "shop"}, "spec": {
        "regions": [{"zone": "eu", "size": 1, "hosts": [{"host": "b"}, {"host": "a", "weight": 7}], "labels": ["y", "x"]}, {"zone": "us", "size": 2}],
        "ports": [{"port": 80}, {"port": 80, "protocol": "UDP"}], "tags": ["b", "a"], "steps": ["two", "one"],
        "stages": [{"zone": "eu"}, {"zone": "us", "wait": 1}], "memory": "1024Mi", "limits": {}}})
}

struct CustomResourceFixture {
    cluster: Cluster,
    exporter: Exporter,
}

impl CustomResourceFixture {
    fn start() -> Self {
        let cluster = Cluster::start();
        let client = cluster.client();
        let rules = json!([{"apiGroups": ["example.com"], "resources": ["fleets", "heaps"], "verbs": ["list", "watch"]}]);
        cluster.block_on(async {
            grant(&client, "drift-exporter", rules).await;
            create_namespace(&client, "shop").await;
        });
        apply(&cluster, &definition(&json!({"x-kubernetes-list-type": "atomic"})));
        let heap = json!({"apiVersion": "example.com/v1", "kind": "Heap", "metadata": {"name": "any", "namespace": "shop"}, "list": ["b", "a"]});
        for object in [fleet(), heap] {
            eventually("the kind is served", || kubectl(&cluster, &["apply", "-f", "-"], &object).ok());
        }
        let settings = cluster.folder().join("settings.yaml");
        let text = "sources: {last_applied: {}}\nkinds:\n- {apiVersion: example.com/v1, kind: Fleet}\n- {apiVersion: example.com/v1, kind: Heap}\n";
        fs::write(&settings, text).expect("it can be written");
        let flags = ["--config.file", settings.to_str().expect("a path")];
        let exporter = Exporter::start(&cluster.kubeconfig(User::Exporter), cluster.folder(), &flags).ready();
        Self { cluster, exporter }
    }

    fn object(&self, object: &str) -> Value {
        self.exporter.get(&format!("/v1/resources/{object}")).expect("it answers").json()
    }

    /// Waits until exactly these fields differ.
    #[track_caller]
    fn wait_for_differences(&self, object: &str, fields: &[&str]) {
        eventually(&format!("exactly {fields:?} differ"), || {
            let claim = &self.object(object)["claims"][0];
            let differences = claim["differences"].as_array().cloned().unwrap_or_default();
            let found: Vec<&str> =
                differences.iter().filter_map(|difference| difference["path"].as_str()).collect();
            let verdict = if fields.is_empty() { "in_sync" } else { "drifted" };
            (claim["verdict"] == verdict && found == fields).then_some(())
        });
    }

    /// Waits until the exporter has synced the latest version of an object, and asserts that it is in sync.
    #[track_caller]
    fn wait_for_in_sync(&self, object: &str, name: &str) {
        let version = ["get", name, "-o", "jsonpath={.metadata.resourceVersion}"];
        let version = kubectl(&self.cluster, &version, &Value::Null).expect("it is there");
        let seen = eventually("the exporter sees the change", || {
            Some(self.object(object)).filter(|object| object["resourceVersion"] == *version)
        });
        assert_eq!(seen["claims"][0]["verdict"], "in_sync", "{seen:#}");
    }

    fn patch(&self, object: &str, patch: &Value) {
        let patch = patch.to_string();
        let arguments = ["patch", object, "--type=json", "--patch", &patch];
        kubectl(&self.cluster, &arguments, &Value::Null).expect("it can be patched");
    }

    /// Uses server-side apply, as a controller does: kubectl apply would delete the fields of its last-applied annotation.
    fn server_side_apply(&self, fleet: &Value) {
        let url = "/apis/example.com/v1/namespaces/shop/fleets/north?fieldManager=turner&force=true";
        let request = http::Request::patch(url).header("content-type", "application/apply-patch+yaml");
        let request = request.body(fleet.to_string().into_bytes()).expect("a request");
        let applied = self.cluster.block_on(self.cluster.client().request::<Value>(request));
        applied.expect("it can be applied");
    }

    fn spec(&self) -> Value {
        let text = kubectl(&self.cluster, &["get", "fleet", "north", "-o", "json"], &Value::Null)
            .expect("it is there");
        serde_json::from_str::<Value>(&text).expect("JSON")["spec"].take()
    }
}

fn kubectl(cluster: &Cluster, arguments: &[&str], input: &Value) -> Result<String, String> {
    let file = cluster.folder().join("input.json");
    fs::write(&file, input.to_string()).expect("it can be written");
    let output = Command::new(program("kube-apiserver", "kubectl"))
        .args(arguments)
        .args(["--namespace", "shop", "--kubeconfig"])
        .arg(cluster.kubeconfig(User::Admin))
        .stdin(fs::File::open(&file).expect("it can be read"))
        .output()
        .expect("kubectl can be run");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

#[track_caller]
fn apply(cluster: &Cluster, object: &Value) {
    kubectl(cluster, &["apply", "-f", "-"], object).expect("it can be applied");
}

const NORTH: &str = "fleet.example.com/shop/north";
const ANY: &str = "heap.example.com/shop/any";

#[test]
fn custom_resource_lists_are_compared_by_the_current_schema() {
    let fixture = CustomResourceFixture::start();
    // Defaulted fields are not drift.
    assert_eq!(fixture.spec()["limits"], json!({"cpu": 2, "tries": 3}));
    fixture.wait_for_differences(NORTH, &[]);
    fixture.wait_for_differences(ANY, &[]);
    assert!(fixture.exporter.get("/v1/history").expect("it answers").text().contains("\"transitions\":[]"));
    let log = fixture.exporter.logged();
    assert_eq!(log.matches("Cannot read the schemas of custom resources").count(), 1, "{log}");
    assert!(log.contains("it has no schema of Heap"), "{log}");

    // The order of map and set lists does not matter, at any depth.
    let mut reordered = fleet();
    reordered["spec"] = json!({"tags": ["a", "b"], "ports": [{"port": 80, "protocol": "UDP"}, {"port": 80, "protocol": "TCP"}],
        "regions": [{"zone": "us", "size": 2}, {"zone": "eu", "labels": ["x", "y"], "hosts": [{"host": "a"}, {"host": "b"}]}]});
    fixture.server_side_apply(&reordered);
    let spec = fixture.spec();
    assert_eq!((&spec["tags"], &spec["regions"][0]["zone"]), (&json!(["a", "b"]), &json!("us")), "{spec}");
    assert_eq!(spec["regions"][1]["hosts"][0]["host"], "a", "{spec}");
    fixture.wait_for_in_sync(NORTH, "fleet/north");

    for (edit, found, back) in [
        (
            json!([{"op": "replace", "path": "/spec/regions/0/size", "value": 9}]),
            "spec.regions[zone=us].size",
            json!([{"op": "replace", "path": "/spec/regions/0/size", "value": 2}]),
        ),
        (
            json!([{"op": "replace", "path": "/spec/regions/1/hosts/0/weight", "value": 9}]),
            "spec.regions[zone=eu].hosts[host=a].weight",
            json!([{"op": "replace", "path": "/spec/regions/1/hosts/0/weight", "value": 7}]),
        ),
        (
            json!([{"op": "add", "path": "/spec/regions/1/labels/0", "value": "z"}]),
            "spec.regions[zone=eu].labels[0]",
            json!([{"op": "remove", "path": "/spec/regions/1/labels/0"}]),
        ),
        (
            json!([{"op": "add", "path": "/spec/tags/0", "value": "c"}]),
            "spec.tags[0]",
            json!([{"op": "remove", "path": "/spec/tags/0"}]),
        ),
        (
            json!([{"op": "add", "path": "/spec/steps/-", "value": "three"}]),
            "spec.steps",
            json!([{"op": "remove", "path": "/spec/steps/2"}]),
        ),
        (
            json!([{"op": "replace", "path": "/spec/steps", "value": ["one", "two"]}]),
            "spec.steps",
            json!([{"op": "replace", "path": "/spec/steps", "value": ["two", "one"]}]),
        ),
        (
            json!([{"op": "replace", "path": "/spec/memory", "value": "2Gi"}]),
            "spec.memory",
            json!([{"op": "replace", "path": "/spec/memory", "value": "1Gi"}]),
        ),
    ] {
        fixture.patch("fleet/north", &edit);
        fixture.wait_for_differences(NORTH, &[found]);
        fixture.patch("fleet/north", &back);
        fixture.wait_for_differences(NORTH, &[]);
    }
    // Undeclared fields are not drift, in list elements either.
    fixture.patch("fleet/north", &json!([{"op": "replace", "path": "/spec/regions/0/mode", "value": "slow"}, {"op": "replace", "path": "/spec/mode", "value": "slow"}]));
    // A kind without a schema is compared by heuristics: the order of scalar lists does not matter.
    fixture.patch("heap/any", &json!([{"op": "replace", "path": "/list", "value": ["a", "b"]}]));
    fixture.wait_for_in_sync(NORTH, "fleet/north");
    fixture.wait_for_in_sync(ANY, "heap/any");

    // The order of the atomic list counts until the schema declares list map keys.
    fixture
        .patch("fleet/north", &json!([{"op": "move", "from": "/spec/stages/1", "path": "/spec/stages/0"}]));
    fixture
        .wait_for_differences(NORTH, &["spec.stages[0].zone", "spec.stages[1].wait", "spec.stages[1].zone"]);
    let by_zone = json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["zone"]});
    let started = Instant::now();
    apply(&fixture.cluster, &definition(&by_zone));
    fixture.wait_for_differences(NORTH, &[]);
    println!("the new schema takes effect {:?} after it is applied", started.elapsed());
    fixture.patch("fleet/north", &json!([{"op": "replace", "path": "/spec/stages/0/wait", "value": 2}]));
    fixture.wait_for_differences(NORTH, &["spec.stages[zone=us].wait"]);

    let requests = fixture
        .cluster
        .audit_events()
        .into_iter()
        .filter(|event| event["user"]["username"] == User::Exporter.name());
    let requests: Vec<String> =
        requests.filter_map(|event| Some(event["requestURI"].as_str()?.to_owned())).collect();
    let of = |start: &str| requests.iter().filter(|url| url.starts_with(start)).count();
    println!("{} requests for the index", of("/openapi/v3") - of("/openapi/v3/"));
    assert_eq!(of("/openapi/v3/"), 2, "each document is read once: {requests:?}");
    assert!(requests.iter().filter(|url| url.starts_with("/openapi/v3/")).all(|url| url.contains("?hash=")));
}
