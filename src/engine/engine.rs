//! Applies changes to what is known. The only writer.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use tracing::warn;

use super::{
    Blocks, Claim, Details, DriftCounters, EngineMetrics, Entry, EpisodeNote, History, KindState, Place,
    RuleBook, Snapshot, Transition, Turn, WatchState,
    baselines::Baselines,
    claim::{Rater, Step, only_baseline_moved, rated_alike, view},
    counters::count_matches,
    metrics::{CLAIMED_TWICE, DUPLICATE_ADDRESS, NOT_YAML, OTHER_CLUSTER, STALE_LOCK, UNCHANGED},
    reconcile::{Moment, Opinion, Presence, absence, object, of_type, opinions, presence},
    snapshot::is_answer,
    store::{Autoscalers, Staged, same_version},
};
use crate::{
    diff::declared::ClusterSchemas,
    rules::RuleSet,
    types::{
        Baseline, BaselineFault, Cause, Clock, Event, HashBaseline, Judgement, Kind, LiveObject, ObjectKey,
        Plan, Record, RuleInputs, SkipReason, Source, Verdict, VerdictKind, WatchHealth, WatchSpec,
    },
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
    staged: HashMap<Arc<WatchSpec>, Staged>,
    /// Streams that took over from others that asked for something else: what their first list lacks was not deleted.
    reselected: HashSet<Arc<WatchSpec>>,
    /// Claims whose episodes are counted, each once, by when to look whether they have kept quiet for a day.
    flapping: VecDeque<(Timestamp, ObjectKey, Source)>,
    /// Goes into blocks whose claims change; never used twice.
    version: u64,
    /// What is declared elsewhere than on the objects.
    baselines: Baselines,
    /// How kinds of the cluster's own are compared.
    shapes: Arc<ClusterSchemas>,
    /// Which objects are scaled by others.
    autoscalers: Autoscalers,
    /// Objects whose controllers are at work or behind, and that does not count yet.
    resting: Resting,
    /// When it was last looked which rules have expired.
    looked: Timestamp,
}

/// Objects about which nothing is said yet, by when something will be.
pub(super) type Resting = HashMap<ObjectKey, Timestamp>;

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
    fn record(&mut self, before: Option<&Entry>, after: Option<&Entry>, step: Step, now: Timestamp) {
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

    /// Knows these streams from now on, and no others. What none of them covers is let go of; what a new one covers
    /// stands until its first list. Says whether anything changed.
    fn replan(&mut self, plan: &Plan, now: Timestamp) -> bool {
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

    /// All claims on an object.
    fn entries(&self, key: &ObjectKey) -> &[Arc<Entry>] {
        let state = self.snapshot.kinds.iter().find(|state| state.kind.is_same_type(&key.kind));
        state.map_or(&[], |state| state.blocks.get(&key.namespace, &key.name))
    }

    /// Asks all sources about an object anew, and goes on from what was known.
    fn settle(&mut self, key: &ObjectKey, presence: &Presence, moment: Moment) -> bool {
        let before = self.entries(key).to_vec();
        let opinions = opinions(key, presence, &self.baselines, &self.shapes, moment.now);
        self.note_rest(key, presence, moment.now);
        if before.is_empty() && opinions.is_empty() {
            return false;
        }
        let object = match presence {
            Presence::Exists(object) => object.clone(),
            Presence::Absent | Presence::Unwatched | Presence::Unseen => {
                // What was read on it goes on counting for rules and series; else what is declared of it now does, so that a
                // restart changes neither.
                let was_read = |entry: &&Arc<Entry>| entry.object.extras.were_read();
                let declared =
                    || Arc::new(RuleInputs { labels: self.baselines.labels(key), ..RuleInputs::default() });
                let known = before.first().filter(was_read);
                let extras = known.map_or_else(declared, |entry| entry.object.extras.clone());
                Arc::new(LiveObject { extras, ..LiveObject::absent(self.known_key(key)) })
            }
        };
        let mut after = Vec::with_capacity(opinions.len());
        for opinion in opinions {
            let known = before.iter().find(|entry| entry.claim.source == opinion.source);
            // Something new that is said about an object that was there stood before it was said.
            let counted = moment.counted && (known.is_some() || before.is_empty());
            after.push(Arc::new(self.follow(known, opinion, &object, Moment { counted, ..moment })));
        }
        for ended in &before {
            if !after.iter().any(|entry| entry.claim.source == ended.claim.source) {
                self.end(ended, moment);
            }
        }
        self.replace(key, &before, after)
    }

    /// What becomes of a claim by what its source says now.
    fn follow(
        &mut self,
        known: Option<&Arc<Entry>>,
        opinion: Opinion,
        object: &Arc<LiveObject>,
        moment: Moment,
    ) -> Entry {
        let Opinion { source, judgement, details } = opinion;
        // What stands on the object that it is about is another one on another object of that name.
        let is_another = |known: &Entry| source.is_on_object() && known.object.uid != object.uid;
        let (known, reborn) = match known {
            Some(known) if is_another(known) => {
                self.end(known, moment);
                (None, true)
            }
            known => (known, false),
        };
        let view = view(object, source, &self.autoscalers);
        let rater = Rater { rules: self.snapshot.rules.set(), object: view, now: moment.now };
        let settles = !matches!(judgement, Judgement::InFlight | Judgement::Unknown(_));
        let (mut claim, step) = match known {
            Some(known) => {
                let moved = match (&details, &known.claim.details) {
                    (Some(new), Some(old)) => {
                        new.compared == old.compared || is_read_again(known, old, object)
                    }
                    _ => only_baseline_moved(&known.claim, object),
                };
                known.claim.clone().judged(judgement, moved, &rater)
            }
            None => Claim::new(judgement, moment.counted || reborn, &rater),
        };
        let before = known.and_then(|known| known.claim.details.as_deref());
        claim.details = details.map(|new| match before {
            // What could not be compared is still as it was when it last could.
            Some(old) if !settles => {
                Arc::new(Details { compared: old.compared, blind: old.blind.clone(), ..new })
            }
            Some(_) | None => Arc::new(new),
        });
        self.metrics.reconciled(&object.key.kind, claim.verdict.kind().as_str());
        if let Verdict::Unknown(reason, _) = &claim.verdict {
            self.metrics.could_not_judge(source, *reason);
        }
        let entry = Entry { object: object.clone(), claim };
        self.record(known.map(|known| &**known), Some(&entry), step, moment.now);
        entry
    }

    /// A claim is no longer made.
    fn end(&mut self, entry: &Entry, moment: Moment) {
        let step = match entry.claim.verdict.episode() {
            Some(_) => Step::Ended(moment.cause),
            None => Step::Nothing,
        };
        self.record(Some(entry), None, step, moment.now);
    }

    /// Takes in an object of which nothing changed that counts.
    fn renew(&mut self, object: &Arc<LiveObject>) -> bool {
        let before = self.entries(&object.key).to_vec();
        let same = |entry: &Arc<Entry>| Entry { object: object.clone(), claim: entry.claim.clone() };
        let after = before.iter().map(|entry| Arc::new(same(entry))).collect();
        self.replace(&object.key, &before, after)
    }

    /// Puts one claim in the place of the one of the same source.
    fn put(&mut self, entry: Entry) -> bool {
        let (key, source) = (entry.object.key.clone(), entry.claim.source);
        let before = self.entries(&key).to_vec();
        let mut after = before.clone();
        let Some(own) = after.iter_mut().find(|own| own.claim.source == source) else {
            return false;
        };
        *own = Arc::new(entry);
        self.replace(&key, &before, after)
    }

    /// Lets go of an object that is gone: what declares it elsewhere goes on declaring it.
    fn lose(&mut self, key: &ObjectKey, moment: Moment) -> bool {
        // Streams that choose here tell of every object that nobody wants: that must cost nothing.
        if self.entries(key).is_empty() {
            return false;
        }
        let presence = self.presence_without_object(key);
        self.settle(key, &presence, moment)
    }

    /// Lets go of all that is known of an object.
    fn forget(&mut self, key: &ObjectKey, cause: Cause, now: Timestamp) -> bool {
        let before = self.entries(key).to_vec();
        if before.is_empty() {
            return false;
        }
        for entry in &before {
            self.end(entry, Moment { counted: true, cause, now });
        }
        self.replace(key, &before, Vec::new())
    }

    /// Makes these all claims on an object.
    fn replace(&mut self, key: &ObjectKey, before: &[Arc<Entry>], after: Vec<Arc<Entry>>) -> bool {
        self.version += 1;
        let version = self.version;
        self.autoscalers.retarget(scaled_by(before), scaled_by(&after));
        let Some(state) = of_type_mut(&mut self.snapshot.kinds, &key.kind) else {
            return false;
        };
        for source in Source::ALL {
            let (old, new) = (verdict_of(before, *source), verdict_of(&after, *source));
            count_matches(&mut self.snapshot.rules, old, new);
        }
        let series_changed = state.blocks.replace(&key.namespace, &key.name, after, version);
        let is_empty =
            |entry: &&Arc<Entry>| state.blocks.is_empty_namespace(&key.namespace, entry.claim.source);
        for entry in before.iter().filter(is_empty) {
            Arc::make_mut(&mut self.snapshot.ledger).close(&counter_key_of(entry));
        }
        self.snapshot.sequence += u64::from(series_changed);
        true
    }

    /// Takes in a baseline as it is from now on.
    fn take_baseline(&mut self, baseline: &Arc<Baseline>, now: Timestamp) -> bool {
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
    fn lose_baseline(&mut self, source: Source, name: &Arc<str>, now: Timestamp) -> bool {
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
    fn lose_source(&mut self, source: Source) -> bool {
        let was_there = self.snapshot.sources.remove(&source).is_some();
        self.snapshot.note_readiness();
        self.snapshot.sequence += u64::from(was_there);
        was_there
    }

    /// Whether the baselines of a source can be found.
    fn source_fares(&mut self, source: Source, health: WatchHealth) -> bool {
        Arc::make_mut(&mut self.snapshot.ledger).know(source);
        self.metrics.know(source);
        let before = self.snapshot.sources.insert(source, health);
        self.snapshot.note_readiness();
        let changed = before.as_ref() != self.snapshot.sources.get(&source);
        self.snapshot.sequence += u64::from(changed);
        changed
    }

    /// Locks hold for some time at most.
    fn let_locks_expire(&mut self, now: Timestamp) -> bool {
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
    fn accept_proof(&mut self, mut keys: Vec<ObjectKey>, done: &HashSet<ObjectKey>, now: Timestamp) {
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
    fn settle_at(&mut self, keys: Vec<ObjectKey>, moment: Moment) {
        for key in keys {
            let presence = self.presence(&key);
            // Of what was not looked for nothing is said, and what was said stands.
            if !matches!(presence, Presence::Unseen) || !self.baselines.is_declared(&key) {
                self.settle(&key, &presence, moment);
            }
        }
    }

    /// Asks again about declared objects of a kind that are not there: its streams have been answered.
    fn settle_kind(&mut self, kind: &Kind, counted: bool, now: Timestamp) {
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
    fn presence_without_object(&self, key: &ObjectKey) -> Presence {
        of_type(&self.snapshot.kinds, &key.kind).map_or(Presence::Unseen, |state| absence(state, key))
    }

    /// The same object, under the kind as the cluster has it, in the version that it would come in.
    fn known_key(&self, key: &ObjectKey) -> ObjectKey {
        let Some(state) = of_type(&self.snapshot.kinds, &key.kind) else { return key.clone() };
        let brings = |stream: &&WatchState| stream.spec.brings(&key.namespace, &key.name);
        let kind = state.streams.iter().find(brings).map_or(&state.kind, |stream| &stream.spec.kind);
        ObjectKey { kind: kind.clone(), ..key.clone() }
    }

    /// Makes new rules hold, for everything that is known already too.
    pub fn take_rules(&mut self, set: Arc<RuleSet>) {
        let now = self.clock.now();
        self.snapshot.rules = Arc::new(RuleBook::new(set));
        self.rate_again(now);
        self.looked = now;
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

    /// Rates all differences again. They are kept, so this needs nothing else.
    fn rate_again(&mut self, now: Timestamp) {
        let set = self.snapshot.rules.set().clone();
        let differs = |entry: &&Arc<Entry>| entry.claim.verdict.differences().next().is_some();
        let entries = self.snapshot.kinds.iter().flat_map(|state| state.blocks.entries().filter(differs));
        let entries: Vec<Arc<Entry>> = entries.cloned().collect();
        let label_names = set.label_names();
        let mut book = RuleBook::new(set.clone());
        for before in entries {
            book.add(&self.rate_claim_again(&before, &set, &label_names, now).verdict);
        }
        self.snapshot.rules = Arc::new(book);
        self.snapshot.sequence += 1;
    }

    /// Rates the claims on objects again that have an autoscaler now, or none any more: who scaled them is told otherwise.
    fn rate_scaled_again(&mut self, now: Timestamp) -> bool {
        let changed = self.autoscalers.take_changed();
        if changed.is_empty() {
            return false;
        }
        let set = self.snapshot.rules.set().clone();
        let label_names = set.label_names();
        let mut news = false;
        for before in changed.iter().flat_map(|key| self.entries(key).to_vec()).collect::<Vec<_>>() {
            news |= self.rate_claim_again(&before, &set, &label_names, now) != before.claim;
        }
        news
    }

    /// Rates one claim again. If it comes out as it was it is left alone. So is one on an object of which less was read than the
    /// rules ask for: it is rated when the object has been read again, which is under way, and until then the opinion stands
    /// that was formed with all that had to be known.
    fn rate_claim_again(
        &mut self,
        before: &Arc<Entry>,
        set: &RuleSet,
        label_names: &[Box<str>],
        now: Timestamp,
    ) -> Claim {
        if before.object.exists && !before.object.extras.cover(label_names) {
            return before.claim.clone();
        }
        let object = view(&before.object, before.claim.source, &self.autoscalers);
        let (claim, step) = before.claim.clone().rated_again(&Rater { rules: set, object, now });
        if claim != before.claim {
            let entry = Entry { object: before.object.clone(), claim: claim.clone() };
            self.record(Some(before), Some(&entry), step, now);
            self.put(entry);
        }
        claim
    }

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

    /// Remembers when to look at an object again.
    fn note_rest(&mut self, key: &ObjectKey, presence: &Presence, now: Timestamp) {
        let until = match presence {
            Presence::Exists(object) => object.record().and_then(Record::rests_until),
            Presence::Absent | Presence::Unwatched | Presence::Unseen => None,
        };
        match until.filter(|until| now < *until) {
            Some(until) => drop(self.resting.insert(key.clone(), until)),
            None => drop(self.resting.remove(key)),
        }
    }

    /// Asks again about objects that have rested for long enough.
    fn let_rests_end(&mut self, now: Timestamp) -> bool {
        let due: Vec<ObjectKey> =
            self.resting.iter().filter(|(_, until)| **until <= now).map(|(key, _)| key.clone()).collect();
        for key in &due {
            self.resting.remove(key);
        }
        let changed = !due.is_empty();
        // What has lasted while we watched begins to count now.
        self.settle_at(due, Moment { counted: true, cause: Cause::Rule, now });
        changed
    }
}

/// The kind of a stream. None for a stream that is not open any more: what it said last comes too late.
fn kind_state<'a>(snapshot: &'a Snapshot, stream: &WatchSpec) -> Option<&'a Arc<KindState>> {
    snapshot.kinds.iter().find(|state| state.has_stream(stream))
}

pub(super) fn counter_key_of(entry: &Entry) -> Place {
    Place {
        kind: entry.object.key.kind.clone(),
        namespace: entry.object.key.namespace.clone(),
        source: entry.claim.source,
    }
}

pub(super) fn of_type_mut<'a>(kinds: &'a mut [Arc<KindState>], kind: &Kind) -> Option<&'a mut KindState> {
    kinds.iter_mut().find(|state| state.kind.is_same_type(kind)).map(Arc::make_mut)
}

/// Whether an object is as it was when it was last compared, and only read otherwise: in another version of its kind.
fn is_read_again(known: &Entry, compared: &Details, object: &LiveObject) -> bool {
    let Entry { object: before, .. } = known;
    !object.resource_version.is_empty()
        && (&before.uid, &before.resource_version) == (&object.uid, &object.resource_version)
        && before.document.as_ref().map(|document| document.content) == compared.compared
}

/// Whether no source and no rule can find a difference between two versions of an object.
pub(super) fn is_alike(a: &LiveObject, b: &LiveObject) -> bool {
    a.key.kind == b.key.kind
        && a.stamp == b.stamp
        && a.document == b.document
        && a.report == b.report
        && a.applied == b.applied
        && rated_alike(a, b)
}

/// What the object scales that these claims are on.
fn scaled_by(entries: &[Arc<Entry>]) -> Option<&ObjectKey> {
    entries.first().and_then(|entry| entry.object.facts.scales.as_deref())
}

/// The verdict that a source's claim has among these.
fn verdict_of(entries: &[Arc<Entry>], source: Source) -> Option<&Verdict> {
    entries.iter().find(|entry| entry.claim.source == source).map(|entry| &entry.claim.verdict)
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
