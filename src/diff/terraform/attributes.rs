//! Compares the attributes of a state with those that the provider would read from the live object.

use std::collections::BTreeSet;

use super::table::{Attribute, AttributeType, INLINE, ProviderTable};
use crate::{
    diff::{
        ownership::Step,
        reporter::DiffReporter,
        tree::{Members, Node, Scalar},
    },
    types::FieldValue,
};

pub(super) fn compare_blocks<'a>(
    table: &'a ProviderTable,
    block: usize,
    state: Option<&Members>,
    live: Option<&Members>,
    reporter: &mut DiffReporter<'a>,
) {
    for attribute in &table.block(block).attributes {
        let (state, live) = (value_of(state, attribute.name), value_of(live, attribute.name));
        let compare = |reporter: &mut DiffReporter<'a>| match attribute.value_type {
            AttributeType::Text | AttributeType::Number | AttributeType::Bool => {
                compare_scalars(attribute, state, live, reporter);
            }
            AttributeType::Map => compare_maps(attribute, state, live, reporter),
            AttributeType::List | AttributeType::Set => compare_lists(attribute, state, live, reporter),
            AttributeType::Block(block) => {
                compare_optional(table, block, state.elements().first(), live.elements().first(), reporter);
            }
            AttributeType::BlockList(block) | AttributeType::BlockSet(block) => {
                compare_block_lists(table, block, attribute, state.elements(), live.elements(), reporter);
            }
        };
        match attribute.field {
            INLINE => reporter.in_attribute(attribute.name, compare),
            field => reporter.in_field(attribute.name, field, compare),
        }
    }
}

fn value_of<'a>(block: Option<&'a Members>, attribute: &str) -> &'a Node {
    block.and_then(|block| block.get(attribute)).unwrap_or(&Node::Null)
}

/// Compares two blocks, one of which may be absent. An empty block differs from an absent one.
fn compare_optional<'a>(
    table: &'a ProviderTable,
    block: usize,
    state: Option<&Node>,
    live: Option<&Node>,
    reporter: &mut DiffReporter<'a>,
) {
    let before = reporter.count();
    let blocks = (state.and_then(Node::as_object), live.and_then(Node::as_object));
    if state.is_some() || live.is_some() {
        compare_blocks(table, block, blocks.0, blocks.1, reporter);
    }
    if state.is_some() != live.is_some() && reporter.count() == before {
        reporter.report(DiffReporter::empty_object(state), DiffReporter::empty_object(live));
    }
}

fn compare_scalars(attribute: &Attribute, state: &Node, live: &Node, reporter: &mut DiffReporter<'_>) {
    let (expected, actual) = (state.scalar(), live.scalar());
    // Older providers have numbers where newer ones have texts.
    let value_type =
        if matches!(state, Node::Number(_)) { AttributeType::Number } else { attribute.value_type };
    let is_same = reporter.is_same(&expected, &actual)
        || is_zero(value_type, &expected, reporter) && is_zero(value_type, &actual, reporter)
        || is_same_quantity(attribute, &expected, &actual, reporter);
    if !is_same {
        let [expected, actual] = [state, live].map(|value| reporter.value(is_set(value).then_some(value)));
        reporter.report(with_type_of(live, expected), actual);
    }
}

/// A state stores some numbers and booleans as strings. The live object has the type of the field.
fn with_type_of(live: &Node, declared: FieldValue) -> FieldValue {
    let is_typed = |text: &str| {
        let parsed = serde_json::from_str(text).ok();
        let parsed = parsed.filter(|node| matches!(node, Node::Number(_) | Node::Bool(_)));
        parsed.map(|node| node.to_string()).as_deref() == Some(text)
    };
    match (live, declared) {
        (Node::Number(_) | Node::Bool(_), FieldValue::Text(text)) if is_typed(&text) => {
            FieldValue::Json(text)
        }
        (_, declared) => declared,
    }
}

/// A state has null or an empty text for an attribute that is not set.
fn is_set(value: &Node) -> bool {
    !value.scalar().is_empty()
}

/// The provider writes an absent number or bool as zero or false, and vice versa.
fn is_zero(value_type: AttributeType, value: &Scalar<'_>, reporter: &DiffReporter<'_>) -> bool {
    value.is_empty()
        || match value_type {
            AttributeType::Number => reporter.is_same(&"0".into(), value),
            AttributeType::Bool => reporter.is_same(&"false".into(), value),
            _ => false,
        }
}

fn is_same_quantity(
    attribute: &Attribute,
    one: &Scalar<'_>,
    other: &Scalar<'_>,
    reporter: &DiffReporter<'_>,
) -> bool {
    attribute.is("quantity") && reporter.is_same_quantity(one, other)
}

fn compare_maps(attribute: &Attribute, state: &Node, live: &Node, reporter: &mut DiffReporter<'_>) {
    let empty = Members::new();
    let (state, live) = (state.as_object().unwrap_or(&empty), live.as_object().unwrap_or(&empty));
    let keys: BTreeSet<&String> = state.keys().chain(live.keys()).collect();
    for key in keys {
        // An empty value differs from an absent one.
        let [expected, actual] = [state, live].map(|map| map.get(key).filter(|value| !value.is_null()));
        let is_same = match (expected.map(Node::scalar), actual.map(Node::scalar)) {
            (None, None) => true,
            (Some(one), Some(other)) => {
                reporter.is_same(&one, &other) || is_same_quantity(attribute, &one, &other, reporter)
            }
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !is_same {
            let (expected, actual) = (reporter.value(expected), reporter.value(actual));
            reporter.at(Step::Field(key.as_str().into()), |reporter| reporter.report(expected, actual));
        }
    }
}

fn compare_lists(attribute: &Attribute, state: &Node, live: &Node, reporter: &mut DiffReporter<'_>) {
    let [mut expected, mut actual] =
        [state, live].map(|list| list.elements().iter().map(Node::scalar).collect::<Vec<_>>());
    let is_set = attribute.value_type == AttributeType::Set;
    for set in [&mut expected, &mut actual].into_iter().filter(|_| is_set) {
        set.sort_unstable();
        set.dedup();
    }
    let is_same = |(expected, actual): (&Scalar<'_>, &Scalar<'_>)| reporter.is_same(expected, actual);
    let are_same = expected.len() == actual.len()
        && if is_set {
            // Digests are not in the order of their plain values.
            actual.iter().all(|actual| expected.iter().any(|expected| is_same((expected, actual))))
        } else {
            expected.iter().zip(&actual).all(is_same)
        };
    if !are_same {
        let list = |scalars: Vec<Scalar<'_>>| scalars.into_iter().map(Node::from).collect::<Node>();
        reporter.report_lists(Some(&list(expected)), Some(&list(actual)));
    }
}

fn compare_block_lists<'a>(
    table: &'a ProviderTable,
    block: usize,
    attribute: &Attribute,
    state: &[Node],
    live: &[Node],
    reporter: &mut DiffReporter<'a>,
) {
    let keys = list_keys(table, block, attribute);
    let (Some(expected), Some(actual)) = (unique_keys(&keys, state), unique_keys(&keys, live)) else {
        for at in 0..state.len().max(live.len()) {
            reporter.at(Step::Index(at), |reporter| {
                compare_optional(table, block, state.get(at), live.get(at), reporter);
            });
        }
        return;
    };
    // For each live element, the index of the same element in the state.
    let indices: Vec<Option<usize>> = actual
        .iter()
        .map(|actual| expected.iter().position(|expected| reporter.are_same(expected, actual)))
        .collect();
    let present = indices.iter().zip(live).zip(&actual);
    let present = present.map(|((index, live), values)| (values, index.map(|at| &state[at]), Some(live)));
    let missing = state.iter().zip(&expected).enumerate().filter(|(at, _)| !indices.contains(&Some(*at)));
    let missing = missing.map(|(_, (state, values))| (values, Some(state), None));
    for (values, state, live) in present.chain(missing) {
        let keys = keys.iter().zip(values);
        let step = Step::Element(keys.map(|((_, field), value)| ((*field).into(), value.into())).collect());
        reporter.at(step, |reporter| compare_optional(table, block, state, live, reporter));
    }
    let order: Vec<usize> = indices.iter().flatten().copied().collect();
    if !order.is_sorted() && matches!(attribute.value_type, AttributeType::BlockList(_)) {
        let is_redacted = expected.iter().flatten().any(Scalar::is_redacted);
        let shown = |at: &usize| match (expected[*at].as_slice(), is_redacted) {
            ([key], _) => Node::from(key.clone()),
            (keys, true) => keys.iter().cloned().map(Node::from).collect(),
            (keys, false) => Node::String(
                keys.iter().map(|key| key.text().unwrap_or_default()).collect::<Vec<_>>().join("/"),
            ),
        };
        let list = |order: &[usize]| reporter.value(Some(&order.iter().map(shown).collect()));
        let mut sorted = order.clone();
        sorted.sort_unstable();
        let (expected, actual) = (list(&sorted), list(&order));
        reporter.report(expected, actual);
    }
}

/// The attributes that identify the elements of a list, each with its field.
fn list_keys<'a>(table: &'a ProviderTable, block: usize, attribute: &Attribute) -> Vec<(&'a str, &'a str)> {
    let attributes = &table.block(block).attributes;
    let is_named = matches!(attribute.value_type, AttributeType::BlockSet(_)) && attribute.keys.is_empty();
    let keys: &[&str] = if is_named { &["name"] } else { &attribute.keys };
    keys.iter()
        .filter_map(|key| attributes.iter().find(|attribute| attribute.field == *key))
        .map(|attribute| (attribute.name, attribute.field))
        .collect()
}

/// The values of the keys of each element; [`None`] unless they are complete and unique.
fn unique_keys<'a>(keys: &[(&str, &str)], elements: &'a [Node]) -> Option<Vec<Vec<Scalar<'a>>>> {
    if keys.is_empty() {
        return None;
    }
    let key_values = |element: &'a Node| keys.iter().map(|(name, _)| element[*name].scalar()).collect();
    let all: Vec<Vec<Scalar<'a>>> = elements.iter().map(key_values).collect();
    let distinct: BTreeSet<&Vec<Scalar<'a>>> = all.iter().collect();
    let is_complete = all.iter().flatten().all(|value| !value.is_empty());
    (is_complete && distinct.len() == all.len()).then_some(all)
}
