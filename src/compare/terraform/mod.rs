//! Comparing what a Terraform state has with the live object, field by field, as a refresh would.
//!
//! State is the object as the provider read it back after it applied it. So the live object is read the same way, by a table
//! ([`table`]), and the two are compared; what the provider does not read is not drift by Terraform's word.

mod attributes;
mod blind;
mod declared;
mod documents;
mod findings;
mod flatten;
mod parts;
mod sealed;
mod table;

use serde_json::Value;

pub use self::{
    declared::{Body, DeclaredObject, ObjectName, PART_TYPES, object_type, sensitive_attributes},
    sealed::{seal, seal_all},
};
use self::{findings::Findings, table::Table};
use super::owners::Owners;
use crate::model::{FieldPath, Finding};

/// What a state and a live object have to say about each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// The fields that differ.
    pub findings: Vec<Finding>,
    /// What Terraform calls the field of each finding, without indices: `spec.template.spec.container.image`.
    pub attributes: Vec<Box<str>>,
    /// Fields that others have set and Terraform never reads.
    pub blind: Vec<FieldPath>,
}

/// Compares an object with what a state declares for it.
pub fn compare(declared: &DeclaredObject, live: &Value) -> Comparison {
    let owners = Owners::of(live);
    let mut findings = Findings::new(&owners, &declared.sensitive);
    let mut blind = Vec::new();
    match &declared.body {
        Body::Attributes(state) => {
            let table = Table::get();
            if let Some(row) = table.type_called(&declared.resource_type) {
                let read = flatten::flatten(table, row.shape, live, state);
                attributes::compare_blocks(table, row.shape, state.as_object(), Some(&read), &mut findings);
                blind = blind::blind_fields(table, row.shape, live, &owners);
            }
        }
        Body::Whole(object) => documents::compare_whole(object, live, &mut findings),
        Body::Subset(object) => documents::compare_subset(object, live, &mut findings),
        Body::Parts(state) => parts::compare_parts(declared, state, live, &owners, &mut findings),
    }
    let (findings, attributes) = findings.finish();
    Comparison { findings, attributes, blind }
}
