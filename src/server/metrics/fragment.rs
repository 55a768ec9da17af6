//! Fragments of a page: rendered once, compressed once if a gzip page contains them, and shared by all pages.
//!
//! The gzip page is one member: a header, raw deflate fragments that each end in a flush and look back at nothing,
//! an empty last block, and the combined checksum. Several members in a row would stop curl and browsers early.

use std::sync::OnceLock;

use bytes::Bytes;
use crc32fast::Hasher;
use flate2::{Compress, Compression, FlushCompress};

/// Nearly as small as level 6, in nearly the time of level 1.
const LEVEL: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Encoding {
    Identity,
    Gzip,
}

/// Lines of a page.
#[derive(Debug)]
pub(super) struct Fragment {
    plain: Bytes,
    /// Empty until a gzip page contains the fragment.
    deflated: OnceLock<(Bytes, Hasher)>,
}

/// A page without its end, which differs between scrapes.
#[derive(Debug)]
pub(super) struct Page {
    encoding: Encoding,
    fragments: Vec<Bytes>,
    /// Checksum and length of the text; only gzip needs them.
    checksum: Hasher,
    text_length: usize,
}

/// Compresses fragments. The zlib state is large, so it is created once and reset for each.
#[derive(Debug, Default)]
pub(super) struct Deflater(Option<Compress>);

impl Deflater {
    /// The compressed text, and the checksum of the text.
    fn deflate(&mut self, text: &[u8]) -> (Bytes, Hasher) {
        let mut checksum = Hasher::new();
        checksum.update(text);
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
                return (out.into(), checksum);
            }
            out.reserve(text.len() / 8 + 64);
        }
    }
}

impl Fragment {
    pub(super) fn new(text: String) -> Self {
        Self { plain: text.into(), deflated: OnceLock::new() }
    }
}

impl Page {
    pub(super) fn new(encoding: Encoding) -> Self {
        const HEADER: &[u8] = &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
        let fragments = match encoding {
            Encoding::Identity => Vec::new(),
            Encoding::Gzip => vec![Bytes::from_static(HEADER)],
        };
        Self { encoding, fragments, checksum: Hasher::new(), text_length: 0 }
    }

    pub(super) fn push(&mut self, fragment: &Fragment, deflater: &mut Deflater) {
        if fragment.plain.is_empty() {
            return;
        }
        self.fragments.push(match self.encoding {
            Encoding::Identity => fragment.plain.clone(),
            Encoding::Gzip => {
                let (deflated, checksum) =
                    fragment.deflated.get_or_init(|| deflater.deflate(&fragment.plain));
                self.checksum.combine(checksum);
                self.text_length += fragment.plain.len();
                deflated.clone()
            }
        });
    }

    pub(super) fn fragments(&self) -> &[Bytes] {
        &self.fragments
    }

    /// The last bytes of the page: `text`, and the end of the gzip member.
    pub(super) fn end(&self, text: String) -> Bytes {
        if self.encoding == Encoding::Identity {
            return text.into();
        }
        let (last, last_checksum) = Deflater::default().deflate(text.as_bytes());
        let mut checksum = self.checksum.clone();
        checksum.combine(&last_checksum);
        let length = u32::try_from((self.text_length + text.len()) & 0xffff_ffff).unwrap_or(u32::MAX);
        // An empty last block, the checksum, and the length modulo 2^32.
        let mut end = Vec::from(last);
        end.extend([3, 0]);
        end.extend(checksum.finalize().to_le_bytes());
        end.extend(length.to_le_bytes());
        end.into()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;
    use proptest::prelude::*;

    use super::{Deflater, Encoding, Fragment, Page};

    /// The fragments as a whole page; the last text is its end.
    fn page(encoding: Encoding, fragments: &[Fragment], end: &str) -> Vec<u8> {
        let (mut page, mut deflater) = (Page::new(encoding), Deflater::default());
        for fragment in fragments {
            page.push(fragment, &mut deflater);
        }
        [page.fragments().concat(), page.end(end.to_owned()).to_vec()].concat()
    }

    fn fragments(texts: &[String]) -> Vec<Fragment> {
        texts.iter().cloned().map(Fragment::new).collect()
    }

    proptest! {
        #[test]
        fn fragments_form_one_gzip_member(
            texts in prop::collection::vec(".{0,300}", 0..20),
            end in ".{0,300}",
        ) {
            let (fragments, text) = (fragments(&texts), texts.concat() + &end);
            prop_assert_eq!(page(Encoding::Identity, &fragments, &end), text.as_bytes());
            prop_assert!(fragments.iter().all(|fragment| fragment.deflated.get().is_none()));
            // The second page shares the compressed fragments of the first.
            for gzip in [page(Encoding::Gzip, &fragments, &end), page(Encoding::Gzip, &fragments, &end)] {
                let mut read = String::new();
                let mut decoder = GzDecoder::new(&gzip[..]);
                decoder.read_to_string(&mut read).unwrap();
                prop_assert_eq!(&read, &text);
                prop_assert!(decoder.into_inner().is_empty(), "data after the first member");
            }
        }
    }

    #[test]
    fn large_fragments_round_trip() {
        let text = (0..200_000_u64).map(|n| (n * 2_654_435_761).to_string()).collect::<Vec<_>>().join(" ");
        let texts = ["small\n", &text, "small\n", &text].map(str::to_owned);
        let gzip = page(Encoding::Gzip, &fragments(&texts), &text);
        let mut read = String::new();
        GzDecoder::new(&gzip[..]).read_to_string(&mut read).unwrap();
        assert!(read == texts.concat() + &text);
    }
}
