//! Documents that are kept: packed small, and read again when something has to be compared.

use std::cell::RefCell;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use serde_json::Value;

use crate::types::Packed;

/// What objects and states have in common: of it, a document only has to say where it is. What is packed is never written
/// down, so another dictionary harms nothing.
const DICTIONARY: &[u8] = include_bytes!("packed/dictionary");

thread_local! {
    /// What packing and unpacking work with. Nothing of one document gets into the next: they are kept because they are 370 KiB large, which
    /// made anew for each document cost more than packing it, and left holes in memory that nothing else fitted into.
    static TOOLS: RefCell<Tools> = RefCell::new(Tools { packer: new_packer(), unpacker: Decompress::new(false) });
}

struct Tools {
    packer: Compress,
    unpacker: Decompress,
}

/// Packs a document.
pub fn pack(document: &Value) -> Packed {
    let text = document.to_string();
    Packed::new(TOOLS.with_borrow_mut(|tools| tools.pack(text.as_bytes())))
}

/// The document that was packed.
pub fn unpack(packed: &Packed) -> Value {
    let text = TOOLS.with_borrow_mut(|tools| tools.unpack(packed.bytes()));
    serde_json::from_slice(&text).unwrap_or_default()
}

impl Tools {
    fn pack(&mut self, text: &[u8]) -> Vec<u8> {
        let packer = &mut self.packer;
        packer.reset();
        let mut bytes = Vec::with_capacity(text.len() / 4 + 64);
        // Neither fails in memory; what came out wrong would be no document when it is unpacked.
        let _ = packer.set_dictionary(DICTIONARY);
        loop {
            let rest = &text[taken(packer.total_in())..];
            match packer.compress_vec(rest, &mut bytes, FlushCompress::Finish) {
                Ok(Status::StreamEnd) => break,
                Ok(Status::Ok | Status::BufError) => bytes.reserve(bytes.capacity()),
                // One that stopped midway is not sure to begin anew.
                Err(_) => {
                    *packer = new_packer();
                    break;
                }
            }
        }
        bytes.shrink_to_fit();
        bytes
    }

    fn unpack(&mut self, bytes: &[u8]) -> Vec<u8> {
        let unpacker = &mut self.unpacker;
        unpacker.reset(false);
        let _ = unpacker.set_dictionary(DICTIONARY);
        let mut text = Vec::with_capacity(bytes.len() * 4 + 64);
        while let Ok(Status::Ok) =
            unpacker.decompress_vec(&bytes[taken(unpacker.total_in())..], &mut text, FlushDecompress::None)
        {
            text.reserve(text.capacity());
        }
        text
    }
}

fn new_packer() -> Compress {
    Compress::new(Compression::fast(), false)
}

fn taken(total: u64) -> usize {
    usize::try_from(total).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::{DICTIONARY, Packed, pack, unpack};

    #[test]
    fn what_was_packed_comes_out_again() {
        let document = json!({"spec": {"replicas": 3, "name": "ä", "none": null, "list": [1.5, true]}});
        assert_eq!(unpack(&pack(&document)), document);
        assert_eq!(pack(&document), pack(&document.clone()));
    }

    #[test]
    fn nothing_of_one_document_gets_into_the_next() {
        let document = json!({"spec": {"replicas": 3}});
        let packed = pack(&document);
        let other = pack(&json!({"data": "abc".repeat(100_000)}));
        let torn = Packed::new(other.bytes()[..other.bytes().len() / 2].to_vec());
        for odd in [&other, &torn, &Packed::new(vec![255; 99]), &Packed::new(Vec::new())] {
            let _ = unpack(odd);
            assert_eq!(unpack(&packed), document);
        }
        assert_eq!(pack(&document), packed);
    }

    #[test]
    fn what_objects_have_in_common_takes_no_room() {
        let ports = json!([{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}]);
        let document = json!({"kind": "Service", "metadata": {"name": "web", "namespace": "shop"}, "spec": {"ports": ports,
            "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None"}});
        let (text, packed) = (document.to_string().len(), pack(&document).bytes().len());
        assert!(packed * 3 < text, "{packed} of {text}");
        assert!(DICTIONARY.len() < 32 << 10, "no packer looks further back");
    }

    proptest! {
        #[test]
        fn large_and_small_texts_come_out_again(text in ".{0,200}", times in 0..400_usize) {
            let document = Value::from(text.repeat(times));
            prop_assert_eq!(unpack(&pack(&document)), document);
        }
    }
}
