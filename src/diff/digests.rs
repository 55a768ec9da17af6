//! Redacted values: keyed digests that can be compared and not be read.
//!
//! A live object is redacted with the keys of all baselines that declare it, because the plain value is not kept. A text that may
//! be a quantity has digests of its amount too, so that `1Gi` and `1024Mi` stay equal where quantities are compared.

use std::{fmt, mem};

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{GeneralPurpose, GeneralPurposeConfig},
};
use serde_json::Number;
use zeroize::{Zeroize as _, Zeroizing};

use super::{
    quantity::Quantity,
    tree::{Node, Scalar},
};
use crate::types::{FieldValue, KeyedDigest, RedactionKey};

/// File modes are numbers in objects, and octal digits in Terraform states.
const MAX_FILE_MODE: i64 = 0o7777;

/// The digests of one redacted value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digests {
    /// For each key, those of all notations of the value. The first is that of the value itself.
    values: Box<[KeyedDigest]>,
    /// For each key, that of the amount. Empty unless the value may be a quantity.
    amounts: Box<[KeyedDigest]>,
}

/// Separates the digests of the amount in the text. Published baselines contain it.
const AMOUNTS: char = '\u{1}';

impl Digests {
    pub fn of_text(keys: &[RedactionKey], text: &str) -> Self {
        Self::new(keys, &[text.as_bytes()], canonical_amount(text).as_deref())
    }

    /// The digests of all notations of a value and of its amount.
    fn new(keys: &[RedactionKey], forms: &[&[u8]], amount: Option<&str>) -> Self {
        let values = keys.iter().flat_map(|key| forms.iter().map(|form| key.digest(form)));
        let amounts = amount.iter().flat_map(|amount| keys.iter().map(|key| key.digest(amount.as_bytes())));
        Self { values: values.collect(), amounts: amounts.collect() }
    }

    /// Bytes that are not UTF-8 have two digests: a state contains them as text with replacement characters.
    fn of_bytes(keys: &[RedactionKey], bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let forms = [bytes, text.as_bytes()];
        let count = if forms[0] == forms[1] { 1 } else { 2 };
        Self::new(keys, &forms[..count], None)
    }

    fn of_number(keys: &[RedactionKey], number: &Number) -> Self {
        let text = number.to_string();
        match number.as_i64().filter(|mode| (0..=MAX_FILE_MODE).contains(mode)) {
            Some(mode) => {
                let forms = [text.as_bytes(), &octal_mode(mode).into_bytes()];
                Self::new(keys, &forms, canonical_amount(&text).as_deref())
            }
            None => Self::of_text(keys, &text),
        }
    }

    /// All digests as text.
    pub fn to_text(&self) -> String {
        let join =
            |digests: &[KeyedDigest]| digests.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let mut text = join(&self.values);
        if !self.amounts.is_empty() {
            text.push(AMOUNTS);
            text.push_str(&join(&self.amounts));
        }
        text
    }

    /// The inverse of [`Self::to_text`].
    pub fn parse(text: &str) -> Option<Self> {
        let (values, amounts) = text.split_once(AMOUNTS).unwrap_or((text, ""));
        let parse = |text: &str| -> Option<Box<[KeyedDigest]>> {
            text.split(' ').filter(|digest| !digest.is_empty()).map(KeyedDigest::parse).collect()
        };
        let digests = Self { values: parse(values)?, amounts: parse(amounts)? };
        (!digests.values.is_empty()).then_some(digests)
    }

    /// The digest of the value itself with this key.
    fn with_key(&self, key: &RedactionKey) -> Option<KeyedDigest> {
        self.values.iter().find(|digest| digest.key() == key.id()).copied()
    }

    /// The redacted value in a finding: its digest with this key, or with any other.
    pub(super) fn shown(&self, key: &RedactionKey) -> FieldValue {
        let digest = self.with_key(key).or_else(|| self.values.first().copied());
        digest.map_or(FieldValue::Absent, FieldValue::Redacted)
    }
}

/// The first digest.
impl fmt::Display for Digests {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.values.first().map_or(Ok(()), |digest| digest.fmt(formatter))
    }
}

/// One text for all notations of a quantity. Its first character keeps it apart from plain texts. The digests in published
/// baselines are those of this text.
fn canonical_amount(text: &str) -> Option<String> {
    Quantity::parse(text).ok().map(|quantity| format!("\u{1}{}", quantity.nanos()))
}

/// A file mode as Terraform states contain it.
pub(super) fn octal_mode(mode: i64) -> String {
    format!("0{mode:o}")
}

/// Replaces every scalar in a value of a Terraform state by its digest. Empty scalars stay: they disclose nothing.
pub fn redact_all(key: &RedactionKey, value: &mut Node) {
    match value {
        Node::Object(members) => members.values_mut().for_each(|member| redact_all(key, member)),
        // An element of a list differs from an absent one even if it is zero or false.
        Node::Array(elements) => elements.iter_mut().for_each(|element| match element {
            Node::Object(_) | Node::Array(_) => redact_all(key, element),
            scalar => redact_value(std::slice::from_ref(key), scalar),
        }),
        // Zero and false equal an absent attribute in a state.
        Node::Bool(false) => *value = Node::Null,
        Node::Number(number) if number.as_f64() == Some(0.0) => *value = Node::Null,
        scalar => redact_value(std::slice::from_ref(key), scalar),
    }
}

/// Replaces every scalar in a value of an object by its digests with each key. Empty and redacted scalars stay.
pub fn redact_value(keys: &[RedactionKey], value: &mut Node) {
    let digests = match value {
        Node::Null | Node::Redacted(_) => return,
        Node::Array(elements) => return elements.iter_mut().for_each(|element| redact_value(keys, element)),
        Node::Object(members) => {
            return members.iter_mut().for_each(|(name, member)| redact_member(keys, name, member));
        }
        Node::String(text) if text.is_empty() => return,
        Node::String(text) => Digests::of_text(keys, text),
        Node::Bool(value) => Digests::of_text(keys, if *value { "true" } else { "false" }),
        Node::Number(number) => Digests::of_number(keys, number),
    };
    replace(value, digests);
}

/// Replaces a plain value, and overwrites it in memory.
fn replace(value: &mut Node, digests: Digests) {
    if let Node::String(mut plain) = mem::replace(value, Node::Redacted(digests.into())) {
        plain.zeroize();
    }
}

/// Redacts the strings in a value that look like digests.
pub(super) fn redact_imitations(key: &RedactionKey, value: &mut Node) {
    match value {
        Node::Array(elements) => elements.iter_mut().for_each(|element| redact_imitations(key, element)),
        Node::Object(members) => members.values_mut().for_each(|member| redact_imitations(key, member)),
        Node::String(text) if KeyedDigest::looks_like(text) => {
            redact_value(std::slice::from_ref(key), value);
        }
        Node::Null | Node::Bool(_) | Node::Number(_) | Node::String(_) | Node::Redacted(_) => {}
    }
}

/// Redacts the member of this name. A certificate is base64 in objects and plain text in states, so it has the digests of
/// both.
pub(super) fn redact_member(keys: &[RedactionKey], name: &str, value: &mut Node) {
    if let ("caBundle", Node::String(text)) = (name, &*value)
        && let Some(bytes) = decode_base64(text)
    {
        let decoded = String::from_utf8_lossy(&bytes);
        let digests = Digests::new(keys, &[text.as_bytes(), decoded.as_bytes()], None);
        replace(value, digests);
    } else {
        redact_value(keys, value);
    }
}

/// Replaces a base64 text by the digests of its bytes.
pub(super) fn redact_base64(keys: &[RedactionKey], value: &mut Node) {
    if let Node::String(text) = &*value
        && let Some(bytes) = decode_base64(text)
    {
        let bytes = Zeroizing::new(bytes);
        if bytes.is_empty() {
            *value = Node::String(String::new());
        } else {
            replace(value, Digests::of_bytes(keys, &bytes));
        }
    } else {
        redact_value(keys, value);
    }
}

/// Whether a scalar is redacted with other keys only, so that it cannot be compared.
pub(super) fn has_unknown_key(key: &RedactionKey, scalar: &Scalar<'_>) -> bool {
    matches!(scalar, Scalar::Redacted(digests) if digests.with_key(key).is_none())
}

/// Whether two scalars, plain or redacted, are the same.
pub(super) fn is_same(key: &RedactionKey, one: &Scalar<'_>, other: &Scalar<'_>) -> bool {
    match (one, other) {
        (Scalar::Text(one), Scalar::Text(other)) => one == other,
        (Scalar::Redacted(digests), Scalar::Text(text)) | (Scalar::Text(text), Scalar::Redacted(digests)) => {
            digests.values.contains(&key.digest(text.as_bytes()))
        }
        (Scalar::Redacted(one), Scalar::Redacted(other)) => share_digest(&one.values, &other.values),
    }
}

/// Whether two scalars, plain or redacted, are the same quantity; `false` unless both are quantities.
pub(super) fn is_same_quantity(key: &RedactionKey, one: &Scalar<'_>, other: &Scalar<'_>) -> bool {
    match (one, other) {
        (Scalar::Text(one), Scalar::Text(other)) => Quantity::are_same(one, other),
        (Scalar::Redacted(digests), Scalar::Text(text)) | (Scalar::Text(text), Scalar::Redacted(digests)) => {
            canonical_amount(text)
                .is_some_and(|amount| digests.amounts.contains(&key.digest(amount.as_bytes())))
        }
        (Scalar::Redacted(one), Scalar::Redacted(other)) => share_digest(&one.amounts, &other.amounts),
    }
}

/// Whether two scalars are the same bytes. Bytes that are not UTF-8 may be [the same](is_same) in a state and still differ here.
pub(super) fn is_same_bytes(key: &RedactionKey, one: &Scalar<'_>, other: &Scalar<'_>) -> bool {
    match (one, other) {
        (Scalar::Text(one), Scalar::Text(other)) => one == other,
        (Scalar::Redacted(digests), Scalar::Text(text)) | (Scalar::Text(text), Scalar::Redacted(digests)) => {
            digests.with_key(key) == Some(key.digest(text.as_bytes()))
        }
        (Scalar::Redacted(one), Scalar::Redacted(other)) => {
            one == other || one.with_key(key).is_some_and(|digest| other.with_key(key) == Some(digest))
        }
    }
}

fn share_digest(some: &[KeyedDigest], others: &[KeyedDigest]) -> bool {
    some.iter().any(|digest| others.contains(digest))
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
    use serde_json::json;
    use sha2::Sha256;

    use super::{
        Digests, Node, RedactionKey, Scalar, decode_base64, has_unknown_key, is_same, is_same_bytes,
        is_same_quantity, redact_all, redact_value,
    };
    use crate::types::FieldValue;

    fn key(number: u8) -> RedactionKey {
        RedactionKey::new([number; 32])
    }

    fn redact(key: &RedactionKey, text: &str) -> Digests {
        Digests::of_text(std::slice::from_ref(key), text)
    }

    fn redacted(digests: &Digests) -> Scalar<'_> {
        Scalar::Redacted(digests)
    }

    #[test]
    fn redacted_value_equals_its_plain_text_and_is_shown_as_digest() {
        let key = key(1);
        let (digests, other) = (redact(&key, "hunter2"), redact(&key, "hunter3"));
        let (one, plain) = (redacted(&digests), Scalar::from("hunter2"));
        assert!(is_same(&key, &one, &plain) && is_same(&key, &plain, &one));
        assert!(!is_same(&key, &one, &"hunter3".into()) && !is_same(&key, &one, &redacted(&other)));
        assert_eq!(digests.shown(&key), FieldValue::Redacted(key.digest(b"hunter2")));
    }

    #[test]
    fn text_of_digests_is_plain() {
        let key = key(1);
        let digests = redact(&key, "hunter2");
        for forged in [digests.to_text(), format!("\u{1}{}", digests.to_text()), digests.to_string()] {
            let forged = Scalar::from(&*forged);
            for same in [is_same, is_same_bytes, is_same_quantity] {
                assert!(!same(&key, &forged, &redacted(&digests)) && !same(&key, &forged, &"hunter2".into()));
            }
            assert!(!has_unknown_key(&RedactionKey::new([3; 32]), &forged));
        }
        assert_eq!(Digests::parse(&digests.to_text()).as_ref(), Some(&digests));
        assert_eq!(["", "hmac:", "hunter2", "\u{1}"].map(Digests::parse), [None, None, None, None]);
    }

    #[test]
    fn redaction_removes_every_scalar() {
        let mut value = Node::from(json!({"a": ["hunter2", 7, true, null, ""], "b": {"c": "hunter2"}}));
        redact_all(&key(1), &mut value);
        let text = value.to_string();
        assert!(!text.contains("hunter") && !text.contains("7,") && !text.contains("true"), "{text}");
    }

    #[test]
    fn digests_of_different_keys_differ() {
        let (one, other) = (key(1), key(2));
        assert!(!is_same(&one, &redacted(&redact(&one, "hunter2")), &redacted(&redact(&other, "hunter2"))));
        let live = Digests::of_bytes(&[one.clone(), other.clone()], b"hunter2");
        for key in [&one, &other] {
            let scalar = redacted(&live);
            assert!(is_same(key, &redacted(&redact(key, "hunter2")), &scalar));
            assert!(is_same(key, &"hunter2".into(), &scalar));
            assert!(!is_same(key, &redacted(&redact(key, "hunter3")), &scalar));
            assert_eq!(live.shown(key), FieldValue::Redacted(key.digest(b"hunter2")));
            assert!(!has_unknown_key(key, &scalar));
        }
        assert!(has_unknown_key(&key(3), &redacted(&live)) && !has_unknown_key(&key(3), &"hunter2".into()));
        assert_eq!(live.shown(&key(3)), FieldValue::Redacted(one.digest(b"hunter2")));
    }

    #[test]
    fn quantities_are_equal_in_any_notation_and_texts_are_not() {
        let (one, other) = (key(1), key(2));
        let live = Digests::of_text(&[one.clone(), other.clone()], "1Gi");
        let live = redacted(&live);
        for key in [&one, &other] {
            let [same, less, text] = ["1024Mi", "1Mi", "x"].map(|text| redact(key, text));
            for declared in ["1024Mi".into(), redacted(&same)] {
                assert!(is_same_quantity(key, &declared, &live) && is_same_quantity(key, &live, &declared));
                assert!(!is_same(key, &declared, &live));
            }
            for declared in ["1Mi".into(), redacted(&less), "x".into(), redacted(&text), "".into()] {
                assert!(!is_same_quantity(key, &declared, &live), "{declared:?}");
            }
        }
        assert!(is_same_quantity(&one, &"1Gi".into(), &"1024Mi".into()));
        assert!(!is_same_quantity(&key(3), &"1024Mi".into(), &live));
    }

    #[test]
    fn file_mode_equals_its_octal_digits() {
        let key = key(1);
        let mut mode = Node::from(json!(420));
        redact_value(std::slice::from_ref(&key), &mut mode);
        for (text, same) in [("0644", true), ("420", true), ("644", false)] {
            assert_eq!(is_same(&key, &text.into(), &mode.scalar()), same, "{text}");
        }
    }

    #[test]
    fn zero_and_false_are_absent_in_a_state_unless_they_are_list_elements() {
        let mut value = Node::from(json!({"a": 0, "b": false, "c": [0, false], "d": [{"e": 0}]}));
        redact_all(&key(1), &mut value);
        assert_eq!((&value["a"], &value["b"], &value["d"][0]["e"]), (&Node::Null, &Node::Null, &Node::Null));
        for (at, text) in ["0", "false"].into_iter().enumerate() {
            assert!(value["c"][at].scalar().is_redacted());
            assert!(is_same(&key(1), &text.into(), &value["c"][at].scalar()));
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_equal_their_text_in_a_state() {
        let key = key(1);
        let [one, other] =
            [b"a\xffb", b"a\xfeb"].map(|bytes| Digests::of_bytes(std::slice::from_ref(&key), bytes));
        let (one, other) = (redacted(&one), redacted(&other));
        let lossy = Scalar::from("a\u{fffd}b");
        assert!(is_same(&key, &one, &lossy) && !is_same(&key, &one, &"ab".into()));
        assert!(is_same(&key, &one, &other) && !is_same_bytes(&key, &one, &other));
        assert!(is_same_bytes(&key, &one, &one) && !is_same_bytes(&key, &one, &lossy));
    }

    #[test]
    fn digests_match_rfc_4231() {
        // Test case 2: HMAC pads its shorter key with zeros, as this key is.
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(b"Jefe");
        let redacted = redact(&RedactionKey::new(bytes), "what do ya want for nothing?").to_text();
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
