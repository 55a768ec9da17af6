//! Fields that others have set and the provider never reads.

use serde_json::Value;

use super::{
    absent::{is_absent, is_of_first},
    table::{FieldType, Row, Table},
};
use crate::{
    diff::{
        owners::Owners,
        sealed::{is_same, is_sealed, shown_path},
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
