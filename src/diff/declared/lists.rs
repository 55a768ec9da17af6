//! Lists: by what is known about their order, each element beside the one that it stands for.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::Value;

use super::{
    place::Place,
    scalars::is_same,
    shapes::{FieldType, Order},
    walk::{compare_values, report_added},
};
use crate::{
    diff::{
        findings::{Findings, text},
        guessed::{KEYS, keys_of},
        sealed::is_sealed,
    },
    types::Segment,
};

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
