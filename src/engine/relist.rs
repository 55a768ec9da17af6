//! A complete list on its way in: staged here, committed at its end.

use std::{collections::HashSet, sync::Arc};

use crate::types::{LiveObject, ObjectKey, WatchSpec};

use super::{Blocks, rerate::rated_alike};

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
