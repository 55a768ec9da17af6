//! Divides the limit on series between namespaces, so that one namespace cannot take the room of others.

use std::collections::BTreeMap;

use super::{MetricsOptions, lines::SeriesGroup};
use crate::engine::ClaimEntry;

/// Whether the series of a claim are shown, by group.
pub(super) type Selection = [bool; SeriesGroup::ALL.len()];

/// Selects the series of these claims that are within the limit. Each group gets the room that the groups before it leave.
pub(super) fn select(entries: &[&ClaimEntry], options: &MetricsOptions) -> Vec<Selection> {
    let mut room = options.max_series;
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

/// The claims that fit, if namespaces take turns with one claim each. A claim is a namespace and a number of series.
fn take_turns(claims: &[(&str, usize)], room: &mut usize) -> Vec<usize> {
    let mut waiting: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    // In reverse, because the last one is taken first.
    for (claim, (namespace, _)) in claims.iter().enumerate().rev().filter(|(_, (_, series))| *series > 0) {
        waiting.entry(namespace).or_default().push(claim);
    }
    let mut taken = Vec::new();
    while !waiting.is_empty() {
        waiting.retain(|_, of_namespace| {
            let next = of_namespace.pop().filter(|claim| claims[*claim].1 <= *room);
            if let Some(claim) = next {
                *room -= claims[claim].1;
                taken.push(claim);
            }
            next.is_some()
        });
    }
    taken
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::take_turns;

    /// The number of claims that each namespace gets.
    fn shares(claims: &[(&str, usize)], mut room: usize, namespaces: &[&str]) -> Vec<usize> {
        let taken = take_turns(claims, &mut room);
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
    fn many_namespaces_use_the_whole_room() {
        let names: Vec<String> = (0..300).map(|at| format!("n{at}")).collect();
        let claims: Vec<(&str, usize)> = names.iter().map(|name| (&**name, 4)).collect();
        let mut room = 900;
        assert_eq!((take_turns(&claims, &mut room).len(), room), (225, 0));
    }

    proptest! {
        #[test]
        fn no_namespace_gets_less_than_another_one_that_has_more(
            claims in prop::collection::vec(("[a-c]", 0_usize..2), 0..60),
            room in 0_usize..60,
        ) {
            let claims: Vec<(&str, usize)> = claims.iter().map(|(name, series)| (&**name, *series)).collect();
            let needed: usize = claims.iter().map(|(_, series)| series).sum();
            let mut left = room;
            prop_assert_eq!(take_turns(&claims, &mut left).len(), needed.min(room));
            prop_assert_eq!(left, room - needed.min(room));
            let shares = shares(&claims, room, &["a", "b", "c"]);
            let wants = ["a", "b", "c"].map(|name| claims.iter().filter(|claim| **claim == (name, 1)).count());
            for (share, wanted) in shares.iter().zip(wants) {
                // Every other one has at most one more, unless this one has all that it needs.
                prop_assert!(*share == wanted || shares.iter().all(|other| *other <= share + 1));
            }
        }
    }
}
