//! What kubectl wrote down on an object when it applied it.

use serde_json::Value;

use crate::{
    diff::{
        declared::prepare,
        document::pack,
        redaction::{LAST_APPLIED, is_secret},
    },
    types::{
        DeclaredBody, DeclaredObject, Kind, LastApplied, ObjectKey, ObjectName, RedactionKey, UnknownReason,
    },
};

/// What an object has to say about what was applied; none where nothing was, and of Secrets, which are never asked.
pub fn applied(object: &Value, key: &ObjectKey, seal_key: &RedactionKey) -> Option<LastApplied> {
    let Kind { group, kind, .. } = &*key.kind;
    if is_secret(group, kind) {
        return None;
    }
    let text = object["metadata"]["annotations"].get(LAST_APPLIED)?;
    let document = text.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let (version, body) = match document {
        Some(mut document) if is_of(&document, key) => {
            let api_version = document["apiVersion"].as_str().unwrap_or_default();
            let version: Box<str> = api_version.rsplit('/').next().unwrap_or_default().into();
            prepare(&mut document, seal_key);
            (version, DeclaredBody::Subset(pack(&document)))
        }
        Some(_) | None => (key.kind.version.clone(), DeclaredBody::Opaque(UnknownReason::UnreadableBaseline)),
    };
    let declared = declared(key, version, body, seal_key);
    Some(LastApplied { declared, rest: rest(object, seal_key) })
}

/// The same of an object that something was applied to, and that cannot be read.
pub fn applied_unreadably(key: &ObjectKey, seal_key: &RedactionKey) -> Option<LastApplied> {
    let Kind { group, version, kind, .. } = &*key.kind;
    let body = DeclaredBody::Opaque(UnknownReason::Unreadable);
    let declared = declared(key, version.clone(), body, seal_key);
    (!is_secret(group, kind)).then_some(LastApplied { declared, rest: 0 })
}

fn declared(
    key: &ObjectKey,
    version: Box<str>,
    body: DeclaredBody,
    seal_key: &RedactionKey,
) -> DeclaredObject {
    let Kind { group, kind, .. } = &*key.kind;
    DeclaredObject {
        address: Box::default(),
        resource_type: kind.clone(),
        object: ObjectName {
            group: group.clone(),
            version,
            kind: kind.clone(),
            namespace: key.namespace.as_str().into(),
            name: key.name.as_str().into(),
        },
        uid: None,
        sensitive: Vec::new(),
        key: seal_key.clone(),
        body,
    }
}

/// Whether a document declares this object. Copied annotations declare another one. The API server takes no notice of namespaces
/// of kinds that have none.
fn is_of(document: &Value, key: &ObjectKey) -> bool {
    let group = document["apiVersion"].as_str().and_then(|version| version.rsplit_once('/'));
    let metadata = &document["metadata"];
    let namespace = metadata["namespace"].as_str().filter(|_| key.kind.namespaced);
    group.map_or("", |(group, _)| group) == &*key.kind.group
        && document["kind"] == *key.kind.kind
        && metadata["name"] == *key.name
        && namespace.is_none_or(|own| own == &*key.namespace)
}

/// A hash of all but what was applied, to tell whether only that moved.
fn rest(object: &Value, seal_key: &RedactionKey) -> u64 {
    let mut rest = object.clone();
    if let Some(members) = rest.as_object_mut() {
        members.remove("status");
    }
    if let Some(metadata) = rest["metadata"].as_object_mut() {
        metadata
            .retain(|name, _| !["managedFields", "resourceVersion", "generation"].contains(&name.as_str()));
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            annotations.remove(LAST_APPLIED);
        }
    }
    seal_key.short_digest(rest.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::{DeclaredBody, Kind, LAST_APPLIED, ObjectKey, RedactionKey, UnknownReason, applied};
    use crate::diff::unpack;

    fn object(annotation: &Value, replicas: i64) -> Value {
        json!({"metadata": {"name": "web", "namespace": "shop", "annotations": {LAST_APPLIED: annotation, "a": "b"}},
        "spec": {"replicas": replicas}, "status": {}})
    }

    fn key(kind: Kind) -> ObjectKey {
        ObjectKey { kind: Arc::new(kind), namespace: "shop".into(), name: "web".into() }
    }

    fn read(annotation: &Value) -> DeclaredBody {
        applied(&object(annotation, 1), &key(Kind::deployment()), &RedactionKey::new([1; 32]))
            .unwrap()
            .declared
            .body
    }

    #[test]
    fn what_was_applied_is_read_without_nulls() {
        let text = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop"},"spec":{"replicas":3,"paused":null}}"#;
        let DeclaredBody::Subset(packed) = read(&json!(text)) else { panic!("it can be read") };
        assert_eq!(unpack(&packed)["spec"], json!({"replicas": 3}));
    }

    #[test]
    fn what_is_no_json_or_of_another_object_is_unreadable() {
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
    fn secrets_are_never_asked_and_what_was_applied_is_no_part_of_the_rest() {
        let seal_key = RedactionKey::new([1; 32]);
        let secret = key(Kind::unseen("", "v1", "Secret"));
        assert_eq!(applied(&object(&json!("{}"), 1), &secret, &seal_key), None);
        assert_eq!(applied(&json!({"metadata": {"name": "web"}}), &key(Kind::deployment()), &seal_key), None);
        let rest = |annotation: &str, replicas| {
            applied(&object(&json!(annotation), replicas), &key(Kind::deployment()), &seal_key).unwrap().rest
        };
        assert_eq!(rest("a", 1), rest("b", 1));
        assert_ne!(rest("a", 1), rest("a", 2));
    }
}
