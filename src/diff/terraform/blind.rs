//! Fields that others have set and the provider never reads.
//!
//! Attributes that a state does not have at all: the provider that wrote it did not know them yet.
//!
//! A provider writes every attribute of its schema, and null where there is nothing. So what is missing is in no schema of that
//! version, and a refresh by it does not read it. That is no drift: it is blind.

use serde_json::{Map, Value};

use super::table::{FieldType, Row, Table};
use crate::{
    diff::{
        ownership::Owners,
        redacted_text::{is_same, is_sealed, shown_path},
    },
    types::{FieldPath, RedactionKey, Segment},
};

/// The field managers that the provider writes as; what they own was declared, or defaulted with it.
pub(in crate::diff) const OWN_MANAGERS: &[&str] = &["HashiCorp", "Terraform"];

/// The fields of an object that somebody else set and a refresh would not show. Those of attributes that are absent from the
/// state are among them. What is sealed in the object is known by digests of this key.
pub(super) fn blind_fields(
    table: &Table,
    shape: usize,
    live: &Value,
    absent: &Value,
    owners: &Owners<'_>,
    key: &RedactionKey,
) -> Vec<FieldPath> {
    let is_first = is_of_first(absent);
    let mut walk = Walk { table, owners, key, is_first, path: Vec::new(), found: Vec::new() };
    walk.block(shape, live, absent);
    walk.found
}

struct Walk<'a> {
    table: &'a Table,
    owners: &'a Owners<'a>,
    key: &'a RedactionKey,
    /// Whether a provider before 2.0 wrote the state.
    is_first: bool,
    path: Vec<Segment>,
    found: Vec<FieldPath>,
}

impl Walk<'_> {
    fn block(&mut self, shape: usize, live: &Value, absent: &Value) {
        let table = self.table;
        let shape = table.shape(shape);
        let is_first = self.is_first;
        let is_unknown = |field: &Row| is_absent(absent, field.attribute) || is_first && field.is("later");
        let unknown = shape.fields.iter().filter(|field| is_unknown(field));
        for name in shape.blind.iter().copied().chain(unknown.map(|field| field.field)) {
            if self.is_set(&live[name]) {
                self.path.push(Segment::Field(name.into()));
                let path = FieldPath::new(self.path.clone());
                let writer = self.owners.owner(&path);
                if writer.is_some_and(|writer| !OWN_MANAGERS.contains(&&*writer.manager)) {
                    self.found.push(shown_path(self.key, &path));
                }
                self.path.pop();
            }
        }
        for field in shape.fields.iter().filter(|field| !is_unknown(field)) {
            let absent = &absent[field.attribute];
            if let (FieldType::One(shape), true) = (field.holds, field.is("inline")) {
                self.block(shape, live, absent);
                continue;
            }
            self.path.push(Segment::Field(field.field.into()));
            match (field.holds, &live[field.field]) {
                (FieldType::One(shape), block @ Value::Object(_)) => self.block(shape, block, absent),
                (FieldType::Many(shape) | FieldType::Any(shape), Value::Array(elements)) => {
                    for (at, element) in elements.iter().enumerate() {
                        self.path.push(segment(&field.keys, at, element));
                        self.block(shape, element, absent);
                        self.path.pop();
                    }
                }
                _ => {}
            }
            self.path.pop();
        }
    }

    fn is_sealed_false(&self, text: &str) -> bool {
        is_sealed(text) && is_same(self.key, "false", text)
    }

    fn is_set(&self, value: &Value) -> bool {
        match value {
            Value::Null | Value::Bool(false) => false,
            Value::Bool(true) | Value::Number(_) => true,
            Value::String(text) => !text.is_empty() && !self.is_sealed_false(text),
            Value::Array(elements) => !elements.is_empty(),
            Value::Object(members) => !members.is_empty(),
        }
    }
}

fn segment(keys: &[&str], at: usize, element: &Value) -> Segment {
    let named = keys.iter().map(|key| match &element[*key] {
        Value::Null => None,
        Value::String(text) => Some(((*key).into(), text.as_str().into())),
        other => Some(((*key).into(), other.to_string().into())),
    });
    let named: Option<Vec<_>> = named.collect();
    named.filter(|keys| !keys.is_empty()).map_or(Segment::Index(at), Segment::Element)
}

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
