//! `JSONPath` as kubectl takes it, as far as it names a single field.

use super::FieldPath;

impl FieldPath {
    /// Reads `.status.lastAppliedHash`, `{.status.phase}`, `.status.conditions[?(@.type=="Ready")].reason` and
    /// `.metadata.annotations['example.com/hash']`. What names several fields, or needs more than that, is refused: the
    /// error says what is wrong.
    pub fn from_json_path(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("`{text}` is no path to a single field: {why}");
        let inner = text.trim();
        let inner = inner.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(inner).trim();
        let inner = inner.strip_prefix('$').unwrap_or(inner);
        if inner.contains('\\') {
            return Err(wrong("a name with dots in it is quoted, as in `['example.com/hash']`"));
        }
        let inner = inner.strip_prefix('.').unwrap_or(inner);
        let plain = without_filters(inner).map_err(&wrong)?;
        plain.parse().map_err(|error: super::PathError| wrong(&error.message))
    }
}

/// The same in our own way of writing: `[?(@.type=="Ready")]` is `[type="Ready"]`, `['a']` is `["a"]`.
fn without_filters(text: &str) -> Result<String, &'static str> {
    let mut plain = String::with_capacity(text.len());
    let mut left = text;
    while let Some(at) = left.find('[') {
        let (before, bracket) = left.split_at(at);
        plain.push_str(before);
        let (inside, rest) = match bracket.strip_prefix("[?(") {
            Some(filter) => filter.split_once(")]").ok_or("the filter is not closed")?,
            None => bracket[1..].split_once(']').ok_or("the bracket is not closed")?,
        };
        plain.push('[');
        if bracket.starts_with("[?(") {
            let (key, value) = inside.split_once("==").ok_or("a filter compares with `==`")?;
            let key =
                key.trim().strip_prefix("@.").ok_or("a filter compares a field of the element, `@.type`")?;
            plain.extend([key, "=", &with_double_quotes(value.trim())]);
        } else {
            plain.push_str(&with_double_quotes(inside));
        }
        plain.push(']');
        left = rest;
    }
    plain.push_str(left);
    Ok(plain)
}

fn with_double_quotes(text: &str) -> String {
    let quoted = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
    quoted.map_or_else(|| text.to_owned(), |text| format!("\"{text}\""))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::FieldPath;

    #[test]
    fn what_kubectl_takes_for_a_single_field_is_understood() {
        for (text, wanted) in [
            (".status.lastAppliedHash", "status.lastAppliedHash"),
            ("status.phase", "status.phase"),
            ("{.status.phase}", "status.phase"),
            ("{ $.status.phase }", "status.phase"),
            (".status.conditions[?(@.type==\"Ready\")].message", "status.conditions[type=Ready].message"),
            (".status.conditions[?(@.type == 'Ready')].reason", "status.conditions[type=Ready].reason"),
            (".metadata.annotations['example.com/hash']", "metadata.annotations[\"example.com/hash\"]"),
            (".status.history[0].hash", "status.history[0].hash"),
        ] {
            assert_eq!(FieldPath::from_json_path(text).unwrap().to_string(), wanted, "{text}");
        }
    }

    #[test]
    fn what_is_more_than_that_is_refused_and_why() {
        for (text, why) in [
            ("", "a field's name is missing"),
            (".", "a field's name is missing"),
            ("..phase", "a field's name is missing"),
            (".status.*", "a star"),
            (".status.conditions[*].type", "a star"),
            (".status.conditions[0:2]", "no index"),
            (".status.conditions[?(@.type!=\"Ready\")].x", "`==`"),
            (".status.conditions[?(type==\"Ready\")].x", "`@.type`"),
            (".status.conditions[?(@.type==\"Ready\"", "not closed"),
            (".metadata.annotations.example\\.com/hash", "quoted"),
        ] {
            let error = FieldPath::from_json_path(text).unwrap_err();
            assert!(error.contains(why) && error.contains(text), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[a-z.*\\[\\]\"'=,\\\\?(@)0-9 {}$]{0,24}") {
            let _ = FieldPath::from_json_path(&text);
        }
    }
}
