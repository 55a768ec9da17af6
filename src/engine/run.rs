//! The task that owns the state, and the handle that everyone else reads through.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use jiff::{SignedDuration, Timestamp};
use tokio::sync::{mpsc, watch};

use super::{Engine, Snapshot};
use crate::{
    diff::declared::ClusterSchemas,
    rules::RuleSet,
    types::{Clock, Event},
};

/// Changes that wait at most; a full queue slows the readers of the API server down, and loses nothing.
pub const QUEUE: usize = 1024;
const BATCH: usize = 256;

/// Reads what was last published. Cheap to clone.
#[derive(Clone, Debug)]
pub struct StateReader {
    published: watch::Receiver<Arc<Snapshot>>,
    beat: Arc<AtomicI64>,
}

/// Publishes snapshots to the readers.
#[derive(Debug)]
pub struct StatePublisher {
    published: watch::Sender<Arc<Snapshot>>,
    beat: Arc<AtomicI64>,
}

/// A publisher and the first of its readers.
pub fn state_channel(first: Snapshot) -> (StatePublisher, StateReader) {
    let (sender, receiver) = watch::channel(Arc::new(first));
    let beat = Arc::new(AtomicI64::new(0));
    (StatePublisher { published: sender, beat: beat.clone() }, StateReader { published: receiver, beat })
}

/// Applies changes in batches and publishes after each, until nobody can send any more. The newest rules, and the newest word about
/// the cluster's own kinds, hold from the moment they are there, for everything that is known already too.
pub async fn run(
    mut engine: Engine,
    mut changes: mpsc::Receiver<Event>,
    mut rules: watch::Receiver<Arc<RuleSet>>,
    mut shapes: watch::Receiver<Arc<ClusterSchemas>>,
    publisher: StatePublisher,
    clock: Clock,
) {
    let mut batch = Vec::with_capacity(BATCH);
    let mut edition = 0;
    loop {
        let mut news = false;
        tokio::select! {
            biased;
            Ok(()) = rules.changed() => {
                engine.take_rules(rules.borrow_and_update().clone());
                news = true;
            }
            Ok(()) = shapes.changed() => news = engine.take_shapes(&shapes.borrow_and_update().clone()),
            received = changes.recv_many(&mut batch, BATCH) => if received == 0 {
                return;
            }
        }
        for change in batch.drain(..) {
            news |= engine.apply(change);
        }
        publisher.beat.store(clock.now().as_second(), Ordering::Relaxed);
        if news {
            edition += 1;
            publisher.published.send_replace(Arc::new(Snapshot { edition, ..engine.snapshot() }));
        }
    }
}

impl StateReader {
    /// What was last published.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.published.borrow().clone()
    }

    /// What was last published; `changed` then waits for something newer.
    pub fn newest(&mut self) -> Arc<Snapshot> {
        self.published.borrow_and_update().clone()
    }

    /// Waits for something newer than what was last taken. False when there will be none.
    pub async fn changed(&mut self) -> bool {
        self.published.changed().await.is_ok()
    }

    /// How long ago the engine last took something from its queue; none before the first time.
    pub fn since_last_beat(&self, now: Timestamp) -> Option<SignedDuration> {
        let beat = self.beat.load(Ordering::Relaxed);
        let beat = (beat != 0).then(|| Timestamp::from_second(beat).ok()).flatten()?;
        Some(now.duration_since(beat))
    }
}
