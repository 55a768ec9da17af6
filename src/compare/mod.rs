//! Comparing what is declared with what is there: pure functions that do no I/O.

mod applied;
mod assigned;
mod canonical;
pub mod declared;
mod encoded;
mod field_class;
mod findings;
mod fingerprint;
mod go_json;
mod guessed;
mod judge;
mod kept;
mod lookup;
mod opr8r;
mod owners;
mod packed;
mod quantity;
mod sealed;
mod secrets;
pub mod terraform;
mod views;

pub use crate::model::Algorithm;
pub use applied::{applied, applied_unreadably};
pub use canonical::is_declared_key;
pub use field_class::class_of;
pub use fingerprint::{FingerprintError, Recorded, fingerprint, sha256_jcs, tfdrift};
pub use judge::{judge, judge_record};
pub use kept::{compare_kept, creator, is_written_by_terraform, keep};
pub use lookup::find;
pub use owners::Owners;
pub use packed::{pack, unpack};
pub use quantity::{Quantity, QuantityError};
pub use sealed::{is_sealed, seal, seal_all};
pub use secrets::{LAST_APPLIED, is_secret, seal_binary_data, seal_last_applied, seal_live};
pub use views::{DeploymentView, ServiceView, SpecView, Text};
