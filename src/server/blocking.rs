//! Runs work that takes longer than about a millisecond off the threads that serve requests.

use std::{fmt, sync::Arc};

use tokio::sync::{Semaphore, oneshot};

/// How much work of requests runs at once. More would take CPU time from the threads that serve requests.
const CONCURRENT: usize = 2;

type Work = Box<dyn FnOnce() + Send>;

/// Cheap to clone.
#[derive(Clone)]
pub struct BlockingPool {
    spawn: Arc<dyn Fn(Work) + Send + Sync>,
    permits: Arc<Semaphore>,
}

impl fmt::Debug for BlockingPool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("BlockingPool").field("permits", &self.permits).finish_non_exhaustive()
    }
}

impl BlockingPool {
    /// `spawn` starts work on another thread.
    pub fn new(spawn: impl Fn(Work) + Send + Sync + 'static) -> Self {
        Self { spawn: Arc::new(spawn), permits: Arc::new(Semaphore::new(CONCURRENT)) }
    }

    /// Runs the work of a request, in turn with that of others.
    pub(super) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        // The permit moves into the work: a client that disconnects does not start more work.
        let permit = self.permits.clone().acquire_owned().await.expect("the semaphore is never closed");
        self.run_now(move || (work(), permit)).await.0
    }

    /// Runs work that never waits for that of other requests. It finishes even if the caller is dropped.
    pub(super) async fn run_now<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (sender, result) = oneshot::channel();
        (self.spawn)(Box::new(move || drop(sender.send(work()))));
        result.await.expect("the work does not panic")
    }
}
