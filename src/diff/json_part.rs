//! A JSON value as text or as a tree. Typed views read both in the same way, so that an object which is parsed into a tree is not
//! parsed again for its views.

use std::{borrow::Cow, collections::btree_map, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{
        DeserializeSeed, Error as _, IntoDeserializer, MapAccess, Unexpected, Visitor,
        value::{BorrowedStrDeserializer, SeqDeserializer},
    },
    forward_to_deserialize_any,
};
use serde_json::{Error, value::RawValue};

use super::tree::Node;

#[derive(Clone, Copy, Debug)]
pub enum JsonPart<'a> {
    Text(&'a str),
    Tree(&'a Node),
}

impl<'a> JsonPart<'a> {
    /// Parses the text, or walks the tree.
    pub fn read<T: Deserialize<'a>>(self) -> Result<T, Error> {
        self.read_with(PhantomData)
    }

    pub fn read_with<S: DeserializeSeed<'a>>(self, seed: S) -> Result<S::Value, Error> {
        match self {
            Self::Text(text) => {
                #[cfg(test)]
                parsed_bytes::add(text.len());
                let mut deserializer = serde_json::Deserializer::from_str(text);
                let value = seed.deserialize(&mut deserializer)?;
                deserializer.end().map(|()| value)
            }
            Self::Tree(node) => seed.deserialize(node),
        }
    }

    pub fn is_object(self) -> bool {
        match self {
            Self::Text(text) => text.starts_with('{'),
            Self::Tree(node) => node.is_object(),
        }
    }

    /// The elements of a list; none of any other value.
    pub fn elements(self) -> Cow<'a, [Node]> {
        match self {
            Self::Text(_) => self.read::<Vec<Node>>().unwrap_or_default().into(),
            Self::Tree(node) => node.elements().into(),
        }
    }
}

/// The text of a value within a text, which is not parsed yet.
impl<'de: 'a, 'a> Deserialize<'de> for JsonPart<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&RawValue>::deserialize(deserializer).map(|value| Self::Text(value.get()))
    }
}

/// Reads a tree as the JSON that it was parsed from. Strings are borrowed.
impl<'de> Deserializer<'de> for &'de Node {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Node::Null => visitor.visit_unit(),
            Node::Bool(value) => visitor.visit_bool(*value),
            Node::Number(number) => number.deserialize_any(visitor),
            Node::String(text) => visitor.visit_borrowed_str(text),
            Node::Redacted(_) => Err(Error::invalid_type(Unexpected::Other("redacted value"), &visitor)),
            Node::Array(elements) => {
                let mut elements = SeqDeserializer::new(elements.iter());
                let value = visitor.visit_seq(&mut elements)?;
                elements.end().map(|()| value)
            }
            Node::Object(members) => visitor.visit_map(MemberAccess { members: members.iter(), value: self }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct enum identifier
    }
}

impl<'de> IntoDeserializer<'de, Error> for &'de Node {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

struct MemberAccess<'de> {
    members: btree_map::Iter<'de, String, Node>,
    value: &'de Node,
}

impl<'de> MapAccess<'de> for MemberAccess<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((name, value)) = self.members.next() else { return Ok(None) };
        self.value = value;
        seed.deserialize(BorrowedStrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(self.value)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.members.len())
    }
}

/// How many bytes of JSON this thread has parsed as a [`JsonPart`] or unpacked.
#[cfg(test)]
pub(crate) mod parsed_bytes {
    use std::cell::Cell;

    thread_local! {
        static COUNT: Cell<usize> = const { Cell::new(0) };
    }

    pub(in crate::diff) fn add(bytes: usize) {
        COUNT.set(COUNT.get() + bytes);
    }

    pub(crate) fn take() -> usize {
        COUNT.take()
    }
}
