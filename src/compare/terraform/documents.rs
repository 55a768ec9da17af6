//! A declared document beside the live object: all of it, or only what it declares.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::absent::UNSET;
use crate::{
    compare::{
        findings::{Findings, text},
        quantity::Quantity,
        sealed::is_sealed,
    },
    model::Segment,
};

/// Compares an object as it was read after it was applied. What is there now and was not then differs too.
pub(super) fn compare_whole<'a>(declared: &'a Value, live: &'a Value, findings: &mut Findings<'a>) {
    Walk { whole: true }.root(declared, live, findings);
}

/// Compares what a document declares, and nothing else.
pub(super) fn compare_subset<'a>(declared: &'a Value, live: &'a Value, findings: &mut Findings<'a>) {
    Walk { whole: false }.root(declared, live, findings);
}

/// What the server writes by itself, or what says which object it is.
const NOT_DECLARED: &[&str] = &[
    "name",
    "namespace",
    "generateName",
    "uid",
    "creationTimestamp",
    "resourceVersion",
    "generation",
    "selfLink",
    "managedFields",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// By what elements of lists are known, where all have it and it tells them apart.
const KEYS: &[&[&str]] = &[
    &["name"],
    &["containerPort", "protocol"],
    &["port", "protocol"],
    &["mountPath"],
    &["devicePath"],
    &["ip"],
];

struct Walk {
    whole: bool,
}

impl Walk {
    fn root<'a>(&self, declared: &'a Value, live: &'a Value, findings: &mut Findings<'a>) {
        for name in names(declared, live, self.whole) {
            let (declared, live) = (&declared[name], &live[name]);
            match name {
                "apiVersion" | "kind" | "status" => {}
                "metadata" => findings.within(name, name, |findings| {
                    for name in names(declared, live, self.whole)
                        .into_iter()
                        .filter(|name| !NOT_DECLARED.contains(name))
                    {
                        let (declared, live) = (&declared[name], &live[name]);
                        findings.within(name, name, |findings| self.value(name, declared, live, findings));
                    }
                }),
                _ => findings.within(name, name, |findings| self.value(name, declared, live, findings)),
            }
        }
    }

    fn value<'a>(&self, name: &str, declared: &'a Value, live: &'a Value, findings: &mut Findings<'a>) {
        match (declared, live) {
            (Value::Object(_), Value::Object(_) | Value::Null) | (Value::Null, Value::Object(_)) => {
                let before = findings.count();
                for name in names(declared, live, self.whole) {
                    let (declared, live) = (&declared[name], &live[name]);
                    findings.within(name, name, |findings| self.value(name, declared, live, findings));
                }
                // `emptyDir: {}` has nothing in it and still means something.
                let there = |value: &Value| value.as_object().is_some_and(Map::is_empty);
                if findings.count() == before && (there(declared) && live.is_null()) && !self.whole {
                    findings.differs("{}", "");
                }
            }
            (Value::Array(declared), Value::Array(live)) => self.list(declared, live, findings),
            (Value::Array(declared), Value::Null) => self.list(declared, &[], findings),
            (Value::Null, Value::Array(live)) => self.list(&[], live, findings),
            (declared, live) => {
                let (expected, actual) = (text(declared), text(live));
                if !findings.is_same(&expected, &actual) && !is_same_amount(name, &expected, &actual) {
                    findings.differs(&expected, &actual);
                }
            }
        }
    }

    fn list<'a>(&self, declared: &'a [Value], live: &'a [Value], findings: &mut Findings<'a>) {
        let is_object = |value: &Value| value.is_object();
        if !declared.iter().chain(live).any(is_object) {
            let list = |values: &[Value]| {
                if values.is_empty() { String::new() } else { Value::from(values).to_string() }
            };
            let same = declared.len() == live.len()
                && declared.iter().zip(live).all(|(one, other)| findings.is_same(&text(one), &text(other)));
            if !same {
                // What is compared with digests is shown as digests.
                let is_private = findings.is_sensitive() || declared.iter().any(|one| is_sealed(&text(one)));
                let private = |one: &Value| match text(one) {
                    plain if is_private && !plain.is_empty() && !is_sealed(&plain) => {
                        findings.seal(&plain).into()
                    }
                    _ => one.clone(),
                };
                let live: Vec<Value> = live.iter().map(private).collect();
                let shown = |values: &[Value]| list(values).replace("\\u0001", "");
                findings.differs(&shown(declared), &shown(&live));
            }
            return;
        }
        let key = KEYS.iter().find(|keys| is_known_by(keys, declared) && is_known_by(keys, live));
        let Some(keys) = key else {
            for at in 0..declared.len().max(live.len()) {
                let (declared, live) = (declared.get(at), live.get(at));
                findings.at(Segment::Index(at), |findings| self.element(declared, live, findings));
            }
            return;
        };
        let find = |list: &'a [Value], name: &Vec<String>| {
            list.iter().find(|element| name_of(keys, element) == *name)
        };
        let mut seen = BTreeSet::new();
        for element in declared.iter().chain(live) {
            let name = name_of(keys, element);
            if !seen.insert(name.clone()) {
                continue;
            }
            let segment = keys.iter().zip(&name).map(|(key, value)| ((*key).into(), value.as_str().into()));
            let segment = Segment::Element(segment.collect());
            let (declared, live) = (find(declared, &name), find(live, &name));
            findings.at(segment, |findings| self.element(declared, live, findings));
        }
    }

    fn element<'a>(&self, declared: Option<&'a Value>, live: Option<&'a Value>, findings: &mut Findings<'a>) {
        let before = findings.count();
        // All of an added element differs, also where only a part of the object is declared.
        let walk = Self { whole: self.whole || declared.is_none() };
        walk.value("", declared.unwrap_or(&Value::Null), live.unwrap_or(&Value::Null), findings);
        if declared.is_some() != live.is_some() && findings.count() == before {
            let there = |value: Option<&Value>| if value.is_some() { "{}" } else { "" };
            findings.differs(there(declared), there(live));
        }
    }
}

fn names<'a>(declared: &'a Value, live: &'a Value, whole: bool) -> BTreeSet<&'a str> {
    let of = |value: &'a Value| value.as_object().into_iter().flat_map(Map::keys).map(String::as_str);
    let unset = declared[UNSET].as_array();
    let is_read = |name: &&str| {
        whole
            && unset
                .is_none_or(|unset| declared.get(name).is_some() || unset.iter().any(|other| other == *name))
    };
    of(declared).filter(|name| *name != UNSET).chain(of(live).filter(is_read)).collect()
}

fn is_known_by(keys: &[&str], list: &[Value]) -> bool {
    let names: BTreeSet<Vec<String>> = list.iter().map(|element| name_of(keys, element)).collect();
    // Where names are sealed, only places are left to tell elements apart by.
    names.len() == list.len() && names.iter().flatten().all(|part| !part.is_empty() && !is_sealed(part))
}

fn name_of(keys: &[&str], element: &Value) -> Vec<String> {
    let name = |key: &&str| match (*key, text(&element[*key])) {
        // The server writes it where nobody did.
        ("protocol", absent) if absent.is_empty() => "TCP".to_owned(),
        (_, text) => text,
    };
    keys.iter().map(name).collect()
}

/// Amounts stand under names of their own, which are seldom worth a table.
fn is_same_amount(name: &str, one: &str, other: &str) -> bool {
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
    let named = AMOUNTS.iter().any(|amount| name == *amount || name.ends_with(&format!(".{amount}")));
    named && Quantity::are_same(one, other)
}
