//! Applies changes to what is known. The only writer.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};

use super::{
    DriftCounters, EngineMetrics, Entry, History, KindState, RuleBook, Snapshot, Transition, WatchState,
    autoscalers::Autoscalers,
    baselines::Baselines,
    claim::Step,
    grace::Resting,
    history::{EpisodeNote, Turn},
    ledger::Place,
    metrics::UNCHANGED,
    opinion::Presence,
    relist::{Staged, same_version},
    settle::{Moment, is_alike},
};
use crate::{
    diff::declared::ClusterSchemas,
    rules::RuleSet,
    types::{
        Cause, Clock, DownReason, Event, HashBaseline, Kind, LiveObject, ObjectKey, Plan, Source,
        VerdictKind, WatchHealth, WatchSpec,
    },
};

/// Episodes are counted on an object for this long after the last one.
const FLAPPING_WINDOW: SignedDuration = SignedDuration::from_hours(24);

/// Holds the state and folds changes into it.
#[derive(Debug)]
pub struct Engine {
    pub(super) clock: Clock,
    pub(super) metrics: EngineMetrics,
    pub(super) snapshot: Snapshot,
    /// Lists under way.
    pub(super) staged: HashMap<Arc<WatchSpec>, Staged>,
    /// Streams that took over from others that asked for something else: what their first list lacks was not deleted.
    pub(super) reselected: HashSet<Arc<WatchSpec>>,
    /// Claims whose episodes are counted, each once, by when to look whether they have kept quiet for a day.
    flapping: VecDeque<(Timestamp, ObjectKey, Source)>,
    /// Goes into blocks whose claims change; never used twice.
    pub(super) version: u64,
    /// What is declared elsewhere than on the objects.
    pub(super) baselines: Baselines,
    /// How kinds of the cluster's own are compared.
    pub(super) shapes: Arc<ClusterSchemas>,
    /// Which objects are scaled by others.
    pub(super) autoscalers: Autoscalers,
    /// Objects whose controllers are at work or behind, and that does not count yet.
    pub(super) resting: Resting,
    /// When it was last looked which rules have expired.
    pub(super) looked: Timestamp,
}

impl Engine {
    /// An engine that knows these streams and rules, and nothing else.
    pub fn new(
        plan: &Plan,
        rules: Arc<RuleSet>,
        sources: &[Source],
        history: History,
        metrics: EngineMetrics,
        clock: Clock,
    ) -> Self {
        let ledger = Arc::new(DriftCounters::new(sources));
        let awaited = sources.iter().filter(|source| !source.is_on_object());
        let snapshot = Snapshot {
            ledger,
            history,
            rules: Arc::new(RuleBook::new(rules)),
            sources: awaited.map(|source| (*source, WatchHealth::Starting)).collect(),
            ..Snapshot::default()
        };
        sources.iter().for_each(|source| metrics.know_on_objects(*source));
        let looked = clock.now();
        let mut engine = Self {
            clock,
            metrics,
            snapshot,
            staged: HashMap::new(),
            reselected: HashSet::new(),
            flapping: VecDeque::new(),
            version: 0,
            baselines: Baselines::default(),
            shapes: Arc::default(),
            autoscalers: Autoscalers::default(),
            resting: Resting::default(),
            looked,
        };
        engine.replan(plan, looked);
        engine
    }

    /// The picture to publish.
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot.clone()
    }

    /// Applies one change. Says whether there is anything new to publish.
    pub fn apply(&mut self, change: Event) -> bool {
        let begun = std::time::Instant::now();
        let now = self.clock.now();
        let changed = match change {
            Event::Plan(plan) => self.replan(&plan, now),
            Event::ListStarted(stream) => {
                if kind_state(&self.snapshot, &stream).is_some() {
                    self.staged.insert(stream, Staged::default());
                }
                false
            }
            Event::Listed(stream, object) => {
                if let Some((staged, state)) =
                    self.staged.get_mut(&stream).zip(kind_state(&self.snapshot, &stream))
                {
                    staged.add(object, &state.blocks);
                }
                false
            }
            Event::ListEnded(stream) => self.commit(&stream, now),
            Event::Applied(stream, object) => {
                let seen = self.see(&stream, object, true, now);
                self.metrics.took(begun.elapsed());
                seen
            }
            Event::Deleted { stream, namespace, name } => {
                let key = ObjectKey { kind: stream.kind.clone(), namespace, name };
                kind_state(&self.snapshot, &stream).is_some()
                    && self.lose(&key, Moment { counted: true, cause: Cause::Deleted, now })
            }
            Event::WatchHealth(stream, health) => self.stream_fares(&stream, health, now),
            Event::Baseline(baseline) => self.take_baseline(&baseline, now),
            Event::BaselineRemoved(source, name) => self.lose_baseline(source, &name, now),
            Event::SourceHealth(source, health) => self.source_fares(source, health),
            Event::SourceRemoved(source) => self.lose_source(source),
            Event::Tick => {
                let expired = self.let_rules_expire(now);
                let unlocked = self.let_locks_expire(now);
                let rested = self.let_rests_end(now);
                self.forget_old_episodes(now) || expired || unlocked || rested
            }
        };
        self.rate_scaled_again(now) || changed
    }

    /// Makes a complete list the truth about its stream.
    fn commit(&mut self, stream: &Arc<WatchSpec>, now: Timestamp) -> bool {
        let Some(staged) = self.staged.remove(stream) else {
            return false;
        };
        let Some(state) = kind_state(&self.snapshot, stream) else {
            return false;
        };
        let commit = staged.commit(&state.blocks, stream);
        // What stands at the first list began before we looked; what a later one shows began while we watched.
        let counted = state.streams.iter().any(|own| own.spec == *stream && own.listed);
        let cause = if self.reselected.remove(stream) { Cause::Rule } else { Cause::Deleted };
        if let Some(own) = self.stream_mut(stream) {
            own.listed = true;
            own.answered = true;
            own.health = WatchHealth::Up;
        }
        for key in commit.gone {
            self.lose(&key, Moment { counted, cause, now });
        }
        // Where a baseline belongs is found out before anything is said about its objects.
        let proved: Vec<ObjectKey> =
            commit.changed.iter().flat_map(|object| self.baselines.learn_from(object)).collect();
        // A first list may have many thousands of names, which are of use only where something was proved.
        let seen: HashSet<ObjectKey> = if proved.is_empty() {
            HashSet::new()
        } else {
            commit.changed.iter().map(|object| object.key.clone()).collect()
        };
        for object in commit.changed {
            self.see(stream, object, counted, now);
        }
        self.accept_proof(proved, &seen, now);
        self.settle_kind(&stream.kind, counted, now);
        self.snapshot.note_readiness();
        self.snapshot.sequence += 1;
        true
    }

    /// Takes in an object. `counted`: an episode that shows now began while we watched.
    fn see(
        &mut self,
        stream: &WatchSpec,
        mut object: Arc<LiveObject>,
        counted: bool,
        now: Timestamp,
    ) -> bool {
        let Some(state) = kind_state(&self.snapshot, stream) else {
            return false;
        };
        let key = object.key.clone();
        let known = state.blocks.object(&key.namespace, &key.name).cloned();
        let known = known.filter(|known| same_version(known, &object) || known.uid == object.uid);
        if known.as_ref().is_some_and(|known| same_version(known, &object)) {
            return false;
        }
        // Nobody else has it yet, so it is not copied.
        let own = Arc::make_mut(&mut object);
        let told = known.as_ref().and_then(|known| known.report.as_deref());
        own.report = own.report.take().map(|report| Box::new(report.after(told, now)));
        if let Some(known) = known {
            let stamp = std::mem::replace(&mut own.stamp, HashBaseline::Unasked);
            own.stamp = stamp.after(&known.stamp, now);
            if is_alike(&known, own) {
                self.metrics.reconciled(&stream.kind, UNCHANGED);
                return self.renew(&object);
            }
        }
        let proved = self.baselines.learn_from(&object);
        self.settle(&key, &Presence::Exists(object), Moment { counted, cause: Cause::Deleted, now });
        self.accept_proof(proved, &HashSet::new(), now);
        true
    }

    /// Writes down what a step did: ledger, history, flapping.
    pub(super) fn record(
        &mut self,
        before: Option<&Entry>,
        after: Option<&Entry>,
        step: Step,
        now: Timestamp,
    ) {
        let Some(entry) = after.or(before) else { return };
        let place = counter_key_of(entry);
        if !self.snapshot.ledger.knows(&place) {
            Arc::make_mut(&mut self.snapshot.ledger).open(place.clone());
        }
        let old = before.and_then(|entry| entry.claim.verdict.episode());
        let new = after.and_then(|entry| entry.claim.verdict.episode());
        let turn = match step {
            Step::Nothing => Turn::GoesOn,
            Step::Began => {
                if let Some(episode) = new {
                    Arc::make_mut(&mut self.snapshot.ledger).began(place, episode);
                }
                if entry.claim.episodes.is_some_and(|episodes| episodes.count == 1) {
                    self.flapping.push_back((now, entry.object.key.clone(), entry.claim.source));
                }
                Turn::Began
            }
            Step::Ended(cause) => {
                if let Some(episode) = old {
                    Arc::make_mut(&mut self.snapshot.ledger).ended(place, episode, cause, now);
                }
                Turn::Ended(cause)
            }
        };
        let from = before.map(|entry| entry.claim.verdict.kind());
        let to = after.map(|entry| entry.claim.verdict.kind());
        // An object that appears or goes without an episode is no news, nor is an apply that changes nothing.
        let applies = [from, to].contains(&Some(VerdictKind::InFlight));
        if step != Step::Nothing || (from != to && before.is_some() && after.is_some() && !applies) {
            self.snapshot.history.push(Transition {
                sequence: 0,
                time: now,
                key: entry.object.key.clone(),
                uid: entry.object.uid.clone(),
                source: entry.claim.source,
                from,
                to,
                reason: after.and_then(|entry| entry.claim.verdict.reason()),
                episode: new.or(old).map(|episode| EpisodeNote::new(episode, turn)),
            });
        }
    }

    fn stream_fares(&mut self, stream: &Arc<WatchSpec>, health: WatchHealth, now: Timestamp) -> bool {
        let Some(own) = self.stream_mut(stream) else {
            return false;
        };
        let changed = own.health != health;
        own.answered |= is_answer(&health);
        let refused = changed && is_answer(&health);
        own.health = health;
        if refused {
            self.settle_kind(&stream.kind, false, now);
        }
        self.snapshot.note_readiness();
        self.snapshot.sequence += u64::from(changed);
        changed
    }

    /// Drops the count of episodes from objects that have kept quiet for a day.
    fn forget_old_episodes(&mut self, now: Timestamp) -> bool {
        let mut changed = false;
        while let Some((look, ..)) = self.flapping.front() {
            if now.duration_since(*look) < FLAPPING_WINDOW {
                break;
            }
            let Some((_, key, source)) = self.flapping.pop_front() else { break };
            let entry = self.entries(&key).iter().find(|entry| entry.claim.source == source);
            let Some((entry, episodes)) = entry.and_then(|entry| Some((entry, entry.claim.episodes?))) else {
                continue;
            };
            if now.duration_since(episodes.last) < FLAPPING_WINDOW {
                let at = self.flapping.partition_point(|(look, ..)| *look <= episodes.last);
                self.flapping.insert(at, (episodes.last, key, source));
                continue;
            }
            let mut entry = Entry::clone(entry);
            entry.claim.episodes = None;
            changed |= self.put(entry);
        }
        changed
    }

    fn stream_mut(&mut self, stream: &WatchSpec) -> Option<&mut WatchState> {
        let state = of_type_mut(&mut self.snapshot.kinds, &stream.kind)?;
        state.streams.iter_mut().find(|own| *own.spec == *stream)
    }
}

/// Whether a stream's health tells that its first list was answered with a plain no.
pub(super) fn is_answer(health: &WatchHealth) -> bool {
    match health {
        WatchHealth::Starting | WatchHealth::Up => false,
        WatchHealth::Down { reason, .. } => match reason {
            DownReason::Forbidden | DownReason::NotFound | DownReason::Refused => true,
            DownReason::Stalled | DownReason::Error => false,
        },
    }
}

/// The kind of a stream. None for a stream that is not open any more: what it said last comes too late.
fn kind_state<'a>(snapshot: &'a Snapshot, stream: &WatchSpec) -> Option<&'a Arc<KindState>> {
    snapshot.kinds.iter().find(|state| state.has_stream(stream))
}

pub(super) fn of_type_mut<'a>(kinds: &'a mut [Arc<KindState>], kind: &Kind) -> Option<&'a mut KindState> {
    kinds.iter_mut().find(|state| state.kind.is_same_type(kind)).map(Arc::make_mut)
}

pub(super) fn counter_key_of(entry: &Entry) -> Place {
    Place {
        kind: entry.object.key.kind.clone(),
        namespace: entry.object.key.namespace.clone(),
        source: entry.claim.source,
    }
}
