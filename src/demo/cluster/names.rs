//! What names, labels and annotations may look like.

use serde_json::Value;

use super::refusal::FieldError;

/// Whether an object can have this name.
pub(super) fn is_dns_name(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= 253 && name.starts_with(edge) && name.ends_with(edge) && name.chars().all(inner)
}

/// Whether something in a Secret or `ConfigMap` can have this key.
pub(super) fn is_file_name(key: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !key.is_empty() && key.len() <= 253 && key != "." && !key.starts_with("..") && key.chars().all(fits)
}

/// What is wrong with labels.
pub(super) fn label_errors(field: &str, labels: &Value, errors: &mut Vec<FieldError>) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        if !is_qualified_name(key) {
            errors.push(FieldError::invalid(field, &key.as_str().into(), KEY_RULE));
        }
        if !value.as_str().is_some_and(|value| value.is_empty() || is_word(value)) {
            errors.push(FieldError::invalid(field, value, VALUE_RULE));
        }
    }
}

/// What is wrong with annotations: only their keys are looked at, and not whether they are in upper case.
pub(super) fn annotation_errors(field: &str, annotations: &Value, errors: &mut Vec<FieldError>) {
    for key in annotations.as_object().into_iter().flat_map(serde_json::Map::keys) {
        if !is_qualified_name(&key.to_lowercase()) {
            errors.push(FieldError::invalid(field, &key.as_str().into(), KEY_RULE));
        }
    }
}

const KEY_RULE: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character, with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue')";

/// `name`, or `prefix.example/name`.
fn is_qualified_name(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_dns_name(prefix) && is_word(name),
        None => is_word(key),
    }
}

fn is_word(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    let inner = |c: char| edge(c) || "-_.".contains(c);
    text.len() <= 63 && text.starts_with(edge) && text.ends_with(edge) && text.chars().all(inner)
}
