//! The names that Kubernetes allows, and how messages quote untrusted names.

use std::borrow::Cow;

/// Longer than any name of an object that the API server accepts.
const MAX_QUOTED: usize = 300;

/// An untrusted name or text, as messages, logs, pages and labels quote it. Nothing else limits its length.
pub fn shorten(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_QUOTED {
        return text.into();
    }
    let start = &text[..text.floor_char_boundary(MAX_QUOTED)];
    format!("{start}… ({} bytes)", text.len()).into()
}

/// Whether a terminal or a log viewer does not show the character as it is: control characters, line separators, and marks
/// that change the direction of text.
pub fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether a text is a valid name of a namespace (RFC 1123 label).
pub fn is_namespace(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&name.len())
        && name.chars().all(allowed)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// Whether a text is a valid prefix of a label name (RFC 1123 subdomain).
pub fn is_label_prefix(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_namespace)
}

/// Whether a text is a valid label name, with or without a prefix: `app`, `example.com/team`.
pub fn is_label_name(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    prefix.is_none_or(is_label_prefix) && !name.is_empty() && is_label_value(name)
}

/// Whether a text is a valid label value. It may be empty.
pub fn is_label_value(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let outer = |c: char| c.is_ascii_alphanumeric();
    text.len() <= 63
        && text.chars().all(inner)
        && text.chars().next().is_none_or(outer)
        && text.chars().next_back().is_none_or(outer)
}
