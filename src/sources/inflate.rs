//! The text of a state or a release, inflated while it is read.

use std::{
    fmt,
    io::{self, BufRead, ErrorKind, Read},
};

use flate2::bufread::GzDecoder;

use crate::types::BaselineFault;

/// The most that anything may inflate to.
pub const INFLATE_LIMIT: u64 = 256 << 20;
/// However little it is packed to, this much may always come out.
const LEAST_LIMIT: u64 = 4 << 20;
/// Nothing packs better than this; a bomb does.
const MOST_RATIO: u64 = 100;

/// What these bytes may inflate to.
pub(super) fn inflate_limit(packed: u64) -> u64 {
    packed.saturating_mul(MOST_RATIO).clamp(LEAST_LIMIT, INFLATE_LIMIT)
}

/// A text that is read bit by bit, as it is or inflated, to at most so many bytes.
pub struct Text<'a> {
    reader: Box<dyn Read + 'a>,
    left: u64,
    /// Whether it was put together from several parts, which may be of different versions.
    in_parts: bool,
}

/// Tells nothing of what is in it.
impl fmt::Debug for Text<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Text").field("left", &self.left).finish_non_exhaustive()
    }
}

/// Why a text could not be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The system did not give it out.
    #[error("{0}")]
    System(#[source] io::Error),
    /// Something is wrong with what is there.
    #[error("{0}")]
    Fault(BaselineFault),
}

impl From<BaselineFault> for Broken {
    fn from(fault: BaselineFault) -> Self {
        Self::Fault(fault)
    }
}

impl<'a> Text<'a> {
    /// What comes from here, inflated if it is gzip.
    pub fn new(mut bytes: impl BufRead + 'a, limit: u64) -> Result<Self, Broken> {
        let mut mark = Vec::new();
        bytes.by_ref().take(2).read_to_end(&mut mark).map_err(Broken::System)?;
        let packed = mark == [0x1f, 0x8b];
        let bytes = io::Cursor::new(mark).chain(bytes);
        let reader: Box<dyn Read + 'a> =
            if packed { Box::new(GzDecoder::new(bytes)) } else { Box::new(bytes) };
        Ok(Self { reader, left: limit, in_parts: false })
    }

    /// What was put together from this many parts. Several that do not fit together are of different versions: somebody writes
    /// the state right now.
    pub(super) fn joined(bytes: &'a [u8], parts: usize) -> Result<Self, Broken> {
        let text = Self::new(bytes, inflate_limit(bytes.len() as u64))?;
        Ok(Self { in_parts: parts > 1, ..text })
    }

    /// The next bytes; none at the end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Broken> {
        loop {
            match self.reader.read(buffer) {
                Ok(count) => {
                    self.left = self.left.checked_sub(count as u64).ok_or(BaselineFault::TooLarge)?;
                    return Ok(count);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.broken(error)),
            }
        }
    }

    /// All of it.
    pub fn whole(mut self) -> Result<Vec<u8>, Broken> {
        let mut whole = Vec::new();
        let mut buffer = [0; 1 << 13];
        loop {
            match self.read(&mut buffer)? {
                0 => return Ok(whole),
                count => whole.extend_from_slice(&buffer[..count]),
            }
        }
    }

    fn broken(&self, error: io::Error) -> Broken {
        let fault = match error.kind() {
            _ if error.raw_os_error().is_some() => return Broken::System(error),
            _ if self.in_parts => BaselineFault::Torn,
            ErrorKind::UnexpectedEof => BaselineFault::Truncated,
            _ => BaselineFault::Unreadable,
        };
        Broken::Fault(fault)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};
    use proptest::prelude::*;

    use super::{BaselineFault, Broken, Text};

    pub(in crate::sources) fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn fault(broken: Broken) -> BaselineFault {
        match broken {
            Broken::Fault(fault) => fault,
            Broken::System(error) => panic!("nothing was asked of the system: {error}"),
        }
    }

    fn inflate(bytes: &[u8], limit: u64) -> Result<Vec<u8>, BaselineFault> {
        Text::new(bytes, limit).and_then(Text::whole).map_err(fault)
    }

    #[test]
    fn what_does_not_inflate_says_why() {
        let whole = gzip(&vec![b'x'; 1 << 16]);
        assert_eq!(inflate(&whole, 1 << 16).map(|bytes| bytes.len()), Ok(1 << 16));
        assert_eq!(inflate(&whole, (1 << 16) - 1), Err(BaselineFault::TooLarge));
        assert_eq!(inflate(&whole[..whole.len() - 9], 1 << 20), Err(BaselineFault::Truncated));
        let mut broken = whole.clone();
        let at = broken.len() - 6;
        broken[at] ^= 1;
        assert_eq!(inflate(&broken, 1 << 20), Err(BaselineFault::Unreadable));
        assert_eq!(inflate(b"{}", 10), Ok(b"{}".to_vec()));
    }

    #[test]
    fn parts_of_different_versions_are_a_torn_state_and_a_single_one_is_damaged() {
        let noise = |seed: u64| {
            let mut random = fastrand::Rng::with_seed(seed);
            std::iter::repeat_with(|| random.u8(..)).take(4000).collect()
        };
        let versions: [Vec<u8>; 2] = [noise(1), noise(2)];
        let [one, other] = versions.map(|text| gzip(&text));
        let half = one.len() / 2;
        let read = |parts: &[&[u8]]| {
            let text = Text::joined(&parts.concat(), parts.len()).and_then(Text::whole);
            text.map(|text| text.len()).map_err(fault)
        };
        assert_eq!(read(&[&one[..half], &one[half..]]), Ok(4000));
        assert_eq!(read(&[&one[..half], &other[half..]]), Err(BaselineFault::Torn));
        assert_eq!(read(&[&one[..half]]), Err(BaselineFault::Truncated));
        // What an earlier, longer version left behind does no harm.
        assert_eq!(read(&[&one, &other[half..]]), Ok(4000));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = inflate(&bytes, 1000);
            let _ = inflate(&[&[0x1f, 0x8b, 8, 0], &bytes[..]].concat(), 1000);
        }
    }
}
