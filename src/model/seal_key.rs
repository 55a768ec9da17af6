//! The key of digests of values that may be compared and never told.

use std::{fmt, sync::Arc};

/// A secret that digests are made with, so that a short value cannot be guessed from its digest.
#[derive(Clone, PartialEq, Eq)]
pub struct SealKey(Arc<[u8; 32]>);

impl SealKey {
    /// This key.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(Arc::new(bytes))
    }

    /// The bytes, for whoever makes digests or writes a baseline down.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Tells nothing.
impl fmt::Debug for SealKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SealKey(..)")
    }
}
