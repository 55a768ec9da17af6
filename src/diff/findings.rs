//! Where a walk is, and what it has found.

use std::cell::Cell;

use serde_json::Value;

use super::{
    fields::class_of,
    ownership::Owners,
    redacted_text::{is_exactly, is_of_another_key, is_same, is_same_amount, is_sealed, shown, shown_path},
    redaction::LAST_APPLIED,
};
use crate::types::{FieldPath, Finding, RedactionKey, Segment, is_within};

/// The findings of one walk over an object.
pub(super) struct Findings<'a> {
    owners: &'a Owners<'a>,
    /// Attributes whose values may not be told.
    sensitive: &'a [Box<str>],
    key: &'a RedactionKey,
    /// Whether a value was met that is sealed with other keys only.
    other_key: Cell<bool>,
    path: Vec<Segment>,
    attributes: Vec<&'a str>,
    found: Vec<Finding>,
    /// The attribute of each finding, without indices.
    found_attributes: Vec<Box<str>>,
}

impl<'a> Findings<'a> {
    /// None yet. The attributes that are sensitive are written without indices.
    pub(super) fn new(owners: &'a Owners<'a>, key: &'a RedactionKey, sensitive: &'a [Box<str>]) -> Self {
        Self {
            owners,
            sensitive,
            key,
            other_key: Cell::new(false),
            path: Vec::new(),
            attributes: Vec::new(),
            found: Vec::new(),
            found_attributes: Vec::new(),
        }
    }

    /// Goes into an attribute that is read from a field, and back out.
    pub(super) fn within(&mut self, attribute: &'a str, field: &str, walk: impl FnOnce(&mut Self)) {
        self.inline(attribute, |findings| findings.at(Segment::Field(field.into()), walk));
    }

    /// Goes into an attribute that no field of its own stands for, and back out.
    pub(super) fn inline(&mut self, attribute: &'a str, walk: impl FnOnce(&mut Self)) {
        self.attributes.push(attribute);
        walk(self);
        self.attributes.pop();
    }

    /// Goes one step towards a field, and back.
    pub(super) fn at(&mut self, segment: Segment, walk: impl FnOnce(&mut Self)) {
        self.path.push(segment);
        walk(self);
        self.path.pop();
    }

    /// Goes the whole way to an attribute, and back.
    pub(super) fn at_path(&mut self, attribute: &'a str, path: Vec<Segment>, walk: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.path, path);
        self.attributes.push(attribute);
        walk(self);
        self.attributes.pop();
        self.path = outer;
    }

    /// How much was found so far.
    pub(super) fn count(&self) -> usize {
        self.found.len()
    }

    /// Whether a walk finds nothing. What it does find is forgotten.
    pub(super) fn finds_nothing(&mut self, walk: impl FnOnce(&mut Self)) -> bool {
        let before = self.count();
        walk(self);
        let nothing = self.count() == before;
        self.found.truncate(before);
        self.found_attributes.truncate(before);
        nothing
    }

    /// Whether values here may not be told.
    pub(super) fn is_sensitive(&self) -> bool {
        self.is_covered(&self.attributes.join("."))
    }

    /// Whether two texts are the same, sealed or not. What is sealed with other keys only is taken to be the same.
    pub(super) fn is_same(&self, expected: &str, actual: &str) -> bool {
        if is_of_another_key(self.key, actual) {
            self.other_key.set(true);
            return true;
        }
        is_same(self.key, expected, actual)
    }

    /// Whether two texts are the same to the byte, sealed or not. What is sealed with other keys only is taken to be the same.
    pub(super) fn is_exactly(&self, expected: &str, actual: &str) -> bool {
        if is_of_another_key(self.key, actual) {
            self.other_key.set(true);
            return true;
        }
        is_exactly(self.key, expected, actual)
    }

    /// Whether all these texts are the same as those.
    pub(super) fn are_same(&self, expected: &[String], actual: &[String]) -> bool {
        expected.iter().zip(actual).all(|(expected, actual)| self.is_same(expected, actual))
    }

    /// Whether two texts are the same amount, sealed or not.
    pub(super) fn is_same_amount(&self, expected: &str, actual: &str) -> bool {
        is_same_amount(self.key, expected, actual)
    }

    /// A text, or its digest where it is sealed.
    pub(super) fn shown(&self, text: &str) -> Box<str> {
        shown(self.key, text, false)
    }

    /// Whether a value was met that is sealed with other keys only.
    pub(super) fn has_other_key(&self) -> bool {
        self.other_key.get()
    }

    /// The lists that are here differ. What is compared with digests is shown as digests.
    pub(super) fn lists_differ(&mut self, expected: &[Value], actual: &[Value]) {
        let mut all = expected.iter().chain(actual);
        let private = self.is_sensitive() || all.any(|one| is_sealed(&text(one)));
        let list = |values: &[Value]| match values {
            [] => String::new(),
            values if private => {
                let shown = values.iter().map(|one| Value::from(&*shown(self.key, &text(one), true)));
                shown.collect::<Value>().to_string()
            }
            values => Value::from(values).to_string(),
        };
        self.differs(&list(expected), &list(actual));
    }

    /// What is here differs.
    pub(super) fn differs(&mut self, expected: &str, actual: &str) {
        let attribute = self.attributes.join(".");
        let copied = matches!(self.path.last(), Some(Segment::Field(name)) if **name == *LAST_APPLIED);
        let sealed = copied || is_sealed(expected) || is_sealed(actual) || self.is_covered(&attribute);
        let path = FieldPath::new(self.path.clone());
        self.found.push(Finding {
            class: class_of(&path),
            expected: shown(self.key, expected, sealed),
            actual: shown(self.key, actual, sealed),
            writer: self.owners.owner(&path).cloned(),
            path: shown_path(self.key, &path).to_string().into(),
        });
        self.found_attributes.push(attribute.into());
    }

    /// What was found, and the attribute of each.
    pub(super) fn finish(self) -> (Vec<Finding>, Vec<Box<str>>) {
        (self.found, self.found_attributes)
    }

    fn is_covered(&self, attribute: &str) -> bool {
        self.sensitive.iter().any(|path| is_within(attribute, path))
    }
}

/// A scalar as findings write it.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}
