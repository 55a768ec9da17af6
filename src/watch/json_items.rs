//! Splits a JSON object with a long list into the items of that list while it streams in, so that memory does not grow
//! with the list: a LIST of the API server, the resources of a Terraform state.

use memchr::memchr2;
use zeroize::Zeroize as _;

const MAX_KEY_BYTES: usize = 256;

/// Takes an object in chunks and emits the items of its list, and the other members of the layout.
#[derive(Debug)]
pub struct ItemSplitter {
    layout: ListLayout,
    position: Position,
    key: Vec<u8>,
    value: ValueScan,
    /// Whether the current value started in an earlier chunk.
    continued: bool,
    /// The part of the current value that earlier chunks held.
    partial: Vec<u8>,
}

/// Which parts of an object are emitted. The others are skipped and never buffered.
#[derive(Clone, Copy, Debug)]
pub struct ListLayout {
    /// The member whose items are emitted one by one.
    pub list: &'static str,
    /// Members that are emitted whole.
    pub members: &'static [&'static str],
    /// Limit for each emitted part.
    pub max_bytes: usize,
}

/// An emitted part, as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    Item(&'a [u8]),
    Member(&'static str, &'a [u8]),
}

/// The bytes are not an object of the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    #[error("the list is not valid JSON")]
    Malformed,
    #[error("an item of the list is larger than {} MiB", .0 >> 20)]
    TooLarge(usize),
    #[error("the list ended early")]
    Truncated,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Position {
    #[default]
    BeforeObject,
    BeforeKey,
    Key,
    BeforeValue,
    /// In the value of a member other than the list.
    Value,
    BeforeItem,
    Item,
    AfterObject,
}

impl ItemSplitter {
    pub fn new(layout: ListLayout) -> Self {
        Self {
            layout,
            position: Position::default(),
            key: Vec::new(),
            value: ValueScan::default(),
            continued: false,
            partial: Vec::new(),
        }
    }

    /// Takes the next chunk and calls `emit` for each part that it completes.
    pub fn push(&mut self, chunk: &[u8], mut emit: impl FnMut(Part<'_>)) -> Result<(), SplitError> {
        let mut at = 0;
        while at < chunk.len() {
            match self.position {
                Position::Value | Position::Item => {
                    let Some(length) = self.value.advance(&chunk[at..]) else {
                        self.continued = true;
                        self.buffer(&chunk[at..])?;
                        return Ok(());
                    };
                    let end = at + length;
                    if length == 0 && !self.continued {
                        return Err(SplitError::Malformed);
                    }
                    if self.partial.is_empty() {
                        self.end_value(&chunk[at..end], &mut emit);
                    } else {
                        self.buffer(&chunk[at..end])?;
                        let value = std::mem::take(&mut self.partial);
                        self.end_value(&value, &mut emit);
                        // The buffer is reused for the next value that spans two chunks.
                        self.partial = value;
                        self.partial.clear();
                    }
                    at = end;
                }
                _ => {
                    at += self.between_values(chunk[at])?;
                }
            }
        }
        Ok(())
    }

    /// Overwrites the buffer of values that arrived in several chunks.
    pub fn wipe(&mut self) {
        self.partial.zeroize();
    }

    pub fn finish(&self) -> Result<(), SplitError> {
        if self.position == Position::AfterObject { Ok(()) } else { Err(SplitError::Truncated) }
    }

    /// Handles one byte outside a value; a byte that begins a value is not consumed.
    fn between_values(&mut self, byte: u8) -> Result<usize, SplitError> {
        self.position = match (self.position, byte) {
            (Position::BeforeItem, b',') | (Position::BeforeValue, b':') => return Ok(1),
            (_, b' ' | b'\t' | b'\r' | b'\n') if self.position != Position::Key => return Ok(1),
            (Position::BeforeObject, b'{') | (Position::BeforeKey, b',') | (Position::BeforeItem, b']') => {
                Position::BeforeKey
            }
            (Position::BeforeKey, b'}') => Position::AfterObject,
            (Position::BeforeKey, b'"') => {
                self.key.clear();
                Position::Key
            }
            (Position::Key, b'"') => Position::BeforeValue,
            // Keys of a layout are short and need no escapes.
            (Position::Key, b'\\') => return Err(SplitError::Malformed),
            (Position::Key, _) if self.key.len() >= MAX_KEY_BYTES => return Err(SplitError::Malformed),
            (Position::Key, byte) => {
                self.key.push(byte);
                Position::Key
            }
            (Position::BeforeValue, b'[') if self.key == self.layout.list.as_bytes() => Position::BeforeItem,
            (Position::BeforeValue, _) => return Ok(self.begin_value(Position::Value)),
            (Position::BeforeItem, _) => return Ok(self.begin_value(Position::Item)),
            _ => return Err(SplitError::Malformed),
        };
        Ok(1)
    }

    fn begin_value(&mut self, position: Position) -> usize {
        self.position = position;
        self.value = ValueScan::default();
        self.continued = false;
        0
    }

    /// The name of the current member if the layout has it.
    fn emitted_member(&self) -> Option<&'static str> {
        self.layout.members.iter().copied().find(|name| name.as_bytes() == self.key)
    }

    fn buffer(&mut self, bytes: &[u8]) -> Result<(), SplitError> {
        if self.position == Position::Value && self.emitted_member().is_none() {
            return Ok(());
        }
        if self.partial.len() + bytes.len() > self.layout.max_bytes {
            return Err(SplitError::TooLarge(self.layout.max_bytes));
        }
        self.partial.extend_from_slice(bytes);
        Ok(())
    }

    fn end_value(&mut self, value: &[u8], emit: &mut impl FnMut(Part<'_>)) {
        if self.position == Position::Item {
            self.position = Position::BeforeItem;
            emit(Part::Item(value));
        } else {
            self.position = Position::BeforeKey;
            if let Some(name) = self.emitted_member() {
                emit(Part::Member(name, value));
            }
        }
    }
}

/// Finds the end of one JSON value without parsing it.
#[derive(Clone, Copy, Debug, Default)]
struct ValueScan {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl ValueScan {
    /// Returns the length of the rest of the value if it ends within these bytes.
    fn advance(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            if self.in_string {
                if self.escaped {
                    self.escaped = false;
                    at += 1;
                    continue;
                }
                at += memchr2(b'"', b'\\', &bytes[at..])?;
                self.escaped = bytes[at] == b'\\';
                self.in_string = self.escaped;
                at += 1;
                if !self.in_string && self.depth == 0 {
                    return Some(at);
                }
                continue;
            }
            match bytes[at] {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                // A number, `true` or `null` has no end of its own: the next delimiter ends it.
                b'}' | b']' | b',' if self.depth == 0 => return Some(at),
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
            at += 1;
        }
        None
    }
}
