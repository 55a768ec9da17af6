//! `metadata.managedFields`: the field manager that last set each field.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry, Time};
use serde_json::{Map, Value, json};

use super::resources::{ListType, Resource, is_atomic_map, list_type, zero_value};

#[derive(Clone, Copy, Debug)]
pub(super) struct FieldManager<'a> {
    pub(super) name: &'a str,
    /// Empty for the main resource.
    pub(super) subresource: &'static str,
    /// Entries of the `scale` subresource have no time.
    pub(super) time: Option<Timestamp>,
}

/// A field path in the syntax of `fieldsV1`: `f:` for a field, `k:` for a list key, `v:` for a set value.
type PathElements = Vec<String>;
type FieldSet = BTreeSet<PathElements>;

/// Makes a field manager the owner of the fields that differ between two versions of an object. Other managers lose them.
pub(super) fn update_managed_fields(
    resource: &Resource,
    previous: Option<&Value>,
    current: &mut Value,
    manager: FieldManager<'_>,
) {
    let mut changes = FieldChanges::default();
    let zero = zero_value(resource.kind);
    changes.walk(
        "",
        Some(&ownable_fields(previous.unwrap_or(&zero))),
        Some(&ownable_fields(current)),
        &mut Vec::new(),
    );
    if manager.subresource == "scale" && current["spec"]["replicas"] == 0 {
        // A Scale omits zero replicas, and the real API server then assigns the field to no manager.
        changes.removed.append(&mut changes.set);
    }
    let mut entries: Vec<ManagedFieldsEntry> =
        serde_json::from_value(current["metadata"]["managedFields"].take()).unwrap_or_default();
    let mut owned: Vec<FieldSet> = entries.iter().map(owned_fields).collect();
    for fields in &mut owned {
        fields.retain(|path| !changes.set.contains(path) && !changes.removed.contains(path));
    }
    if !changes.set.is_empty() {
        let subresource = Some(manager.subresource).filter(|name| !name.is_empty());
        let is_same_manager = |entry: &ManagedFieldsEntry| {
            entry.manager.as_deref() == Some(manager.name) && entry.subresource.as_deref() == subresource
        };
        let index = entries.iter().position(is_same_manager).unwrap_or_else(|| {
            entries.push(ManagedFieldsEntry {
                manager: Some(manager.name.to_owned()),
                operation: Some("Update".to_owned()),
                api_version: Some(resource.api_version()),
                fields_type: Some("FieldsV1".to_owned()),
                subresource: subresource.map(str::to_owned),
                ..ManagedFieldsEntry::default()
            });
            owned.push(FieldSet::new());
            entries.len() - 1
        });
        entries[index].time = manager.time.map(|time| Time(whole_seconds(time)));
        owned[index].extend(changes.set);
    }
    for (entry, fields) in entries.iter_mut().zip(&owned) {
        entry.fields_v1 = Some(FieldsV1(write_fields(fields))).filter(|_| !fields.is_empty());
    }
    entries.retain(|entry| entry.fields_v1.is_some());
    entries.sort_by(|a, b| (&a.time, &a.manager, &a.subresource).cmp(&(&b.time, &b.manager, &b.subresource)));
    let metadata = current["metadata"].as_object_mut().expect("an object has metadata");
    if entries.is_empty() {
        metadata.remove("managedFields");
    } else {
        metadata.insert("managedFields".to_owned(), json!(entries));
    }
}

/// Objects record times without fractions of a second.
pub(in crate::demo) fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// The object without the fields that the server assigns, which have no owner.
fn ownable_fields(object: &Value) -> Value {
    let mut fields = object.clone();
    if let Some(object) = fields.as_object_mut() {
        object.retain(|name, _| !matches!(name.as_str(), "apiVersion" | "kind"));
    }
    if let Some(metadata) = fields["metadata"].as_object_mut() {
        metadata.retain(|name, _| {
            matches!(name.as_str(), "labels" | "annotations" | "finalizers" | "ownerReferences")
        });
    }
    fields
}

fn owned_fields(entry: &ManagedFieldsEntry) -> FieldSet {
    let mut fields = FieldSet::new();
    if let Some(FieldsV1(tree)) = &entry.fields_v1 {
        read_fields(tree, &mut Vec::new(), &mut fields);
    }
    fields
}

/// A leaf is owned. A map or list itself is owned only if it has a `.` entry.
fn read_fields(tree: &Value, path: &mut PathElements, fields: &mut FieldSet) {
    let Some(children) = tree.as_object() else { return };
    if children.is_empty() && !path.is_empty() {
        fields.insert(path.clone());
    }
    for (name, child) in children {
        if name == "." {
            fields.insert(path.clone());
            continue;
        }
        path.push(name.clone());
        read_fields(child, path, fields);
        path.pop();
    }
}

fn write_fields(fields: &FieldSet) -> Value {
    let mut tree = Value::Object(Map::new());
    // A path sorts before its extensions, so an owned node is still empty when its first child is added.
    for path in fields {
        let mut node = &mut tree;
        for (depth, name) in path.iter().enumerate() {
            let parent = &path[..depth];
            let children = node.as_object_mut().expect("the tree has only objects");
            if children.is_empty() && !parent.is_empty() && fields.contains(parent) {
                children.insert(".".to_owned(), json!({}));
            }
            node = children.entry(name.clone()).or_insert_with(|| json!({}));
        }
    }
    tree
}

#[derive(Default)]
struct FieldChanges {
    set: FieldSet,
    removed: FieldSet,
}

impl FieldChanges {
    fn walk(
        &mut self,
        parent: &str,
        previous: Option<&Value>,
        current: Option<&Value>,
        path: &mut PathElements,
    ) {
        if previous == current {
            return;
        }
        let field = path.last().and_then(|last| last.strip_prefix("f:")).unwrap_or("").to_owned();
        match (previous, current) {
            (Some(Value::Object(_)) | None, Some(Value::Object(_)) | None)
                if !is_atomic_map(parent, &field) =>
            {
                let children =
                    |value: Option<&Value>| value.and_then(Value::as_object).cloned().unwrap_or_default();
                self.walk_children(
                    &field,
                    &field_elements(children(previous)),
                    &field_elements(children(current)),
                    path,
                );
                self.record_container(previous, current, path);
            }
            (Some(Value::Array(_)) | None, Some(Value::Array(_)) | None) => match list_type(parent, &field) {
                ListType::Atomic => self.record_leaf(current, path),
                list => {
                    let elements =
                        |value: Option<&Value>| list_elements(list, value.and_then(Value::as_array));
                    self.walk_children(&field, &elements(previous), &elements(current), path);
                    self.record_container(previous, current, path);
                }
            },
            _ => self.record_leaf(current, path),
        }
    }

    fn walk_children(
        &mut self,
        parent: &str,
        previous: &BTreeMap<String, Value>,
        current: &BTreeMap<String, Value>,
        path: &mut PathElements,
    ) {
        let names: BTreeSet<&String> = previous.keys().chain(current.keys()).collect();
        for name in names {
            path.push(name.clone());
            self.walk(parent, previous.get(name), current.get(name), path);
            path.pop();
        }
    }

    /// Records a map or list that was added or removed as a whole.
    fn record_container(&mut self, previous: Option<&Value>, current: Option<&Value>, path: &PathElements) {
        match (previous, current) {
            (None, Some(_)) => self.set.insert(path.clone()),
            (Some(_), None) => self.removed.insert(path.clone()),
            (Some(_), Some(_)) | (None, None) => false,
        };
    }

    fn record_leaf(&mut self, current: Option<&Value>, path: &PathElements) {
        if current.is_some() {
            self.set.insert(path.clone())
        } else {
            self.removed.insert(path.clone())
        };
    }
}

fn field_elements(fields: Map<String, Value>) -> BTreeMap<String, Value> {
    fields.into_iter().map(|(name, value)| (format!("f:{name}"), value)).collect()
}

fn list_elements(list: ListType, elements: Option<&Vec<Value>>) -> BTreeMap<String, Value> {
    let path_element = |element: &Value| match list {
        ListType::Map(keys) => {
            let key_fields: Map<String, Value> =
                keys.iter().filter_map(|key| Some(((*key).to_owned(), element.get(key)?.clone()))).collect();
            format!("k:{}", Value::Object(key_fields))
        }
        ListType::Set | ListType::Atomic => format!("v:{element}"),
    };
    elements.into_iter().flatten().map(|element| (path_element(element), element.clone())).collect()
}
