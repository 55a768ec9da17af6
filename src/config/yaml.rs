//! Reads YAML, and reports problems with line and column.

use std::{collections::BTreeMap, fmt};

use serde::de::DeserializeOwned;
use serde_saphyr::{
    Error, Location,
    granit_parser::{Event, Parser},
};

use crate::{rules::nearest, types::shorten};

/// A position in a file, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: usize,
    /// In characters.
    pub column: usize,
}

impl Position {
    /// None if the location is unknown, which saphyr reports as line 0.
    fn of(location: Location) -> Option<Self> {
        let line = usize::try_from(location.line()).unwrap_or(0);
        let column = usize::try_from(location.column()).unwrap_or(0);
        (line > 0).then_some(Self { line, column })
    }
}

/// An error or a warning about a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    pub position: Option<Position>,
    /// `rules[2].match.paths[0]`; empty for the whole file.
    pub key: Box<str>,
    pub message: Box<str>,
    /// The most similar valid word.
    pub suggestion: Option<Box<str>>,
}

impl ConfigProblem {
    pub fn whole(message: impl fmt::Display) -> Self {
        Self::at("", message)
    }

    pub(super) fn at(key: &str, message: impl fmt::Display) -> Self {
        let message = message.to_string().into();
        Self { position: None, key: shorten(key).into(), message, suggestion: None }
    }

    /// A word that is not one of the `known` ones.
    pub(super) fn unknown<'w>(
        key: &str,
        what: &str,
        word: &str,
        known: impl IntoIterator<Item = &'w str>,
    ) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        let message = format!("unknown {what} `{}`; want one of {}", shorten(word), known.join(", "));
        Self { suggestion: nearest(word, known).map(Into::into), ..Self::at(key, message) }
    }
}

/// `line 3, column 5: kinds[0].kindd: unknown field; did you mean `kind`?`
impl std::error::Error for ConfigProblem {}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Position { line, column }) = self.position {
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

/// Deserializes YAML. Errors are phrased for readers who know YAML and not the parser.
pub fn read_yaml<T: DeserializeOwned>(text: &str) -> Result<T, ConfigProblem> {
    serde_saphyr::from_str(text).map_err(|error| problem(text, &error))
}

/// Sets the position of each problem by its key, and sorts the problems by position.
pub fn with_positions(text: &str, mut problems: Vec<ConfigProblem>) -> Vec<ConfigProblem> {
    let positions = KeyPositions::of(text);
    problems.iter_mut().for_each(|problem| problem.position = Some(positions.find(&problem.key)));
    problems.sort_by_key(|problem| problem.position);
    problems
}

fn problem(text: &str, error: &Error) -> ConfigProblem {
    let position = error.location().and_then(Position::of);
    let error = error.without_snippet();
    let suggestion = match error {
        Error::SerdeUnknownField { field: word, expected, .. }
        | Error::SerdeUnknownVariant { variant: word, expected, .. } => {
            nearest(word, expected.iter().copied())
        }
        _ => None,
    };
    let out_of_range = position.and_then(|position| out_of_range(text, position, error));
    let message = out_of_range.unwrap_or_else(|| describe_yaml_error(error));
    ConfigProblem { position, suggestion: suggestion.map(Into::into), ..ConfigProblem::whole(message) }
}

/// The range of an integer, if the text has another integer there.
fn out_of_range(text: &str, position: Position, error: &Error) -> Option<String> {
    let Error::InvalidScalar { ty, .. } = error else { return None };
    let range = match *ty {
        "u16" => format!("0 to {}", u16::MAX),
        "u32" => format!("0 to {}", u32::MAX),
        "u64" => format!("0 to {}", u64::MAX),
        _ => return None,
    };
    let value = text.lines().nth(position.line - 1)?.chars().skip(position.column - 1);
    let mut value = value.take_while(|c| !c.is_whitespace() && !matches!(c, ',' | ']' | '}')).peekable();
    let is_integer = value.peek().is_some() && value.all(|c| c.is_ascii_digit());
    is_integer.then(|| format!("the integer is out of range; want one from {range}"))
}

/// What is wrong, for readers who know YAML and not the parser. Syntax errors may quote the document.
pub fn describe_yaml_error(error: &Error) -> String {
    match error {
        Error::SerdeUnknownField { field, expected, .. } if expected.is_empty() => {
            format!("unknown field `{}`; want {{}}, without fields", shorten(field))
        }
        Error::SerdeUnknownField { field, expected, .. } => {
            format!("unknown field `{}`; valid fields: {}", shorten(field), expected.join(", "))
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            format!("unknown value `{}`; want one of {}", shorten(variant), expected.join(", "))
        }
        Error::SerdeMissingField { field, .. } => format!("missing field `{field}`"),
        Error::SerdeInvalidType { unexpected, expected, .. }
        | Error::SerdeInvalidValue { unexpected, expected, .. } => {
            format!("this is {}; want {}", shorten(unexpected), shorten(expected))
        }
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("duplicate field `{}`", shorten(key)),
        Error::DuplicateMappingKey { key: None, .. } => "duplicate field".to_owned(),
        Error::MultipleDocuments { .. } => {
            "more than one document; want one, without another `---`".to_owned()
        }
        Error::InvalidScalar { ty, .. } => format!("want {}", scalar(ty)),
        Error::InvalidBooleanStrict { .. } => "want true or false".to_owned(),
        Error::Unexpected { expected, .. } => format!("want {}", node(expected)),
        Error::NullIntoString { .. } => "empty value; want a string".to_owned(),
        Error::ExternallyTaggedEnumExpectedScalarOrMapping { .. } => "want a single word".to_owned(),
        Error::UnexpectedValueForUnitEnumVariant { .. } => {
            "want a single word, and nothing below it".to_owned()
        }
        Error::InvalidBinaryBase64 { .. }
        | Error::BinaryNotUtf8 { .. }
        | Error::TaggedScalarCannotDeserializeIntoString { .. }
        | Error::UnsupportedTag { .. } => "want a string without a tag such as `!!binary`".to_owned(),
        Error::MergeValueNotMapOrSeqOfMaps { .. } => "want a map or a list of maps after `<<`".to_owned(),
        Error::RecursiveReferencesRequireWeakTypes { .. } => {
            "an alias cannot be inside its anchor".to_owned()
        }
        Error::UnknownAnchor { .. } => "unknown anchor".to_owned(),
        Error::Eof { .. } => "the file is truncated".to_owned(),
        Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. }
        | Error::Budget { .. } => "too large, too deep or too many aliases".to_owned(),
        Error::AliasError { error, .. } => describe_yaml_error(error.without_snippet()),
        // The remaining errors are about the syntax of YAML, and the parser phrases them well.
        other => shorten(&without_position(&other.to_string())).into_owned(),
    }
}

fn scalar(name: &str) -> &str {
    match name {
        "boolean" => "true or false",
        "floating point" => "a number",
        unsigned if unsigned.starts_with('u') => "an integer that is not negative",
        signed if signed.starts_with('i') => "an integer",
        other => other,
    }
}

fn node(name: &str) -> &str {
    match name {
        "mapping start" => "a map",
        "sequence start" => "a list",
        "string scalar" | "scalar" => "a string",
        "mapping end" | "empty mapping start" | "empty mapping end" => "the end of this map",
        _ => "another value",
    }
}

/// Drops the position from the parser's message: `ConfigProblem` has it.
fn without_position(message: &str) -> String {
    let end = message.rfind(" at line ").unwrap_or(message.len());
    let message = message.strip_prefix("error: ").unwrap_or(&message[..end]);
    message.lines().next().unwrap_or("invalid YAML").to_owned()
}

/// The position of each value of a YAML document, by its key: `rules[2].match.paths[0]`.
#[derive(Debug)]
struct KeyPositions(BTreeMap<String, Position>);

/// Replaces a key that is an alias, a map or a list. No problem has this key.
const COMPLEX_KEY: &str = "?";

/// A map or a list whose members are being read.
enum Container {
    Map { key: String, member: Option<String> },
    List { key: String, length: usize },
}

impl KeyPositions {
    /// Only the positions before the first error if the text is not valid YAML.
    fn of(text: &str) -> Self {
        let mut positions = BTreeMap::new();
        let mut open: Vec<Container> = Vec::new();
        for (event, span) in Parser::new_from_str(text).map_while(Result::ok) {
            match event {
                Event::MappingEnd | Event::SequenceEnd => {
                    open.pop();
                    continue;
                }
                Event::MappingStart(..) | Event::SequenceStart(..) | Event::Scalar(..) | Event::Alias(_) => {}
                _ => continue,
            }
            let key = match (open.last_mut(), &event) {
                (None, _) => String::new(),
                (Some(Container::Map { member: member @ None, .. }), Event::Scalar(name, ..)) => {
                    *member = Some(name.to_string());
                    continue;
                }
                (Some(Container::Map { member: member @ None, .. }), Event::Alias(_)) => {
                    *member = Some(COMPLEX_KEY.to_owned());
                    continue;
                }
                (Some(Container::Map { member: member @ None, .. }), _) => {
                    *member = Some(COMPLEX_KEY.to_owned());
                    COMPLEX_KEY.to_owned()
                }
                (Some(Container::Map { key, member }), _) => match member.take().unwrap_or_default() {
                    name if key.is_empty() => name,
                    name => format!("{key}.{name}"),
                },
                (Some(Container::List { key, length }), _) => {
                    *length += 1;
                    format!("{key}[{}]", *length - 1)
                }
            };
            let position = Position { line: span.start.line(), column: span.start.col() + 1 };
            positions.insert(key.clone(), position);
            match event {
                Event::MappingStart(..) => open.push(Container::Map { key, member: None }),
                Event::SequenceStart(..) => open.push(Container::List { key, length: 0 }),
                _ => {}
            }
        }
        Self(positions)
    }

    /// The position of a key, or of its nearest existing parent. An empty document starts at its first character.
    fn find(&self, mut key: &str) -> Position {
        while !self.0.contains_key(key) && !key.is_empty() {
            key = &key[..key.rfind(['.', '[']).unwrap_or(0)];
        }
        self.0.get(key).copied().unwrap_or(Position { line: 1, column: 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::{KeyPositions, Position};

    #[test]
    fn missing_key_has_the_position_of_its_parent() {
        let positions = KeyPositions::of("kinds:\n- kind: A\n  names: [x, y]\nrules: null\n");
        let at = |line, column| Position { line, column };
        assert_eq!(positions.find("kinds[0].kind"), at(2, 9));
        assert_eq!(positions.find("kinds[0].names[1]"), at(3, 14));
        assert_eq!(positions.find("kinds[0].missing"), at(2, 3));
        assert_eq!(positions.find("nothing"), at(1, 1));
        assert_eq!(KeyPositions::of("").find("kinds"), at(1, 1));
    }

    #[test]
    fn keys_that_are_not_scalars_do_not_shift_the_positions_after_them() {
        for key in ["*a", "[x, {y: z}]", "{x: [y, z]}"] {
            let positions = KeyPositions::of(&format!("a: &a b\n? {key}\n: c\nrules: [d]\n"));
            assert_eq!(positions.find("rules[0]"), Position { line: 4, column: 9 }, "{key}");
        }
    }
}
