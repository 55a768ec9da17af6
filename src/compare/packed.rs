//! Documents that are kept: packed small, and read again when something has to be compared.

use std::io::{Read as _, Write as _};

use flate2::{Compression, read::DeflateDecoder, write::DeflateEncoder};
use serde_json::Value;

use crate::model::Packed;

/// Packs a document.
pub fn pack(document: &Value) -> Packed {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory does not fail.
    let _ = encoder.write_all(document.to_string().as_bytes());
    Packed::new(encoder.finish().unwrap_or_default())
}

/// The document that was packed.
pub fn unpack(packed: &Packed) -> Value {
    let mut text = Vec::new();
    let read = DeflateDecoder::new(packed.bytes()).read_to_end(&mut text);
    read.ok().and_then(|_| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{pack, unpack};

    #[test]
    fn what_was_packed_comes_out_again() {
        let document = json!({"spec": {"replicas": 3, "name": "ä", "none": null, "list": [1.5, true]}});
        assert_eq!(unpack(&pack(&document)), document);
        assert_eq!(pack(&document), pack(&document.clone()));
    }
}
