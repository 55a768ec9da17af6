//! Hash algorithms and SHA-256 digests.

use std::fmt;

use sha2::{Digest as _, Sha256};

use super::closed_sets::closed_set;

closed_set! {
    /// How the hash of an object is computed. The name is the prefix of a recorded hash.
    Algorithm {
        /// The annotation of tfdrift-operator: some fields of Deployments and Services.
        TfdriftV1 = "tfdrift-v1",
        /// SHA-256 of the RFC 8785 form of the canonical document; any kind.
        JcsV1 = "jcs-v1",
        /// The hash that opr8r records of the spec of a `SimpleResource`.
        Opr8rV1 = "opr8r-v1",
        /// SHA-256 of the RFC 8785 form of a part of the object, usually its spec.
        Sha256Jcs = "sha256-jcs",
    }
}

impl Algorithm {
    /// The recorded form of a hash: `<name>:<digest>`, and the digest alone for `tfdrift-v1`.
    pub fn record(self, digest: Digest) -> String {
        match self {
            Self::TfdriftV1 => digest.to_string(),
            Self::JcsV1 | Self::Opr8rV1 | Self::Sha256Jcs => format!("{self}:{digest}"),
        }
    }
}

/// A SHA-256 digest, written as lower-case hex.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Parses 64 hex digits of either case.
    pub fn parse(text: &str) -> Option<Self> {
        parse_hex(text).map(Self)
    }

    pub(super) fn first_bytes<const N: usize>(&self) -> [u8; N] {
        std::array::from_fn(|at| self.0[at])
    }
}

/// Parses the hex digits, of either case, of this many bytes.
pub(super) fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let text = text.as_bytes();
    if text.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = u8::try_from(high * 16 + low).ok()?;
    }
    Some(bytes)
}

/// Writes at most 32 bytes as lower-case hex.
pub(super) fn write_hex(bytes: &[u8], formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    let digit = |value: u8| b"0123456789abcdef"[usize::from(value & 15)];
    let mut text = [0; 64];
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&[digit(byte >> 4), digit(*byte)]);
    }
    formatter.write_str(std::str::from_utf8(&text[..2 * bytes.len()]).expect("hex digits are ASCII"))
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, formatter)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Digest({self})")
    }
}

/// The digest of one field's value. A rule accepts exactly one value by its digest without exposing the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ValueDigest(Digest);

const PREFIX: &str = "sha256:";

impl ValueDigest {
    /// The digest of a value in the form of [`super::Finding`].
    pub fn of(value: &str) -> Self {
        Self(Digest::of(&[b"drift-value-v1\0", value.as_bytes()].concat()))
    }

    /// The digest of null. No text has it.
    pub fn of_null() -> Self {
        Self(Digest::of(b"drift-value-v1-null"))
    }

    /// The digest of a string of two quotes, whose text in a rule is that of an empty string. No text has it.
    pub fn of_quotes() -> Self {
        Self(Digest::of(b"drift-value-v1-quotes"))
    }

    /// Parses `sha256:` and 64 hex digits. Returns none without the prefix, and an error if the prefix is not followed by a digest.
    pub fn parse(text: &str) -> Option<Result<Self, ValueDigestError>> {
        let digits = text.strip_prefix(PREFIX)?;
        Some(Digest::parse(digits).map(Self).ok_or(ValueDigestError::Malformed))
    }
}

/// The text is not the digest of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueDigestError {
    #[error("invalid digest; want sha256: and 64 hex digits")]
    Malformed,
}

impl fmt::Display for ValueDigest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{PREFIX}{}", self.0)
    }
}
