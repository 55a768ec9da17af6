//! Reading what is declared, one module per source: functions from bytes to declarations, and the tasks that follow them.

mod document_reader;
mod documents;
mod driver;
pub mod helm;
mod inflate;
pub mod manifest;
mod metadata_watch;
mod publisher;
mod requirements;
mod scopes;
pub mod terraform;

pub use self::{
    documents::{BadDocument, Document, documents, read_objects},
    driver::SourceContext,
    metadata_watch::innermost,
    requirements::{Declares, Wanted},
    scopes::is_cluster_scoped,
};
