//! Applies changes to what is known. The only writer.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};

use super::{
    Claim, EngineMetrics, Entry, History, KindState, Ledger, RuleBook, Snapshot, StreamState, Transition,
    claim::{Step, only_baseline_moved},
    history::{EpisodeNote, Turn},
    ledger::Place,
    metrics::UNCHANGED,
    rating::Rater,
    relist::{Staged, same_version},
    rerate::{count_matches, rated_alike, view},
};
use crate::{
    compare::judge,
    model::{
        Cause, Change, Clock, DownReason, Kind, LiveObject, ObjectKey, Plan, Source, StreamHealth,
        StreamSpec, Verdict,
    },
    rules::RuleSet,
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
    pub(super) staged: HashMap<Arc<StreamSpec>, Staged>,
    /// Streams that took over from others that asked for something else: what their first list lacks was not deleted.
    pub(super) reselected: HashSet<Arc<StreamSpec>>,
    /// Objects whose episodes are counted, each once, by when to look whether they have kept quiet for a day.
    flapping: VecDeque<(Timestamp, ObjectKey)>,
    /// Goes into blocks whose claims change; never used twice.
    version: u64,
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
        let ledger = Arc::new(Ledger::new(sources));
        let snapshot =
            Snapshot { ledger, history, rules: Arc::new(RuleBook::new(rules)), ..Snapshot::default() };
        let looked = clock.now();
        let mut engine = Self {
            clock,
            metrics,
            snapshot,
            staged: HashMap::new(),
            reselected: HashSet::new(),
            flapping: VecDeque::new(),
            version: 0,
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
    pub fn apply(&mut self, change: Change) -> bool {
        let begun = std::time::Instant::now();
        let now = self.clock.now();
        match change {
            Change::Streams(plan) => self.replan(&plan, now),
            Change::ListStarted(stream) => {
                if kind_state(&self.snapshot, &stream).is_some() {
                    self.staged.insert(stream, Staged::default());
                }
                false
            }
            Change::Listed(stream, object) => {
                if let Some((staged, state)) =
                    self.staged.get_mut(&stream).zip(kind_state(&self.snapshot, &stream))
                {
                    staged.add(*object, &state.blocks);
                }
                false
            }
            Change::ListEnded(stream) => self.commit(&stream, now),
            Change::Seen(stream, object) => {
                let seen = self.see(&stream, *object, true, now);
                self.metrics.took(begun.elapsed());
                seen
            }
            Change::Gone { stream, namespace, name } => {
                kind_state(&self.snapshot, &stream).is_some()
                    && self.forget(&stream.kind, &namespace, &name, Cause::Deleted, now)
            }
            Change::Stream(stream, health) => self.stream_fares(&stream, health),
            Change::Baseline(_) | Change::BaselineGone(..) | Change::Source(..) => false,
            Change::Tick => {
                let expired = self.let_rules_expire(now);
                self.forget_old_episodes(now) || expired
            }
        }
    }

    /// Makes a complete list the truth about its stream.
    fn commit(&mut self, stream: &Arc<StreamSpec>, now: Timestamp) -> bool {
        let Some(staged) = self.staged.remove(stream) else {
            return false;
        };
        let Some(state) = kind_state(&self.snapshot, stream) else {
            return false;
        };
        let commit = staged.commit(&state.blocks, |namespace| stream.covers(namespace));
        // What stands at the first list began before we looked; what a later one shows began while we watched.
        let counted = state.streams.iter().any(|own| own.spec == *stream && own.listed);
        let cause = if self.reselected.remove(stream) { Cause::Rule } else { Cause::Deleted };
        for entry in commit.gone {
            self.forget(&stream.kind, &entry.object.key.namespace, &entry.object.key.name, cause, now);
        }
        for object in commit.changed {
            self.see(stream, object, counted, now);
        }
        if let Some(own) = self.stream_mut(stream) {
            own.listed = true;
            own.answered = true;
            own.health = StreamHealth::Up;
        }
        self.snapshot.note_readiness();
        self.snapshot.sequence += 1;
        true
    }

    /// Takes in an object. `counted`: an episode that shows now began while we watched.
    fn see(&mut self, stream: &StreamSpec, mut object: LiveObject, counted: bool, now: Timestamp) -> bool {
        let Some(state) = kind_state(&self.snapshot, stream) else {
            return false;
        };
        let before = state.blocks.get(&object.key.namespace, &object.key.name).cloned();
        if let Some(before) = &before {
            if same_version(&before.object, &object) {
                return false;
            }
            if before.object.uid != object.uid {
                self.forget(&stream.kind, &object.key.namespace, &object.key.name, Cause::Deleted, now);
                return self.see(stream, object, true, now);
            }
            object.stamp = object.stamp.after(&before.object.stamp, now);
            if before.object.stamp == object.stamp && rated_alike(&before.object, &object) {
                self.metrics.reconciled(&stream.kind, UNCHANGED);
                let claim = before.claim.clone();
                return self.put(Entry { object: Arc::new(object), claim });
            }
        }
        let judgement = judge(&object);
        let rater =
            Rater { rules: self.snapshot.rules.set(), object: view(&object, Source::Annotation), now };
        let (claim, step) = match &before {
            Some(before) => {
                let moved = only_baseline_moved(&before.claim.verdict, &object.stamp);
                before.claim.clone().judged(judgement, moved, &rater)
            }
            None => Claim::new(judgement, counted, &rater),
        };
        self.metrics.reconciled(&stream.kind, claim.verdict.kind().as_str());
        if let Verdict::Unknown(reason, _) = &claim.verdict {
            self.metrics.could_not_judge(*reason);
        }
        let entry = Entry { object: Arc::new(object), claim };
        self.record(before.as_deref(), Some(&entry), step, now);
        self.put(entry)
    }

    pub(super) fn put(&mut self, entry: Entry) -> bool {
        self.version += 1;
        let version = self.version;
        let key = &entry.object.key;
        let Some(state) = of_type_mut(&mut self.snapshot.kinds, &key.kind) else {
            return false;
        };
        let before = state.blocks.get(&key.namespace, &key.name).map(|entry| &entry.claim.verdict);
        count_matches(&mut self.snapshot.rules, before, Some(&entry.claim.verdict));
        let series_changed = state.blocks.put(Arc::new(entry), version);
        self.snapshot.sequence += u64::from(series_changed);
        true
    }

    /// Lets go of an object that is gone, or that is no longer selected; `cause` is why its episode ends.
    pub(super) fn forget(
        &mut self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        cause: Cause,
        now: Timestamp,
    ) -> bool {
        let Some(state) = self.snapshot.kinds.iter_mut().find(|state| state.kind.is_same_type(kind)) else {
            return false;
        };
        // Streams that choose here tell of every object that nobody wants: that must cost nothing.
        if state.blocks.get(namespace, name).is_none() {
            return false;
        }
        self.version += 1;
        let state = Arc::make_mut(state);
        let Some(entry) = state.blocks.remove(namespace, name, self.version) else {
            return false;
        };
        let step = match entry.claim.verdict.episode() {
            Some(_) => Step::Ended(cause),
            None => Step::Nothing,
        };
        let emptied = state.blocks.is_empty_namespace(namespace);
        count_matches(&mut self.snapshot.rules, Some(&entry.claim.verdict), None);
        self.snapshot.sequence += 1;
        self.record(Some(&entry), None, step, now);
        if emptied {
            Arc::make_mut(&mut self.snapshot.ledger).close(&place_of(&entry));
        }
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
        let place = place_of(entry);
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
                    self.flapping.push_back((now, entry.object.key.clone()));
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
        // An object that appears or goes without an episode is no news.
        if step != Step::Nothing || (from != to && before.is_some() && after.is_some()) {
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

    fn stream_fares(&mut self, stream: &Arc<StreamSpec>, health: StreamHealth) -> bool {
        let Some(own) = self.stream_mut(stream) else {
            return false;
        };
        let changed = own.health != health;
        own.answered |= is_answer(&health);
        own.health = health;
        self.snapshot.note_readiness();
        self.snapshot.sequence += u64::from(changed);
        changed
    }

    /// Drops the count of episodes from objects that have kept quiet for a day.
    fn forget_old_episodes(&mut self, now: Timestamp) -> bool {
        let mut changed = false;
        while let Some((look, _)) = self.flapping.front() {
            if now.duration_since(*look) < FLAPPING_WINDOW {
                break;
            }
            let Some((_, key)) = self.flapping.pop_front() else { break };
            let Some(state) = self.snapshot.kinds.iter_mut().find(|state| state.kind.is_same_type(&key.kind))
            else {
                continue;
            };
            let Some(entry) = state.blocks.get(&key.namespace, &key.name) else { continue };
            let Some(episodes) = entry.claim.episodes else { continue };
            if now.duration_since(episodes.last) < FLAPPING_WINDOW {
                let at = self.flapping.partition_point(|(look, _)| *look <= episodes.last);
                self.flapping.insert(at, (episodes.last, key));
                continue;
            }
            let mut entry = Entry::clone(entry);
            entry.claim.episodes = None;
            self.version += 1;
            Arc::make_mut(state).blocks.put(Arc::new(entry), self.version);
            self.snapshot.sequence += 1;
            changed = true;
        }
        changed
    }

    fn stream_mut(&mut self, stream: &StreamSpec) -> Option<&mut StreamState> {
        let state = of_type_mut(&mut self.snapshot.kinds, &stream.kind)?;
        state.streams.iter_mut().find(|own| *own.spec == *stream)
    }
}

/// Whether a stream's health tells that its first list was answered with a plain no.
pub(super) fn is_answer(health: &StreamHealth) -> bool {
    match health {
        StreamHealth::Starting | StreamHealth::Up => false,
        StreamHealth::Down { reason, .. } => match reason {
            DownReason::Forbidden | DownReason::NotFound | DownReason::Refused => true,
            DownReason::Stalled | DownReason::Error => false,
        },
    }
}

/// The kind of a stream. None for a stream that is not open any more: what it said last comes too late.
fn kind_state<'a>(snapshot: &'a Snapshot, stream: &StreamSpec) -> Option<&'a Arc<KindState>> {
    snapshot.kinds.iter().find(|state| state.has_stream(stream))
}

fn of_type_mut<'a>(kinds: &'a mut [Arc<KindState>], kind: &Kind) -> Option<&'a mut KindState> {
    kinds.iter_mut().find(|state| state.kind.is_same_type(kind)).map(Arc::make_mut)
}

fn place_of(entry: &Entry) -> Place {
    Place {
        kind: entry.object.key.kind.clone(),
        namespace: entry.object.key.namespace.clone(),
        source: entry.claim.source,
    }
}
