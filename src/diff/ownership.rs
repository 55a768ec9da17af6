//! Who owns a single field of an object, from its `managedFields`.

use serde_json::{Map, Value};

use crate::types::{FieldManager, FieldPath, Segment};

/// The field managers of an object and what each of them owns.
#[derive(Debug)]
pub struct Owners<'a> {
    entries: Vec<Entry<'a>>,
}

#[derive(Debug)]
struct Entry<'a> {
    writer: FieldManager,
    fields: &'a Value,
}

impl<'a> Owners<'a> {
    /// The owners that an object names.
    pub fn of(object: &'a Value) -> Self {
        let entries = object["metadata"]["managedFields"].as_array().map_or(&[][..], Vec::as_slice);
        Self { entries: entries.iter().filter_map(Entry::read).collect() }
    }

    /// Who last set the field at `path`: of all that own it, the one with the newest time. Where somebody owns the field itself,
    /// others own the parent alone, and not with all that is in it.
    ///
    /// Whoever changes a field takes it from those who set another value, so several owners have set the same one.
    /// Writes through `scale` carry no time.
    pub fn owner(&self, path: &FieldPath) -> Option<&FieldManager> {
        let owning = self.entries.iter().filter_map(|entry| {
            let ownership = ownership(entry.fields, path.segments())?;
            Some((ownership, &entry.writer))
        });
        owning.max_by_key(|(ownership, writer)| (*ownership, writer.time)).map(|(_, writer)| writer)
    }

    /// Everybody who owns something.
    pub fn writers(&self) -> impl Iterator<Item = &FieldManager> {
        self.entries.iter().map(|entry| &entry.writer)
    }

    /// The names that a manager owns in the map at `path`.
    pub(super) fn names_of(&self, manager: &str, path: &[&str]) -> impl Iterator<Item = &'a str> {
        let fields = self.entries.iter().filter(move |entry| &*entry.writer.manager == manager);
        let at = |fields: &'a Value| {
            let map = path.iter().try_fold(fields, |at, name| at.get(format!("f:{name}")))?;
            map.as_object()
        };
        let maps: Vec<&'a Map<String, Value>> = fields.filter_map(|entry| at(entry.fields)).collect();
        maps.into_iter().flat_map(|map| map.keys().filter_map(|key| key.strip_prefix("f:")))
    }
}

impl<'a> Entry<'a> {
    fn read(entry: &'a Value) -> Option<Self> {
        let text = |name: &str| entry[name].as_str().unwrap_or("");
        let writer = FieldManager {
            manager: text("manager").into(),
            subresource: text("subresource").into(),
            time: text("time").parse().ok(),
        };
        Some(Self { writer, fields: entry.get("fieldsV1")? })
    }
}

/// How a field is owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ownership {
    /// With all of a parent.
    Parent,
    /// By itself, or something within it.
    Itself,
}

/// How a set of fields holds a path, if it does.
fn ownership(fields: &Value, path: &[Segment]) -> Option<Ownership> {
    let members = fields.as_object()?;
    let Some((first, rest)) = path.split_first() else {
        return Some(Ownership::Itself);
    };
    let inner = match first {
        Segment::Field(name) => members.get(&format!("f:{name}")),
        Segment::Value(value) => members
            .get(&format!("v:{}", Value::from(&**value)))
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

fn is_element(name: &str, keys: &[(Box<str>, Box<str>)]) -> bool {
    let Some(Ok(Value::Object(named))) = name.strip_prefix("k:").map(serde_json::from_str) else {
        return false;
    };
    let same = |(key, value): &(Box<str>, Box<str>)| match named.get(&**key) {
        Some(Value::String(text)) => **text == **value,
        Some(Value::Number(number)) => number.as_i64().is_some_and(|number| value.parse() == Ok(number)),
        Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) | None => false,
    };
    named.len() == keys.len() && keys.iter().all(same)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Owners;

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

    #[track_caller]
    fn check(path: &str, manager: Option<&str>) {
        let object = object();
        let owners = Owners::of(&object);
        assert_eq!(owners.owner(&path.parse().unwrap()).map(|writer| &*writer.manager), manager, "{path}");
    }

    #[test]
    fn the_newest_owner_of_exactly_the_path_is_the_writer() {
        check("spec.containers[name=web].image", Some("kubectl-edit"));
        check("spec.containers[name=web].name", Some("HashiCorp"));
        check("spec.containers[name=db].image", None);
        check("spec.replicas", Some("kubectl"));
        check("spec.ports[containerPort=80,protocol=TCP].name", Some("ports"));
        check("metadata.labels.a", None);
    }

    #[test]
    fn whoever_owns_a_map_did_not_write_what_another_one_owns_in_it() {
        let object = json!({"metadata": {"managedFields": [
            {"manager": "kubectl-edit", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:data": {"f:a": {}}}},
            {"manager": "HashiCorp", "time": "2026-01-02T00:00:00Z", "fieldsV1": {"f:data": {}}},
        ]}});
        let owners = Owners::of(&object);
        let manager = |path: &str| owners.owner(&path.parse().unwrap()).map(|writer| &*writer.manager);
        assert_eq!((manager("data.a"), manager("data.b")), (Some("kubectl-edit"), Some("HashiCorp")));
    }

    #[test]
    fn a_list_that_is_owned_as_a_whole_is_owned_in_its_elements() {
        check("spec.tolerations[0].key", Some("HashiCorp"));
    }
}
