//! Why somebody who was asked gave no answer.

use std::fmt;

/// Why there is no answer.
#[derive(Debug)]
pub(super) struct Unanswered {
    message: String,
    /// Whether it would be the same again.
    pub(super) is_final: bool,
}

impl Unanswered {
    /// There may be an answer later.
    pub(super) fn for_now(message: String) -> Self {
        Self { message, is_final: false }
    }
}

/// What is not said to be for now stays so.
impl From<String> for Unanswered {
    fn from(message: String) -> Self {
        Self { message, is_final: true }
    }
}

impl From<Unanswered> for String {
    fn from(unanswered: Unanswered) -> Self {
        unanswered.message
    }
}

impl fmt::Display for Unanswered {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}
