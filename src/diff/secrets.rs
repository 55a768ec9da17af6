//! Secrets, of which nobody keeps the values.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::sealed::{seal_encoded, seal_with};
use crate::types::RedactionKey;

/// Where kubectl writes once more what was applied, values included.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Fields of every Secret that are sealed whatever anybody marks.
pub(super) const SEALED_IN_SECRETS: &[&str] = &["data", "stringData", "metadata.annotations"];

/// Members of every Secret that say what it is. A value in any other place is a value that somebody has misplaced.
const PLAIN: &[&str] = &["apiVersion", "kind", "type", "immutable", "metadata", "data"];
/// The same of its metadata.
const PLAIN_METADATA: &[&str] = &[
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Whether objects of a kind are Secrets.
pub fn is_secret(group: &str, kind: &str) -> bool {
    group.is_empty() && kind == "Secret"
}

/// Replaces the values of a Secret by their digests under each key; documents of other kinds stay as they are.
///
/// What is sealed are the bytes that the values stand for, so that `data`, `stringData` and what a state has in the clear can
/// be compared. `stringData` becomes `data`, as the API server does it. Annotations are sealed too, since tools copy values
/// there; the copy that kubectl keeps is dropped. So is whatever stands where no Secret has anything: a text that lost its
/// indentation is a value all the same.
pub fn seal_live(document: &mut Value, group: &str, kind: &str, keys: &[RedactionKey]) {
    if is_secret(group, kind)
        && let Value::Object(members) = document
    {
        seal_secret(members, keys);
    }
}

/// An object as it may be compared: a Secret with digests under this key, any other as it is.
pub(super) fn sealed<'a>(live: &'a Value, group: &str, kind: &str, key: &RedactionKey) -> Cow<'a, Value> {
    if !is_secret(group, kind) {
        return Cow::Borrowed(live);
    }
    let mut sealed = live.clone();
    seal_live(&mut sealed, group, kind, std::slice::from_ref(key));
    Cow::Owned(sealed)
}

fn seal_secret(members: &mut Map<String, Value>, keys: &[RedactionKey]) {
    match members.get_mut("data") {
        Some(Value::Object(data)) => data.values_mut().for_each(|value| seal_encoded(keys, value)),
        Some(other) => *other = Value::Null,
        None => {}
    }
    if let Some(Value::Object(mut texts)) = members.remove("stringData") {
        texts.values_mut().for_each(|text| seal_with(keys, text));
        match members.get_mut("data") {
            Some(Value::Object(data)) => data.extend(texts),
            _ => drop(members.insert("data".to_owned(), texts.into())),
        }
    }
    seal_all_but(PLAIN, members, keys);
    let Some(metadata) = members.get_mut("metadata") else { return };
    let Value::Object(metadata) = metadata else { return seal_with(keys, metadata) };
    seal_all_but(PLAIN_METADATA, metadata, keys);
    if let Some(annotations) = metadata.get_mut("annotations") {
        if let Value::Object(annotations) = annotations {
            annotations.remove(LAST_APPLIED);
        }
        seal_with(keys, annotations);
    }
}

fn seal_all_but(plain: &[&str], members: &mut Map<String, Value>, keys: &[RedactionKey]) {
    let strays = members.iter_mut().filter(|(name, _)| !plain.contains(&name.as_str()));
    strays.for_each(|(_, value)| seal_with(keys, value));
}

/// Replaces what kubectl wrote down of an object by its digests, wherever it stands: what is sensitive stands there once more.
pub fn seal_last_applied(keys: &[RedactionKey], value: &mut Value) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(|element| seal_last_applied(keys, element)),
        Value::Object(members) => {
            for (name, member) in members {
                if name == LAST_APPLIED {
                    seal_with(keys, member);
                } else {
                    seal_last_applied(keys, member);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Replaces the values of a Secret's attributes that are base64 by the digests of what they stand for, and forgets what
/// kubectl wrote down.
pub fn seal_binary_data(key: &RedactionKey, attributes: &mut Value) {
    if let Some(Value::Object(data)) = attributes.get_mut("binary_data") {
        data.values_mut().for_each(|value| seal_encoded(std::slice::from_ref(key), value));
    }
    if let Some(Value::Object(annotations)) = attributes.pointer_mut("/metadata/0/annotations") {
        annotations.remove(LAST_APPLIED);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::seal_live;
    use crate::types::RedactionKey;

    #[test]
    fn nothing_of_a_secret_is_left_and_sealing_it_again_changes_nothing() {
        let keys = [RedactionKey::new([1; 32]), RedactionKey::new([2; 32])];
        let mut live = json!({"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "canary", "a": "canary"}},
            "data": {"a": "Y2FuYXJ5", "b": "not base64 canary", "c": "", "d": 7}, "stringData": {"e": "canary"}});
        seal_live(&mut live, "", "Secret", &keys);
        let text = live.to_string();
        assert!(
            !text.contains("anary") && !text.contains("Y2Fu") && !text.contains("last-applied"),
            "{text}"
        );
        assert_eq!(live["data"]["a"], live["data"]["e"]);
        let once = live.clone();
        seal_live(&mut live, "", "Secret", &keys);
        assert_eq!(live, once);
        let mut stray = json!({"type": "Opaque", "password": "canary", "stringdata": {"a": ["canary"]}, "image": "canary",
            "metadata": {"name": "a", "labels": {"app": "web"}, "password": "canary"}});
        seal_live(&mut stray, "", "Secret", &keys);
        assert!(!stray.to_string().contains("canary"), "{stray}");
        assert_eq!(
            (&stray["type"], &stray["metadata"]["labels"]),
            (&json!("Opaque"), &json!({"app": "web"}))
        );
        let mut other = json!({"data": {"a": "b"}});
        seal_live(&mut other, "", "ConfigMap", &keys);
        assert_eq!(other, json!({"data": {"a": "b"}}));
    }
}
