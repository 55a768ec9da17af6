//! Live objects that are kept as documents.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::Value;

use super::{
    owners::Owners,
    packed::{pack, unpack},
    terraform::{self, Comparison, OWN_MANAGERS},
};
use crate::model::{DeclaredObject, Document, Writer};

/// What is kept of a live object: all but what nobody declares. Values that may not be told have to be digests already.
pub fn keep(mut object: Value) -> Document {
    if let Some(members) = object.as_object_mut() {
        members.remove("status");
    }
    let mut managers = Value::Null;
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for name in ["resourceVersion", "generation", "selfLink"] {
            metadata.remove(name);
        }
        managers = metadata.remove("managedFields").unwrap_or_default();
    }
    let mut hasher = DefaultHasher::new();
    object.to_string().hash(&mut hasher);
    if let Some(managers) = managers.as_array_mut() {
        managers.retain(|manager| manager["subresource"] != "status");
        object["metadata"]["managedFields"] = std::mem::take(managers).into();
    }
    Document { packed: pack(&object), content: hasher.finish() }
}

/// Compares a kept object with what a state declares for it.
pub fn compare_kept(declared: &DeclaredObject, document: &Document) -> Comparison {
    terraform::compare(declared, &unpack(&document.packed))
}

/// Whether Terraform has written to an object.
pub fn is_written_by_terraform(document: &Document) -> bool {
    let object = unpack(&document.packed);
    Owners::of(&object).writers().any(|writer| OWN_MANAGERS.contains(&&*writer.manager))
}

/// Who made an object, and when: of those who own something in it, the first.
pub fn creator(document: &Document) -> Option<Writer> {
    let object = unpack(&document.packed);
    let created = object["metadata"]["creationTimestamp"].as_str()?.parse().ok()?;
    let owners = Owners::of(&object);
    let first = owners.writers().filter(|writer| writer.time.is_some()).min_by_key(|writer| writer.time);
    let manager = first.map(|writer| writer.manager.clone()).unwrap_or_default();
    Some(Writer { manager, subresource: Box::default(), time: Some(created) })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{creator, is_written_by_terraform, keep};

    fn object(replicas: i64, status: i64, version: &str) -> Value {
        json!({"metadata": {"name": "web", "resourceVersion": version, "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [
            {"manager": "HashiCorp", "time": "2026-01-01T00:00:01Z", "fieldsV1": {}},
            {"manager": "kubectl", "subresource": "scale", "fieldsV1": {}},
            {"manager": "controller", "subresource": "status", "time": version, "fieldsV1": {}}]},
            "spec": {"replicas": replicas}, "status": {"replicas": status}})
    }

    #[test]
    fn a_status_is_not_kept_and_does_not_count() {
        assert_eq!(keep(object(1, 1, "1")), keep(object(1, 2, "2")));
        assert_ne!(keep(object(1, 1, "1")).content, keep(object(2, 1, "1")).content);
    }

    #[test]
    fn whoever_made_an_object_is_known_by_the_time() {
        let document = keep(object(1, 1, "1"));
        assert!(is_written_by_terraform(&document));
        let writer = creator(&document).unwrap();
        assert_eq!(
            (&*writer.manager, writer.time.unwrap().to_string()),
            ("HashiCorp", "2026-01-01T00:00:00Z".into())
        );
    }
}
