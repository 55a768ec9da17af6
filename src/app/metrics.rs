//! What is counted about settings.

use prometheus_client::{metrics::gauge::Gauge, registry::Registry};

use crate::config::ReloadStatus;

/// How the last reading of the settings went.
#[derive(Clone, Debug, Default)]
pub(super) struct ReloadMetrics {
    successful: Gauge,
    success_time: Gauge,
}

impl ReloadMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "drift_config_last_reload_successful",
            "Whether the settings file as it is now is in use; 0: it is wrong, and the last good one is",
            metrics.successful.clone(),
        );
        registry.register(
            "drift_config_last_reload_success_timestamp_seconds",
            "When settings were last taken over",
            metrics.success_time.clone(),
        );
        metrics
    }

    pub(super) fn show(&self, status: &ReloadStatus) {
        self.successful.set(i64::from(status.is_successful()));
        self.success_time.set(status.last_success.as_second());
    }
}
