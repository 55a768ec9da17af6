//! How many requests are answered.

use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

use crate::config::RateLimit;

/// A bucket of requests that fills up again. Kept as the time at which it would be full.
#[derive(Debug, Default)]
pub(super) struct Bucket(Mutex<Option<Instant>>);

impl Bucket {
    /// Takes a request out of the bucket, if there is one.
    pub(super) fn take(&self, limit: RateLimit) -> bool {
        // A time is whole, whoever panicked.
        let mut full = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let begun = full.unwrap_or(now).max(now);
        let allowed = begun - now <= limit.interval.saturating_mul(limit.burst.saturating_sub(1));
        if allowed {
            *full = Some(begun + limit.interval);
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Bucket;
    use crate::config::RateLimit;

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_answered_and_then_one_in_each_interval() {
        let (bucket, limit) = (Bucket::default(), RateLimit { interval: Duration::from_secs(1), burst: 3 });
        let taken = |tries| (0..tries).filter(|_| bucket.take(limit)).count();
        assert_eq!(taken(10), 3);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(taken(10), 1);
        tokio::time::advance(Duration::from_secs(100)).await;
        assert_eq!(taken(10), 3);
    }
}
