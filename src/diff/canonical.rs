//! The canonical document of an object, which `jcs-v1` hashes: it contains only what a manifest can declare.

use super::{
    quantity::Quantity,
    tree::{Members, Node},
};
use crate::types::Kind;

/// Removes the status, all metadata except labels and annotations, labels and annotations with `prefix` or of Kubernetes, and
/// empty and server-assigned values. Writes quantities in canonical form.
pub(super) fn canonical_document(document: Node, kind: &Kind, prefix: &str) -> Node {
    let Node::Object(mut members) = document else {
        return document;
    };
    members.remove("status");
    // The items of a list response have neither.
    members.insert("apiVersion".to_owned(), Node::String(kind.api_version()));
    members.insert("kind".to_owned(), Node::from(&*kind.kind));
    let metadata = members.remove("metadata").map(|metadata| declared_metadata(metadata, prefix));
    if let Some(metadata) = metadata {
        members.insert("metadata".to_owned(), metadata);
    }
    let mut document = Node::Object(members);
    remove_assigned(&mut document, kind);
    prune_and_canonicalize(&mut document);
    document
}

/// A copy of the members from which [`canonical_document`] is made.
pub(super) fn declared_members(object: &Node) -> Node {
    let Node::Object(members) = object else { return object.clone() };
    let copy = |name: &str, member: &Node| match name {
        "metadata" => ["labels", "annotations"]
            .iter()
            .filter_map(|part| Some(((*part).to_owned(), member.get(part)?.clone())))
            .collect(),
        _ => member.clone(),
    };
    let declared = members.iter().filter(|(name, _)| *name != "status");
    declared.map(|(name, member)| (name.clone(), copy(name, member))).collect()
}

fn declared_metadata(metadata: Node, prefix: &str) -> Node {
    let Node::Object(mut metadata) = metadata else {
        return Node::Null;
    };
    let mut declared = Members::new();
    for part in ["labels", "annotations"] {
        if let Some(Node::Object(mut pairs)) = metadata.remove(part) {
            pairs.retain(|key, _| is_declared_key(key, prefix));
            declared.insert(part.to_owned(), Node::Object(pairs));
        }
    }
    Node::Object(declared)
}

/// Whether a label or annotation may be part of a manifest: keys under `kubernetes.io` belong to Kubernetes, those under
/// `prefix` to this exporter.
pub fn is_declared_key(key: &str, prefix: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    domain != prefix && domain != "kubernetes.io" && !domain.ends_with(".kubernetes.io")
}

/// Fields, at any path, whose value is a map of quantities.
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
/// Fields, at any path, that are quantities.
const QUANTITIES: &[&str] = &["sizeLimit", "divisor", "averageValue"];

/// Prunes empty values from the leaves up, and writes quantities in canonical form.
fn prune_and_canonicalize(value: &mut Node) {
    match value {
        Node::Object(members) => {
            for (name, member) in members.iter_mut() {
                if QUANTITIES.contains(&name.as_str()) {
                    canonicalize_quantity(member);
                } else if let (true, Node::Object(quantities)) =
                    (QUANTITY_MAPS.contains(&name.as_str()), &mut *member)
                {
                    quantities.values_mut().for_each(canonicalize_quantity);
                }
                prune_and_canonicalize(member);
            }
            members.retain(|_, member| !member.is_empty());
        }
        // An empty list element has a meaning: `egress: [{}]` allows all traffic.
        Node::Array(elements) => elements.iter_mut().for_each(prune_and_canonicalize),
        Node::Null | Node::Bool(_) | Node::Number(_) | Node::String(_) | Node::Redacted(_) => {}
    }
}

fn canonicalize_quantity(value: &mut Node) {
    let text = match value {
        Node::String(text) => text.clone(),
        Node::Number(number) => number.to_string(),
        Node::Null | Node::Bool(_) | Node::Redacted(_) | Node::Array(_) | Node::Object(_) => return,
    };
    if let Ok(quantity) = Quantity::parse(text.trim()) {
        *value = Node::String(quantity.to_string());
    }
}

/// Removes fields that the API server assigns: they are never drift.
fn remove_assigned(document: &mut Node, kind: &Kind) {
    for (group, name, paths) in ASSIGNED {
        if *group == &*kind.group && *name == &*kind.kind {
            paths.iter().for_each(|path| remove(document, path));
        }
    }
}

/// `*` is every element of a list.
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

fn remove(value: &mut Node, path: &[&str]) {
    match (path, value) {
        ([last], Node::Object(members))
            // `clusterIP: None` declares a headless Service; the server never assigns it.
            if members.get(*last).and_then(Node::as_str) != Some("None") => {
                members.remove(*last);
            }
        (["*", rest @ ..], Node::Array(elements)) => {
            elements.iter_mut().for_each(|element| remove(element, rest));
        }
        ([first, rest @ ..], Node::Object(members)) => {
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

    use super::{Node, canonical_document, declared_members};
    use crate::types::Kind;

    #[track_caller]
    fn check(kind: &Kind, object: Value, canonical: &Value) {
        let object = Node::from(object);
        for document in [declared_members(&object), object] {
            assert_eq!(canonical_document(document, kind, "tfdrift.jin.dev"), Node::from(canonical.clone()));
        }
    }

    #[test]
    fn status_and_server_metadata_are_removed() {
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
    fn empty_values_are_pruned_except_list_elements() {
        check(
            &Kind::service(),
            json!({"metadata": {}, "spec": {"a": null, "b": "", "c": [], "d": {"e": {}}, "f": [{}, ""], "g": 0, "h": false}}),
            &json!({"apiVersion": "v1", "kind": "Service", "spec": {"f": [{}, ""], "g": 0, "h": false}}),
        );
    }

    #[test]
    fn quantities_are_canonical() {
        check(
            &Kind::deployment(),
            json!({"spec": {"x": [{"resources": {"limits": {"cpu": 0.5, "memory": "1024Mi"}}}], "sizeLimit": "2048Ki",
                "divisor": 0.001, "averageValue": "1000m"}}),
            &json!({"apiVersion": "apps/v1", "kind": "Deployment",
                "spec": {"x": [{"resources": {"limits": {"cpu": "500m", "memory": "1Gi"}}}], "sizeLimit": "2Mi",
                    "divisor": "1m", "averageValue": "1"}}),
        );
    }

    #[test]
    fn assigned_addresses_and_ports_are_removed_except_a_headless_cluster_ip() {
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
