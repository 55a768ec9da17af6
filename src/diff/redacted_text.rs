//! Redacted texts: keyed digests that can be compared and not be read.
//!
//! A redacted text is a prefix and its digests, separated by spaces. A live object is redacted with the keys of all baselines
//! that declare it, because the plain value is not kept. A text that may be a quantity has digests of its amount too, after a
//! second prefix, so that `1Gi` and `1024Mi` stay equal where quantities are compared.

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{GeneralPurpose, GeneralPurposeConfig},
};
use serde_json::{Number, Value};

use super::quantity::Quantity;
use crate::types::{FieldPath, FieldValue, KeyedDigest, RedactionKey, Segment};

const PREFIX: char = '\u{1}';

/// File modes are numbers in objects, and octal digits in Terraform states.
const MAX_FILE_MODE: i64 = 0o7777;

pub fn redact(key: &RedactionKey, text: &str) -> String {
    redact_text(std::slice::from_ref(key), text)
}

/// Replaces every scalar in a value of a Terraform state by its digest. Empty scalars stay: they disclose nothing.
pub fn redact_all(key: &RedactionKey, value: &mut Value) {
    match value {
        Value::Object(members) => members.values_mut().for_each(|member| redact_all(key, member)),
        // An element of a list differs from an absent one even if it is zero or false.
        Value::Array(elements) => elements.iter_mut().for_each(|element| match element {
            Value::Object(_) | Value::Array(_) => redact_all(key, element),
            scalar => redact_value(std::slice::from_ref(key), scalar),
        }),
        // Zero and false equal an absent attribute in a state.
        Value::Bool(false) => *value = Value::Null,
        Value::Number(number) if number.as_f64() == Some(0.0) => *value = Value::Null,
        scalar => redact_value(std::slice::from_ref(key), scalar),
    }
}

/// Replaces every scalar in a value of an object by its digests with each key. Empty and redacted scalars stay.
pub(super) fn redact_value(keys: &[RedactionKey], value: &mut Value) {
    match value {
        Value::Null => {}
        Value::Array(elements) => elements.iter_mut().for_each(|element| redact_value(keys, element)),
        Value::Object(members) => {
            members.iter_mut().for_each(|(name, member)| redact_member(keys, name, member));
        }
        Value::String(text) => {
            if !text.is_empty() && !is_redacted(text) {
                *text = redact_text(keys, text);
            }
        }
        Value::Bool(_) => *value = redact_text(keys, &value.to_string()).into(),
        Value::Number(number) => *value = redact_number(keys, number).into(),
    }
}

/// Redacts the member of this name. A certificate is base64 in objects and plain text in states, so it has the digests of
/// both.
pub(super) fn redact_member(keys: &[RedactionKey], name: &str, value: &mut Value) {
    if let ("caBundle", Value::String(text)) = (name, &mut *value)
        && !is_redacted(text)
        && let Some(bytes) = decode_base64(text)
    {
        *text = join_digests(keys, &[text.as_bytes(), String::from_utf8_lossy(&bytes).as_bytes()], None);
    } else {
        redact_value(keys, value);
    }
}

/// Replaces a base64 text by the digests of its bytes.
pub(super) fn redact_base64(keys: &[RedactionKey], value: &mut Value) {
    if let Value::String(text) = value
        && !is_redacted(text)
        && let Some(bytes) = decode_base64(text)
    {
        *text = if bytes.is_empty() { String::new() } else { redact_bytes(keys, &bytes) };
    } else {
        redact_value(keys, value);
    }
}

/// Bytes that are not UTF-8 have two digests: a state contains them as text with replacement characters.
fn redact_bytes(keys: &[RedactionKey], bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let forms = [bytes, text.as_bytes()];
    let count = if forms[0] == forms[1] { 1 } else { 2 };
    join_digests(keys, &forms[..count], None)
}

pub(super) fn redact_text(keys: &[RedactionKey], text: &str) -> String {
    join_digests(keys, &[text.as_bytes()], canonical_amount(text))
}

fn redact_number(keys: &[RedactionKey], number: &Number) -> String {
    let text = number.to_string();
    match number.as_i64().filter(|mode| (0..=MAX_FILE_MODE).contains(mode)) {
        Some(mode) => {
            join_digests(keys, &[text.as_bytes(), octal_mode(mode).as_bytes()], canonical_amount(&text))
        }
        None => redact_text(keys, &text),
    }
}

/// The redacted text with the digests of all forms of a value and of its amount.
fn join_digests(keys: &[RedactionKey], forms: &[&[u8]], amount: Option<String>) -> String {
    let digests = keys.iter().flat_map(|key| forms.iter().map(|form| key.digest(form).to_string()));
    let mut redacted = format!("{PREFIX}{}", digests.collect::<Vec<_>>().join(" "));
    if let Some(amount) = amount {
        let digests: Vec<String> = keys.iter().map(|key| key.digest(amount.as_bytes()).to_string()).collect();
        redacted.push(PREFIX);
        redacted.push_str(&digests.join(" "));
    }
    redacted
}

/// One text for all notations of a quantity. The prefix keeps it apart from every plain text.
fn canonical_amount(text: &str) -> Option<String> {
    Quantity::parse(text).ok().map(|quantity| format!("{PREFIX}{}", quantity.nanos()))
}

/// A file mode as Terraform states contain it.
pub(super) fn octal_mode(mode: i64) -> String {
    format!("0{mode:o}")
}

pub fn is_redacted(text: &str) -> bool {
    text.starts_with(PREFIX) && digests(text).next().and_then(KeyedDigest::parse).is_some()
}

/// Whether a text is redacted with other keys only, so that it cannot be compared.
pub(super) fn has_unknown_key(key: &RedactionKey, text: &str) -> bool {
    is_redacted(text) && digest_of(key, text).is_none()
}

/// A text as the value of a finding. It is redacted if the text is, or if `is_sensitive` is set.
pub(super) fn display(key: &RedactionKey, text: &str, is_sensitive: bool) -> FieldValue {
    if is_redacted(text) {
        let digest = digest_of(key, text).or_else(|| digests(text).next()).and_then(KeyedDigest::parse);
        return digest.map_or(FieldValue::Absent, FieldValue::Redacted);
    }
    let plain = if text == "\"\"" { FieldValue::Plain(Box::default()) } else { FieldValue::non_empty(text) };
    if is_sensitive { plain.redacted(key) } else { plain }
}

/// A path as it is shown to users: the keys of list elements may be redacted.
pub(super) fn display_path(key: &RedactionKey, path: &[Segment]) -> FieldPath {
    let text = |value: &str| {
        if is_redacted(value) { display(key, value, false).text().into() } else { value.into() }
    };
    let display = |segment: &Segment| match segment {
        Segment::Element(keys) => {
            Segment::Element(keys.iter().map(|(name, value)| (name.clone(), text(value))).collect())
        }
        Segment::Value(value) => Segment::Value(text(value)),
        Segment::Field(_) | Segment::Index(_) => segment.clone(),
    };
    FieldPath::new(path.iter().map(display).collect())
}

/// Whether two texts, plain or redacted, are the same.
pub(super) fn is_same(key: &RedactionKey, one: &str, other: &str) -> bool {
    one == other
        || match (is_redacted(one), is_redacted(other)) {
            (true, false) => digests(one).any(|digest| digest == key.digest(other.as_bytes()).to_string()),
            (false, true) => is_same(key, other, one),
            (true, true) => share_digest(digests(one), || digests(other)),
            (false, false) => false,
        }
}

/// Whether two texts, plain or redacted, are the same quantity; `false` unless both are quantities.
pub(super) fn is_same_quantity(key: &RedactionKey, one: &str, other: &str) -> bool {
    match (is_redacted(one), is_redacted(other)) {
        (true, false) => canonical_amount(other).is_some_and(|other| {
            let wanted = key.digest(other.as_bytes()).to_string();
            amount_digests(one).any(|digest| digest == wanted)
        }),
        (false, true) => is_same_quantity(key, other, one),
        (true, true) => share_digest(amount_digests(one), || amount_digests(other)),
        (false, false) => Quantity::are_same(one, other),
    }
}

/// Whether two texts are the same bytes. Bytes that are not UTF-8 may be [the same](is_same) in a state and still differ here.
pub(super) fn is_same_bytes(key: &RedactionKey, one: &str, other: &str) -> bool {
    one == other
        || match (is_redacted(one), is_redacted(other)) {
            (true, true) => digest_of(key, one).is_some_and(|digest| digest_of(key, other) == Some(digest)),
            (true, false) => digest_of(key, one) == Some(&*key.digest(other.as_bytes()).to_string()),
            (false, true) => is_same_bytes(key, other, one),
            (false, false) => false,
        }
}

fn share_digest<'a, I: Iterator<Item = &'a str>>(
    mut some: impl Iterator<Item = &'a str>,
    others: impl Fn() -> I,
) -> bool {
    some.any(|digest| others().any(|other| other == digest))
}

fn digests(redacted: &str) -> impl Iterator<Item = &str> {
    part(redacted, 1)
}

fn amount_digests(redacted: &str) -> impl Iterator<Item = &str> {
    part(redacted, 2)
}

fn part(redacted: &str, number: usize) -> impl Iterator<Item = &str> {
    redacted.split(PREFIX).nth(number).unwrap_or_default().split(' ').filter(|digest| !digest.is_empty())
}

/// The digest of the value itself: the first with this key.
fn digest_of<'a>(key: &RedactionKey, redacted: &'a str) -> Option<&'a str> {
    digests(redacted).find(|digest| KeyedDigest::parse(digest).is_some_and(|digest| digest.key() == key.id()))
}

/// Go ignores non-zero trailing bits.
const GO_BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// Decodes base64 as the API server does: it ignores line breaks.
pub(super) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    if text.contains(['\n', '\r']) {
        return GO_BASE64.decode(text.replace(['\n', '\r'], "")).ok();
    }
    GO_BASE64.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use hmac::{Hmac, KeyInit as _, Mac as _};
    use serde_json::{Value, json};
    use sha2::Sha256;

    use super::{
        decode_base64, display, has_unknown_key, is_same, is_same_bytes, is_same_quantity, redact,
        redact_all, redact_bytes, redact_text, redact_value,
    };
    use crate::types::RedactionKey;

    fn key(number: u8) -> RedactionKey {
        RedactionKey::new([number; 32])
    }

    #[test]
    fn redacted_text_equals_its_plain_text_and_is_shown_as_digest() {
        let key = key(1);
        let redacted = redact(&key, "hunter2");
        assert!(is_same(&key, &redacted, "hunter2") && is_same(&key, "hunter2", &redacted));
        assert!(!is_same(&key, &redacted, "hunter3") && !is_same(&key, &redacted, &redact(&key, "hunter3")));
        assert!(display(&key, &redacted, false).text().starts_with(&format!("hmac:{}:", key.id())));
        assert_eq!(display(&key, &redacted, false), display(&key, "hunter2", true));
    }

    #[test]
    fn redaction_removes_every_scalar() {
        let mut value = json!({"a": ["hunter2", 7, true, null, ""], "b": {"c": "hunter2"}});
        redact_all(&key(1), &mut value);
        let text = value.to_string();
        assert!(!text.contains("hunter") && !text.contains("7,") && !text.contains("true"), "{text}");
    }

    #[test]
    fn digests_of_different_keys_differ() {
        let (one, other) = (key(1), key(2));
        assert!(!is_same(&one, &redact(&one, "hunter2"), &redact(&other, "hunter2")));
        let live = redact_bytes(&[one.clone(), other.clone()], b"hunter2");
        for key in [&one, &other] {
            assert!(is_same(key, &redact(key, "hunter2"), &live) && is_same(key, "hunter2", &live));
            assert!(!is_same(key, &redact(key, "hunter3"), &live));
            assert_eq!(display(key, &live, false), display(key, "hunter2", true));
            assert!(!has_unknown_key(key, &live));
        }
        assert!(has_unknown_key(&key(3), &live) && !has_unknown_key(&key(3), "hunter2"));
    }

    #[test]
    fn quantities_are_equal_in_any_notation_and_texts_are_not() {
        let (one, other) = (key(1), key(2));
        let live = redact_text(&[one.clone(), other.clone()], "1Gi");
        for key in [&one, &other] {
            for declared in ["1024Mi".to_owned(), redact(key, "1024Mi")] {
                assert!(is_same_quantity(key, &declared, &live) && is_same_quantity(key, &live, &declared));
                assert!(!is_same(key, &declared, &live));
            }
            for declared in
                ["1Mi".to_owned(), redact(key, "1Mi"), "x".to_owned(), redact(key, "x"), String::new()]
            {
                assert!(!is_same_quantity(key, &declared, &live), "{declared}");
            }
        }
        assert!(is_same_quantity(&one, "1Gi", "1024Mi") && !is_same_quantity(&key(3), "1024Mi", &live));
    }

    #[test]
    fn file_mode_equals_its_octal_digits() {
        let key = key(1);
        let mut mode = json!(420);
        redact_value(std::slice::from_ref(&key), &mut mode);
        let redacted = mode.as_str().unwrap();
        assert!(
            is_same(&key, "0644", redacted)
                && is_same(&key, "420", redacted)
                && !is_same(&key, "644", redacted)
        );
    }

    #[test]
    fn zero_and_false_are_absent_in_a_state_unless_they_are_list_elements() {
        let mut value = json!({"a": 0, "b": false, "c": [0, false], "d": [{"e": 0}]});
        redact_all(&key(1), &mut value);
        assert_eq!(
            (&value["a"], &value["b"], &value["d"][0]["e"]),
            (&Value::Null, &Value::Null, &Value::Null)
        );
        for (at, text) in ["0", "false"].iter().enumerate() {
            assert!(is_same(&key(1), text, value["c"][at].as_str().unwrap()));
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_equal_their_text_in_a_state() {
        let key = key(1);
        let redacted = redact_bytes(std::slice::from_ref(&key), b"a\xffb");
        assert!(is_same(&key, &redacted, "a\u{fffd}b") && !is_same(&key, &redacted, "ab"));
        let other = redact_bytes(std::slice::from_ref(&key), b"a\xfeb");
        assert!(is_same(&key, &redacted, &other) && !is_same_bytes(&key, &redacted, &other));
        assert!(is_same_bytes(&key, &redacted, &redacted) && !is_same_bytes(&key, &redacted, "a\u{fffd}b"));
    }

    #[test]
    fn digests_match_rfc_4231() {
        // Test case 2: HMAC pads its shorter key with zeros, as this key is.
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(b"Jefe");
        let redacted = redact(&RedactionKey::new(bytes), "what do ya want for nothing?");
        assert!(redacted.ends_with(":5bdcc146bf60754e6a042426089575c7"), "{redacted}");
        let plain =
            Hmac::<Sha256>::new_from_slice(b"Jefe").unwrap().chain_update("what do ya want for nothing?");
        assert_eq!(plain.finalize().into_bytes()[..4], [0x5b, 0xdc, 0xc1, 0x46]);
    }

    #[test]
    fn base64_ignores_line_breaks_and_trailing_bits() {
        for text in ["aHVudGVyMg==", "aHVudGVy\r\nMg==\n", "aHVudGVyMh=="] {
            assert_eq!(decode_base64(text).as_deref(), Some(&b"hunter2"[..]), "{text:?}");
        }
        assert_eq!(decode_base64(""), Some(Vec::new()));
        for text in ["aHVudGVyMg", "hunter 2", "ä"] {
            assert_eq!(decode_base64(text), None, "{text}");
        }
    }
}
