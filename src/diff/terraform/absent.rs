//! Attributes that a state does not have at all: the provider that wrote it did not know them yet.
//!
//! A provider writes every attribute of its schema, and null where there is nothing. So what is missing is in no schema of that
//! version, and a refresh by it does not read it. That is no drift: it is blind.

use serde_json::{Map, Value};

use super::table::Table;

/// Where attributes keep what is absent from them: a tree of attributes, whose leaves are `true`. No attribute is called so.
pub(super) const ABSENT: &str = "(absent)";

/// Says in that tree that a provider before 2.0 wrote the state, which read some things otherwise.
const FIRST: &str = "(first)";

/// Writes down which attributes of its type a resource does not have. To be asked before anything is left out of it.
pub fn mark_absent(resource_type: &str, attributes: &mut Value) {
    let table = Table::get();
    // Only the first providers wrote links.
    let is_first = attributes["metadata"][0].get("self_link").is_some();
    let (Some(row), Value::Object(members)) = (table.type_called(resource_type), attributes) else {
        return;
    };
    // It is there where the attributes were read once already, and published.
    if members.contains_key(ABSENT) {
        return;
    }
    let mut absent = Map::new();
    find_absent(table, row.shape, members, &mut absent);
    if is_first {
        absent.insert(FIRST.to_owned(), true.into());
    }
    members.insert(ABSENT.to_owned(), Value::Object(absent));
}

/// Where objects in documents keep the names of what is known and not set. No field is called so.
pub(super) const UNSET: &str = "(unset)";

/// Writes down the known fields that are null in a document. An object that has some has a schema, and what is neither in it
/// nor among these is not read.
pub fn mark_unset(value: &mut Value) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(mark_unset),
        Value::Object(members) => {
            members.values_mut().for_each(mark_unset);
            let unset = members.iter().filter(|(_, member)| member.is_null());
            let unset: Vec<Value> = unset.map(|(name, _)| name.as_str().into()).collect();
            if !unset.is_empty() {
                members.insert(UNSET.to_owned(), unset.into());
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether an attribute is absent by what is known about the block that it is in.
pub(super) fn is_absent(absent: &Value, attribute: &str) -> bool {
    absent[attribute] == Value::Bool(true)
}

/// Whether a provider before 2.0 wrote the state.
pub(super) fn is_of_first(absent: &Value) -> bool {
    is_absent(absent, FIRST)
}

fn find_absent(table: &Table, shape: usize, block: &Map<String, Value>, absent: &mut Map<String, Value>) {
    for field in &table.shape(shape).fields {
        let name = field.attribute;
        let Some(value) = block.get(name) else {
            absent.insert(name.to_owned(), true.into());
            continue;
        };
        let Some(shape) = field.holds.shape() else { continue };
        let mut inner = match absent.remove(name) {
            Some(Value::Object(inner)) => inner,
            _ => Map::new(),
        };
        let blocks = value.as_array().into_iter().flatten().filter_map(Value::as_object);
        blocks.for_each(|block| find_absent(table, shape, block, &mut inner));
        if !inner.is_empty() {
            absent.insert(name.to_owned(), Value::Object(inner));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{ABSENT, is_of_first, mark_absent};

    fn absent(spec: &Value) -> Value {
        let mut attributes = json!({"metadata": [{"annotations": null, "labels": null}], "spec": [spec]});
        mark_absent("kubernetes_service", &mut attributes);
        attributes[ABSENT]["spec"].take()
    }

    #[test]
    fn what_is_null_is_there_and_what_is_missing_is_absent() {
        let absent = absent(&json!({"cluster_ip": null, "port": [{"port": 80, "protocol": "TCP"}]}));
        assert_eq!((&absent["cluster_ip"], &absent["type"]), (&Value::Null, &json!(true)));
        assert_eq!((&absent["port"]["port"], &absent["port"]["app_protocol"]), (&Value::Null, &json!(true)));
    }

    #[test]
    fn what_was_marked_once_stays() {
        let mut attributes = json!({"(absent)": {}, "metadata": []});
        mark_absent("kubernetes_service", &mut attributes);
        assert_eq!(attributes[ABSENT], json!({}));
    }

    #[test]
    fn the_first_providers_are_known_by_their_links() {
        for (link, known) in [("self_link", true), ("uid", false)] {
            let mut attributes = json!({"metadata": [{link: ""}]});
            mark_absent("kubernetes_service", &mut attributes);
            assert_eq!(is_of_first(&attributes[ABSENT]), known, "{link}");
        }
    }
}
