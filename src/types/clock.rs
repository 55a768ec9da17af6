//! Time: its source, and ages as kubectl prints them.

use std::{fmt, sync::Arc};

use jiff::{SignedDuration, Timestamp};

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

/// `45s`, `5m12s`, `3h`, `2d4h`, `40d`: `duration.HumanDuration` of apimachinery.
pub fn format_age(age: SignedDuration) -> String {
    let seconds = age.as_secs().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let two_units = |large: i64, unit: &str, small: i64, small_unit: &str| {
        if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{small}{small_unit}") }
    };
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two_units(minutes, "m", seconds % 60, "s"),
        () if hours < 3 => format!("{minutes}m"),
        () if hours < 8 => two_units(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two_units(days, "d", hours % 24, "h"),
        () if days < 2 * 365 => format!("{days}d"),
        () => two_units(days / 365, "y", days % 365, "d"),
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::format_age;

    #[test]
    fn ages_have_the_format_of_kubectl() {
        for (seconds, expected) in [
            (-5, "0s"),
            (119, "119s"),
            (120, "2m"),
            (312, "5m12s"),
            (3600, "60m"),
            (3 * 3600, "3h"),
            (5 * 3600 + 1800, "5h30m"),
            (30 * 3600, "30h"),
            (52 * 3600, "2d4h"),
            (40 * 86400, "40d"),
            (800 * 86400, "2y70d"),
        ] {
            assert_eq!(format_age(SignedDuration::from_secs(seconds)), expected, "{seconds}");
        }
    }
}
