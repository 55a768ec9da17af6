//! Whether an object can be what it says it is.

use k8s_openapi::{
    api::autoscaling::v1::Scale,
    serde::{Serialize, de::DeserializeOwned},
};
use serde_json::{Map, Value};

use super::{
    names::{annotation_errors, is_dns_name, is_file_name, label_errors},
    refusal::FieldError,
    resource::Resource,
};

/// An object as its type writes it: fields that the type does not have are dropped. The error says what does not fit.
pub(super) fn through<T: Serialize + DeserializeOwned>(object: Value) -> Result<Value, String> {
    let object: T = serde_json::from_value(object).map_err(|error| error.to_string())?;
    let mut object = serde_json::to_value(object).map_err(|error| error.to_string())?;
    drop_empty(&mut object);
    Ok(object)
}

/// Lists and maps without elements are not written; structures without fields are.
fn drop_empty(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(drop_empty);
            fields.retain(|name, field| {
                !is_empty(field) || (field.is_object() && !MAPS.contains(&name.as_str()))
            });
        }
        Value::Array(elements) => elements.iter_mut().for_each(drop_empty),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[rustfmt::skip]
const MAPS: [&str; 9] = [
    "labels", "annotations", "matchLabels", "nodeSelector", "limits", "requests", "data", "binaryData", "stringData",
];

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

/// A `Scale` as its type writes it. The error says what does not fit.
pub(super) fn typed_scale(scale: Value) -> Result<Value, String> {
    through::<Scale>(scale)
}

/// The first field that was sent and that the type does not have.
pub(super) fn unknown_field(sent: &Value, kept: &Value) -> Option<String> {
    find_lost(sent, kept, "")
}

fn find_lost(sent: &Value, kept: &Value, path: &str) -> Option<String> {
    match (sent, kept) {
        (Value::Object(sent), Value::Object(kept)) => {
            let said = sent.iter().filter(|(_, value)| !value.is_null() && !is_empty(value));
            said.clone().find_map(|(name, value)| {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                kept.get(name).map_or_else(|| Some(path.clone()), |kept| find_lost(value, kept, &path))
            })
        }
        (Value::Array(sent), Value::Array(kept)) => {
            let mut pairs = sent.iter().zip(kept).enumerate();
            pairs.find_map(|(index, (sent, kept))| find_lost(sent, kept, &format!("{path}[{index}]")))
        }
        _ => None,
    }
}

/// What is wrong with an object, and with how it came from what it was.
pub(super) fn errors(resource: &Resource, object: &Value, before: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let name = object["metadata"]["name"].as_str().unwrap_or("");
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else if !is_dns_name(name) {
        errors.push(FieldError::invalid("metadata.name", &name.into(), NAME_RULE));
    }
    label_errors("metadata.labels", &object["metadata"]["labels"], &mut errors);
    annotation_errors("metadata.annotations", &object["metadata"]["annotations"], &mut errors);
    match resource.kind {
        "Deployment" => deployment(object, before, &mut errors),
        "Service" => service(object, &mut errors),
        "Secret" => {
            keys("data", &object["data"], &mut errors);
            if before.is_some_and(|before| before["type"] != object["type"]) {
                errors.push(FieldError::invalid("type", &object["type"], "field is immutable"));
            }
        }
        "ConfigMap" => ["data", "binaryData"].iter().for_each(|map| keys(map, &object[map], &mut errors)),
        _ => {}
    }
    errors
}

fn keys(map: &str, data: &Value, errors: &mut Vec<FieldError>) {
    for key in data.as_object().into_iter().flat_map(Map::keys).filter(|key| !is_file_name(key)) {
        errors.push(FieldError::invalid(format!("{map}[{key}]"), &key.as_str().into(), DATA_KEY_RULE));
    }
}

const NAME_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";

const DATA_KEY_RULE: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";

fn deployment(object: &Value, before: Option<&Value>, errors: &mut Vec<FieldError>) {
    let spec = &object["spec"];
    if spec["replicas"].as_i64().is_some_and(|replicas| replicas < 0) {
        errors.push(FieldError::invalid(
            "spec.replicas",
            &spec["replicas"],
            "must be greater than or equal to 0",
        ));
    }
    let selector = &spec["selector"];
    let template = &spec["template"];
    match selector["matchLabels"].as_object().filter(|labels| !labels.is_empty()) {
        None if selector["matchExpressions"].as_array().is_none_or(Vec::is_empty) => {
            errors.push(FieldError::required("spec.selector", ""));
            let why = "empty selector is invalid for deployment";
            errors.push(FieldError::invalid("spec.template.metadata.labels", &Value::Null, why));
        }
        None => {}
        Some(wanted) => {
            let labels = &template["metadata"]["labels"];
            if wanted.iter().any(|(name, value)| labels.get(name) != Some(value)) {
                let why = "`selector` does not match template `labels`";
                errors.push(FieldError::invalid("spec.template.metadata.labels", labels, why));
            }
        }
    }
    label_errors("spec.template.labels", &template["metadata"]["labels"], errors);
    annotation_errors("spec.template.annotations", &template["metadata"]["annotations"], errors);
    let containers = template["spec"]["containers"].as_array().map_or(&[][..], Vec::as_slice);
    if containers.is_empty() {
        errors.push(FieldError::required("spec.template.spec.containers", ""));
    }
    for (index, container) in containers.iter().enumerate() {
        for field in ["name", "image"] {
            if container[field].as_str().is_none_or(str::is_empty) {
                errors.push(FieldError::required(
                    format!("spec.template.spec.containers[{index}].{field}"),
                    "",
                ));
            }
        }
    }
    if before.is_some_and(|before| before["spec"]["selector"] != *selector) {
        errors.push(FieldError::invalid("spec.selector", selector, "field is immutable"));
    }
}

fn service(object: &Value, errors: &mut Vec<FieldError>) {
    let spec = &object["spec"];
    label_errors("spec.selector", &spec["selector"], errors);
    let ports = spec["ports"].as_array().map_or(&[][..], Vec::as_slice);
    if ports.is_empty() && spec["type"] != "ExternalName" && spec["clusterIP"] != "None" {
        errors.push(FieldError::required("spec.ports", ""));
    }
    for (index, port) in ports.iter().enumerate() {
        if !port["port"].as_i64().is_some_and(|number| (1..=65_535).contains(&number)) {
            let field = format!("spec.ports[{index}].port");
            errors.push(FieldError::invalid(field, &port["port"], "must be between 1 and 65535, inclusive"));
        }
    }
}
