//! Field ownership: which field manager last set a field, by the object's `managedFields`.

use serde_json::{Map, Value};

use crate::types::{FieldManager, Segment, ShortText};

#[derive(Debug)]
pub struct FieldOwners<'a> {
    entries: Vec<ManagedFieldsEntry<'a>>,
}

#[derive(Debug)]
struct ManagedFieldsEntry<'a> {
    manager: FieldManager,
    fields: &'a Value,
}

impl<'a> FieldOwners<'a> {
    pub fn of(object: &'a Value) -> Self {
        let entries = object["metadata"]["managedFields"].as_array().map_or(&[][..], Vec::as_slice);
        Self { entries: entries.iter().filter_map(ManagedFieldsEntry::read).collect() }
    }

    /// The manager that last set the field at `path`: of all its owners, the one with the newest time. An owner of the field
    /// itself takes precedence over an owner of a parent.
    ///
    /// A manager that changes a field takes it from owners of another value, so that several owners share the same value.
    /// Writes through the `scale` subresource have no time.
    pub fn owner(&self, path: &[Segment]) -> Option<&FieldManager> {
        let owners = self.entries.iter().filter_map(|entry| {
            let ownership = ownership(entry.fields, path)?;
            Some((ownership, &entry.manager))
        });
        owners.max_by_key(|(ownership, manager)| (*ownership, manager.time)).map(|(_, manager)| manager)
    }

    pub fn managers(&self) -> impl Iterator<Item = &FieldManager> {
        self.entries.iter().map(|entry| &entry.manager)
    }

    pub(super) fn keys_owned_by(&self, manager: &str, path: &[&str]) -> impl Iterator<Item = &'a str> {
        let fields = self.entries.iter().filter(move |entry| &*entry.manager.manager == manager);
        let at = |fields: &'a Value| {
            let map = path.iter().try_fold(fields, |at, name| at.get(format!("f:{name}")))?;
            map.as_object()
        };
        let maps: Vec<&'a Map<String, Value>> = fields.filter_map(|entry| at(entry.fields)).collect();
        maps.into_iter().flat_map(|map| map.keys().filter_map(|key| key.strip_prefix("f:")))
    }
}

impl<'a> ManagedFieldsEntry<'a> {
    fn read(entry: &'a Value) -> Option<Self> {
        Some(Self { manager: field_manager(entry), fields: entry.get("fieldsV1")? })
    }
}

/// The manager of one entry of `managedFields`.
pub fn field_manager(entry: &Value) -> FieldManager {
    let text = |name: &str| entry[name].as_str().unwrap_or("");
    FieldManager {
        manager: text("manager").into(),
        subresource: text("subresource").into(),
        time: text("time").parse().ok(),
    }
}

/// Ordered by precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ownership {
    /// The manager owns a whole parent.
    Parent,
    /// The manager owns the field, or a field within it.
    Itself,
}

/// Whether and how `fieldsV1` contains a path.
fn ownership(fields: &Value, path: &[Segment]) -> Option<Ownership> {
    let members = fields.as_object()?;
    let Some((first, rest)) = path.split_first() else {
        return Some(Ownership::Itself);
    };
    let inner = match first {
        Segment::Field(name) => members.get(&format!("f:{name}")),
        Segment::Value(value) => members
            .get(&format!("v:{}", Value::from(value.as_str())))
            .or_else(|| members.get(&format!("v:{value}"))),
        Segment::Index(index) => members.get(&format!("i:{index}")),
        Segment::Element(keys) => {
            members.iter().find(|(name, _)| is_element(name, keys)).map(|(_, inner)| inner)
        }
    };
    match inner {
        Some(inner) => ownership(inner, rest),
        None => members.is_empty().then_some(Ownership::Parent),
    }
}

/// Whether a `k:` entry of `fieldsV1` is the element with these keys.
fn is_element(entry: &str, keys: &[(ShortText, ShortText)]) -> bool {
    let Some(Ok(Value::Object(entry_keys))) = entry.strip_prefix("k:").map(serde_json::from_str) else {
        return false;
    };
    let same = |(key, value): &(ShortText, ShortText)| match entry_keys.get(key.as_str()) {
        Some(Value::String(text)) => value == text,
        Some(Value::Number(number)) => number.as_i64().is_some_and(|number| value.parse() == Ok(number)),
        Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) | None => false,
    };
    entry_keys.len() == keys.len() && keys.iter().all(same)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::FieldOwners;
    use crate::types::FieldPath;

    fn object() -> Value {
        let container = |fields: Value| json!({"f:spec": {"f:containers": {"k:{\"name\":\"web\"}": fields}}});
        json!({"metadata": {"managedFields": [
            {"manager": "HashiCorp", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {"f:tolerations": {}}}},
            {"manager": "HashiCorp", "time": "2026-01-01T00:00:00Z", "fieldsV1": container(json!({".": {}, "f:name": {}, "f:image": {}}))},
            {"manager": "kubectl-edit", "time": "2026-01-02T00:00:00Z", "fieldsV1": container(json!({"f:image": {}}))},
            {"manager": "kubectl", "subresource": "scale", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
            {"manager": "ports", "fieldsV1": {"f:spec": {"f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {"f:name": {}}}}}},
            {"manager": "broken", "fieldsV1": [1]}, 7, null,
        ]}})
    }

    fn owner_of<'a>(owners: &'a FieldOwners<'_>, path: &str) -> Option<&'a str> {
        owners.owner(path.parse::<FieldPath>().unwrap().segments()).map(|owner| &*owner.manager)
    }

    #[track_caller]
    fn check(path: &str, manager: Option<&str>) {
        let object = object();
        let owners = FieldOwners::of(&object);
        assert_eq!(owner_of(&owners, path), manager, "{path}");
    }

    #[test]
    fn newest_owner_of_the_field_is_its_owner() {
        check("spec.containers[name=web].image", Some("kubectl-edit"));
        check("spec.containers[name=web].name", Some("HashiCorp"));
        check("spec.containers[name=db].image", None);
        check("spec.replicas", Some("kubectl"));
        check("spec.ports[containerPort=80,protocol=TCP].name", Some("ports"));
        check("metadata.labels.a", None);
    }

    #[test]
    fn owner_of_a_key_takes_precedence_over_the_owner_of_its_map() {
        let object = json!({"metadata": {"managedFields": [
            {"manager": "kubectl-edit", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:data": {"f:a": {}}}},
            {"manager": "HashiCorp", "time": "2026-01-02T00:00:00Z", "fieldsV1": {"f:data": {}}},
        ]}});
        let owners = FieldOwners::of(&object);
        assert_eq!(
            (owner_of(&owners, "data.a"), owner_of(&owners, "data.b")),
            (Some("kubectl-edit"), Some("HashiCorp"))
        );
    }

    #[test]
    fn owner_of_an_atomic_list_owns_its_elements() {
        check("spec.tolerations[0].key", Some("HashiCorp"));
    }
}
