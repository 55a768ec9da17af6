//! Where a walk is, and what it has found.

use super::{
    sealed::{is_sealed, shown},
    table::INLINE,
};
use crate::{
    compare::{field_class::class_of, owners::Owners},
    model::{FieldPath, Finding, Segment},
};

/// The findings of one walk over an object.
pub(super) struct Findings<'a> {
    owners: &'a Owners<'a>,
    /// Attributes whose values may not be told.
    sensitive: &'a [Box<str>],
    path: Vec<Segment>,
    attributes: Vec<&'a str>,
    found: Vec<Finding>,
    /// The attribute of each finding, without indices.
    found_attributes: Vec<Box<str>>,
}

impl<'a> Findings<'a> {
    pub(super) fn new(owners: &'a Owners<'a>, sensitive: &'a [Box<str>]) -> Self {
        Self {
            owners,
            sensitive,
            path: Vec::new(),
            attributes: Vec::new(),
            found: Vec::new(),
            found_attributes: Vec::new(),
        }
    }

    /// Goes into an attribute that is read from a field, and back out.
    pub(super) fn within(&mut self, attribute: &'a str, field: &str, walk: impl FnOnce(&mut Self)) {
        self.attributes.push(attribute);
        if field == INLINE {
            walk(self);
        } else {
            self.at(Segment::Field(field.into()), walk);
        }
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

    /// Whether values here may not be told.
    pub(super) fn is_sensitive(&self) -> bool {
        self.is_covered(&self.attributes.join("."))
    }

    /// What is here differs.
    pub(super) fn differs(&mut self, expected: &str, actual: &str) {
        let attribute = self.attributes.join(".");
        let sealed = is_sealed(expected) || self.is_covered(&attribute);
        let path = FieldPath::new(self.path.clone());
        self.found.push(Finding {
            class: class_of(&path),
            expected: shown(expected, sealed),
            actual: shown(actual, sealed),
            writer: self.owners.owner(&path).cloned(),
            path: path.to_string().into(),
        });
        self.found_attributes.push(attribute.into());
    }

    /// What was found, and the attribute of each.
    pub(super) fn finish(self) -> (Vec<Finding>, Vec<Box<str>>) {
        (self.found, self.found_attributes)
    }

    fn is_covered(&self, attribute: &str) -> bool {
        self.sensitive.iter().any(|path| {
            attribute.strip_prefix(&**path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }
}
