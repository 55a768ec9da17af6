//! Terraform and `OpenTofu` states: from the bytes of Secrets and files to declared objects.
//!
//! A state contains secrets of everything that Terraform manages. Only Kubernetes resources are decoded: outputs, private data and
//! resources of other providers are skipped while the state streams in, and sensitive values become digests.

mod files;
mod published;
mod resource;
mod secrets;
mod show;
mod source;
mod state;

pub use self::{
    published::{PART_LIMIT, PublishedBaseline, random_key},
    source::run,
    state::{StateReader, TerraformState, decode},
};
pub use super::inflate::{InflateReader, ReadError};
