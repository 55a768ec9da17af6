//! Divides the limit on series between namespaces, so that one namespace cannot use the share of another.

use std::collections::BTreeMap;

use super::{MetricsOptions, lines::SeriesGroup};
use crate::engine::ClaimEntry;

/// Whether the series of a claim are shown, by group.
pub(super) type Selection = [bool; SeriesGroup::ALL.len()];

/// Selects the series of these claims that are within the limit. Each group gets the room that the groups before it leave.
pub(super) fn select(entries: &[&ClaimEntry], options: &MetricsOptions) -> Vec<Selection> {
    let mut room =
        Room { all: options.max_series, each: options.max_namespace_series, used: BTreeMap::new() };
    let mut selections = vec![Selection::default(); entries.len()];
    for group in SeriesGroup::ALL {
        let claims = entries.iter().map(|entry| (&*entry.key().namespace, group.count(entry, options)));
        let claims: Vec<(&str, usize)> = claims.collect();
        for claim in take_turns(&claims, &mut room) {
            selections[claim][group as usize] = true;
        }
    }
    selections
}

/// Whether the claims of a namespace exceed the limit on series of one namespace.
pub(super) fn exceeds_namespace_limit<'a>(
    entries: impl Iterator<Item = &'a ClaimEntry>,
    options: &MetricsOptions,
) -> bool {
    let mut used: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in entries {
        let series: usize = SeriesGroup::ALL.iter().map(|group| group.count(entry, options)).sum();
        *used.entry(&entry.key().namespace).or_default() += series;
    }
    used.values().any(|series| *series > options.max_namespace_series)
}

/// The remaining series of all namespaces, the limit of each namespace, and the series that each uses.
struct Room<'a> {
    all: usize,
    each: usize,
    used: BTreeMap<&'a str, usize>,
}

impl<'a> Room<'a> {
    /// Takes the series of a claim, if there is room for them.
    fn take(&mut self, (namespace, series): (&'a str, usize)) -> bool {
        let used = self.used.entry(namespace).or_default();
        let fits = series <= self.all && *used + series <= self.each;
        if fits {
            (self.all, *used) = (self.all - series, *used + series);
        }
        fits
    }
}

/// The claims that fit if namespaces take turns, with one claim each. A claim is a namespace and a number of series.
fn take_turns<'a>(claims: &[(&'a str, usize)], room: &mut Room<'a>) -> Vec<usize> {
    let mut waiting: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    // In reverse, because the last one is taken first.
    for (claim, (namespace, _)) in claims.iter().enumerate().rev().filter(|(_, (_, series))| *series > 0) {
        waiting.entry(namespace).or_default().push(claim);
    }
    let mut taken = Vec::new();
    while !waiting.is_empty() {
        waiting.retain(|_, of_namespace| {
            let next = of_namespace.pop().filter(|claim| room.take(claims[*claim]));
            taken.extend(next);
            next.is_some()
        });
    }
    taken
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::{Room, take_turns};

    fn room(all: usize) -> Room<'static> {
        Room { all, each: usize::MAX, used: BTreeMap::new() }
    }

    /// The number of claims that each namespace gets.
    fn shares(claims: &[(&str, usize)], all: usize, namespaces: &[&str]) -> Vec<usize> {
        let taken = take_turns(claims, &mut Room { all, ..room(0) });
        let of = |namespace: &str| taken.iter().filter(|claim| claims[**claim].0 == namespace).count();
        namespaces.iter().map(|namespace| of(namespace)).collect()
    }

    #[test]
    fn namespaces_share_equally_and_small_ones_get_all() {
        let claims = |namespace, count| std::iter::repeat_n((namespace, 3), count);
        let all: Vec<_> = claims("attacker", 30_000).chain(claims("b", 30)).chain(claims("c", 30)).collect();
        assert_eq!(shares(&all, 300, &["attacker", "b", "c"]), [40, 30, 30]);
        assert_eq!(shares(&all, 180_180, &["attacker", "b", "c"]), [30_000, 30, 30]);
        assert_eq!(shares(&all, 0, &["attacker", "b", "c"]), [0, 0, 0]);
    }

    #[test]
    fn one_namespace_cannot_exceed_its_limit_in_an_empty_room() {
        let claims: Vec<_> = [("a", 3); 30].into_iter().chain([("b", 3)]).collect();
        let mut room = Room { all: 1000, each: 31, used: BTreeMap::new() };
        assert_eq!((take_turns(&claims, &mut room).len(), room.all), (11, 1000 - 33));
    }

    #[test]
    fn many_namespaces_use_the_whole_room() {
        let names: Vec<String> = (0..300).map(|at| format!("n{at}")).collect();
        let claims: Vec<(&str, usize)> = names.iter().map(|name| (&**name, 4)).collect();
        let mut room = Room { all: 900, ..room(0) };
        assert_eq!((take_turns(&claims, &mut room).len(), room.all), (225, 0));
    }

    proptest! {
        #[test]
        fn no_namespace_gets_less_than_another_one_that_has_more(
            claims in prop::collection::vec(("[a-c]", 0_usize..2), 0..60),
            room in 0_usize..60,
        ) {
            let claims: Vec<(&str, usize)> = claims.iter().map(|(name, series)| (&**name, *series)).collect();
            let needed: usize = claims.iter().map(|(_, series)| series).sum();
            let mut left = Room { all: room, ..super::tests::room(0) };
            prop_assert_eq!(take_turns(&claims, &mut left).len(), needed.min(room));
            prop_assert_eq!(left.all, room - needed.min(room));
            let shares = shares(&claims, room, &["a", "b", "c"]);
            let wants = ["a", "b", "c"].map(|name| claims.iter().filter(|claim| **claim == (name, 1)).count());
            for (share, wanted) in shares.iter().zip(wants) {
                // Every other one has at most one more, unless this one has all that it needs.
                prop_assert!(*share == wanted || shares.iter().all(|other| *other <= share + 1));
            }
        }
    }
}
