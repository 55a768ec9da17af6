//! Comparing what a Terraform state has with the live object, field by field, as a refresh would.
//!
//! State is the object as the provider read it back after it applied it. So the live object is read the same way, by a table
//! ([`table`]), and the two are compared; what the provider does not read is not drift by Terraform's word.

mod attributes;
mod blind;
mod documents;
mod flatten;
mod parts;
mod sensitive;
mod table;

use serde_json::Value;

pub(super) use self::blind::OWN_MANAGERS;
use self::table::Table;
pub use self::{
    blind::{mark_absent, mark_unset},
    sensitive::sensitive_fields,
    table::{PART_TYPES, object_type, sensitive_attributes},
};
pub use super::redaction::{seal_field, seal_object};
use super::{
    declared::{Schemas, compare_document, own_place},
    document::unpack,
    findings::Findings,
    ownership::Owners,
    redaction::sealed,
};
use crate::types::{DeclaredBody, DeclaredObject, FieldPath, Finding, ObjectName};

/// What a state and a live object have to say about each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// The fields that differ.
    pub findings: Vec<Finding>,
    /// What Terraform calls the field of each finding, without indices: `spec.template.spec.container.image`.
    pub attributes: Vec<Box<str>>,
    /// Fields that others have set and Terraform never reads.
    pub blind: Vec<FieldPath>,
    /// Whether some values of the live object are sealed, and not with the key of what is declared. They are not in the
    /// findings: nothing can be said about them before the object is read again.
    pub other_key: bool,
}

/// Compares an object with what a state declares for it. `shapes`: what is known about a kind of the cluster's own.
pub fn compare(declared: &DeclaredObject, live: &Value, shapes: &Schemas) -> Comparison {
    let ObjectName { group, kind, .. } = &declared.object;
    let live = &*sealed(live, group, kind, &declared.key);
    let owners = Owners::of(live);
    let mut findings = Findings::new(&owners, &declared.key, &declared.sensitive);
    let mut blind = Vec::new();
    let body = declared.body.packed().map(unpack).unwrap_or_default();
    match &declared.body {
        DeclaredBody::Attributes(_) => {
            let table = Table::get();
            if let Some(row) = table.type_called(&declared.resource_type) {
                let read = flatten::flatten(table, row.shape, live, &body, &declared.key);
                attributes::compare_blocks(table, row.shape, body.as_object(), Some(&read), &mut findings);
                let absent = &body[blind::ABSENT];
                blind = blind::blind_fields(table, row.shape, live, absent, &owners, &declared.key);
            }
        }
        DeclaredBody::Whole(_) => {
            documents::compare_whole(own_place(&body, shapes), &body, live, &mut findings);
        }
        DeclaredBody::Subset(_) => compare_document(&body, live, shapes, &mut findings),
        DeclaredBody::Parts(_) => parts::compare_parts(declared, &body, live, &owners, &mut findings),
        DeclaredBody::Opaque(_) => {}
    }
    let other_key = findings.has_other_key();
    let (findings, attributes) = findings.finish();
    Comparison { findings, attributes, blind, other_key }
}
