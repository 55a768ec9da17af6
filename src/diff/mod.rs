//! Comparing what is declared with what is there: pure functions that do no I/O.

mod canonical;
pub mod declared;
mod document;
mod fields;
mod findings;
mod hash;
mod ownership;
mod quantity;
mod redacted_text;
mod redaction;
mod spec_view;
pub mod terraform;

pub use canonical::is_declared_key;
pub use declared::{applied, applied_unreadably};
pub use document::{compare_kept, creator, declared_labels, is_written_by_terraform, keep, pack, unpack};
pub use fields::{class_of, find};
pub use hash::{FingerprintError, Recorded, fingerprint, judge, judge_record, sha256_jcs, tfdrift};
pub use ownership::Owners;
pub use quantity::{Quantity, QuantityError};
pub use redacted_text::{is_sealed, seal, seal_all};
pub use redaction::{LAST_APPLIED, is_secret, seal_binary_data, seal_findings, seal_last_applied, seal_live};
pub use spec_view::{DeploymentView, PodView, ServiceView, SpecView, TemplateView, Text};

pub use crate::types::Algorithm;
