//! What was said at the command line or in the environment, which stands above the file.

use super::file::{LogLevel, ShownResources};
use crate::types::Source;

/// Settings that are not to be taken from the file. What is none here is.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Namespaces to watch.
    pub namespaces: Option<Vec<Box<str>>>,
    /// The sources that are switched on.
    pub sources: Option<Vec<Source>>,
    /// Objects that have series of their own.
    pub resources: Option<ShownResources>,
    /// Most series of single objects.
    pub max_series: Option<usize>,
    /// Whether `drift_resource_health` is exposed.
    pub health: Option<bool>,
    /// The least severe messages that are logged.
    pub log_level: Option<LogLevel>,
}
