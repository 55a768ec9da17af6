//! A declared document beside the live object: what it declares, and nothing else.

use serde_json::{Map, Value};

use super::{
    lists::{compare_lists, report_added_elements},
    place::Place,
    scalars::{compare_scalars, told},
    shapes::FieldType,
};
use crate::diff::findings::Findings;

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
