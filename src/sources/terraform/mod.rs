//! Terraform and `OpenTofu` states: from the bytes of Secrets and files to declared objects.
//!
//! A state holds the secrets of everything that Terraform manages. Only resources of Kubernetes are ever read from it, outputs,
//! private data and other providers are skipped before anything is kept, and values that may not be told become digests.

mod address;
mod chunks;
mod follow;
mod identity;
mod private;
mod published;
mod random;
mod resource;
mod secrets;
mod show;
mod state;

pub use self::{
    chunks::{StateSecret, group_chunks, join_chunks},
    follow::{StateSources, follow},
    published::{PART_LIMIT, Published},
    random::random_key,
    state::{StateReader, TerraformState, decode},
};
pub use super::text::{Broken, INFLATE_LIMIT, Text};
