//! Helm releases: from the Secrets and `ConfigMaps` of Helm's storage drivers to declared objects.
//!
//! A release contains its values, the whole chart, and hooks. Only the rendered manifest is decoded; sensitive values become digests.

mod release;
mod revisions;
mod source;

pub use self::{
    release::{Release, decode},
    source::run,
};
