//! The Secrets that one state is spread over, and the bytes in them.

use std::collections::BTreeMap;

use crate::types::BaselineFault;

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

#[cfg(test)]
mod tests {
    use super::{BaselineFault, group_chunks, join_chunks};

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
}
