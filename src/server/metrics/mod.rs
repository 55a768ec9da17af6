//! The `/metrics` page, put together from cached fragments.

mod aggregates;
mod catalog;
mod fragment;
mod handler;
mod jobs;
mod limit;
mod lines;
mod negotiate;
mod page;
mod process;
mod registry;
mod states;
mod text;

pub use catalog::{CATALOG, Metric, MetricKind};
pub(super) use handler::metrics;
use page::MetricsOptions;
pub use page::MetricsPage;
pub use process::{build_info, process_metrics};
