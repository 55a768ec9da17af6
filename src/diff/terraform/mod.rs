//! Compares Terraform state with live objects field by field, as a refresh would.
//!
//! State is the object as the provider read it back after an apply. So the live object is flattened as the provider would do it
//! ([`table`]), and the attributes are compared. A field that the provider does not read is not drift to Terraform.

mod attributes;
mod blind;
mod flatten;
mod parts;
mod sensitive;
mod table;
mod whole_object;

use self::{blind::AbsentAttributes, table::ProviderTable};
pub(super) use self::{blind::TERRAFORM_MANAGERS, parts::compare_parts, whole_object::compare_whole_object};
pub use self::{
    blind::{record_absent_attributes, record_unset_fields},
    sensitive::sensitive_fields,
    table::{PART_TYPES, ResourceType, resource_type, sensitive_attributes},
};
pub use super::redaction::redact_field;
use super::{ownership::FieldOwners, reporter::DiffReporter, tree::Node};
use crate::types::{DeclaredObject, FieldPath};

/// Compares the attributes of a state with a live object, and returns the fields that the provider never reads.
pub(super) fn compare_attributes<'a>(
    declared: &'a DeclaredObject,
    state: &Node,
    live: &Node,
    owners: &FieldOwners<'_>,
    reporter: &mut DiffReporter<'a>,
) -> Vec<FieldPath> {
    let table = ProviderTable::get();
    let Some(resource_type) = table.resource_type(&declared.resource_type) else { return Vec::new() };
    let block = resource_type.block;
    let flattened = flatten::flatten(table, block, live, state, &declared.key);
    attributes::compare_blocks(table, block, state.as_object(), Some(&flattened), reporter);
    blind::blind_fields(table, block, live, AbsentAttributes::of(state), owners, &declared.key)
}
