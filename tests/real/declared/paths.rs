//! Resolves finding paths to JSON Pointers, and compares them with the pointer of the edit.

use drift_exporter::types::{FieldPath, Segment};
use serde_json::Value;

use super::values::UNIQUE_FIELDS;

/// The pointers of a path in an object: several if elements share their keys, none if the path does not exist.
pub(super) fn pointers(path: &str, object: &Value) -> Vec<String> {
    let path: FieldPath = path.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut places = vec![(String::new(), object)];
    for segment in path.segments() {
        places = places.into_iter().flat_map(|(pointer, at)| step(segment, &pointer, at)).collect();
    }
    places.into_iter().map(|(pointer, _)| pointer).collect()
}

fn step<'a>(segment: &Segment, pointer: &str, at: &'a Value) -> Vec<(String, &'a Value)> {
    let text = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let is_it = |index: usize, element: &Value| match segment {
        Segment::Field(_) => false,
        Segment::Index(other) => index == *other,
        Segment::Value(value) => *text(element) == **value,
        Segment::Element(keys) => keys.iter().all(|(key, value)| *text(&element[key.as_str()]) == **value),
    };
    if let Segment::Field(name) = segment {
        return vec![(
            format!("{pointer}/{}", name.as_str().replace('~', "~0").replace('/', "~1")),
            &at[name.as_str()],
        )];
    }
    let elements = at.as_array().into_iter().flatten().enumerate();
    let matching = elements.filter(|(index, element)| is_it(*index, element));
    matching.map(|(index, element)| (format!("{pointer}/{index}"), element)).collect()
}

/// Whether a finding matches an edit: the same field, its atomic list, or the element whose key was edited.
pub(super) fn is_at(found: &str, edited: &str) -> bool {
    let (parent, last) = edited.rsplit_once('/').unwrap_or((edited, ""));
    let is_list = edited.strip_prefix(found).is_some_and(|rest| rest.split('/').skip(1).all(is_index));
    let in_element =
        || UNIQUE_FIELDS.contains(&last) && is_index(parent.rsplit('/').next().unwrap_or_default());
    is_within(found, edited) || is_list || in_element() && is_within(found, parent)
}

fn is_within(inner: &str, outer: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn is_index(step: &str) -> bool {
    !step.is_empty() && step.bytes().all(|byte| byte.is_ascii_digit())
}
