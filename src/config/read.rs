//! From the text of a settings file to what it says.

use serde::de::DeserializeOwned;
use serde_saphyr::Error;

use super::{
    file::SettingsFile,
    places::Places,
    problem::{Place, Problem},
};
use crate::rules::nearest;

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
