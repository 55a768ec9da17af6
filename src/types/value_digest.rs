//! A value that can be recognised without being written down.

use std::fmt;

use super::Digest;

/// The digest of one field's value. It lets a rule pin the one value it accepts without telling what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ValueDigest(Digest);

const PREFIX: &str = "sha256:";

impl ValueDigest {
    /// The digest of a value as [`super::Finding`] writes it.
    pub fn of(value: &str) -> Self {
        Self(Digest::of(&[b"drift-value-v1\0", value.as_bytes()].concat()))
    }

    /// Reads `sha256:` and 64 hex digits. None for a text that is no digest and does not look like one; an error for
    /// one that does.
    pub fn parse(text: &str) -> Option<Result<Self, &'static str>> {
        let digits = text.strip_prefix(PREFIX)?;
        Some(Digest::parse(digits).map(Self).ok_or("64 hex digits have to follow sha256:"))
    }
}

/// `sha256:` and 64 hex digits.
impl fmt::Display for ValueDigest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{PREFIX}{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::ValueDigest;

    #[test]
    fn a_digest_is_read_back_from_its_own_text() {
        let digest = ValueDigest::of("nginx:1.27");
        assert_eq!(ValueDigest::parse(&digest.to_string()), Some(Ok(digest)));
        assert_eq!(ValueDigest::parse("nginx:1.27"), None);
        assert!(ValueDigest::parse("sha256:1234").unwrap().is_err());
    }

    #[test]
    fn the_digest_of_a_value_is_what_a_shell_can_compute() {
        // printf 'drift-value-v1\0%s' 0 | sha256sum
        let expected = "sha256:c016db219c5d9d7f686a1c3d269bab8879c884bc49e2e86ab1fd2841c46f65ee";
        assert_eq!(ValueDigest::of("0").to_string(), expected);
    }
}
