//! Baselines come, change and go while the engine runs.

use std::{collections::HashSet, sync::Arc};

use jiff::Timestamp;
use tracing::warn;

use super::{
    Engine, KindState, WatchState,
    engine::is_answer,
    metrics::{CLAIMED_TWICE, DUPLICATE_ADDRESS, NOT_YAML, OTHER_CLUSTER, STALE_LOCK},
    opinion::Presence,
    settle::Moment,
};
use crate::types::{
    Baseline, BaselineFault, Cause, Kind, LiveObject, ObjectKey, SkipReason, Source, WatchHealth,
};

impl Engine {
    /// Takes in a baseline as it is from now on.
    pub(super) fn take_baseline(&mut self, baseline: &Arc<Baseline>, now: Timestamp) -> bool {
        self.complain(baseline);
        let mut touched = self.baselines.put(baseline, now);
        // What is here already may prove where the baseline belongs.
        let live: Vec<Arc<LiveObject>> =
            touched.iter().filter_map(|key| object(&self.snapshot.kinds, key)).cloned().collect();
        touched.extend(live.iter().flat_map(|object| self.baselines.learn_from(object)));
        self.settle_again(touched, Cause::Absorbed, now);
        self.decide_baselines(now);
        self.show_baselines()
    }

    /// A baseline is gone, and what it declared with it.
    pub(super) fn lose_baseline(&mut self, source: Source, name: &Arc<str>, now: Timestamp) -> bool {
        let touched = self.baselines.remove(source, name);
        self.settle_again(touched, Cause::Rule, now);
        self.show_baselines()
    }

    /// Counts and logs what is wrong with a baseline and was not before.
    fn complain(&self, baseline: &Baseline) {
        let before = self.baselines.get(baseline.source, &baseline.name).map(|own| &own.baseline);
        let fault = |own: &Baseline| own.fault.as_ref().map(|own| own.fault);
        if let Some(new) = fault(baseline).filter(|_| before.and_then(|own| fault(own)) != fault(baseline)) {
            self.metrics.baseline_failed(baseline.source, new.as_str());
        }
        for (reason, word, what) in [
            (SkipReason::Duplicate, DUPLICATE_ADDRESS, "Something is there twice; the first of each counts."),
            (SkipReason::NotYaml, NOT_YAML, "Documents are no YAML; they are not compared."),
            (
                SkipReason::Unreadable,
                BaselineFault::Unreadable.as_str(),
                "Files cannot be read; what they declare is not known.",
            ),
        ] {
            let count = |own: &Baseline| own.skipped.iter().filter(|own| own.reason == reason).count();
            if count(baseline) > before.map_or(0, |own| count(own)) {
                warn!(state = %baseline.name, count = count(baseline), "{what}");
                self.metrics.baseline_failed(baseline.source, word);
            }
        }
        for object in &baseline.objects {
            if let Some(other) = self.baselines.other_owner(baseline, object) {
                warn!(state = %baseline.name, address = %object.address, other = %other, "Two baselines declare one object.");
                self.metrics.baseline_failed(baseline.source, CLAIMED_TWICE);
            }
        }
    }

    /// A source is switched off.
    pub(super) fn lose_source(&mut self, source: Source) -> bool {
        let was_there = self.snapshot.sources.remove(&source).is_some();
        self.snapshot.note_readiness();
        self.snapshot.sequence += u64::from(was_there);
        was_there
    }

    /// Whether the baselines of a source can be found.
    pub(super) fn source_fares(&mut self, source: Source, health: WatchHealth) -> bool {
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
        for (source, name) in self.baselines.take_stale_locks(now) {
            warn!(%source, state = %name, "It is being written for longer than anybody writes; differences count again.");
            self.metrics.baseline_failed(source, STALE_LOCK);
        }
        let changed = !touched.is_empty();
        self.settle_again(touched, Cause::Rule, now);
        changed && self.show_baselines()
    }

    /// Baselines are of this cluster, as has just been found out by one of these objects.
    /// `done`: what has been asked about since.
    pub(super) fn accept_proof(
        &mut self,
        mut keys: Vec<ObjectKey>,
        done: &HashSet<ObjectKey>,
        now: Timestamp,
    ) {
        if !keys.is_empty() {
            keys.retain(|key| !done.contains(key));
            self.settle_again(keys, Cause::Rule, now);
            self.show_baselines();
        }
    }

    /// Asks all sources again about these objects, because something changed that they say. `cause`: why claims end that are
    /// no longer made.
    fn settle_again(&mut self, keys: Vec<ObjectKey>, cause: Cause, now: Timestamp) {
        self.settle_at(keys, Moment { counted: false, cause, now });
    }

    /// Asks all sources again about these objects. `moment`: in which circumstances.
    pub(super) fn settle_at(&mut self, keys: Vec<ObjectKey>, moment: Moment) {
        for key in keys {
            let presence = self.presence(&key);
            // Of what was not looked for nothing is said, and what was said stands.
            if !matches!(presence, Presence::Unseen) || !self.baselines.is_declared(&key) {
                self.settle(&key, &presence, moment);
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
        let is_looked_for = |key: &ObjectKey| match presence(kinds, key) {
            Presence::Exists(_) | Presence::Absent => Some(true),
            Presence::Unwatched => None,
            Presence::Unseen => Some(false),
        };
        let decided = self.baselines.decide(is_looked_for);
        for (source, name) in decided.elsewhere {
            warn!(%source, state = %name, "None of its objects is in this cluster; it is not compared.");
            self.metrics.baseline_failed(source, OTHER_CLUSTER);
        }
        let touched = decided.touched;
        if !touched.is_empty() {
            self.settle_again(touched, Cause::Rule, now);
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
        of_type(&self.snapshot.kinds, &key.kind).map_or(Presence::Unseen, |state| absence(state, key))
    }

    /// The same object, under the kind as the cluster has it, in the version that it would come in.
    pub(super) fn known_key(&self, key: &ObjectKey) -> ObjectKey {
        let Some(state) = of_type(&self.snapshot.kinds, &key.kind) else { return key.clone() };
        let brings = |stream: &&WatchState| stream.spec.brings(&key.namespace, &key.name);
        let kind = state.streams.iter().find(brings).map_or(&state.kind, |stream| &stream.spec.kind);
        ObjectKey { kind: kind.clone(), ..key.clone() }
    }
}

fn presence(kinds: &[Arc<KindState>], key: &ObjectKey) -> Presence {
    match (object(kinds, key), of_type(kinds, &key.kind)) {
        (Some(object), _) => Presence::Exists(object.clone()),
        (None, Some(state)) => absence(state, key),
        (None, None) => Presence::Unseen,
    }
}

fn object<'a>(kinds: &'a [Arc<KindState>], key: &ObjectKey) -> Option<&'a Arc<LiveObject>> {
    of_type(kinds, &key.kind)?.blocks.object(&key.namespace, &key.name)
}

fn of_type<'a>(kinds: &'a [Arc<KindState>], kind: &Kind) -> Option<&'a Arc<KindState>> {
    kinds.iter().find(|state| state.kind.is_same_type(kind))
}

/// What it means that an object does not come.
fn absence(state: &KindState, key: &ObjectKey) -> Presence {
    let would_bring = |stream: &&WatchState| stream.spec.misses_nothing(&key.namespace, &key.name);
    let mut streams = state.streams.iter().filter(would_bring);
    if streams.clone().any(|stream| stream.listed) {
        return Presence::Absent;
    }
    let refused = |stream: &WatchState| is_answer(&stream.health);
    let unwatchable = state.streams.iter().any(|stream| stream.spec.is_nothing() && refused(stream));
    if streams.any(refused) || unwatchable { Presence::Unwatched } else { Presence::Unseen }
}
