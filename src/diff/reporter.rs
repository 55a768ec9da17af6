//! Collects the findings of a walk over an object.

use std::cell::Cell;

use serde_json::Value;

use super::{
    fields::class_of,
    ownership::FieldOwners,
    redacted_text::{
        display, display_path, has_unknown_key, is_redacted, is_same, is_same_bytes, is_same_quantity,
    },
    redaction::LAST_APPLIED,
};
use crate::types::{Finding, RedactionKey, Segment, is_within};

/// Tracks the path of a walk and reports each difference at that path, with its owner and redacted if necessary.
pub(super) struct DiffReporter<'a> {
    owners: &'a FieldOwners<'a>,
    /// Attributes whose values are redacted, without indices.
    sensitive: &'a [Box<str>],
    key: &'a RedactionKey,
    unknown_key: Cell<bool>,
    path: Vec<Segment>,
    /// The Terraform name of the path.
    attributes: Vec<&'a str>,
    findings: Vec<Finding>,
    /// The attribute of each finding, without indices.
    finding_attributes: Vec<Box<str>>,
}

impl<'a> DiffReporter<'a> {
    pub(super) fn new(owners: &'a FieldOwners<'a>, key: &'a RedactionKey, sensitive: &'a [Box<str>]) -> Self {
        Self {
            owners,
            sensitive,
            key,
            unknown_key: Cell::new(false),
            path: Vec::new(),
            attributes: Vec::new(),
            findings: Vec::new(),
            finding_attributes: Vec::new(),
        }
    }

    /// Walks a field and the attribute that is read from it.
    pub(super) fn in_field(&mut self, attribute: &'a str, field: &str, walk: impl FnOnce(&mut Self)) {
        self.in_attribute(attribute, |reporter| reporter.at(Segment::Field(field.into()), walk));
    }

    /// Walks an attribute that has no field of its own.
    pub(super) fn in_attribute(&mut self, attribute: &'a str, walk: impl FnOnce(&mut Self)) {
        self.attributes.push(attribute);
        walk(self);
        self.attributes.pop();
    }

    pub(super) fn at(&mut self, segment: Segment, walk: impl FnOnce(&mut Self)) {
        self.path.push(segment);
        walk(self);
        self.path.pop();
    }

    /// Walks an attribute whose path starts at the root of the object.
    pub(super) fn at_path(&mut self, attribute: &'a str, path: Vec<Segment>, walk: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.path, path);
        self.attributes.push(attribute);
        walk(self);
        self.attributes.pop();
        self.path = outer;
    }

    pub(super) fn count(&self) -> usize {
        self.findings.len()
    }

    /// Whether a walk reports nothing. Its findings are discarded.
    pub(super) fn reports_nothing(&mut self, walk: impl FnOnce(&mut Self)) -> bool {
        let before = self.count();
        walk(self);
        let nothing = self.count() == before;
        self.findings.truncate(before);
        self.finding_attributes.truncate(before);
        nothing
    }

    /// Whether two texts, plain or redacted, are the same. A text that is redacted with other keys only is assumed to be.
    pub(super) fn is_same(&self, expected: &str, actual: &str) -> bool {
        self.is_incomparable(actual) || is_same(self.key, expected, actual)
    }

    /// Whether two texts, plain or redacted, are the same bytes. A text that is redacted with other keys only is assumed to be.
    pub(super) fn is_same_bytes(&self, expected: &str, actual: &str) -> bool {
        self.is_incomparable(actual) || is_same_bytes(self.key, expected, actual)
    }

    fn is_incomparable(&self, actual: &str) -> bool {
        let is_incomparable = has_unknown_key(self.key, actual);
        self.unknown_key.set(self.unknown_key.get() || is_incomparable);
        is_incomparable
    }

    pub(super) fn are_same(&self, expected: &[String], actual: &[String]) -> bool {
        expected.iter().zip(actual).all(|(expected, actual)| self.is_same(expected, actual))
    }

    pub(super) fn is_same_quantity(&self, expected: &str, actual: &str) -> bool {
        is_same_quantity(self.key, expected, actual)
    }

    pub(super) fn display(&self, text: &str) -> String {
        display(self.key, text, false).text().into_owned()
    }

    /// Whether the walk compared a text that is redacted with other keys only.
    pub(super) fn has_unknown_key(&self) -> bool {
        self.unknown_key.get()
    }

    /// Reports two lists that differ. If one element is redacted, all are.
    pub(super) fn report_lists(&mut self, expected: &[Value], actual: &[Value]) {
        let mut all = expected.iter().chain(actual);
        let is_sensitive = self.is_sensitive(&self.attributes.join("."))
            || all.any(|element| is_redacted(&scalar_text(element)));
        let list = |values: &[Value]| match values {
            [] => String::new(),
            values if is_sensitive => {
                let redacted = values
                    .iter()
                    .map(|element| Value::from(&*display(self.key, &scalar_text(element), true).text()));
                redacted.collect::<Value>().to_string()
            }
            values => Value::from(values).to_string(),
        };
        self.report(&list(expected), &list(actual));
    }

    pub(super) fn report(&mut self, expected: &str, actual: &str) {
        let attribute = self.attributes.join(".");
        let is_last_applied = matches!(self.path.last(), Some(Segment::Field(name)) if name == LAST_APPLIED);
        let is_sensitive =
            is_last_applied || is_redacted(expected) || is_redacted(actual) || self.is_sensitive(&attribute);
        let path = display_path(self.key, &self.path);
        self.findings.push(Finding {
            class: class_of(&path),
            expected: display(self.key, expected, is_sensitive),
            actual: display(self.key, actual, is_sensitive),
            owner: self.owners.owner(&self.path).cloned(),
            path,
        });
        self.finding_attributes.push(attribute.into());
    }

    pub(super) fn finish(self) -> (Vec<Finding>, Vec<Box<str>>) {
        (self.findings, self.finding_attributes)
    }

    fn is_sensitive(&self, attribute: &str) -> bool {
        self.sensitive.iter().any(|path| is_within(attribute, path))
    }
}

/// The text of a scalar in a finding; empty for null.
pub(super) fn scalar_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}
