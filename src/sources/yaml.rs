//! YAML as Helm and kubectl read it: as JSON, by the rules of YAML 1.1.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

/// Reads one document.
pub(super) fn read(text: &str) -> Result<Value, serde_saphyr::Error> {
    serde_saphyr::from_str_with_options::<Node>(text, options()).map(|node| node.0)
}

/// `0644` is octal, of two members of one name the last counts, and one anchor may be meant often. Large lists are ordinary;
/// anchors that multiply are not, and stay bounded as the library sees fit.
fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        legacy_octal_numbers: true,
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
        budget: serde_saphyr::budget! {
            max_nodes: 50_000_000,
            max_events: 100_000_000,
            enforce_alias_anchor_ratio: false,
        },
    }
}

/// A value whose maps have their names from whatever stands there: `yes` is `true` there too.
struct Node(Value);

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor).map(Self)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, set: bool) -> Result<Value, E> {
        Ok(set.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(Node(element)) = sequence.next_element()? {
            elements.push(element);
        }
        Ok(elements.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(Node(name)) = map.next_key()? {
            let name = match name {
                Value::String(name) => name,
                Value::Bool(_) | Value::Number(_) => name.to_string(),
                Value::Null | Value::Array(_) | Value::Object(_) => {
                    return Err(A::Error::custom("only a text, a number or a truth value can be a name"));
                }
            };
            members.insert(name, map.next_value::<Node>()?.0);
        }
        Ok(members.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::read;

    #[test]
    fn it_is_read_as_helm_and_kubectl_read_it() {
        let text = "a: 0644\nb: yes\nc: \"0644\"\nd: 1\nd: 2\n<<: {e: 1}\nf: ~\ng: [1.5, -1, 2026-01-01]\n";
        let object = json!({"a": 420, "b": true, "c": "0644", "d": 2, "e": 1, "f": null, "g": [1.5, -1, "2026-01-01"]});
        assert_eq!(read(text).unwrap(), object);
    }

    #[test]
    fn names_are_what_their_spelling_says() {
        let object = read("yes: a\n\"no\": b\noff: c\n5: d\n1.5: e\n010: f\nplain: {n: g}\n").unwrap();
        let names = json!({"true": "a", "no": "b", "false": "c", "5": "d", "1.5": "e", "8": "f", "plain": {"false": "g"}});
        assert_eq!(object, names);
        for text in ["~: a\n", "? [a]\n: b\n", "null: a\n"] {
            assert!(read(text).is_err(), "{text}");
        }
        assert_eq!(read("true: a\nyes: b\n").unwrap(), json!({"true": "b"}));
    }
    #[test]
    fn an_anchor_may_be_meant_often_but_not_without_end() {
        let often = format!("a: &a {{b: c}}\nlist:\n{}", "- *a\n".repeat(1000));
        assert_eq!(read(&often).unwrap()["list"][999], json!({"b": "c"}));
        let large = format!("a: &a {}\nlist:\n{}", "x".repeat(4 << 20), "- *a\n".repeat(32));
        assert!(read(&large).is_err(), "no document becomes 128 MiB");
    }
}
