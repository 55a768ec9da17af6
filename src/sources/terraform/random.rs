//! Keys that nobody has had before.

use std::io;

use crate::types::RedactionKey;

/// A new key from the system's source of random bytes.
pub fn random_key() -> io::Result<RedactionKey> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(RedactionKey::new(bytes))
}
