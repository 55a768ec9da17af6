//! Keeps the streams running.

use std::{collections::HashMap, sync::Arc};

use kube::Client;
use tokio::{
    sync::mpsc,
    task::{Id, JoinSet},
    time::sleep,
};
use tracing::error;

use super::{Timing, WatchMetrics, backoff::Backoff, stream::Stream};
use crate::model::{Change, DownReason, StreamHealth, StreamSpec};

/// Everything that a stream is made of, but what it watches.
#[derive(Clone)]
pub struct StreamParts {
    /// The connection to the API server.
    pub client: Client,
    /// The prefix of the hash annotation.
    pub annotation_prefix: Box<str>,
    /// The labels of objects that are kept: those that rules ask for.
    pub label_names: Arc<[Box<str>]>,
    /// Where the changes go.
    pub changes: mpsc::Sender<Change>,
    /// What is counted.
    pub metrics: WatchMetrics,
    /// How long to wait for what.
    pub timing: Timing,
}

impl std::fmt::Debug for StreamParts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("StreamParts").field("timing", &self.timing).finish_non_exhaustive()
    }
}

/// Runs these streams until the engine is gone. One that breaks is shown as down, started anew after a while, and
/// leaves the others alone.
pub async fn follow(streams: Vec<Arc<StreamSpec>>, parts: StreamParts) {
    let mut tasks = JoinSet::new();
    let mut running: HashMap<Id, (Arc<StreamSpec>, Backoff)> = HashMap::new();
    for spec in streams {
        let backoff = Backoff::new(parts.timing.first_backoff, parts.timing.longest_backoff);
        let task = tasks.spawn(Stream::new(spec.clone(), parts.clone()).run());
        running.insert(task.id(), (spec, backoff));
    }
    while let Some(ended) = tasks.join_next_with_id().await {
        let Err(broken) = ended else { continue };
        let Some((spec, mut backoff)) = running.remove(&broken.id()) else { continue };
        error!(stream = %spec, error = %broken, "A stream broke; starting it anew.");
        let reason = DownReason::Error;
        let health = StreamHealth::Down { reason, message: "the stream broke; the log has more".into() };
        if parts.changes.send(Change::Stream(spec.clone(), health)).await.is_err() {
            return;
        }
        let wait = backoff.next();
        let stream = Stream::new(spec.clone(), parts.clone());
        let task = tasks.spawn(async move {
            sleep(wait).await;
            stream.run().await;
        });
        running.insert(task.id(), (spec, backoff));
    }
}
