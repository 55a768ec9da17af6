//! The claims on the objects of one kind in copy-on-write blocks: publishing costs what changed, not what exists.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    mem,
    sync::Arc,
};

use super::{Entry, claim::rated_alike};
use crate::types::{LiveObject, ObjectKey, Source, WatchSpec};

/// The claims on the objects of one kind, spread over blocks by a hash of the objects' names.
///
/// The hash is fixed, so that two replicas that saw the same objects come build the same blocks.
#[derive(Clone, Debug, Default)]
pub struct Blocks {
    buckets: Vec<Arc<Block>>,
    /// How many claims each namespace has, by source.
    namespaces: BTreeMap<Box<str>, [usize; Source::ALL.len()]>,
    claims: usize,
    objects: usize,
}

/// The claims on some objects of one kind, sorted by namespace, name and source.
#[derive(Clone, Debug, Default)]
pub struct Block {
    version: u64,
    entries: Vec<Arc<Entry>>,
}

/// Blocks are split when they hold more than this on average.
const FULL: usize = 512;

impl Block {
    /// Changes whenever a claim, a kept label, the health or a report of an object in the block does; other facts have no series.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The claims in the block.
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// Where the claims on this object are, or would be.
    fn range(&self, namespace: &str, name: &str) -> std::ops::Range<usize> {
        let order = |entry: &Arc<Entry>| entry.object.key.cmp_within_kind(namespace, name);
        let start = self.entries.partition_point(|entry| order(entry).is_lt());
        let length = self.entries[start..].iter().take_while(|entry| order(entry).is_eq()).count();
        start..start + length
    }
}

impl Blocks {
    /// The blocks, in a fixed order.
    pub fn blocks(&self) -> &[Arc<Block>] {
        &self.buckets
    }

    /// Every claim; those on one object stand together, and there is no other order.
    pub fn entries(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.buckets.iter().flat_map(|block| &block.entries)
    }

    /// Every object that exists, once.
    pub fn objects(&self) -> impl Iterator<Item = &Arc<LiveObject>> {
        self.buckets.iter().flat_map(|block| {
            // All claims on an object have it from the same hand.
            let chunks = block.entries.chunk_by(|one, next| Arc::ptr_eq(&one.object, &next.object));
            chunks
                .filter_map(|claims| claims.first())
                .map(|entry| &entry.object)
                .filter(|object| object.exists)
        })
    }

    /// How many objects exist.
    pub fn count(&self) -> usize {
        self.objects
    }

    /// The claims on the object of this name; at least one for every object that exists.
    pub fn get(&self, namespace: &str, name: &str) -> &[Arc<Entry>] {
        let Some(block) = self.bucket(namespace, name).and_then(|bucket| self.buckets.get(bucket)) else {
            return &[];
        };
        &block.entries[block.range(namespace, name)]
    }

    /// The object of this name, if it exists.
    pub fn object(&self, namespace: &str, name: &str) -> Option<&Arc<LiveObject>> {
        self.get(namespace, name).first().map(|entry| &entry.object).filter(|object| object.exists)
    }

    /// The namespaces that have any.
    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.namespaces.keys().map(|name| &**name)
    }

    /// What is left where only some namespaces may be seen. Blocks of which nothing is left out stay the same ones.
    pub(super) fn only(&self, sees: impl Fn(&str) -> bool) -> Self {
        let is_left = |entry: &Arc<Entry>| sees(&entry.object.key.namespace);
        let buckets = self.buckets.iter().map(|block| {
            if block.entries.iter().all(is_left) {
                return block.clone();
            }
            let entries = block.entries.iter().filter(|entry| is_left(entry)).cloned().collect();
            Arc::new(Block { version: block.version, entries })
        });
        let mut left = Self { buckets: buckets.collect(), ..Self::default() };
        left.namespaces.extend(
            self.namespaces
                .iter()
                .filter(|(name, _)| sees(name))
                .map(|(name, counts)| (name.clone(), *counts)),
        );
        left.claims = left.entries().count();
        left.objects = left.objects().count();
        left
    }

    /// Whether no claim of this source is known in this namespace.
    pub(super) fn is_empty_namespace(&self, namespace: &str, source: Source) -> bool {
        self.namespaces.get(namespace).is_none_or(|counts| counts[place(source)] == 0)
    }

    /// Makes these all claims on an object; without any, it is forgotten. Says whether its series change, and moves the
    /// version of its block only then.
    pub(super) fn replace(
        &mut self,
        namespace: &str,
        name: &str,
        entries: Vec<Arc<Entry>>,
        version: u64,
    ) -> bool {
        let known = self.get(namespace, name);
        let changed = known.len() != entries.len()
            || known.iter().zip(&entries).any(|(known, entry)| !shows_the_same(known, entry));
        let (were, existed) = (known.len(), known.first().is_some_and(|known| known.object.exists));
        let left: Vec<Source> = known.iter().map(|known| known.claim.source).collect();
        if were == 0 && entries.is_empty() {
            return false;
        }
        self.count_namespace(namespace, &left, &entries);
        self.claims = self.claims + entries.len() - were;
        let exists = entries.first().is_some_and(|entry| entry.object.exists);
        self.objects = self.objects + usize::from(exists) - usize::from(existed);
        if self.claims > self.buckets.len() * FULL {
            self.grow(version);
        }
        let bucket = bucket_of(namespace, name, self.buckets.len());
        let block = Arc::make_mut(&mut self.buckets[bucket]);
        if changed {
            block.version = version;
        }
        let range = block.range(namespace, name);
        block.entries.splice(range, entries);
        changed
    }

    fn count_namespace(&mut self, namespace: &str, left: &[Source], entries: &[Arc<Entry>]) {
        if !self.namespaces.contains_key(namespace) {
            self.namespaces.insert(namespace.into(), [0; Source::ALL.len()]);
        }
        let Some(counts) = self.namespaces.get_mut(namespace) else { return };
        for entry in entries {
            counts[place(entry.claim.source)] += 1;
        }
        for source in left {
            counts[place(*source)] -= 1;
        }
        if counts.iter().all(|count| *count == 0) {
            self.namespaces.remove(namespace);
        }
    }

    /// Doubles the number of blocks.
    fn grow(&mut self, version: u64) {
        let old = std::mem::take(&mut self.buckets);
        let buckets = (old.len() * 2).max(1);
        let mut blocks = vec![Block { version, entries: Vec::new() }; buckets];
        // Claims are in order in each old block, and a new block takes from one old block only.
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

/// Where a source is counted.
fn place(source: Source) -> usize {
    source as usize
}

/// Whether two versions of a claim have the same series.
fn shows_the_same(a: &Entry, b: &Entry) -> bool {
    a.claim == b.claim
        && a.object.facts.health == b.object.facts.health
        && a.object.extras.labels == b.object.extras.labels
        && a.object.report == b.object.report
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

/// What a list has brought so far.
///
/// An object that is already known in this version costs one pointer, so a relist never doubles the memory.
#[derive(Debug, Default)]
pub(super) struct Staged {
    known: Vec<Arc<LiveObject>>,
    new: Vec<Arc<LiveObject>>,
}

impl Staged {
    /// Takes one object of the list.
    pub(super) fn add(&mut self, object: Arc<LiveObject>, blocks: &Blocks) {
        let key = &object.key;
        match blocks.object(&key.namespace, &key.name) {
            Some(known) if same_version(known, &object) => self.known.push(known.clone()),
            Some(_) | None => self.new.push(object),
        }
    }

    /// Splits the list into what is new or changed, and which known objects of the stream are no longer there.
    pub(super) fn commit(self, blocks: &Blocks, stream: &WatchSpec) -> Commit {
        let listed =
            self.known.iter().map(|object| &object.key).chain(self.new.iter().map(|object| &object.key));
        let seen: HashSet<(&str, &str)> = listed.map(|key| (&*key.namespace, &*key.name)).collect();
        let is_gone = |key: &&ObjectKey| {
            stream.brings(&key.namespace, &key.name) && !seen.contains(&(&*key.namespace, &*key.name))
        };
        let gone = blocks.objects().map(|object| &object.key).filter(is_gone).cloned().collect();
        Commit { changed: self.new, gone }
    }
}

/// What a complete list changes.
#[derive(Debug)]
pub(super) struct Commit {
    /// Objects that are new or differ from what is known.
    pub(super) changed: Vec<Arc<LiveObject>>,
    /// Objects that are known and were not in the list.
    pub(super) gone: Vec<ObjectKey>,
}

/// The same version of the same object, read as the same version of its kind: nothing about it can differ but what of
/// it is read.
pub(super) fn same_version(a: &LiveObject, b: &LiveObject) -> bool {
    !a.resource_version.is_empty()
        && a.resource_version == b.resource_version
        && a.uid == b.uid
        && a.key.kind == b.key.kind
        && a.document == b.document
        // What was found out about a report with time is no part of what is read.
        && a.report.is_none()
        && b.report.is_none()
        && rated_alike(a, b)
}

/// How many autoscalers each object has, and of which that has changed.
#[derive(Debug, Default)]
pub(super) struct Autoscalers {
    of: HashMap<ObjectKey, usize>,
    changed: Vec<ObjectKey>,
}

impl Autoscalers {
    /// Whether an autoscaler sets the replicas of this object.
    pub(super) fn scale(&self, object: &ObjectKey) -> bool {
        self.of.contains_key(object)
    }

    /// An autoscaler that scaled one object scales another one from now on; none where it comes or goes.
    pub(super) fn retarget(&mut self, before: Option<&ObjectKey>, after: Option<&ObjectKey>) {
        if before == after {
            return;
        }
        if let Some(before) = before
            && let Some(count) = self.of.get_mut(before)
        {
            *count -= 1;
            if *count == 0 {
                self.of.remove(before);
                self.changed.push(before.clone());
            }
        }
        if let Some(after) = after {
            let count = self.of.entry(after.clone()).or_default();
            *count += 1;
            if *count == 1 {
                self.changed.push(after.clone());
            }
        }
    }

    /// The objects that have an autoscaler since this was last asked, or have none any more.
    pub(super) fn take_changed(&mut self) -> Vec<ObjectKey> {
        mem::take(&mut self.changed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Autoscalers, ObjectKey};
    use crate::types::Kind;

    fn object(name: &str) -> ObjectKey {
        ObjectKey { kind: Arc::new(Kind::deployment()), namespace: "shop".into(), name: name.into() }
    }

    #[test]
    fn an_object_has_an_autoscaler_until_the_last_one_goes() {
        let (web, api) = (object("web"), object("api"));
        let mut autoscalers = Autoscalers::default();
        let mut check = |before: Option<&ObjectKey>, after: Option<&ObjectKey>, changed: &[&ObjectKey]| {
            autoscalers.retarget(before, after);
            assert_eq!(autoscalers.take_changed().iter().collect::<Vec<_>>(), changed);
            (autoscalers.scale(&web), autoscalers.scale(&api))
        };
        assert_eq!(check(None, Some(&web), &[&web]), (true, false));
        assert_eq!(check(None, Some(&web), &[]), (true, false));
        assert_eq!(check(Some(&web), Some(&web), &[]), (true, false));
        assert_eq!(check(Some(&web), Some(&api), &[&api]), (true, true));
        assert_eq!(check(Some(&web), None, &[&web]), (false, true));
        assert_eq!(check(Some(&api), Some(&web), &[&api, &web]), (true, false));
    }
}
