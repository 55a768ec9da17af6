//! A declared document beside the live object: what it declares, and nothing else.
//!
//! Whether two scalars are the same to the API server.
//!
//! Lists: by what is known about their order, each element beside the one that it stands for.
//!
//! What is guessed about documents that nothing is known about.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use serde_json::{Map, Value};

use super::schema::{FieldType, Order, Place};
use crate::{
    diff::{
        findings::{Findings, text},
        quantity::Quantity,
        redacted_text::{decode, is_sealed},
    },
    types::Segment,
};

/// Compares what is declared at a place with what is there.
pub(super) fn compare_values<'a>(
    place: Place<'a>,
    declared: &'a Value,
    live: &'a Value,
    findings: &mut Findings<'a>,
) {
    if declared.is_null() || *place.holds == FieldType::Nothing {
        return;
    }
    let is_as_good_as_none = place.is_empty(declared) && !place.keeps_empty();
    if is_as_good_as_none && (place.is_filled() || place.is_empty(live)) {
        return;
    }
    match (declared, live) {
        (Value::Object(members), Value::Object(_) | Value::Null) => {
            let before = findings.count();
            compare_members(place, members, live.as_object(), |_| true, findings);
            // `emptyDir: {}` has nothing in it and still means something.
            if live.is_null() && findings.count() == before {
                findings.differs("{}", "");
            }
        }
        (Value::Array(declared), Value::Null) if declared.is_empty() => findings.differs("[]", ""),
        (Value::Array(declared), Value::Null) => compare_lists(place, declared, &[], findings),
        (Value::Array(declared), Value::Array(live)) => compare_lists(place, declared, live, findings),
        (declared, live) => compare_scalars(place, declared, live, findings),
    }
}

/// Compares the members of an object, those alone that are asked for.
pub(super) fn compare_members<'a>(
    place: Place<'a>,
    declared: &'a Map<String, Value>,
    live: Option<&'a Map<String, Value>>,
    is_asked_for: impl Fn(&str) -> bool,
    findings: &mut Findings<'a>,
) {
    let is_declared = |name: &str| declared.get(name).is_some_and(|value| !value.is_null());
    for (name, declared) in declared.iter().filter(|(name, _)| is_asked_for(name)) {
        let member = place.member(name);
        if !member.gives_way(is_declared) {
            let live = live.and_then(|live| live.get(name)).unwrap_or(&Value::Null);
            findings.within(name, name, |findings| compare_values(member, declared, live, findings));
        }
    }
    if place.is_whole {
        report_undeclared(place, Some(declared), live, findings);
    }
}

/// Reports the members of an object that nobody declared, but for those that the server writes by itself.
fn report_undeclared<'a>(
    place: Place<'a>,
    declared: Option<&'a Map<String, Value>>,
    live: Option<&'a Map<String, Value>>,
    findings: &mut Findings<'a>,
) {
    let is_declared = |name: &str| declared.is_some_and(|declared| declared.contains_key(name));
    for (name, live) in live.into_iter().flatten().filter(|(name, _)| !is_declared(name)) {
        let member = place.member(name);
        findings.within(name, name, |findings| match (member.holds, live) {
            (FieldType::Unknown, _) => {}
            // The server writes the object itself, and not all that may be in it.
            (FieldType::Fields(_), Value::Object(members)) if member.is_filled() => {
                report_undeclared(member, None, Some(members), findings);
            }
            _ if member.fills_in(live) || !says_something(member, live) => {}
            _ => report_added(member, live, findings),
        });
    }
}

/// Reports all that is at a place where nothing is declared.
///
/// It is walked down to its fields, so that rules about these hold also for elements that nobody declared.
pub(super) fn report_added<'a>(place: Place<'a>, live: &'a Value, findings: &mut Findings<'a>) {
    match live {
        Value::Array(elements) => report_added_elements(place, elements, findings),
        Value::Object(members) => {
            let before = findings.count();
            for (name, live) in members {
                let member = place.member(name);
                let is_by_default = member.is_filled() && live.as_object().is_some_and(Map::is_empty);
                if !is_by_default && says_something(member, live) {
                    findings.within(name, name, |findings| report_added(member, live, findings));
                }
            }
            if findings.count() == before {
                findings.differs("", "{}");
            }
        }
        scalar => findings.differs("", &told(place, scalar)),
    }
}

fn says_something(place: Place<'_>, live: &Value) -> bool {
    *place.holds != FieldType::Nothing && (!place.is_empty(live) || place.keeps_empty() && !live.is_null())
}

/// Compares what is declared with what is there, of which one is no object and no list.
pub(super) fn compare_scalars(place: Place<'_>, declared: &Value, live: &Value, findings: &mut Findings<'_>) {
    if is_same(place, declared, live, findings) {
        return;
    }
    findings.differs(&told(place, declared), &told(place, live));
}

/// A value as findings tell it. Where empty ones count, one that is there is not the same as none.
pub(super) fn told(place: Place<'_>, value: &Value) -> String {
    match text(value) {
        empty if empty.is_empty() && !value.is_null() && place.keeps_empty() => "\"\"".to_owned(),
        text => text,
    }
}

/// Whether both say the same, as the field understands it.
pub(super) fn is_same(place: Place<'_>, declared: &Value, live: &Value, findings: &Findings<'_>) -> bool {
    if declared == live {
        return true;
    }
    if live.is_null() {
        return place.is_empty(declared) && !place.keeps_empty();
    }
    let (expected, actual) = (text(declared), text(live));
    if is_sealed(&expected) || is_sealed(&actual) {
        return findings.is_exactly(&expected, &actual);
    }
    if let (Value::Number(declared), Value::Number(live)) = (declared, live) {
        return declared.as_f64() == live.as_f64() && (declared.is_f64() || live.is_f64());
    }
    match place.holds {
        FieldType::Any => false,
        FieldType::Quantity => expected == actual || Quantity::are_same(&expected, &actual),
        FieldType::Amount => expected == actual || Quantity::are_same_in_thousandths(&expected, &actual),
        FieldType::Bytes => {
            let bytes = decode(&expected);
            bytes.is_some() && bytes == decode(&actual)
        }
        FieldType::Time => is_same_time(&expected, &actual),
        FieldType::Unknown => {
            expected == actual || is_amount(place.name) && Quantity::are_same(&expected, &actual)
        }
        FieldType::Plain
        | FieldType::Nothing
        | FieldType::Fields(_)
        | FieldType::Map(_)
        | FieldType::List(..) => expected == actual,
    }
}

/// The server writes most times without fractions of seconds.
fn is_same_time(declared: &str, live: &str) -> bool {
    let (Ok(declared), Ok(live)) = (declared.parse::<jiff::Timestamp>(), live.parse::<jiff::Timestamp>())
    else {
        return declared == live;
    };
    declared == live || live.subsec_nanosecond() == 0 && declared.as_second() == live.as_second()
}

/// In longer lists no element is looked for but at its place.
const SEARCHED: usize = 64;
/// In longer sets no element is looked for that is written in another way.
const SEARCHED_SET: usize = 1024;

/// Compares a declared list with the one that is there. Elements that nobody declared differ.
pub(super) fn compare_lists<'a>(
    place: Place<'a>,
    declared: &'a [Value],
    live: &'a [Value],
    findings: &mut Findings<'a>,
) {
    match order_of(place, declared, live) {
        // What elements are known by may be told to nobody here, so only places are left to tell them apart by.
        Known::Keys(keys)
            if declared.iter().flat_map(|one| name_of(&keys, one)).any(|name| is_sealed(&name)) =>
        {
            compare_by_place(place, declared, live, true, findings);
        }
        Known::Set if declared.iter().any(|one| is_sealed(&text(one))) => {
            compare_by_place(place, declared, live, true, findings);
        }
        Known::Keys(keys) => compare_by_keys(place, &keys, declared, live, findings),
        Known::Set => compare_sets(place, declared, live, findings),
        Known::Place => compare_by_place(place, declared, live, false, findings),
        Known::Loose => compare_by_place(place, declared, live, true, findings),
    }
}

/// Reports every element of a list that nobody declared.
pub(super) fn report_added_elements<'a>(place: Place<'a>, live: &'a [Value], findings: &mut Findings<'a>) {
    if !live.iter().any(Value::is_object) {
        return findings.lists_differ(&[], live);
    }
    let order = order_of(place, &[], live);
    for (at, element) in live.iter().enumerate() {
        let segment = match &order {
            Known::Keys(keys) => segment(keys, &name_of(keys, element)),
            Known::Set | Known::Place | Known::Loose => Segment::Index(at),
        };
        findings.at(segment, |findings| report_added(place.element(), element, findings));
    }
}

/// Fields by which elements of a list are known, each with what it is where it is absent.
type Keys<'a> = Vec<(&'a str, &'a str)>;

/// How elements of two lists are told apart.
enum Known<'a> {
    Keys(Keys<'a>),
    Set,
    Place,
    Loose,
}

fn order_of<'a>(place: Place<'a>, declared: &[Value], live: &[Value]) -> Known<'a> {
    match place.holds {
        FieldType::List(_, Order::Keys(_)) => Known::Keys(known_keys(place).unwrap_or_default()),
        FieldType::List(_, Order::Set) => Known::Set,
        FieldType::List(_, Order::Loose) => Known::Loose,
        FieldType::List(_, Order::Place) | FieldType::Any => Known::Place,
        _ => {
            let keys = keys_of(KEYS, declared, live);
            keys.map_or(Known::Loose, |keys| Known::Keys(guessed_keys(keys)))
        }
    }
}

/// What elements of the list are known by, where its schema says so.
pub(in crate::diff) fn known_keys(place: Place<'_>) -> Option<Keys<'_>> {
    match place.holds {
        FieldType::List(_, Order::Keys(keys)) => {
            Some(keys.iter().map(|key| (&*key.field, &*key.default)).collect())
        }
        _ => None,
    }
}

/// Keys that are guessed.
pub(in crate::diff) fn guessed_keys<'a>(keys: &[&'a str]) -> Keys<'a> {
    // The server writes the protocol where nobody did.
    let default = |key: &str| if key == "protocol" { "TCP" } else { "" };
    keys.iter().map(|key| (*key, default(key))).collect()
}

/// What an element is known by.
pub(in crate::diff) fn name_of(keys: &[(&str, &str)], element: &Value) -> Vec<String> {
    let name = |(key, default): &(&str, &str)| match text(&element[*key]) {
        absent if absent.is_empty() => (*default).to_owned(),
        text => text,
    };
    keys.iter().map(name).collect()
}

pub(in crate::diff) fn segment(keys: &[(&str, &str)], name: &[String]) -> Segment {
    Segment::Element(
        keys.iter().zip(name).map(|((key, _), value)| ((*key).into(), value.as_str().into())).collect(),
    )
}

/// Where several elements have the same keys, the first stands for the first, and so on.
fn compare_by_keys<'a>(
    place: Place<'a>,
    keys: &[(&str, &str)],
    declared: &'a [Value],
    live: &'a [Value],
    findings: &mut Findings<'a>,
) {
    let names: Vec<Vec<String>> = live.iter().map(|element| name_of(keys, element)).collect();
    let is_plain = !names.iter().flatten().any(|name| is_sealed(name));
    let mut left: Vec<_> = names.iter().zip(live).map(Some).collect();
    let mut places: HashMap<&[String], VecDeque<usize>> = HashMap::new();
    for (at, name) in names.iter().enumerate() {
        places.entry(name).or_default().push_back(at);
    }
    for element in declared {
        let name = name_of(keys, element);
        let found = if is_plain {
            places.get_mut(&*name).and_then(VecDeque::pop_front)
        } else {
            left.iter().position(|other| other.is_some_and(|(other, _)| findings.are_same(&name, other)))
        };
        let there = found.and_then(|at| left[at].take()).map_or(&Value::Null, |(_, element)| element);
        findings
            .at(segment(keys, &name), |findings| compare_values(place.element(), element, there, findings));
    }
    for (name, element) in left.into_iter().flatten().filter(|(_, element)| !place.adds(element)) {
        findings.at(segment(keys, name), |findings| report_added(place.element(), element, findings));
    }
}

fn compare_sets<'a>(place: Place<'a>, declared: &'a [Value], live: &'a [Value], findings: &mut Findings<'a>) {
    let (missing, added) = (left_of(declared, live), left_of(live, declared));
    let is_long = missing.len().max(added.len()) > SEARCHED_SET;
    let has = |list: &[(usize, &Value)], value: &Value, findings: &Findings<'_>| {
        !is_long && list.iter().any(|(_, other)| is_same(place.element(), value, other, findings))
    };
    // Which values there are tells as much as the values.
    let segment = |at: usize, text: &str| {
        if place.is_built_in() { Segment::Value(text.into()) } else { Segment::Index(at) }
    };
    for (at, value) in &missing {
        if !has(&added, value, findings) {
            let text = text(value);
            findings.at(segment(*at, &text), |findings| findings.differs(&text, ""));
        }
    }
    for (at, value) in &added {
        if !place.adds(value) && !has(&missing, value, findings) {
            let text = text(value);
            findings.at(segment(*at, &text), |findings| findings.differs("", &text));
        }
    }
}

/// The elements of a list, and their places, that are not in another one to the letter.
fn left_of<'a>(list: &'a [Value], other: &[Value]) -> Vec<(usize, &'a Value)> {
    let others: HashSet<String> = other.iter().map(text).collect();
    list.iter().enumerate().filter(|(_, value)| !others.contains(&text(value))).collect()
}

/// Compares what is between the elements that are the same at both ends.
fn compare_by_place<'a>(
    place: Place<'a>,
    declared: &'a [Value],
    live: &'a [Value],
    is_loose: bool,
    findings: &mut Findings<'a>,
) {
    let element = place.element();
    let mut is_same = |one: &'a Value, other: &'a Value| {
        findings.finds_nothing(|findings| compare_elements(element, Some(one), Some(other), findings))
    };
    let mut there = without_added(place, live, declared.len());
    let mut rest: Vec<(usize, &Value)> = declared.iter().enumerate().collect();
    let start = rest.iter().zip(&there).take_while(|(one, other)| is_same(one.1, other.1)).count();
    rest.drain(..start);
    there.drain(..start);
    let end =
        rest.iter().rev().zip(there.iter().rev()).take_while(|(one, other)| is_same(one.1, other.1)).count();
    rest.truncate(rest.len() - end);
    there.truncate(there.len() - end);
    if is_loose && rest.len().max(there.len()) <= SEARCHED {
        rest.retain(|(_, one)| {
            let found = there.iter().position(|(_, other)| is_same(one, other));
            found.map(|at| there.remove(at)).is_none()
        });
    }
    if rest.is_empty() && there.is_empty() {
        return;
    }
    if !declared.iter().chain(live).any(Value::is_object) {
        return findings.lists_differ(declared, live);
    }
    for at in 0..rest.len().max(there.len()) {
        let (one, other) = (rest.get(at), there.get(at));
        let index = other.or(one).map_or(0, |(index, _)| *index);
        let (one, other) = (one.map(|(_, one)| *one), other.map(|(_, other)| *other));
        findings.at(Segment::Index(index), |findings| compare_elements(element, one, other, findings));
    }
}

/// The elements of a list and their places, but for what the system has added to as many as are declared.
fn without_added<'a>(place: Place<'_>, live: &'a [Value], declared: usize) -> Vec<(usize, &'a Value)> {
    let mut excess = live.len().saturating_sub(declared);
    let mut kept: Vec<_> = live.iter().enumerate().rev().collect();
    kept.retain(|(_, element)| {
        let is_added = excess > 0 && place.adds(element);
        excess -= usize::from(is_added);
        !is_added
    });
    kept.reverse();
    kept
}

fn compare_elements<'a>(
    place: Place<'a>,
    declared: Option<&'a Value>,
    live: Option<&'a Value>,
    findings: &mut Findings<'a>,
) {
    match (declared, live) {
        (Some(declared), live) => compare_values(place, declared, live.unwrap_or(&Value::Null), findings),
        (None, Some(live)) => report_added(place, live, findings),
        (None, None) => {}
    }
}

/// By what elements of lists are known, where all have it and it tells them apart.
pub(in crate::diff) const KEYS: &[&[&str]] = &[
    &["name"],
    &["containerPort", "protocol"],
    &["port", "protocol"],
    &["mountPath"],
    &["devicePath"],
    &["ip"],
];

/// By which of these the elements of both lists are known. Where names are sealed, only places are left to tell elements apart by.
fn keys_of<'a>(keys: &'a [&'a [&'a str]], one: &[Value], other: &[Value]) -> Option<&'a [&'a str]> {
    let names = |keys: &[&str], list: &[Value]| {
        list.iter().flat_map(|own| guessed_name(keys, own)).collect::<Vec<_>>()
    };
    let is_plain = |keys: &[&str], list: &[Value]| !names(keys, list).iter().any(|name| is_sealed(name));
    keys_or_digests_of(keys, one, other).filter(|keys| is_plain(keys, one) && is_plain(keys, other))
}

/// The same for whoever knows names by their digests.
pub(in crate::diff) fn keys_or_digests_of<'a>(
    keys: &'a [&'a [&'a str]],
    one: &[Value],
    other: &[Value],
) -> Option<&'a [&'a str]> {
    keys.iter().copied().find(|keys| is_known_by(keys, one) && is_known_by(keys, other))
}

/// What an element is known by.
fn guessed_name(keys: &[&str], element: &Value) -> Vec<String> {
    let name = |key: &&str| match (*key, text(&element[*key])) {
        // The server writes it where nobody did.
        ("protocol", absent) if absent.is_empty() => "TCP".to_owned(),
        (_, text) => text,
    };
    keys.iter().map(name).collect()
}

/// Whether a field of this name is an amount: these stand under names of their own.
pub(in crate::diff) fn is_amount(name: &str) -> bool {
    const AMOUNTS: &[&str] = &[
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
    AMOUNTS.iter().any(|amount| name == *amount || name.ends_with(&format!(".{amount}")))
}

fn is_known_by(keys: &[&str], list: &[Value]) -> bool {
    let names: BTreeSet<Vec<String>> = list.iter().map(|element| guessed_name(keys, element)).collect();
    names.len() == list.len() && names.iter().flatten().all(|part| !part.is_empty())
}
