//! Where each key of a YAML document stands.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_saphyr::Spanned;

use super::problem::Place;

/// A document of which only the places are known.
#[derive(Debug, Default)]
pub(super) struct Places {
    own: Option<Place>,
    members: BTreeMap<String, Self>,
}

impl Places {
    /// The places in a text; none where it cannot be read.
    pub(super) fn of(text: &str) -> Self {
        serde_saphyr::from_str::<Spanned<Node>>(text).map(Self::from).unwrap_or_default()
    }

    /// Where a key such as `rules[2].match.paths[0]` stands, or as much of it as is there.
    pub(super) fn find(&self, key: &str) -> Option<Place> {
        let mut here = self;
        for part in key.split(['.', '[', ']']).filter(|part| !part.is_empty()) {
            match here.members.get(part) {
                Some(member) => here = member,
                None => break,
            }
        }
        here.own
    }
}

impl From<Spanned<Node>> for Places {
    fn from(node: Spanned<Node>) -> Self {
        let (line, column) = (node.referenced.line(), node.referenced.column());
        let place =
            Place { line: usize::try_from(line).unwrap_or(0), column: usize::try_from(column).unwrap_or(0) };
        let members = node.value.0.into_iter().map(|(name, member)| (name, member.into())).collect();
        Self { own: (place.line > 0).then_some(place), members }
    }
}

/// A value and its members, by name or by number.
struct Node(Vec<(String, Spanned<Self>)>);

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Walk)
    }
}

struct Walk;

impl<'de> Visitor<'de> for Walk {
    type Value = Node;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("anything")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut members = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            members.push((name, map.next_value()?));
        }
        Ok(Node(members))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut members = Vec::new();
        while let Some(element) = list.next_element()? {
            members.push((members.len().to_string(), element));
        }
        Ok(Node(members))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node(Vec::new()))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node(Vec::new()))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node(Vec::new()))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node(Vec::new()))
    }

    fn visit_str<E>(self, _: &str) -> Result<Node, E> {
        Ok(Node(Vec::new()))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node(Vec::new()))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Node(Vec::new()))
    }
}

#[cfg(test)]
mod tests {
    use super::{Place, Places};

    #[test]
    fn every_key_has_a_place_and_what_is_not_there_has_its_parents() {
        let places = Places::of("kinds:\n- kind: A\n  names: [x, y]\nrules: null\n");
        let at = |line, column| Some(Place { line, column });
        assert_eq!(places.find("kinds[0].kind"), at(2, 9));
        assert_eq!(places.find("kinds[0].names[1]"), at(3, 14));
        assert_eq!(places.find("kinds[0].missing"), at(2, 3));
        assert_eq!(places.find("nothing"), at(1, 1));
    }
}
