//! Reads YAML and reports problems with line and column.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_saphyr::{Error, Spanned};

use super::file::SettingsFile;
use crate::rules::nearest;

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

/// A settings file as it was read.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) file: SettingsFile,
    pub(super) places: Places,
}

/// Reads a settings file. An empty one says nothing, and so leaves everything as it is by itself.
pub(super) fn read(text: &str) -> Result<Read, Problem> {
    let file: Option<SettingsFile> = read_yaml(text)?;
    Ok(Read { file: file.unwrap_or_default(), places: Places::of(text) })
}

/// Reads YAML that a person wrote; what is wrong is told in words for people.
pub fn read_yaml<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    serde_saphyr::from_str(text).map_err(|error| problem(&error))
}

fn problem(error: &Error) -> Problem {
    let place = error.location().map(|location| Place {
        line: usize::try_from(location.line()).unwrap_or(0),
        column: usize::try_from(location.column()).unwrap_or(0),
    });
    let error = error.without_snippet();
    let suggestion = match error {
        Error::SerdeUnknownField { field: word, expected, .. }
        | Error::SerdeUnknownVariant { variant: word, expected, .. } => {
            nearest(word, expected.iter().copied())
        }
        _ => None,
    };
    let place = place.filter(|place| place.line > 0);
    Problem { place, key: "".into(), message: message(error).into(), suggestion: suggestion.map(Into::into) }
}

/// What is wrong, for somebody who writes YAML and has never seen the crate that reads it.
fn message(error: &Error) -> String {
    match error {
        Error::SerdeUnknownField { field, expected, .. } => {
            format!("`{field}` is no key here; there are {}", expected.join(", "))
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            format!("`{variant}` is not allowed here; want one of {}", expected.join(", "))
        }
        Error::SerdeMissingField { field, .. } => format!("the key `{field}` is missing"),
        Error::SerdeInvalidType { unexpected, expected, .. }
        | Error::SerdeInvalidValue { unexpected, expected, .. } => {
            format!("this is {unexpected}; want {expected}")
        }
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("the key `{key}` is there twice"),
        Error::DuplicateMappingKey { key: None, .. } => "a key is there twice".to_owned(),
        Error::MultipleDocuments { .. } => {
            "more than one document; want one, without another `---`".to_owned()
        }
        Error::InvalidScalar { ty, .. } => format!("want {}", scalar(ty)),
        Error::InvalidBooleanStrict { .. } => "want true or false".to_owned(),
        Error::Unexpected { expected, .. } => format!("want {}", node(expected)),
        Error::NullIntoString { .. } => "nothing stands here; want a text".to_owned(),
        Error::ExternallyTaggedEnumExpectedScalarOrMapping { .. } => "want a single word".to_owned(),
        Error::UnexpectedValueForUnitEnumVariant { .. } => {
            "want a single word, and nothing below it".to_owned()
        }
        Error::InvalidBinaryBase64 { .. }
        | Error::BinaryNotUtf8 { .. }
        | Error::TaggedScalarCannotDeserializeIntoString { .. }
        | Error::UnsupportedTag { .. } => "want a text without a tag such as `!!binary`".to_owned(),
        Error::MergeValueNotMapOrSeqOfMaps { .. } => {
            "only a map, or a list of maps, can stand after `<<`".to_owned()
        }
        Error::RecursiveReferencesRequireWeakTypes { .. } => {
            "an alias cannot stand within what it repeats".to_owned()
        }
        Error::UnknownAnchor { .. } => "this alias repeats an anchor that is nowhere before it".to_owned(),
        Error::Eof { .. } => "the file ends too early".to_owned(),
        Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. }
        | Error::Budget { .. } => "too large, too deep or repeated too often".to_owned(),
        Error::AliasError { error, .. } => message(error.without_snippet()),
        // What is left is about the syntax of YAML, and says so in words for people.
        other => plain(&other.to_string()),
    }
}

fn scalar(name: &str) -> &str {
    match name {
        "boolean" => "true or false",
        "floating point" => "a number",
        unsigned if unsigned.starts_with('u') => "a whole number that is not negative",
        signed if signed.starts_with('i') => "a whole number",
        other => other,
    }
}

fn node(name: &str) -> &str {
    match name {
        "mapping start" => "a map: keys with values",
        "sequence start" => "a list",
        "string scalar" | "scalar" => "a text",
        "mapping end" | "empty mapping start" | "empty mapping end" => "nothing more in this map",
        _ => "something else here",
    }
}

/// The message without the place, which is said before it.
fn plain(message: &str) -> String {
    let end = message.rfind(" at line ").unwrap_or(message.len());
    let message = message.strip_prefix("error: ").unwrap_or(&message[..end]);
    message.lines().next().unwrap_or("cannot be read").to_owned()
}

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
