//! The objects of one kind in copy-on-write blocks: publishing costs what changed, not what exists.

use std::sync::Arc;

use super::Entry;

/// The objects of one kind, spread over blocks by a hash of their names.
///
/// The hash is fixed, so that two replicas that know the same objects build the same blocks.
#[derive(Clone, Debug, Default)]
pub struct Blocks {
    blocks: Vec<Arc<Block>>,
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
    /// Changes whenever a claim or the health of an object in the block does; other facts have no series.
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
        &self.blocks
    }

    /// Every object, in no meaningful order.
    pub fn entries(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.blocks.iter().flat_map(|block| &block.entries)
    }

    /// How many objects there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The object of this name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<Entry>> {
        let block = self.blocks.get(self.bucket(namespace, name)?)?;
        block.position(namespace, name).ok().map(|at| &block.entries[at])
    }

    /// Puts an object in, in place of one of the same name. The block's version moves only if its series do.
    pub(super) fn put(&mut self, entry: Arc<Entry>, version: u64) {
        if self.count >= self.blocks.len() * FULL {
            self.grow(version);
        }
        let key = &entry.object.key;
        let bucket =
            self.bucket(&key.namespace, &key.name).expect("there is at least one block after growing");
        let block = Arc::make_mut(&mut self.blocks[bucket]);
        match block.position(&key.namespace, &key.name) {
            Ok(at) => {
                if !shows_the_same(&block.entries[at], &entry) {
                    block.version = version;
                }
                block.entries[at] = entry;
            }
            Err(at) => {
                block.entries.insert(at, entry);
                block.version = version;
                self.count += 1;
            }
        }
    }

    /// Takes the object of this name out.
    pub(super) fn remove(&mut self, namespace: &str, name: &str, version: u64) -> Option<Arc<Entry>> {
        let bucket = self.bucket(namespace, name)?;
        let at = self.blocks[bucket].position(namespace, name).ok()?;
        let block = Arc::make_mut(&mut self.blocks[bucket]);
        block.version = version;
        self.count -= 1;
        Some(block.entries.remove(at))
    }

    /// Doubles the number of blocks.
    fn grow(&mut self, version: u64) {
        let old = std::mem::take(&mut self.blocks);
        let buckets = (old.len() * 2).max(1);
        let mut blocks = vec![Block { version, entries: Vec::new() }; buckets];
        // Objects are in order in each old block, and a new block takes from one old block only.
        for entry in old.iter().flat_map(|block| &block.entries) {
            let key = &entry.object.key;
            blocks[bucket_of(&key.namespace, &key.name, buckets)].entries.push(entry.clone());
        }
        self.blocks = blocks.into_iter().map(Arc::new).collect();
    }

    fn bucket(&self, namespace: &str, name: &str) -> Option<usize> {
        (!self.blocks.is_empty()).then(|| bucket_of(namespace, name, self.blocks.len()))
    }
}

/// Whether two versions of an object have the same series.
fn shows_the_same(a: &Entry, b: &Entry) -> bool {
    a.claim == b.claim && a.object.facts.health == b.object.facts.health
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
