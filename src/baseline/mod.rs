//! Reading what is declared, one module per source: functions from bytes to declarations, and the tasks that follow them.

mod declare;
mod documents;
mod feed;
pub mod helm;
pub mod manifest;
mod memory;
mod newest;
mod scopes;
pub mod terraform;
mod text;
mod wanted;
mod yaml;

pub use self::{
    documents::{BadDocument, Document, documents, read_objects},
    scopes::is_cluster_scoped,
    wanted::{Declares, Wanted},
};
