//! Keeps the streams running.

use std::{collections::HashMap, sync::Arc};

use kube::Client;
use tokio::{
    sync::mpsc,
    task::{Id, JoinSet},
};
use tracing::error;

use super::{Stream, Timing, WatchMetrics};
use crate::model::{Change, StreamSpec};

/// Everything that a stream is made of, but what it watches.
#[derive(Clone)]
pub struct StreamParts {
    /// The connection to the API server.
    pub client: Client,
    /// The prefix of the hash annotation.
    pub annotation_prefix: Box<str>,
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

/// Runs these streams until the engine is gone. One that breaks is started anew and leaves the others alone.
pub async fn follow(streams: Vec<Arc<StreamSpec>>, parts: StreamParts) {
    let mut tasks = JoinSet::new();
    let mut running: HashMap<Id, Arc<StreamSpec>> = HashMap::new();
    for spec in streams {
        let stream = Stream::new(spec.clone(), parts.clone());
        running.insert(tasks.spawn(stream.run()).id(), spec);
    }
    while let Some(ended) = tasks.join_next_with_id().await {
        let Err(broken) = ended else { continue };
        let Some(spec) = running.remove(&broken.id()) else {
            continue;
        };
        error!(stream = %spec, error = %broken, "A stream broke; starting it anew.");
        tokio::time::sleep(parts.timing.first_backoff).await;
        let stream = Stream::new(spec.clone(), parts.clone());
        running.insert(tasks.spawn(stream.run()).id(), spec);
    }
}
