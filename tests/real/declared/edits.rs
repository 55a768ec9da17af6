//! Edits of one object each, made from what is declared and what is there.

use serde_json::{Value, json};

use super::values::{element, others, sample};

/// What an edit does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// A declared value becomes another one.
    Changed,
    /// A declared field or element goes.
    Removed,
    /// A declared list gets one more element.
    Added,
    /// Something changes, or comes, that nobody declared.
    Undeclared,
    /// Something changes that is declared to be empty, or null, and that the server fills.
    Filled,
}

/// An edit of an object.
pub(super) struct Edit {
    pub(super) class: Class,
    /// Where in the object.
    pub(super) pointer: String,
    /// JSON patches that all do: the first that the API server takes is made.
    pub(super) ways: Vec<Value>,
}

/// All edits of an object that make sense, by what a document declares of it.
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

/// Maps of which others may own keys.
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
                    None => edits.push(coming(at(name), declared)),
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
                Some(last) => element(last),
                // What is there was not declared, and is nothing to go by.
                None => sample(field)
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
                Some(declared) if is_nothing(declared) && !is_nothing(live) => Class::Filled,
                Some(_) => Class::Changed,
                None => Class::Undeclared,
            };
            let way = |value| json!([{"op": "replace", "path": pointer, "value": value}]);
            let ways = others(live).into_iter().map(way).collect();
            edits.push(Edit { class, pointer: pointer.to_owned(), ways });
        }
    }
}

fn is_nothing(value: &Value) -> bool {
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

/// Something is declared to be empty, and the server keeps nothing there.
fn coming(pointer: String, declared: &Value) -> Edit {
    let field = pointer.rsplit('/').next().unwrap_or_default();
    let (class, values) = match declared {
        Value::Null => (Class::Filled, sample(field)),
        Value::Array(_) => (Class::Added, sample(field)),
        Value::Object(_) => (Class::Undeclared, Vec::new()),
        scalar => (Class::Changed, others(scalar)),
    };
    let way = |value| json!([{"op": "add", "path": pointer, "value": value}]);
    let ways = values.into_iter().map(way).collect();
    let pointer = if class == Class::Added { format!("{pointer}/0") } else { pointer };
    Edit { class, pointer, ways }
}
