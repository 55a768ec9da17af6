//! Settings at runtime: replaces them, and reloads them from their file.

use std::{io, sync::Arc, time::Duration};

use prometheus_client::{metrics::gauge::Gauge, registry::Registry};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
    time::{MissedTickBehavior, interval},
};
use tracing::{info, warn};

use super::telemetry::LogHandle;
use crate::{
    config::{
        ConfigProblem, FileWatch, LoadedSettings, Overrides, ReloadStatus, RuntimeConfig, Settings, load,
    },
    types::Clock,
};

/// The interval at which the settings file is checked. A change is loaded at the second check that finds the
/// same content, so that a file is not read while it is written.
const FILE_CHECK_INTERVAL: Duration = Duration::from_millis(400);

/// Changes the settings of a running exporter. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SettingsHandle(watch::Sender<Arc<RuntimeConfig>>);

impl SettingsHandle {
    pub(super) fn new(config: watch::Sender<Arc<RuntimeConfig>>) -> Self {
        Self(config)
    }

    pub fn current(&self) -> Arc<Settings> {
        self.0.borrow().settings.clone()
    }

    /// Replaces all settings at once. Kinds, namespaces and rules change now, responses with the next
    /// request.
    pub fn replace(&self, settings: Settings) {
        self.0.send_modify(|config| Arc::make_mut(config).settings = Arc::new(settings));
    }
}

#[derive(Debug)]
pub struct SettingsSource {
    pub file: FileWatch,
    /// Flags, which take precedence over the file.
    pub overrides: Overrides,
    /// The warnings of the first load.
    pub warnings: Vec<ConfigProblem>,
}

/// Publishes the result of the last reload, as a status and as metrics.
#[derive(Debug)]
pub struct ReloadReporter {
    status: watch::Sender<Arc<ReloadStatus>>,
    successful: Gauge,
    success_time: Gauge,
}

impl ReloadReporter {
    pub(super) fn new(source: Option<&SettingsSource>, registry: &mut Registry, clock: &Clock) -> Self {
        let status = ReloadStatus {
            file: source.map(|source| source.file.path().to_owned()),
            last_success: clock.now(),
            problems: Vec::new(),
            warnings: source.map(|source| source.warnings.clone()).unwrap_or_default(),
        };
        let (successful, success_time) = (Gauge::default(), Gauge::default());
        registry.register(
            "drift_config_last_reload_successful",
            "Whether the last reload of the settings file succeeded; 0: it is invalid, and the last valid settings are in use",
            successful.clone(),
        );
        registry.register(
            "drift_config_last_reload_success_timestamp_seconds",
            "Time of the last successful reload of the settings",
            success_time.clone(),
        );
        let reporter =
            Self { status: watch::Sender::new(Arc::new(status.clone())), successful, success_time };
        reporter.report(status);
        reporter
    }

    pub(super) fn status(&self) -> watch::Receiver<Arc<ReloadStatus>> {
        self.status.subscribe()
    }

    fn report(&self, status: ReloadStatus) {
        self.successful.set(i64::from(status.is_successful()));
        self.success_time.set(status.last_success.as_second());
        self.status.send_replace(Arc::new(status));
    }
}

/// Reloads the settings file when it changes or on SIGHUP. Invalid settings are reported, and the last valid
/// ones stay in use.
#[derive(Debug)]
pub(super) struct SettingsReloader {
    pub(super) source: SettingsSource,
    pub(super) settings: SettingsHandle,
    pub(super) reporter: ReloadReporter,
    pub(super) log: LogHandle,
    pub(super) clock: Clock,
}

impl SettingsReloader {
    pub(super) async fn run(mut self) {
        let mut hangup = match signal(SignalKind::hangup()) {
            Ok(hangup) => hangup,
            Err(error) => {
                warn!(%error, "Cannot listen for SIGHUP; settings are not reloaded.");
                return;
            }
        };
        let mut checks = interval(FILE_CHECK_INTERVAL);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let content = tokio::select! {
                _ = checks.tick() => self.source.file.poll(),
                _ = hangup.recv() => self.source.file.read_now(),
            };
            if let Some(content) = content {
                self.reload(content);
            }
        }
    }

    fn reload(&mut self, content: io::Result<String>) {
        let path = self.source.file.path().display().to_string();
        let loaded = content
            .map_err(|error| vec![ConfigProblem::whole(format!("cannot be read: {error}"))])
            .and_then(|text| load(&text, &self.source.overrides, self.clock.now()));
        let mut status = ReloadStatus::clone(&self.reporter.status.borrow());
        match loaded {
            Ok(LoadedSettings { settings, warnings }) => {
                for warning in &warnings {
                    warn!(file = path, "{warning}");
                }
                info!(file = path, "Settings reloaded.");
                status.last_success = self.clock.now();
                status.problems.clear();
                status.warnings = warnings;
                self.log.set_level(settings.log_level);
                self.settings.replace(settings);
            }
            Err(problems) => {
                for problem in &problems {
                    warn!(file = path, "Settings not reloaded, the last valid ones stay in use: {problem}");
                }
                status.problems = problems;
            }
        }
        self.reporter.report(status);
    }
}
