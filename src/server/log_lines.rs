//! The last lines of the log, for people who cannot see it where it is written.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use jiff::Timestamp;

use crate::config::LogLevel;

/// How many lines are kept.
const LINES: usize = 1_000;
/// How much of a line is kept.
const LENGTH: usize = 1_024;

/// The last lines of the log. Whoever logs adds to them, the page shows them.
#[derive(Clone, Debug, Default)]
pub struct LogLines(Arc<Mutex<Ring>>);

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Counts up from 1.
    pub number: u64,
    /// When it was said.
    pub time: Timestamp,
    /// How much it matters.
    pub level: LogLevel,
    /// The part of the program that said it.
    pub target: &'static str,
    /// What it said, and with what values.
    pub text: Arc<str>,
}

#[derive(Debug, Default)]
struct Ring {
    lines: VecDeque<LogLine>,
    said: u64,
}

impl LogLines {
    /// From which level on lines are kept where so much is logged: what an operator wants to know, even if less is logged.
    pub fn level(logged: LogLevel) -> LogLevel {
        logged.max(LogLevel::Info)
    }

    /// Adds a line. The oldest goes when there are too many; what is too long is cut.
    pub fn add(&self, time: Timestamp, level: LogLevel, target: &'static str, text: &str) {
        let text: Arc<str> = match text.char_indices().nth(LENGTH) {
            Some((end, _)) => format!("{}…", &text[..end]).into(),
            None => text.into(),
        };
        let mut ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ring.said += 1;
        let number = ring.said;
        if ring.lines.len() == LINES {
            ring.lines.pop_front();
        }
        ring.lines.push_back(LogLine { number, time, level, target, text });
    }

    /// All lines that are kept, the newest first.
    pub(super) fn newest_first(&self) -> Vec<LogLine> {
        let ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ring.lines.iter().rev().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::{LENGTH, LINES, LogLines};
    use crate::config::LogLevel;

    #[test]
    fn the_oldest_lines_go_and_long_ones_are_cut() {
        let lines = LogLines::default();
        for number in 0..=LINES {
            lines.add(Timestamp::UNIX_EPOCH, LogLevel::Info, "here", &number.to_string());
        }
        lines.add(Timestamp::UNIX_EPOCH, LogLevel::Warn, "here", &"ü".repeat(LENGTH + 1));
        let kept = lines.newest_first();
        assert_eq!(kept.len(), LINES);
        assert_eq!((kept[0].number, kept[0].text.chars().count()), (1_002, LENGTH + 1));
        assert!(kept[0].text.ends_with("ü…"));
        assert_eq!(&*kept[LINES - 1].text, "2");
    }
}
