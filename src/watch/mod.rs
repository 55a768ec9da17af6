//! Live state: lists and watches of the API server, decoded into events for the engine.
//!
//! kube provides configuration, credentials and TLS. The list/watch loop is not that of kube-runtime, which hides bookmarks,
//! stalls and the reasons of restarts, and which fails a whole list for one malformed object.

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
mod shared_decoder;
mod status;
mod supervisor;
mod watcher;

pub use crate::types::DecodeConfig;
pub use client::{ClusterConnection, ConnectError, client_from, client_from_kubeconfig, context_namespace};
pub(crate) use discovery::DiscoveryClient;
pub use discovery::{KindScope, resolve_kind, served_kinds};
pub use metrics::{KindMetrics, WatchMetrics};
pub(crate) use openapi::SchemaReader;
pub use openapi::SchemaRequests;
pub use permissions::{
    PermissionCheck, PermissionError, PermissionStatus, RequiredPermission, check_permissions,
};
pub use planner::{Discovery, plan};
pub(crate) use planner::{PlannedWatches, Planner, config_changed};
pub use request::{
    ApiError, ConnectionError, MalformedResponse, object_url, request_with_timeout, root_cause,
};
pub(crate) use supervisor::{WatchDeps, run_watchers};
pub(crate) use watcher::Watcher;
pub use watcher::{Operation, ReceiverClosed, Representation, WatchHandler, WatcherConfig, WatcherEvent};

// Decoding without a connection, for benchmarks.
#[doc(hidden)]
pub use {
    decode::{Decoded, ObjectDecoder},
    watcher::{LineBuffer, WatchLine},
};
