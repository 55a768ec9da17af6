//! The `last-applied-configuration` annotation of kubectl as a baseline.

use super::normalize;
use crate::{
    diff::{
        document::pack,
        json_part::JsonPart,
        redaction::{LAST_APPLIED, is_secret},
        tree::Node,
    },
    types::{DeclaredBody, DeclaredObject, Kind, ObjectKey, ObjectRef, RedactionKey, UnknownReason},
};

/// The manifest in the annotation of an object. [`None`] without the annotation, and for Secrets, whose annotation contains
/// their values.
pub fn last_applied(object: &Node, object_key: &ObjectKey, key: &RedactionKey) -> Option<DeclaredObject> {
    if is_secret(object_key.kind.group_kind()) {
        return None;
    }
    let text = object["metadata"]["annotations"].get(LAST_APPLIED)?;
    let key = key.of_namespace(&object_key.namespace);
    let document = text.as_str().and_then(|text| JsonPart::Text(text).read::<Node>().ok());
    let (version, body) = match document {
        Some(mut document) if declares(&document, object_key) => {
            let api_version = document["apiVersion"].as_str().unwrap_or_default();
            let version: Box<str> = api_version.rsplit('/').next().unwrap_or_default().into();
            normalize(&mut document, &key);
            (version, DeclaredBody::Subset(pack(&document)))
        }
        Some(_) | None => {
            (object_key.kind.version.clone(), DeclaredBody::Opaque(UnknownReason::UnreadableBaseline))
        }
    };
    Some(opaque_or_subset(object_key, &version, body, key))
}

/// The baseline of an object that has the annotation and cannot be decoded.
pub fn unreadable_last_applied(object_key: &ObjectKey, key: &RedactionKey) -> Option<DeclaredObject> {
    let body = DeclaredBody::Opaque(UnknownReason::Unreadable);
    let (kind, key) = (&object_key.kind, key.of_namespace(&object_key.namespace));
    (!is_secret(kind.group_kind())).then(|| opaque_or_subset(object_key, &kind.version, body, key))
}

fn opaque_or_subset(
    object_key: &ObjectKey,
    version: &str,
    body: DeclaredBody,
    key: RedactionKey,
) -> DeclaredObject {
    let Kind { group, kind, .. } = &*object_key.kind;
    let object = ObjectRef::new(group, version, kind, &object_key.namespace, &object_key.name);
    DeclaredObject::new(kind, object, key, body)
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
