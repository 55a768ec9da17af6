//! Desired state: Terraform states, Helm releases and manifests.
//!
//! Each source implements one trait (`driver::BaselineSource`); one driver runs them all and publishes their baselines to the engine.

mod budget;
mod document_reader;
mod documents;
mod driver;
mod file_system;
pub mod helm;
mod inflate;
pub mod manifest;
mod metadata_watch;
mod publisher;
mod requirements;
mod scopes;
pub mod terraform;

pub use self::{
    documents::{DocumentError, read_objects},
    driver::{DecodeSlots, SourceContext},
    requirements::{KindRequirements, SourceDeclarations},
    scopes::is_cluster_scoped,
};
