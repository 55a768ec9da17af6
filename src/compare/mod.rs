//! Comparing what is declared with what is there: pure functions that do no I/O.

mod assigned;
mod canonical;
mod fingerprint;
mod go_json;
mod judge;
mod quantity;
mod views;

pub use fingerprint::{
    Algorithm, FingerprintError, Recorded, fingerprint, tfdrift_deployment, tfdrift_service,
};
pub use judge::judge;
pub use quantity::{Quantity, QuantityError};
pub use views::{DeploymentView, ServiceView, Text};
