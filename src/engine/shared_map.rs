//! An ordered map whose clones share their content.

use std::{borrow::Borrow, sync::Arc};

/// An ordered map in chunks of at most [`MAX_CHUNK`] entries. A clone shares all chunks, and a write copies the chunk that it
/// changes.
#[derive(Clone, Debug)]
pub(super) struct SharedMap<K, V> {
    /// Sorted, and none is empty.
    chunks: Vec<Arc<Vec<(K, V)>>>,
}

const MAX_CHUNK: usize = 64;

impl<K: Ord + Clone, V: Clone> SharedMap<K, V> {
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.chunks.iter().flat_map(|chunk| chunk.iter().map(|(key, value)| (key, value)))
    }

    pub(super) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let (chunk, position) = self.find(key);
        position.ok().map(|at| &self.chunks[chunk][at].1)
    }

    /// The value of a key, which is inserted if the map does not have it.
    pub(super) fn get_or_default<Q: Ord + ToOwned<Owned = K> + ?Sized>(&mut self, key: &Q) -> &mut V
    where
        K: Borrow<Q>,
        V: Default,
    {
        let (entries, position) = self.find_mut(key);
        let at = position.unwrap_or_else(|at| {
            entries.insert(at, (key.to_owned(), V::default()));
            at
        });
        &mut entries[at].1
    }

    /// None if the map does not have the key. Copies the chunk of the key, so a reader calls [`Self::get`] first.
    pub(super) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let (chunk, position) = self.find(key);
        position.ok().map(|at| &mut Arc::make_mut(&mut self.chunks[chunk])[at].1)
    }

    /// Adds or replaces the value of a key.
    pub(super) fn insert(&mut self, key: K, value: V) {
        let (entries, position) = self.find_mut(&key);
        match position {
            Ok(at) => entries[at].1 = value,
            Err(at) => entries.insert(at, (key, value)),
        }
    }

    pub(super) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        let (chunk, position) = self.find(key);
        let Ok(at) = position else { return };
        if self.chunks[chunk].len() == 1 {
            self.chunks.remove(chunk);
        } else {
            Arc::make_mut(&mut self.chunks[chunk]).remove(at);
        }
    }

    /// Only these keys. Chunks that are kept as a whole are shared.
    pub(super) fn filtered(&self, is_kept: impl Fn(&K) -> bool) -> Self {
        let filter = |chunk: &Arc<Vec<(K, V)>>| {
            if chunk.iter().all(|(key, _)| is_kept(key)) {
                return chunk.clone();
            }
            Arc::new(chunk.iter().filter(|(key, _)| is_kept(key)).cloned().collect())
        };
        Self { chunks: self.chunks.iter().map(filter).filter(|chunk| !chunk.is_empty()).collect() }
    }

    /// The chunk that has the key or would have it, and the position there.
    fn find<Q: Ord + ?Sized>(&self, key: &Q) -> (usize, Result<usize, usize>)
    where
        K: Borrow<Q>,
    {
        let is_before = |chunk: &Arc<Vec<(K, V)>>| chunk.last().is_some_and(|(last, _)| last.borrow() < key);
        let chunk = self.chunks.partition_point(is_before).min(self.chunks.len().saturating_sub(1));
        let entries = self.chunks.get(chunk).map_or(&[][..], |entries| entries);
        (chunk, entries.binary_search_by(|(known, _)| known.borrow().cmp(key)))
    }

    /// The chunk of a key with room for it, and the position there.
    fn find_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> (&mut Vec<(K, V)>, Result<usize, usize>)
    where
        K: Borrow<Q>,
    {
        let (mut chunk, mut position) = self.find(key);
        match self.chunks.get_mut(chunk) {
            None => self.chunks.push(Arc::default()),
            Some(full) if position.is_err() && full.len() == MAX_CHUNK => {
                let upper = Arc::make_mut(full).split_off(MAX_CHUNK / 2);
                self.chunks.insert(chunk + 1, Arc::new(upper));
                (chunk, position) = self.find(key);
            }
            Some(_) => {}
        }
        (Arc::make_mut(&mut self.chunks[chunk]), position)
    }

    /// The number of entries in chunks that the other map does not share: those that a write has copied.
    #[cfg(test)]
    pub(super) fn copied_since(&self, before: &Self) -> usize {
        let is_shared = |chunk: &&Arc<Vec<(K, V)>>| before.chunks.iter().any(|old| Arc::ptr_eq(old, chunk));
        self.chunks.iter().filter(|chunk| !is_shared(chunk)).map(|chunk| chunk.len()).sum()
    }
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

/// Maps with the same entries are equal, however these are distributed over chunks.
impl<K: Ord + Clone, V: Clone + PartialEq> PartialEq for SharedMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::{MAX_CHUNK, SharedMap};

    proptest! {
        #[test]
        fn shared_map_behaves_like_a_map(writes in prop::collection::vec((0..300_u32, prop::option::weighted(0.7, 0..9_u32)), 0..600)) {
            let (mut map, mut expected) = (SharedMap::<u32, u32>::default(), BTreeMap::new());
            for (key, value) in writes {
                if let Some(value) = value {
                    if value % 2 == 0 {
                        map.insert(key, value);
                    } else {
                        *map.get_or_default(&key) = value;
                    }
                    expected.insert(key, value);
                } else if let Some(known) = map.get_mut(&key).filter(|known| **known > 4) {
                    *known -= 1;
                    expected.entry(key).and_modify(|value| *value -= 1);
                } else {
                    map.remove(&key);
                    expected.remove(&key);
                }
                prop_assert_eq!(map.get(&key), expected.get(&key));
            }
            prop_assert!(map.iter().eq(&expected));
            prop_assert!(map.chunks.iter().all(|chunk| (1..=MAX_CHUNK).contains(&chunk.len())));
            expected.retain(|key, _| key % 3 == 0);
            prop_assert!(map.filtered(|key| key % 3 == 0).iter().eq(&expected));
        }
    }

    #[test]
    fn write_copies_one_chunk() {
        let mut map = SharedMap::<u32, u32>::default();
        (0..10_000).for_each(|key| *map.get_or_default(&key) = key);
        let before = map.clone();
        *map.get_or_default(&5_000) += 1;
        assert!((1..=MAX_CHUNK).contains(&map.copied_since(&before)));
        assert_eq!((before.get(&5_000), map.get(&5_000)), (Some(&5_000), Some(&5_001)));
        assert!(map != before && before.filtered(|_| true).copied_since(&before) == 0);
    }
}
