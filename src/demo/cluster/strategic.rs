//! Strategic merge: maps are merged, lists with a key are merged by it, other lists are replaced.

use serde_json::{Map, Value};

use super::schema::{ListType, list_type};

/// Merges a patch into an object. The error is the real server's sentence.
pub(super) fn merge(object: &mut Value, patch: &Value) -> Result<(), String> {
    let patch = patch.as_object().ok_or("a patch is a JSON object")?;
    merge_map("", object, patch)
}

const SET_ORDER: &str = "$setElementOrder/";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";

fn merge_map(own_name: &str, target: &mut Value, patch: &Map<String, Value>) -> Result<(), String> {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let fields = target.as_object_mut().expect("it was just made an object");
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
        Some(other) => return Err(format!("unknown patch type found: {other}")),
    }
    if let Some(keep) = patch.get("$retainKeys").and_then(Value::as_array) {
        fields.retain(|name, _| keep.iter().any(|kept| kept == name.as_str()));
    }
    for (name, value) in patch.iter().filter(|(name, _)| !name.starts_with('$')) {
        merge_field(own_name, fields, name, value)?;
    }
    for (directive, value) in patch {
        let values = || value.as_array().ok_or_else(|| format!("{directive} is no list"));
        if let Some(name) = directive.strip_prefix(DELETE_FROM) {
            let gone = values()?;
            if let Some(list) = fields.get_mut(name).and_then(Value::as_array_mut) {
                list.retain(|element| !gone.contains(element));
            }
        } else if let Some(name) = directive.strip_prefix(SET_ORDER) {
            let order = values()?;
            let key = merge_key(list_type(own_name, name));
            if let Some(list) = fields.get_mut(name).and_then(Value::as_array_mut) {
                let was = list.clone();
                *list = in_order(std::mem::take(list), order, &was, key);
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
) -> Result<(), String> {
    match value {
        Value::Null => {
            fields.remove(name);
        }
        Value::Object(patch) => {
            let target = fields.entry(name).or_insert(Value::Null);
            merge_map(name, target, patch)?;
            // A map that only deletes, where there was none, makes none.
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
                let was = target.as_array().cloned().unwrap_or_default();
                *target = merge_list(&was, patch, merge_key(list))?.into();
            }
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            fields.insert(name.to_owned(), value.clone());
        }
    }
    Ok(())
}

fn merge_list(was: &[Value], patch: &[Value], key: Option<&str>) -> Result<Vec<Value>, String> {
    let directive = |element: &Value| element.get("$patch").and_then(Value::as_str).map(str::to_owned);
    if patch.iter().any(|element| directive(element).as_deref() == Some("replace")) {
        let kept = patch.iter().filter(|element| directive(element).is_none());
        return Ok(kept.cloned().collect());
    }
    let mut merged = was.to_vec();
    for element in patch {
        let Some(key) = key else {
            if !merged.contains(element) {
                merged.push(element.clone());
            }
            continue;
        };
        let fields = element.as_object().ok_or("an element of a list with keys is a JSON object")?;
        let id = fields
            .get(key)
            .ok_or_else(|| format!("map: {element} does not contain declared merge key: {key}"))?;
        let found = merged.iter().position(|own| own.get(key) == Some(id));
        match (directive(element).as_deref(), found) {
            (Some("delete"), Some(at)) => {
                merged.remove(at);
            }
            (Some("delete"), None) => {}
            (_, Some(at)) => merge_map("", &mut merged[at], fields)?,
            (_, None) => {
                let mut new = Value::Null;
                merge_map("", &mut new, fields)?;
                merged.push(new);
            }
        }
    }
    Ok(in_order(merged, patch, was, key))
}

/// The elements that `order` names in that order; the others keep their place among those that were there before.
fn in_order(list: Vec<Value>, order: &[Value], was: &[Value], key: Option<&str>) -> Vec<Value> {
    let id = |element: &Value| key.map_or_else(|| Some(element.clone()), |key| element.get(key).cloned());
    let place = |within: &[Value], element: &Value| {
        let own = id(element);
        within.iter().position(|other| own.is_some() && id(other) == own)
    };
    let (mut named, others): (Vec<Value>, Vec<Value>) =
        list.into_iter().partition(|element| place(order, element).is_some());
    named.sort_by_key(|element| place(order, element));
    let mut sorted = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for element in named {
        let here = place(was, &element);
        while let Some(other) = others
            .next_if(|other| here.is_some_and(|here| place(was, other).is_some_and(|there| there < here)))
        {
            sorted.push(other);
        }
        sorted.push(element);
    }
    sorted.extend(others);
    sorted
}

fn merge_key(list: ListType) -> Option<&'static str> {
    match list {
        ListType::Keyed(keys) => keys.first().copied(),
        ListType::Set | ListType::Atomic => None,
    }
}

fn without_directives(patch: &Map<String, Value>) -> Map<String, Value> {
    let kept = patch.iter().filter(|(name, value)| !name.starts_with('$') && !value.is_null());
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::merge;

    #[track_caller]
    fn check(mut object: Value, patch: &Value, wanted: &Value) {
        merge(&mut object, patch).unwrap();
        assert_eq!(object, *wanted);
    }

    #[test]
    fn containers_are_merged_by_name_and_keep_their_order() {
        check(
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1", "args": ["x"]}]}),
            &json!({"$setElementOrder/containers": [{"name": "a"}, {"name": "b"}], "containers": [{"name": "b", "image": "2"}]}),
            &json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2", "args": ["x"]}]}),
        );
    }

    #[test]
    fn elements_can_be_added_in_place_and_deleted() {
        check(
            json!({"env": [{"name": "A", "value": "1"}, {"name": "C", "value": "3"}]}),
            &json!({
                "$setElementOrder/env": [{"name": "B"}, {"name": "C"}],
                "env": [{"name": "B", "value": "2"}, {"name": "A", "$patch": "delete"}],
            }),
            &json!({"env": [{"name": "B", "value": "2"}, {"name": "C", "value": "3"}]}),
        );
    }

    #[test]
    fn null_removes_retain_keys_keeps_and_other_lists_are_replaced() {
        check(
            json!({"labels": {"a": "1", "b": "2"}, "strategy": {"type": "RollingUpdate", "rollingUpdate": {}}, "args": ["x"]}),
            &json!({
                "labels": {"a": null}, "strategy": {"$retainKeys": ["type"], "type": "Recreate"}, "args": ["y", "z"],
            }),
            &json!({"labels": {"b": "2"}, "strategy": {"type": "Recreate"}, "args": ["y", "z"]}),
        );
    }

    #[test]
    fn an_element_without_its_key_is_refused() {
        let error = merge(&mut json!({}), &json!({"containers": [{"image": "x"}]})).unwrap_err();
        assert!(error.contains("does not contain declared merge key: name"), "{error}");
    }
}
