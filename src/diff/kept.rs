//! Live objects that are kept as documents.

use serde_json::Value;

use super::{
    declared::Schemas,
    owners::Owners,
    packed::{pack, unpack},
    terraform::{self, Comparison, OWN_MANAGERS, seal_forged, seal_object},
};
use crate::types::{DeclaredObject, Document, FieldManager, Kind, RedactionPolicy};

/// A sign by which digests are told from texts, as JSON writes it.
const FORGED: &str = "\\u0001";

/// What is kept of a live object: all but what nobody declares, with digests in place of what may not be told.
pub fn keep(mut object: Value, kind: &Kind, sealing: &RedactionPolicy) -> Document {
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
    // What is sealed, and with which keys, may change while the object does not: its content is that of the plain object.
    let text = object.to_string();
    let content = sealing.own_key().short_digest(text.as_bytes());
    if text.contains(FORGED) {
        seal_forged(&mut object, sealing.keys());
    }
    if let Some(managers) = managers.as_array_mut() {
        managers.retain(|manager| manager["subresource"] != "status");
        object["metadata"]["managedFields"] = std::mem::take(managers).into();
    }
    seal_object(&mut object, kind, sealing);
    Document { packed: pack(&object), content }
}

/// Compares a kept object with what a state declares for it. `shapes`: what is known about a kind of the cluster's own.
pub fn compare_kept(declared: &DeclaredObject, document: &Document, shapes: &Schemas) -> Comparison {
    terraform::compare(declared, &unpack(&document.packed), shapes)
}

/// Whether Terraform has written to an object.
pub fn is_written_by_terraform(document: &Document) -> bool {
    let object = unpack(&document.packed);
    Owners::of(&object).writers().any(|writer| OWN_MANAGERS.contains(&&*writer.manager))
}

/// Who made an object, and when: of those who own something in it, the first.
pub fn creator(document: &Document) -> Option<FieldManager> {
    let object = unpack(&document.packed);
    let created = object["metadata"]["creationTimestamp"].as_str()?.parse().ok()?;
    let owners = Owners::of(&object);
    let first = owners.writers().filter(|writer| writer.time.is_some()).min_by_key(|writer| writer.time);
    let manager = first.map(|writer| writer.manager.clone()).unwrap_or_default();
    Some(FieldManager { manager, subresource: Box::default(), time: Some(created) })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{creator, is_written_by_terraform};
    use crate::types::{Document, Kind, RedactionKey, RedactionPolicy};

    fn keep(object: Value) -> Document {
        super::keep(object, &Kind::deployment(), &RedactionPolicy::new(RedactionKey::new([1; 32])))
    }

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
