//! What is wrong with a settings file, where, and what may have been meant.

use std::fmt;

/// Where something stands in a file, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

/// Something that is wrong, or looks wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it stands, where it stands anywhere.
    pub place: Option<Place>,
    /// The key it is about, `rules[2].match.paths[0]`; empty for the whole file.
    pub key: Box<str>,
    /// What is wrong.
    pub message: Box<str>,
    /// The nearest right word, where one is near.
    pub suggestion: Option<Box<str>>,
}

impl Problem {
    /// Something that is wrong with the whole file.
    pub fn whole(message: impl Into<Box<str>>) -> Self {
        Self { place: None, key: "".into(), message: message.into(), suggestion: None }
    }
}

/// `line 3, column 5: kinds[0].kindd: unknown key; did you mean `kind`?`
impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Place { line, column }) = self.place {
            write!(formatter, "line {line}, column {column}: ")?;
        }
        if !self.key.is_empty() {
            write!(formatter, "{}: ", self.key)?;
        }
        formatter.write_str(&self.message)?;
        match &self.suggestion {
            Some(suggestion) => write!(formatter, "; did you mean `{suggestion}`?"),
            None => Ok(()),
        }
    }
}
