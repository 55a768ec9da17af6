//! From the API server to changes: our own list and watch loop.
//!
//! kube gives configuration, credentials and TLS. The loop is ours because it has to show what kube's watcher hides:
//! bookmarks as signs of life, stalls, restarts and their reasons, and one bad object among good ones.

mod backoff;
mod client;
mod events;
mod facts;
mod fault;
mod kinds;
mod metrics;
mod read;
mod request;
mod split;
mod stream;
mod supervisor;
mod writer;

pub use client::{ConnectError, Connection, client_from};
pub use kinds::find_kind;
pub use metrics::WatchMetrics;
pub use request::object_url;
pub use stream::Timing;
pub use supervisor::{StreamParts, follow};
