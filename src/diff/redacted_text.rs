//! Values that may be compared and never told.
//!
//! A sealed text is a mark and its digests with blanks between them: live objects are sealed with the keys of all baselines that
//! declare them, since nobody keeps what they were sealed from. Of what may be an amount there are, after another mark, digests
//! of how much it is as well, so that `1Gi` and `1024Mi` stay the same where amounts are compared.
//!
//! Bytes in objects, which are base64 there.

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{GeneralPurpose, GeneralPurposeConfig},
};
use serde_json::{Number, Value};

use super::quantity::Quantity;
use crate::types::{FieldPath, RedactionKey, Segment};

/// What sealed texts begin with.
const MARK: char = '\u{1}';

/// Modes of files are numbers in objects, and octal digits in states.
const LARGEST_MODE: i64 = 0o7777;

/// A text as its digest alone.
pub fn seal(key: &RedactionKey, text: &str) -> String {
    seal_text(std::slice::from_ref(key), text)
}

/// Replaces every scalar in a value of a state by its digest. Empty ones stay: they tell nothing.
pub fn seal_all(key: &RedactionKey, value: &mut Value) {
    match value {
        Value::Object(members) => members.values_mut().for_each(|member| seal_all(key, member)),
        // Elements of a list count whatever they are.
        Value::Array(elements) => elements.iter_mut().for_each(|element| match element {
            Value::Object(_) | Value::Array(_) => seal_all(key, element),
            scalar => seal_with(std::slice::from_ref(key), scalar),
        }),
        // Zero and false are the same as absent, in states.
        Value::Bool(false) => *value = Value::Null,
        Value::Number(number) if number.as_f64() == Some(0.0) => *value = Value::Null,
        scalar => seal_with(std::slice::from_ref(key), scalar),
    }
}

/// Replaces every scalar in a value of an object by its digests under each key. Empty ones stay.
pub(super) fn seal_with(keys: &[RedactionKey], value: &mut Value) {
    match value {
        Value::Null => {}
        Value::Array(elements) => elements.iter_mut().for_each(|element| seal_with(keys, element)),
        Value::Object(members) => {
            members.iter_mut().for_each(|(name, member)| seal_member(keys, name, member));
        }
        Value::String(text) => {
            if !text.is_empty() && !is_sealed(text) {
                *text = seal_text(keys, text);
            }
        }
        Value::Bool(_) => *value = seal_text(keys, &value.to_string()).into(),
        Value::Number(number) => *value = seal_number(keys, number).into(),
    }
}

/// The same for the member of this name. Certificates are base64 in objects and texts in states, so these have the digests
/// of both.
pub(super) fn seal_member(keys: &[RedactionKey], name: &str, value: &mut Value) {
    if let ("caBundle", Value::String(text)) = (name, &mut *value)
        && !is_sealed(text)
        && let Some(bytes) = decode(text)
    {
        *text = written(keys, &[text.as_bytes(), String::from_utf8_lossy(&bytes).as_bytes()], None);
    } else {
        seal_with(keys, value);
    }
}

/// Replaces a base64 text by the digests of the bytes that it stands for.
pub(super) fn seal_encoded(keys: &[RedactionKey], value: &mut Value) {
    if let Value::String(text) = value
        && !is_sealed(text)
        && let Some(bytes) = decode(text)
    {
        *text = if bytes.is_empty() { String::new() } else { seal_bytes(keys, &bytes) };
    } else {
        seal_with(keys, value);
    }
}

/// Bytes as their digests under each key alone.
///
/// A state has texts: of bytes that are none it has what is left when all else was replaced. So these have both digests.
fn seal_bytes(keys: &[RedactionKey], bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let forms = [bytes, text.as_bytes()];
    let count = if forms[0] == forms[1] { 1 } else { 2 };
    written(keys, &forms[..count], None)
}

/// A text as its digests under each key alone.
pub(super) fn seal_text(keys: &[RedactionKey], text: &str) -> String {
    written(keys, &[text.as_bytes()], amount(text))
}

fn seal_number(keys: &[RedactionKey], number: &Number) -> String {
    let text = number.to_string();
    match number.as_i64().filter(|mode| (0..=LARGEST_MODE).contains(mode)) {
        Some(mode) => written(keys, &[text.as_bytes(), octal(mode).as_bytes()], amount(&text)),
        None => seal_text(keys, &text),
    }
}

/// The digests of all forms of a value, and that of the amount that it is.
fn written(keys: &[RedactionKey], forms: &[&[u8]], amount: Option<String>) -> String {
    let digests = keys.iter().flat_map(|key| forms.iter().map(|form| key.digest(form)));
    let mut sealed = format!("{MARK}{}", digests.collect::<Vec<_>>().join(" "));
    if let Some(amount) = amount {
        let digests: Vec<String> = keys.iter().map(|key| key.digest(amount.as_bytes())).collect();
        sealed.push(MARK);
        sealed.push_str(&digests.join(" "));
    }
    sealed
}

/// How much a text is, where it is an amount, however it is written. No text is spelled so.
fn amount(text: &str) -> Option<String> {
    Quantity::parse(text).ok().map(|quantity| format!("{MARK}{}", quantity.nanos()))
}

/// The mode of a file as states have it.
pub(super) fn octal(mode: i64) -> String {
    format!("0{mode:o}")
}

/// Whether a text is sealed.
pub fn is_sealed(text: &str) -> bool {
    text.starts_with(MARK) && digests(text).next().is_some_and(RedactionKey::is_digest)
}

/// Whether a text is sealed, and not with this key: nothing can be said about it.
pub(super) fn is_of_another_key(key: &RedactionKey, text: &str) -> bool {
    is_sealed(text) && digest_of(key, text).is_none()
}

/// A text as it may be shown: the digest where it is sealed, or has to be.
pub(super) fn shown(key: &RedactionKey, text: &str, sealed: bool) -> Box<str> {
    if is_sealed(text) {
        digest_of(key, text).unwrap_or("sealed").into()
    } else if sealed && !text.is_empty() {
        key.digest(text.as_bytes()).into()
    } else {
        text.into()
    }
}

/// A path as it may be shown: elements of lists may be known by what is sealed.
pub(super) fn shown_path(key: &RedactionKey, path: &FieldPath) -> FieldPath {
    let shown = |segment: &Segment| match segment {
        Segment::Element(keys) => Segment::Element(
            keys.iter().map(|(name, value)| (name.clone(), shown(key, value, false))).collect(),
        ),
        Segment::Value(value) => Segment::Value(shown(key, value, false)),
        Segment::Field(_) | Segment::Index(_) => segment.clone(),
    };
    FieldPath::new(path.segments().iter().map(shown).collect())
}

/// Whether two texts are the same, sealed or not.
pub(super) fn is_same(key: &RedactionKey, one: &str, other: &str) -> bool {
    one == other
        || match (is_sealed(one), is_sealed(other)) {
            (true, false) => digests(one).any(|own| own == key.digest(other.as_bytes())),
            (false, true) => is_same(key, other, one),
            (true, true) => have_common(digests(one), || digests(other)),
            (false, false) => false,
        }
}

/// Whether two texts are the same amount, sealed or not; not so if one of them is none.
pub(super) fn is_same_amount(key: &RedactionKey, one: &str, other: &str) -> bool {
    match (is_sealed(one), is_sealed(other)) {
        (true, false) => amount(other).is_some_and(|other| {
            let digest = key.digest(other.as_bytes());
            amounts(one).any(|own| own == digest)
        }),
        (false, true) => is_same_amount(key, other, one),
        (true, true) => have_common(amounts(one), || amounts(other)),
        (false, false) => Quantity::are_same(one, other),
    }
}

/// Whether two texts are the same to the byte. Bytes that are no text may be the same by what a state has of them, and not
/// by this.
pub(super) fn is_exactly(key: &RedactionKey, one: &str, other: &str) -> bool {
    one == other
        || match (is_sealed(one), is_sealed(other)) {
            (true, true) => digest_of(key, one).is_some_and(|digest| digest_of(key, other) == Some(digest)),
            (true, false) => digest_of(key, one) == Some(&key.digest(other.as_bytes())),
            (false, true) => is_exactly(key, other, one),
            (false, false) => false,
        }
}

fn have_common<'a, I: Iterator<Item = &'a str>>(
    mut some: impl Iterator<Item = &'a str>,
    others: impl Fn() -> I,
) -> bool {
    some.any(|digest| others().any(|other| other == digest))
}

/// The digests of a sealed text.
fn digests(sealed: &str) -> impl Iterator<Item = &str> {
    part(sealed, 1)
}

/// The digests of how much it is.
fn amounts(sealed: &str) -> impl Iterator<Item = &str> {
    part(sealed, 2)
}

fn part(sealed: &str, number: usize) -> impl Iterator<Item = &str> {
    sealed.split(MARK).nth(number).unwrap_or_default().split(' ').filter(|digest| !digest.is_empty())
}

/// The digest of the value itself, which is the first of each key.
fn digest_of<'a>(key: &RedactionKey, sealed: &'a str) -> Option<&'a str> {
    digests(sealed).find(|digest| digest.split(':').nth(1) == Some(key.id()))
}

/// Go takes bits that stand for nothing.
const READER: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// The bytes that a text stands for, as the API server reads it: ends of lines do not count. None where it is no base64.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    if text.contains(['\n', '\r']) {
        return READER.decode(text.replace(['\n', '\r'], "")).ok();
    }
    READER.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use hmac::{Hmac, KeyInit as _, Mac as _};
    use serde_json::{Value, json};
    use sha2::Sha256;

    use super::{
        decode, is_exactly, is_of_another_key, is_same, is_same_amount, seal, seal_all, seal_bytes,
        seal_text, seal_with, shown,
    };
    use crate::types::RedactionKey;

    fn key(number: u8) -> RedactionKey {
        RedactionKey::new([number; 32])
    }

    #[test]
    fn a_sealed_text_is_recognised_and_never_shown() {
        let key = key(1);
        let sealed = seal(&key, "hunter2");
        assert!(is_same(&key, &sealed, "hunter2") && is_same(&key, "hunter2", &sealed));
        assert!(!is_same(&key, &sealed, "hunter3") && !is_same(&key, &sealed, &seal(&key, "hunter3")));
        assert!(shown(&key, &sealed, false).starts_with(&format!("hmac:{}:", key.id())));
        assert_eq!(shown(&key, &sealed, false), shown(&key, "hunter2", true));
    }

    #[test]
    fn nothing_of_a_sealed_value_is_left() {
        let mut value = json!({"a": ["hunter2", 7, true, null, ""], "b": {"c": "hunter2"}});
        seal_all(&key(1), &mut value);
        let text = value.to_string();
        assert!(!text.contains("hunter") && !text.contains("7,") && !text.contains("true"), "{text}");
    }

    #[test]
    fn digests_of_different_keys_are_never_the_same() {
        let (one, other) = (key(1), key(2));
        assert!(!is_same(&one, &seal(&one, "hunter2"), &seal(&other, "hunter2")));
        let live = seal_bytes(&[one.clone(), other.clone()], b"hunter2");
        for key in [&one, &other] {
            assert!(is_same(key, &seal(key, "hunter2"), &live) && is_same(key, "hunter2", &live));
            assert!(!is_same(key, &seal(key, "hunter3"), &live));
            assert_eq!(shown(key, &live, false), shown(key, "hunter2", true));
            assert!(!is_of_another_key(key, &live));
        }
        assert!(is_of_another_key(&key(3), &live) && !is_of_another_key(&key(3), "hunter2"));
        assert_eq!(&*shown(&key(3), &live, false), "sealed");
    }

    #[test]
    fn amounts_are_the_same_however_they_are_written_and_texts_are_not() {
        let (one, other) = (key(1), key(2));
        let live = seal_text(&[one.clone(), other.clone()], "1Gi");
        for key in [&one, &other] {
            for declared in ["1024Mi".to_owned(), seal(key, "1024Mi")] {
                assert!(is_same_amount(key, &declared, &live) && is_same_amount(key, &live, &declared));
                assert!(!is_same(key, &declared, &live));
            }
            for declared in
                ["1Mi".to_owned(), seal(key, "1Mi"), "x".to_owned(), seal(key, "x"), String::new()]
            {
                assert!(!is_same_amount(key, &declared, &live), "{declared}");
            }
        }
        assert!(is_same_amount(&one, "1Gi", "1024Mi") && !is_same_amount(&key(3), "1024Mi", &live));
    }

    #[test]
    fn a_mode_is_known_by_its_octal_digits() {
        let key = key(1);
        let mut mode = json!(420);
        seal_with(std::slice::from_ref(&key), &mut mode);
        let sealed = mode.as_str().unwrap();
        assert!(
            is_same(&key, "0644", sealed) && is_same(&key, "420", sealed) && !is_same(&key, "644", sealed)
        );
    }

    #[test]
    fn zero_and_false_are_absent_in_a_state_and_elements_of_lists_count() {
        let mut value = json!({"a": 0, "b": false, "c": [0, false], "d": [{"e": 0}]});
        seal_all(&key(1), &mut value);
        assert_eq!(
            (&value["a"], &value["b"], &value["d"][0]["e"]),
            (&Value::Null, &Value::Null, &Value::Null)
        );
        for (at, text) in ["0", "false"].iter().enumerate() {
            assert!(is_same(&key(1), text, value["c"][at].as_str().unwrap()));
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_known_by_what_a_state_makes_of_them() {
        let key = key(1);
        let sealed = seal_bytes(std::slice::from_ref(&key), b"a\xffb");
        assert!(is_same(&key, &sealed, "a\u{fffd}b") && !is_same(&key, &sealed, "ab"));
        let other = seal_bytes(std::slice::from_ref(&key), b"a\xfeb");
        assert!(is_same(&key, &sealed, &other) && !is_exactly(&key, &sealed, &other));
        assert!(is_exactly(&key, &sealed, &sealed) && !is_exactly(&key, &sealed, "a\u{fffd}b"));
    }

    #[test]
    fn the_digests_are_those_of_rfc_4231() {
        // Test case 2: the key is shorter than the 32 bytes of ours, and padded with zeros as HMAC does it itself.
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(b"Jefe");
        let sealed = seal(&RedactionKey::new(bytes), "what do ya want for nothing?");
        assert!(sealed.ends_with(":5bdcc146bf60754e6a042426089575c7"), "{sealed}");
        let plain =
            Hmac::<Sha256>::new_from_slice(b"Jefe").unwrap().chain_update("what do ya want for nothing?");
        assert_eq!(plain.finalize().into_bytes()[..4], [0x5b, 0xdc, 0xc1, 0x46]);
    }

    #[test]
    fn ends_of_lines_and_bits_that_are_left_over_do_not_count() {
        for text in ["aHVudGVyMg==", "aHVudGVy\r\nMg==\n", "aHVudGVyMh=="] {
            assert_eq!(decode(text).as_deref(), Some(&b"hunter2"[..]), "{text:?}");
        }
        assert_eq!(decode(""), Some(Vec::new()));
        for text in ["aHVudGVyMg", "hunter 2", "ä"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
