//! The watches of the plan, and the state of each of them in the snapshot.

use std::{collections::BTreeMap, sync::Arc};

use super::{ClaimBlocks, KindState, PlannedWatch, WatchState, snapshot::is_refused, store::StagedList};
use crate::types::{SyncHealth, WatchId, WatchPlan, WatchSpec};

#[derive(Debug)]
pub(super) struct OpenWatch {
    /// The index of its kind in the snapshot.
    pub(super) kind: usize,
    /// The index of its state in that kind.
    pub(super) state: usize,
    /// The list that is being received.
    pub(super) staged: Option<StagedList>,
    /// Whether it selects other objects than the watches that it replaces: objects that are not in its first
    /// list are not deleted, but no longer selected.
    pub(super) reselected: bool,
}

/// The kinds of a plan without objects, ordered by name. Watches that are open already keep their state.
pub(super) fn planned_kinds(plan: &WatchPlan, old_kinds: &[Arc<KindState>]) -> Vec<KindState> {
    let old_watches = old_kinds.iter().flat_map(|old| old.watches.iter());
    let old_watches: BTreeMap<WatchId, &WatchState> = old_watches
        .filter_map(|watch| match watch.planned {
            PlannedWatch::Open(id) => Some((id, watch)),
            PlannedWatch::Unwatched => None,
        })
        .collect();
    let open = plan.watches.iter().map(|watch| {
        let old = old_watches.get(&watch.id).map(|old| WatchState::clone(old));
        old.unwrap_or_else(|| new_watch(PlannedWatch::Open(watch.id), &watch.spec, SyncHealth::Starting))
    });
    let unwatched = plan
        .unwatched
        .iter()
        .map(|unwatched| new_watch(PlannedWatch::Unwatched, &unwatched.spec, unwatched.health.clone()));
    let mut kinds: Vec<Vec<WatchState>> = Vec::new();
    for watch in open.chain(unwatched) {
        match kinds.iter_mut().find(|watches| watches[0].spec.kind.is_same_type(&watch.spec.kind)) {
            Some(watches) => watches.push(watch),
            None => kinds.push(vec![watch]),
        }
    }
    kinds.sort_by(|a, b| {
        let [a, b] = [a, b].map(|watches| &*watches[0].spec.kind);
        (&a.kind, &a.group).cmp(&(&b.kind, &b.group))
    });
    let state = |watches: Vec<WatchState>| KindState {
        kind: watches[0].spec.kind.clone(),
        watches: watches.into(),
        blocks: ClaimBlocks::default(),
    };
    kinds.into_iter().map(state).collect()
}

fn new_watch(planned: PlannedWatch, spec: &Arc<WatchSpec>, health: SyncHealth) -> WatchState {
    WatchState { planned, spec: spec.clone(), first_list_ended: is_refused(&health), health, synced: false }
}

pub(super) fn has_same_watches(new: &[KindState], old: &[Arc<KindState>]) -> bool {
    new.len() == old.len() && new.iter().zip(old).all(|(new, old)| new.watches == old.watches)
}
