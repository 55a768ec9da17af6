//! The task that owns the engine, and the handle through which all others read the published snapshots.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use jiff::{SignedDuration, Timestamp};
use tokio::sync::{mpsc, watch};

use super::{Engine, Snapshot};
use crate::{event::Event, types::Clock};

/// The capacity of the engine's queue. A full queue slows down the watches, and loses no event.
pub const EVENT_QUEUE_CAPACITY: usize = 1024;
/// The most events that are applied before a snapshot is published.
const BATCH: usize = 256;

/// Reads the published snapshots. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SnapshotReader {
    published: watch::Receiver<Arc<Snapshot>>,
    heartbeat: Arc<AtomicI64>,
}

#[derive(Debug)]
pub struct SnapshotPublisher {
    published: watch::Sender<Arc<Snapshot>>,
    /// When the engine last finished a batch of events, in Unix seconds; 0 before that.
    heartbeat: Arc<AtomicI64>,
    /// Replaced snapshots that readers may hold.
    replaced: Vec<Arc<Snapshot>>,
}

impl SnapshotPublisher {
    fn publish(&mut self, snapshot: Snapshot) {
        self.replaced.push(self.published.send_replace(Arc::new(snapshot)));
    }

    /// Drops the replaced snapshots that no reader holds. A snapshot may hold the last references to all objects before a relist,
    /// so they are dropped here, never on a thread that serves requests.
    fn drop_unread(&mut self) {
        self.replaced.retain(|snapshot| Arc::strong_count(snapshot) > 1);
    }
}

pub fn snapshot_channel(first: Snapshot) -> (SnapshotPublisher, SnapshotReader) {
    let (sender, receiver) = watch::channel(Arc::new(first));
    let heartbeat = Arc::new(AtomicI64::new(0));
    let publisher =
        SnapshotPublisher { published: sender, heartbeat: heartbeat.clone(), replaced: Vec::new() };
    (publisher, SnapshotReader { published: receiver, heartbeat })
}

/// Applies events in batches and publishes a snapshot after each, until all senders are gone.
pub async fn run(
    mut engine: Engine,
    mut events: mpsc::Receiver<Event>,
    mut publisher: SnapshotPublisher,
    clock: Clock,
) {
    let mut batch = Vec::with_capacity(BATCH);
    let mut edition = 0;
    while events.recv_many(&mut batch, BATCH).await > 0 {
        let mut changed = false;
        for event in batch.drain(..) {
            changed |= engine.apply(event);
        }
        publisher.heartbeat.store(clock.now().as_second(), Ordering::Relaxed);
        if changed {
            edition += 1;
            publisher.publish(Snapshot { edition, ..engine.snapshot() });
        }
        publisher.drop_unread();
    }
}

impl SnapshotReader {
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.published.borrow().clone()
    }

    /// The latest snapshot, and marks it as seen: `changed` waits for a newer one.
    pub fn snapshot_and_update(&mut self) -> Arc<Snapshot> {
        self.published.borrow_and_update().clone()
    }

    /// Waits for a snapshot that is not marked as seen. False if the engine has stopped.
    pub async fn changed(&mut self) -> bool {
        self.published.changed().await.is_ok()
    }

    /// The time since the engine last took events from its queue; none before the first time.
    pub fn since_last_heartbeat(&self, now: Timestamp) -> Option<SignedDuration> {
        let heartbeat = self.heartbeat.load(Ordering::Relaxed);
        let heartbeat = (heartbeat != 0).then(|| Timestamp::from_second(heartbeat).ok()).flatten()?;
        Some(now.duration_since(heartbeat))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Snapshot, snapshot_channel};

    #[test]
    fn reader_never_drops_the_last_reference_to_a_snapshot() {
        let (mut publisher, reader) = snapshot_channel(Snapshot::default());
        let held = reader.snapshot();
        let weak = Arc::downgrade(&held);
        publisher.publish(Snapshot::default());
        publisher.drop_unread();
        drop(held);
        assert_eq!(weak.strong_count(), 1, "the publisher holds it");
        publisher.drop_unread();
        assert_eq!(weak.strong_count(), 0);
        publisher.publish(Snapshot::default());
        publisher.drop_unread();
        assert!(publisher.replaced.is_empty(), "no reader held it");
    }
}
