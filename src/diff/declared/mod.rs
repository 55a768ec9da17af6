//! Comparing what somebody wrote down with the live object, as the API server would have stored it.
//!
//! Charts, manifests and what kubectl applied declare a subset of an object: only what they declare is compared. What the
//! server makes of that is data ([`Schemas`]): which fields are amounts, bytes or times, by what elements of lists are known, what
//! becomes of empty values. Elements that are added to declared lists are drift, fields that are added elsewhere are not.

mod compare;
mod last_applied;
mod openapi;
#[cfg(test)]
mod properties;
mod schema;

use serde_json::{Map, Value};

use self::{compare::compare_members, schema::FieldType};
pub(super) use self::{
    compare::{KEYS, guessed_keys, is_amount, keys_or_digests_of, known_keys, name_of, segment},
    schema::Place,
};
pub use self::{
    last_applied::{applied, applied_unreadably},
    schema::{ClusterSchemas, CustomKind, Schemas},
};
use super::{
    findings::Findings,
    ownership::Owners,
    redaction::{LAST_APPLIED, seal_live, sealed},
};
use crate::types::{Finding, RedactionKey};

/// What a declared document and a live object have to say about each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// The fields that differ.
    pub findings: Vec<Finding>,
    /// Whether some values of the live object are sealed, and not with the key of what is declared. They are not in the
    /// findings: nothing can be said about them before the object is read again.
    pub other_key: bool,
}

/// Compares an object with a document that was prepared with this key.
///
/// The kinds of Kubernetes itself are known; `shapes` are those of the cluster's own kinds, as far as they were read.
pub fn compare(declared: &Value, live: &Value, shapes: &Schemas, key: &RedactionKey) -> Comparison {
    let (group, kind) = declared.as_object().map_or(("", ""), group_and_kind);
    let live = &*sealed(live, group, kind, key);
    let owners = Owners::of(live);
    let mut findings = Findings::new(&owners, key, &[]);
    compare_document(declared, live, shapes, &mut findings);
    let other_key = findings.has_other_key();
    Comparison { findings: findings.finish().0, other_key }
}

/// The same, for whoever has findings already.
pub(super) fn compare_document<'a>(
    declared: &'a Value,
    live: &'a Value,
    shapes: &'a Schemas,
    findings: &mut Findings<'a>,
) {
    let Value::Object(members) = declared else {
        return;
    };
    let place = place_of(declared, shapes);
    let is_content = |name: &str| !["apiVersion", "kind", "metadata", "status"].contains(&name);
    compare_members(place, members, live.as_object(), is_content, findings);
    if let Some(Value::Object(metadata)) = members.get("metadata") {
        let place = Place::new(Schemas::built_in(), Schemas::metadata());
        let is_declared = |name: &str| !NOT_DECLARED.contains(&name);
        findings.within("metadata", "metadata", |findings| {
            compare_members(place, metadata, live["metadata"].as_object(), is_declared, findings);
        });
    }
}

/// The whole of an object of a kind of the cluster's own. Of the kinds of Kubernetes it knows nothing.
pub(super) fn own_place<'a>(declared: &Value, shapes: &'a Schemas) -> Place<'a> {
    let text = |name: &str| declared[name].as_str().unwrap_or_default();
    Place::new(shapes, shapes.kind(text("apiVersion"), text("kind")).unwrap_or(&FieldType::Unknown))
}

fn place_of<'a>(declared: &Value, shapes: &'a Schemas) -> Place<'a> {
    let text = |name: &str| declared[name].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let known = [Schemas::built_in(), shapes]
        .into_iter()
        .find_map(|shapes| Some(Place::new(shapes, shapes.kind(api_version, kind)?)));
    known.unwrap_or_else(|| Place::new(shapes, &FieldType::Unknown))
}

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
