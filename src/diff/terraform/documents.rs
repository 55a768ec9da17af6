//! An object as it was read after it was applied, beside the live one.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::blind::UNSET;
use crate::{
    diff::{
        declared::{
            KEYS, NOT_DECLARED, Place, guessed_keys, is_amount, keys_or_digests_of, known_keys, name_of,
            segment,
        },
        findings::{Findings, text},
    },
    types::Segment,
};

/// Compares an object as it was read after it was applied. What is there now and was not then differs too.
pub(super) fn compare_whole<'a>(
    place: Place<'a>,
    declared: &'a Value,
    live: &'a Value,
    findings: &mut Findings<'a>,
) {
    for name in names(declared, live) {
        let (place, declared, live) = (place.member(name), &declared[name], &live[name]);
        match name {
            "apiVersion" | "kind" | "status" => {}
            "metadata" => findings.within(name, name, |findings| {
                for name in names(declared, live).into_iter().filter(|name| !NOT_DECLARED.contains(name)) {
                    let (place, declared, live) = (place.member(name), &declared[name], &live[name]);
                    findings.within(name, name, |findings| compare_values(place, declared, live, findings));
                }
            }),
            _ => findings.within(name, name, |findings| compare_values(place, declared, live, findings)),
        }
    }
}

fn compare_values<'a>(place: Place<'a>, declared: &'a Value, live: &'a Value, findings: &mut Findings<'a>) {
    match (declared, live) {
        (Value::Object(_), Value::Object(_) | Value::Null) | (Value::Null, Value::Object(_)) => {
            for name in names(declared, live) {
                let (place, declared, live) = (place.member(name), &declared[name], &live[name]);
                findings.within(name, name, |findings| compare_values(place, declared, live, findings));
            }
        }
        (Value::Array(declared), Value::Array(live)) => compare_lists(place, declared, live, findings),
        (Value::Array(declared), Value::Null) => compare_lists(place, declared, &[], findings),
        (Value::Null, Value::Array(live)) => compare_lists(place, &[], live, findings),
        (declared, live) => {
            let (expected, actual) = (text(declared), text(live));
            let same = findings.is_same(&expected, &actual)
                || is_amount(place.name) && findings.is_same_amount(&expected, &actual);
            if !same {
                findings.differs(&expected, &actual);
            }
        }
    }
}

fn compare_lists<'a>(
    place: Place<'a>,
    declared: &'a [Value],
    live: &'a [Value],
    findings: &mut Findings<'a>,
) {
    let is_object = |value: &Value| value.is_object();
    if !declared.iter().chain(live).any(is_object) {
        // A set in another order is drift to Terraform.
        let same = declared.len() == live.len()
            && declared.iter().zip(live).all(|(one, other)| is_same(one, other, findings));
        if !same {
            findings.lists_differ(declared, live);
        }
        return;
    }
    let guess = || keys_or_digests_of(KEYS, declared, live).map(guessed_keys);
    let element = place.element();
    let Some(keys) = known_keys(place).or_else(guess) else {
        for at in 0..declared.len().max(live.len()) {
            let (declared, live) = (declared.get(at), live.get(at));
            findings.at(Segment::Index(at), |findings| compare_elements(element, declared, live, findings));
        }
        return;
    };
    let mut added: Vec<&Value> = live.iter().collect();
    let mut pairs = Vec::new();
    for declared in declared {
        let name = name_of(&keys, declared);
        let is_same = |live: &&Value| findings.are_same(&name, &name_of(&keys, live));
        let present = added.iter().position(is_same).map(|at| added.remove(at));
        pairs.push((Some(declared), present));
    }
    pairs.extend(added.into_iter().map(|live| (None, Some(live))));
    for (declared, live) in pairs {
        let name = live.or(declared).map(|element| name_of(&keys, element)).unwrap_or_default();
        findings.at(segment(&keys, &name), |findings| compare_elements(element, declared, live, findings));
    }
}

fn compare_elements<'a>(
    place: Place<'a>,
    declared: Option<&'a Value>,
    live: Option<&'a Value>,
    findings: &mut Findings<'a>,
) {
    let before = findings.count();
    compare_values(place, declared.unwrap_or(&Value::Null), live.unwrap_or(&Value::Null), findings);
    if declared.is_some() != live.is_some() && findings.count() == before {
        let there = |value: Option<&Value>| if value.is_some() { "{}" } else { "" };
        findings.differs(there(declared), there(live));
    }
}

/// Whether two elements of lists are the same that are no objects.
fn is_same(declared: &Value, live: &Value, findings: &Findings<'_>) -> bool {
    match (declared, live) {
        (Value::Array(declared), Value::Array(live)) => {
            declared.len() == live.len()
                && declared.iter().zip(live).all(|(one, other)| is_same(one, other, findings))
        }
        (declared, live) => findings.is_same(&text(declared), &text(live)),
    }
}

fn names<'a>(declared: &'a Value, live: &'a Value) -> BTreeSet<&'a str> {
    let of = |value: &'a Value| value.as_object().into_iter().flat_map(Map::keys).map(String::as_str);
    let unset = declared[UNSET].as_array();
    let is_read = |name: &&str| {
        unset.is_none_or(|unset| declared.get(name).is_some() || unset.iter().any(|other| other == *name))
    };
    of(declared).filter(|name| *name != UNSET).chain(of(live).filter(is_read)).collect()
}
