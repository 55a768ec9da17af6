//! What was sent, and whether it can be what it is sent as.

use serde_json::{Value, json};

use super::{check, patch::Patch, refusal::Refusal, resource::Resource, schema::skeleton};

/// The object with a change made, if that is an object still.
pub(super) fn patched(patch: &Patch, before: &Value) -> Result<Value, Refusal> {
    let patched = patch.apply(before)?;
    match &patched {
        Value::Object(fields) if fields.contains_key("kind") && fields.contains_key("apiVersion") => {
            Ok(patched)
        }
        Value::Object(_) => Err(Refusal::bad_request("Object 'Kind' or 'apiVersion' is missing")),
        Value::Array(_) => Err(Refusal::bad_patch("a list is no object")),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Err(Refusal::unprocessable()),
    }
}

/// The status that was sent; what the kind has before anything is set, where none was.
pub(super) fn status(resource: &Resource, mut sent: Value) -> Value {
    match sent["status"].take() {
        Value::Null => skeleton(resource.kind)["status"].take(),
        status => status,
    }
}

/// What was sent, as its type understands it, in the namespace that the path names.
pub(super) fn read(
    resource: &Resource,
    namespace: Option<&str>,
    object: Value,
    strict: bool,
) -> Result<Value, Refusal> {
    let text = |name: &str| object[name].as_str().unwrap_or("").to_owned();
    let (kind, api_version) = (text("kind"), text("apiVersion"));
    if !object.is_object()
        || (!kind.is_empty() && kind != resource.kind)
        || (!api_version.is_empty() && api_version != resource.api_version())
    {
        return Err(Refusal::bad_request(format!(
            "{kind} in version \"{api_version}\" cannot be handled as a {}",
            resource.kind
        )));
    }
    let mut object = object;
    object["kind"] = resource.kind.into();
    object["apiVersion"] = resource.api_version().into();
    if object["metadata"].is_null() {
        object["metadata"] = json!({});
    }
    let kept = (resource.typed)(object.clone()).map_err(|why| {
        Refusal::bad_request(format!(
            "{} in version \"{}\" cannot be handled as a {0}: {why}",
            resource.kind, resource.version
        ))
    })?;
    if let Some(field) = check::unknown_field(&object, &kept).filter(|_| strict) {
        return Err(unknown_field(&field));
    }
    in_namespace(namespace, kept)
}

pub(super) fn unknown_field(field: &str) -> Refusal {
    Refusal::bad_request(format!("strict decoding error: unknown field \"{field}\""))
}

pub(super) fn in_namespace(namespace: Option<&str>, mut object: Value) -> Result<Value, Refusal> {
    let metadata = object["metadata"].as_object_mut().expect("a kind has metadata");
    match (namespace, metadata.get("namespace").and_then(Value::as_str)) {
        (Some(wanted), None | Some("")) => {
            metadata.insert("namespace".to_owned(), wanted.into());
        }
        (Some(wanted), Some(own)) if wanted == own => {}
        (None, _) => {
            metadata.remove("namespace");
        }
        (Some(_), Some(_)) => {
            return Err(Refusal::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
    }
    Ok(object)
}

pub(super) fn require_name(sent: &Value, name: &str) -> Result<(), Refusal> {
    match sent["metadata"]["name"].as_str() {
        Some(own) if own != name => Err(Refusal::bad_request(format!(
            "the name of the object ({own}) does not match the name on the URL ({name})"
        ))),
        Some(_) | None => Ok(()),
    }
}
