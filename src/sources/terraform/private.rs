//! What is sealed in a published baseline beside what may never be told: whatever people put secrets into by mistake.

use serde_json::Value;

use crate::{
    diff::{is_sealed, seal},
    sources::scopes::is_built_in,
    types::{ObjectName, RedactionKey},
};

/// Attributes and fields all of whose texts are sealed, wherever they stand.
const PRIVATE: &[&str] = &[
    "annotations",
    "template_annotations",
    "data",
    "binary_data",
    "binaryData",
    "args",
    "command",
    "parameters",
    "volume_attributes",
    "volumeAttributes",
];

/// Lists of names and values, whose values are sealed.
const VARIABLES: &[&str] = &["env", "http_header", "httpHeaders"];

/// Seals what is declared for an object in environment variables, annotations, data, arguments, and anywhere in custom
/// resources.
pub(super) fn seal_private(key: &RedactionKey, object: &ObjectName, body: &mut Value) {
    let is_custom = !is_built_in(&object.group);
    let Value::Object(members) = body else { return };
    for (name, member) in members {
        match name.as_str() {
            "apiVersion" | "kind" => {}
            "metadata" => walk(key, member),
            name if PRIVATE.contains(&name) => seal_texts(key, member),
            _ if is_custom => seal_custom(key, member),
            name if VARIABLES.contains(&name) => seal_values(key, member),
            _ => walk(key, member),
        }
    }
}

fn walk(key: &RedactionKey, value: &mut Value) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(|element| walk(key, element)),
        Value::Object(members) => {
            for (name, member) in members {
                match name.as_str() {
                    name if VARIABLES.contains(&name) => seal_values(key, member),
                    name if PRIVATE.contains(&name) => seal_texts(key, member),
                    _ => walk(key, member),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Seals the values of environment variables, not their names.
fn seal_values(key: &RedactionKey, variables: &mut Value) {
    for variable in variables.as_array_mut().into_iter().flatten() {
        if let Some(value) = variable.get_mut("value") {
            seal_texts(key, value);
        }
    }
}

/// Seals all texts but names, by which elements of lists are known, and what we wrote down ourselves.
fn seal_custom(key: &RedactionKey, value: &mut Value) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(|element| seal_custom(key, element)),
        Value::Object(members) => {
            let others = members.iter_mut().filter(|(name, _)| *name != "name" && !name.starts_with('('));
            others.for_each(|(_, member)| seal_custom(key, member));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => seal_texts(key, value),
    }
}

fn seal_texts(key: &RedactionKey, value: &mut Value) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(|element| seal_texts(key, element)),
        Value::Object(members) => members.values_mut().for_each(|member| seal_texts(key, member)),
        Value::String(text) if !text.is_empty() && !is_sealed(text) => *text = seal(key, text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::seal_private;
    use crate::types::{ObjectName, RedactionKey};

    fn sealed(group: &str, mut body: Value) -> String {
        let object = ObjectName {
            group: group.into(),
            version: "v1".into(),
            kind: "Any".into(),
            namespace: "shop".into(),
            name: "a".into(),
        };
        seal_private(&RedactionKey::new([1; 32]), &object, &mut body);
        body.to_string()
    }

    #[test]
    fn what_people_put_secrets_into_is_sealed_and_what_they_look_for_is_not() {
        let container = json!({"name": "web", "image": "nginx", "env": [{"name": "TOKEN", "value": "hunter2"}], "args": ["hunter2"],
            "liveness_probe": [{"exec": [{"command": ["hunter2"]}]}]});
        let metadata = json!([{"name": "a", "labels": {"team": "x"}, "annotations": {"note": "hunter2"}}]);
        let text = sealed(
            "apps",
            json!({"metadata": metadata, "spec": [{"replicas": "3", "container": [container]}]}),
        );
        assert!(!text.contains("hunter2"), "{text}");
        for plain in ["\"nginx\"", "\"TOKEN\"", "\"3\"", "{\"team\":\"x\"}"] {
            assert!(text.contains(plain), "{plain} in {text}");
        }
    }

    #[test]
    fn of_custom_resources_every_text_is_sealed() {
        let text = sealed(
            "example.com",
            json!({"kind": "Any", "metadata": {"name": "a"}, "spec": {"teeth": 12, "users": [{"token": "hunter2"}]}}),
        );
        assert!(!text.contains("hunter2") && text.contains("12") && text.contains("\"Any\""), "{text}");
    }
}
