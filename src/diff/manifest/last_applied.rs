//! The `last-applied-configuration` annotation of kubectl as a baseline.

use super::normalize;
use crate::{
    diff::{
        document::{pack, to_json},
        redaction::{LAST_APPLIED, is_secret},
        tree::Node,
    },
    types::{
        DeclaredBody, DeclaredObject, Kind, LastApplied, ObjectKey, ObjectRef, RedactionKey, UnknownReason,
    },
};

/// The manifest in the annotation of an object. [`None`] without the annotation, and for Secrets, whose annotation contains
/// their values.
pub fn last_applied(object: &Node, object_key: &ObjectKey, key: &RedactionKey) -> Option<LastApplied> {
    let Kind { group, kind, .. } = &*object_key.kind;
    if is_secret(group, kind) {
        return None;
    }
    let text = object["metadata"]["annotations"].get(LAST_APPLIED)?;
    let document = text.as_str().and_then(|text| serde_json::from_str::<Node>(text).ok());
    let (version, body) = match document {
        Some(mut document) if declares(&document, object_key) => {
            let api_version = document["apiVersion"].as_str().unwrap_or_default();
            let version: Box<str> = api_version.rsplit('/').next().unwrap_or_default().into();
            normalize(&mut document, key);
            (version, DeclaredBody::Subset(pack(&document)))
        }
        Some(_) | None => {
            (object_key.kind.version.clone(), DeclaredBody::Opaque(UnknownReason::UnreadableBaseline))
        }
    };
    let declared = opaque_or_subset(object_key, &version, body, key);
    Some(LastApplied { declared, rest: hash_of_rest(object, key) })
}

/// The baseline of an object that has the annotation and cannot be decoded.
pub fn unreadable_last_applied(object_key: &ObjectKey, key: &RedactionKey) -> Option<LastApplied> {
    let Kind { group, version, kind, .. } = &*object_key.kind;
    let body = DeclaredBody::Opaque(UnknownReason::Unreadable);
    let declared = opaque_or_subset(object_key, version, body, key);
    (!is_secret(group, kind)).then_some(LastApplied { declared, rest: 0 })
}

fn opaque_or_subset(
    object_key: &ObjectKey,
    version: &str,
    body: DeclaredBody,
    key: &RedactionKey,
) -> DeclaredObject {
    let Kind { group, kind, .. } = &*object_key.kind;
    let object = ObjectRef::new(group, version, kind, &object_key.namespace, &object_key.name);
    DeclaredObject::new(kind, object, key.clone(), body)
}

/// Whether a manifest declares this object: a copied annotation declares another one. The API server ignores the namespace
/// of a cluster-scoped kind.
fn declares(document: &Node, object_key: &ObjectKey) -> bool {
    let group = document["apiVersion"].as_str().and_then(|version| version.rsplit_once('/'));
    let metadata = &document["metadata"];
    let namespace = metadata["namespace"].as_str().filter(|_| object_key.kind.namespaced);
    group.map_or("", |(group, _)| group) == &*object_key.kind.group
        && document["kind"] == &*object_key.kind.kind
        && metadata["name"] == object_key.name.as_str()
        && namespace.is_none_or(|namespace| namespace == &*object_key.namespace)
}

/// A hash of the object without the annotation: it is unchanged if an update changed the annotation alone.
fn hash_of_rest(object: &Node, key: &RedactionKey) -> u64 {
    let mut rest = object.clone();
    if let Some(members) = rest.as_object_mut() {
        members.remove("status");
    }
    if let Some(metadata) = rest.get_mut("metadata").and_then(Node::as_object_mut) {
        metadata
            .retain(|name, _| !["managedFields", "resourceVersion", "generation"].contains(&name.as_str()));
        if let Some(Node::Object(annotations)) = metadata.get_mut("annotations") {
            annotations.remove(LAST_APPLIED);
        }
    }
    key.short_digest(&to_json(&rest))
}
