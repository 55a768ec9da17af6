//! Cuts the body of a WATCH into its events.

use serde::Deserialize;
use serde_json::value::RawValue;

/// One line of a watch.
#[derive(Debug, Deserialize)]
pub(super) struct WatchLine<'a> {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    #[serde(rename = "type")]
    pub(super) event: &'a str,
    /// The object, or the status of an error.
    #[serde(borrow)]
    pub(super) object: &'a RawValue,
}

/// A line longer than this is not an event that an API server sends.
const LONGEST_LINE: usize = 32 << 20;

/// Joins the pieces of a line that came in several chunks.
#[derive(Debug, Default)]
pub(super) struct Lines {
    partial: Vec<u8>,
}

/// A line is longer than any event can be.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("an event is larger than {} MiB", LONGEST_LINE >> 20)]
pub(super) struct LineTooLong;

impl Lines {
    /// Takes the next bytes and gives the complete lines among them.
    pub(super) fn push(&mut self, chunk: &[u8]) -> Result<Vec<Vec<u8>>, LineTooLong> {
        let mut lines = Vec::new();
        let mut rest = chunk;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let mut line = std::mem::take(&mut self.partial);
            line.extend_from_slice(&rest[..end]);
            if !line.iter().all(u8::is_ascii_whitespace) {
                lines.push(line);
            }
            rest = &rest[end + 1..];
        }
        if self.partial.len() + rest.len() > LONGEST_LINE {
            return Err(LineTooLong);
        }
        self.partial.extend_from_slice(rest);
        Ok(lines)
    }
}
