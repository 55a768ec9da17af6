//! What is known, shown to the outside. Everything here only reads the published snapshot.

mod api;
mod auth;
mod connections;
mod health;
mod log_lines;
mod metrics;
mod query;
mod refused_heads;
mod routes;
mod server;
mod ui;
mod values;

pub use api::Listeners;
pub use auth::{Auth, Peer, WebConfig};
pub use log_lines::{LogLine, LogLines};
pub use metrics::{CATALOG, Metric, MetricKind, MetricsPage, build_info, process_metrics};
pub use routes::{Exposed, Protection, ROUTES, Route, router};
pub use server::{ServerLimits, listen, serve};
