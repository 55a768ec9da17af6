//! Compares desired state with live objects: pure functions without I/O.

mod canonical;
mod compare;
mod document;
mod fields;
mod hash;
pub mod manifest;
mod ownership;
mod quantity;
mod redacted_text;
mod redaction;
mod reporter;
mod spec_view;
pub mod terraform;

pub use canonical::is_declared_key;
pub use compare::{Comparison, compare};
pub use document::{creator, declared_labels, is_written_by_terraform, pack, pack_live_object, unpack};
pub use fields::{class_of, retain_members, value_at};
pub use hash::{FingerprintError, RecordedHash, fingerprint, judge, judge_record, sha256_jcs, tfdrift};
pub use manifest::{last_applied, unreadable_last_applied};
pub use ownership::{FieldOwners, field_manager};
pub use quantity::{Quantity, QuantityError};
pub use redacted_text::{is_redacted, redact, redact_all};
pub use redaction::{
    LAST_APPLIED, is_secret, redact_binary_data, redact_findings, redact_last_applied, redact_secret,
};
pub use spec_view::{DeploymentView, PodView, ServiceView, SpecView, TemplateView, Text};

pub use crate::types::Algorithm;
