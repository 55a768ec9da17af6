//! How paths and patterns of paths are written: the one parser of both.

use std::fmt;

/// One part of a written path, before it is known whether it is a path or a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Where it begins, counted in characters from 1.
    pub(super) column: usize,
    /// What it says.
    pub(super) kind: PartKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PartKind {
    /// `image` or `["app.kubernetes.io/name"]`.
    Field(Word),
    /// `[3]`.
    Index(usize),
    /// `[*]`.
    AnyElement,
    /// `[=value]`.
    Value(Word),
    /// `[name=web]` or `[containerPort=80,protocol=TCP]`.
    Element(Vec<(Word, Word)>),
}

/// A piece of text; only where it is not quoted does a star mean anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: Box<str>,
    pub(super) quoted: bool,
}

impl Word {
    /// Whether it has a star that means something.
    pub(super) fn has_star(&self) -> bool {
        !self.quoted && self.text.contains('*')
    }
}

/// What is wrong with a written path, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathError {
    /// The character at which it goes wrong, counted from 1.
    pub column: usize,
    /// What is wrong.
    pub message: Box<str>,
}

impl PathError {
    pub(super) fn new(column: usize, message: impl Into<Box<str>>) -> Self {
        Self { column, message: message.into() }
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} (at character {})", self.message, self.column)
    }
}

impl std::error::Error for PathError {}

/// Splits a written path into its parts.
pub(super) fn parse(text: &str) -> Result<Vec<Part>, PathError> {
    let mut cursor = Cursor { left: text, column: 1 };
    let mut parts = Vec::new();
    loop {
        let column = cursor.column;
        let kind = match cursor.peek() {
            Some('[') => {
                cursor.take();
                cursor.brackets()?
            }
            Some(_) | None => PartKind::Field(cursor.bare("a field's name is missing")?),
        };
        parts.push(Part { column, kind });
        match cursor.peek() {
            None => return Ok(parts),
            Some('[') => {}
            Some('.') => {
                cursor.take();
                if cursor.peek() == Some('[') {
                    return Err(PathError::new(cursor.column, "no dot stands before a bracket"));
                }
            }
            Some(other) => return Err(cursor.unexpected(other)),
        }
    }
}

/// Writes a field's name: bare where that can be read back, else quoted in brackets.
pub(super) fn write_field(formatter: &mut fmt::Formatter<'_>, name: &str, is_first: bool) -> fmt::Result {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '$');
    if name.is_empty() || !name.chars().all(is_plain) {
        formatter.write_str("[")?;
        write_quoted(formatter, name)?;
        return formatter.write_str("]");
    }
    if !is_first {
        formatter.write_str(".")?;
    }
    formatter.write_str(name)
}

/// Writes a text within brackets: bare where that can be read back, else quoted.
pub(super) fn write_word(formatter: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':' | '@' | '$');
    if text.is_empty() || !text.chars().all(is_plain) {
        return write_quoted(formatter, text);
    }
    formatter.write_str(text)
}

fn write_quoted(formatter: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    write!(formatter, "\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

struct Cursor<'a> {
    left: &'a str,
    column: usize,
}

impl Cursor<'_> {
    fn peek(&self) -> Option<char> {
        self.left.chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let mut characters = self.left.chars();
        let taken = characters.next()?;
        self.left = characters.as_str();
        self.column += 1;
        Some(taken)
    }

    fn unexpected(&self, found: char) -> PathError {
        PathError::new(self.column, format!("unexpected `{found}`"))
    }

    /// What follows an opening bracket, up to and with the closing one.
    fn brackets(&mut self) -> Result<PartKind, PathError> {
        let column = self.column;
        if self.peek() == Some('=') {
            self.take();
            let value = self.word()?;
            self.close()?;
            return Ok(PartKind::Value(value));
        }
        let first = self.word()?;
        if self.peek() == Some(']') {
            self.take();
            return match first.text.parse() {
                _ if first.quoted => Ok(PartKind::Field(first)),
                Ok(index) if first.text.bytes().all(|byte| byte.is_ascii_digit()) => {
                    Ok(PartKind::Index(index))
                }
                _ if &*first.text == "*" => Ok(PartKind::AnyElement),
                _ => {
                    let message = format!(
                        "`[{0}]` is no index and no `[key=value]`; a field's name is quoted: `[\"{0}\"]`",
                        first.text
                    );
                    Err(PathError::new(column, message))
                }
            };
        }
        self.equals()?;
        let mut keys = vec![(first, self.word()?)];
        while self.peek() == Some(',') {
            self.take();
            let key = self.word()?;
            self.equals()?;
            keys.push((key, self.word()?));
        }
        self.close()?;
        Ok(PartKind::Element(keys))
    }

    fn equals(&mut self) -> Result<(), PathError> {
        match self.peek() {
            Some('=') => {
                self.take();
                Ok(())
            }
            Some(other) => Err(self.unexpected(other)),
            None => Err(PathError::new(self.column, "the bracket is not closed")),
        }
    }

    fn close(&mut self) -> Result<(), PathError> {
        match self.peek() {
            Some(']') => {
                self.take();
                Ok(())
            }
            Some(other) => Err(self.unexpected(other)),
            None => Err(PathError::new(self.column, "the bracket is not closed")),
        }
    }

    /// A text within brackets, quoted or bare; dots need no quotes here.
    fn word(&mut self) -> Result<Word, PathError> {
        if self.peek() == Some('"') {
            return self.quoted();
        }
        let ends = |c: char| matches!(c, '[' | ']' | ',' | '=' | '"') || c.is_whitespace() || c.is_control();
        self.until(ends, "something is missing here")
    }

    fn bare(&mut self, missing: &str) -> Result<Word, PathError> {
        let ends =
            |c: char| matches!(c, '.' | '[' | ']' | ',' | '=' | '"') || c.is_whitespace() || c.is_control();
        self.until(ends, missing)
    }

    fn until(&mut self, ends: impl Fn(char) -> bool, missing: &str) -> Result<Word, PathError> {
        let column = self.column;
        let mut text = String::new();
        while let Some(c) = self.peek().filter(|c| !ends(*c)) {
            text.push(c);
            self.take();
        }
        if text.is_empty() {
            return Err(PathError::new(column, missing));
        }
        Ok(Word { text: text.into(), quoted: false })
    }

    fn quoted(&mut self) -> Result<Word, PathError> {
        let column = self.column;
        self.take();
        let mut text = String::new();
        loop {
            match self.take() {
                None => return Err(PathError::new(column, "the quote is not closed")),
                Some('"') => return Ok(Word { text: text.into(), quoted: true }),
                Some('\\') => {
                    let Some(escaped @ ('"' | '\\')) = self.take() else {
                        let message = "a backslash stands before a quote or another backslash only";
                        return Err(PathError::new(self.column - 1, message));
                    };
                    text.push(escaped);
                }
                Some(c) => text.push(c),
            }
        }
    }
}
