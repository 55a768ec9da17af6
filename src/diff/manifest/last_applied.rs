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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{
        DeclaredBody, Kind, LAST_APPLIED, Node, ObjectKey, RedactionKey, UnknownReason, last_applied,
    };
    use crate::diff::unpack;

    fn object(annotation: &Value, replicas: i64) -> Node {
        Node::from(
            json!({"metadata": {"name": "web", "namespace": "shop", "annotations": {LAST_APPLIED: annotation, "a": "b"}},
            "spec": {"replicas": replicas}, "status": {}}),
        )
    }

    fn object_key(kind: Kind) -> ObjectKey {
        ObjectKey::new(kind, "shop", "web")
    }

    fn read(annotation: &Value) -> DeclaredBody {
        let key = RedactionKey::new([1; 32]);
        last_applied(&object(annotation, 1), &object_key(Kind::deployment()), &key).unwrap().declared.body
    }

    #[test]
    fn manifest_is_read_without_nulls() {
        let text = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop"},"spec":{"replicas":3,"paused":null}}"#;
        let DeclaredBody::Subset(packed) = read(&json!(text)) else { panic!("the manifest is valid") };
        assert_eq!(unpack(&packed)["spec"], Node::from(json!({"replicas": 3})));
    }

    #[test]
    fn invalid_json_and_manifest_of_another_object_are_unreadable() {
        let other = |name: &str, kind: &str, namespace: &str| {
            json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}})
                .to_string()
        };
        for text in [
            json!("not JSON"),
            json!(7),
            json!("[]"),
            json!(other("api", "Deployment", "shop")),
            json!(other("web", "StatefulSet", "shop")),
            json!(other("web", "Deployment", "ops")),
        ] {
            assert_eq!(read(&text), DeclaredBody::Opaque(UnknownReason::UnreadableBaseline), "{text}");
        }
    }

    #[test]
    fn secrets_have_no_baseline_and_the_annotation_is_not_part_of_the_rest() {
        let key = RedactionKey::new([1; 32]);
        let deployment = object_key(Kind::deployment());
        let secret = object_key(Kind::undiscovered("", "v1", "Secret"));
        assert_eq!(last_applied(&object(&json!("{}"), 1), &secret, &key), None);
        assert_eq!(last_applied(&Node::from(json!({"metadata": {"name": "web"}})), &deployment, &key), None);
        let rest = |annotation: &str, replicas| {
            last_applied(&object(&json!(annotation), replicas), &deployment, &key).unwrap().rest
        };
        assert_eq!(rest("a", 1), rest("b", 1));
        assert_ne!(rest("a", 1), rest("a", 2));
    }
}
