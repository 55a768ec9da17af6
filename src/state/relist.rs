//! A complete list on its way in: staged here, committed at its end.

use std::{collections::HashSet, sync::Arc};

use crate::model::LiveObject;

use super::{Blocks, Entry, rerate::rated_alike};

/// What a list has brought so far.
///
/// An object that is already known in this version costs one pointer, so a relist never doubles the memory.
#[derive(Debug, Default)]
pub(super) struct Staged {
    known: Vec<Arc<Entry>>,
    new: Vec<LiveObject>,
}

impl Staged {
    /// Takes one object of the list.
    pub(super) fn add(&mut self, object: LiveObject, blocks: &Blocks) {
        let key = &object.key;
        match blocks.get(&key.namespace, &key.name) {
            Some(entry) if same_version(&entry.object, &object) => self.known.push(entry.clone()),
            Some(_) | None => self.new.push(object),
        }
    }

    /// Splits the list into what is new or changed, and which known objects of the stream are no longer there.
    pub(super) fn commit(self, blocks: &Blocks, covers: impl Fn(&str) -> bool) -> Commit {
        let mut seen: HashSet<(&str, &str)> = HashSet::with_capacity(self.known.len() + self.new.len());
        for entry in &self.known {
            seen.insert((&entry.object.key.namespace, &entry.object.key.name));
        }
        for object in &self.new {
            seen.insert((&object.key.namespace, &object.key.name));
        }
        let gone = blocks
            .entries()
            .filter(|entry| {
                let key = &entry.object.key;
                covers(&key.namespace) && !seen.contains(&(&*key.namespace, &*key.name))
            })
            .cloned()
            .collect();
        Commit { changed: self.new, gone }
    }
}

/// What a complete list changes.
#[derive(Debug)]
pub(super) struct Commit {
    /// Objects that are new or differ from what is known.
    pub(super) changed: Vec<LiveObject>,
    /// Objects that are known and were not in the list.
    pub(super) gone: Vec<Arc<Entry>>,
}

/// The same version of the same object, read as the same version of its kind: nothing about it can differ but what of
/// it is read.
pub(super) fn same_version(a: &LiveObject, b: &LiveObject) -> bool {
    !a.resource_version.is_empty()
        && a.resource_version == b.resource_version
        && a.uid == b.uid
        && a.key.kind == b.key.kind
        && rated_alike(a, b)
}
