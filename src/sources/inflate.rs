//! Streams the text of a state or a release, inflated if it is gzip, up to a limit.

use std::{
    fmt,
    io::{self, BufRead, ErrorKind, Read},
};

use flate2::bufread::GzDecoder;
use zeroize::Zeroizing;

use crate::{
    config::{BaselineLimits, LimitExceeded, MAX_INFLATE_RATIO},
    types::BaselineFault,
};

/// The ratio of inflated to stored size is not limited up to this size.
const MIN_LIMIT: u64 = 4 << 20;

/// Reads gzip or plain bytes.
pub struct InflateReader<'a> {
    reader: Box<dyn Read + 'a>,
    remaining: u64,
    /// The error if the text is larger.
    exceeded: LimitExceeded,
    /// Whether the bytes come from several Secrets, which may be of different versions.
    is_chunked: bool,
}

/// Omits the content.
impl fmt::Debug for InflateReader<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("InflateReader").field("remaining", &self.remaining).finish_non_exhaustive()
    }
}

/// A text that cannot be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("{0}")]
    Io(#[source] io::Error),
    #[error("{0}")]
    Invalid(BaselineFault),
    #[error("{0}")]
    TooLarge(#[source] LimitExceeded),
}

impl From<LimitExceeded> for ReadError {
    fn from(limit: LimitExceeded) -> Self {
        Self::TooLarge(limit)
    }
}

impl From<BaselineFault> for ReadError {
    fn from(fault: BaselineFault) -> Self {
        Self::Invalid(fault)
    }
}

impl From<ReadError> for BaselineFault {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Invalid(fault) => fault,
            ReadError::TooLarge(_) => Self::TooLarge,
            ReadError::Io(_) => Self::Unreadable,
        }
    }
}

/// The fault of a text that is not the expected JSON.
pub(super) fn json_fault(error: &serde_json::Error) -> BaselineFault {
    if error.is_eof() { BaselineFault::Truncated } else { BaselineFault::Unreadable }
}

impl<'a> InflateReader<'a> {
    /// Reads a state, which is decoded while it is inflated. `size` is the number of stored bytes.
    pub fn of_state(bytes: impl BufRead + 'a, size: u64, limits: &BaselineLimits) -> Result<Self, ReadError> {
        Self::new(bytes, size, limits.inflated_bytes, limits.inflated_exceeded())
    }

    /// Reads a text that is decoded as a whole. `size` is the number of stored bytes.
    pub fn of_text(bytes: impl BufRead + 'a, size: u64, limits: &BaselineLimits) -> Result<Self, ReadError> {
        Self::new(bytes, size, limits.text_bytes, limits.text_exceeded())
    }

    /// Detects gzip by its first two bytes.
    fn new(
        mut bytes: impl BufRead + 'a,
        size: u64,
        limit: usize,
        exceeded: LimitExceeded,
    ) -> Result<Self, ReadError> {
        let (by_size, limit) = (size.saturating_mul(MAX_INFLATE_RATIO).max(MIN_LIMIT), limit as u64);
        let exceeded = if by_size < limit { LimitExceeded::InflateRatio } else { exceeded };
        let mut magic = Vec::new();
        bytes.by_ref().take(2).read_to_end(&mut magic).map_err(ReadError::Io)?;
        let is_gzip = magic == [0x1f, 0x8b];
        let bytes = io::Cursor::new(magic).chain(bytes);
        let reader: Box<dyn Read + 'a> =
            if is_gzip { Box::new(GzDecoder::new(bytes)) } else { Box::new(bytes) };
        Ok(Self { reader, remaining: limit.min(by_size), exceeded, is_chunked: false })
    }

    /// For the joined bytes of several Secrets. If they do not fit together, the state is being written.
    pub(super) fn joined_from(self, count: usize) -> Self {
        Self { is_chunked: count > 1, ..self }
    }

    /// Returns 0 at the end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ReadError> {
        loop {
            match self.reader.read(buffer) {
                Ok(count) => {
                    self.remaining = self.remaining.checked_sub(count as u64).ok_or(self.exceeded)?;
                    return Ok(count);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.classify(error)),
            }
        }
    }

    /// The whole text, which is overwritten on drop.
    pub fn read_to_end(mut self) -> Result<Zeroizing<Vec<u8>>, ReadError> {
        let mut content = Zeroizing::new(Vec::new());
        let mut buffer = Zeroizing::new([0; 1 << 13]);
        loop {
            match self.read(&mut *buffer)? {
                0 => return Ok(content),
                count => content.extend_from_slice(&buffer[..count]),
            }
        }
    }

    fn classify(&self, error: io::Error) -> ReadError {
        let fault = match error.kind() {
            _ if error.raw_os_error().is_some() => return ReadError::Io(error),
            _ if self.is_chunked => BaselineFault::Incomplete,
            ErrorKind::UnexpectedEof => BaselineFault::Truncated,
            _ => BaselineFault::Unreadable,
        };
        ReadError::Invalid(fault)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};
    use proptest::prelude::*;

    use super::{BaselineFault, BaselineLimits, InflateReader};

    pub(in crate::sources) fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn inflate(bytes: &[u8], text_bytes: usize) -> Result<Vec<u8>, BaselineFault> {
        let limits = BaselineLimits { text_bytes, ..BaselineLimits::default() };
        let text = InflateReader::of_text(bytes, bytes.len() as u64, &limits)?.read_to_end()?;
        Ok(text.to_vec())
    }

    #[test]
    fn invalid_gzip_is_classified() {
        let whole = gzip(&vec![b'x'; 1 << 16]);
        assert_eq!(inflate(&whole, 1 << 16).map(|bytes| bytes.len()), Ok(1 << 16));
        assert_eq!(inflate(&whole, (1 << 16) - 1), Err(BaselineFault::TooLarge));
        assert_eq!(inflate(&whole[..whole.len() - 9], 1 << 20), Err(BaselineFault::Truncated));
        let mut damaged = whole.clone();
        let at = damaged.len() - 6;
        damaged[at] ^= 1;
        assert_eq!(inflate(&damaged, 1 << 20), Err(BaselineFault::Unreadable));
        assert_eq!(inflate(b"{}", 10), Ok(b"{}".to_vec()));
    }

    #[test]
    fn chunks_of_different_versions_are_torn_and_a_single_one_is_truncated() {
        let noise = |seed: u64| {
            let mut random = fastrand::Rng::with_seed(seed);
            std::iter::repeat_with(|| random.u8(..)).take(4000).collect()
        };
        let versions: [Vec<u8>; 2] = [noise(1), noise(2)];
        let [one, other] = versions.map(|text| gzip(&text));
        let half = one.len() / 2;
        let read = |parts: &[&[u8]]| {
            let joined = parts.concat();
            let reader = InflateReader::of_text(&*joined, joined.len() as u64, &BaselineLimits::default());
            let text = reader.and_then(|reader| reader.joined_from(parts.len()).read_to_end());
            text.map(|text| text.len()).map_err(BaselineFault::from)
        };
        assert_eq!(read(&[&one[..half], &one[half..]]), Ok(4000));
        assert_eq!(read(&[&one[..half], &other[half..]]), Err(BaselineFault::Incomplete));
        assert_eq!(read(&[&one[..half]]), Err(BaselineFault::Truncated));
        // Left-over chunks of an earlier, longer version are ignored.
        assert_eq!(read(&[&one, &other[half..]]), Ok(4000));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = inflate(&bytes, 1000);
            let _ = inflate(&[&[0x1f, 0x8b, 8, 0], &bytes[..]].concat(), 1000);
        }
    }
}
