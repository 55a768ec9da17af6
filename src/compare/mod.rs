//! Comparing what is declared with what is there: pure functions that do no I/O.

mod assigned;
mod canonical;
mod fingerprint;
mod go_json;
mod judge;
mod quantity;
mod views;

pub use crate::model::Algorithm;
pub use canonical::is_declared_key;
pub use fingerprint::{FingerprintError, Recorded, fingerprint, tfdrift};
pub use judge::judge;
pub use quantity::{Quantity, QuantityError};
pub use views::{DeploymentView, ServiceView, SpecView, Text};
