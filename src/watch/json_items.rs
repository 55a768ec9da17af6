//! Cuts a JSON object with a long list in it into the items of that list while it streams in, so that memory does not grow
//! with the list: the LIST of an API server, the resources of a state.

use memchr::memchr2;

const LONGEST_KEY: usize = 256;

/// Feeds on the bytes of an object and hands out each item of its list, and the other members that are asked for.
#[derive(Debug)]
pub struct Splitter {
    wanted: Wanted,
    place: Place,
    /// The key of the member that is being read.
    key: Vec<u8>,
    value: ValueScan,
    /// Whether earlier chunks held something of it.
    begun: bool,
    /// The beginning of a value that earlier chunks held.
    partial: Vec<u8>,
}

/// What is wanted of an object. Nothing else of it is kept, not even until its end is found.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The member that is a list, of which each item is handed out.
    pub list: &'static str,
    /// Members that are handed out whole.
    pub members: &'static [&'static str],
    /// The most bytes that an item or such a member may have.
    pub largest: usize,
}

/// A part of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// One item of the list.
    Item(&'a [u8]),
    /// A member that is wanted, and its name.
    Member(&'static str, &'a [u8]),
}

/// The bytes are not such an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    /// Something else stands where JSON wants another character.
    #[error("the list is not valid JSON")]
    NotAList,
    /// A value is larger than any can be.
    #[error("an item of the list is larger than {} MiB", .0 >> 20)]
    TooLarge(usize),
    /// The bytes ended before the list did.
    #[error("the list ended early")]
    Truncated,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// Before the object.
    #[default]
    Before,
    /// In the object, before a key or its end.
    BeforeKey,
    /// In a key.
    Key,
    /// After a key, before its value.
    BeforeValue,
    /// In the value of a member other than the list.
    Value,
    /// In the list, before an item or the end.
    BeforeItem,
    /// In an item.
    Item,
    /// After the object.
    After,
}

impl Splitter {
    /// One that has seen nothing yet.
    pub fn new(wanted: Wanted) -> Self {
        Self {
            wanted,
            place: Place::default(),
            key: Vec::new(),
            value: ValueScan::default(),
            begun: false,
            partial: Vec::new(),
        }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, chunk: &[u8], mut part: impl FnMut(Part<'_>)) -> Result<(), SplitError> {
        let mut at = 0;
        while at < chunk.len() {
            match self.place {
                Place::Value | Place::Item => {
                    let Some(length) = self.value.advance(&chunk[at..]) else {
                        self.begun = true;
                        self.keep(&chunk[at..])?;
                        return Ok(());
                    };
                    let end = at + length;
                    if length == 0 && !self.begun {
                        return Err(SplitError::NotAList);
                    }
                    if self.partial.is_empty() {
                        self.emit(&chunk[at..end], &mut part);
                    } else {
                        self.keep(&chunk[at..end])?;
                        let value = std::mem::take(&mut self.partial);
                        self.emit(&value, &mut part);
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

    /// Says whether the object was complete.
    pub fn finish(&self) -> Result<(), SplitError> {
        if self.place == Place::After { Ok(()) } else { Err(SplitError::Truncated) }
    }

    /// Handles one byte outside a value; a byte that begins a value is not consumed.
    fn between_values(&mut self, byte: u8) -> Result<usize, SplitError> {
        self.place = match (self.place, byte) {
            (Place::BeforeItem, b',') | (Place::BeforeValue, b':') => return Ok(1),
            (_, b' ' | b'\t' | b'\r' | b'\n') if self.place != Place::Key => return Ok(1),
            (Place::Before, b'{') | (Place::BeforeKey, b',') | (Place::BeforeItem, b']') => Place::BeforeKey,
            (Place::BeforeKey, b'}') => Place::After,
            (Place::BeforeKey, b'"') => {
                self.key.clear();
                Place::Key
            }
            (Place::Key, b'"') => Place::BeforeValue,
            // No key that anybody wants is this long, or has signs in it that have to be escaped.
            (Place::Key, b'\\') => return Err(SplitError::NotAList),
            (Place::Key, _) if self.key.len() >= LONGEST_KEY => return Err(SplitError::NotAList),
            (Place::Key, byte) => {
                self.key.push(byte);
                Place::Key
            }
            (Place::BeforeValue, b'[') if self.key == self.wanted.list.as_bytes() => Place::BeforeItem,
            (Place::BeforeValue, _) => return Ok(self.begin(Place::Value)),
            (Place::BeforeItem, _) => return Ok(self.begin(Place::Item)),
            _ => return Err(SplitError::NotAList),
        };
        Ok(1)
    }

    fn begin(&mut self, place: Place) -> usize {
        self.place = place;
        self.value = ValueScan::default();
        self.begun = false;
        0
    }

    /// The member that is being read, if it is wanted.
    fn member(&self) -> Option<&'static str> {
        self.wanted.members.iter().copied().find(|name| name.as_bytes() == self.key)
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), SplitError> {
        if self.place == Place::Value && self.member().is_none() {
            return Ok(());
        }
        if self.partial.len() + bytes.len() > self.wanted.largest {
            return Err(SplitError::TooLarge(self.wanted.largest));
        }
        self.partial.extend_from_slice(bytes);
        Ok(())
    }

    fn emit(&mut self, value: &[u8], part: &mut impl FnMut(Part<'_>)) {
        if self.place == Place::Item {
            self.place = Place::BeforeItem;
            part(Part::Item(value));
        } else {
            self.place = Place::BeforeKey;
            if let Some(name) = self.member() {
                part(Part::Member(name, value));
            }
        }
    }
}

/// Finds the end of one JSON value without understanding it.
#[derive(Clone, Copy, Debug, Default)]
struct ValueScan {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl ValueScan {
    /// The length of the rest of the value, if it ends within these bytes.
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
                // The end of what encloses a bare number, `true` or `null` ends it too.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::{Part, SplitError, Splitter, Wanted};

    const LIST: Wanted = Wanted { list: "items", members: &["metadata"], largest: 1 << 10 };

    fn split(chunks: &[&[u8]]) -> Result<(Vec<Value>, Option<Value>), SplitError> {
        let (mut items, mut metadata) = (Vec::new(), None);
        let mut splitter = Splitter::new(LIST);
        for chunk in chunks {
            splitter.push(chunk, |part| match part {
                Part::Item(item) => items.push(serde_json::from_slice(item).unwrap()),
                Part::Member(_, own) => metadata = Some(serde_json::from_slice(own).unwrap()),
            })?;
        }
        splitter.finish()?;
        Ok((items, metadata))
    }

    #[test]
    fn every_chunk_boundary_gives_the_same_items() {
        let items = vec![json!({"a": "}]\"\\", "b": [1, {"c": null}]}), json!({}), json!({"é": "\n\\u{1}"})];
        let list =
            json!({"kind": "L", "n": 1, "metadata": {"resourceVersion": "7"}, "items": items, "z": [true]});
        let text = serde_json::to_vec_pretty(&list).unwrap();
        for cut in 0..=text.len() {
            let (found, metadata) = split(&[&text[..cut], &text[cut..]]).unwrap();
            assert_eq!(
                (found, metadata),
                (items.clone(), Some(json!({"resourceVersion": "7"}))),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn a_list_without_items_has_none() {
        assert_eq!(split(&[br#"{"items":null,"metadata":{}}"#]).unwrap().0, Vec::<Value>::new());
        assert_eq!(split(&[br#"{"items":[]}"#]).unwrap().0, Vec::<Value>::new());
    }

    #[test]
    fn what_is_no_list_or_ends_early_is_an_error() {
        assert_eq!(split(&[b"no list"]), Err(SplitError::NotAList));
        assert_eq!(split(&[br#"{"items":[{"a":1}"#]), Err(SplitError::Truncated));
        assert_eq!(split(&[br#"{"items":[{"a":1"#]), Err(SplitError::Truncated));
        assert_eq!(split(&[b""]), Err(SplitError::Truncated));
        for text in [
            r#"{"items":[}"#,
            r#"{"items":[{"a":1}}"#,
            r#"{"items":[,]}"#,
            r#"{"a":}"#,
            r#"{"a":,"b":1}"#,
            r#"{"a\"b":1}"#,
        ] {
            for cut in 0..=text.len() {
                let chunks = [&text.as_bytes()[..cut], &text.as_bytes()[cut..]];
                assert!(split(&chunks).is_err() || text.contains("[,]"), "{text} cut at {cut}");
            }
        }
    }

    #[test]
    fn what_nobody_wants_is_not_kept_however_large_it_is() {
        let large = "x".repeat(LIST.largest + 1);
        let text = json!({"a": large, "items": [1], "metadata": null, "z": [large]}).to_string();
        let chunks: Vec<&[u8]> = text.as_bytes().chunks(100).collect();
        assert_eq!(split(&chunks), Ok((vec![json!(1)], Some(Value::Null))));
        let text = json!({"items": [large]}).to_string();
        let chunks: Vec<&[u8]> = text.as_bytes().chunks(100).collect();
        assert_eq!(split(&chunks), Err(SplitError::TooLarge(LIST.largest)));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::hash_map("[a-z\"\\\\]{0,4}", inner, 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_comes_it_ends(items in prop::collection::vec(any_json(), 0..4), at in any::<prop::sample::Index>(), byte in any::<u8>(), size in 1_usize..64) {
            let mut text = serde_json::to_vec(&json!({"metadata": {}, "items": items})).unwrap();
            let at = at.index(text.len());
            text[at] = byte;
            let mut splitter = Splitter::new(LIST);
            let mut parts = 0;
            for chunk in text.chunks(size) {
                if splitter.push(chunk, |_| parts += 1).is_err() {
                    break;
                }
            }
            prop_assert!(parts <= text.len());
        }

        #[test]
        fn any_items_come_out_as_they_went_in(items in prop::collection::vec(any_json(), 0..8), size in 1_usize..64) {
            let text = serde_json::to_vec(&json!({"metadata": {"resourceVersion": "1"}, "items": items})).unwrap();
            let chunks: Vec<&[u8]> = text.chunks(size).collect();
            prop_assert_eq!(split(&chunks).unwrap().0, items);
        }
    }
}
