//! The cache of objects and claims: copy-on-write blocks per kind, and lists that are being received.
//! After a publish, a write copies the block of the object and a pointer for each other block of its kind.

use std::{collections::HashSet, mem, ops::Range, ptr, sync::Arc};

use super::{ClaimEntry, claim::has_same_rule_inputs, shared_map::SharedMap};
use crate::types::{LiveObject, NameSet, NamespacedName, ObjectKey, Source, WatchSpec};

/// All claims on the objects of one kind, distributed over blocks by a hash of the objects' names.
///
/// The hash is fixed, so that two replicas that receive the same objects build the same blocks.
#[derive(Clone, Debug, Default)]
pub struct ClaimBlocks {
    blocks: Vec<Arc<ClaimBlock>>,
    /// The number of claims in each namespace, by source.
    namespaces: SharedMap<String, [usize; Source::ALL.len()]>,
    claims: usize,
    objects: usize,
}

/// The claims on some objects of one kind, sorted by namespace, name and source.
#[derive(Clone, Debug, Default)]
pub struct ClaimBlock {
    version: u64,
    entries: Vec<Arc<ClaimEntry>>,
}

/// The number of blocks doubles if they hold more claims than this on average.
const BLOCK_CAPACITY: usize = 512;

impl ClaimBlock {
    /// Changes whenever the series of an object in the block change: its claims, shown labels, health or
    /// reports.
    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn entries(&self) -> &[Arc<ClaimEntry>] {
        &self.entries
    }

    /// The position of the claims on this object; empty where they would be inserted.
    fn range(&self, namespace: &str, name: &str) -> Range<usize> {
        let order = |entry: &Arc<ClaimEntry>| entry.key().cmp_within_kind(namespace, name);
        let start = self.entries.partition_point(|entry| order(entry).is_lt());
        let length = self.entries[start..].iter().take_while(|entry| order(entry).is_eq()).count();
        start..start + length
    }
}

impl ClaimBlocks {
    /// The blocks, in a fixed order.
    pub fn blocks(&self) -> &[Arc<ClaimBlock>] {
        &self.blocks
    }

    /// Every claim. Claims on one object are adjacent; there is no other order.
    pub fn entries(&self) -> impl Iterator<Item = &Arc<ClaimEntry>> {
        self.blocks.iter().flat_map(|block| &block.entries)
    }

    /// Every object that exists, once.
    pub fn objects(&self) -> impl Iterator<Item = &Arc<LiveObject>> {
        self.blocks.iter().flat_map(|block| {
            // All claims on an object share it.
            let by_object = block.entries.chunk_by(|one, next| ptr::eq(one.key(), next.key()));
            by_object.filter_map(|claims| claims.first()?.object.live())
        })
    }

    pub fn count(&self) -> usize {
        self.objects
    }

    /// The claims on an object; at least one if it exists.
    pub fn get(&self, namespace: &str, name: &str) -> &[Arc<ClaimEntry>] {
        if self.blocks.is_empty() {
            return &[];
        }
        let block = &self.blocks[block_index(namespace, name, self.blocks.len())];
        &block.entries[block.range(namespace, name)]
    }

    pub fn object(&self, namespace: &str, name: &str) -> Option<&Arc<LiveObject>> {
        self.get(namespace, name).first()?.object.live()
    }

    /// The namespaces that have at least one claim.
    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.namespaces.iter().map(|(name, _)| &**name)
    }

    /// Only the claims in visible namespaces. Blocks that are visible as a whole are shared.
    pub(super) fn scoped_to(&self, is_visible: impl Fn(&str) -> bool) -> Self {
        let is_visible_entry = |entry: &Arc<ClaimEntry>| is_visible(&entry.key().namespace);
        let blocks = self.blocks.iter().map(|block| {
            if block.entries.iter().all(is_visible_entry) {
                return block.clone();
            }
            let entries = block.entries.iter().filter(|entry| is_visible_entry(entry)).cloned().collect();
            Arc::new(ClaimBlock { version: block.version, entries })
        });
        let namespaces = self.namespaces.filtered(|name| is_visible(name));
        let mut scoped = Self { blocks: blocks.collect(), namespaces, ..Self::default() };
        scoped.claims = scoped.entries().count();
        scoped.objects = scoped.objects().count();
        scoped
    }

    /// How many claims and namespaces the other blocks do not share.
    #[cfg(test)]
    pub(super) fn copied_since(&self, before: &Self) -> usize {
        let is_shared = |block: &&Arc<ClaimBlock>| before.blocks.iter().any(|old| Arc::ptr_eq(old, block));
        let copied = self.blocks.iter().filter(|block| !is_shared(block));
        copied.map(|block| block.entries.len()).sum::<usize>()
            + self.namespaces.copied_since(&before.namespaces)
    }

    pub(super) fn has_no_claims(&self, namespace: &str, source: Source) -> bool {
        self.namespaces.get(namespace).is_none_or(|counts| counts[source as usize] == 0)
    }

    /// Replaces all claims on an object; without claims, the object is dropped. Returns whether its series
    /// change; only then the block gets the new `version`.
    pub(super) fn replace(
        &mut self,
        namespace: &str,
        name: &str,
        entries: Vec<Arc<ClaimEntry>>,
        version: u64,
    ) -> bool {
        let old = self.get(namespace, name);
        let old_count = old.len();
        if old_count == 0 && entries.is_empty() {
            return false;
        }
        let changed = old_count != entries.len()
            || old.iter().zip(&entries).any(|(old, new)| !has_same_series(old, new));
        let exists =
            |entries: &[Arc<ClaimEntry>]| entries.first().is_some_and(|entry| entry.object.live().is_some());
        let existed = exists(old);
        if !sources(old).eq(sources(&entries)) {
            let old_sources: Vec<Source> = sources(old).collect();
            self.count_namespace(namespace, &old_sources, &entries);
        }
        self.claims = self.claims + entries.len() - old_count;
        let exists = exists(&entries);
        self.objects = self.objects + usize::from(exists) - usize::from(existed);
        if self.claims > self.blocks.len() * BLOCK_CAPACITY {
            self.grow(version);
        }
        let index = block_index(namespace, name, self.blocks.len());
        let block = Arc::make_mut(&mut self.blocks[index]);
        if changed {
            block.version = version;
        }
        let range = block.range(namespace, name);
        block.entries.splice(range, entries);
        changed
    }

    fn count_namespace(&mut self, namespace: &str, old: &[Source], new: &[Arc<ClaimEntry>]) {
        let counts = self.namespaces.get_or_default(namespace);
        for entry in new {
            counts[entry.claim.source as usize] += 1;
        }
        for source in old {
            counts[*source as usize] -= 1;
        }
        if counts.iter().all(|count| *count == 0) {
            self.namespaces.remove(namespace);
        }
    }

    fn grow(&mut self, version: u64) {
        let old = mem::take(&mut self.blocks);
        let count = (old.len() * 2).max(1);
        let mut blocks = vec![ClaimBlock { version, entries: Vec::new() }; count];
        // The order is kept: old blocks are sorted, and all claims of a new block come from one old block.
        for entry in old.iter().flat_map(|block| &block.entries) {
            let key = entry.key();
            blocks[block_index(&key.namespace, &key.name, count)].entries.push(entry.clone());
        }
        self.blocks = blocks.into_iter().map(Arc::new).collect();
    }
}

fn sources(entries: &[Arc<ClaimEntry>]) -> impl Iterator<Item = Source> {
    entries.iter().map(|entry| entry.claim.source)
}

fn has_same_series(a: &ClaimEntry, b: &ClaimEntry) -> bool {
    a.claim == b.claim
        && a.object.rule_inputs().labels == b.object.rule_inputs().labels
        && match (a.object.live(), b.object.live()) {
            (Some(a), Some(b)) => a.facts.health == b.facts.health && a.report == b.report,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        }
}

/// FNV-1a over namespace and name, separated by a zero byte, which no name contains.
fn block_index(namespace: &str, name: &str, blocks: usize) -> usize {
    let bytes = namespace.bytes().chain([0]).chain(name.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let blocks = u64::try_from(blocks).unwrap_or(u64::MAX);
    usize::try_from(hash % blocks).unwrap_or(0)
}

/// A list that is being received. It becomes visible as a whole when it ends.
///
/// An object that is cached in the same version costs one pointer, so a relist never doubles the memory.
#[derive(Debug, Default)]
pub(super) struct StagedList {
    unchanged: Vec<Arc<LiveObject>>,
    changed: Vec<Arc<LiveObject>>,
    /// Objects with an event since the list was requested.
    superseded: NameSet,
}

impl StagedList {
    pub(super) fn supersede(&mut self, namespace: &str, name: &str) {
        self.superseded.insert(namespace, name);
    }

    pub(super) fn add(&mut self, object: Arc<LiveObject>, cache: &ClaimBlocks) {
        let key = &object.key;
        match cache.object(&key.namespace, &key.name) {
            Some(cached) if is_same_version(cached, &object) => self.unchanged.push(cached.clone()),
            Some(_) | None => self.changed.push(object),
        }
    }

    /// The objects that are new or differ from the cached ones, and the cached objects of the watch that are
    /// not in the list. Superseded objects are in neither.
    pub(super) fn diff(
        mut self,
        cache: &ClaimBlocks,
        watch: &WatchSpec,
    ) -> (Vec<Arc<LiveObject>>, Vec<ObjectKey>) {
        let superseded = &self.superseded;
        let is_superseded = |key: &ObjectKey| superseded.has(&key.namespace, &key.name);
        self.changed.retain(|object| !is_superseded(&object.key));
        let listed = self.unchanged.iter().chain(&self.changed).map(|object| &object.key);
        let listed: HashSet<NamespacedName<&str>> = listed.map(ObjectKey::namespaced_name).collect();
        let is_deleted = |key: &&ObjectKey| {
            watch.delivers(&key.namespace, &key.name)
                && !listed.contains(&key.namespaced_name())
                && !is_superseded(key)
        };
        let deleted = cache.objects().map(|object| &object.key).filter(is_deleted).cloned().collect();
        (self.changed, deleted)
    }
}

/// Whether both are the same version of one object, decoded in the same way. The resource version does not
/// suffice: another `DecodeConfig` reads other parts of the object.
pub(super) fn is_same_version(a: &LiveObject, b: &LiveObject) -> bool {
    !a.resource_version.is_empty()
        && a.resource_version == b.resource_version
        && a.uid == b.uid
        && a.key.kind == b.key.kind
        && a.hash_baseline.has_same_hashes(&b.hash_baseline)
        && a.document == b.document
        && a.applied == b.applied
        && a.helm_release == b.helm_release
        // Reports depend on the time, too.
        && a.report.is_none()
        && b.report.is_none()
        && has_same_rule_inputs(a, b)
}

/// Whether no source and no rule can distinguish two versions of an object.
pub(super) fn is_equivalent(a: &LiveObject, b: &LiveObject) -> bool {
    a.key.kind == b.key.kind
        && a.hash_baseline == b.hash_baseline
        && a.document == b.document
        && a.report == b.report
        && a.applied == b.applied
        && has_same_rule_inputs(a, b)
}

#[cfg(test)]
mod tests {
    use super::{LiveObject, ObjectKey, is_same_version};
    use crate::types::{
        DeclaredBody, DeclaredObject, Kind, LastApplied, ObjectRef, RedactionKey, UnknownReason,
    };

    #[test]
    fn object_with_another_last_applied_baseline_is_not_the_same_version() {
        let object = |applied: Option<UnknownReason>| {
            let name = ObjectRef::new("apps", "v1", "Deployment", "shop", "web");
            let declared = |reason| {
                let key = RedactionKey::new([1; 32]);
                DeclaredObject::new("Deployment", name, key, DeclaredBody::Opaque(reason))
            };
            LiveObject {
                resource_version: "7".into(),
                applied: applied
                    .map_or(LastApplied::Absent, |reason| LastApplied::Declared(Box::new(declared(reason)))),
                ..LiveObject::named(ObjectKey::new(Kind::deployment(), "shop", "web"))
            }
        };
        let [absent, unreadable, invalid] =
            [None, Some(UnknownReason::Unreadable), Some(UnknownReason::UnreadableBaseline)].map(object);
        assert!(is_same_version(&absent, &absent) && is_same_version(&invalid, &invalid.clone()));
        for (cached, listed) in [(&absent, &unreadable), (&unreadable, &absent), (&unreadable, &invalid)] {
            assert!(!is_same_version(cached, listed), "{cached:?} {listed:?}");
        }
    }
}
