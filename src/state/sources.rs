//! Baselines come, change and go while the engine runs.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Engine, KindState, StreamState, engine::is_answer, opinion::Presence, settle::Moment};
use crate::model::{Baseline, Cause, Kind, ObjectKey, Source, StreamHealth};

impl Engine {
    /// Takes in a baseline as it is from now on.
    pub(super) fn take_baseline(&mut self, baseline: &Arc<Baseline>, now: Timestamp) -> bool {
        if let Some(trouble) = &baseline.fault {
            self.metrics.baseline_failed(baseline.source, trouble.fault);
        }
        let touched = self.baselines.put(baseline, now);
        self.settle_again(touched, now);
        self.decide_baselines(now);
        self.show_baselines()
    }

    /// A baseline is gone, and what it declared with it.
    pub(super) fn lose_baseline(&mut self, source: Source, name: &Arc<str>, now: Timestamp) -> bool {
        let touched = self.baselines.remove(source, name);
        self.settle_again(touched, now);
        self.show_baselines()
    }

    /// Whether the baselines of a source can be found.
    pub(super) fn source_fares(&mut self, source: Source, health: StreamHealth) -> bool {
        Arc::make_mut(&mut self.snapshot.ledger).know(source);
        self.metrics.know(source);
        let before = self.snapshot.sources.insert(source, health);
        self.snapshot.note_readiness();
        let changed = before.as_ref() != self.snapshot.sources.get(&source);
        self.snapshot.sequence += u64::from(changed);
        changed
    }

    /// Locks hold for some time at most.
    pub(super) fn let_locks_expire(&mut self, now: Timestamp) -> bool {
        let touched = self.baselines.look_at_locks(now);
        let changed = !touched.is_empty();
        self.settle_again(touched, now);
        changed && self.show_baselines()
    }

    /// Baselines are of this cluster, as has just been found out by one of these objects.
    pub(super) fn accept_proof(&mut self, keys: Vec<ObjectKey>, now: Timestamp) {
        if !keys.is_empty() {
            self.settle_again(keys, now);
            self.show_baselines();
        }
    }

    /// Asks all sources again about these objects, because something changed that they say.
    fn settle_again(&mut self, keys: Vec<ObjectKey>, now: Timestamp) {
        for key in keys {
            let presence = self.presence(&key);
            // Of what was not looked for nothing is said, and what was said stands.
            if !matches!(presence, Presence::Unseen) || !self.baselines.is_declared(&key) {
                self.settle(&key, &presence, Moment { counted: false, cause: Cause::Deleted, now });
            }
        }
    }

    /// Asks again about declared objects of a kind that are not there: its streams have been answered.
    pub(super) fn settle_kind(&mut self, kind: &Kind, counted: bool, now: Timestamp) {
        for key in self.baselines.keys_of_kind(kind) {
            let presence = self.presence(&key);
            if matches!(presence, Presence::Absent | Presence::Unwatched) {
                self.settle(&key, &presence, Moment { counted, cause: Cause::Deleted, now });
            }
        }
        self.decide_baselines(now);
    }

    /// Finds out which baselines are of another cluster, where all of their objects were looked for.
    fn decide_baselines(&mut self, now: Timestamp) {
        let kinds = &self.snapshot.kinds;
        let is_looked_for = |key: &ObjectKey| !matches!(presence(kinds, key), Presence::Unseen);
        let touched = self.baselines.decide(is_looked_for);
        if !touched.is_empty() {
            self.settle_again(touched, now);
            self.show_baselines();
        }
    }

    /// Publishes what is known about the baselines.
    fn show_baselines(&mut self) -> bool {
        self.snapshot.baselines = self.baselines.all().cloned().collect();
        self.snapshot.sequence += 1;
        true
    }

    fn presence(&self, key: &ObjectKey) -> Presence {
        presence(&self.snapshot.kinds, key)
    }

    /// What is known about an object that a stream has just told to be gone.
    pub(super) fn presence_without_object(&self, key: &ObjectKey) -> Presence {
        let state = self.snapshot.kinds.iter().find(|state| state.kind.is_same_type(&key.kind));
        state.map_or(Presence::Unseen, |state| absence(state, key))
    }

    /// The same object, under the kind as the cluster has it.
    pub(super) fn known_key(&self, key: &ObjectKey) -> ObjectKey {
        let state = self.snapshot.kinds.iter().find(|state| state.kind.is_same_type(&key.kind));
        let kind = state.map_or_else(|| key.kind.clone(), |state| state.kind.clone());
        ObjectKey { kind, ..key.clone() }
    }
}

fn presence(kinds: &[Arc<KindState>], key: &ObjectKey) -> Presence {
    let Some(state) = kinds.iter().find(|state| state.kind.is_same_type(&key.kind)) else {
        return Presence::Unseen;
    };
    match state.blocks.object(&key.namespace, &key.name) {
        Some(object) => Presence::Exists(object.clone()),
        None => absence(state, key),
    }
}

/// What it means that an object does not come.
fn absence(state: &KindState, key: &ObjectKey) -> Presence {
    let would_bring = |stream: &&StreamState| stream.spec.misses_nothing(&key.namespace, &key.name);
    let mut streams = state.streams.iter().filter(would_bring);
    if streams.clone().any(|stream| stream.listed) {
        return Presence::Absent;
    }
    let refused = |stream: &StreamState| is_answer(&stream.health);
    let unwatchable = state.streams.iter().any(|stream| stream.spec.is_nothing() && refused(stream));
    if streams.any(refused) || unwatchable { Presence::Unwatched } else { Presence::Unseen }
}
