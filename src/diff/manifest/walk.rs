//! Compares a manifest with a live object value by value. Only declared fields are compared.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use super::schema::{FieldType, ListType, SchemaNode};
use crate::{
    diff::{
        digests::decode_base64,
        ownership::{Identity, Step},
        quantity::Quantity,
        reporter::DiffReporter,
        tree::{Members, Node, Scalar},
    },
    types::FieldValue,
};

/// Longer unordered lists are compared by index, because a search is quadratic.
const MAX_SEARCHED_LIST: usize = 64;
/// In longer sets, values that are equal but written differently are not matched.
const MAX_SEARCHED_SET: usize = 1024;

/// Compares a declared value with the live one; [`None`] is a field that the live object does not have. To the API server, a live
/// null is the same.
fn compare_values<'a>(
    node: SchemaNode<'a>,
    declared: &'a Node,
    live: Option<&'a Node>,
    reporter: &mut DiffReporter<'a>,
) {
    if declared.is_null() || *node.field_type == FieldType::Ignored {
        return;
    }
    let live_or_null = live.unwrap_or(&Node::Null);
    let is_as_good_as_absent = node.is_empty(declared) && !node.keeps_empty();
    if is_as_good_as_absent && (node.is_defaulted() || node.is_empty(live_or_null)) {
        return;
    }
    match (declared, live_or_null) {
        (Node::Object(members), Node::Object(_) | Node::Null) => {
            let before = reporter.count();
            compare_members(node, members, live_or_null.as_object(), |_| true, reporter);
            // `emptyDir: {}` has no members and still has a meaning.
            if live_or_null.is_null() && reporter.count() == before {
                reporter.report(FieldValue::Json("{}".into()), reporter.value(live));
            }
        }
        (Node::Array(elements), Node::Null) if elements.is_empty() => {
            reporter.report(FieldValue::Json("[]".into()), reporter.value(live));
        }
        (Node::Array(_), Node::Null | Node::Array(_)) => compare_lists(node, declared, live, reporter),
        (_, live_or_null) => {
            if !is_same_scalar(node, declared, live_or_null, reporter) {
                reporter.report(declared_value(node, declared, reporter), reporter.value(live));
            }
        }
    }
}

/// Compares the declared members of an object that `is_compared` selects.
pub(super) fn compare_members<'a>(
    node: SchemaNode<'a>,
    declared: &'a Members,
    live: Option<&'a Members>,
    is_compared: impl Fn(&str) -> bool,
    reporter: &mut DiffReporter<'a>,
) {
    let is_declared = |name: &str| declared.get(name).is_some_and(|value| !value.is_null());
    for (name, declared) in declared.iter().filter(|(name, _)| is_compared(name)) {
        let member = node.member(name);
        if !member.is_superseded(is_declared) {
            let live = live.and_then(|live| live.get(name));
            reporter.in_field(name, name, |reporter| compare_values(member, declared, live, reporter));
        }
    }
    if node.is_atomic {
        report_undeclared(node, Some(declared), live, reporter);
    }
}

/// Reports the undeclared members of an atomic object, except defaults.
fn report_undeclared<'a>(
    node: SchemaNode<'a>,
    declared: Option<&'a Members>,
    live: Option<&'a Members>,
    reporter: &mut DiffReporter<'a>,
) {
    let is_declared = |name: &str| declared.is_some_and(|declared| declared.contains_key(name));
    for (name, live) in live.into_iter().flatten().filter(|(name, _)| !is_declared(name)) {
        let member = node.member(name);
        reporter.in_field(name, name, |reporter| match (member.field_type, live) {
            (FieldType::Unknown, _) => {}
            // The default covers the object, but not every member of it.
            (FieldType::Object(_), Node::Object(members)) if member.is_defaulted() => {
                report_undeclared(member, None, Some(members), reporter);
            }
            _ if member.is_default(live) || !is_set(member, live) => {}
            _ => report_added(member, live, reporter),
        });
    }
}

/// Reports a value that is not declared. Each field of it is a finding of its own, so that rules for field paths apply to
/// added elements too.
fn report_added<'a>(node: SchemaNode<'a>, live: &'a Node, reporter: &mut DiffReporter<'a>) {
    match live {
        Node::Array(_) => report_added_elements(node, live, reporter),
        Node::Object(members) => {
            let before = reporter.count();
            for (name, live) in members {
                let member = node.member(name);
                let is_default = member.is_defaulted() && live.as_object().is_some_and(Members::is_empty);
                if !is_default && is_set(member, live) {
                    reporter.in_field(name, name, |reporter| report_added(member, live, reporter));
                }
            }
            if reporter.count() == before {
                reporter.report(FieldValue::Absent, FieldValue::Json("{}".into()));
            }
        }
        scalar => reporter.report(FieldValue::Absent, reporter.value(Some(scalar))),
    }
}

fn is_set(node: SchemaNode<'_>, live: &Node) -> bool {
    *node.field_type != FieldType::Ignored && (!node.is_empty(live) || node.keeps_empty() && !live.is_null())
}

/// A declared value in a finding. An empty text is absent if the server drops it.
fn declared_value(node: SchemaNode<'_>, declared: &Node, reporter: &DiffReporter<'_>) -> FieldValue {
    let is_dropped = *node.field_type != FieldType::Unknown && !node.keeps_empty();
    reporter.value(Some(declared).filter(|declared| !(is_dropped && declared.scalar().is_empty())))
}

/// Whether the API server stores both values as the same one.
fn is_same_scalar(node: SchemaNode<'_>, declared: &Node, live: &Node, reporter: &DiffReporter<'_>) -> bool {
    if declared == live {
        return true;
    }
    if live.is_null() {
        return node.is_empty(declared) && !node.keeps_empty();
    }
    let (expected, actual) = match (declared.scalar(), live.scalar()) {
        (Scalar::Text(expected), Scalar::Text(actual)) => (expected, actual),
        (expected, actual) => return reporter.is_same_bytes(&expected, &actual),
    };
    if let (Node::Number(declared), Node::Number(live)) = (declared, live) {
        return declared.as_f64() == live.as_f64() && (declared.is_f64() || live.is_f64());
    }
    match node.field_type {
        FieldType::Any => false,
        FieldType::Quantity => expected == actual || Quantity::are_same(&expected, &actual),
        FieldType::ResourceQuantity => {
            expected == actual || Quantity::are_same_in_thousandths(&expected, &actual)
        }
        FieldType::Bytes => {
            let bytes = decode_base64(&expected);
            bytes.is_some() && bytes == decode_base64(&actual)
        }
        FieldType::Time => is_same_time(&expected, &actual),
        FieldType::Unknown => {
            expected == actual || is_quantity_name(node.name) && Quantity::are_same(&expected, &actual)
        }
        FieldType::Plain
        | FieldType::Ignored
        | FieldType::Object(_)
        | FieldType::Map(_)
        | FieldType::List(..) => expected == actual,
    }
}

/// The server truncates most timestamps to seconds.
fn is_same_time(declared: &str, live: &str) -> bool {
    let (Ok(declared), Ok(live)) = (declared.parse::<jiff::Timestamp>(), live.parse::<jiff::Timestamp>())
    else {
        return declared == live;
    };
    declared == live || live.subsec_nanosecond() == 0 && declared.as_second() == live.as_second()
}

/// Compares a declared list with a live list, which may be absent or null. Elements that are added to a declared list differ.
fn compare_lists<'a>(
    node: SchemaNode<'a>,
    declared_list: &'a Node,
    live_list: Option<&'a Node>,
    reporter: &mut DiffReporter<'a>,
) {
    let (declared, live) = (declared_list.elements(), live_list.map_or(&[][..], Node::elements));
    let compare_by_index = |in_any_order: bool, reporter: &mut DiffReporter<'a>| {
        compare_by_index(node, declared_list, live_list, in_any_order, reporter);
    };
    match element_match(node, declared, live) {
        // A finding's path must not contain a redacted key, so only indices identify these elements.
        ElementMatch::Keys(keys)
            if declared.iter().flat_map(|one| key_values(&keys, one)).any(|value| value.is_redacted()) =>
        {
            compare_by_index(true, reporter);
        }
        ElementMatch::Value if declared.iter().any(|one| matches!(one, Node::Redacted(_))) => {
            compare_by_index(true, reporter);
        }
        ElementMatch::Keys(keys) => compare_by_keys(node, &keys, declared, live, reporter),
        ElementMatch::Value => compare_sets(node, declared, live, reporter),
        ElementMatch::Index => compare_by_index(false, reporter),
        ElementMatch::AnyOrder => compare_by_index(true, reporter),
    }
}

fn report_added_elements<'a>(node: SchemaNode<'a>, list: &'a Node, reporter: &mut DiffReporter<'a>) {
    let live = list.elements();
    if !live.iter().any(Node::is_object) {
        return reporter.report_lists(None, Some(list));
    }
    let element_match = element_match(node, &[], live);
    for (at, element) in live.iter().enumerate() {
        let step = match &element_match {
            ElementMatch::Keys(keys) => element_step(keys, &key_values(keys, element)),
            ElementMatch::Value | ElementMatch::Index | ElementMatch::AnyOrder => Step::Index(at),
        };
        reporter.at(step, |reporter| report_added(node.element(), element, reporter));
    }
}

/// Fields that identify the elements of a list, each with its value if it is absent.
type ListKeys<'a> = Vec<(&'a str, &'a str)>;

enum ElementMatch<'a> {
    Keys(ListKeys<'a>),
    Value,
    Index,
    AnyOrder,
}

fn element_match<'a>(node: SchemaNode<'a>, declared: &[Node], live: &[Node]) -> ElementMatch<'a> {
    match node.field_type {
        FieldType::List(_, ListType::Map(_)) => ElementMatch::Keys(schema_keys(node).unwrap_or_default()),
        FieldType::List(_, ListType::Set) => ElementMatch::Value,
        FieldType::List(_, ListType::Unordered) => ElementMatch::AnyOrder,
        FieldType::List(_, ListType::Atomic) | FieldType::Any => ElementMatch::Index,
        _ => guess_plain_keys(declared, live).map_or(ElementMatch::AnyOrder, ElementMatch::Keys),
    }
}

pub(in crate::diff) fn schema_keys(node: SchemaNode<'_>) -> Option<ListKeys<'_>> {
    match node.field_type {
        FieldType::List(_, ListType::Map(keys)) => {
            Some(keys.iter().map(|key| (&*key.field, &*key.default)).collect())
        }
        _ => None,
    }
}

/// Candidates for the keys of a list without a schema, in the order of preference.
const COMMON_LIST_KEYS: &[&[&str]] = &[
    &["name"],
    &["containerPort", "protocol"],
    &["port", "protocol"],
    &["mountPath"],
    &["devicePath"],
    &["ip"],
];

/// The first candidate that all elements have and that is unique in both lists. The keys may be redacted.
pub(in crate::diff) fn guess_keys(one: &[Node], other: &[Node]) -> Option<ListKeys<'static>> {
    let candidates = COMMON_LIST_KEYS.iter().map(|keys| with_defaults(keys));
    candidates.into_iter().find(|keys| are_unique(keys, one) && are_unique(keys, other))
}

/// The same, if no key is redacted.
fn guess_plain_keys(one: &[Node], other: &[Node]) -> Option<ListKeys<'static>> {
    let is_plain = |keys: &ListKeys<'_>, list: &[Node]| {
        !list.iter().flat_map(|element| key_values(keys, element)).any(|value| value.is_redacted())
    };
    guess_keys(one, other).filter(|keys| is_plain(keys, one) && is_plain(keys, other))
}

fn with_defaults(keys: &[&'static str]) -> ListKeys<'static> {
    // The server defaults the protocol of a port.
    let default = |key: &str| if key == "protocol" { "TCP" } else { "" };
    keys.iter().map(|key| (*key, default(key))).collect()
}

fn are_unique(keys: &[(&str, &str)], list: &[Node]) -> bool {
    let values: BTreeSet<Vec<Scalar<'_>>> = list.iter().map(|element| key_values(keys, element)).collect();
    values.len() == list.len() && values.iter().flatten().all(|value| !value.is_empty())
}

pub(in crate::diff) fn key_values<'a>(keys: &[(&str, &'a str)], element: &'a Node) -> Vec<Scalar<'a>> {
    let value = |(key, default): &(&str, &'a str)| match element[*key].scalar() {
        absent if absent.is_empty() => Scalar::from(*default),
        scalar => scalar,
    };
    keys.iter().map(value).collect()
}

pub(in crate::diff) fn element_step(keys: &[(&str, &str)], values: &[Scalar<'_>]) -> Step {
    let keys = keys.iter().zip(values);
    Step::Element(keys.map(|((key, _), value)| ((*key).into(), Identity::from(value))).collect())
}

/// Whether a field without a schema is a quantity by its name.
pub(in crate::diff) fn is_quantity_name(name: &str) -> bool {
    const QUANTITIES: &[&str] = &[
        "cpu",
        "memory",
        "storage",
        "ephemeral-storage",
        "pods",
        "sizeLimit",
        "divisor",
        "averageValue",
        "value",
    ];
    QUANTITIES.iter().any(|quantity| name == *quantity || name.ends_with(&format!(".{quantity}")))
}

/// Elements with equal keys are matched in their order.
fn compare_by_keys<'a>(
    node: SchemaNode<'a>,
    keys: &[(&str, &str)],
    declared: &'a [Node],
    live: &'a [Node],
    reporter: &mut DiffReporter<'a>,
) {
    let live_keys: Vec<Vec<Scalar<'_>>> = live.iter().map(|element| key_values(keys, element)).collect();
    let is_plain = !live_keys.iter().flatten().any(Scalar::is_redacted);
    let mut unmatched: Vec<_> = live_keys.iter().zip(live).map(Some).collect();
    let mut indices: HashMap<&[Scalar<'_>], VecDeque<usize>> = HashMap::new();
    for (at, values) in live_keys.iter().enumerate() {
        indices.entry(values).or_default().push_back(at);
    }
    for element in declared {
        let values = key_values(keys, element);
        let found = if is_plain {
            indices.get_mut(&*values).and_then(VecDeque::pop_front)
        } else {
            unmatched
                .iter()
                .position(|other| other.is_some_and(|(other, _)| reporter.are_same(&values, other)))
        };
        let live = found.and_then(|at| unmatched[at].take()).map(|(_, element)| element);
        reporter.at(element_step(keys, &values), |reporter| {
            compare_values(node.element(), element, live, reporter);
        });
    }
    let added = unmatched.into_iter().flatten().filter(|(_, element)| !node.is_added_by_system(element));
    for (values, element) in added {
        reporter.at(element_step(keys, values), |reporter| {
            report_added(node.element(), element, reporter);
        });
    }
}

fn compare_sets<'a>(
    node: SchemaNode<'a>,
    declared: &'a [Node],
    live: &'a [Node],
    reporter: &mut DiffReporter<'a>,
) {
    let (missing, added) = (not_in(declared, live), not_in(live, declared));
    let is_long = missing.len().max(added.len()) > MAX_SEARCHED_SET;
    let has = |list: &[(usize, &Node)], value: &Node, reporter: &DiffReporter<'_>| {
        !is_long && list.iter().any(|(_, other)| is_same_scalar(node.element(), value, other, reporter))
    };
    // The values of a custom resource may be confidential, so its paths contain indices.
    let step = |at: usize, value: &Node| {
        if node.is_built_in() { Step::Value(Identity::from(&value.scalar())) } else { Step::Index(at) }
    };
    for (at, value) in &missing {
        if !has(&added, value, reporter) {
            let missing = reporter.value(Some(value));
            reporter.at(step(*at, value), |reporter| reporter.report(missing, FieldValue::Absent));
        }
    }
    for (at, value) in &added {
        if !node.is_added_by_system(value) && !has(&missing, value, reporter) {
            let added = reporter.value(Some(value));
            reporter.at(step(*at, value), |reporter| reporter.report(FieldValue::Absent, added));
        }
    }
}

/// The elements of a list, with their indices, that are not in the other one.
fn not_in<'a>(list: &'a [Node], other: &[Node]) -> Vec<(usize, &'a Node)> {
    let others: HashSet<Scalar<'_>> = other.iter().map(Node::scalar).collect();
    list.iter().enumerate().filter(|(_, value)| !others.contains(&value.scalar())).collect()
}

/// Skips the equal elements at both ends and compares the rest by index; in any order, equal elements are matched first.
fn compare_by_index<'a>(
    node: SchemaNode<'a>,
    declared_list: &'a Node,
    live_list: Option<&'a Node>,
    in_any_order: bool,
    reporter: &mut DiffReporter<'a>,
) {
    let (declared, live) = (declared_list.elements(), live_list.map_or(&[][..], Node::elements));
    let element = node.element();
    let mut is_same = |one: &'a Node, other: &'a Node| {
        reporter.reports_nothing(|reporter| compare_elements(element, Some(one), Some(other), reporter))
    };
    let mut actual = without_system_elements(node, live, declared.len());
    let mut expected: Vec<(usize, &Node)> = declared.iter().enumerate().collect();
    let start = expected.iter().zip(&actual).take_while(|(one, other)| is_same(one.1, other.1)).count();
    expected.drain(..start);
    actual.drain(..start);
    let end = expected
        .iter()
        .rev()
        .zip(actual.iter().rev())
        .take_while(|(one, other)| is_same(one.1, other.1))
        .count();
    expected.truncate(expected.len() - end);
    actual.truncate(actual.len() - end);
    if in_any_order && expected.len().max(actual.len()) <= MAX_SEARCHED_LIST {
        expected.retain(|(_, one)| {
            let found = actual.iter().position(|(_, other)| is_same(one, other));
            found.map(|at| actual.remove(at)).is_none()
        });
    }
    if expected.is_empty() && actual.is_empty() {
        return;
    }
    if !declared.iter().chain(live).any(Node::is_object) {
        return reporter.report_lists(Some(declared_list), live_list);
    }
    for at in 0..expected.len().max(actual.len()) {
        let (one, other) = (expected.get(at), actual.get(at));
        let index = other.or(one).map_or(0, |(index, _)| *index);
        let (one, other) = (one.map(|(_, one)| *one), other.map(|(_, other)| *other));
        reporter.at(Step::Index(index), |reporter| compare_elements(element, one, other, reporter));
    }
}

/// The live elements with their indices. Drops elements that the system adds, from the end, while there are more than are
/// declared.
fn without_system_elements<'a>(
    node: SchemaNode<'_>,
    live: &'a [Node],
    declared: usize,
) -> Vec<(usize, &'a Node)> {
    let mut excess = live.len().saturating_sub(declared);
    let mut elements: Vec<_> = live.iter().enumerate().rev().collect();
    elements.retain(|(_, element)| {
        let is_added = excess > 0 && node.is_added_by_system(element);
        excess -= usize::from(is_added);
        !is_added
    });
    elements.reverse();
    elements
}

fn compare_elements<'a>(
    node: SchemaNode<'a>,
    declared: Option<&'a Node>,
    live: Option<&'a Node>,
    reporter: &mut DiffReporter<'a>,
) {
    match (declared, live) {
        (Some(declared), live) => compare_values(node, declared, live, reporter),
        (None, Some(live)) => report_added(node, live, reporter),
        (None, None) => {}
    }
}
