//! A ring buffer of recent log lines, for the `/log` page.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use jiff::Timestamp;

use crate::config::LogLevel;

const MAX_LINES: usize = 1_000;
const MAX_CHARS: usize = 1_024;

/// Shared by the log layer, which appends, and the page, which reads.
#[derive(Clone, Debug, Default)]
pub struct LogLines(Arc<Mutex<Ring>>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Counts up from 1.
    pub number: u64,
    pub time: Timestamp,
    pub level: LogLevel,
    /// The module that logged it.
    pub target: &'static str,
    /// Message and fields.
    pub text: Arc<str>,
}

#[derive(Debug, Default)]
struct Ring {
    lines: VecDeque<LogLine>,
    last_number: u64,
}

impl LogLines {
    /// The level of the buffer: at least `info`, even if the log itself has less.
    pub fn level(logged: LogLevel) -> LogLevel {
        logged.max(LogLevel::Info)
    }

    /// Appends a line, truncated if it is too long, and drops the oldest one of a full buffer.
    pub fn add(&self, time: Timestamp, level: LogLevel, target: &'static str, text: &str) {
        let text: Arc<str> = match text.char_indices().nth(MAX_CHARS) {
            Some((end, _)) => format!("{}…", &text[..end]).into(),
            None => text.into(),
        };
        let mut ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ring.last_number += 1;
        let number = ring.last_number;
        if ring.lines.len() == MAX_LINES {
            ring.lines.pop_front();
        }
        ring.lines.push_back(LogLine { number, time, level, target, text });
    }

    pub(super) fn newest_first(&self) -> Vec<LogLine> {
        let ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ring.lines.iter().rev().cloned().collect()
    }
}
