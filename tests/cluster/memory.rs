//! Finds every packed document in the memory of a process, in use or freed.

use drift_exporter::{
    diff::{Node, pack, unpack},
    types::PackedJson,
};
use serde_json::json;

/// The preset dictionary of packed documents.
const DICTIONARY: &[u8] = include_bytes!("../../src/diff/document/dictionary");
/// Alignment of the allocator.
const ALIGNMENT: usize = 16;
/// Upper bound for the size of a packed document in tests.
const LONGEST: usize = 64 << 10;

/// The documents that are packed in a memory dump.
pub(crate) fn documents(memory: &[Vec<u8>]) -> Vec<Node> {
    let mut documents = Vec::new();
    for part in memory {
        for at in (0..part.len()).step_by(ALIGNMENT) {
            let bytes = &part[at..part.len().min(at + LONGEST)];
            if is_object_prefix(bytes) {
                documents.push(unpack(&PackedJson::new(bytes.to_vec())));
            }
        }
    }
    documents.retain(Node::is_object);
    documents
}

/// Whether these bytes begin a packed object: its text begins with a brace and a quote. Documents are packed with
/// the fixed Huffman codes.
fn is_object_prefix(bytes: &[u8]) -> bool {
    let mut bits = Bits { bytes, at: 1 };
    if bits.number(2) != Some(1) {
        return false;
    }
    let mut text = Vec::new();
    while text.len() < 2 {
        match bits.symbol() {
            Some(literal @ 0..=255) => text.extend(u8::try_from(literal)),
            Some(length @ 257..=285) => {
                let Some(distance) = bits.after_length(length).and_then(|()| bits.distance()) else {
                    return false;
                };
                let Some(from) = DICTIONARY.len().checked_sub(distance) else { return false };
                let window = [DICTIONARY, &text].concat();
                text.extend(window[from + text.len()..].iter().take(2));
            }
            _ => return false,
        }
    }
    text.starts_with(b"{\"")
}

/// A bit reader for DEFLATE (RFC 1951).
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn bit(&mut self) -> Option<usize> {
        let bit = usize::from(self.bytes.get(self.at / 8)? >> (self.at % 8) & 1);
        self.at += 1;
        Some(bit)
    }

    /// A number, least significant bit first.
    fn number(&mut self, bits: usize) -> Option<usize> {
        (0..bits).try_fold(0, |number, at| Some(number | self.bit()? << at))
    }

    /// A Huffman code, most significant bit first.
    fn code(&mut self, bits: usize) -> Option<usize> {
        (0..bits).try_fold(0, |code, _| Some(code << 1 | self.bit()?))
    }

    /// A literal or a length, by the fixed codes.
    fn symbol(&mut self) -> Option<usize> {
        let seven = self.code(7)?;
        if seven < 0b001_1000 {
            return Some(256 + seven);
        }
        let eight = seven << 1 | self.bit()?;
        match eight {
            0b0011_0000..0b1100_0000 => Some(eight - 0b0011_0000),
            0b1100_0000..0b1100_1000 => Some(280 + eight - 0b1100_0000),
            _ => Some(144 + (eight << 1 | self.bit()?) - 0b1_1001_0000),
        }
    }

    /// Skips the extra bits of a length.
    fn after_length(&mut self, symbol: usize) -> Option<()> {
        let extra = if (265..285).contains(&symbol) { (symbol - 261) / 4 } else { 0 };
        self.number(extra).map(|_| ())
    }

    fn distance(&mut self) -> Option<usize> {
        let code = self.code(5)?;
        match code {
            0..4 => Some(code + 1),
            4..30 => {
                let extra = code / 2 - 1;
                Some(((2 + code % 2) << extra) + 1 + self.number(extra)?)
            }
            _ => None,
        }
    }
}

#[test]
fn documents_finds_every_packed_document_in_memory() {
    let mut random = fastrand::Rng::with_seed(7);
    let planted: Vec<Node> = (0..100)
        .map(|at| {
            let noise: String = std::iter::repeat_with(|| random.alphanumeric()).take(at * 7).collect();
            match at % 3 {
                0 => json!({"data": {"key": noise}, "kind": "ConfigMap", "metadata": {"name": at}}),
                1 => json!({"apiVersion": "v1", "noise": noise}),
                _ => json!({"(absent)": {"a": true}, "metadata": [{"name": noise}]}),
            }
        })
        .map(Node::from)
        .collect();
    let mut memory = Vec::new();
    for document in &planted {
        memory.extend_from_slice(pack(document).bytes());
        let more = random.usize(0..300);
        memory.extend(std::iter::repeat_with(|| random.u8(..)).take(more));
        memory.resize(memory.len().next_multiple_of(ALIGNMENT), 0);
    }
    let found = documents(&[memory]);
    assert!(planted.iter().all(|document| found.contains(document)), "{} of {}", found.len(), planted.len());
}
