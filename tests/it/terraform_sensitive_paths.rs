//! Sensitive paths of states: the cached object has digests instead of values, and the diff is the same.

use std::collections::{BTreeMap, BTreeSet};

use drift_exporter::{
    diff::{Comparison, manifest::Schemas, pack_live_object, terraform::sensitive_fields, unpack},
    sources::terraform::decode,
    types::{DeclaredObject, Document, FieldValue, RedactionKey, RedactionPolicy, is_within},
};
use serde_json::{Value, json};

use crate::support::diff::{compare, diff, kind_of};

fn key(number: u8) -> RedactionKey {
    RedactionKey::new([number; 32])
}

/// A resource type, its attributes and the live object.
struct Case {
    resource_type: String,
    attributes: Value,
    live: Value,
}

impl Case {
    fn new(resource_type: &str, attributes: Value, live: Value) -> Self {
        Self { resource_type: resource_type.to_owned(), attributes, live }
    }

    /// Every attribute path that can be sensitive.
    fn sensitive_paths(&self) -> BTreeSet<Vec<String>> {
        let mut sensitive_paths = BTreeSet::new();
        paths(&self.attributes, &mut Vec::new(), &mut sensitive_paths);
        if self.resource_type != "kubernetes_manifest" {
            return sensitive_paths;
        }
        let within = |path: Vec<String>| path.into_iter().filter(|name| name != "value").collect();
        let manifest = |path: &Vec<String>| path.first().is_some_and(|first| first == "manifest");
        sensitive_paths.into_iter().filter(manifest).map(within).collect()
    }

    /// The declared object, with one sensitive path or none.
    fn declared(&self, sensitive_path: Option<&[String]>, key: &RedactionKey) -> DeclaredObject {
        let step = |name: &String| json!({"type": "get_attr", "value": name});
        let sensitive_paths: Vec<Value> =
            sensitive_path.iter().map(|path| path.iter().map(step).collect()).collect();
        let instance = json!({"schema_version": 1, "attributes": self.attributes, "sensitive_attributes": sensitive_paths});
        let resource =
            json!({"mode": "managed", "type": self.resource_type, "name": "a", "instances": [instance]});
        let state = json!({"version": 4, "resources": [resource]});
        let state = decode(state.to_string().as_bytes(), key).unwrap();
        DeclaredObject::clone(&state.objects[0])
    }
}

/// States that Terraform wrote, with the objects that it created.
fn real_cases() -> Vec<Case> {
    let state: Value = serde_json::from_str(include_str!("../../src/demo/terraform/shop.tfstate")).unwrap();
    let objects: BTreeMap<String, Value> =
        serde_json::from_str(include_str!("../../src/demo/terraform/objects.json")).unwrap();
    let cases = state["resources"].as_array().unwrap().iter().map(|resource| {
        let text = |name: &str| resource[name].as_str();
        let (resource_type, name) = (text("type").unwrap(), text("name").unwrap());
        let module = text("module").map_or_else(String::new, |module| format!("{module}."));
        let attributes = resource["instances"][0]["attributes"].clone();
        Case::new(resource_type, attributes, objects[&format!("{module}{resource_type}.{name}")].clone())
    });
    // Two of the Deployments are equal.
    cases.take(7).collect()
}

/// The metadata of all namespaced objects.
fn metadata() -> Value {
    json!({"name": "a", "namespace": "shop", "annotations": {"example.com/note": "kanarie"}})
}

/// Edge cases: numbers, booleans, quantities, file modes, certificates, nested lists, partial objects, names in manifests.
fn edge_cases() -> Vec<Case> {
    [workloads(), other_resources(), documents()].into_iter().flatten().collect()
}

fn workloads() -> Vec<Case> {
    let (metadata, block) = (metadata(), json!([metadata()]));
    let env = |value: &str| json!([{"name": "TOKEN", "value": value}, {"name": "OTHER", "value": "1"}]);
    let live_pod = json!({"securityContext": {"supplementalGroups": [0, 7], "runAsNonRoot": false, "runAsUser": 0},
        "initContainers": [{"name": "init", "image": "busybox", "env": env("kanarie")}],
        "containers": [{"name": "web", "image": "nginx", "env": env("kanarie"), "tty": true, "stdin": false, "args": ["-a", "kanarie"],
            "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 420, "protocol": "UDP"}],
            "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}}}],
        "volumes": [{"name": "v", "configMap": {"name": "c", "defaultMode": 420}}]});
    let pod = json!([{"security_context": [{"supplemental_groups": [0, 7], "run_as_non_root": false, "run_as_user": "0"}],
        "init_container": [{"name": "init", "image": "busybox", "env": env("kanarie"), "resources": [{}]}],
        "container": [{"name": "web", "image": "nginx", "env": env("kanarie"), "tty": true, "stdin": false, "args": ["-a", "kanarie"],
            "port": [{"container_port": 80, "protocol": "TCP"}, {"container_port": 420, "protocol": "UDP"}],
            "resources": [{"limits": {"cpu": "0.5", "memory": "1024Mi"}}]}],
        "volume": [{"name": "v", "config_map": [{"name": "c", "default_mode": "0644"}]}]}]);
    let live_deployment = json!({"metadata": metadata, "spec": {"replicas": 0, "minReadySeconds": 0, "strategy": {"type": "Recreate"},
        "template": {"metadata": {"annotations": {"note": "kanarie"}}, "spec": live_pod}}});
    let deployment = json!({"metadata": block, "spec": [{"replicas": "0", "min_ready_seconds": 0, "strategy": [{"type": "Recreate"}],
        "template": [{"metadata": [{"annotations": {"note": "kanarie"}}], "spec": pod}]}]});
    vec![
        Case::new("kubernetes_deployment_v1", deployment, live_deployment.clone()),
        Case::new(
            "kubernetes_env",
            json!({"api_version": "apps/v1", "kind": "Deployment", "metadata": block, "container": "web", "env": [{"name": "TOKEN", "value": "kanarie"}]}),
            live_deployment.clone(),
        ),
        Case::new(
            "kubernetes_annotations",
            json!({"api_version": "apps/v1", "kind": "Deployment", "metadata": block, "annotations": {"example.com/note": "kanarie"},
                "template_annotations": {"note": "kanarie"}}),
            live_deployment,
        ),
    ]
}

fn other_resources() -> Vec<Case> {
    let (metadata, block) = (metadata(), json!([metadata()]));
    let ca_bundle =
        |text: &str| json!({"clientConfig": {"caBundle": text, "url": "https://a"}, "name": "a.example.com"});
    vec![
        Case::new(
            "kubernetes_validating_webhook_configuration_v1",
            json!({"metadata": [{"name": "a"}], "webhook": [
                {"name": "a.example.com", "client_config": [{"ca_bundle": "kanarie", "url": "https://a"}]}]}),
            // `kanarie`
            json!({"metadata": {"name": "a"}, "webhooks": [ca_bundle("a2FuYXJpZQ==")]}),
        ),
        Case::new(
            "kubernetes_service",
            json!({"metadata": block, "spec": [{"type": "LoadBalancer", "external_name": "", "load_balancer_class": "kanarie",
                "port": [{"name": "b", "port": 80, "target_port": "8080"}, {"name": "a", "port": 81, "target_port": "http"}]}]}),
            json!({"metadata": metadata, "spec": {"type": "LoadBalancer", "loadBalancerClass": "kanarie",
                "ports": [{"name": "b", "port": 80, "targetPort": 8080}, {"name": "a", "port": 81, "targetPort": "http"}]}}),
        ),
        Case::new(
            "kubernetes_persistent_volume_v1",
            json!({"metadata": [{"name": "a"}], "spec": [{"capacity": {"storage": "1024Mi"},
                "persistent_volume_source": [{"csi": [{"driver": "d", "volume_handle": "kanarie", "read_only": false}]}]}]}),
            json!({"metadata": {"name": "a"}, "spec": {"capacity": {"storage": "1Gi"}, "csi": {"driver": "d", "volumeHandle": "kanarie"}}}),
        ),
    ]
}

fn documents() -> Vec<Case> {
    let (metadata, block) = (metadata(), json!([metadata()]));
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": {
        "on": true, "off": false, "none": 0, "some": 7, "half": 0.5, "empty": "", "memory": "1Gi", "secret": "kanarie", "grid": [[1, 2], [3]],
        "users": [{"name": "a", "token": "kanarie"}, {"name": "b", "token": "7"}], "list": ["kanarie", 3, false]}});
    let yaml = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"app.properties": "kanarie", "b": "1.0"}});
    let mut live_map = yaml.clone();
    live_map["binaryData"] = json!({"raw": "/wA="});
    let whole = |object: &Value| json!({"object": {"type": [], "value": object}, "manifest": {"type": [], "value": object}});
    vec![
        Case::new(
            "kubernetes_config_map",
            json!({"metadata": block, "data": {"app.properties": "kanarie", "b": "1.0"}, "binary_data": {"raw": "/wA="}}),
            live_map.clone(),
        ),
        Case::new("kubernetes_manifest", whole(&widget), widget),
        Case::new("kubernetes_manifest", whole(&yaml), yaml.clone()),
        Case::new(
            "kubectl_manifest",
            json!({"yaml_body": yaml.to_string(), "sensitive_fields": ["data", "metadata.annotations"]}),
            live_map,
        ),
    ]
}

/// The paths of all attributes, without indices.
fn paths(value: &Value, path: &mut Vec<String>, found: &mut BTreeSet<Vec<String>>) {
    found.insert(path.clone());
    match value {
        Value::Array(elements) => elements.iter().for_each(|element| paths(element, path, found)),
        Value::Object(members) => {
            for (name, member) in members {
                path.push(name.clone());
                paths(member, path, found);
                path.pop();
            }
        }
        _ => {}
    }
}

/// JSON pointers of all scalars and lists that a test can edit.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            let declared = |name: &str| {
                !["/apiVersion", "/kind", "/metadata/name", "/metadata/namespace", "/metadata/uid"]
                    .contains(&name)
            };
            for (name, member) in members {
                let inner = format!("{at}/{}", name.replace('/', "~1"));
                if declared(&inner) {
                    pointers(member, &inner, found);
                }
            }
        }
        Value::Array(elements) => {
            found.push(at.to_owned());
            elements
                .iter()
                .enumerate()
                .for_each(|(index, element)| pointers(element, &format!("{at}/{index}"), found));
        }
        _ => found.push(at.to_owned()),
    }
}

/// The object with one value edited.
fn edited(live: &Value, pointer: &str) -> Value {
    let mut live = live.clone();
    let value = live.pointer_mut(pointer).unwrap();
    match value {
        Value::Array(elements) => elements.reverse(),
        Value::String(text) => text.push('x'),
        Value::Number(number) => {
            *value = number.as_i64().map_or_else(|| 1.25.into(), |number| (number + 1).into());
        }
        Value::Bool(set) => *set = !*set,
        _ => {}
    }
    live
}

/// The object without a field or list element.
fn removed(live: &Value, pointer: &str) -> Value {
    let mut live = live.clone();
    let (outer, name) = pointer.rsplit_once('/').unwrap();
    match live.pointer_mut(outer).unwrap() {
        Value::Array(elements) => drop(elements.remove(name.parse().unwrap())),
        Value::Object(members) => drop(members.remove(&name.replace("~1", "/"))),
        _ => {}
    }
    live
}

/// The paths that differ, without keys of list elements, which may be redacted.
fn found(comparison: &Comparison) -> Vec<String> {
    assert!(!comparison.unknown_key);
    let path = |path: &str| {
        path.split('[').map(|part| part.rsplit(']').next().unwrap()).collect::<Vec<_>>().join("[]")
    };
    let mut found: Vec<String> = comparison.findings.iter().map(|found| path(found.path.as_str())).collect();
    found.sort();
    found
}

/// The object as cached: redacted with these keys.
fn redacted(declared: &DeclaredObject, keys: &[RedactionKey], live: &Value) -> Document {
    let mut policy = RedactionPolicy::new(keys[0].clone());
    keys.iter().for_each(|key| policy.add_key(key));
    policy.add_fields(&declared.object, sensitive_fields(declared));
    let mut live = live.clone();
    live["metadata"]["name"] = (&*declared.object.name).into();
    live["metadata"]["namespace"] = (&*declared.object.namespace).into();
    pack_live_object(live, &kind_of(declared), &policy)
}

/// Whether a JSON pointer is inside a redacted field.
fn is_redacted(fields: &[Box<str>], pointer: &str) -> bool {
    let names = pointer.split('/').skip(1).filter(|name| name.parse::<usize>().is_err());
    let pointer = names.map(|name| name.replace("~1", "/")).collect::<Vec<_>>().join(".");
    fields.iter().any(|field| is_within(&pointer, field))
}

fn check_case(case: &Case) -> usize {
    let sensitive_paths = case.sensitive_paths();
    let mut all_places = Vec::new();
    pointers(&case.live, "", &mut all_places);
    let plain = case.declared(None, &key(1));
    // The expected diff: nothing is redacted but by resource type.
    let expected = |live: &Value| found(&diff(&plain, live));
    let edits: Vec<Value> = all_places
        .iter()
        .flat_map(|pointer| [edited(&case.live, pointer), removed(&case.live, pointer)])
        .chain([case.live.clone()])
        .collect();
    let all_expected: Vec<Vec<String>> = edits.iter().map(expected).collect();
    let (mut count, published) = (0, case.declared(None, &key(2)));
    for (number, mark) in sensitive_paths.iter().enumerate() {
        let declared = case.declared(Some(mark), &key(1));
        let fields = sensitive_fields(&declared);
        let touched = all_places.iter().flat_map(|pointer| [is_redacted(&fields, pointer); 2]).chain([true]);
        let (touched, other_resources): (Vec<_>, Vec<_>) =
            edits.iter().zip(&all_expected).zip(touched).partition(|(_, touched)| *touched);
        // A sample: values under a broad path have a path of their own too.
        let some = touched.iter().skip(number % 3).step_by(1 + touched.len() / 6);
        let some =
            some.chain(other_resources.get(number % other_resources.len().max(1))).chain(touched.last());
        for ((live, expected), _) in some {
            let redacted = redacted(&declared, &[key(1), key(2)], live);
            let context = || format!("{} {mark:?} -> {fields:?}: {live}", case.resource_type);
            assert_eq!(
                found(&compare(&declared, &redacted, &Schemas::default())),
                **expected,
                "{}",
                context()
            );
            assert_eq!(
                found(&compare(&published, &redacted, &Schemas::default())),
                **expected,
                "another baseline, {}",
                context()
            );
            count += 1;
        }
    }
    count
}

/// The object with a unique string in every string field, and these strings by JSON pointer.
fn planted(live: &Value) -> (Value, Vec<(String, String)>) {
    let (mut live, mut all_places, mut planted) = (live.clone(), Vec::new(), Vec::new());
    pointers(&live, "", &mut all_places);
    for (number, pointer) in all_places.into_iter().enumerate() {
        let value = live.pointer_mut(&pointer).unwrap();
        if value.is_string() {
            let canary = format!("kanarie-{number}.");
            *value = canary.as_str().into();
            planted.push((pointer, canary));
        }
    }
    (live, planted)
}

#[test]
fn only_sensitive_paths_are_redacted() {
    let mut found_by_attribute = 0;
    for case in real_cases().iter().chain(&edge_cases()) {
        let (live, planted) = planted(&case.live);
        // Every string differs now, so the diff names the attribute of each field.
        let differs = diff(&case.declared(None, &key(1)), &live);
        for mark in case.sensitive_paths() {
            let declared = case.declared(Some(&mark), &key(1));
            let fields = sensitive_fields(&declared);
            let context = format!("{} {mark:?} -> {fields:?}", case.resource_type);
            let is_secret = &*declared.object.kind == "Secret";
            let text = unpack(&redacted(&declared, &[key(1), key(2)], &live).packed).to_string();
            for (pointer, canary) in &planted {
                let always =
                    ["/data/", "/metadata/annotations/"].iter().any(|always| pointer.starts_with(always));
                let redacted = is_secret && always || is_redacted(&fields, pointer);
                assert_eq!(text.contains(canary), !redacted, "{context}: {pointer}");
            }
            let sensitive_path = mark.join(".");
            let sensitive_path = sensitive_path
                .strip_prefix("manifest")
                .map_or(&*sensitive_path, |inner| inner.trim_start_matches('.'));
            for (found, attribute) in differs.findings.iter().zip(&differs.attributes) {
                if let FieldValue::Text(actual) = &found.actual
                    && is_within(attribute, sensitive_path)
                    && actual.starts_with("kanarie-")
                {
                    assert!(!text.contains(&**actual), "{context}: {attribute}");
                    found_by_attribute += 1;
                }
            }
        }
    }
    assert!(found_by_attribute > 500, "{found_by_attribute}");
}

/// Prints counts: `cargo test --test it sensitive_paths_do_not_change -- --nocapture`.
#[test]
#[expect(clippy::print_stdout, reason = "prints counts")]
fn sensitive_paths_do_not_change_the_diff() {
    for case in real_cases().iter().chain(&edge_cases()) {
        println!("{}: {} comparisons", case.resource_type, check_case(case));
    }
}
