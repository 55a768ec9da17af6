//! From the text of a settings file to what it says.

use serde_saphyr::Error;

use super::{
    file::SettingsFile,
    places::Places,
    problem::{Place, Problem, nearest},
};

/// A settings file as it was read.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) file: SettingsFile,
    pub(super) places: Places,
}

/// Reads a settings file. An empty one says nothing, and so leaves everything as it is by itself.
pub(super) fn read(text: &str) -> Result<Read, Problem> {
    let file: Option<SettingsFile> = serde_saphyr::from_str(text).map_err(|error| problem(&error))?;
    Ok(Read { file: file.unwrap_or_default(), places: Places::of(text) })
}

fn problem(error: &Error) -> Problem {
    let place = error.location().map(|location| Place {
        line: usize::try_from(location.line()).unwrap_or(0),
        column: usize::try_from(location.column()).unwrap_or(0),
    });
    let (message, suggestion) = match error.without_snippet() {
        Error::SerdeUnknownField { field, expected, .. } => {
            let known = expected.join(", ");
            (format!("`{field}` is no key here; there are {known}"), nearest(field, expected))
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            let known = expected.join(", ");
            (format!("`{variant}` is not allowed here; want one of {known}"), nearest(variant, expected))
        }
        Error::SerdeMissingField { field, .. } => (format!("the key `{field}` is missing"), None),
        Error::SerdeInvalidType { unexpected, expected, .. } => {
            (format!("this is {unexpected}; want {expected}"), None)
        }
        other => (plain(&other.to_string()), None),
    };
    let place = place.filter(|place| place.line > 0);
    Problem { place, key: "".into(), message: message.into(), suggestion }
}

/// The message without the place, which is said before it.
fn plain(message: &str) -> String {
    let end = message.rfind(" at line ").unwrap_or(message.len());
    let message = message.strip_prefix("error: ").unwrap_or(&message[..end]);
    message.lines().next().unwrap_or("cannot be read").to_owned()
}
