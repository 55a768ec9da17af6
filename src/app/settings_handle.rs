//! Settings that change while the exporter runs.

use std::sync::Arc;

use tokio::sync::watch;
use tracing::warn;

use crate::settings::Settings;

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

    /// Replaces all settings at once. Kinds and namespaces take effect at once, what is served from settings with the
    /// next request; the rest is read at the start only.
    pub fn replace(&self, mut settings: Settings) {
        let prefix = &self.current().annotation_prefix;
        if settings.annotation_prefix != *prefix {
            // Objects are read once, with the prefix of the start; asking for another label would miss their hashes.
            warn!(%prefix, "Another annotation prefix takes effect with the next start.");
            settings.annotation_prefix = prefix.clone();
        }
        self.0.send_replace(Arc::new(settings));
    }
}
