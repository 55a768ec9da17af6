//! Where the time comes from.

use std::{fmt, sync::Arc};

use jiff::Timestamp;

/// Tells the time. An argument everywhere, so that tests own it.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// A clock that asks `now` each time.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The system's clock.
    #[expect(clippy::disallowed_methods, reason = "the one place where time enters")]
    pub fn system() -> Self {
        Self::new(Timestamp::now)
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Clock").field(&self.now()).finish()
    }
}
