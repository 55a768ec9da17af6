//! Edits of single objects, derived from the declared and the live object.

use serde_json::{Value, json};

use super::values::{alternatives, new_elements, new_values};

/// The class of an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// A declared value changes.
    Changed,
    /// A declared field or element is removed.
    Removed,
    /// A declared list gets an element.
    Added,
    /// An undeclared field changes or is added.
    Undeclared,
    /// A field that is declared as empty or null, and that the server sets, changes.
    Filled,
}

/// An edit of an object.
pub(super) struct Edit {
    pub(super) class: Class,
    /// The JSON Pointer of the field.
    pub(super) pointer: String,
    /// Equivalent JSON patches: the first that the API server accepts is made.
    pub(super) ways: Vec<Value>,
}

/// All useful edits of an object by its document.
pub(super) fn edits_of(declared: &Value, live: &Value) -> Vec<Edit> {
    let mut edits = Vec::new();
    for (name, live) in live.as_object().into_iter().flatten() {
        match name.as_str() {
            "apiVersion" | "kind" | "status" => {}
            "metadata" => {
                for name in ["labels", "annotations", "finalizers"] {
                    let pointer = format!("/metadata/{name}");
                    walk(&pointer, declared["metadata"].get(name), &live[name], &mut edits);
                }
            }
            _ => walk(&format!("/{name}"), declared.get(name), live, &mut edits),
        }
    }
    edits.retain(|edit| !edit.ways.is_empty() && !edit.pointer.contains("last-applied-configuration"));
    edits
}

/// Maps in which others may own keys.
const MAPS: &[&str] = &[
    "labels",
    "annotations",
    "data",
    "nodeSelector",
    "matchLabels",
    "limits",
    "requests",
    "parameters",
    "hard",
];

fn walk(pointer: &str, declared: Option<&Value>, live: &Value, edits: &mut Vec<Edit>) {
    let at = |name: &str| format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
    match (declared, live) {
        (Some(Value::Null), Value::Object(_) | Value::Array(_)) => {}
        (declared, Value::Object(members)) => {
            for (name, live) in members {
                walk(&at(name), declared.and_then(|declared| declared.get(name)), live, edits);
            }
            let Some(declared) = declared.and_then(Value::as_object) else { return };
            for (name, declared) in declared {
                match members.get(name) {
                    Some(_) if !declared.is_null() && *declared != json!([]) => edits.push(removal(at(name))),
                    None => edits.push(addition(at(name), declared)),
                    Some(_) => {}
                }
            }
            let field = pointer.rsplit('/').next().unwrap_or_default();
            if MAPS.contains(&field) && members.values().all(Value::is_string) {
                let value = members.values().next().cloned().unwrap_or_else(|| "1".into());
                let way = json!([{"op": "add", "path": at("added"), "value": value}]);
                edits.push(Edit { class: Class::Undeclared, pointer: at("added"), ways: vec![way] });
            }
        }
        (Some(Value::Array(declared)), Value::Array(elements)) => {
            for (index, live) in elements.iter().enumerate() {
                walk(&at(&index.to_string()), declared.get(index), live, edits);
            }
            let field = pointer.rsplit('/').next().unwrap_or_default();
            let mut last = match declared.len().checked_sub(1).and_then(|at| elements.get(at)) {
                Some(last) => new_elements(last),
                // The live value is undeclared and gives no hint.
                None => new_values(field)
                    .into_iter()
                    .filter_map(|mut list| list.get_mut(0).map(Value::take))
                    .collect(),
            };
            last.retain(|other| !elements.contains(other));
            let add = |value| json!([{"op": "add", "path": at("-"), "value": value}]);
            let pointer = at(&elements.len().to_string());
            edits.push(Edit { class: Class::Added, pointer, ways: last.into_iter().map(add).collect() });
            if !elements.is_empty() && !declared.is_empty() {
                edits.push(removal(at("0")));
            }
        }
        (None, Value::Array(elements)) => {
            elements
                .iter()
                .enumerate()
                .for_each(|(index, live)| walk(&at(&index.to_string()), None, live, edits));
        }
        (declared, live) => {
            let class = match declared {
                Some(declared) if is_empty_value(declared) && !is_empty_value(live) => Class::Filled,
                Some(_) => Class::Changed,
                None => Class::Undeclared,
            };
            let way = |value| json!([{"op": "replace", "path": pointer, "value": value}]);
            let ways = alternatives(live).into_iter().map(way).collect();
            edits.push(Edit { class, pointer: pointer.to_owned(), ways });
        }
    }
}

fn is_empty_value(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    }
}

fn removal(pointer: String) -> Edit {
    let way = json!([{"op": "remove", "path": pointer}]);
    Edit { class: Class::Removed, pointer, ways: vec![way] }
}

/// A field that is declared as empty, and that the server omits.
fn addition(pointer: String, declared: &Value) -> Edit {
    let field = pointer.rsplit('/').next().unwrap_or_default();
    let (class, values) = match declared {
        Value::Null => (Class::Filled, new_values(field)),
        Value::Array(_) => (Class::Added, new_values(field)),
        Value::Object(_) => (Class::Undeclared, Vec::new()),
        scalar => (Class::Changed, alternatives(scalar)),
    };
    let way = |value| json!([{"op": "add", "path": pointer, "value": value}]);
    let ways = values.into_iter().map(way).collect();
    let pointer = if class == Class::Added { format!("{pointer}/0") } else { pointer };
    Edit { class, pointer, ways }
}
