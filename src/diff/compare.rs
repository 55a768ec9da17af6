//! The diff of one declared object and one live object. Terraform and manifests are two strategies of it.

use super::{
    document::unpack,
    manifest::{self, Schemas},
    ownership::FieldOwners,
    reporter::{DiffReporter, ReportLimits},
    terraform,
    tree::Node,
};
use crate::types::{DeclaredBody, DeclaredObject, FieldPath, Finding};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    pub findings: Vec<Finding>,
    /// The attribute of each finding, without indices: `spec.template.spec.container.image`. It is the field in a manifest.
    pub attributes: Vec<Box<str>>,
    /// Fields that other managers set and Terraform never reads.
    pub blind: Vec<FieldPath>,
    /// Whether some live values are redacted with keys other than the declaration's. They cannot be compared before the
    /// object is read again, and are not among the findings.
    pub unknown_key: bool,
}

/// Compares the content of a live object with its declaration. `schemas` are those of custom resources.
pub fn compare(
    declared: &DeclaredObject,
    live: &Node,
    schemas: &Schemas,
    limits: ReportLimits,
) -> Comparison {
    let owners = &FieldOwners::of(live);
    let mut reporter = DiffReporter::new(owners, &declared.key, &declared.sensitive, limits);
    let mut blind = Vec::new();
    let body = &declared.body.packed().map(unpack).unwrap_or_default();
    match &declared.body {
        DeclaredBody::Attributes(_) => {
            blind = terraform::compare_attributes(declared, body, live, owners, &mut reporter);
        }
        DeclaredBody::Whole(_) => terraform::compare_whole_object(body, live, schemas, &mut reporter),
        DeclaredBody::Parts(_) => terraform::compare_parts(declared, body, live, owners, &mut reporter),
        DeclaredBody::Subset(_) => manifest::compare_manifest(body, live, schemas, &mut reporter),
        DeclaredBody::Opaque(_) => {}
    }
    let unknown_key = reporter.has_unknown_key();
    let (findings, attributes) = reporter.finish();
    Comparison { findings, attributes, blind, unknown_key }
}
