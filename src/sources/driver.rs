//! What every source gets from outside.

use std::{fmt, sync::Arc};

use kube::Client;
use tokio::sync::{mpsc, watch};

use super::requirements::Declares;
use crate::types::{Clock, Event, RedactionKey, WatchMode};

/// Whom to ask, and whom to tell. `S`: where a source looks.
pub struct SourceContext<S> {
    /// The cluster that baselines are kept in, or declare objects of.
    pub client: Client,
    /// Where to look; may change at any time.
    pub sources: watch::Receiver<Arc<S>>,
    /// Who is told.
    pub changes: mpsc::Sender<Event>,
    /// Who is told of all that is declared.
    pub declares: watch::Sender<Arc<Declares>>,
    /// The time.
    pub clock: Clock,
    /// Whether changes are told, too.
    pub look: WatchMode,
    /// The key of the digests that baselines are sealed with.
    pub key: RedactionKey,
}

impl<S> SourceContext<S> {
    /// Where to look now, and what tells of other places.
    pub(super) fn newest(&self) -> (Arc<S>, watch::Receiver<Arc<S>>) {
        let mut newest = self.sources.clone();
        let sources = newest.borrow_and_update().clone();
        (sources, newest)
    }
}

impl<S> fmt::Debug for SourceContext<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Follow").finish_non_exhaustive()
    }
}

/// Waits until settings name something else.
pub(super) async fn other_than<T: PartialEq>(newest: &mut watch::Receiver<Arc<T>>, current: &T) {
    while **newest.borrow_and_update() == *current {
        if newest.changed().await.is_err() {
            // Nobody is left to change them.
            return std::future::pending().await;
        }
    }
}
