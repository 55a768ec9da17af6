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

use serde_json::Value;

pub(super) use self::blind::TERRAFORM_MANAGERS;
use self::table::ProviderTable;
pub use self::{
    blind::{record_absent_attributes, record_unset_fields},
    sensitive::sensitive_fields,
    table::{PART_TYPES, gvk_of, sensitive_attributes},
};
pub use super::redaction::{redact_field, redact_object};
use super::{
    document::unpack,
    manifest::{Schemas, compare_manifest, custom_resource_node},
    ownership::FieldOwners,
    redaction::with_redacted_secret,
    reporter::DiffReporter,
};
use crate::types::{DeclaredBody, DeclaredObject, FieldPath, Finding, ObjectRef};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    pub findings: Vec<Finding>,
    /// The Terraform attribute of each finding, without indices: `spec.template.spec.container.image`.
    pub attributes: Vec<Box<str>>,
    /// Fields that other managers set and Terraform never reads.
    pub blind: Vec<FieldPath>,
    /// Whether some live values are redacted with keys other than the declaration's. They cannot be compared before the
    /// object is read again, and are not among the findings.
    pub unknown_key: bool,
}

/// Compares a live object with its declaration. `schemas` are those of custom resources.
pub fn compare(declared: &DeclaredObject, live: &Value, schemas: &Schemas) -> Comparison {
    let ObjectRef { group, kind, .. } = &declared.object;
    let live = &*with_redacted_secret(live, group, kind, &declared.key);
    let owners = FieldOwners::of(live);
    let mut reporter = DiffReporter::new(&owners, &declared.key, &declared.sensitive);
    let mut blind = Vec::new();
    let body = declared.body.packed().map(unpack).unwrap_or_default();
    match &declared.body {
        DeclaredBody::Attributes(_) => {
            let table = ProviderTable::get();
            if let Some(resource_type) = table.resource_type(&declared.resource_type) {
                let block = resource_type.block;
                let flattened = flatten::flatten(table, block, live, &body, &declared.key);
                attributes::compare_blocks(table, block, body.as_object(), Some(&flattened), &mut reporter);
                let absent = &body[blind::ABSENT];
                blind = blind::blind_fields(table, block, live, absent, &owners, &declared.key);
            }
        }
        DeclaredBody::Whole(_) => {
            let node = custom_resource_node(&body, schemas);
            whole_object::compare_whole_object(node, &body, live, &mut reporter);
        }
        DeclaredBody::Subset(_) => compare_manifest(&body, live, schemas, &mut reporter),
        DeclaredBody::Parts(_) => parts::compare_parts(declared, &body, live, &owners, &mut reporter),
        DeclaredBody::Opaque(_) => {}
    }
    let unknown_key = reporter.has_unknown_key();
    let (findings, attributes) = reporter.finish();
    Comparison { findings, attributes, blind, unknown_key }
}
