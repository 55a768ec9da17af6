//! Collects the findings of a walk over an object.
//!
//! A tenant may declare 50,000 fields that the live object does not have. So only the first [`MAX_FINDINGS`] are kept, and one more
//! finding counts the others. Its class is `existence`, which no other class exceeds: what the limit hides may be critical.

use std::cell::Cell;

use super::{
    digests::{has_unknown_key, is_same, is_same_bytes, is_same_quantity, redact_imitations},
    fields::class_of,
    ownership::{FieldOwners, Step, shown_path},
    redaction::LAST_APPLIED,
    tree::{Node, Scalar},
};
use crate::types::{FieldClass, FieldPath, FieldValue, Finding, RedactionKey, is_within};

/// The most findings of one comparison with plain values, and the most with redacted values.
pub const MAX_FINDINGS: usize = 1_000;

/// The fields that a comparison reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReportedFields {
    #[default]
    All,
    /// Fields whose values the API shows by default. All others count as equal, so the findings do not show whether they are.
    Public,
}

/// What a comparison reports.
#[derive(Clone, Copy, Debug)]
pub struct ReportLimits {
    pub fields: ReportedFields,
    /// The most findings with plain values, and the most with redacted values; at most [`MAX_FINDINGS`].
    pub max_findings: usize,
}

impl Default for ReportLimits {
    fn default() -> Self {
        Self { fields: ReportedFields::All, max_findings: MAX_FINDINGS }
    }
}

/// Tracks the path of a walk and reports each difference at that path, with its owner and redacted if necessary.
pub(super) struct DiffReporter<'a> {
    owners: &'a FieldOwners<'a>,
    /// Attributes whose values are redacted, without indices.
    sensitive: &'a [Box<str>],
    key: &'a RedactionKey,
    limits: ReportLimits,
    unknown_key: Cell<bool>,
    path: Vec<Step>,
    /// The Terraform name of the path.
    attributes: Vec<&'a str>,
    findings: Vec<Finding>,
    /// The attribute of each finding, without indices.
    finding_attributes: Vec<Box<str>>,
    plain: Reported,
    redacted: Reported,
}

/// The differences with plain or with redacted values.
#[derive(Clone, Default)]
struct Reported {
    count: usize,
    /// The field that contains all of them beyond the limit.
    omitted: Option<Vec<Step>>,
}

impl Reported {
    /// Counts a difference. Returns whether its finding is kept.
    fn add(&mut self, path: &[Step], max: usize) -> bool {
        self.count += 1;
        if self.count <= max {
            return true;
        }
        let is_same = |steps: &(&Step, &Step)| matches!(steps, (Step::Field(a), Step::Field(b)) if a == b);
        let omitted = self.omitted.get_or_insert_with(|| path.to_vec());
        let common = omitted.iter().zip(path).take_while(is_same).count();
        omitted.truncate(common);
        false
    }
}

impl<'a> DiffReporter<'a> {
    pub(super) fn new(
        owners: &'a FieldOwners<'a>,
        key: &'a RedactionKey,
        sensitive: &'a [Box<str>],
        limits: ReportLimits,
    ) -> Self {
        Self {
            owners,
            sensitive,
            key,
            limits,
            unknown_key: Cell::new(false),
            path: Vec::new(),
            attributes: Vec::new(),
            findings: Vec::new(),
            finding_attributes: Vec::new(),
            plain: Reported::default(),
            redacted: Reported::default(),
        }
    }

    /// Walks a field and the attribute that is read from it.
    pub(super) fn in_field(&mut self, attribute: &'a str, field: &str, walk: impl FnOnce(&mut Self)) {
        self.in_attribute(attribute, |reporter| reporter.at(Step::Field(field.into()), walk));
    }

    /// Walks an attribute that has no field of its own.
    pub(super) fn in_attribute(&mut self, attribute: &'a str, walk: impl FnOnce(&mut Self)) {
        self.attributes.push(attribute);
        walk(self);
        self.attributes.pop();
    }

    pub(super) fn at(&mut self, step: Step, walk: impl FnOnce(&mut Self)) {
        self.path.push(step);
        walk(self);
        self.path.pop();
    }

    /// Walks an attribute whose path starts at the root of the object.
    pub(super) fn at_path(&mut self, attribute: &'a str, path: Vec<Step>, walk: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.path, path);
        self.attributes.push(attribute);
        walk(self);
        self.attributes.pop();
        self.path = outer;
    }

    pub(super) fn count(&self) -> usize {
        self.plain.count + self.redacted.count
    }

    /// Whether a walk reports nothing. Its findings are discarded.
    pub(super) fn reports_nothing(&mut self, walk: impl FnOnce(&mut Self)) -> bool {
        let (before, kept) = (self.count(), self.findings.len());
        let reported = (self.plain.clone(), self.redacted.clone());
        walk(self);
        let nothing = self.count() == before;
        (self.plain, self.redacted) = reported;
        self.findings.truncate(kept);
        self.finding_attributes.truncate(kept);
        nothing
    }

    /// Whether two scalars, plain or redacted, are the same. One that is redacted with other keys only is assumed to be.
    pub(super) fn is_same(&self, expected: &Scalar<'_>, actual: &Scalar<'_>) -> bool {
        self.is_incomparable(actual) || is_same(self.key, expected, actual)
    }

    /// Whether two scalars, plain or redacted, are the same bytes. One that is redacted with other keys only is assumed to be.
    pub(super) fn is_same_bytes(&self, expected: &Scalar<'_>, actual: &Scalar<'_>) -> bool {
        self.is_incomparable(actual) || is_same_bytes(self.key, expected, actual)
    }

    fn is_incomparable(&self, actual: &Scalar<'_>) -> bool {
        let is_incomparable = has_unknown_key(self.key, actual);
        self.unknown_key.set(self.unknown_key.get() || is_incomparable);
        is_incomparable
    }

    pub(super) fn are_same(&self, expected: &[Scalar<'_>], actual: &[Scalar<'_>]) -> bool {
        expected.iter().zip(actual).all(|(expected, actual)| self.is_same(expected, actual))
    }

    pub(super) fn is_same_quantity(&self, expected: &Scalar<'_>, actual: &Scalar<'_>) -> bool {
        is_same_quantity(self.key, expected, actual)
    }

    /// The value of a field in a finding; [`None`] is a field that the object does not have.
    pub(super) fn value(&self, field: Option<&Node>) -> FieldValue {
        match field {
            None => FieldValue::Absent,
            Some(Node::Null) => FieldValue::Null,
            Some(Node::String(text)) => FieldValue::Text(text.as_str().into()),
            Some(Node::Redacted(digests)) => digests.shown(self.key),
            Some(node) if node.has_redacted_part() => {
                let mut node = node.clone();
                redact_imitations(self.key, &mut node);
                FieldValue::PartlyRedacted(node.to_string().into())
            }
            Some(node) => FieldValue::Json(node.to_string().into()),
        }
    }

    /// The value of a list element that is an object, in a finding about the whole element.
    pub(super) fn empty_object(element: Option<&Node>) -> FieldValue {
        element.map_or(FieldValue::Absent, |_| FieldValue::Json("{}".into()))
    }

    /// Whether the walk compared a text that is redacted with other keys only.
    pub(super) fn has_unknown_key(&self) -> bool {
        self.unknown_key.get()
    }

    /// Reports two lists that differ, one of which may be absent or null. An empty list is absent. If one element is redacted,
    /// all are.
    pub(super) fn report_lists(&mut self, expected: Option<&Node>, actual: Option<&Node>) {
        let is_sensitive = self.is_sensitive(&self.attributes.join("."))
            || [expected, actual].into_iter().flatten().any(Node::has_redacted_part);
        let redacted = |element: &Node| match element {
            Node::Null => Node::Null,
            Node::String(text) if text.is_empty() => Node::String(String::new()),
            element => Node::String(self.value(Some(element)).redacted(self.key).text().into_owned()),
        };
        let list = |value: Option<&Node>| match value {
            Some(Node::Array(elements)) if elements.is_empty() => FieldValue::Absent,
            Some(Node::Array(elements)) if is_sensitive => {
                let elements: Node = elements.iter().map(redacted).collect();
                FieldValue::PartlyRedacted(elements.to_string().into())
            }
            other => self.value(other),
        };
        self.report(list(expected), list(actual));
    }

    pub(super) fn report(&mut self, expected: FieldValue, actual: FieldValue) {
        let attribute = self.attributes.join(".");
        let is_last_applied = matches!(self.path.last(), Some(Step::Field(name)) if name == LAST_APPLIED);
        let is_digest = |value: &FieldValue| matches!(value, FieldValue::Redacted(_));
        let is_sensitive =
            is_last_applied || is_digest(&expected) || is_digest(&actual) || self.is_sensitive(&attribute);
        let has_redacted = is_sensitive || expected.is_redacted() || actual.is_redacted();
        let is_hidden = self.limits.fields == ReportedFields::Public
            && (has_redacted || !class_of(&shown_path(self.key, &self.path)).is_public());
        if is_hidden {
            return;
        }
        let reported = if has_redacted { &mut self.redacted } else { &mut self.plain };
        if !reported.add(&self.path, self.limits.max_findings) {
            return;
        }
        let value = |value: FieldValue| if is_sensitive { value.redacted(self.key) } else { value };
        let path = shown_path(self.key, &self.path);
        self.findings.push(Finding {
            class: class_of(&path),
            expected: value(expected),
            actual: value(actual),
            owner: self.owners.owner(&self.path).cloned(),
            path,
        });
        self.finding_attributes.push(attribute.into());
    }

    pub(super) fn finish(mut self) -> (Vec<Finding>, Vec<Box<str>>) {
        for (reported, redacted) in [(self.plain, false), (self.redacted, true)] {
            let Some(omitted) = reported.omitted else { continue };
            let mut finding = omitted_findings(reported.count - self.limits.max_findings, redacted);
            if !omitted.is_empty() {
                finding.path = shown_path(self.key, &omitted);
            }
            self.findings.push(finding);
            self.finding_attributes.push(Box::default());
        }
        (self.findings, self.finding_attributes)
    }

    fn is_sensitive(&self, attribute: &str) -> bool {
        self.sensitive.iter().any(|path| is_within(attribute, path))
    }
}

/// One finding in place of this number of others. Like a missing object, it is at the name if it is not within one field.
pub fn omitted_findings(count: usize, redacted: bool) -> Finding {
    let path = FieldPath::of_fields(["metadata", "name"]);
    let omitted = FieldValue::Omitted { count, redacted };
    Finding::new(path, FieldClass::Existence, FieldValue::Absent, omitted)
}
