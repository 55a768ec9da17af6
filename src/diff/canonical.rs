//! The canonical document: an object without what says nothing about what was declared.
//!
//! Values that the API server assigns by itself: no one declared them, so they are never drift.

use serde_json::{Map, Value};

use super::quantity::Quantity;
use crate::types::Kind;

/// Reduces an object to what a baseline can declare: no status, of the metadata only labels and annotations (without
/// `prefix` and those that Kubernetes writes), no empty and no assigned values, quantities in canonical form.
pub(super) fn canonical_document(document: Value, kind: &Kind, prefix: &str) -> Value {
    let Value::Object(mut members) = document else {
        return document;
    };
    members.remove("status");
    // Items of a list carry neither; an object of its own carries both.
    members.insert("apiVersion".to_owned(), kind.api_version().into());
    members.insert("kind".to_owned(), Value::from(&*kind.kind));
    let metadata = members.remove("metadata").map(|metadata| declared_metadata(metadata, prefix));
    if let Some(metadata) = metadata {
        members.insert("metadata".to_owned(), metadata);
    }
    let mut document = Value::Object(members);
    remove_assigned(&mut document, kind);
    normalise(&mut document);
    document
}

fn declared_metadata(metadata: Value, prefix: &str) -> Value {
    let Value::Object(mut metadata) = metadata else {
        return Value::Null;
    };
    let mut kept = Map::new();
    for part in ["labels", "annotations"] {
        if let Some(Value::Object(mut pairs)) = metadata.remove(part) {
            pairs.retain(|key, _| is_declared_key(key, prefix));
            kept.insert(part.to_owned(), Value::Object(pairs));
        }
    }
    Value::Object(kept)
}

/// Labels and annotations under `kubernetes.io` belong to Kubernetes, those under our prefix to us.
pub fn is_declared_key(key: &str, prefix: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    domain != prefix && domain != "kubernetes.io" && !domain.ends_with(".kubernetes.io")
}

/// Maps whose values are quantities, wherever they stand.
const QUANTITY_MAPS: &[&str] = &[
    "limits",
    "requests",
    "hard",
    "capacity",
    "overhead",
    "min",
    "max",
    "default",
    "defaultRequest",
    "maxLimitRequestRatio",
];
/// Fields that are quantities themselves.
const QUANTITIES: &[&str] = &["sizeLimit", "divisor", "averageValue"];

/// Prunes empty values and writes quantities in one way, from the leaves up.
fn normalise(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                if QUANTITIES.contains(&name.as_str()) {
                    canonical_quantity(member);
                } else if let (true, Value::Object(amounts)) =
                    (QUANTITY_MAPS.contains(&name.as_str()), &mut *member)
                {
                    amounts.values_mut().for_each(canonical_quantity);
                }
                normalise(member);
            }
            members.retain(|_, member| !is_empty(member));
        }
        // An empty element of a list means something (`egress: [{}]` allows all): elements stay.
        Value::Array(elements) => elements.iter_mut().for_each(normalise),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn canonical_quantity(value: &mut Value) {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return,
    };
    if let Ok(quantity) = Quantity::parse(text.trim()) {
        *value = quantity.to_string().into();
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Removes from a document what the server assigned. `*` stands for every element of a list.
pub(super) fn remove_assigned(document: &mut Value, kind: &Kind) {
    for (group, name, paths) in ASSIGNED {
        if *group == &*kind.group && *name == &*kind.kind {
            paths.iter().for_each(|path| remove(document, path));
        }
    }
}

type Path = &'static [&'static str];

const ASSIGNED: &[(&str, &str, &[Path])] = &[
    (
        "",
        "Service",
        &[
            &["spec", "clusterIP"],
            &["spec", "clusterIPs"],
            &["spec", "ipFamilies"],
            &["spec", "healthCheckNodePort"],
            &["spec", "ports", "*", "nodePort"],
        ],
    ),
    ("", "PersistentVolumeClaim", &[&["spec", "volumeName"]]),
    ("", "PersistentVolume", &[&["spec", "claimRef"]]),
    ("", "Namespace", &[&["spec", "finalizers"]]),
    ("", "ServiceAccount", &[&["secrets"]]),
    ("", "Pod", &[&["spec", "nodeName"]]),
    (
        "batch",
        "Job",
        &[
            &["spec", "selector"],
            &["spec", "template", "metadata", "labels", "controller-uid"],
            &["spec", "template", "metadata", "labels", "batch.kubernetes.io/controller-uid"],
            &["spec", "template", "metadata", "labels", "job-name"],
            &["spec", "template", "metadata", "labels", "batch.kubernetes.io/job-name"],
        ],
    ),
];

fn remove(value: &mut Value, path: &[&str]) {
    match (path, value) {
        ([last], Value::Object(members))
            // A Service without an address says so itself: `clusterIP: None` is declared, never assigned.
            if members.get(*last).and_then(Value::as_str) != Some("None") => {
                members.remove(*last);
            }
        (["*", rest @ ..], Value::Array(elements)) => {
            elements.iter_mut().for_each(|element| remove(element, rest));
        }
        ([first, rest @ ..], Value::Object(members)) => {
            if let Some(member) = members.get_mut(*first) {
                remove(member, rest);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::canonical_document;
    use crate::types::Kind;

    #[track_caller]
    fn check(kind: &Kind, object: Value, canonical: &Value) {
        assert_eq!(canonical_document(object, kind, "tfdrift.jin.dev"), *canonical);
    }

    #[test]
    fn status_and_the_servers_metadata_are_left_out() {
        check(
            &Kind::deployment(),
            json!({"metadata": {"name": "web", "uid": "1", "managedFields": [],
            "labels": {"app": "web", "app.kubernetes.io/name": "web"},
            "annotations": {"tfdrift.jin.dev/spec-hash": "x", "team": "shop",
                "kubectl.kubernetes.io/last-applied-configuration": "{}", "deployment.kubernetes.io/revision": "3"}},
            "spec": {"replicas": 2}, "status": {"replicas": 2}}),
            &json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 2},
            "metadata": {"labels": {"app": "web"}, "annotations": {"team": "shop"}}}),
        );
    }

    #[test]
    fn empty_values_are_pruned_but_list_elements_stay() {
        check(
            &Kind::service(),
            json!({"metadata": {}, "spec": {"a": null, "b": "", "c": [], "d": {"e": {}}, "f": [{}, ""], "g": 0, "h": false}}),
            &json!({"apiVersion": "v1", "kind": "Service", "spec": {"f": [{}, ""], "g": 0, "h": false}}),
        );
    }

    #[test]
    fn quantities_are_equal_by_value() {
        check(
            &Kind::deployment(),
            json!({"spec": {"x": [{"resources": {"limits": {"cpu": 0.5, "memory": "1024Mi"}}}], "sizeLimit": "2048Ki"}}),
            &json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "spec": {"x": [{"resources": {"limits": {"cpu": "500m", "memory": "1Gi"}}}], "sizeLimit": "2Mi"}}),
        );
    }

    #[test]
    fn assigned_addresses_and_ports_are_left_out_but_a_headless_service_is_not_an_address() {
        check(
            &Kind::service(),
            json!({"spec": {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ports": [{"port": 80, "nodePort": 30001}]}}),
            &json!({"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}]}}),
        );
        check(
            &Kind::service(),
            json!({"spec": {"clusterIP": "None", "clusterIPs": ["None"]}}),
            &json!({"apiVersion": "v1", "kind": "Service", "spec": {"clusterIP": "None"}}),
        );
    }
}
