//! Follows the history, so that nobody who acts on it holds the engine up: the history itself is the queue.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::engine::{StateReader, Transition};

/// Gives new transitions until told to stop.
#[derive(Debug)]
pub(super) struct Follower {
    pub(super) state: StateReader,
    /// The last transition that was given.
    pub(super) seen: u64,
    pub(super) stop: CancellationToken,
}

impl Follower {
    /// Waits for something new to be published. None when it is time to stop; the list may be empty.
    pub(super) async fn next(&mut self) -> Option<Vec<Arc<Transition>>> {
        let more = tokio::select! {
            more = self.state.changed() => more,
            () = self.stop.cancelled() => false,
        };
        let new = self.state.snapshot().history.since(self.seen);
        self.seen = new.last().map_or(self.seen, |last| last.sequence);
        more.then_some(new)
    }
}
