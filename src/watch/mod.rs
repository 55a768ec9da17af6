//! From the API server to changes: our own list and watch loop.
//!
//! kube gives configuration, credentials and TLS. The loop is ours because it has to show what kube's watcher hides:
//! bookmarks as signs of life, stalls, restarts and their reasons, and one bad object among good ones.

mod access;
mod backoff;
mod client;
mod discovery;
mod events;
mod exchange;
mod facts;
mod fault;
mod job_run;
mod kinds;
mod metrics;
mod plan;
mod planner;
mod read;
mod report;
mod request;
mod resolve;
mod schemas;
pub mod split;
mod stream;
mod supervisor;
mod wire;
mod writer;

pub use access::{Access, Allowed, Need, access};
pub use client::{ConnectError, Connection, client_from, client_to, context_namespace};
pub use kinds::{find_kind, served_kinds};
pub use metrics::WatchMetrics;
pub use plan::plan;
pub use planner::Planner;
pub use request::object_url;
pub use resolve::Discovery;
pub use schemas::{SchemaReader, SchemaRequests};
pub use stream::Timing;
pub use supervisor::{DecodeConfig, WatchDeps, follow};
