//! Values that may be compared and never told.
//!
//! A sealed text is a mark and one digest, or several with blanks between them: live objects are sealed with the keys of all
//! baselines, since nobody keeps what they were sealed from.

use serde_json::Value;

use super::encoded::decode;
use crate::model::SealKey;

/// No text of Kubernetes begins with this.
const MARK: char = '\u{1}';

/// A text as its digest alone.
pub fn seal(key: &SealKey, text: &str) -> String {
    seal_bytes(std::slice::from_ref(key), text.as_bytes())
}

/// Bytes as their digests under each key alone.
///
/// A state has texts: of bytes that are none it has what is left when all else was replaced. So these have both digests.
pub(super) fn seal_bytes(keys: &[SealKey], bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut digests: Vec<String> = Vec::new();
    for key in keys {
        digests.push(key.digest(bytes));
        if text.as_bytes() != bytes {
            digests.push(key.digest(text.as_bytes()));
        }
    }
    format!("{MARK}{}", digests.join(" "))
}

/// Replaces every scalar in a value by its digest. Empty ones stay: they tell nothing.
pub fn seal_all(key: &SealKey, value: &mut Value) {
    seal_with(std::slice::from_ref(key), value);
}

/// The same with digests under each key.
pub(super) fn seal_with(keys: &[SealKey], value: &mut Value) {
    match value {
        Value::Null => {}
        Value::Array(elements) => elements.iter_mut().for_each(|element| seal_with(keys, element)),
        Value::Object(members) => members.values_mut().for_each(|member| seal_with(keys, member)),
        Value::String(text) => {
            if !text.is_empty() && !is_sealed(text) {
                *text = seal_bytes(keys, text.as_bytes());
            }
        }
        // Zero and false are the same as absent, in states.
        Value::Bool(false) => *value = Value::Null,
        Value::Number(number) if number.as_f64() == Some(0.0) => *value = Value::Null,
        Value::Bool(true) | Value::Number(_) => {
            *value = seal_bytes(keys, value.to_string().as_bytes()).into();
        }
    }
}

/// Replaces a base64 text by the digests of the bytes that it stands for.
pub(super) fn seal_encoded(keys: &[SealKey], value: &mut Value) {
    if let Value::String(text) = value
        && !is_sealed(text)
        && let Some(bytes) = decode(text)
    {
        *text = if bytes.is_empty() { String::new() } else { seal_bytes(keys, &bytes) };
    } else {
        seal_with(keys, value);
    }
}

/// Whether a text is sealed.
pub fn is_sealed(text: &str) -> bool {
    text.starts_with(MARK)
}

/// Whether a text is sealed, and not with this key: nothing can be said about it.
pub(super) fn is_of_another_key(key: &SealKey, text: &str) -> bool {
    is_sealed(text) && digest_of(key, text).is_none()
}

/// A text as it may be shown: the digest where it is sealed, or has to be.
pub(super) fn shown(key: &SealKey, text: &str, sealed: bool) -> Box<str> {
    if is_sealed(text) {
        digest_of(key, text).unwrap_or("sealed").into()
    } else if sealed && !text.is_empty() {
        key.digest(text.as_bytes()).into()
    } else {
        text.into()
    }
}

/// Whether two texts are the same, sealed or not.
pub(super) fn is_same(key: &SealKey, one: &str, other: &str) -> bool {
    one == other
        || match (is_sealed(one), is_sealed(other)) {
            (true, false) => has(one, &key.digest(other.as_bytes())),
            (false, true) => has(other, &key.digest(one.as_bytes())),
            (true, true) => digests(one).any(|digest| has(other, digest)),
            (false, false) => false,
        }
}

/// Whether two texts are the same to the byte. Bytes that are no text may be the same by what a state has of them, and not
/// by this.
pub(super) fn is_exactly(key: &SealKey, one: &str, other: &str) -> bool {
    one == other
        || match (is_sealed(one), is_sealed(other)) {
            (true, true) => digest_of(key, one).is_some_and(|digest| digest_of(key, other) == Some(digest)),
            (true, false) => digest_of(key, one) == Some(&key.digest(other.as_bytes())),
            (false, true) => is_exactly(key, other, one),
            (false, false) => false,
        }
}

fn digests(sealed: &str) -> impl Iterator<Item = &str> {
    sealed.trim_start_matches(MARK).split(' ').filter(|digest| !digest.is_empty())
}

fn has(sealed: &str, digest: &str) -> bool {
    digests(sealed).any(|own| own == digest)
}

/// The digest of the value itself, which is the first of each key.
fn digest_of<'a>(key: &SealKey, sealed: &'a str) -> Option<&'a str> {
    digests(sealed).find(|digest| digest.split(':').nth(1) == Some(key.id()))
}

#[cfg(test)]
mod tests {
    use hmac::{Hmac, KeyInit as _, Mac as _};
    use serde_json::json;
    use sha2::Sha256;

    use super::{is_exactly, is_of_another_key, is_same, seal, seal_all, seal_bytes, shown};
    use crate::model::SealKey;

    fn key(number: u8) -> SealKey {
        SealKey::new([number; 32])
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
        let sealed = seal(&SealKey::new(bytes), "what do ya want for nothing?");
        assert!(sealed.ends_with(":5bdcc146bf60754e6a042426089575c7"), "{sealed}");
        let plain =
            Hmac::<Sha256>::new_from_slice(b"Jefe").unwrap().chain_update("what do ya want for nothing?");
        assert_eq!(plain.finalize().into_bytes()[..4], [0x5b, 0xdc, 0xc1, 0x46]);
    }
}
