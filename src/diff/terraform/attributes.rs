//! The attributes of a state beside those that the provider would read now.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::table::{FieldType, INLINE, Row, Table};
use crate::{
    diff::findings::{Findings, text},
    types::Segment,
};

type Block = Map<String, Value>;

/// Compares the blocks of a state with those read from the live object.
pub(super) fn compare_blocks<'a>(
    table: &'a Table,
    shape: usize,
    state: Option<&Block>,
    live: Option<&Block>,
    findings: &mut Findings<'a>,
) {
    for field in &table.shape(shape).fields {
        let (state, live) = (member(state, field.attribute), member(live, field.attribute));
        let compare = |findings: &mut Findings<'a>| match field.holds {
            FieldType::Text | FieldType::Number | FieldType::Bool => {
                compare_scalars(field, state, live, findings)
            }
            FieldType::Map => compare_maps(field, state, live, findings),
            FieldType::List | FieldType::Set => compare_lists(field, state, live, findings),
            FieldType::One(shape) => {
                compare_elements(table, shape, elements(state).first(), elements(live).first(), findings);
            }
            FieldType::Many(shape) | FieldType::Any(shape) => {
                compare_many(table, shape, field, elements(state), elements(live), findings);
            }
        };
        match field.field {
            INLINE => findings.inline(field.attribute, compare),
            name => findings.within(field.attribute, name, compare),
        }
    }
}

fn member<'a>(block: Option<&'a Block>, attribute: &str) -> &'a Value {
    block.and_then(|block| block.get(attribute)).unwrap_or(&Value::Null)
}

/// Compares two blocks of which one may not be there. That it is there at all says something too.
fn compare_elements<'a>(
    table: &'a Table,
    shape: usize,
    state: Option<&Value>,
    live: Option<&Value>,
    findings: &mut Findings<'a>,
) {
    let before = findings.count();
    let blocks = (state.and_then(Value::as_object), live.and_then(Value::as_object));
    if state.is_some() || live.is_some() {
        compare_blocks(table, shape, blocks.0, blocks.1, findings);
    }
    if state.is_some() != live.is_some() && findings.count() == before {
        let there = |value: Option<&Value>| if value.is_some() { "{}" } else { "" };
        findings.differs(there(state), there(live));
    }
}

fn compare_scalars(field: &Row, state: &Value, live: &Value, findings: &mut Findings<'_>) {
    let (expected, actual) = (text(state), text(live));
    // Some texts were numbers once.
    let holds = if state.is_number() { FieldType::Number } else { field.holds };
    let same = findings.is_same(&expected, &actual)
        || is_nothing(holds, &expected, findings) && is_nothing(holds, &actual, findings)
        || is_same_amount(field, &expected, &actual, findings);
    if !same {
        findings.differs(&expected, &actual);
    }
}

/// The provider writes absent numbers and switches as zero and false, or the other way round.
fn is_nothing(holds: FieldType, text: &str, findings: &Findings<'_>) -> bool {
    text.is_empty()
        || match holds {
            FieldType::Number => findings.is_same("0", text),
            FieldType::Bool => findings.is_same("false", text),
            _ => false,
        }
}

fn is_same_amount(field: &Row, one: &str, other: &str, findings: &Findings<'_>) -> bool {
    field.is("quantity") && findings.is_same_amount(one, other)
}

fn compare_maps(field: &Row, state: &Value, live: &Value, findings: &mut Findings<'_>) {
    let empty = Map::new();
    let (state, live) = (state.as_object().unwrap_or(&empty), live.as_object().unwrap_or(&empty));
    let keys: BTreeSet<&String> = state.keys().chain(live.keys()).collect();
    for key in keys {
        let value = |map: &Block| map.get(key).filter(|value| !value.is_null()).map(text);
        let (expected, actual) = (value(state), value(live));
        let same = match (&expected, &actual) {
            (None, None) => true,
            (Some(one), Some(other)) => {
                findings.is_same(one, other) || is_same_amount(field, one, other, findings)
            }
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !same {
            // An empty value that is there is not the same as none.
            let told = |value: Option<String>| value.map_or_else(String::new, quote_empty);
            let (expected, actual) = (told(expected), told(actual));
            findings.at(Segment::Field(key.as_str().into()), |findings| findings.differs(&expected, &actual));
        }
    }
}

fn quote_empty(text: String) -> String {
    if text.is_empty() { "\"\"".to_owned() } else { text }
}

fn compare_lists(field: &Row, state: &Value, live: &Value, findings: &mut Findings<'_>) {
    let texts = |value: &Value| -> Vec<String> { elements(value).iter().map(text).collect() };
    let (mut expected, mut actual) = (texts(state), texts(live));
    let is_set = field.holds == FieldType::Set;
    for set in [&mut expected, &mut actual].into_iter().filter(|_| is_set) {
        set.sort_unstable();
        set.dedup();
    }
    let same = |(expected, actual): (&String, &String)| findings.is_same(expected, actual);
    let same = expected.len() == actual.len()
        && if is_set {
            // Digests have another order than what they are digests of.
            actual.iter().all(|actual| expected.iter().any(|expected| same((expected, actual))))
        } else {
            expected.iter().zip(&actual).all(same)
        };
    if !same {
        let values = |texts: Vec<String>| -> Vec<Value> { texts.into_iter().map(Value::from).collect() };
        findings.lists_differ(&values(expected), &values(actual));
    }
}

fn compare_many<'a>(
    table: &'a Table,
    shape: usize,
    field: &Row,
    state: &[Value],
    live: &[Value],
    findings: &mut Findings<'a>,
) {
    let keys = key_attributes(table, shape, field);
    let (Some(expected), Some(actual)) = (names(&keys, state), names(&keys, live)) else {
        for at in 0..state.len().max(live.len()) {
            findings.at(Segment::Index(at), |findings| {
                compare_elements(table, shape, state.get(at), live.get(at), findings);
            });
        }
        return;
    };
    // For each element that is there, the place of the one that is declared.
    let places: Vec<Option<usize>> =
        actual.iter().map(|actual| expected.iter().position(|own| findings.are_same(own, actual))).collect();
    let there = places.iter().zip(live).zip(&actual);
    let there = there.map(|((place, live), name)| (name, place.map(|at| &state[at]), Some(live)));
    let gone = state.iter().zip(&expected).enumerate().filter(|(at, _)| !places.contains(&Some(*at)));
    let gone = gone.map(|(_, (state, name))| (name, Some(state), None));
    for (name, declared, present) in there.chain(gone) {
        let segment = Segment::Element(
            keys.iter()
                .zip(name)
                .map(|((_, field), value)| ((*field).into(), value.as_str().into()))
                .collect(),
        );
        findings.at(segment, |findings| compare_elements(table, shape, declared, present, findings));
    }
    let order: Vec<usize> = places.iter().flatten().copied().collect();
    if !order.is_sorted() && matches!(field.holds, FieldType::Many(_)) {
        let told = |at: &usize| expected[*at].iter().map(|part| findings.shown(part)).collect::<Vec<_>>();
        let list = |order: &[usize]| -> String {
            order.iter().map(|at| Value::from(told(at).join("/"))).collect::<Value>().to_string()
        };
        let mut declared = order.clone();
        declared.sort_unstable();
        let (expected, actual) = (list(&declared), list(&order));
        findings.differs(&expected, &actual);
    }
}

type Name = Vec<String>;

/// The attributes, and fields, by which elements of a list are known.
fn key_attributes<'a>(table: &'a Table, shape: usize, field: &Row) -> Vec<(&'a str, &'a str)> {
    let fields = &table.shape(shape).fields;
    let is_named = matches!(field.holds, FieldType::Any(_)) && field.keys.is_empty();
    let keys: &[&str] = if is_named { &["name"] } else { &field.keys };
    keys.iter()
        .filter_map(|key| fields.iter().find(|field| field.field == *key))
        .map(|field| (field.attribute, field.field))
        .collect()
}

/// What each element is known by; none where that does not tell them apart.
fn names(keys: &[(&str, &str)], elements: &[Value]) -> Option<Vec<Name>> {
    if keys.is_empty() {
        return None;
    }
    let name = |element: &Value| keys.iter().map(|(attribute, _)| text(&element[*attribute])).collect();
    let names: Vec<Name> = elements.iter().map(name).collect();
    let distinct: BTreeSet<&Name> = names.iter().collect();
    let complete = names.iter().flatten().all(|part| !part.is_empty());
    (complete && distinct.len() == names.len()).then_some(names)
}

fn elements(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
