//! Applies changes to what is known. The only writer.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};

use super::{
    Claim, EngineMetrics, Entry, History, KindState, Ledger, RuleBook, Snapshot, StreamState, Transition,
    claim::{Step, only_baseline_moved},
    history::{EpisodeNote, Turn},
    ledger::Place,
    rating::Rater,
    relist::{Staged, same_version},
};
use crate::{
    compare::judge,
    model::{
        Cause, Change, Clock, DownReason, Kind, LiveObject, ObjectKey, Source, StreamHealth, StreamSpec,
        Verdict,
    },
    rules::{ObjectView, RuleSet},
};

/// Episodes are counted on an object for this long after the last one.
const FLAPPING_WINDOW: SignedDuration = SignedDuration::from_hours(24);

/// Holds the state and folds changes into it.
#[derive(Debug)]
pub struct Engine {
    clock: Clock,
    metrics: EngineMetrics,
    snapshot: Snapshot,
    /// Lists under way.
    staged: HashMap<Arc<StreamSpec>, Staged>,
    /// Objects whose episodes are counted, each once, by when to look whether they have kept quiet for a day.
    flapping: VecDeque<(Timestamp, ObjectKey)>,
    /// Goes into blocks whose claims change; never used twice.
    version: u64,
    /// When it was last looked which rules have expired.
    looked: Timestamp,
}

impl Engine {
    /// An engine that knows these streams, the built-in rules and nothing else.
    pub fn new(
        streams: &[Arc<StreamSpec>],
        sources: &[Source],
        history: History,
        metrics: EngineMetrics,
        clock: Clock,
    ) -> Self {
        let mut kinds: Vec<Arc<KindState>> = Vec::new();
        for spec in streams {
            let stream = StreamState {
                spec: spec.clone(),
                health: StreamHealth::Starting,
                listed: false,
                answered: false,
            };
            match kinds.iter_mut().find(|state| state.kind == spec.kind) {
                Some(state) => Arc::make_mut(state).streams.push(stream),
                None => kinds.push(Arc::new(KindState {
                    kind: spec.kind.clone(),
                    streams: vec![stream],
                    blocks: super::Blocks::default(),
                })),
            }
        }
        let ledger = Arc::new(Ledger::new(sources));
        let snapshot = Snapshot { sequence: 0, kinds, ledger, history, rules: Arc::default() };
        let looked = clock.now();
        let (staged, flapping) = Default::default();
        Self { clock, metrics, snapshot, staged, flapping, version: 0, looked }
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
            Change::ListStarted(stream) => {
                self.staged.insert(stream, Staged::default());
                false
            }
            Change::Listed(stream, object) => {
                if let Some((staged, state)) =
                    self.staged.get_mut(&stream).zip(kind_state(&self.snapshot, &stream.kind))
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
            Change::Gone { stream, namespace, name } => self.forget(&stream, &namespace, &name, now),
            Change::Stream(stream, health) => self.stream_fares(&stream, health),
            Change::Rules(set) => self.take_rules(set, now),
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
        let Some(state) = kind_state(&self.snapshot, &stream.kind) else {
            return false;
        };
        let commit = staged.commit(&state.blocks, |namespace| stream.covers(namespace));
        // What stands at the first list began before we looked; what a later one shows began while we watched.
        let counted = state.streams.iter().any(|own| own.spec == *stream && own.listed);
        for entry in commit.gone {
            self.forget(stream, &entry.object.key.namespace, &entry.object.key.name, now);
        }
        for object in commit.changed {
            self.see(stream, object, counted, now);
        }
        if let Some(own) = self.stream_mut(stream) {
            own.listed = true;
            own.answered = true;
            own.health = StreamHealth::Up;
        }
        self.snapshot.sequence += 1;
        true
    }

    /// Takes in an object. `counted`: an episode that shows now began while we watched.
    fn see(&mut self, stream: &StreamSpec, object: LiveObject, counted: bool, now: Timestamp) -> bool {
        let Some(state) = kind_state(&self.snapshot, &stream.kind) else {
            return false;
        };
        let before = state.blocks.get(&object.key.namespace, &object.key.name).cloned();
        if let Some(before) = &before {
            if same_version(&before.object, &object) {
                return false;
            }
            if before.object.uid != object.uid {
                self.forget(stream, &object.key.namespace, &object.key.name, now);
                return self.see(stream, object, true, now);
            }
            if before.object.stamp == object.stamp && before.object.labels == object.labels {
                self.metrics.reconciled(&stream.kind, "unchanged");
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

    /// Makes new rules hold, for everything that is known already too.
    fn take_rules(&mut self, set: Arc<RuleSet>, now: Timestamp) -> bool {
        self.snapshot.rules = Arc::new(RuleBook::new(set));
        self.rate_again(now);
        self.looked = now;
        true
    }

    /// Looks at everything again when a rule has expired since the last time.
    fn let_rules_expire(&mut self, now: Timestamp) -> bool {
        let expired = self.snapshot.rules.set().expire_between(self.looked, now);
        self.looked = now;
        if expired {
            self.rate_again(now);
        }
        expired
    }

    /// Rates all differences again. They are kept, so this needs nothing else; claims that come out as they were are left
    /// alone.
    fn rate_again(&mut self, now: Timestamp) {
        let set = self.snapshot.rules.set().clone();
        let differs = |entry: &&Arc<Entry>| entry.claim.verdict.differences().next().is_some();
        let entries = self.snapshot.kinds.iter().flat_map(|state| state.blocks.entries().filter(differs));
        let entries: Vec<Arc<Entry>> = entries.cloned().collect();
        let mut book = RuleBook::new(set.clone());
        for before in entries {
            let object = view(&before.object, before.claim.source);
            let (claim, step) = before.claim.clone().rated_again(&Rater { rules: &set, object, now });
            book.add(&claim.verdict);
            if claim != before.claim {
                let entry = Entry { object: before.object.clone(), claim };
                self.record(Some(&before), Some(&entry), step, now);
                self.put(entry);
            }
        }
        self.snapshot.rules = Arc::new(book);
        self.snapshot.sequence += 1;
    }

    fn put(&mut self, entry: Entry) -> bool {
        self.version += 1;
        let version = self.version;
        let key = &entry.object.key;
        let Some(state) = kind_state_mut(&mut self.snapshot.kinds, &key.kind) else {
            return false;
        };
        let before = state.blocks.get(&key.namespace, &key.name).map(|entry| &entry.claim.verdict);
        count_matches(&mut self.snapshot.rules, before, Some(&entry.claim.verdict));
        let series_changed = state.blocks.put(Arc::new(entry), version);
        self.snapshot.sequence += u64::from(series_changed);
        true
    }

    /// Lets go of an object that is gone, or that is no longer selected.
    fn forget(&mut self, stream: &StreamSpec, namespace: &str, name: &str, now: Timestamp) -> bool {
        self.version += 1;
        let version = self.version;
        let Some(state) = kind_state_mut(&mut self.snapshot.kinds, &stream.kind) else {
            return false;
        };
        let Some(entry) = state.blocks.remove(namespace, name, version) else {
            return false;
        };
        let step = match entry.claim.verdict.episode() {
            Some(_) => Step::Ended(Cause::Deleted),
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
    fn record(&mut self, before: Option<&Entry>, after: Option<&Entry>, step: Step, now: Timestamp) {
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
        if let StreamHealth::Down { reason: DownReason::Forbidden | DownReason::NotFound, .. } = health {
            own.answered = true;
        }
        own.health = health;
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
            let Some(state) = self.snapshot.kinds.iter_mut().find(|state| state.kind == key.kind) else {
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
        kind_state_mut(&mut self.snapshot.kinds, &stream.kind)?
            .streams
            .iter_mut()
            .find(|own| *own.spec == *stream)
    }
}

fn kind_state<'a>(snapshot: &'a Snapshot, kind: &Kind) -> Option<&'a Arc<KindState>> {
    snapshot.kinds.iter().find(|state| *state.kind == *kind)
}

fn kind_state_mut<'a>(kinds: &'a mut [Arc<KindState>], kind: &Kind) -> Option<&'a mut KindState> {
    kinds.iter_mut().find(|state| *state.kind == *kind).map(Arc::make_mut)
}

/// What rules may ask about an object.
fn view(object: &LiveObject, source: Source) -> ObjectView<'_> {
    ObjectView { key: &object.key, labels: &object.labels, source }
}

/// Keeps the number of matches of each rule right when a claim comes, changes or goes.
fn count_matches(book: &mut Arc<RuleBook>, before: Option<&Verdict>, after: Option<&Verdict>) {
    let matched = |verdict: Option<&Verdict>| {
        verdict.is_some_and(|own| own.differences().any(|difference| !difference.matched.is_empty()))
    };
    // Most claims match nothing, and a published book is not copied for them.
    if before == after || !(matched(before) || matched(after)) {
        return;
    }
    let book = Arc::make_mut(book);
    before.into_iter().for_each(|verdict| book.take(verdict));
    after.into_iter().for_each(|verdict| book.add(verdict));
}

fn place_of(entry: &Entry) -> Place {
    Place {
        kind: entry.object.key.kind.clone(),
        namespace: entry.object.key.namespace.clone(),
        source: entry.claim.source,
    }
}
