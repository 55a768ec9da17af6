//! The engine folds events into the state and is its only writer. Readers get immutable snapshots.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    mem,
    sync::Arc,
    time::Instant,
};

use jiff::{SignedDuration, Timestamp};
use tracing::warn;

use super::{
    ActiveRules, Claim, ClaimBlocks, ClaimDetails, ClaimEntry, CounterKey, DriftCounters, EngineMetrics,
    EpisodeChange, EpisodeSummary, History, KindState, Snapshot, Transition, WatchState,
    baselines::Baselines,
    claim::{Rater, has_same_rule_inputs, object_view, only_baseline_moved},
    counters::update_rule_matches,
    metrics::{CLAIMED_TWICE, DUPLICATE_ADDRESS, NOT_YAML, OTHER_CLUSTER, STALE_LOCK, UNCHANGED},
    reconcile::{
        Presence, ReconcileContext, SourceVerdict, absence, find_kind, find_object, presence, source_verdicts,
    },
    snapshot::is_refused,
    store::{AutoscalerIndex, StagedList, is_same_version},
};
use crate::{
    diff::manifest::ClusterSchemas,
    rules::RuleSet,
    types::{
        Baseline, BaselineFault, Clock, ControllerStatus, Event, HashBaseline, Judgement, Kind, LiveObject,
        ObjectKey, ResolutionCause, RuleInputs, SkipReason, Source, Verdict, VerdictKind, WatchHealth,
        WatchPlan, WatchSpec,
    },
};

/// A claim keeps its count of episodes for this long after the last one.
const FLAPPING_WINDOW: SignedDuration = SignedDuration::from_hours(24);

#[derive(Debug)]
pub struct Engine {
    clock: Clock,
    metrics: EngineMetrics,
    /// The state as readers see it after the next publish.
    snapshot: Snapshot,
    staged: HashMap<Arc<WatchSpec>, StagedList>,
    /// Watches that select other objects than the watches they replace: objects that are not in their first
    /// list are not deleted, but no longer selected.
    reselected: HashSet<Arc<WatchSpec>>,
    /// Claims with a count of episodes, each once, ordered by the time from which the window is measured.
    episode_counts: VecDeque<(Timestamp, ObjectKey, Source)>,
    /// The version of the last changed block; never reused.
    block_version: u64,
    /// Desired state that is not stored on the objects themselves.
    baselines: Baselines,
    schemas: Arc<ClusterSchemas>,
    autoscalers: AutoscalerIndex,
    grace_periods: HashMap<ObjectKey, Timestamp>,
    /// Rules that expired up to this time have been handled.
    rules_checked_at: Timestamp,
}

impl Engine {
    /// `sources` are the enabled sources.
    pub fn new(
        plan: &WatchPlan,
        rules: Arc<RuleSet>,
        sources: &[Source],
        history: History,
        metrics: EngineMetrics,
        clock: Clock,
    ) -> Self {
        let with_baselines = sources.iter().filter(|source| !source.is_on_object());
        let snapshot = Snapshot {
            counters: Arc::new(DriftCounters::new(sources)),
            history,
            rules: Arc::new(ActiveRules::new(rules)),
            sources: with_baselines.map(|source| (*source, WatchHealth::Starting)).collect(),
            ..Snapshot::default()
        };
        sources.iter().for_each(|source| metrics.init_object_source(*source));
        let now = clock.now();
        let mut engine = Self {
            clock,
            metrics,
            snapshot,
            staged: HashMap::new(),
            reselected: HashSet::new(),
            episode_counts: VecDeque::new(),
            block_version: 0,
            baselines: Baselines::default(),
            schemas: Arc::default(),
            autoscalers: AutoscalerIndex::default(),
            grace_periods: HashMap::new(),
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
            Event::ListStarted(watch) => {
                if kind_of_watch(&self.snapshot, &watch).is_some() {
                    self.staged.insert(watch, StagedList::default());
                }
                false
            }
            Event::Listed(watch, object) => {
                if let Some((staged, kind)) =
                    self.staged.get_mut(&watch).zip(kind_of_watch(&self.snapshot, &watch))
                {
                    staged.add(object, &kind.blocks);
                }
                false
            }
            Event::ListEnded(watch) => self.commit_list(&watch, now),
            Event::Applied(watch, object) => {
                let changed = self.apply_object(&watch, object, true, now);
                self.metrics.observe_duration(started.elapsed());
                changed
            }
            Event::Deleted { watch, namespace, name } => {
                let key = ObjectKey { kind: watch.kind.clone(), namespace, name };
                kind_of_watch(&self.snapshot, &watch).is_some()
                    && self.delete_object(
                        &key,
                        ReconcileContext { counted: true, cause: ResolutionCause::Deleted, now },
                    )
            }
            Event::WatchHealth(watch, health) => self.set_watch_health(&watch, health, now),
            Event::Baseline(baseline) => self.apply_baseline(&baseline, now),
            Event::BaselineRemoved(source, name) => self.remove_baseline(source, &name, now),
            Event::SourceHealth(source, health) => self.set_source_health(source, health),
            Event::SourceRemoved(source) => self.remove_source(source),
            Event::Tick => {
                let rules = self.expire_rules(now);
                let locks = self.expire_locks(now);
                let grace_periods = self.expire_grace_periods(now);
                self.expire_episode_counts(now) || rules || locks || grace_periods
            }
        };
        self.rerate_autoscaled(now) || changed
    }

    // Reconciliation: from the verdicts of the sources to the claims on one object.

    /// Re-evaluates all claims on one object. Returns whether the state changed.
    fn reconcile(&mut self, key: &ObjectKey, presence: &Presence, context: ReconcileContext) -> bool {
        let before = self.entries(key).to_vec();
        let verdicts = source_verdicts(key, presence, &self.baselines, &self.schemas, context.now);
        self.track_grace_period(key, presence, context.now);
        if before.is_empty() && verdicts.is_empty() {
            return false;
        }
        let object = match presence {
            Presence::Exists(object) => object.clone(),
            Presence::Absent | Presence::Unwatched | Presence::NotSynced => self.placeholder(key, &before),
        };
        let mut after = Vec::with_capacity(verdicts.len());
        for verdict in verdicts {
            let previous = before.iter().find(|entry| entry.claim.source == verdict.source);
            // The drift that a new source reports on a known object is older than the source.
            let counted = context.counted && (previous.is_some() || before.is_empty());
            let context = ReconcileContext { counted, ..context };
            after.push(Arc::new(self.update_claim(previous, verdict, &object, context)));
        }
        for entry in &before {
            if !after.iter().any(|updated| updated.claim.source == entry.claim.source) {
                self.end_claim(entry, context);
            }
        }
        self.store_claims(key, &before, after)
    }

    /// Folds the verdict of one source into its claim, and records the transition.
    fn update_claim(
        &mut self,
        previous: Option<&Arc<ClaimEntry>>,
        verdict: SourceVerdict,
        object: &Arc<LiveObject>,
        context: ReconcileContext,
    ) -> ClaimEntry {
        let SourceVerdict { source, judgement, details } = verdict;
        // A recreated object carries a new baseline.
        let is_recreated = |entry: &ClaimEntry| source.is_on_object() && entry.object.uid != object.uid;
        let (previous, recreated) = match previous {
            Some(entry) if is_recreated(entry) => {
                self.end_claim(entry, context);
                (None, true)
            }
            previous => (previous, false),
        };
        let view = object_view(object, source, &self.autoscalers);
        let rater = Rater { rules: self.snapshot.rules.set(), object: view, now: context.now };
        let is_conclusive = !matches!(judgement, Judgement::InFlight | Judgement::Unknown(_));
        let (mut claim, change) = match previous {
            Some(entry) => {
                let baseline_moved = match (&details, &entry.claim.details) {
                    (Some(new), Some(old)) => {
                        new.compared_content == old.compared_content
                            || is_same_content_in_other_version(entry, old, object)
                    }
                    _ => only_baseline_moved(&entry.claim, object),
                };
                entry.claim.clone().judge(judgement, baseline_moved, &rater)
            }
            None => Claim::new(judgement, context.counted || recreated, &rater),
        };
        let old_details = previous.and_then(|entry| entry.claim.details.as_deref());
        claim.details = details.map(|new| match old_details {
            // The results of the last comparison stay valid until the next one.
            Some(old) if !is_conclusive => Arc::new(ClaimDetails {
                compared_content: old.compared_content,
                blind_fields: old.blind_fields.clone(),
                ..new
            }),
            Some(_) | None => Arc::new(new),
        });
        self.metrics.count_reconcile(&object.key.kind, claim.verdict.kind().as_str());
        if let Verdict::Unknown(reason, _) = &claim.verdict {
            self.metrics.count_unknown(source, *reason);
        }
        let entry = ClaimEntry { object: object.clone(), claim };
        self.record_transition(previous.map(|entry| &**entry), Some(&entry), change, context.now);
        entry
    }

    /// Ends a claim that its source no longer makes.
    fn end_claim(&mut self, entry: &ClaimEntry, context: ReconcileContext) {
        let change = match entry.claim.verdict.episode() {
            Some(_) => EpisodeChange::Ended(context.cause),
            None => EpisodeChange::Unchanged,
        };
        self.record_transition(Some(entry), None, change, context.now);
    }

    /// Counts an episode that started or ended, and appends the transition to the history.
    fn record_transition(
        &mut self,
        before: Option<&ClaimEntry>,
        after: Option<&ClaimEntry>,
        change: EpisodeChange,
        now: Timestamp,
    ) {
        let Some(entry) = after.or(before) else { return };
        let counter = counter_key(entry);
        if !self.snapshot.counters.detections.contains_key(&counter) {
            Arc::make_mut(&mut self.snapshot.counters).init_key(counter.clone());
        }
        let old = before.and_then(|entry| entry.claim.verdict.episode());
        let new = after.and_then(|entry| entry.claim.verdict.episode());
        match change {
            EpisodeChange::Unchanged => {}
            EpisodeChange::Started => {
                if let Some(episode) = new {
                    Arc::make_mut(&mut self.snapshot.counters).count_detection(counter, episode);
                }
                if entry.claim.episodes.is_some_and(|episodes| episodes.count == 1) {
                    self.episode_counts.push_back((now, entry.object.key.clone(), entry.claim.source));
                }
            }
            EpisodeChange::Ended(cause) => {
                if let Some(episode) = old {
                    Arc::make_mut(&mut self.snapshot.counters).count_resolution(counter, episode, cause, now);
                }
            }
        }
        let from = before.map(|entry| entry.claim.verdict.kind());
        let to = after.map(|entry| entry.claim.verdict.kind());
        // Two moves are not worth a transition: an object that appears or disappears without an episode, and
        // an apply that changes nothing.
        let is_apply = [from, to].contains(&Some(VerdictKind::InFlight));
        let is_move = from != to && before.is_some() && after.is_some() && !is_apply;
        if change != EpisodeChange::Unchanged || is_move {
            self.snapshot.history.push(Transition {
                sequence: 0,
                time: now,
                key: entry.object.key.clone(),
                uid: entry.object.uid.clone(),
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
    fn store_claims(
        &mut self,
        key: &ObjectKey,
        before: &[Arc<ClaimEntry>],
        after: Vec<Arc<ClaimEntry>>,
    ) -> bool {
        self.block_version += 1;
        self.autoscalers.retarget(scale_target(before), scale_target(&after));
        let Some(kind) = find_kind_mut(&mut self.snapshot.kinds, &key.kind) else {
            return false;
        };
        for source in Source::ALL {
            let (old, new) = (verdict_of(before, *source), verdict_of(&after, *source));
            update_rule_matches(&mut self.snapshot.rules, old, new);
        }
        let series_changed = kind.blocks.replace(&key.namespace, &key.name, after, self.block_version);
        let was_last =
            |entry: &&Arc<ClaimEntry>| kind.blocks.has_no_claims(&key.namespace, entry.claim.source);
        for entry in before.iter().filter(was_last) {
            Arc::make_mut(&mut self.snapshot.counters).drop_if_zero(&counter_key(entry));
        }
        self.snapshot.sequence += u64::from(series_changed);
        true
    }

    /// Reconciles these objects, except declared ones whose kind is not synced: their claims stay as they
    /// are.
    fn reconcile_all(&mut self, keys: Vec<ObjectKey>, context: ReconcileContext) {
        for key in keys {
            let presence = presence(&self.snapshot.kinds, &key);
            if !matches!(presence, Presence::NotSynced) || !self.baselines.is_declared(&key) {
                self.reconcile(&key, &presence, context);
            }
        }
    }

    /// Reconciles the declared objects of a kind that do not exist, after one of its first lists ended.
    fn reconcile_absent(&mut self, kind: &Kind, counted: bool, now: Timestamp) {
        for key in self.baselines.keys_of_kind(kind) {
            let presence = presence(&self.snapshot.kinds, &key);
            if matches!(presence, Presence::Absent | Presence::Unwatched) {
                self.reconcile(
                    &key,
                    &presence,
                    ReconcileContext { counted, cause: ResolutionCause::Deleted, now },
                );
            }
        }
        self.match_baselines(now);
    }

    /// Stands in for an object that does not exist. It keeps the labels that were last read, or else the
    /// declared ones: rules and series must not depend on whether the exporter was restarted.
    fn placeholder(&self, key: &ObjectKey, before: &[Arc<ClaimEntry>]) -> Arc<LiveObject> {
        let was_read = |entry: &&Arc<ClaimEntry>| entry.object.rule_inputs.read_from_object();
        let declared =
            || Arc::new(RuleInputs { labels: self.baselines.labels_of(key), ..RuleInputs::default() });
        let rule_inputs =
            before.first().filter(was_read).map_or_else(declared, |entry| entry.object.rule_inputs.clone());
        Arc::new(LiveObject { rule_inputs, ..LiveObject::absent(self.watched_key(key)) })
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

    // Live objects.

    /// Applies a live object. `counted`: an episode that is detected now started while we watched.
    fn apply_object(
        &mut self,
        watch: &WatchSpec,
        mut object: Arc<LiveObject>,
        counted: bool,
        now: Timestamp,
    ) -> bool {
        let Some(kind) = kind_of_watch(&self.snapshot, watch) else {
            return false;
        };
        let key = object.key.clone();
        let cached = kind.blocks.object(&key.namespace, &key.name).cloned();
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
                self.metrics.count_reconcile(&watch.kind, UNCHANGED);
                return self.refresh_object(&object);
            }
        }
        let matched = self.baselines.match_by_object(&object);
        let context = ReconcileContext { counted, cause: ResolutionCause::Deleted, now };
        self.reconcile(&key, &Presence::Exists(object), context);
        self.reconcile_matched(matched, &HashSet::new(), now);
        true
    }

    /// Stores a new version of an object that no source and no rule can distinguish from the cached one.
    fn refresh_object(&mut self, object: &Arc<LiveObject>) -> bool {
        let before = self.entries(&object.key).to_vec();
        let refresh =
            |entry: &Arc<ClaimEntry>| ClaimEntry { object: object.clone(), claim: entry.claim.clone() };
        let after = before.iter().map(|entry| Arc::new(refresh(entry))).collect();
        self.store_claims(&object.key, &before, after)
    }

    /// Handles the deletion of an object. Claims of sources that still declare it remain.
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

    fn drop_object(&mut self, key: &ObjectKey, cause: ResolutionCause, now: Timestamp) {
        let before = self.entries(key).to_vec();
        if before.is_empty() {
            return;
        }
        for entry in &before {
            self.end_claim(entry, ReconcileContext { counted: true, cause, now });
        }
        self.store_claims(key, &before, Vec::new());
    }

    /// Replaces the objects of a watch by its complete list.
    fn commit_list(&mut self, watch: &Arc<WatchSpec>, now: Timestamp) -> bool {
        let Some(staged) = self.staged.remove(watch) else {
            return false;
        };
        let Some(kind) = kind_of_watch(&self.snapshot, watch) else {
            return false;
        };
        let (changed, deleted) = staged.diff(&kind.blocks, watch);
        // Drift in the first list started before we watched; drift in a relist started since then.
        let counted = kind.watches.iter().any(|state| state.spec == *watch && state.synced);
        let cause =
            if self.reselected.remove(watch) { ResolutionCause::Rule } else { ResolutionCause::Deleted };
        if let Some(state) = self.watch_state_mut(watch) {
            state.synced = true;
            state.answered = true;
            state.health = WatchHealth::Up;
        }
        for key in deleted {
            self.delete_object(&key, ReconcileContext { counted, cause, now });
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
        for object in changed {
            self.apply_object(watch, object, counted, now);
        }
        self.reconcile_matched(matched, &reconciled, now);
        self.reconcile_absent(&watch.kind, counted, now);
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
        self.mark_reselected(&kinds);
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
        let is_open = |spec: &Arc<WatchSpec>| plan.watches.contains(spec);
        self.staged.retain(|spec, _| is_open(spec));
        self.reselected.retain(is_open);
        for (key, cause) in unselected {
            self.delete_object(&key, ReconcileContext { counted: true, cause, now });
        }
        // A kind that cannot be watched has no list whose end would trigger this.
        for kind in self.snapshot.kinds.clone() {
            if kind.watches.iter().any(|watch| is_refused(&watch.health)) {
                self.reconcile_absent(&kind.kind, false, now);
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
            for entry in old.blocks.entries().filter(|entry| !is_selected(&entry.object.key)) {
                match new {
                    Some(_) => unselected.push((entry.object.key.clone(), cause)),
                    None => self.drop_object(&entry.object.key, cause, now),
                }
            }
        }
        unselected
    }

    /// Marks the new watches that select other objects than all watches of their kind before.
    fn mark_reselected(&mut self, kinds: &[KindState]) {
        for new in kinds {
            let old = find_kind(&self.snapshot.kinds, &new.kind);
            let old_specs: Vec<&Arc<WatchSpec>> =
                old.iter().flat_map(|old| &old.watches).map(|watch| &watch.spec).collect();
            for watch in &new.watches {
                if !old_specs.iter().any(|old| old.is_same_request(&watch.spec)) {
                    self.reselected.insert(watch.spec.clone());
                }
            }
        }
    }

    fn set_watch_health(&mut self, watch: &Arc<WatchSpec>, health: WatchHealth, now: Timestamp) -> bool {
        let Some(state) = self.watch_state_mut(watch) else {
            return false;
        };
        let changed = state.health != health;
        let refused = is_refused(&health);
        state.answered |= refused;
        state.health = health;
        if changed && refused {
            self.reconcile_absent(&watch.kind, false, now);
        }
        self.snapshot.update_readiness();
        self.snapshot.sequence += u64::from(changed);
        changed
    }

    fn watch_state_mut(&mut self, watch: &WatchSpec) -> Option<&mut WatchState> {
        let kind = find_kind_mut(&mut self.snapshot.kinds, &watch.kind)?;
        kind.watches.iter_mut().find(|state| *state.spec == *watch)
    }

    // Baselines and their sources.

    fn apply_baseline(&mut self, baseline: &Arc<Baseline>, now: Timestamp) -> bool {
        self.report_baseline_problems(baseline);
        let mut affected = self.baselines.upsert(baseline, now);
        // A cached object may prove that the baseline is of this cluster.
        let live: Vec<Arc<LiveObject>> =
            affected.iter().filter_map(|key| find_object(&self.snapshot.kinds, key)).cloned().collect();
        affected.extend(live.iter().flat_map(|object| self.baselines.match_by_object(object)));
        self.reconcile_all(affected, ReconcileContext::uncounted(ResolutionCause::Absorbed, now));
        self.match_baselines(now);
        self.share_baselines();
        true
    }

    fn remove_baseline(&mut self, source: Source, name: &Arc<str>, now: Timestamp) -> bool {
        let affected = self.baselines.remove(source, name);
        self.reconcile_all(affected, ReconcileContext::uncounted(ResolutionCause::Rule, now));
        self.share_baselines();
        true
    }

    /// Counts and logs the problems that a baseline has and its previous version does not have.
    fn report_baseline_problems(&self, baseline: &Baseline) {
        let before = self.baselines.get(baseline.source, &baseline.name).map(|state| &state.baseline);
        let fault = |baseline: &Baseline| baseline.fault.as_ref().map(|error| error.fault);
        if let Some(new) =
            fault(baseline).filter(|_| before.and_then(|before| fault(before)) != fault(baseline))
        {
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
            let count = |baseline: &Baseline| {
                baseline.skipped.iter().filter(|skipped| skipped.reason == reason).count()
            };
            if count(baseline) > before.map_or(0, |before| count(before)) {
                warn!(state = %baseline.name, count = count(baseline), "{message}");
                self.metrics.count_baseline_error(baseline.source, label);
            }
        }
        for object in &baseline.objects {
            if let Some(other) = self.baselines.conflicting_owner(baseline, object) {
                warn!(state = %baseline.name, address = %object.address, other = %other, "Two baselines declare one object.");
                self.metrics.count_baseline_error(baseline.source, CLAIMED_TWICE);
            }
        }
    }

    fn set_source_health(&mut self, source: Source, health: WatchHealth) -> bool {
        Arc::make_mut(&mut self.snapshot.counters).init_source(source);
        self.metrics.init_baseline_source(source);
        let before = self.snapshot.sources.insert(source, health);
        self.snapshot.update_readiness();
        let changed = before.as_ref() != self.snapshot.sources.get(&source);
        self.snapshot.sequence += u64::from(changed);
        changed
    }

    /// Handles a source that the settings no longer enable.
    fn remove_source(&mut self, source: Source) -> bool {
        let existed = self.snapshot.sources.remove(&source).is_some();
        self.snapshot.update_readiness();
        self.snapshot.sequence += u64::from(existed);
        existed
    }

    /// Reconciles the objects of baselines whose lock was taken, released or expired.
    fn expire_locks(&mut self, now: Timestamp) -> bool {
        let affected = self.baselines.refresh_locks(now);
        for (source, name) in self.baselines.newly_stale_locks(now) {
            warn!(%source, state = %name, "The lock is held for longer than an apply may take; drift is reported again.");
            self.metrics.count_baseline_error(source, STALE_LOCK);
        }
        if affected.is_empty() {
            return false;
        }
        self.reconcile_all(affected, ReconcileContext::uncounted(ResolutionCause::Rule, now));
        self.share_baselines();
        true
    }

    /// Reconciles the objects of baselines that were just matched to this cluster, except those in
    /// `reconciled`.
    fn reconcile_matched(
        &mut self,
        mut keys: Vec<ObjectKey>,
        reconciled: &HashSet<ObjectKey>,
        now: Timestamp,
    ) {
        if !keys.is_empty() {
            keys.retain(|key| !reconciled.contains(key));
            self.reconcile_all(keys, ReconcileContext::uncounted(ResolutionCause::Rule, now));
            self.share_baselines();
        }
    }

    /// Finds baselines of other clusters: all of their kinds are synced, and no object matched.
    fn match_baselines(&mut self, now: Timestamp) {
        let kinds = &self.snapshot.kinds;
        let (elsewhere, affected) = self.baselines.decide_cluster(|key| match presence(kinds, key) {
            Presence::Exists(_) | Presence::Absent => Some(true),
            Presence::Unwatched => None,
            Presence::NotSynced => Some(false),
        });
        for (source, name) in elsewhere {
            warn!(%source, state = %name, "No object of the baseline is in this cluster; it is not compared.");
            self.metrics.count_baseline_error(source, OTHER_CLUSTER);
        }
        if !affected.is_empty() {
            self.reconcile_all(affected, ReconcileContext::uncounted(ResolutionCause::Rule, now));
            self.share_baselines();
        }
    }

    fn share_baselines(&mut self) {
        self.snapshot.baselines = self.baselines.all().cloned().collect();
        self.snapshot.sequence += 1;
    }

    // Rules, schemas, autoscalers and time.

    /// Replaces the rules, and rerates all differences.
    pub fn set_rules(&mut self, rules: Arc<RuleSet>) {
        let now = self.clock.now();
        self.snapshot.rules = Arc::new(ActiveRules::new(rules));
        self.rerate_all(now);
        self.rules_checked_at = now;
    }

    /// Replaces the schemas of custom resources, and reconciles the objects whose schema changed. Returns
    /// whether there is a change to publish.
    pub fn set_schemas(&mut self, schemas: &Arc<ClusterSchemas>) -> bool {
        let changed_kinds = schemas.changed_since(&self.schemas);
        self.schemas = schemas.clone();
        let is_affected = |entry: &&Arc<ClaimEntry>| {
            let kind = &entry.object.key.kind;
            changed_kinds.contains(&(kind.api_version().into(), kind.kind.clone()))
        };
        let entries = self.snapshot.kinds.iter().flat_map(|kind| kind.blocks.entries());
        let keys: HashSet<ObjectKey> =
            entries.filter(is_affected).map(|entry| entry.object.key.clone()).collect();
        let awaits_schemas = schemas.any_pending();
        let changed = !keys.is_empty() || self.snapshot.awaits_schemas != awaits_schemas;
        self.snapshot.awaits_schemas = awaits_schemas;
        let context = ReconcileContext::uncounted(ResolutionCause::Rule, self.clock.now());
        self.reconcile_all(keys.into_iter().collect(), context);
        self.snapshot.sequence += u64::from(changed);
        changed
    }

    /// Rerates all differences if a rule expired since the last check.
    fn expire_rules(&mut self, now: Timestamp) -> bool {
        let expired = self.snapshot.rules.set().any_expires_between(self.rules_checked_at, now);
        self.rules_checked_at = now;
        if expired {
            self.rerate_all(now);
        }
        expired
    }

    /// Applies the rules to all stored differences again. The objects are not compared again.
    fn rerate_all(&mut self, now: Timestamp) {
        let rules = self.snapshot.rules.set().clone();
        let differs = |entry: &&Arc<ClaimEntry>| entry.claim.verdict.differences().next().is_some();
        let entries = self.snapshot.kinds.iter().flat_map(|kind| kind.blocks.entries().filter(differs));
        let entries: Vec<Arc<ClaimEntry>> = entries.cloned().collect();
        let label_names = rules.label_names();
        let mut active = ActiveRules::new(rules.clone());
        for entry in entries {
            active.add(&self.rerate_claim(&entry, &rules, &label_names, now).verdict);
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
        let label_names = rules.label_names();
        let mut changed = false;
        for entry in keys.iter().flat_map(|key| self.entries(key).to_vec()).collect::<Vec<_>>() {
            changed |= self.rerate_claim(&entry, &rules, &label_names, now) != entry.claim;
        }
        changed
    }

    /// Rerates one claim. The rating stays as it is while the cached object lacks labels that the rules need:
    /// the object is being listed again with these labels, and is rated then.
    fn rerate_claim(
        &mut self,
        before: &Arc<ClaimEntry>,
        rules: &RuleSet,
        label_names: &[Box<str>],
        now: Timestamp,
    ) -> Claim {
        if before.object.exists && !before.object.rule_inputs.covers_labels(label_names) {
            return before.claim.clone();
        }
        let object = object_view(&before.object, before.claim.source, &self.autoscalers);
        let (claim, change) = before.claim.clone().rerate(&Rater { rules, object, now });
        if claim != before.claim {
            let entry = ClaimEntry { object: before.object.clone(), claim: claim.clone() };
            self.record_transition(Some(before), Some(&entry), change, now);
            self.replace_claim(entry);
        }
        claim
    }

    /// Replaces the stored claim of the same source on the same object.
    fn replace_claim(&mut self, entry: ClaimEntry) -> bool {
        let (key, source) = (entry.object.key.clone(), entry.claim.source);
        let before = self.entries(&key).to_vec();
        let mut after = before.clone();
        let Some(stored) = after.iter_mut().find(|stored| stored.claim.source == source) else {
            return false;
        };
        *stored = Arc::new(entry);
        self.store_claims(&key, &before, after)
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
        // The deviation lasted while we watched, so its episode counts.
        self.reconcile_all(expired, ReconcileContext { counted: true, cause: ResolutionCause::Rule, now });
        changed
    }

    /// Drops the counts of episodes of claims that had none for [`FLAPPING_WINDOW`].
    fn expire_episode_counts(&mut self, now: Timestamp) -> bool {
        let mut changed = false;
        while let Some((since, ..)) = self.episode_counts.front() {
            if now.duration_since(*since) < FLAPPING_WINDOW {
                break;
            }
            let Some((_, key, source)) = self.episode_counts.pop_front() else { break };
            let entry = self.entries(&key).iter().find(|entry| entry.claim.source == source);
            let Some((entry, episodes)) = entry.and_then(|entry| Some((entry, entry.claim.episodes?))) else {
                continue;
            };
            if now.duration_since(episodes.last) < FLAPPING_WINDOW {
                let at = self.episode_counts.partition_point(|(since, ..)| *since <= episodes.last);
                self.episode_counts.insert(at, (episodes.last, key, source));
                continue;
            }
            let mut entry = ClaimEntry::clone(entry);
            entry.claim.episodes = None;
            changed |= self.replace_claim(entry);
        }
        changed
    }
}

/// The kind of a watch. None for a watch that is closed: its last events arrive too late.
fn kind_of_watch<'a>(snapshot: &'a Snapshot, watch: &WatchSpec) -> Option<&'a Arc<KindState>> {
    let kind = find_kind(&snapshot.kinds, &watch.kind)?;
    kind.watches.iter().any(|state| *state.spec == *watch).then_some(kind)
}

fn find_kind_mut<'a>(kinds: &'a mut [Arc<KindState>], kind: &Kind) -> Option<&'a mut KindState> {
    kinds.iter_mut().find(|state| state.kind.is_same_type(kind)).map(Arc::make_mut)
}

/// The kinds of a plan without objects, ordered by name. Watches that are open already keep their state.
fn planned_kinds(plan: &WatchPlan, old_kinds: &[Arc<KindState>]) -> Vec<KindState> {
    let mut kinds: Vec<KindState> = Vec::new();
    let open = plan.watches.iter().map(|spec| {
        let old = old_kinds.iter().flat_map(|old| &old.watches).find(|watch| watch.spec == *spec);
        old.cloned().unwrap_or_else(|| new_watch(spec, WatchHealth::Starting))
    });
    let unwatched =
        plan.unwatched.iter().map(|unwatched| new_watch(&unwatched.spec, unwatched.health.clone()));
    for watch in open.chain(unwatched) {
        match kinds.iter_mut().find(|kind| kind.kind.is_same_type(&watch.spec.kind)) {
            Some(kind) => kind.watches.push(watch),
            None => kinds.push(KindState {
                kind: watch.spec.kind.clone(),
                watches: vec![watch],
                blocks: ClaimBlocks::default(),
            }),
        }
    }
    kinds.sort_by(|a, b| (&a.kind.kind, &a.kind.group).cmp(&(&b.kind.kind, &b.kind.group)));
    kinds
}

fn new_watch(spec: &Arc<WatchSpec>, health: WatchHealth) -> WatchState {
    WatchState { spec: spec.clone(), answered: is_refused(&health), health, synced: false }
}

fn has_same_watches(new: &[KindState], old: &[Arc<KindState>]) -> bool {
    new.len() == old.len() && new.iter().zip(old).all(|(new, old)| new.watches == old.watches)
}

fn counter_key(entry: &ClaimEntry) -> CounterKey {
    let key = &entry.object.key;
    CounterKey { kind: key.kind.clone(), namespace: key.namespace.clone(), source: entry.claim.source }
}

/// Whether no source and no rule can distinguish two versions of an object.
fn is_equivalent(a: &LiveObject, b: &LiveObject) -> bool {
    a.key.kind == b.key.kind
        && a.hash_baseline == b.hash_baseline
        && a.document == b.document
        && a.report == b.report
        && a.applied == b.applied
        && has_same_rule_inputs(a, b)
}

/// Whether an object did not change since the last comparison, and was only read in another version of its
/// kind.
fn is_same_content_in_other_version(
    previous: &ClaimEntry,
    compared: &ClaimDetails,
    object: &LiveObject,
) -> bool {
    let before = &previous.object;
    !object.resource_version.is_empty()
        && (&before.uid, &before.resource_version) == (&object.uid, &object.resource_version)
        && before.document.as_ref().map(|document| document.content) == compared.compared_content
}

/// The object that an autoscaler scales; none if the claims are not on an autoscaler.
fn scale_target(entries: &[Arc<ClaimEntry>]) -> Option<&ObjectKey> {
    entries.first().and_then(|entry| entry.object.facts.scales.as_deref())
}

fn verdict_of(entries: &[Arc<ClaimEntry>], source: Source) -> Option<&Verdict> {
    entries.iter().find(|entry| entry.claim.source == source).map(|entry| &entry.claim.verdict)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use prometheus_client::registry::Registry;

    use crate::{
        engine::{Engine, EngineMetrics, History},
        types::{
            Clock, Digest, Event, HashBaseline, Kind, LiveObject, ObjectKey, Source, WatchHealth, WatchPlan,
            WatchSpec,
        },
    };

    fn object(spec: &WatchSpec) -> Arc<LiveObject> {
        Arc::new(LiveObject {
            exists: true,
            uid: "uid".into(),
            resource_version: "1".into(),
            hash_baseline: HashBaseline::Match(Digest::of(b"")),
            ..LiveObject::absent(ObjectKey::new(spec.kind.clone(), "shop", "web"))
        })
    }

    fn engine(plan: &WatchPlan) -> Engine {
        let metrics = EngineMetrics::register(&mut Registry::default());
        let clock = Clock::new(|| Timestamp::UNIX_EPOCH);
        Engine::new(plan, Arc::default(), &[Source::Annotation], History::default(), metrics, clock)
    }

    #[test]
    fn relist_with_another_decode_config_replaces_the_hash_baseline() {
        let spec = Arc::new(WatchSpec::all(Arc::new(Kind::service())));
        let mut engine = engine(&WatchPlan { watches: vec![spec.clone()], ..WatchPlan::default() });
        for hash_baseline in [HashBaseline::Match(Digest::of(b"")), HashBaseline::NotRequested] {
            let listed = Arc::new(LiveObject { hash_baseline, ..LiveObject::clone(&object(&spec)) });
            engine.apply(Event::ListStarted(spec.clone()));
            engine.apply(Event::Listed(spec.clone(), listed.clone()));
            assert!(engine.apply(Event::ListEnded(spec.clone())));
            let snapshot = engine.snapshot();
            assert_eq!(*snapshot.kinds[0].blocks.object("shop", "web").unwrap(), listed);
        }
        assert_eq!(engine.snapshot().kinds[0].blocks.get("shop", "web")[0].claim.source, Source::Unclaimed);
    }

    #[test]
    fn events_of_a_closed_watch_are_ignored() {
        let spec = Arc::new(WatchSpec::all(Arc::new(Kind::service())));
        let open = WatchPlan { watches: vec![spec.clone()], ..WatchPlan::default() };
        let mut engine = engine(&open);
        assert!(engine.apply(Event::Applied(spec.clone(), object(&spec))));
        engine.apply(Event::ListStarted(spec.clone()));
        assert!(engine.apply(Event::WatchPlan(Arc::new(WatchPlan::default()))));
        assert!(engine.snapshot().kinds.is_empty());
        for late in [
            Event::Listed(spec.clone(), object(&spec)),
            Event::ListEnded(spec.clone()),
            Event::ListStarted(spec.clone()),
            Event::ListEnded(spec.clone()),
            Event::Applied(spec.clone(), object(&spec)),
            Event::Deleted { watch: spec.clone(), namespace: "shop".into(), name: "web".into() },
            Event::WatchHealth(spec.clone(), WatchHealth::Up),
        ] {
            let event = format!("{late:?}");
            assert!(!engine.apply(late), "{event}");
        }
        assert!(engine.apply(Event::WatchPlan(Arc::new(open.clone()))));
        assert!(!engine.apply(Event::WatchPlan(Arc::new(open))), "the same plan changes nothing");
        let snapshot = engine.snapshot();
        assert_eq!((snapshot.kinds[0].blocks.count(), snapshot.kinds[0].watches[0].synced), (0, false));
    }
}
