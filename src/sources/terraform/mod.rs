//! Terraform and `OpenTofu` states: from the bytes of Secrets and files to declared objects.
//!
//! A state holds the secrets of everything that Terraform manages. Only resources of Kubernetes are ever read from it, outputs,
//! private data and other providers are skipped before anything is kept, and values that may not be told become digests.

mod files;
mod published;
mod resource;
mod secrets;
mod show;
mod source;
mod state;

pub use self::{
    published::{PART_LIMIT, Published, random_key},
    secrets::{StateSecret, group_chunks, join_chunks},
    source::{StateSources, follow},
    state::{StateReader, TerraformState, decode},
};
pub use super::inflate::{Broken, INFLATE_LIMIT, Text};
