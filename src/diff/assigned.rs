//! Values that the API server assigns by itself: no one declared them, so they are never drift.

use serde_json::Value;

use crate::types::Kind;

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
