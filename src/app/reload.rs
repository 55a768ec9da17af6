//! Takes over new settings while the exporter runs; the last good ones stay where new ones are wrong.

use std::{io, sync::Arc, time::Duration};

use prometheus_client::registry::Registry;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
    time::{MissedTickBehavior, interval},
};
use tracing::{info, warn};

use super::{SettingsHandle, metrics::ReloadMetrics, telemetry::LogHandle};
use crate::{
    config::{FileWatch, Loaded, Overrides, Problem, ReloadStatus, load},
    types::Clock,
};

/// How often the file is looked at. A change is taken over at the second look that finds it the same.
const LOOK: Duration = Duration::from_millis(400);

/// A settings file that is in use.
#[derive(Debug)]
pub struct SettingsSource {
    /// The file.
    pub file: FileWatch,
    /// What stands above it.
    pub overrides: Overrides,
    /// What looked wrong in it at the start.
    pub warnings: Vec<Problem>,
}

/// Where is told how the reading of settings went.
#[derive(Debug)]
pub struct Reloads {
    status: watch::Sender<Arc<ReloadStatus>>,
    metrics: ReloadMetrics,
}

impl Reloads {
    pub(super) fn new(source: Option<&SettingsSource>, registry: &mut Registry, clock: &Clock) -> Self {
        let status = ReloadStatus {
            file: source.map(|source| source.file.path().to_owned()),
            last_success: clock.now(),
            problems: Vec::new(),
            warnings: source.map(|source| source.warnings.clone()).unwrap_or_default(),
        };
        let metrics = ReloadMetrics::register(registry);
        metrics.show(&status);
        Self { status: watch::Sender::new(Arc::new(status)), metrics }
    }

    pub(super) fn status(&self) -> watch::Receiver<Arc<ReloadStatus>> {
        self.status.subscribe()
    }

    fn tell(&self, status: ReloadStatus) {
        self.metrics.show(&status);
        self.status.send_replace(Arc::new(status));
    }
}

/// Keeps the settings of a running exporter as its file says.
#[derive(Debug)]
pub(super) struct Reloader {
    pub(super) source: SettingsSource,
    pub(super) settings: SettingsHandle,
    pub(super) reloads: Reloads,
    pub(super) log: LogHandle,
    pub(super) clock: Clock,
}

impl Reloader {
    /// Follows the file and SIGHUP for ever.
    pub(super) async fn run(mut self) {
        let mut hangup = match signal(SignalKind::hangup()) {
            Ok(hangup) => hangup,
            Err(error) => {
                warn!(%error, "Cannot listen for SIGHUP; settings are not followed.");
                return;
            }
        };
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let content = tokio::select! {
                _ = looks.tick() => self.source.file.look(),
                _ = hangup.recv() => self.source.file.read_now(),
            };
            if let Some(content) = content {
                self.take_over(content);
            }
        }
    }

    fn take_over(&mut self, content: io::Result<String>) {
        let path = self.source.file.path().display().to_string();
        let loaded = content
            .map_err(|error| vec![Problem::whole(format!("cannot be read: {error}"))])
            .and_then(|text| load(&text, &self.source.overrides));
        let mut status = ReloadStatus::clone(&self.reloads.status.borrow());
        match loaded {
            Ok(Loaded { settings, warnings }) => {
                for warning in &warnings {
                    warn!(file = path, "{warning}");
                }
                info!(file = path, "Settings taken over.");
                status.last_success = self.clock.now();
                status.problems.clear();
                status.warnings = warnings;
                self.log.set_level(settings.log_level);
                self.settings.replace(settings);
            }
            Err(problems) => {
                for problem in &problems {
                    warn!(file = path, "Settings not taken over, the last good ones stay: {problem}");
                }
                status.problems = problems;
            }
        }
        self.reloads.tell(status);
    }
}
