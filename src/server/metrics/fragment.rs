//! Fragments of a page that are compressed once and served many times.
//!
//! The gzip page is one member: a header, raw deflate fragments that each end in a flush and look back at nothing,
//! an empty last block, and the combined checksum. Several members in a row would stop curl and browsers early.

use bytes::Bytes;
use crc32fast::Hasher;
use flate2::{Compress, Compression, FlushCompress};

/// Nearly as small as level 6, in nearly the time of level 1.
const LEVEL: u32 = 3;

/// Lines, plain and compressed.
#[derive(Clone, Debug)]
pub(super) struct Fragment {
    plain: Bytes,
    deflated: Bytes,
    checksum: Hasher,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Pages {
    plain: Vec<Bytes>,
    deflated: Vec<Bytes>,
    checksum: Hasher,
    length: usize,
}

/// Compresses fragments. The zlib state is large, so it is created once and reset for each.
#[derive(Debug, Default)]
pub(super) struct Deflater(Option<Compress>);

impl Deflater {
    pub(super) fn fragment(&mut self, text: String) -> Fragment {
        let deflated = self.deflate(text.as_bytes());
        let mut checksum = Hasher::new();
        checksum.update(text.as_bytes());
        Fragment { plain: text.into(), deflated, checksum }
    }

    fn deflate(&mut self, text: &[u8]) -> Bytes {
        if text.is_empty() {
            return Bytes::new();
        }
        let compress = self.0.get_or_insert_with(|| Compress::new(Compression::new(LEVEL), false));
        compress.reset();
        let mut out = Vec::with_capacity(text.len() / 8 + 64);
        loop {
            let done = usize::try_from(compress.total_in()).unwrap_or(usize::MAX);
            compress
                .compress_vec(&text[done..], &mut out, FlushCompress::Sync)
                .expect("compressing from memory to memory cannot fail");
            // Spare capacity means that the flush is complete.
            if compress.total_in() == text.len() as u64 && out.len() < out.capacity() {
                out.shrink_to_fit();
                return out.into();
            }
            out.reserve(text.len() / 8 + 64);
        }
    }
}

impl Pages {
    pub(super) fn push(&mut self, fragment: &Fragment) {
        if fragment.plain.is_empty() {
            return;
        }
        self.plain.push(fragment.plain.clone());
        self.deflated.push(fragment.deflated.clone());
        self.checksum.combine(&fragment.checksum);
        self.length += fragment.plain.len();
    }

    pub(super) fn plain(self) -> Vec<Bytes> {
        self.plain
    }

    /// One gzip member.
    pub(super) fn gzip(self) -> Vec<Bytes> {
        const HEADER: &[u8] = &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
        let mut pieces = Vec::with_capacity(self.deflated.len() + 2);
        pieces.push(Bytes::from_static(HEADER));
        pieces.extend(self.deflated);
        // An empty last block, the checksum, and the length modulo 2^32.
        let mut end = vec![3, 0];
        end.extend(self.checksum.finalize().to_le_bytes());
        let length = u32::try_from(self.length & 0xffff_ffff).unwrap_or(u32::MAX);
        end.extend(length.to_le_bytes());
        pieces.push(end.into());
        pieces
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;
    use proptest::prelude::*;

    use super::{Deflater, Pages};

    proptest! {
        #[test]
        fn fragments_form_one_gzip_member(texts in prop::collection::vec(".{0,300}", 0..20)) {
            let (mut pages, mut deflater) = (Pages::default(), Deflater::default());
            for text in &texts {
                pages.push(&deflater.fragment(text.clone()));
            }
            let gzip = pages.clone().gzip().concat();
            let mut read = String::new();
            let mut decoder = GzDecoder::new(&gzip[..]);
            decoder.read_to_string(&mut read).unwrap();
            prop_assert_eq!(&read, &texts.concat());
            prop_assert!(decoder.into_inner().is_empty(), "data after the first member");
            prop_assert_eq!(pages.plain().concat(), texts.concat().into_bytes());
        }
    }

    #[test]
    fn large_fragments_round_trip() {
        let text = (0..200_000_u64).map(|n| (n * 2_654_435_761).to_string()).collect::<Vec<_>>().join(" ");
        let (mut pages, mut deflater) = (Pages::default(), Deflater::default());
        let texts = ["small\n", &text, "small\n", &text];
        for text in texts {
            pages.push(&deflater.fragment(text.to_owned()));
        }
        let gzip = pages.gzip().concat();
        let mut read = String::new();
        GzDecoder::new(&gzip[..]).read_to_string(&mut read).unwrap();
        assert!(read == texts.concat());
    }
}
