//! How kinds of the cluster's own are compared becomes known, or changes, while the engine runs.

use std::{collections::HashSet, sync::Arc};

use super::{Engine, Entry, settle::Moment};
use crate::{
    diff::declared::ClusterSchemas,
    types::{Cause, ObjectKey},
};

impl Engine {
    /// Compares with these shapes from now on, everything that is known already too. Says whether anything may have changed.
    pub fn take_shapes(&mut self, shapes: &Arc<ClusterSchemas>) -> bool {
        let changed = shapes.changes_since(&self.shapes);
        self.shapes = shapes.clone();
        let is_meant = |entry: &&Arc<Entry>| {
            let kind = &entry.object.key.kind;
            changed.contains(&(kind.api_version().into(), kind.kind.clone()))
        };
        let of_kinds = self.snapshot.kinds.iter().flat_map(|state| state.blocks.entries());
        let keys: HashSet<ObjectKey> =
            of_kinds.filter(is_meant).map(|entry| entry.object.key.clone()).collect();
        let awaits = shapes.awaits_any();
        let news = !keys.is_empty() || self.snapshot.awaits_shapes != awaits;
        self.snapshot.awaits_shapes = awaits;
        let moment = Moment { counted: false, cause: Cause::Rule, now: self.clock.now() };
        self.settle_at(keys.into_iter().collect(), moment);
        self.snapshot.sequence += u64::from(news);
        news
    }
}
