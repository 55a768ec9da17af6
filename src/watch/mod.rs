//! From the API server to changes: our own list and watch loop.
//!
//! kube gives configuration, credentials and TLS. The loop is ours because it has to show what kube's watcher hides:
//! bookmarks as signs of life, stalls, restarts and their reasons, and one bad object among good ones.

mod client;
mod decode;
mod discovery;
mod facts;
pub mod json_items;
mod metrics;
mod openapi;
mod permissions;
mod planner;
mod request;
mod status;
mod supervisor;
mod watcher;

pub use client::{ConnectError, Connection, client_from, client_to, context_namespace};
pub use discovery::{find_kind, served_kinds};
pub use json_items as split;
pub use metrics::WatchMetrics;
pub use openapi::{SchemaReader, SchemaRequests};
pub use permissions::{Access, Allowed, Need, access};
pub use planner::{Discovery, Planner, plan};
pub use request::object_url;
pub use supervisor::{DecodeConfig, WatchDeps, follow};
pub use watcher::Timing;
