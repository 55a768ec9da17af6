//! Waiting for events. Only a test that fails waits for all of [`PATIENCE`], so a busy machine makes tests slower and breaks none.

use std::time::{Duration, Instant};

/// How long a test waits for an event before it fails.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Polls until the closure returns a value.
#[track_caller]
pub fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(started.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until a future completes.
#[track_caller]
pub fn completes<F: Future>(what: &str, future: F) -> impl Future<Output = F::Output> {
    let caller = std::panic::Location::caller();
    async move {
        let output = tokio::time::timeout(PATIENCE, future).await;
        output.unwrap_or_else(|_| panic!("not within {PATIENCE:?}: {what} ({caller})"))
    }
}
