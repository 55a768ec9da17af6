//! Fields by their path: their class, and their value in an object.

use super::tree::Node;
use crate::types::{FieldClass, FieldPath, Segment};

/// The class of the field at `path`, for objects of any kind.
pub fn class_of(path: &FieldPath) -> FieldClass {
    let fields: Vec<&str> = path.field_names().collect();
    if let ["rules" | "subjects" | "roleRef" | "aggregationRule", ..] = *fields.as_slice() {
        return FieldClass::Rbac;
    }
    if let ["data" | "binaryData" | "stringData", ..] = *fields.as_slice() {
        return FieldClass::Data;
    }
    // The outermost classified name decides: a port in a probe belongs to the probe.
    fields.iter().find_map(|name| class_of_name(name)).unwrap_or(FieldClass::Other)
}

fn class_of_name(name: &str) -> Option<FieldClass> {
    Some(match name {
        "replicas" | "minReplicas" | "maxReplicas" => FieldClass::Replicas,
        "image" | "imagePullPolicy" => FieldClass::Image,
        "env" | "envFrom" => FieldClass::Env,
        "resources" | "hard" | "limits" => FieldClass::Resources,
        "ports" => FieldClass::Ports,
        "selector" | "podSelector" | "labelSelector" | "namespaceSelector" => FieldClass::Selector,
        "labels" => FieldClass::Labels,
        "annotations" => FieldClass::Annotations,
        "securityContext"
        | "hostNetwork"
        | "hostPID"
        | "hostIPC"
        | "serviceAccountName"
        | "automountServiceAccountToken"
        | "shareProcessNamespace"
        | "runtimeClassName" => FieldClass::Security,
        "livenessProbe" | "readinessProbe" | "startupProbe" => FieldClass::Probes,
        "volumes" | "volumeMounts" | "volumeDevices" | "volumeClaimTemplates" => FieldClass::Volumes,
        _ => return None,
    })
}

/// The value at a path. If several elements have the same keys, it is in the first.
pub fn value_at<'a>(object: &'a Node, path: &FieldPath) -> Option<&'a Node> {
    path.segments().iter().try_fold(object, |at, segment| match segment {
        Segment::Field(name) => at.get(name.as_str()),
        Segment::Index(index) => at.as_array()?.get(*index),
        Segment::Value(value) => at.as_array()?.iter().find(|element| is_scalar(element, value)),
        Segment::Element(keys) => at.as_array()?.iter().find(|element| {
            keys.iter()
                .all(|(key, value)| element.get(key.as_str()).is_some_and(|member| is_scalar(member, value)))
        }),
    })
}

fn is_scalar(value: &Node, text: &str) -> bool {
    match value {
        Node::String(string) => string == text,
        Node::Number(number) => number.to_string() == *text,
        Node::Bool(bool) => text.parse() == Ok(*bool),
        Node::Null | Node::Redacted(_) | Node::Array(_) | Node::Object(_) => false,
    }
}
