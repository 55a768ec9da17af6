//! The `/metrics` page, assembled from cached fragments.

mod aggregates;
mod catalog;
mod fragment;
mod handler;
mod limit;
mod lines;
mod page;
mod process;
mod text;

pub use catalog::{CATALOG, Metric, MetricKind};
pub(super) use handler::metrics;
use page::MetricsOptions;
pub use page::MetricsPage;
pub use process::{build_info, process_metrics};
