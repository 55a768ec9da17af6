//! What is kept of a document that somebody declares.

use serde_json::{Map, Value};

use crate::{
    diff::secrets::{LAST_APPLIED, seal_live},
    types::RedactionKey,
};

/// Metadata that says which object it is, or that the server writes by itself.
pub(in crate::diff) const NOT_DECLARED: &[&str] = &[
    "name",
    "namespace",
    "generateName",
    "uid",
    "creationTimestamp",
    "resourceVersion",
    "generation",
    "selfLink",
    "managedFields",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// Annotations that kubectl and controllers write by themselves.
const NOT_DECLARED_ANNOTATIONS: &[&str] =
    &[LAST_APPLIED, "deployment.kubernetes.io/revision", "deprecated.daemonset.template.generation"];

/// Leaves of a document what it declares, and of a Secret's values only digests.
///
/// What is null is not declared: the server fills it, or leaves it out.
pub fn prepare(document: &mut Value, key: &RedactionKey) {
    let Value::Object(members) = document else {
        *document = Value::Null;
        return;
    };
    members.remove("status");
    if let Some(Value::Object(metadata)) = members.get_mut("metadata") {
        metadata.retain(|name, _| !NOT_DECLARED.contains(&name.as_str()));
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            annotations.retain(|name, _| !NOT_DECLARED_ANNOTATIONS.contains(&name.as_str()));
        }
    }
    let (group, kind) = group_and_kind(members);
    let (group, kind) = (group.to_owned(), kind.to_owned());
    drop_nulls(document);
    seal_live(document, &group, &kind, std::slice::from_ref(key));
}

/// The group and the kind that a document says it is of.
pub(super) fn group_and_kind(document: &Map<String, Value>) -> (&str, &str) {
    let text = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default();
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    (group, text("kind"))
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(drop_nulls),
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
