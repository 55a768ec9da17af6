//! The key of digests of values that may be compared and never told.

use std::{fmt, sync::Arc};

use super::Digest;

/// A secret that digests are made with, so that a short value cannot be guessed from its digest.
#[derive(Clone, PartialEq, Eq)]
pub struct SealKey(Arc<Key>);

#[derive(PartialEq, Eq)]
struct Key {
    bytes: [u8; 32],
    id: Box<str>,
}

impl SealKey {
    /// This key.
    pub fn new(bytes: [u8; 32]) -> Self {
        let id = Digest::of(&bytes).to_string().chars().take(8).collect::<String>();
        Self(Arc::new(Key { bytes, id: id.into() }))
    }

    /// The bytes, for whoever makes digests or writes a baseline down.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0.bytes
    }

    /// Eight hex digits by which digests of this key are told from those of another. They tell nothing of the key.
    pub fn id(&self) -> &str {
        &self.0.id
    }
}

/// Tells nothing.
impl fmt::Debug for SealKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SealKey(..)")
    }
}
