//! Bytes in objects, which are base64 there.

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{GeneralPurpose, GeneralPurposeConfig},
};

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
    use super::decode;

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
