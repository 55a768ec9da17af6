//! Which lists are keyed, and what an object has before anything is set.

use serde_json::{Value, json};

/// How the elements of a list are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListType {
    /// They are not: the list is one value.
    Atomic,
    /// By their value.
    Set,
    /// By these fields: all of them for ownership, the first for strategic merges.
    Keyed(&'static [&'static str]),
}

/// The type of a list, from its own name and the name of what it is in.
pub(super) fn list_type(parent: &str, field: &str) -> ListType {
    match (parent, field) {
        (_, "finalizers") => ListType::Set,
        ("", "secrets") => ListType::Keyed(&["name"]),
        (_, "containers" | "initContainers" | "env" | "volumes" | "imagePullSecrets") => {
            ListType::Keyed(&["name"])
        }
        ("spec", "ports") => ListType::Keyed(&["port", "protocol"]),
        (_, "ports") => ListType::Keyed(&["containerPort", "protocol"]),
        (_, "volumeMounts") => ListType::Keyed(&["mountPath"]),
        (_, "volumeDevices") => ListType::Keyed(&["devicePath"]),
        (_, "hostAliases") => ListType::Keyed(&["ip"]),
        (_, "topologySpreadConstraints") => ListType::Keyed(&["topologyKey", "whenUnsatisfiable"]),
        (_, "conditions") => ListType::Keyed(&["type"]),
        (_, "ownerReferences") => ListType::Keyed(&["uid"]),
        _ => ListType::Atomic,
    }
}

/// Whether a map is owned as a whole, from its own name, which is empty for an element, and the name of what it is in.
pub(super) fn is_atomic_map(parent: &str, field: &str) -> bool {
    let element = parent == "secrets" && field.is_empty();
    element
        || matches!(
            field,
            "selector"
                | "nodeSelector"
                | "labelSelector"
                | "podSelector"
                | "fieldRef"
                | "resourceFieldRef"
                | "configMapKeyRef"
                | "secretKeyRef"
        )
}

/// What an object has before anything is set: nobody owns these.
pub(super) fn skeleton(kind: &str) -> Value {
    match kind {
        "Deployment" => json!({
            "metadata": {},
            "spec": {"strategy": {}, "template": {"metadata": {}, "spec": {"containers": []}}},
            "status": {},
        }),
        "Service" | "Ingress" => json!({"metadata": {}, "spec": {}, "status": {"loadBalancer": {}}}),
        "HorizontalPodAutoscaler" => {
            let status = json!({"currentMetrics": null, "desiredReplicas": 0});
            json!({"metadata": {}, "spec": {"scaleTargetRef": {}}, "status": status})
        }
        "NetworkPolicy" => json!({"metadata": {}, "spec": {"podSelector": {}}}),
        "Lease" => json!({"metadata": {}, "spec": {}}),
        "ConfigMap" | "Secret" | "ServiceAccount" => json!({"metadata": {}}),
        _ => json!({"metadata": {}, "spec": {}, "status": {}}),
    }
}
