//! `metadata.managedFields`: which manager last set which field.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::schema::{ListType, is_atomic_map, list_type, skeleton};

/// Who writes, and through what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hand<'a> {
    pub(super) manager: &'a str,
    /// Empty for the object itself.
    pub(super) subresource: &'static str,
    /// Writes through `scale` have none.
    pub(super) time: Option<Timestamp>,
}

/// Path elements as `fieldsV1` spells them.
type Path = Vec<String>;
type Paths = BTreeSet<Path>;

/// Gives what differs between two states of an object to the hand that changed it, and takes it from all others.
pub(super) fn own(kind: &str, api_version: &str, before: Option<&Value>, after: &mut Value, hand: Hand<'_>) {
    let mut difference = Difference::default();
    let nothing = skeleton(kind);
    difference.walk("", Some(&content(before.unwrap_or(&nothing))), Some(&content(after)), &mut Vec::new());
    if hand.subresource == "scale" && after["spec"]["replicas"] == 0 {
        // A Scale with no replicas does not say so, and the API server takes the field for nobody's.
        difference.removed.append(&mut difference.set);
    }
    let entries = after["metadata"]["managedFields"].as_array();
    let mut owners: Vec<Owner> = entries.into_iter().flatten().map(Owner::read).collect();
    for owner in &mut owners {
        owner.fields.retain(|path| !difference.set.contains(path) && !difference.removed.contains(path));
    }
    if !difference.set.is_empty() {
        let same =
            |owner: &&mut Owner| owner.manager == hand.manager && owner.subresource == hand.subresource;
        let time = hand.time.map(seconds);
        match owners.iter_mut().find(same) {
            Some(owner) => {
                owner.fields.extend(difference.set);
                owner.time = time;
            }
            None => owners.push(Owner {
                manager: hand.manager.to_owned(),
                subresource: hand.subresource.to_owned(),
                time,
                fields: difference.set,
            }),
        }
    }
    owners.retain(|owner| !owner.fields.is_empty());
    owners.sort_by(|a, b| (&a.time, &a.manager, &a.subresource).cmp(&(&b.time, &b.manager, &b.subresource)));
    let metadata = after["metadata"].as_object_mut().expect("an object has metadata");
    if owners.is_empty() {
        metadata.remove("managedFields");
    } else {
        let entries = owners.iter().map(|owner| owner.write(api_version)).collect();
        metadata.insert("managedFields".to_owned(), entries);
    }
}

/// Times have no fractions in an object.
pub(super) fn seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// What can be owned: everything but what the server itself keeps.
fn content(object: &Value) -> Value {
    let mut content = object.clone();
    if let Some(object) = content.as_object_mut() {
        object.retain(|name, _| !matches!(name.as_str(), "apiVersion" | "kind"));
    }
    if let Some(metadata) = content["metadata"].as_object_mut() {
        metadata.retain(|name, _| {
            matches!(name.as_str(), "labels" | "annotations" | "finalizers" | "ownerReferences")
        });
    }
    content
}

struct Owner {
    manager: String,
    subresource: String,
    time: Option<String>,
    fields: Paths,
}

impl Owner {
    fn read(entry: &Value) -> Self {
        let text = |name: &str| entry[name].as_str().unwrap_or("").to_owned();
        let mut fields = Paths::new();
        read_fields(&entry["fieldsV1"], &mut Vec::new(), &mut fields);
        let time = entry["time"].as_str().map(str::to_owned);
        Self { manager: text("manager"), subresource: text("subresource"), time, fields }
    }

    fn write(&self, api_version: &str) -> Value {
        let mut entry = json!({
            "manager": self.manager, "operation": "Update", "apiVersion": api_version,
            "fieldsType": "FieldsV1", "fieldsV1": write_fields(&self.fields),
        });
        if let Some(time) = &self.time {
            entry["time"] = time.as_str().into();
        }
        if !self.subresource.is_empty() {
            entry["subresource"] = self.subresource.as_str().into();
        }
        entry
    }
}

/// A leaf is owned itself; what has parts is only if it says so with a dot.
fn read_fields(tree: &Value, path: &mut Path, fields: &mut Paths) {
    let Some(parts) = tree.as_object() else { return };
    if parts.is_empty() && !path.is_empty() {
        fields.insert(path.clone());
    }
    for (name, part) in parts {
        if name == "." {
            fields.insert(path.clone());
            continue;
        }
        path.push(name.clone());
        read_fields(part, path, fields);
        path.pop();
    }
}

fn write_fields(fields: &Paths) -> Value {
    let mut tree = Value::Object(Map::new());
    // Shorter paths come first, so that whatever is still empty when a part arrives was owned itself.
    for path in fields {
        let mut node = &mut tree;
        for (depth, name) in path.iter().enumerate() {
            let parent = &path[..depth];
            let parts = node.as_object_mut().expect("the tree has only objects");
            if parts.is_empty() && !parent.is_empty() && fields.contains(parent) {
                parts.insert(".".to_owned(), json!({}));
            }
            node = parts.entry(name.clone()).or_insert_with(|| json!({}));
        }
    }
    tree
}

/// The fields that were set, and those that went.
#[derive(Default)]
struct Difference {
    set: Paths,
    removed: Paths,
}

impl Difference {
    fn walk(&mut self, parent: &str, before: Option<&Value>, after: Option<&Value>, path: &mut Path) {
        if before == after {
            return;
        }
        let field = path.last().and_then(|last| last.strip_prefix("f:")).unwrap_or("").to_owned();
        match (before, after) {
            (Some(Value::Object(_)) | None, Some(Value::Object(_)) | None)
                if !is_atomic_map(parent, &field) =>
            {
                let parts =
                    |value: Option<&Value>| value.and_then(Value::as_object).cloned().unwrap_or_default();
                self.parts(&field, &named(parts(before)), &named(parts(after)), path);
                self.whole(before, after, path);
            }
            (Some(Value::Array(_)) | None, Some(Value::Array(_)) | None) => match list_type(parent, &field) {
                ListType::Atomic => self.leaf(after, path),
                list => {
                    let elements = |value: Option<&Value>| by_key(list, value.and_then(Value::as_array));
                    self.parts(&field, &elements(before), &elements(after), path);
                    self.whole(before, after, path);
                }
            },
            _ => self.leaf(after, path),
        }
    }

    fn parts(
        &mut self,
        parent: &str,
        before: &BTreeMap<String, Value>,
        after: &BTreeMap<String, Value>,
        path: &mut Path,
    ) {
        let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        for name in names {
            path.push(name.clone());
            self.walk(parent, before.get(name), after.get(name), path);
            path.pop();
        }
    }

    /// Something with parts that appeared or went.
    fn whole(&mut self, before: Option<&Value>, after: Option<&Value>, path: &Path) {
        match (before, after) {
            (None, Some(_)) => self.set.insert(path.clone()),
            (Some(_), None) => self.removed.insert(path.clone()),
            (Some(_), Some(_)) | (None, None) => false,
        };
    }

    fn leaf(&mut self, after: Option<&Value>, path: &Path) {
        if after.is_some() {
            self.set.insert(path.clone())
        } else {
            self.removed.insert(path.clone())
        };
    }
}

fn named(fields: Map<String, Value>) -> BTreeMap<String, Value> {
    fields.into_iter().map(|(name, value)| (format!("f:{name}"), value)).collect()
}

fn by_key(list: ListType, elements: Option<&Vec<Value>>) -> BTreeMap<String, Value> {
    let spell = |element: &Value| match list {
        ListType::Keyed(keys) => {
            let own: Map<String, Value> =
                keys.iter().filter_map(|key| Some(((*key).to_owned(), element.get(key)?.clone()))).collect();
            format!("k:{}", Value::Object(own))
        }
        ListType::Set | ListType::Atomic => format!("v:{element}"),
    };
    elements.into_iter().flatten().map(|element| (spell(element), element.clone())).collect()
}
