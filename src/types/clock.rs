//! The source of time.

use std::{fmt, sync::Arc};

use jiff::Timestamp;

/// Returns the current time. Passed as an argument, so that tests control it.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    #[expect(clippy::disallowed_methods, reason = "the only reader of the system clock")]
    pub fn system() -> Self {
        Self::new(Timestamp::now)
    }

    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Clock").field(&self.now()).finish()
    }
}
