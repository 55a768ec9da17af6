//! JSON patch, JSON merge patch and strategic merge patch.

use http::{HeaderMap, header::CONTENT_TYPE};
use serde_json::{Map, Value};

use super::{
    errors::StatusError,
    resources::{ListType, list_type},
};

#[derive(Debug)]
pub(super) enum Patch {
    /// RFC 6902.
    Json(json_patch::Patch),
    /// RFC 7396.
    Merge(Value),
    /// Lists with a merge key are merged by it. kubectl sends this type by default.
    Strategic(Value),
}

impl Patch {
    /// The content type decides on the patch type.
    pub(super) fn parse(headers: &HeaderMap, body: &[u8]) -> Result<Self, StatusError> {
        let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
        match content_type.split(';').next().unwrap_or("").trim() {
            "application/json-patch+json" => parse_json_patch(body).map(Self::Json),
            "application/merge-patch+json" => parse_object(body, "error decoding patch: ").map(Self::Merge),
            "application/strategic-merge-patch+json" => parse_object(body, "").map(Self::Strategic),
            "application/apply-patch+yaml" => Err(StatusError::not_implemented("server-side apply")),
            _ => Err(StatusError::unsupported_media_type()),
        }
    }

    pub(super) fn apply(&self, object: &Value) -> Result<Value, StatusError> {
        let mut patched = object.clone();
        match self {
            Self::Json(patch) => {
                json_patch::patch(&mut patched, patch).map_err(|_| StatusError::unprocessable_entity())?;
            }
            Self::Merge(patch) => json_patch::merge(&mut patched, patch),
            Self::Strategic(patch) => strategic_merge(&mut patched, patch)?,
        }
        Ok(patched)
    }
}

fn parse_object(body: &[u8], prefix: &str) -> Result<Value, StatusError> {
    match serde_json::from_slice::<Value>(body) {
        Ok(patch @ Value::Object(_)) => Ok(patch),
        Ok(_) => Err(StatusError::bad_request(format!("{prefix}a patch is a JSON object"))),
        Err(error) => Err(StatusError::bad_request(format!("{prefix}{error}"))),
    }
}

/// As in the real API server, a malformed body is a bad request and an invalid operation is unprocessable.
fn parse_json_patch(body: &[u8]) -> Result<json_patch::Patch, StatusError> {
    let operations: Vec<Value> = serde_json::from_slice(body)
        .map_err(|error| StatusError::bad_request(format!("error decoding patch: {error}")))?;
    if !operations.iter().all(Value::is_object) {
        return Err(StatusError::bad_request("error decoding patch: an operation is a JSON object"));
    }
    serde_json::from_value(Value::Array(operations)).map_err(|_| StatusError::unprocessable_entity())
}

/// The messages are those of the real API server.
fn strategic_merge(object: &mut Value, patch: &Value) -> Result<(), StatusError> {
    let patch = patch.as_object().ok_or_else(|| StatusError::internal("a patch is a JSON object"))?;
    merge_map("", object, patch)
}

const SET_ELEMENT_ORDER: &str = "$setElementOrder/";
const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList/";

fn merge_map(field_name: &str, target: &mut Value, patch: &Map<String, Value>) -> Result<(), StatusError> {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let fields = target.as_object_mut().expect("target is an object");
    match patch.get("$patch").and_then(Value::as_str) {
        None | Some("merge") => {}
        Some("delete") => {
            fields.clear();
            return Ok(());
        }
        Some("replace") => {
            *fields = without_directives(patch);
            return Ok(());
        }
        Some(other) => return Err(StatusError::internal(format!("unknown patch type found: {other}"))),
    }
    if let Some(retained) = patch.get("$retainKeys").and_then(Value::as_array) {
        fields.retain(|name, _| retained.iter().any(|key| key == name.as_str()));
    }
    for (name, value) in patch.iter().filter(|(name, _)| !name.starts_with('$')) {
        merge_field(field_name, fields, name, value)?;
    }
    for (directive, value) in patch {
        let values =
            || value.as_array().ok_or_else(|| StatusError::internal(format!("{directive} is no list")));
        if let Some(name) = directive.strip_prefix(DELETE_FROM_PRIMITIVE_LIST) {
            let deleted = values()?;
            if let Some(list) = fields.get_mut(name).and_then(Value::as_array_mut) {
                list.retain(|element| !deleted.contains(element));
            }
        } else if let Some(name) = directive.strip_prefix(SET_ELEMENT_ORDER) {
            let order = values()?;
            let key = merge_key(list_type(field_name, name));
            if let Some(list) = fields.get_mut(name).and_then(Value::as_array_mut) {
                let previous = list.clone();
                *list = ordered_as(std::mem::take(list), order, &previous, key);
            }
        }
    }
    Ok(())
}

fn merge_field(
    parent: &str,
    fields: &mut Map<String, Value>,
    name: &str,
    value: &Value,
) -> Result<(), StatusError> {
    match value {
        Value::Null => {
            fields.remove(name);
        }
        Value::Object(patch) => {
            let target = fields.entry(name).or_insert(Value::Null);
            merge_map(name, target, patch)?;
            // `$patch: delete` removes the map and does not create an empty one.
            if patch.get("$patch").is_some_and(|directive| directive == "delete") {
                fields.remove(name);
            }
        }
        Value::Array(patch) => {
            let list = list_type(parent, name);
            if list == ListType::Atomic {
                fields.insert(name.to_owned(), value.clone());
            } else {
                let target = fields.entry(name).or_insert_with(|| Value::Array(Vec::new()));
                let previous = target.as_array().cloned().unwrap_or_default();
                *target = merge_list(&previous, patch, merge_key(list))?.into();
            }
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            fields.insert(name.to_owned(), value.clone());
        }
    }
    Ok(())
}

fn merge_list(previous: &[Value], patch: &[Value], key: Option<&str>) -> Result<Vec<Value>, StatusError> {
    let directive = |element: &Value| element.get("$patch").and_then(Value::as_str).map(str::to_owned);
    if patch.iter().any(|element| directive(element).as_deref() == Some("replace")) {
        let replacement = patch.iter().filter(|element| directive(element).is_none());
        return Ok(replacement.cloned().collect());
    }
    let mut merged = previous.to_vec();
    for element in patch {
        let Some(key) = key else {
            if !merged.contains(element) {
                merged.push(element.clone());
            }
            continue;
        };
        let fields = element
            .as_object()
            .ok_or_else(|| StatusError::internal("an element of a list with keys is a JSON object"))?;
        let no_key =
            || StatusError::internal(format!("map: {element} does not contain declared merge key: {key}"));
        let key_value = fields.get(key).ok_or_else(no_key)?;
        let found = merged.iter().position(|existing| existing.get(key) == Some(key_value));
        match (directive(element).as_deref(), found) {
            (Some("delete"), Some(index)) => {
                merged.remove(index);
            }
            (Some("delete"), None) => {}
            (_, Some(index)) => merge_map("", &mut merged[index], fields)?,
            (_, None) => {
                let mut added = Value::Null;
                merge_map("", &mut added, fields)?;
                merged.push(added);
            }
        }
    }
    Ok(ordered_as(merged, patch, previous, key))
}

/// Sorts the elements in `order` accordingly. The others keep their position relative to the previous list.
fn ordered_as(list: Vec<Value>, order: &[Value], previous: &[Value], key: Option<&str>) -> Vec<Value> {
    let key_value =
        |element: &Value| key.map_or_else(|| Some(element.clone()), |key| element.get(key).cloned());
    let position = |within: &[Value], element: &Value| {
        let wanted = key_value(element);
        within.iter().position(|other| wanted.is_some() && key_value(other) == wanted)
    };
    let (mut ordered, others): (Vec<Value>, Vec<Value>) =
        list.into_iter().partition(|element| position(order, element).is_some());
    ordered.sort_by_key(|element| position(order, element));
    let mut sorted = Vec::with_capacity(ordered.len() + others.len());
    let mut others = others.into_iter().peekable();
    for element in ordered {
        let anchor = position(previous, &element);
        while let Some(other) = others.next_if(|other| {
            anchor.is_some_and(|anchor| position(previous, other).is_some_and(|index| index < anchor))
        }) {
            sorted.push(other);
        }
        sorted.push(element);
    }
    sorted.extend(others);
    sorted
}

fn merge_key(list: ListType) -> Option<&'static str> {
    match list {
        ListType::Map(keys) => keys.first().copied(),
        ListType::Set | ListType::Atomic => None,
    }
}

fn without_directives(patch: &Map<String, Value>) -> Map<String, Value> {
    let fields = patch.iter().filter(|(name, value)| !name.starts_with('$') && !value.is_null());
    fields.map(|(name, value)| (name.clone(), value.clone())).collect()
}
