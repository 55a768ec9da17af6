//! The Secrets that one state is spread over, and the bytes in them.

use std::{
    collections::BTreeMap,
    io::{ErrorKind, Read},
};

use flate2::bufread::GzDecoder;

use crate::model::BaselineFault;

/// The most that a state may inflate to.
pub const INFLATE_LIMIT: u64 = 256 << 20;

/// One state by the Secrets that hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateSecret {
    /// The name of the first Secret, which the state is called by.
    pub name: Box<str>,
    /// The names of all its Secrets, in order; none for a part that is not there.
    pub parts: Vec<Option<Box<str>>>,
}

/// Which of these Secrets belong together: a base name, and `-part-1`, `-part-2` … beside it.
///
/// A name that looks like a part is a state of its own where there is no base.
pub fn group_chunks<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<StateSecret> {
    let names: Vec<&str> = names.into_iter().collect();
    let mut states: BTreeMap<&str, Vec<(usize, &str)>> = BTreeMap::new();
    for name in &names {
        match part_of(name).filter(|(base, _)| names.contains(base)) {
            Some((base, part)) => states.entry(base).or_default().push((part, name)),
            None => states.entry(name).or_default().push((0, name)),
        }
    }
    let state = |(name, parts): (&str, Vec<(usize, &str)>)| {
        // No more places than parts and gaps between a few of them: a part numbered by a madman is a gap, not a gigabyte.
        let last = parts.iter().map(|(part, _)| *part).max().unwrap_or(0).min(parts.len());
        let at = |at: usize| parts.iter().find(|(part, _)| *part == at).map(|(_, name)| (*name).into());
        StateSecret { name: name.into(), parts: (0..=last).map(at).collect() }
    };
    states.into_iter().map(state).collect()
}

/// The name that a part belongs to, and its number.
pub(super) fn part_of(name: &str) -> Option<(&str, usize)> {
    let (base, part) = name.rsplit_once("-part-")?;
    let part = part.parse().ok().filter(|part| *part > 0 && !base.is_empty())?;
    Some((base, part))
}

/// Puts the bytes of a state's Secrets together. A part that is missing means that somebody writes the state right now.
pub fn join_chunks(parts: &[Option<&[u8]>]) -> Result<Vec<u8>, BaselineFault> {
    let parts: Option<Vec<&[u8]>> = parts.iter().copied().collect();
    parts.map(|parts| parts.concat()).ok_or(BaselineFault::Torn)
}

/// The text in a state's Secrets, inflated to at most `limit` bytes. Several parts that do not fit together are of different
/// versions: somebody writes the state right now.
pub fn read_chunks(parts: &[Option<&[u8]>], limit: u64) -> Result<Vec<u8>, BaselineFault> {
    let joined = join_chunks(parts)?;
    inflate(&joined, limit).map_err(|fault| match fault {
        BaselineFault::Truncated | BaselineFault::Unreadable if parts.len() > 1 => BaselineFault::Torn,
        other => other,
    })
}

/// Inflates gzip to at most `limit` bytes; what is not gzip stays as it is.
pub fn inflate(bytes: &[u8], limit: u64) -> Result<Vec<u8>, BaselineFault> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return if bytes.len() as u64 > limit { Err(BaselineFault::TooLarge) } else { Ok(bytes.to_vec()) };
    }
    let mut inflated = Vec::new();
    let mut reader = GzDecoder::new(bytes).take(limit + 1);
    reader.read_to_end(&mut inflated).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => BaselineFault::Truncated,
        _ => BaselineFault::Unreadable,
    })?;
    if inflated.len() as u64 > limit {
        return Err(BaselineFault::TooLarge);
    }
    Ok(inflated)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};
    use proptest::prelude::*;

    use super::{BaselineFault, group_chunks, inflate, join_chunks, read_chunks};

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn parts_stand_beside_their_base_in_order_of_their_numbers() {
        let names = ["a-part-10", "a", "a-part-2", "b-part-1", "a-part-1"];
        let states = group_chunks(names);
        let names: Vec<_> =
            states.iter().map(|state| (&*state.name, state.parts.iter().flatten().count())).collect();
        assert_eq!(names, [("a", 3), ("b-part-1", 1)]);
        assert_eq!(states[0].parts[2].as_deref(), Some("a-part-2"));
        assert_eq!(states[0].parts[3], None);
    }

    #[test]
    fn a_missing_part_is_a_torn_state() {
        assert_eq!(join_chunks(&[Some(b"a"), None]), Err(BaselineFault::Torn));
        assert_eq!(join_chunks(&[Some(b"a"), Some(b"b")]), Ok(b"ab".to_vec()));
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
        let read = |parts: &[Option<&[u8]>]| read_chunks(parts, 1 << 20).map(|text| text.len());
        assert_eq!(read(&[Some(&one[..half]), Some(&one[half..])]), Ok(4000));
        assert_eq!(read(&[Some(&one[..half]), Some(&other[half..])]), Err(BaselineFault::Torn));
        assert_eq!(read(&[Some(&one[..half])]), Err(BaselineFault::Truncated));
        // What an earlier, longer version left behind does no harm.
        assert_eq!(read(&[Some(&one), Some(&other[half..])]), Ok(4000));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = inflate(&bytes, 1000);
            let _ = inflate(&[&[0x1f, 0x8b, 8, 0], &bytes[..]].concat(), 1000);
        }
    }
}
