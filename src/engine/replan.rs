//! Streams come and go while the engine runs.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Blocks, Engine, KindState, WatchState, engine::is_answer, settle::Moment};
use crate::types::{Cause, ObjectKey, Plan, WatchHealth, WatchSpec};

impl Engine {
    /// Knows these streams from now on, and no others. What none of them covers is let go of; what a new one covers
    /// stands until its first list. Says whether anything changed.
    pub(super) fn replan(&mut self, plan: &Plan, now: Timestamp) -> bool {
        let kinds = kinds_of(plan, &self.snapshot.kinds);
        if same_streams(&kinds, &self.snapshot.kinds) {
            return false;
        }
        let lost = self.let_go(plan, &kinds, now);
        self.note_reselected(&kinds);
        let old = std::mem::take(&mut self.snapshot.kinds);
        for state in old.iter().filter(|old| !plan.watches(&old.kind)) {
            self.metrics.forget(&state.kind);
        }
        self.snapshot.kinds = kinds
            .into_iter()
            .map(|mut new| {
                if let Some(old) = old.iter().find(|old| old.kind.is_same_type(&new.kind)) {
                    new.blocks = old.blocks.clone();
                }
                Arc::new(new)
            })
            .collect();
        let open = |spec: &Arc<WatchSpec>| plan.streams.contains(spec);
        self.staged.retain(|spec, _| open(spec));
        self.reselected.retain(open);
        for (key, cause) in lost {
            self.lose(&key, Moment { counted: true, cause, now });
        }
        // What cannot be watched has no stream that would tell.
        for state in self.snapshot.kinds.clone() {
            if state.streams.iter().any(|stream| is_answer(&stream.health)) {
                self.settle_kind(&state.kind, false, now);
            }
        }
        self.snapshot.note_readiness();
        self.snapshot.sequence += 1;
        true
    }

    /// Forgets the objects of kinds that are no longer wanted. Gives those of other kinds that no stream brings any more:
    /// something may go on declaring them.
    fn let_go(&mut self, plan: &Plan, kinds: &[KindState], now: Timestamp) -> Vec<(ObjectKey, Cause)> {
        let mut lost = Vec::new();
        for old in self.snapshot.kinds.clone() {
            let new = kinds.iter().find(|new| new.kind.is_same_type(&old.kind));
            let covered = |key: &ObjectKey| {
                let brings = |stream: &WatchState| stream.spec.brings(&key.namespace, &key.name);
                new.is_some_and(|new| new.streams.iter().any(brings))
            };
            // Who takes a kind out of the cluster takes its objects with it; who takes it out of the settings does not.
            let cause = if plan.lacks(&old.kind) { Cause::Deleted } else { Cause::Rule };
            for entry in old.blocks.entries().filter(|entry| !covered(&entry.object.key)) {
                match new {
                    Some(_) => lost.push((entry.object.key.clone(), cause)),
                    None => drop(self.forget(&entry.object.key, cause, now)),
                }
            }
        }
        lost
    }

    /// Notes which new streams ask for something else than those that they take over from.
    fn note_reselected(&mut self, kinds: &[KindState]) {
        for new in kinds {
            let old = self.snapshot.kinds.iter().find(|old| old.kind.is_same_type(&new.kind));
            let before: Vec<&Arc<WatchSpec>> =
                old.iter().flat_map(|old| &old.streams).map(|stream| &stream.spec).collect();
            for stream in &new.streams {
                let known = before.iter().any(|before| before.asks_like(&stream.spec));
                if !known {
                    self.reselected.insert(stream.spec.clone());
                }
            }
        }
    }
}

/// The kinds of a plan without objects, in the order of their names; streams that were open before are as they were.
fn kinds_of(plan: &Plan, old: &[Arc<KindState>]) -> Vec<KindState> {
    let mut kinds: Vec<KindState> = Vec::new();
    let opened = plan.streams.iter().map(|spec| {
        let known = old.iter().flat_map(|old| &old.streams).find(|own| own.spec == *spec);
        known.cloned().unwrap_or_else(|| new_stream(spec, WatchHealth::Starting))
    });
    let unwatched = plan.unwatched.iter().map(|own| new_stream(&own.spec, own.health.clone()));
    for stream in opened.chain(unwatched) {
        match kinds.iter_mut().find(|state| state.kind.is_same_type(&stream.spec.kind)) {
            Some(state) => state.streams.push(stream),
            None => kinds.push(KindState {
                kind: stream.spec.kind.clone(),
                streams: vec![stream],
                blocks: Blocks::default(),
            }),
        }
    }
    kinds.sort_by(|a, b| (&a.kind.kind, &a.kind.group).cmp(&(&b.kind.kind, &b.kind.group)));
    kinds
}

fn new_stream(spec: &Arc<WatchSpec>, health: WatchHealth) -> WatchState {
    WatchState { spec: spec.clone(), answered: is_answer(&health), health, listed: false }
}

fn same_streams(new: &[KindState], old: &[Arc<KindState>]) -> bool {
    new.len() == old.len() && new.iter().zip(old).all(|(new, old)| new.streams == old.streams)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use prometheus_client::registry::Registry;

    use crate::{
        engine::{Engine, EngineMetrics, History},
        types::{
            Clock, Digest, Event, HashBaseline, Kind, LiveObject, ObjectKey, Plan, Source, WatchHealth,
            WatchSpec,
        },
    };

    fn object(spec: &WatchSpec) -> Arc<LiveObject> {
        Arc::new(LiveObject {
            exists: true,
            uid: "uid".into(),
            resource_version: "1".into(),
            stamp: HashBaseline::Match(Digest::of(b"")),
            ..LiveObject::absent(ObjectKey {
                kind: spec.kind.clone(),
                namespace: "shop".into(),
                name: "web".into(),
            })
        })
    }

    #[test]
    fn what_a_closed_stream_says_comes_too_late() {
        let spec = Arc::new(WatchSpec::whole(Arc::new(Kind::service())));
        let open = Plan { streams: vec![spec.clone()], ..Plan::default() };
        let metrics = EngineMetrics::register(&mut Registry::default());
        let clock = Clock::new(|| Timestamp::UNIX_EPOCH);
        let mut engine =
            Engine::new(&open, Arc::default(), &[Source::Annotation], History::default(), metrics, clock);
        assert!(engine.apply(Event::Applied(spec.clone(), object(&spec))));
        engine.apply(Event::ListStarted(spec.clone()));
        assert!(engine.apply(Event::Plan(Arc::new(Plan::default()))));
        assert!(engine.snapshot().kinds.is_empty());
        for late in [
            Event::Listed(spec.clone(), object(&spec)),
            Event::ListEnded(spec.clone()),
            Event::ListStarted(spec.clone()),
            Event::ListEnded(spec.clone()),
            Event::Applied(spec.clone(), object(&spec)),
            Event::Deleted { stream: spec.clone(), namespace: "shop".into(), name: "web".into() },
            Event::WatchHealth(spec.clone(), WatchHealth::Up),
        ] {
            let told = format!("{late:?}");
            assert!(!engine.apply(late), "{told}");
        }
        assert!(engine.apply(Event::Plan(Arc::new(open.clone()))));
        assert!(!engine.apply(Event::Plan(Arc::new(open))), "the same plan is no news");
        let snapshot = engine.snapshot();
        assert_eq!((snapshot.kinds[0].blocks.count(), snapshot.kinds[0].streams[0].listed), (0, false));
    }
}
