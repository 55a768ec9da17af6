//! The documents of the diff: JSON, in which a scalar may be redacted.
//!
//! A redacted value is a variant of its own, so that no plain text can pose as one. Only redaction creates it: JSON that is
//! decoded is plain. The packed form tells both apart.

use std::{borrow::Cow, collections::BTreeMap, fmt, ops::Index};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeSeed, MapAccess, SeqAccess, Visitor},
    ser::SerializeMap as _,
};
use serde_json::{Number, Value};

use super::digests::Digests;

pub type Members = BTreeMap<String, Node>;

/// It serializes in packed form: a redacted value is an object with the single member [`ESCAPE`], and the name of a plain member
/// that starts with it is escaped by another one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Node {
    #[default]
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    #[serde(serialize_with = "pack_digests")]
    Redacted(Box<Digests>),
    Array(Vec<Self>),
    #[serde(serialize_with = "pack_members")]
    Object(Members),
}

const ESCAPE: &str = "\u{1}";

fn pack_digests<S: Serializer>(digests: &Digests, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(1))?;
    map.serialize_entry(ESCAPE, &digests.to_text())?;
    map.end()
}

fn pack_members<S: Serializer>(members: &Members, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(members.len()))?;
    for (name, member) in members {
        if name.starts_with(ESCAPE) {
            map.serialize_entry(&[ESCAPE, name].concat(), member)?;
        } else {
            map.serialize_entry(name, member)?;
        }
    }
    map.end()
}

/// A scalar as it is compared: its digests, or its text, which is empty for null and JSON for a list or an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Scalar<'a> {
    Text(Cow<'a, str>),
    Redacted(&'a Digests),
}

impl Scalar<'_> {
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Text(text) if text.is_empty())
    }

    pub(super) fn is_redacted(&self) -> bool {
        self.text().is_none()
    }

    pub(super) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

impl<'a> From<&'a str> for Scalar<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text.into())
    }
}

static NULL: Node = Node::Null;

impl Node {
    /// Decodes the packed form.
    pub(super) fn unpack(text: &[u8]) -> Option<Self> {
        let mut deserializer = serde_json::Deserializer::from_slice(text);
        let node = NodeSeed { is_packed: true }.deserialize(&mut deserializer).ok()?;
        deserializer.end().ok().map(|()| node)
    }

    /// JSON with this text for each redacted value.
    pub fn to_value(&self, redacted: &impl Fn(&Digests) -> String) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Number(number) => Value::Number(number.clone()),
            Self::String(text) => text.as_str().into(),
            Self::Redacted(digests) => redacted(digests).into(),
            Self::Array(elements) => elements.iter().map(|element| element.to_value(redacted)).collect(),
            Self::Object(members) => {
                members.iter().map(|(name, member)| (name.clone(), member.to_value(redacted))).collect()
            }
        }
    }

    /// Serializes as JSON, not in packed form.
    pub(super) fn plain(&self) -> impl Serialize {
        Plain(self)
    }

    pub fn get(&self, name: &str) -> Option<&Self> {
        self.as_object()?.get(name)
    }

    pub fn get_mut(&mut self, name: &str) -> Option<&mut Self> {
        self.as_object_mut()?.get_mut(name)
    }

    /// The value at a JSON Pointer without escapes.
    pub fn pointer(&self, pointer: &str) -> Option<&Self> {
        pointer.split('/').skip(1).try_fold(self, |at, token| match at {
            Self::Array(elements) => elements.get(token.parse::<usize>().ok()?),
            other => other.get(token),
        })
    }

    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    pub fn as_i64(&self) -> Option<i64> {
        if let Self::Number(number) = self { number.as_i64() } else { None }
    }

    pub fn as_array(&self) -> Option<&Vec<Self>> {
        if let Self::Array(elements) = self { Some(elements) } else { None }
    }

    pub fn as_array_mut(&mut self) -> Option<&mut Vec<Self>> {
        if let Self::Array(elements) = self { Some(elements) } else { None }
    }

    /// The elements of a list; none of any other value.
    pub fn elements(&self) -> &[Self] {
        self.as_array().map_or(&[], Vec::as_slice)
    }

    pub fn as_object(&self) -> Option<&Members> {
        if let Self::Object(members) = self { Some(members) } else { None }
    }

    pub fn as_object_mut(&mut self) -> Option<&mut Members> {
        if let Self::Object(members) = self { Some(members) } else { None }
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    pub fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    pub(super) fn has_redacted_part(&self) -> bool {
        match self {
            Self::Redacted(_) => true,
            Self::Array(elements) => elements.iter().any(Self::has_redacted_part),
            Self::Object(members) => members.values().any(Self::has_redacted_part),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) => false,
        }
    }

    /// Whether it is null, or an empty text, list or object.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Null => true,
            Self::String(text) => text.is_empty(),
            Self::Array(elements) => elements.is_empty(),
            Self::Object(members) => members.is_empty(),
            Self::Bool(_) | Self::Number(_) | Self::Redacted(_) => false,
        }
    }

    pub(super) fn scalar(&self) -> Scalar<'_> {
        Scalar::Text(match self {
            Self::Redacted(digests) => return Scalar::Redacted(digests),
            Self::Null => "".into(),
            Self::String(text) => text.into(),
            Self::Bool(value) => if *value { "true" } else { "false" }.into(),
            Self::Number(number) => number.to_string().into(),
            Self::Array(_) | Self::Object(_) => self.to_string().into(),
        })
    }

    /// Takes the member of this name; null if there is none.
    #[must_use]
    pub fn take_member(&mut self, name: &str) -> Self {
        self.get_mut(name).map(std::mem::take).unwrap_or_default()
    }

    /// Removes members that `keep` rejects from every object in it, from the leaves up.
    pub fn retain_members(&mut self, keep: &impl Fn(&str, &Self) -> bool) {
        match self {
            Self::Array(elements) => elements.iter_mut().for_each(|element| element.retain_members(keep)),
            Self::Object(members) => {
                members.values_mut().for_each(|member| member.retain_members(keep));
                members.retain(|name, member| keep(name, member));
            }
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) | Self::Redacted(_) => {}
        }
    }
}

struct Plain<'a>(&'a Node);

impl Serialize for Plain<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Node::Array(elements) => serializer.collect_seq(elements.iter().map(Plain)),
            Node::Object(members) => {
                serializer.collect_map(members.iter().map(|(name, member)| (name, Plain(member))))
            }
            Node::Redacted(digests) => digests.to_text().serialize(serializer),
            scalar @ (Node::Null | Node::Bool(_) | Node::Number(_) | Node::String(_)) => {
                scalar.serialize(serializer)
            }
        }
    }
}

/// JSON for users. A redacted value is its digest.
impl fmt::Display for Node {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_value(&Digests::to_string).fmt(formatter)
    }
}

/// Null if there is no such member.
impl Index<&str> for Node {
    type Output = Self;

    fn index(&self, name: &str) -> &Self {
        self.get(name).unwrap_or(&NULL)
    }
}

/// Null if there is no such element.
impl Index<usize> for Node {
    type Output = Self;

    fn index(&self, at: usize) -> &Self {
        self.elements().get(at).unwrap_or(&NULL)
    }
}

impl PartialEq<&str> for Node {
    fn eq(&self, text: &&str) -> bool {
        self.as_str() == Some(text)
    }
}

impl From<&str> for Node {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<Value> for Node {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(value),
            Value::Number(number) => Self::Number(number),
            Value::String(text) => Self::String(text),
            Value::Array(elements) => elements.into_iter().map(Self::from).collect(),
            Value::Object(members) => {
                members.into_iter().map(|(name, member)| (name, Self::from(member))).collect()
            }
        }
    }
}

impl From<Scalar<'_>> for Node {
    fn from(scalar: Scalar<'_>) -> Self {
        match scalar {
            Scalar::Text(text) => Self::String(text.into_owned()),
            Scalar::Redacted(digests) => Self::Redacted(Box::new(digests.clone())),
        }
    }
}

impl FromIterator<Self> for Node {
    fn from_iter<I: IntoIterator<Item = Self>>(elements: I) -> Self {
        Self::Array(elements.into_iter().collect())
    }
}

impl FromIterator<(String, Self)> for Node {
    fn from_iter<I: IntoIterator<Item = (String, Self)>>(members: I) -> Self {
        Self::Object(members.into_iter().collect())
    }
}

/// Plain JSON, whatever its strings look like.
impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        NodeSeed { is_packed: false }.deserialize(deserializer)
    }
}

#[derive(Clone, Copy)]
struct NodeSeed {
    is_packed: bool,
}

impl<'de> DeserializeSeed<'de> for NodeSeed {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for NodeSeed {
    type Value = Node;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Number::from_f64(value).map_or(Node::Null, Node::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(Node::String(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Node, E> {
        Ok(Node::String(text))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = list.next_element_seed(self)? {
            elements.push(element);
        }
        Ok(Node::Array(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut members = Members::new();
        while let Some(mut name) = map.next_key::<String>()? {
            if self.is_packed && name.starts_with(ESCAPE) {
                name.remove(0);
                if name.is_empty() {
                    let digests = Digests::parse(&map.next_value::<String>()?);
                    return Ok(digests.map_or(Node::Null, |digests| Node::Redacted(digests.into())));
                }
            }
            members.insert(name, map.next_value_seed(self)?);
        }
        Ok(Node::Object(members))
    }
}

/// The node of a [`serde_json::json!`] literal.
#[cfg(test)]
macro_rules! node {
    ($($json:tt)+) => {
        $crate::diff::Node::from(serde_json::json!($($json)+))
    };
}

#[cfg(test)]
pub(crate) use node;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::{Digests, Node};
    use crate::types::RedactionKey;

    fn redacted(value: &str) -> Node {
        let keys = [1, 2].map(|number| RedactionKey::new([number; 32]));
        Node::Redacted(Digests::of_text(&keys, value).into())
    }

    fn packed(node: &Node) -> String {
        serde_json::to_string(node).unwrap()
    }

    fn name() -> impl Strategy<Value = String> {
        prop_oneof!["[a-z]{0,3}", "\u{1}{1,3}[a-z]{0,2}", any::<String>()]
    }

    fn node() -> impl Strategy<Value = Node> {
        let scalar = prop_oneof![
            Just(Node::Null),
            any::<bool>().prop_map(Node::Bool),
            any::<i64>().prop_map(|number| Node::Number(number.into())),
            prop_oneof![name(), name().prop_map(|text| packed(&redacted(&text)))].prop_map(Node::String),
            "[a-z0-9]{0,3}".prop_map(|text| redacted(&text)),
        ];
        scalar.prop_recursive(4, 30, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Node::Array),
                prop::collection::btree_map(name(), inner, 0..4).prop_map(Node::Object),
            ]
        })
    }

    proptest! {
        #[test]
        fn packed_document_round_trips(document in node()) {
            prop_assert_eq!(Node::unpack(packed(&document).as_bytes()), Some(document));
        }

        #[test]
        fn decoded_json_is_plain_even_if_it_is_a_packed_document(document in node()) {
            for text in [packed(&document), document.to_string()] {
                let plain: Node = serde_json::from_str(&text).unwrap();
                prop_assert_eq!(&plain, &Node::from(serde_json::from_str::<Value>(&text).unwrap()));
                prop_assert_eq!(Node::unpack(packed(&plain).as_bytes()), Some(plain));
            }
        }
    }

    #[test]
    fn plain_document_is_displayed_and_packed_as_json() {
        let value = json!({"a": [1, -2, 1.5, true, null, "ä\n"], "b": {"c": {}}});
        let node = Node::from(value.clone());
        assert_eq!((node.to_string(), packed(&node)), (value.to_string(), value.to_string()));
        assert_eq!((&node["b"]["d"], &node["a"]["x"][7]), (&Node::Null, &Node::Null));
        assert_eq!(node.pointer("/a/3"), Some(&Node::Bool(true)));
        assert!(redacted("x").to_string().starts_with("\"hmac:"));
    }
}
