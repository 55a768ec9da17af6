//! How long to wait before trying again.

use std::time::Duration;

/// Doubles with each failure, with jitter, so that many exporters do not come back at once.
#[derive(Clone, Debug)]
pub(super) struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
    /// Whether the version of the last list was forgotten before anything came of it.
    listed_in_vain: bool,
}

impl Backoff {
    pub(super) fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, failures: 0, listed_in_vain: false }
    }

    /// The wait after one more failure: between half of the step and the whole of it.
    pub(super) fn next(&mut self) -> Duration {
        let step = self.first.saturating_mul(2_u32.saturating_pow(self.failures)).min(self.longest);
        self.failures = self.failures.saturating_add(1);
        step.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// Whether there was a failure since the last reset.
    pub(super) fn has_failed(&self) -> bool {
        self.failures > 0
    }

    /// Notes that the server has forgotten our version. Says whether that is the first time since all was well: then a
    /// new list is due at once, however long the server was away before.
    pub(super) fn first_forgotten(&mut self) -> bool {
        !std::mem::replace(&mut self.listed_in_vain, true)
    }

    /// All is well again.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
        self.listed_in_vain = false;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Backoff;

    #[test]
    fn waits_double_up_to_the_longest_and_vary() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(10));
        for step in [1, 2, 4, 8, 10, 10] {
            let wait = backoff.next();
            assert!(wait >= Duration::from_secs(step) / 2 && wait <= Duration::from_secs(step), "{wait:?}");
        }
        backoff.reset();
        assert!(backoff.next() <= Duration::from_secs(1));
        let mut waits: Vec<_> =
            (0..20).map(|_| Backoff::new(Duration::from_secs(1), Duration::MAX).next()).collect();
        waits.dedup();
        assert!(waits.len() > 1, "there is no jitter");
    }
}
