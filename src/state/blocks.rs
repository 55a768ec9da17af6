//! The objects of one kind in copy-on-write blocks: publishing costs what changed, not what exists.

use std::{collections::BTreeMap, sync::Arc};

use super::Entry;

/// The objects of one kind, spread over blocks by a hash of their names.
///
/// The hash is fixed, so that two replicas that saw the same objects come build the same blocks.
#[derive(Clone, Debug, Default)]
pub struct Blocks {
    buckets: Vec<Arc<Block>>,
    /// How many objects each namespace has.
    namespaces: BTreeMap<Box<str>, usize>,
    count: usize,
}

/// Some objects of one kind, sorted by namespace and name.
#[derive(Clone, Debug, Default)]
pub struct Block {
    version: u64,
    entries: Vec<Arc<Entry>>,
}

/// Blocks are split when they hold more than this on average.
const FULL: usize = 512;

impl Block {
    /// Changes whenever a claim, a kept label or the health of an object in the block does; other facts have no series.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The objects in the block.
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    fn position(&self, namespace: &str, name: &str) -> Result<usize, usize> {
        self.entries.binary_search_by(|entry| entry.object.key.cmp_within_kind(namespace, name))
    }
}

impl Blocks {
    /// The blocks, in a fixed order.
    pub fn blocks(&self) -> &[Arc<Block>] {
        &self.buckets
    }

    /// Every object, in no meaningful order.
    pub fn entries(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.buckets.iter().flat_map(|block| &block.entries)
    }

    /// How many objects there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The object of this name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<Entry>> {
        let block = self.buckets.get(self.bucket(namespace, name)?)?;
        block.position(namespace, name).ok().map(|at| &block.entries[at])
    }

    /// Whether no object of this namespace is known.
    pub fn is_empty_namespace(&self, namespace: &str) -> bool {
        !self.namespaces.contains_key(namespace)
    }

    /// Puts an object in, in place of one of the same name. Says whether its series change, and moves the version of
    /// its block only then.
    pub(super) fn put(&mut self, entry: Arc<Entry>, version: u64) -> bool {
        let key = &entry.object.key;
        let known = self.get(&key.namespace, &key.name);
        let changed = known.is_none_or(|known| !shows_the_same(known, &entry));
        if known.is_none() {
            *self.namespaces.entry(key.namespace.clone()).or_insert(0) += 1;
            self.count += 1;
            if self.count > self.buckets.len() * FULL {
                self.grow(version);
            }
        }
        let bucket = bucket_of(&key.namespace, &key.name, self.buckets.len());
        let block = Arc::make_mut(&mut self.buckets[bucket]);
        if changed {
            block.version = version;
        }
        match block.position(&key.namespace, &key.name) {
            Ok(at) => block.entries[at] = entry,
            Err(at) => block.entries.insert(at, entry),
        }
        changed
    }

    /// Takes the object of this name out.
    pub(super) fn remove(&mut self, namespace: &str, name: &str, version: u64) -> Option<Arc<Entry>> {
        let bucket = self.bucket(namespace, name)?;
        let at = self.buckets[bucket].position(namespace, name).ok()?;
        let block = Arc::make_mut(&mut self.buckets[bucket]);
        block.version = version;
        self.count -= 1;
        if let Some(left) = self.namespaces.get_mut(namespace) {
            *left -= 1;
            if *left == 0 {
                self.namespaces.remove(namespace);
            }
        }
        Some(block.entries.remove(at))
    }

    /// Doubles the number of blocks.
    fn grow(&mut self, version: u64) {
        let old = std::mem::take(&mut self.buckets);
        let buckets = (old.len() * 2).max(1);
        let mut blocks = vec![Block { version, entries: Vec::new() }; buckets];
        // Objects are in order in each old block, and a new block takes from one old block only.
        for entry in old.iter().flat_map(|block| &block.entries) {
            let key = &entry.object.key;
            blocks[bucket_of(&key.namespace, &key.name, buckets)].entries.push(entry.clone());
        }
        self.buckets = blocks.into_iter().map(Arc::new).collect();
    }

    fn bucket(&self, namespace: &str, name: &str) -> Option<usize> {
        (!self.buckets.is_empty()).then(|| bucket_of(namespace, name, self.buckets.len()))
    }
}

/// Whether two versions of an object have the same series.
fn shows_the_same(a: &Entry, b: &Entry) -> bool {
    a.claim == b.claim
        && a.object.facts.health == b.object.facts.health
        && a.object.extras.labels == b.object.extras.labels
}

/// FNV-1a over both names; a zero byte, which no name has, stands between them.
fn bucket_of(namespace: &str, name: &str, buckets: usize) -> usize {
    let bytes = namespace.bytes().chain([0]).chain(name.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let buckets = u64::try_from(buckets).unwrap_or(u64::MAX);
    usize::try_from(hash % buckets).unwrap_or(0)
}
