//! Values that may be compared and never told.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

use crate::model::ValueDigest;

/// No text of Kubernetes begins with this.
const MARK: char = '\u{1}';

/// A text as its digest alone.
pub fn seal(text: &str) -> String {
    format!("{MARK}{}", ValueDigest::of(text))
}

/// Replaces every scalar in a value by its digest. Empty ones stay: they tell nothing.
pub fn seal_all(value: &mut Value) {
    match value {
        Value::Null => {}
        Value::Array(elements) => elements.iter_mut().for_each(seal_all),
        Value::Object(members) => members.values_mut().for_each(seal_all),
        Value::String(text) => {
            if !text.is_empty() && !is_sealed(text) {
                *text = seal(text);
            }
        }
        // Zero and false are the same as absent, in states.
        Value::Bool(false) => *value = Value::Null,
        Value::Number(number) if number.as_f64() == Some(0.0) => *value = Value::Null,
        Value::Bool(true) | Value::Number(_) => *value = seal(&value.to_string()).into(),
    }
}

/// Whether a text is a digest that [`seal`] made.
pub(super) fn is_sealed(text: &str) -> bool {
    text.starts_with(MARK)
}

/// A text as it may be shown: the digest where it is sealed, or has to be.
pub(super) fn shown(text: &str, sealed: bool) -> Box<str> {
    match text.strip_prefix(MARK) {
        Some(digest) => digest.into(),
        None if sealed && !text.is_empty() => ValueDigest::of(text).to_string().into(),
        None => text.into(),
    }
}

/// Whether two texts are the same, sealed or not.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    one == other
        || match (is_sealed(one), is_sealed(other)) {
            (true, false) => one == seal(other),
            (false, true) => seal(one) == other,
            (true, true) | (false, false) => false,
        }
}

/// The bytes of a base64 text.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{is_same, seal, seal_all, shown};

    #[test]
    fn a_sealed_text_is_recognised_and_never_shown() {
        let sealed = seal("hunter2");
        assert!(is_same(&sealed, "hunter2") && is_same("hunter2", &sealed) && !is_same(&sealed, "hunter3"));
        assert!(shown(&sealed, false).starts_with("sha256:"));
        assert_eq!(shown(&sealed, false), shown("hunter2", true));
    }

    #[test]
    fn nothing_of_a_sealed_value_is_left() {
        let mut value = json!({"a": ["hunter2", 7, true, null, ""], "b": {"c": "hunter2"}});
        seal_all(&mut value);
        let text = value.to_string();
        assert!(!text.contains("hunter") && !text.contains("7,") && !text.contains("true"), "{text}");
    }
}
