//! Which values of a resource may not be told, and their replacement by digests.

use serde_json::Value;

use crate::{diff::seal_all, types::RedactionKey};

/// Attributes, without indices, that a state marks as sensitive: `[{"type":"get_attr","value":"data"}, …]` each.
pub(super) fn sensitive_paths(marked: &Value) -> Vec<Box<str>> {
    let paths = marked.as_array().map_or(&[][..], Vec::as_slice);
    paths.iter().filter_map(|path| path.as_array()).map(|steps| path_of(steps)).collect()
}

/// The same from `terraform show -json`, which marks with `true` in a document of the same form.
pub(super) fn sensitive_marks(marked: &Value) -> Vec<Box<str>> {
    let mut found = Vec::new();
    collect_marks(marked, &mut Vec::new(), &mut found);
    found
}

fn collect_marks<'a>(marked: &'a Value, path: &mut Vec<&'a str>, found: &mut Vec<Box<str>>) {
    match marked {
        Value::Bool(true) => found.push(path.join(".").into()),
        Value::Array(elements) => elements.iter().for_each(|element| collect_marks(element, path, found)),
        Value::Object(members) => {
            for (name, member) in members {
                // A key of a map is no attribute: the whole map is covered then, which may be too much and never too little.
                if member == &Value::Bool(true) && !is_attribute(name) {
                    found.push(path.join(".").into());
                    continue;
                }
                path.push(name);
                collect_marks(member, path, found);
                path.pop();
            }
        }
        Value::Null | Value::Bool(false) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_attribute(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

fn path_of(steps: &[Value]) -> Box<str> {
    let mut names = Vec::new();
    for step in steps {
        match (step["type"].as_str(), &step["value"]) {
            (Some("get_attr"), Value::String(name)) => names.push(name.as_str()),
            (Some("index"), index) if index["value"].is_number() => {}
            // A key of a map, or something that is not known: all of what it is in.
            _ => break,
        }
    }
    names.join(".").into()
}

/// Replaces the values at a path of attributes by digests, in every element of lists on the way.
pub(super) fn seal_at(key: &RedactionKey, value: &mut Value, path: &str) {
    if path.is_empty() {
        return seal_all(key, value);
    }
    if let Value::Array(elements) = value {
        elements.iter_mut().for_each(|element| seal_at(key, element, path));
        return;
    }
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    match value {
        Value::Object(members) => {
            if let Some(member) = members.get_mut(first) {
                seal_at(key, member, rest);
            } else if !members.is_empty() {
                // It is marked and not found, so it may be anything in here.
                members.values_mut().for_each(|member| seal_all(key, member));
            }
        }
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => seal_all(key, value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{RedactionKey, seal_at, sensitive_marks, sensitive_paths};

    #[test]
    fn paths_are_attributes_without_indices_and_stop_at_keys() {
        let marked = json!([
            [{"type": "get_attr", "value": "data"}],
            [{"type": "get_attr", "value": "spec"}, {"type": "index", "value": {"value": 0, "type": "number"}}, {"type": "get_attr", "value": "a"}],
            [{"type": "get_attr", "value": "data"}, {"type": "index", "value": {"value": "k", "type": "string"}}],
            7, []]);
        let paths: Vec<_> = sensitive_paths(&marked).into_iter().map(String::from).collect();
        assert_eq!(paths, ["data", "spec.a", "data", ""]);
        let marks = sensitive_marks(&json!({"data": {"K": true}, "spec": [{"a": true, "b": false}]}));
        assert_eq!(marks.iter().map(|mark| &**mark).collect::<Vec<_>>(), ["data", "spec.a"]);
    }

    #[test]
    fn what_is_marked_is_sealed_wherever_it_stands() {
        let key = RedactionKey::new([1; 32]);
        let mut value = json!({"spec": [{"a": "hunter2", "b": "x"}, {"a": {"c": "hunter2"}}]});
        seal_at(&key, &mut value, "spec.a");
        assert!(!value.to_string().contains("hunter") && value["spec"][0]["b"] == "x");
        let mut value = json!({"spec": "hunter2"});
        seal_at(&key, &mut value, "");
        assert!(!value.to_string().contains("hunter"));
    }
}
