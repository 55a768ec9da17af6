//! Reading what is declared, one module per source: functions from bytes to declarations, and the tasks that follow them.

mod aside;
mod declare;
mod documents;
mod feed;
mod follow;
pub mod helm;
mod known;
pub mod manifest;
mod memory;
mod newest;
mod scopes;
mod teller;
pub mod terraform;
mod text;
mod wanted;
mod yaml;

pub use self::{
    documents::{BadDocument, Document, documents, read_objects},
    feed::innermost,
    follow::SourceContext,
    scopes::is_cluster_scoped,
    wanted::{Declares, Wanted},
};
