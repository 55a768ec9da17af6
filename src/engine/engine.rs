//! The engine applies events to the state and is its only writer. Readers get immutable snapshots.
//!
//! [`Engine::apply`] dispatches an event. Most of them lead to [`Engine::reconcile`], which re-evaluates all claims on one object; it
//! comes first, and below it the inputs: objects and lists; watches; baselines and their sources; config, schemas, autoscalers
//! and time.
//!
//! # Where an episode starts and ends
//!
//! A claim has an episode as long as its verdict holds differences that count, [`Verdict::episode`]. That changes where the
//! table says:
//!
//! | place | an episode starts | an episode ends with the cause |
//! |---|---|---|
//! | [`step_episode`], for each source that judges the object | a difference counts | `reverted`, `absorbed`, `rule` or `deleted`: its table says which |
//! | `Engine::end_claim`, for a source that judges the object no longer, and, if the source is stored on the object, for the predecessor of a recreated object | | of the event: `deleted` if the object, its annotation or its label was deleted or the cluster no longer serves its kind, `absorbed` if a baseline no longer declares it, is of another lineage, or lost its authority over a Secret or a missing object, `rule` if a baseline was removed, no watch selects the object or the settings no longer read the baseline that is stored on it |
//! | `Engine::drop_object`, for a kind that is no longer in the plan | | `rule`; `deleted` if the cluster no longer serves it |
//! | [`rerate`], after the rules, the time or the autoscalers changed | a difference counts that rules ignored | `rule`: they ignore every difference |
//!
//! `Engine::record` counts each start and end, and appends it to the history. `Engine::reconcile` leaves out the start of drift that
//! may be older than the watch: [`is_start_observed`]. A start in [`rerate`] always counts: the difference counts from now on.
//!
//! After a restart the counters start at zero, and the history is what `--history.file` holds. Drift that the first list finds is an
//! episode, but not a detection; its onset comes from the object's `managedFields`. It is a transition only if the history file has
//! to keep an observed onset. Its end is counted.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    mem,
    sync::Arc,
    time::Instant,
};

use jiff::{SignedDuration, Timestamp};
use tracing::warn;

use super::{
    ActiveRules, Claim, ClaimEntry, Corroboration, DriftCounters, EngineMetrics, EpisodeChange, EpisodeCount,
    EpisodeSummary, History, KindState, PlannedWatch, Snapshot, Transition, WatchState,
    active_rules::update_rule_matches,
    autoscalers::{AutoscalerIndex, scale_target},
    baselines::{BaselineId, Baselines},
    claim::{ClaimKey, Rater, is_same_stored_object, object_view, only_baseline_moved, rerate, step_episode},
    finding_counts::{FindingBudget, FindingCounts},
    history::ObservedOnsets,
    judgements::{Presence, SourceJudgement, absence, find_kind, find_object, presence, source_judgements},
    metrics::{CLAIMED_TWICE, DUPLICATE_ADDRESS, NOT_YAML, OTHER_CLUSTER, STALE_LOCK, UNCHANGED},
    snapshot::is_refused,
    store::{StagedList, is_equivalent, is_same_version},
    watches::{OpenWatch, has_same_watches, planned_kinds},
};
use crate::{
    diff::manifest::{ClusterSchemas, TypeMeta},
    event::{EngineConfig, Event},
    rules::RuleSet,
    types::{
        AbsentObject, Authority, Baseline, BaselineFault, ClaimedObject, Clock, ControllerStatus,
        DeclaredObject, Episode, HashBaseline, Judgement, Kind, LastKnown, LiveObject, ObjectKey,
        OnsetSource, ResolutionCause, RuleInputs, SkipReason, Source, SyncHealth, Verdict, VerdictKind,
        WatchId, WatchPlan, WatchSpec,
    },
};

/// The maximum number of objects of one event that are logged one by one.
const MAX_LOGGED: usize = 10;
/// A claim keeps its count of episodes for this long after the last one.
const FLAPPING_WINDOW: SignedDuration = SignedDuration::from_hours(24);

#[derive(Debug)]
pub struct Engine {
    clock: Clock,
    metrics: EngineMetrics,
    config: Arc<EngineConfig>,
    /// The state as readers see it after the next publish.
    snapshot: Snapshot,
    /// The open watches of the plan. Events of other watches arrive too late, and are ignored.
    watches: BTreeMap<WatchId, OpenWatch>,
    /// Claims with a count of episodes, and the start of one of them: the window is measured from it or from a later one.
    episode_counts: HashMap<ClaimKey, Timestamp>,
    /// The version of the last changed block; never reused.
    block_version: u64,
    /// Desired state that is not stored on the objects themselves.
    baselines: Baselines,
    schemas: Arc<ClusterSchemas>,
    autoscalers: AutoscalerIndex,
    findings: FindingCounts,
    grace_periods: HashMap<ObjectKey, Timestamp>,
    /// The onsets that an earlier run observed in claims that were not compared yet.
    restored_onsets: HashMap<ClaimKey, ObservedOnsets>,
    /// When rule expiry was last checked.
    rules_checked_at: Timestamp,
}

/// Why an object is reconciled.
#[derive(Clone, Copy, Debug)]
struct ReconcileContext {
    /// The cause for episodes of claims that end: their source no longer declares the object, or it was recreated. [`end_cause`]
    /// overrides it where the settings no longer read a baseline.
    default_end_cause: ResolutionCause,
    /// Whether the object is in the first list of its watch, so that its drift may be older than the watch.
    in_first_list: bool,
    now: Timestamp,
}

impl ReconcileContext {
    fn new(default_end_cause: ResolutionCause, now: Timestamp) -> Self {
        Self { default_end_cause, in_first_list: false, now }
    }
}

impl Engine {
    pub fn new(
        plan: &WatchPlan,
        config: Arc<EngineConfig>,
        history: History,
        metrics: EngineMetrics,
        clock: Clock,
    ) -> Self {
        let sources = &config.sources;
        let with_baselines = sources.iter().filter(|source| !source.is_on_object());
        let restored_onsets = history.observed_onsets();
        let snapshot = Snapshot {
            counters: Arc::new(DriftCounters::new(sources)),
            history,
            rules: Arc::new(ActiveRules::new(config.rules.clone())),
            sources: Arc::new(with_baselines.map(|source| (*source, SyncHealth::Starting)).collect()),
            ..Snapshot::default()
        };
        sources.iter().for_each(|source| metrics.init_object_source(*source));
        let now = clock.now();
        let mut engine = Self {
            clock,
            metrics,
            config,
            snapshot,
            watches: BTreeMap::new(),
            episode_counts: HashMap::new(),
            block_version: 0,
            baselines: Baselines::default(),
            schemas: Arc::default(),
            autoscalers: AutoscalerIndex::default(),
            findings: FindingCounts::default(),
            grace_periods: HashMap::new(),
            restored_onsets,
            rules_checked_at: now,
        };
        engine.apply_plan(plan, now);
        engine
    }

    /// The state to publish. Cheap: the parts are shared.
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot.clone()
    }

    /// Applies one event. Returns whether there is a change to publish.
    pub fn apply(&mut self, event: Event) -> bool {
        let started = Instant::now();
        let now = self.clock.now();
        let changed = match event {
            Event::WatchPlan(plan) => self.apply_plan(&plan, now),
            Event::ListStarted(watch) => self.stage_list(watch),
            Event::Listed(watch, object) => self.stage_object(watch, object),
            Event::ListEnded(watch) => self.commit_list(watch, now),
            Event::Applied(watch, object) => {
                self.supersede_staged(watch, &object.key.namespace, &object.key.name);
                let kind = self.watches.get(&watch).map(|open| open.kind);
                let context = ReconcileContext::new(ResolutionCause::Deleted, now);
                let changed = kind.is_some_and(|kind| self.apply_object(kind, object, context));
                self.metrics.observe_duration(started.elapsed());
                changed
            }
            Event::Deleted { watch, namespace, name } => {
                self.supersede_staged(watch, &namespace, &name);
                let kind = self.watch_state(watch).map(|state| state.spec.kind.clone());
                let key = kind.map(|kind| ObjectKey { kind, namespace, name });
                let context = ReconcileContext::new(ResolutionCause::Deleted, now);
                key.is_some_and(|key| self.delete_object(&key, context))
            }
            Event::WatchHealth(watch, health) => self.set_watch_health(watch, health, now),
            Event::Baseline(baseline) => self.apply_baseline(&baseline, now),
            Event::BaselineRemoved(source, name) => self.remove_baseline(&BaselineId { source, name }, now),
            Event::BaselinesRead(source) => self.prune_corroborations(source),
            Event::SourceHealth(source, health) => self.set_source_health(source, health),
            Event::SourceRemoved(source) => self.remove_source(source),
            Event::Config(config) => self.apply_config(&config, now),
            Event::Schemas(schemas) => self.apply_schemas(schemas, now),
            Event::Tick => {
                let rules = self.expire_rules(now);
                let locks = self.expire_locks(now);
                let grace_periods = self.expire_grace_periods(now);
                self.expire_episode_counts(now) || rules || locks || grace_periods
            }
        };
        self.rerate_autoscaled(now) || changed
    }

    // Reconciliation.

    /// Re-evaluates all claims on one object: looks up, diffs, merges, rates, steps the episode, records, stores. Returns whether
    /// there is a change to publish.
    fn reconcile(&mut self, key: &ObjectKey, presence: &Presence, context: ReconcileContext) -> bool {
        let now = context.now;
        // Look up the claims so far.
        let before = self.entries(key).to_vec();

        // Diff the object for each source. The declarations of one source are merged into one judgement.
        if let Presence::Exists(object) = presence {
            self.corroborate(object);
        }
        let judgements = self.judge_object(key, presence, &before, now);
        self.track_grace_period(key, presence, now);
        if before.is_empty() && judgements.is_empty() {
            return false;
        }
        let object = self.claimed_object(key, presence, &before);

        // Findings are rated only if all labels that the rules need were read.
        let has_labels = self.snapshot.rules.has_labels(&object);
        let muted_paths = object.rule_inputs().muted_patterns();
        let is_new = before.is_empty() && object.live().is_some() && !context.in_first_list;
        let mut after = Vec::with_capacity(judgements.len());
        for SourceJudgement { source, judgement, details } in judgements {
            let previous = before.iter().find(|entry| entry.claim.source == source);
            // A recreated object carries a new baseline, so the claim on its predecessor ends here.
            let recreated =
                previous.filter(|entry| source.is_on_object() && entry.object.uid() != object.uid());
            if let Some(entry) = recreated {
                self.end_claim(entry, context.default_end_cause, now);
            }
            let previous = previous.filter(|_| recreated.is_none()).map(|entry| &**entry);
            let previous_claim = previous.map(|entry| &entry.claim);

            // Rate the findings, and step the episode: it starts, goes on or ends here.
            let view = object_view(&object, &muted_paths, source, &self.autoscalers);
            let restored = self.restored_onsets_of(&object, source);
            let rater = Rater { rules: self.snapshot.rules.set(), object: view, has_labels, restored, now };
            let judgement = rater.judgement_for_now(judgement);
            let baseline_moved =
                previous.is_some_and(|entry| only_baseline_moved(entry, details.as_ref(), &object));
            let is_conclusive = !matches!(judgement, Judgement::InFlight | Judgement::Unknown(_));
            let verdict = previous_claim.map_or(Verdict::NoBaseline, |claim| claim.verdict.clone());
            let (verdict, change) = step_episode(verdict, judgement, baseline_moved, &rater);
            if is_conclusive && !self.restored_onsets.is_empty() {
                self.restored_onsets.remove(&ClaimKey { object: object.key().clone(), source });
            }
            let is_start_observed = is_start_observed(previous_claim, is_new || recreated.is_some());
            let change = change.without_unobserved_start(is_start_observed);

            // Record.
            self.metrics.count_reconcile(&object.key().kind, verdict.kind().as_str());
            if let Verdict::Unknown(reason, _) = &verdict {
                self.metrics.count_unknown(source, *reason);
            }
            let episodes = previous_claim.and_then(|claim| claim.episodes);
            let episodes = EpisodeCount::after(episodes, change, now);
            // The results of the last comparison stay valid until the next one.
            let compared = previous_claim.and_then(|claim| claim.details.as_deref());
            let compared = compared.filter(|_| !is_conclusive);
            let details = details.map(|details| Arc::new(details.with_comparison_of(compared)));
            let claim = Claim { source, verdict, episodes, details };
            let entry = Arc::new(ClaimEntry { object: object.clone(), claim });
            self.record(previous, Some(&entry), change, now);
            after.push(entry);
        }
        // A claim that its source no longer makes ends, and its episode.
        for entry in &before {
            if !after.iter().any(|updated| updated.claim.source == entry.claim.source) {
                self.end_claim(entry, end_cause(entry, presence, &self.config.sources, context), now);
            }
        }

        // Store.
        self.store(key, &before, after)
    }

    fn judge_object(
        &self,
        key: &ObjectKey,
        presence: &Presence,
        before: &[Arc<ClaimEntry>],
        now: Timestamp,
    ) -> Vec<SourceJudgement> {
        let corroborations = &self.snapshot.history.corroborations;
        let (baselines, schemas) = (&self.baselines, &self.schemas);
        let budget = FindingBudget::new(&self.findings, self.config.max_findings, before);
        source_judgements(key, presence, before, baselines, corroborations, schemas, budget, now)
    }

    /// The onsets that an earlier run observed in a claim that was not compared yet.
    fn restored_onsets_of(
        &self,
        object: &ClaimedObject,
        source: Source,
    ) -> Option<&BTreeMap<Box<str>, Timestamp>> {
        let restored = Some(&self.restored_onsets).filter(|restored| !restored.is_empty())?;
        let claim = restored.get(&ClaimKey { object: object.key().clone(), source })?;
        (claim.uid.as_deref() == object.uid()).then_some(&claim.onsets)
    }

    /// Ends a claim, and its episode if it has one.
    fn end_claim(&mut self, entry: &ClaimEntry, cause: ResolutionCause, now: Timestamp) {
        let change = match entry.claim.verdict.episode() {
            Some(_) => EpisodeChange::Ended(cause),
            None => EpisodeChange::Unchanged,
        };
        self.record(Some(entry), None, change, now);
        if entry.claim.episodes.is_some() {
            self.episode_counts.remove(&entry.claim_key());
        }
    }

    /// Counts an episode that started or ended, and appends the transition to the history.
    fn record(
        &mut self,
        before: Option<&ClaimEntry>,
        after: Option<&ClaimEntry>,
        change: EpisodeChange,
        now: Timestamp,
    ) {
        let Some(entry) = after.or(before) else { return };
        let counter = entry.counter_key();
        let is_untrusted = entry.claim.verdict.is_untrusted();
        if !is_untrusted && !self.snapshot.counters.has_key(&counter) {
            Arc::make_mut(&mut self.snapshot.counters).init_key(&counter);
        }
        let old = before.and_then(|entry| entry.claim.verdict.episode());
        let new = after.and_then(|entry| entry.claim.verdict.episode());
        match change {
            EpisodeChange::Unchanged => {}
            EpisodeChange::Started => {
                if let Some(episode) = new {
                    Arc::make_mut(&mut self.snapshot.counters).count_detection(&counter, episode);
                }
                if entry.claim.episodes.is_some_and(|episodes| episodes.count == 1) {
                    self.episode_counts.insert(entry.claim_key(), now);
                }
            }
            EpisodeChange::Ended(cause) => {
                if let Some(episode) = old {
                    let counters = Arc::make_mut(&mut self.snapshot.counters);
                    counters.count_resolution(&counter, episode, cause, now);
                }
            }
        }
        let from = before.map(|entry| entry.claim.verdict.kind());
        let to = after.map(|entry| entry.claim.verdict.kind());
        // Three moves are not worth a transition: an object that appears or disappears without an episode, a claim that
        // is in sync at its first comparison (its schema or its list arrived after it), and the start and end of an apply.
        let is_first_sync = to == Some(VerdictKind::InSync)
            && before.is_some_and(|entry| {
                matches!(entry.claim.verdict, Verdict::Unknown(_, LastKnown::NeverJudged))
            });
        let is_apply = [from, to].contains(&Some(VerdictKind::InFlight));
        let is_move = from != to && before.is_some() && after.is_some() && !is_first_sync && !is_apply;
        // Only the history file records an observed onset.
        let verdict_before = before.map(|entry| &entry.claim.verdict);
        let is_new_onset = self.snapshot.history.is_persistent()
            && new.is_some_and(|new| has_new_onset(new, verdict_before));
        if change != EpisodeChange::Unchanged || is_move || is_new_onset {
            self.snapshot.history.push(Transition {
                sequence: 0,
                time: now,
                key: entry.key().clone(),
                uid: entry.object.uid().map(Into::into),
                source: entry.claim.source,
                from,
                to,
                reason: after.and_then(|entry| entry.claim.verdict.reason()),
                episode: new.or(old).map(|episode| EpisodeSummary::new(episode, change)),
            });
        }
    }

    /// Replaces all claims on an object, and keeps the indexes and counters consistent. `before` are the
    /// claims that are stored now.
    fn store(&mut self, key: &ObjectKey, before: &[Arc<ClaimEntry>], after: Vec<Arc<ClaimEntry>>) -> bool {
        self.block_version += 1;
        self.autoscalers.retarget(scale_target(before), scale_target(&after));
        let Some(kind) = find_kind_mut(&mut self.snapshot.kinds, &key.kind) else {
            return false;
        };
        for source in Source::ALL {
            let (old, new) = (verdict_of(before, *source), verdict_of(&after, *source));
            update_rule_matches(&mut self.snapshot.rules, old, new);
        }
        self.findings.replace(before, &after);
        let series_changed = kind.blocks.replace(&key.namespace, &key.name, after, self.block_version);
        let was_last =
            |entry: &&Arc<ClaimEntry>| kind.blocks.has_no_claims(&key.namespace, entry.claim.source);
        for entry in before.iter().filter(was_last) {
            Arc::make_mut(&mut self.snapshot.counters).drop_if_zero(&entry.counter_key());
        }
        self.snapshot.sequence += u64::from(series_changed);
        true
    }

    /// Reconciles each of these objects once, except declared ones whose kind is not synced: their claims stay as they are.
    fn reconcile_all(&mut self, mut keys: Vec<ObjectKey>, context: ReconcileContext) {
        let mut seen = HashSet::new();
        keys.retain(|key| seen.insert(key.clone()));
        for key in keys {
            let presence = presence(&self.snapshot.kinds, &key);
            if !matches!(presence, Presence::NotSynced) || !self.baselines.is_declared(&key) {
                self.reconcile(&key, &presence, context);
            }
        }
    }

    /// Reconciles the declared objects that a watch decides on and that do not exist, after its list ended or the API server
    /// refused it. The objects of other watches of the kind are left out: a tenant may request many watches.
    fn reconcile_absent(&mut self, watch: &WatchSpec, now: Timestamp) {
        let context = ReconcileContext::new(ResolutionCause::Deleted, now);
        let keys = self.baselines.keys_of_kind(&watch.kind);
        let decided: Vec<ObjectKey> = keys.filter(|key| watch.decides_presence_of(key)).collect();
        for key in decided {
            let presence = presence(&self.snapshot.kinds, &key);
            if matches!(presence, Presence::Absent | Presence::Unwatched) {
                self.reconcile(&key, &presence, context);
            }
        }
        self.match_baselines(self.baselines.undecided(), now);
    }

    /// Returns the live object. An object that does not exist keeps its last read labels, or has the declared ones.
    fn claimed_object(
        &self,
        key: &ObjectKey,
        presence: &Presence,
        before: &[Arc<ClaimEntry>],
    ) -> ClaimedObject {
        if let Presence::Exists(object) = presence {
            return ClaimedObject::Live(object.clone());
        }
        let last_read = before.first().map(|entry| entry.object.rule_inputs());
        let declared = || Arc::new(RuleInputs { labels: self.declared_labels(key), ..RuleInputs::default() });
        let rule_inputs = last_read.filter(|inputs| inputs.has_read_any()).map_or_else(declared, Arc::clone);
        ClaimedObject::Absent(Arc::new(AbsentObject { key: self.watched_key(key), rule_inputs }))
    }

    fn declared_labels(&self, key: &ObjectKey) -> Box<[(Box<str>, Box<str>)]> {
        self.baselines.labels_of(key, &self.snapshot.history.corroborations)
    }

    /// The key with the kind in the version in which the cluster serves it.
    fn watched_key(&self, key: &ObjectKey) -> ObjectKey {
        let Some(state) = find_kind(&self.snapshot.kinds, &key.kind) else { return key.clone() };
        let selects = |watch: &&WatchState| watch.spec.delivers(&key.namespace, &key.name);
        let kind = state.watches.iter().find(selects).map_or(&state.kind, |watch| &watch.spec.kind);
        ObjectKey { kind: kind.clone(), ..key.clone() }
    }

    fn entries(&self, key: &ObjectKey) -> &[Arc<ClaimEntry>] {
        let kind = find_kind(&self.snapshot.kinds, &key.kind);
        kind.map_or(&[], |kind| kind.blocks.get(&key.namespace, &key.name))
    }

    // Live objects and lists.

    /// Applies a live object of the kind at this index.
    fn apply_object(&mut self, kind: usize, mut object: Arc<LiveObject>, context: ReconcileContext) -> bool {
        let now = context.now;
        let key = object.key.clone();
        let cached = self.snapshot.kinds[kind].blocks.object(&key.namespace, &key.name).cloned();
        let cached = cached.filter(|cached| is_same_version(cached, &object) || cached.uid == object.uid);
        if cached.as_ref().is_some_and(|cached| is_same_version(cached, &object)) {
            return false;
        }
        // The event has the only reference, so this does not copy the object.
        let received = Arc::make_mut(&mut object);
        let last_report = cached.as_ref().and_then(|cached| cached.report.as_deref());
        received.report = received.report.take().map(|report| Box::new(report.after(last_report, now)));
        if let Some(cached) = cached {
            let hash_baseline = mem::replace(&mut received.hash_baseline, HashBaseline::NotRequested);
            received.hash_baseline = hash_baseline.after(&cached.hash_baseline, now);
            if is_equivalent(&cached, received) {
                self.metrics.count_reconcile(&key.kind, UNCHANGED);
                return self.refresh_object(&object);
            }
        }
        let matched = self.baselines.match_by_object(&object);
        self.reconcile(&key, &Presence::Exists(object), context);
        if !matched.is_empty() {
            self.reconcile_matched(matched, &[key].into(), now);
        }
        true
    }

    /// Stores a new version of an object that no source and no rule can distinguish from the cached one.
    fn refresh_object(&mut self, object: &Arc<LiveObject>) -> bool {
        let before = self.entries(&object.key).to_vec();
        let refresh = |entry: &Arc<ClaimEntry>| {
            Arc::new(ClaimEntry { object: ClaimedObject::Live(object.clone()), claim: entry.claim.clone() })
        };
        self.store(&object.key, &before, before.iter().map(refresh).collect())
    }

    /// Records which Helm release the annotations of an object name, if that release declares the object outside its namespace.
    fn corroborate(&mut self, object: &LiveObject) {
        let (Some(named), key) = (&object.helm_release, &object.key) else { return };
        if *named.namespace != *key.namespace && self.baselines.is_declared_by_release(named, key) {
            self.snapshot.history.corroborations.add(named, key);
        }
    }

    /// Handles the deletion of an object. Claims remain if their source still declares the object and a synced watch covers it.
    fn delete_object(&mut self, key: &ObjectKey, context: ReconcileContext) -> bool {
        // A watch that selects objects on our side reports the deletion of each unselected object: that must
        // be cheap.
        if self.entries(key).is_empty() {
            return false;
        }
        let presence =
            find_kind(&self.snapshot.kinds, &key.kind).map_or(Presence::NotSynced, |kind| absence(kind, key));
        self.reconcile(key, &presence, context)
    }

    /// Drops an object and all claims on it, whatever the sources declare: its kind is no longer watched.
    fn drop_object(&mut self, key: &ObjectKey, cause: ResolutionCause, now: Timestamp) {
        let before = self.entries(key).to_vec();
        if before.is_empty() {
            return;
        }
        for entry in &before {
            self.end_claim(entry, cause, now);
        }
        self.store(key, &before, Vec::new());
    }

    /// Begins a list.
    fn stage_list(&mut self, watch: WatchId) -> bool {
        if let Some(open) = self.watches.get_mut(&watch) {
            open.staged = Some(StagedList::default());
        }
        false
    }

    fn stage_object(&mut self, watch: WatchId, object: Arc<LiveObject>) -> bool {
        if let Some(OpenWatch { kind, staged: Some(staged), .. }) = self.watches.get_mut(&watch) {
            staged.add(object, &self.snapshot.kinds[*kind].blocks);
        }
        false
    }

    /// Records an event that arrives during a list: it is newer than what the list has of the object.
    fn supersede_staged(&mut self, watch: WatchId, namespace: &str, name: &str) {
        if let Some(OpenWatch { staged: Some(staged), .. }) = self.watches.get_mut(&watch) {
            staged.supersede(namespace, name);
        }
    }

    /// Replaces the objects of a watch by its complete list.
    fn commit_list(&mut self, watch: WatchId, now: Timestamp) -> bool {
        let Some(open) = self.watches.get_mut(&watch) else { return false };
        let Some(staged) = open.staged.take() else { return false };
        let kind = open.kind;
        let cause =
            if mem::take(&mut open.reselected) { ResolutionCause::Rule } else { ResolutionCause::Deleted };
        let Some(state) = self.watch_state_mut(watch) else { return false };
        let in_first_list = !mem::replace(&mut state.synced, true);
        state.first_list_ended = true;
        state.health = SyncHealth::Up;
        let spec = state.spec.clone();
        let (changed, deleted) = staged.diff(&self.snapshot.kinds[kind].blocks, &spec);
        for key in deleted {
            self.delete_object(&key, ReconcileContext::new(cause, now));
        }
        // All baselines are matched to the cluster before the first of their objects is judged.
        let matched: Vec<ObjectKey> =
            changed.iter().flat_map(|object| self.baselines.match_by_object(object)).collect();
        // A first list may have many thousand names, so they are collected only if a baseline matched.
        let reconciled: HashSet<ObjectKey> = if matched.is_empty() {
            HashSet::new()
        } else {
            changed.iter().map(|object| object.key.clone()).collect()
        };
        let context =
            ReconcileContext { in_first_list, ..ReconcileContext::new(ResolutionCause::Deleted, now) };
        for object in changed {
            self.apply_object(kind, object, context);
        }
        self.reconcile_matched(matched, &reconciled, now);
        self.reconcile_absent(&spec, now);
        self.snapshot.update_readiness();
        self.snapshot.sequence += 1;
        true
    }

    // Watches.

    /// Replaces the set of watches. Objects that no watch selects any more are dropped; objects that a new
    /// watch selects remain until its first list. Returns whether anything changed.
    fn apply_plan(&mut self, plan: &WatchPlan, now: Timestamp) -> bool {
        let kinds = planned_kinds(plan, &self.snapshot.kinds);
        if has_same_watches(&kinds, &self.snapshot.kinds) {
            return false;
        }
        let unselected = self.drop_unwatched(plan, &kinds, now);
        self.open_watches(&kinds);
        let old_kinds = mem::take(&mut self.snapshot.kinds);
        for old in old_kinds.iter().filter(|old| !plan.is_watched(&old.kind)) {
            self.metrics.drop_kind(&old.kind);
        }
        self.snapshot.kinds = kinds
            .into_iter()
            .map(|mut kind| {
                if let Some(old) = find_kind(&old_kinds, &kind.kind) {
                    kind.blocks = old.blocks.clone();
                }
                Arc::new(kind)
            })
            .collect();
        for (key, cause) in unselected {
            self.delete_object(&key, ReconcileContext::new(cause, now));
        }
        // A kind that cannot be watched has no list whose end would trigger this.
        for kind in self.snapshot.kinds.clone() {
            for refused in kind.watches.iter().filter(|watch| is_refused(&watch.health)) {
                self.reconcile_absent(&refused.spec, now);
            }
        }
        self.snapshot.update_readiness();
        self.snapshot.sequence += 1;
        true
    }

    /// Drops the objects of kinds that are not in the new plan. Returns the objects of remaining kinds that
    /// no watch selects any more: a source may still declare them.
    fn drop_unwatched(
        &mut self,
        plan: &WatchPlan,
        kinds: &[KindState],
        now: Timestamp,
    ) -> Vec<(ObjectKey, ResolutionCause)> {
        let mut unselected = Vec::new();
        for old in self.snapshot.kinds.clone() {
            let new = kinds.iter().find(|new| new.kind.is_same_type(&old.kind));
            let is_selected = |key: &ObjectKey| {
                let selects = |watch: &WatchState| watch.spec.delivers(&key.namespace, &key.name);
                new.is_some_and(|new| new.watches.iter().any(selects))
            };
            // Removing a kind from the cluster deletes its objects; removing it from the settings does not.
            let cause =
                if plan.is_not_served(&old.kind) { ResolutionCause::Deleted } else { ResolutionCause::Rule };
            for entry in old.blocks.entries().filter(|entry| !is_selected(entry.key())) {
                match new {
                    Some(_) => unselected.push((entry.key().clone(), cause)),
                    None => self.drop_object(entry.key(), cause, now),
                }
            }
        }
        unselected
    }

    /// Replaces the open watches by those of the new plan. Watches that remain keep the list in progress.
    fn open_watches(&mut self, kinds: &[KindState]) {
        let mut before = mem::take(&mut self.watches);
        for (kind, new) in kinds.iter().enumerate() {
            let old_watches = find_kind(&self.snapshot.kinds, &new.kind).map_or(&[][..], |old| &old.watches);
            for (state, watch) in new.watches.iter().enumerate() {
                let PlannedWatch::Open(id) = watch.planned else { continue };
                let open = before.remove(&id).unwrap_or_else(|| OpenWatch {
                    kind,
                    state,
                    staged: None,
                    reselected: !old_watches.iter().any(|old| old.spec.is_same_request(&watch.spec)),
                });
                self.watches.insert(id, OpenWatch { kind, state, ..open });
            }
        }
    }

    fn set_watch_health(&mut self, watch: WatchId, health: SyncHealth, now: Timestamp) -> bool {
        if self.watch_state(watch).is_none_or(|state| state.health == health) {
            return false;
        }
        let refused = is_refused(&health);
        let Some(state) = self.watch_state_mut(watch) else { return false };
        state.first_list_ended |= refused;
        state.health = health;
        let spec = state.spec.clone();
        if refused {
            self.reconcile_absent(&spec, now);
        }
        self.snapshot.update_readiness();
        self.snapshot.sequence += 1;
        true
    }

    fn watch_state(&self, watch: WatchId) -> Option<&WatchState> {
        let open = self.watches.get(&watch)?;
        self.snapshot.kinds[open.kind].watches.get(open.state)
    }

    fn watch_state_mut(&mut self, watch: WatchId) -> Option<&mut WatchState> {
        let open = self.watches.get(&watch)?;
        let kind = Arc::make_mut(&mut self.snapshot.kinds[open.kind]);
        Arc::make_mut(&mut kind.watches).get_mut(open.state)
    }

    // Baselines and their sources.

    fn apply_baseline(&mut self, baseline: &Arc<Baseline>, now: Timestamp) -> bool {
        self.report_baseline_problems(baseline);
        let mut affected = self.baselines.upsert(baseline, now);
        self.drop_corroborations(baseline, &affected);
        // A cached object may prove that the baseline is of this cluster.
        let live: Vec<Arc<LiveObject>> =
            affected.iter().filter_map(|key| find_object(&self.snapshot.kinds, key)).cloned().collect();
        affected.extend(live.iter().flat_map(|object| self.baselines.match_by_object(object)));
        self.reconcile_all(affected, ReconcileContext::new(ResolutionCause::Absorbed, now));
        self.match_baselines(vec![BaselineId::of(baseline)], now);
        self.publish_baselines();
        true
    }

    fn remove_baseline(&mut self, id: &BaselineId, now: Timestamp) -> bool {
        let removed = self.baselines.get(id).map(|state| state.baseline.clone());
        let affected = self.baselines.remove(id);
        if let Some(removed) = removed {
            self.drop_corroborations(&removed, &affected);
        }
        self.reconcile_all(affected, ReconcileContext::new(ResolutionCause::Rule, now));
        self.publish_baselines();
        true
    }

    /// Removes the corroborations of objects that a release no longer declares. A release may be stored in Secrets and in
    /// ConfigMaps: these are two baselines, and the end of one does not affect what the other declares.
    fn drop_corroborations(&mut self, baseline: &Baseline, affected: &[ObjectKey]) {
        let Some(release) = baseline.authority.release() else { return };
        if self.baselines.is_faulty_release(release) {
            return;
        }
        for key in affected.iter().filter(|key| !self.baselines.is_declared_by_release(release, key)) {
            self.snapshot.history.corroborations.remove(release, key);
        }
    }

    /// Counts and logs the problems that a baseline has and its previous version does not have.
    fn report_baseline_problems(&self, baseline: &Baseline) {
        let before = self.baselines.get(&BaselineId::of(baseline)).map(|state| &state.baseline);
        let fault_before = before.and_then(|before| before.fault_kind());
        if let Some(new) = baseline.fault_kind().filter(|fault| fault_before != Some(*fault)) {
            self.metrics.count_baseline_error(baseline.source, new.as_str());
        }
        for (reason, label, message) in [
            (
                SkipReason::Duplicate,
                DUPLICATE_ADDRESS,
                "Duplicate addresses; only the first of each is compared.",
            ),
            (SkipReason::NotYaml, NOT_YAML, "Invalid YAML documents; they are not compared."),
            (
                SkipReason::Unreadable,
                BaselineFault::Unreadable.as_str(),
                "Unreadable files; the objects that they declare are unknown.",
            ),
        ] {
            let count = |baseline: &Baseline| baseline.skipped.count(reason);
            if count(baseline) > before.map_or(0, |before| count(before)) {
                warn!(state = %baseline.name, count = count(baseline), "{message}");
                self.metrics.count_baseline_error(baseline.source, label);
            }
        }
        // A Helm release needs no setting: the annotations of live objects corroborate it.
        if matches!(baseline.authority, Authority::Namespace(_)) {
            let untrusted = |baseline: &Baseline| {
                let is_covered =
                    |object: &DeclaredObject| baseline.authority.covers(&object.object.namespace);
                baseline.objects.iter().filter(|object| !is_covered(object)).count()
            };
            if untrusted(baseline) > before.map_or(0, |before| untrusted(before)) {
                let count = untrusted(baseline);
                warn!(state = %baseline.name, count, "Objects outside the namespace of a state are untrusted; trust the namespace with sources.terraform.trusted_namespaces.");
            }
        }
        let conflicts: Vec<(&DeclaredObject, &str)> = baseline
            .objects
            .iter()
            .filter_map(|object| Some((&**object, self.baselines.conflicting_owner(baseline, object)?)))
            .collect();
        for (object, other) in conflicts.iter().take(MAX_LOGGED) {
            warn!(state = %baseline.name, address = %object.address, %other, "Two baselines declare one object.");
        }
        if let Some(more) = conflicts.len().checked_sub(MAX_LOGGED).filter(|more| *more > 0) {
            warn!(state = %baseline.name, more, "Two baselines declare more objects.");
        }
        for _ in &conflicts {
            self.metrics.count_baseline_error(baseline.source, CLAIMED_TWICE);
        }
    }

    /// Drops the corroborations that an earlier run kept, if no release declares the object any longer.
    fn prune_corroborations(&mut self, source: Source) -> bool {
        if source != Source::Helm {
            return false;
        }
        let (baselines, before) = (&self.baselines, self.snapshot.history.corroborations.clone());
        self.snapshot.history.corroborations.retain(|Corroboration { release, key }| {
            baselines.is_declared_by_release(release, key) || baselines.is_faulty_release(release)
        });
        !self.snapshot.history.corroborations.is_same(&before)
    }

    fn set_source_health(&mut self, source: Source, health: SyncHealth) -> bool {
        self.metrics.init_baseline_source(source);
        let before = self.snapshot.sources.get(&source);
        if before == Some(&health) {
            return false;
        }
        if before.is_none() {
            Arc::make_mut(&mut self.snapshot.counters).init_source(source);
        }
        Arc::make_mut(&mut self.snapshot.sources).insert(source, health);
        self.snapshot.update_readiness();
        self.snapshot.sequence += 1;
        true
    }

    /// Handles a source that the settings no longer enable.
    fn remove_source(&mut self, source: Source) -> bool {
        if !self.snapshot.sources.contains_key(&source) {
            return false;
        }
        Arc::make_mut(&mut self.snapshot.sources).remove(&source);
        self.snapshot.update_readiness();
        self.snapshot.sequence += 1;
        true
    }

    /// Reconciles the objects of baselines whose lock was taken, released or expired.
    fn expire_locks(&mut self, now: Timestamp) -> bool {
        let affected = self.baselines.refresh_locks(now);
        for BaselineId { source, name } in self.baselines.newly_stale_locks(now) {
            warn!(%source, state = %name, "The lock is held for longer than an apply may take; drift is reported again.");
            self.metrics.count_baseline_error(source, STALE_LOCK);
        }
        // A baseline without objects is published, too.
        let Some(affected) = affected else { return false };
        self.reconcile_all(affected, ReconcileContext::new(ResolutionCause::Rule, now));
        self.publish_baselines();
        true
    }

    /// Reconciles the objects of baselines that were just matched to this cluster or to another one, except
    /// those in `reconciled`.
    fn reconcile_matched(
        &mut self,
        mut keys: Vec<ObjectKey>,
        reconciled: &HashSet<ObjectKey>,
        now: Timestamp,
    ) {
        if !keys.is_empty() {
            keys.retain(|key| !reconciled.contains(key));
            self.reconcile_all(keys, ReconcileContext::new(ResolutionCause::Rule, now));
            self.publish_baselines();
        }
    }

    /// Finds the baselines of other clusters among these: all of their kinds are synced, and no object matched.
    fn match_baselines(&mut self, undecided: Vec<BaselineId>, now: Timestamp) {
        let mut affected = Vec::new();
        for baseline in undecided {
            let kinds = &self.snapshot.kinds;
            let is_synced = |key: &ObjectKey| match presence(kinds, key) {
                Presence::Exists(_) | Presence::Absent => Some(true),
                Presence::Unwatched => None,
                Presence::NotSynced => Some(false),
            };
            let Some(objects) = self.baselines.decide_cluster(&baseline, is_synced) else { continue };
            affected.extend(objects);
            let BaselineId { source, name } = baseline;
            warn!(%source, state = %name, "No object of the baseline is in this cluster; it is not compared.");
            self.metrics.count_baseline_error(source, OTHER_CLUSTER);
        }
        self.reconcile_matched(affected, &HashSet::new(), now);
    }

    fn publish_baselines(&mut self) {
        self.snapshot.baselines = self.baselines.states().clone();
        self.snapshot.sequence += 1;
    }

    // Config, schemas, autoscalers and time.

    /// Replaces the config. Exposes the counters of newly enabled sources, and rerates all differences if the rules differ.
    fn apply_config(&mut self, config: &Arc<EngineConfig>, now: Timestamp) -> bool {
        let before = mem::replace(&mut self.config, config.clone());
        let is_new = |source: &&Source| !before.sources.contains(source);
        let mut changed = false;
        for source in config.sources.iter().filter(is_new) {
            self.metrics.init_object_source(*source);
            Arc::make_mut(&mut self.snapshot.counters).init_source(*source);
            self.snapshot.sequence += 1;
            changed = true;
        }
        if !Arc::ptr_eq(self.snapshot.rules.set(), &config.rules) {
            self.snapshot.rules = Arc::new(ActiveRules::new(config.rules.clone()));
            self.rerate_all(now);
            self.rules_checked_at = now;
            changed = true;
        }
        if before.max_findings != config.max_findings {
            self.reconcile_counted(now);
            changed = true;
        }
        changed
    }

    /// Reconciles the objects whose findings count in the limit of a namespace.
    fn reconcile_counted(&mut self, now: Timestamp) {
        let is_counted = |entry: &&Arc<ClaimEntry>| {
            entry.claim.details.as_ref().is_some_and(|details| !details.counted_findings.is_empty())
        };
        let entries = self.snapshot.kinds.iter().flat_map(|kind| kind.blocks.entries());
        let keys = entries.filter(is_counted).map(|entry| entry.key().clone()).collect();
        self.reconcile_all(keys, ReconcileContext::new(ResolutionCause::Rule, now));
        self.snapshot.sequence += 1;
    }

    /// Replaces the schemas of custom resources, and reconciles the objects whose schema changed.
    fn apply_schemas(&mut self, schemas: Arc<ClusterSchemas>, now: Timestamp) -> bool {
        let changed_kinds = schemas.changed_since(&self.schemas);
        let is_changed = |kind: &Kind| {
            changed_kinds.contains(&TypeMeta::new(&kind.api_version(), &kind.kind).into_owned())
        };
        let mut keys: Vec<ObjectKey> = Vec::new();
        for state in &self.snapshot.kinds {
            // The objects of a kind are of a few versions, which they share.
            let mut versions: Vec<(&Arc<Kind>, bool)> = Vec::new();
            for key in state.blocks.entries().map(|entry| entry.key()) {
                let version = versions.iter().find(|(kind, _)| *kind == &key.kind);
                let is_affected =
                    version.map_or_else(|| is_changed(&key.kind), |(_, is_changed)| *is_changed);
                if version.is_none() {
                    versions.push((&key.kind, is_affected));
                }
                if is_affected && keys.last() != Some(key) {
                    keys.push(key.clone());
                }
            }
        }
        let awaits_schemas = schemas.any_pending();
        let changed = !keys.is_empty() || self.snapshot.awaits_schemas != awaits_schemas;
        self.schemas = schemas;
        self.snapshot.awaits_schemas = awaits_schemas;
        let context = ReconcileContext::new(ResolutionCause::Rule, now);
        self.reconcile_all(keys, context);
        self.snapshot.sequence += u64::from(changed);
        changed
    }

    /// Rerates all differences if a rule expired since the last check, or if the clock went back: then rules apply again, and
    /// no onset may be in the future.
    fn expire_rules(&mut self, now: Timestamp) -> bool {
        let last = mem::replace(&mut self.rules_checked_at, now);
        let is_due = now < last || self.snapshot.rules.set().any_expires_between(last, now);
        if is_due {
            self.rerate_all(now);
        }
        is_due
    }

    /// Applies the rules to all stored differences again. The objects are not compared again.
    fn rerate_all(&mut self, now: Timestamp) {
        let rules = self.snapshot.rules.set().clone();
        let differs = |entry: &&Arc<ClaimEntry>| entry.claim.verdict.differences().next().is_some();
        let entries = self.snapshot.kinds.iter().flat_map(|kind| kind.blocks.entries().filter(differs));
        let entries: Vec<Arc<ClaimEntry>> = entries.cloned().collect();
        let mut active = ActiveRules::new(rules.clone());
        for entry in entries {
            active.add(&self.rerate_claim(&entry, &rules, now).verdict);
        }
        self.snapshot.rules = Arc::new(active);
        self.snapshot.sequence += 1;
    }

    /// Rerates the claims on objects that gained their first or lost their last autoscaler: it explains who
    /// scaled them.
    fn rerate_autoscaled(&mut self, now: Timestamp) -> bool {
        let keys = self.autoscalers.take_changed();
        if keys.is_empty() {
            return false;
        }
        let rules = self.snapshot.rules.set().clone();
        let mut changed = false;
        for entry in keys.iter().flat_map(|key| self.entries(key).to_vec()).collect::<Vec<_>>() {
            changed |= self.rerate_claim(&entry, &rules, now) != entry.claim;
        }
        changed
    }

    /// Rerates one claim.
    fn rerate_claim(&mut self, before: &Arc<ClaimEntry>, rules: &RuleSet, now: Timestamp) -> Claim {
        let claim = before.claim.clone();
        let muted_paths = before.object.rule_inputs().muted_patterns();
        let object = object_view(&before.object, &muted_paths, claim.source, &self.autoscalers);
        let has_labels = self.snapshot.rules.has_labels(&before.object);
        let (verdict, change) =
            rerate(claim.verdict, &Rater { rules, object, has_labels, restored: None, now });
        let episodes = EpisodeCount::after(claim.episodes, change, now);
        let claim = Claim { verdict, episodes, ..claim };
        if claim != before.claim {
            let entry = ClaimEntry { object: before.object.clone(), claim: claim.clone() };
            self.record(Some(before), Some(&entry), change, now);
            self.replace_claim(entry);
        }
        claim
    }

    /// Replaces the stored claim of the same source on the same object.
    fn replace_claim(&mut self, entry: ClaimEntry) -> bool {
        let (key, source) = (entry.key().clone(), entry.claim.source);
        let before = self.entries(&key).to_vec();
        let mut after = before.clone();
        let Some(stored) = after.iter_mut().find(|stored| stored.claim.source == source) else {
            return false;
        };
        *stored = Arc::new(entry);
        self.store(&key, &before, after)
    }

    /// Notes when the grace period of an object ends, if it is in one.
    fn track_grace_period(&mut self, key: &ObjectKey, presence: &Presence, now: Timestamp) {
        let end = match presence {
            Presence::Exists(object) => object.controller_status().and_then(ControllerStatus::grace_ends),
            Presence::Absent | Presence::Unwatched | Presence::NotSynced => None,
        };
        match end.filter(|end| now < *end) {
            Some(end) => drop(self.grace_periods.insert(key.clone(), end)),
            None => drop(self.grace_periods.remove(key)),
        }
    }

    /// Reconciles objects whose grace period is over.
    fn expire_grace_periods(&mut self, now: Timestamp) -> bool {
        let expired: Vec<ObjectKey> =
            self.grace_periods.iter().filter(|(_, end)| **end <= now).map(|(key, _)| key.clone()).collect();
        for key in &expired {
            self.grace_periods.remove(key);
        }
        let changed = !expired.is_empty();
        self.reconcile_all(expired, ReconcileContext::new(ResolutionCause::Rule, now));
        changed
    }

    /// Drops the counts of episodes of claims that had none for [`FLAPPING_WINDOW`].
    fn expire_episode_counts(&mut self, now: Timestamp) -> bool {
        let is_over = |start: Timestamp| now.duration_since(start) >= FLAPPING_WINDOW;
        let due: Vec<ClaimKey> =
            self.episode_counts.extract_if(|_, start| is_over(*start)).map(|(claim, _)| claim).collect();
        let mut changed = false;
        for key in due {
            let entry = self.entries(&key.object).iter().find(|entry| entry.claim.source == key.source);
            let Some((entry, episodes)) = entry.and_then(|entry| Some((entry, entry.claim.episodes?))) else {
                continue;
            };
            if is_over(episodes.last) {
                let mut entry = ClaimEntry::clone(entry);
                entry.claim.episodes = None;
                changed |= self.replace_claim(entry);
            } else {
                self.episode_counts.insert(key, episodes.last);
            }
        }
        changed
    }
}

/// Whether an episode that starts now started during the watch. Otherwise it is not a detection: at the first conclusive
/// comparison of fields, which may wait for a list or a schema, and when a source is new on a known object.
fn is_start_observed(previous: Option<&Claim>, is_new_object: bool) -> bool {
    match previous {
        Some(claim) => !claim.source.declares_fields() || claim.verdict.drifted_value().is_some(),
        None => is_new_object,
    }
}

/// Why a source no longer judges an object. `enabled` are the sources that the settings enable.
fn end_cause(
    entry: &ClaimEntry,
    presence: &Presence,
    enabled: &[Source],
    context: ReconcileContext,
) -> ResolutionCause {
    let source = entry.claim.source;
    let Presence::Exists(object) = presence else { return context.default_end_cause };
    let is_unread = match source {
        // The settings no longer list its kind: an object that the source reads has a status, if only an empty one.
        Source::StatusHash => true,
        // The settings name another annotation, or none.
        Source::Annotation | Source::LastApplied => {
            !enabled.contains(&source)
                || entry.object.live().is_some_and(|before| is_same_stored_object(before, object))
        }
        Source::Terraform | Source::Helm | Source::Manifest | Source::Unclaimed => false,
    };
    if is_unread { ResolutionCause::Rule } else { context.default_end_cause }
}

fn find_kind_mut<'a>(kinds: &'a mut [Arc<KindState>], kind: &Kind) -> Option<&'a mut KindState> {
    kinds.iter_mut().find(|state| state.kind.is_same_type(kind)).map(Arc::make_mut)
}

/// Whether the episode has an observed onset that the claim did not have before.
fn has_new_onset(episode: &Episode, before: Option<&Verdict>) -> bool {
    let differences = episode.differences.iter().chain(&episode.ignored);
    let mut observed =
        differences.filter(|difference| difference.onset_source == OnsetSource::Observed).peekable();
    if observed.peek().is_none() {
        return false;
    }
    let known: HashSet<&str> = before
        .into_iter()
        .flat_map(|before| before.differences().map(|difference| difference.finding.path.as_str()))
        .collect();
    observed.any(|new| !known.contains(new.finding.path.as_str()))
}

fn verdict_of(entries: &[Arc<ClaimEntry>], source: Source) -> Option<&Verdict> {
    entries.iter().find(|entry| entry.claim.source == source).map(|entry| &entry.claim.verdict)
}

#[cfg(test)]
mod tests {
    use std::{
        collections::{BTreeSet, HashSet},
        sync::{
            Arc,
            atomic::{AtomicI64, Ordering},
        },
    };

    use jiff::Timestamp;
    use prometheus_client::{encoding::text::encode, registry::Registry};

    use crate::{
        engine::{ClaimEntry, Engine, EngineMetrics, EpisodeChange, History},
        event::{EngineConfig, Event},
        types::{
            Algorithm, Authority, Baseline, BaselineOrigin, BaselineVersion, Clock, DeclaredBody,
            DeclaredObject, Digest, HashBaseline, HashMismatch, Kind, LiveObject, ObjectKey, ObjectRef,
            RedactionKey, ResolutionCause, SkippedResources, Source, SyncHealth, UnknownReason, Watch,
            WatchIds, WatchPlan, WatchSpec,
        },
    };

    fn services() -> Watch {
        let spec = Arc::new(WatchSpec::all(Arc::new(Kind::service())));
        WatchIds::default().assign([spec]).remove(0)
    }

    fn plan_of(watch: &Watch) -> WatchPlan {
        WatchPlan { watches: vec![watch.clone()], ..WatchPlan::default() }
    }

    fn object(watch: &Watch) -> Arc<LiveObject> {
        Arc::new(LiveObject {
            uid: "uid".into(),
            resource_version: "1".into(),
            hash_baseline: HashBaseline::Match(Digest::of(b"")),
            ..LiveObject::named(ObjectKey::new(watch.spec.kind.clone(), "shop", "web"))
        })
    }

    fn mismatch() -> HashBaseline {
        HashBaseline::Mismatch(Box::new(HashMismatch {
            algorithm: Algorithm::TfdriftV1,
            expected: Digest::of(b"declared"),
            actual: Digest::of(b"live"),
            owner: None,
            recorded_by: None,
        }))
    }

    fn with_hashes() -> Arc<EngineConfig> {
        Arc::new(EngineConfig { sources: vec![Source::Annotation], ..EngineConfig::default() })
    }

    fn engine(plan: &WatchPlan) -> Engine {
        let metrics = EngineMetrics::register(&mut Registry::default());
        let clock = Clock::new(|| Timestamp::UNIX_EPOCH);
        Engine::new(plan, with_hashes(), History::default(), metrics, clock)
    }

    #[test]
    fn relist_with_another_decode_config_replaces_the_hash_baseline() {
        let watch = services();
        let mut engine = engine(&plan_of(&watch));
        for hash_baseline in [HashBaseline::Match(Digest::of(b"")), HashBaseline::NotRequested] {
            let listed = Arc::new(LiveObject { hash_baseline, ..LiveObject::clone(&object(&watch)) });
            engine.apply(Event::ListStarted(watch.id));
            engine.apply(Event::Listed(watch.id, listed.clone()));
            assert!(engine.apply(Event::ListEnded(watch.id)));
            let snapshot = engine.snapshot();
            assert_eq!(*snapshot.kinds[0].blocks.object("shop", "web").unwrap(), listed);
        }
        assert_eq!(engine.snapshot().kinds[0].blocks.get("shop", "web")[0].claim.source, Source::Unclaimed);
    }

    /// A watch stays open while its collection is listed again.
    #[test]
    fn events_during_a_list_are_newer_than_the_list() {
        let watch = services();
        let mut engine = engine(&plan_of(&watch));
        let named = |name: &str, version: &str| {
            let mut object = LiveObject::clone(&object(&watch));
            (object.key.name, object.resource_version) = (name.into(), version.into());
            Arc::new(object)
        };
        let list = |engine: &mut Engine, events: Vec<Event>| {
            engine.apply(Event::ListStarted(watch.id));
            for event in events {
                engine.apply(event);
            }
            for name in ["edited", "deleted", "same"] {
                engine.apply(Event::Listed(watch.id, named(name, "1")));
            }
            engine.apply(Event::ListEnded(watch.id));
            let kind = &engine.snapshot().kinds[0];
            let objects = kind.blocks.objects();
            let versions = objects.map(|object| format!("{} {}", object.key.name, object.resource_version));
            versions.collect::<BTreeSet<_>>()
        };
        let expected = |versions: [&str; 3]| versions.map(str::to_owned).into();
        assert_eq!(list(&mut engine, Vec::new()), expected(["deleted 1", "edited 1", "same 1"]));
        let events = vec![
            Event::Applied(watch.id, named("edited", "2")),
            Event::Applied(watch.id, named("added", "3")),
            Event::Deleted { watch: watch.id, namespace: "shop".into(), name: "deleted".into() },
        ];
        assert_eq!(list(&mut engine, events), expected(["added 3", "edited 2", "same 1"]));
    }

    #[test]
    fn claim_of_a_disabled_source_ends_with_the_cause_rule() {
        let watch = services();
        for (enabled, cause) in [(true, ResolutionCause::Deleted), (false, ResolutionCause::Rule)] {
            let mut engine = engine(&plan_of(&watch));
            let drifted = LiveObject { hash_baseline: mismatch(), ..LiveObject::clone(&object(&watch)) };
            engine.apply(Event::Applied(watch.id, Arc::new(drifted)));
            if !enabled {
                let rules = engine.snapshot().rules.set().clone();
                let config = Arc::new(EngineConfig { rules, ..EngineConfig::default() });
                assert!(!engine.apply(Event::Config(config)), "the claims remain until the next list");
            }
            // Whatever the decoder says about an object without the annotation.
            let without = LiveObject {
                hash_baseline: HashBaseline::NotRequested,
                resource_version: "2".into(),
                ..LiveObject::clone(&object(&watch))
            };
            engine.apply(Event::Applied(watch.id, Arc::new(without)));
            let history = engine.snapshot().history;
            let last = history.newest_first().find_map(|transition| transition.episode.as_ref()).unwrap();
            assert_eq!(last.change, EpisodeChange::Ended(cause), "{enabled}");
        }
    }

    #[test]
    fn events_of_a_closed_watch_are_ignored() {
        let watch = services();
        let open = plan_of(&watch);
        let mut engine = engine(&open);
        assert!(engine.apply(Event::Applied(watch.id, object(&watch))));
        engine.apply(Event::ListStarted(watch.id));
        assert!(engine.apply(Event::WatchPlan(Arc::new(WatchPlan::default()))));
        assert!(engine.snapshot().kinds.is_empty());
        for late in [
            Event::Listed(watch.id, object(&watch)),
            Event::ListEnded(watch.id),
            Event::ListStarted(watch.id),
            Event::ListEnded(watch.id),
            Event::Applied(watch.id, object(&watch)),
            Event::Deleted { watch: watch.id, namespace: "shop".into(), name: "web".into() },
            Event::WatchHealth(watch.id, SyncHealth::Up),
        ] {
            let event = format!("{late:?}");
            assert!(!engine.apply(late), "{event}");
        }
        assert!(engine.apply(Event::WatchPlan(Arc::new(open.clone()))));
        assert!(!engine.apply(Event::WatchPlan(Arc::new(open))), "the same plan changes nothing");
        let snapshot = engine.snapshot();
        assert_eq!((snapshot.kinds[0].blocks.count(), snapshot.kinds[0].watches[0].synced), (0, false));
    }

    #[test]
    fn episode_counts_end_with_their_claims() {
        let watch = services();
        let second = Arc::new(AtomicI64::new(0));
        let time = second.clone();
        let clock = Clock::new(move || Timestamp::from_second(time.load(Ordering::Relaxed)).unwrap());
        let metrics = EngineMetrics::register(&mut Registry::default());
        let mut engine = Engine::new(&plan_of(&watch), with_hashes(), History::default(), metrics, clock);
        for version in 0..10 {
            second.store(version * 3_600, Ordering::Relaxed);
            let uid = format!("uid-{version}").into();
            let drifted = LiveObject { uid, hash_baseline: mismatch(), ..LiveObject::clone(&object(&watch)) };
            engine.apply(Event::Applied(watch.id, Arc::new(drifted)));
            let episodes = engine.snapshot().kinds[0].blocks.get("shop", "web")[0].claim.episodes;
            assert_eq!(episodes.map(|episodes| episodes.count), Some(1));
            assert_eq!(engine.episode_counts.len(), 1);
            // Its deletion is not always seen.
            if version % 2 == 0 {
                engine.apply(Event::Deleted {
                    watch: watch.id,
                    namespace: "shop".into(),
                    name: "web".into(),
                });
                assert_eq!(engine.episode_counts.len(), 0);
            }
        }
        second.store(33 * 3_600, Ordering::Relaxed);
        assert!(engine.apply(Event::Tick), "a day after the last episode");
        assert_eq!(engine.episode_counts.len(), 0);
    }

    fn baseline(name: &str, serial: u64) -> Arc<Baseline> {
        let version = BaselineVersion {
            serial,
            lineage: name.into(),
            tool_version: "1.11.4".into(),
            written: None,
            chart: None,
        };
        Arc::new(Baseline {
            source: Source::Terraform,
            name: name.into(),
            origin: BaselineOrigin::StateSecret,
            version: Some(version),
            objects: Vec::new(),
            skipped: SkippedResources::default(),
            fault: None,
            lock: None,
            this_cluster: true,
            authority: Authority::Cluster,
        })
    }

    fn declared(group: &str, kind: &str, namespace: &str, name: &str) -> Arc<DeclaredObject> {
        let body = DeclaredBody::Opaque(UnknownReason::Unhashable);
        let object = ObjectRef::new(group, "v1", kind, namespace, name);
        Arc::new(DeclaredObject::new("custom", object, RedactionKey::new([7; 32]), body))
    }

    /// Each namespace has a watch of its own. The end of its list concerns the missing objects of this namespace.
    #[test]
    fn list_reconciles_missing_objects_of_its_watch_only() {
        let namespaces: Vec<String> = (0..20).map(|number| format!("team-{number}")).collect();
        let in_namespace = |namespace: &String| WatchSpec {
            namespace: Some(namespace.as_str().into()),
            ..WatchSpec::all(Arc::new(Kind::service()))
        };
        let watches = WatchIds::default().assign(namespaces.iter().map(in_namespace).map(Arc::new));
        let objects = namespaces.iter().flat_map(|namespace| {
            (0..30).map(move |number| declared("", "Service", namespace, &format!("web-{number}")))
        });
        let declaring = Baseline { objects: objects.collect(), ..Baseline::clone(&baseline("state", 1)) };
        let mut registry = Registry::default();
        let metrics = EngineMetrics::register(&mut registry);
        let plan = WatchPlan { watches: watches.clone(), ..WatchPlan::default() };
        let clock = Clock::new(|| Timestamp::UNIX_EPOCH);
        let mut engine = Engine::new(&plan, with_hashes(), History::default(), metrics, clock);
        engine.apply(Event::Baseline(Arc::new(declaring)));
        for (ended, watch) in watches.iter().enumerate() {
            engine.apply(Event::ListStarted(watch.id));
            engine.apply(Event::ListEnded(watch.id));
            let claims = engine.snapshot().kinds[0].blocks.entries().count();
            assert_eq!(claims, 30 * (ended + 1), "the missing objects of each synced namespace have a claim");
        }
        assert_eq!(reconciles(&registry), 600);
    }

    /// The object proves that the state is of this cluster, so that the state asks for all of its objects.
    #[test]
    fn one_event_reconciles_an_object_once() {
        let watch = services();
        let proving = |number: u32| {
            let name = format!("web-{number}");
            let declared = declared("", "Service", "shop", &name);
            let key = ObjectKey::new(watch.spec.kind.clone(), "shop", &name);
            let hash_baseline = HashBaseline::NotRequested;
            let live = LiveObject { key, hash_baseline, ..LiveObject::clone(&object(&watch)) };
            (
                Arc::new(DeclaredObject { uid: Some("uid".into()), ..DeclaredObject::clone(&declared) }),
                Arc::new(live),
            )
        };
        let (declared, objects): (Vec<_>, Vec<_>) = (0..10).map(proving).unzip();
        let state =
            Baseline { objects: declared, this_cluster: false, ..Baseline::clone(&baseline("state", 1)) };
        for state_first in [false, true] {
            let mut registry = Registry::default();
            let metrics = EngineMetrics::register(&mut registry);
            let clock = Clock::new(|| Timestamp::UNIX_EPOCH);
            let mut engine = Engine::new(&plan_of(&watch), with_hashes(), History::default(), metrics, clock);
            let state = Event::Baseline(Arc::new(state.clone()));
            engine.apply(Event::ListStarted(watch.id));
            engine.apply(Event::ListEnded(watch.id));
            if state_first {
                engine.apply(state);
                // The first object proves it for all: the others are missing so far.
                let before = reconciles(&registry);
                engine.apply(Event::Applied(watch.id, objects[0].clone()));
                assert_eq!(reconciles(&registry) - before, 10);
            } else {
                for object in &objects {
                    assert!(engine.apply(Event::Applied(watch.id, object.clone())));
                }
                let before = reconciles(&registry);
                engine.apply(state);
                assert_eq!(reconciles(&registry) - before, 10);
            }
        }
    }

    /// How many claims were reconciled.
    fn reconciles(registry: &Registry) -> u64 {
        let mut page = String::new();
        encode(&mut page, registry).unwrap();
        let samples = page.lines().filter(|line| line.starts_with("drift_reconciles_total{"));
        samples.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    #[test]
    fn removed_baselines_leave_no_declared_kinds() {
        let mut engine = engine(&plan_of(&services()));
        for number in 0..10 {
            let objects = vec![declared("example.com", &format!("Kind{number}"), "shop", "web")];
            let declaring = Baseline { objects, ..Baseline::clone(&baseline("state", number)) };
            engine.apply(Event::Baseline(Arc::new(declaring)));
            assert_eq!(engine.baselines.declared_kinds(), 1);
        }
        engine.apply(Event::BaselineRemoved(Source::Terraform, "state".into()));
        assert_eq!(engine.baselines.declared_kinds(), 0);
    }

    #[test]
    fn baseline_event_copies_the_states_next_to_it() {
        let mut engine = engine(&plan_of(&services()));
        let mut published = engine.snapshot();
        for number in 0..1_000 {
            assert!(engine.apply(Event::Baseline(baseline(&format!("state-{number:04}"), 1))));
            let changed = engine.snapshot();
            let copied = changed.baselines.copied_since(&published.baselines);
            assert!((1..=65).contains(&copied), "{copied} of {number} states were copied");
            published = changed;
        }
        assert!(
            !engine.apply(Event::Tick) && engine.snapshot().baselines.copied_since(&published.baselines) == 0
        );
        assert!(engine.apply(Event::Baseline(baseline("state-0500", 2))));
        let changed = engine.snapshot();
        assert!((1..=64).contains(&changed.baselines.copied_since(&published.baselines)));
        assert_eq!(changed.baselines.values().count(), 1_000);
        assert!(
            Arc::ptr_eq(&changed.sources, &published.sources)
                && Arc::ptr_eq(&changed.rules, &published.rules)
        );
        assert!(Arc::ptr_eq(&changed.counters, &published.counters));
        assert!(changed.kinds.iter().zip(&published.kinds).all(|(new, old)| Arc::ptr_eq(new, old)));
        engine.apply(Event::BaselineRemoved(Source::Terraform, "state-0500".into()));
        assert!(engine.snapshot().baselines.copied_since(&changed.baselines) < 64);
    }

    #[test]
    fn health_of_a_source_is_copied_if_it_changes() {
        let mut engine = engine(&plan_of(&services()));
        assert!(engine.apply(Event::SourceHealth(Source::Terraform, SyncHealth::Up)));
        let published = engine.snapshot();
        assert!(!engine.apply(Event::SourceHealth(Source::Terraform, SyncHealth::Up)));
        engine.apply(Event::Baseline(baseline("state", 1)));
        assert!(Arc::ptr_eq(&engine.snapshot().sources, &published.sources));
        assert!(engine.apply(Event::SourceHealth(Source::Helm, SyncHealth::Starting)));
        let changed = engine.snapshot();
        assert_eq!((published.sources.len(), changed.sources.len()), (1, 2));
        assert_eq!(changed.baselines.copied_since(&published.baselines), 1, "the new one");
        assert!(
            engine.apply(Event::SourceRemoved(Source::Helm))
                && !engine.apply(Event::SourceRemoved(Source::Helm))
        );
    }

    /// What the first write after a publish copies does not depend on the size of the cluster.
    #[test]
    fn publish_copies_what_changed() {
        let watch = services();
        let mut engine = engine(&plan_of(&watch));
        let object = |namespace: usize, version: &str, digest: HashBaseline| {
            let key = ObjectKey::new(watch.spec.kind.clone(), &format!("team-{namespace}"), "web");
            Arc::new(LiveObject {
                uid: "uid".into(),
                resource_version: version.into(),
                hash_baseline: digest,
                ..LiveObject::named(key)
            })
        };
        let declared = Digest::of(b"declared");
        engine.apply(Event::ListStarted(watch.id));
        for namespace in 0..10_000 {
            engine.apply(Event::Listed(watch.id, object(namespace, "1", HashBaseline::Match(declared))));
        }
        engine.apply(Event::ListEnded(watch.id));

        let published = engine.snapshot();
        assert!(engine.apply(Event::Applied(watch.id, object(7, "2", mismatch()))));
        let changed = engine.snapshot();
        assert_eq!(changed.counters.detections().map(|(_, count)| count).sum::<u64>(), 1);
        let copied = changed.kinds[0].blocks.copied_since(&published.kinds[0].blocks);
        assert!((1..1_000).contains(&copied), "{copied} of 10000 claims and namespaces were copied");
        let copied = changed.counters.copied_since(&published.counters);
        assert!((1..200).contains(&copied), "{copied} of 10000 counters were copied");
        assert!(Arc::ptr_eq(&changed.kinds[0].watches, &published.kinds[0].watches));
        assert!(Arc::ptr_eq(&changed.sources, &published.sources));
        assert_eq!(changed.baselines.copied_since(&published.baselines), 0);
        // The matches of all rules are copied if one changes; the compiled rules are not.
        assert!(!Arc::ptr_eq(&changed.rules, &published.rules));
        assert!(Arc::ptr_eq(changed.rules.set(), published.rules.set()));
        engine.apply(Event::Applied(watch.id, object(8, "2", HashBaseline::Match(declared))));
        assert!(Arc::ptr_eq(&engine.snapshot().rules, &changed.rules), "a rule matches differences only");

        // One transition more copies the chunk of the newest ones.
        for namespace in 0..1_000 {
            engine.apply(Event::Applied(watch.id, object(namespace, "3", HashBaseline::Match(declared))));
            engine.apply(Event::Applied(watch.id, object(namespace, "4", mismatch())));
        }
        let published = engine.snapshot();
        assert!(published.history.newest_first().count() > 1_000);
        assert!(engine.apply(Event::Applied(watch.id, object(0, "5", HashBaseline::Match(declared)))));
        let copied = engine.snapshot().history.copied_since(&published.history);
        assert!((1..=100).contains(&copied), "{copied} transitions were copied");

        // In a full history, a transition evicts others.
        for round in 0..12_000 {
            let digest = if round % 2 == 0 { mismatch() } else { HashBaseline::Match(declared) };
            let published = engine.snapshot().history;
            engine.apply(Event::Applied(watch.id, object(round / 2 % 90, &format!("6{round}"), digest)));
            // Comparing all chunks takes longer than the events.
            if round > 11_000 {
                let copied = engine.snapshot().history.copied_since(&published);
                assert!((1..=1_500).contains(&copied), "{copied} of 10000 transitions were copied");
            }
        }
        let history = engine.snapshot().history;
        assert!(!history.reaches_back_to(1) && history.newest_first().count() > 9_000);
    }

    #[test]
    fn more_claims_than_blocks_have_room_for_move_by_pointer() {
        let watch = services();
        let mut engine = engine(&plan_of(&watch));
        let apply = |engine: &mut Engine, number: usize| {
            let key = ObjectKey::new(watch.spec.kind.clone(), "shop", &format!("web-{number}"));
            let named = LiveObject { key, ..LiveObject::clone(&object(&watch)) };
            engine.apply(Event::Applied(watch.id, Arc::new(named)))
        };
        let mut growths = 0;
        for number in 0..5_000 {
            let published = engine.snapshot();
            assert!(apply(&mut engine, number));
            let changed = engine.snapshot();
            let (before, after) = (&published.kinds[0].blocks, &changed.kinds[0].blocks);
            if before.blocks().len() < after.blocks().len() {
                growths += 1;
                let moved: HashSet<*const ClaimEntry> = after.entries().map(Arc::as_ptr).collect();
                let shared = before.entries().filter(|entry| moved.contains(&Arc::as_ptr(entry)));
                assert_eq!(shared.count(), number, "no claim is copied");
            }
        }
        assert_eq!(growths, 5, "1, 2, 4, 8 and 16 blocks");
    }

    #[test]
    fn watches_of_a_kind_are_copied_if_one_changes() {
        let [services, deployments] =
            [Kind::service(), Kind::deployment()].map(|kind| WatchSpec::all(Arc::new(kind)));
        let watches = WatchIds::default().assign([services, deployments].map(Arc::new));
        let mut engine = engine(&WatchPlan { watches: watches.clone(), ..WatchPlan::default() });
        let published = engine.snapshot();
        assert!(engine.apply(Event::WatchHealth(watches[0].id, SyncHealth::Up)));
        let changed = engine.snapshot();
        let shared: Vec<bool> = changed
            .kinds
            .iter()
            .zip(&published.kinds)
            .map(|(new, old)| Arc::ptr_eq(&new.watches, &old.watches))
            .collect();
        assert_eq!(shared, [true, false], "Deployment, Service");
        assert!(!engine.apply(Event::WatchHealth(watches[0].id, SyncHealth::Up)));
        assert!(Arc::ptr_eq(&engine.snapshot().kinds[1].watches, &changed.kinds[1].watches));
    }
}
