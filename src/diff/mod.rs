//! Compares desired state with live objects: pure functions without I/O.

mod canonical;
mod compare;
mod digests;
mod document;
mod fields;
mod hash;
mod json_part;
pub mod manifest;
mod ownership;
mod quantity;
mod redaction;
mod reporter;
mod spec_view;
pub mod terraform;
mod tree;

pub use canonical::is_declared_key;
pub use compare::{Comparison, compare};
pub use digests::{Digests, redact_all, redact_value};
pub use document::{
    LiveContent, creator, declared_labels, is_written_by_terraform, pack, pack_live_object, unpack,
};
pub use fields::{class_of, value_at};
pub use hash::{
    FingerprintError, RecordedHash, fingerprint, hash_object, judge, judge_record, sha256_jcs, tfdrift,
};
pub use json_part::JsonPart;
#[cfg(test)]
pub(crate) use json_part::parsed_bytes;
pub use manifest::{last_applied, unreadable_last_applied};
pub use ownership::{FieldOwners, field_manager};
pub use quantity::{Quantity, QuantityError};
pub use redaction::{
    LAST_APPLIED, is_secret, redact_binary_data, redact_findings, redact_last_applied, redact_secret,
};
pub use reporter::{MAX_FINDINGS, ReportLimits, ReportedFields, omitted_findings};
pub use spec_view::{DeploymentView, PodView, ServiceView, SpecView, TemplateView, Text};
pub use tree::{Members, Node};

pub use crate::types::Algorithm;
