//! Settings that change while the exporter runs.

use std::sync::Arc;

use tokio::sync::watch;

use crate::config::Settings;

/// Changes the settings of a running exporter. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SettingsHandle(watch::Sender<Arc<Settings>>);

impl SettingsHandle {
    pub(super) fn new(first: Settings) -> (Self, watch::Receiver<Arc<Settings>>) {
        let (sender, receiver) = watch::channel(Arc::new(first));
        (Self(sender), receiver)
    }

    /// What the exporter is told to do now.
    pub fn current(&self) -> Arc<Settings> {
        self.0.borrow().clone()
    }

    /// Replaces all settings at once: kinds, namespaces and rules hold from now on, what is served from settings with the
    /// next request.
    pub fn replace(&self, settings: Settings) {
        self.0.send_replace(Arc::new(settings));
    }
}
