//! The key of digests of values that may be compared and never told.

use std::{fmt, sync::Arc};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::Digest;

/// What digests begin with.
const PREFIX: &str = "hmac:";

/// A secret that digests are made with, so that a short value cannot be guessed from its digest.
#[derive(Clone, PartialEq, Eq)]
pub struct RedactionKey(Arc<Key>);

struct Key {
    bytes: [u8; 32],
    id: Box<str>,
    /// What every digest begins with: the key, taken in.
    begun: Hmac<Sha256>,
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Key {}

impl RedactionKey {
    /// This key.
    pub fn new(bytes: [u8; 32]) -> Self {
        let id = Digest::of(&bytes).to_string().chars().take(8).collect::<String>();
        // HMAC fills keys up with zeros to the size of a block.
        let mut block = [0; 64];
        block[..32].copy_from_slice(&bytes);
        Self(Arc::new(Key { bytes, id: id.into(), begun: Hmac::new(&block.into()) }))
    }

    /// The bytes, for whoever makes digests or writes a baseline down.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0.bytes
    }

    /// Eight hex digits by which digests of this key are told from those of another. They tell nothing of the key.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// The digest of a value: `hmac:`, the key's id and 32 hex digits.
    pub fn digest(&self, value: &[u8]) -> String {
        let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('0');
        let mut digest = String::with_capacity(PREFIX.len() + self.id().len() + 1 + 32);
        digest.extend([PREFIX, self.id(), ":"]);
        digest.extend(self.mac(value)[..16].iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
        digest
    }

    /// A short digest, to tell whether something is as it was.
    pub fn short_digest(&self, value: &[u8]) -> u64 {
        self.mac(value).iter().take(8).fold(0, |digest, byte| digest << 8 | u64::from(*byte))
    }

    fn mac(&self, value: &[u8]) -> [u8; 32] {
        self.0.begun.clone().chain_update(value).finalize().into_bytes().into()
    }

    /// Whether a text looks like a digest of whatever key.
    pub fn is_digest(text: &str) -> bool {
        let parts = text.strip_prefix(PREFIX).and_then(|rest| rest.split_once(':'));
        let is_hex =
            |text: &str, length| text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        parts.is_some_and(|(id, digits)| is_hex(id, 8) && is_hex(digits, 32))
    }
}

/// Tells nothing.
impl fmt::Debug for RedactionKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SealKey(..)")
    }
}
