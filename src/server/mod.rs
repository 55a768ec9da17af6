//! The HTTP side: `/metrics`, the API and the pages. Everything here reads the published snapshot.

mod api;
mod auth;
mod blocking;
mod http;
mod log_buffer;
mod metrics;
mod query;
mod redaction;
mod ui;

pub use self::http::{
    Exposed, Protection, ROUTES, Route, ServerLimits, health_router, listen, router, serve,
};
pub use api::EventStreamLimit;
pub(crate) use api::{
    DeclaredByView, DifferenceView, HealthView, ListView, ObjectView, ProblemView, ResourceView, StatusView,
    StreamView, Word,
};
pub use auth::{Auth, Peer, WebConfig};
pub use blocking::BlockingPool;
pub use log_buffer::{LogLine, LogLines};
pub use metrics::{CATALOG, Metric, MetricKind, MetricsPage, build_info, process_metrics};
