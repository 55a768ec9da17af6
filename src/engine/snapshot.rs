//! The immutable view of the state that all readers share, and its restriction to the permissions of one
//! caller.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use super::{
    ActiveRules, BaselineState, BaselineStates, ClaimBlocks, ClaimEntry, DriftCounters, History, Transition,
};
use crate::types::{
    Baseline, BaselineError, DownReason, GroupKind, Kind, Lock, Scope, SkippedResources, Source, SyncHealth,
    UnknownReason, VerdictKind, WatchId, WatchSpec,
};

#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Increases with each change of the series. Other parts may change without it.
    pub sequence: u64,
    /// Increases with each published snapshot. Snapshots of one edition are equal.
    pub edition: u64,
    /// The watched kinds, ordered by name.
    pub kinds: Vec<Arc<KindState>>,
    pub counters: Arc<DriftCounters>,
    pub history: History,
    /// Whether every first list ended, and at least one succeeded. Stays true when watches are added
    /// later: their kinds do not hide the results so far.
    pub ready: bool,
    /// Whether schemas of custom resources are still being read; their objects are not judged before that.
    pub awaits_schemas: bool,
    pub rules: Arc<ActiveRules>,
    /// The health of each enabled source that has baselines of its own.
    pub sources: Arc<BTreeMap<Source, SyncHealth>>,
    pub baselines: BaselineStates,
}

#[derive(Clone, Debug)]
pub struct KindState {
    pub kind: Arc<Kind>,
    /// Watches that never overlap, and entries for requested parts of the kind that cannot be watched.
    pub watches: Arc<[WatchState]>,
    pub blocks: ClaimBlocks,
}

/// What the plan has for a requested part of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlannedWatch {
    Open(WatchId),
    /// The part cannot be watched.
    Unwatched,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchState {
    pub planned: PlannedWatch,
    pub spec: Arc<WatchSpec>,
    pub health: SyncHealth,
    /// Whether a list was ever complete.
    pub synced: bool,
    /// Whether the first list is done: it was complete, or the API server refused it.
    pub first_list_ended: bool,
}

impl Snapshot {
    pub fn watches(&self) -> impl Iterator<Item = &WatchState> {
        self.kinds.iter().flat_map(|kind| kind.watches.iter())
    }

    pub(super) fn update_readiness(&mut self) {
        let has_ended = |health: &SyncHealth| *health == SyncHealth::Up || is_refused(health);
        let nothing_declared = self.baselines.values().all(|state| state.baseline.objects.is_empty());
        let all_up = self.sources.values().all(|health| *health == SyncHealth::Up);
        let nothing_to_watch =
            self.kinds.is_empty() && !self.sources.is_empty() && all_up && nothing_declared;
        self.ready = self.ready
            || (self.sources.values().all(has_ended)
                && self.watches().all(|watch| watch.first_list_ended)
                && (nothing_to_watch || self.watches().any(|watch| watch.synced)));
    }

    /// Only the parts that a caller may see: objects of the kinds for which `visible_scope` has a scope, in
    /// the namespaces of that scope. Parts that cannot be attributed to namespaces are dropped.
    #[must_use]
    pub fn scoped_to<'a>(&self, visible_scope: impl Fn(&Kind) -> Option<&'a Scope>) -> Self {
        // Looked up once per kind, not per object and transition.
        let scopes: HashMap<GroupKind<&str>, &Scope> = self
            .kinds
            .iter()
            .filter_map(|state| Some((state.kind.group_kind(), visible_scope(&state.kind)?)))
            .collect();
        let is_visible = |kind: GroupKind<&str>, namespace: &str| {
            scopes.get(&kind).is_some_and(|scope| scope.has(namespace))
        };
        let scope_kind = |state: &Arc<KindState>| state.scoped_to(visible_scope(&state.kind)?);
        let kinds: Vec<Arc<KindState>> = self.kinds.iter().filter_map(scope_kind).collect();
        let is_visible_namespace = |namespace: &str| scopes.values().any(|scope| scope.has(namespace));
        let entries = kinds.iter().flat_map(|kind| kind.blocks.entries());
        let rules = self.rules.scoped_to(is_visible_namespace, entries.map(|entry| &entry.claim.verdict));
        let sources = self.sources.iter().map(|(source, health)| (*source, without_message(health)));
        let baselines = self.baselines.values().filter_map(|state| state.scoped_to(&is_visible));
        Self {
            sequence: self.sequence,
            edition: self.edition,
            counters: Arc::new(self.counters.scoped_to(&is_visible)),
            history: self
                .history
                .filtered(|Transition { key, .. }| is_visible(key.kind.group_kind(), &key.namespace)),
            ready: self.ready,
            awaits_schemas: self.awaits_schemas,
            rules: Arc::new(rules),
            sources: Arc::new(sources.collect()),
            baselines: baselines.collect(),
            kinds,
        }
    }

    /// Whether two snapshots have the same content, whatever their sequence and edition. Entries are compared
    /// by reference: unchanged ones are shared.
    pub fn same_content(&self, other: &Self) -> bool {
        let newest = |snapshot: &Self| snapshot.history.newest_first().next().map(|newest| newest.sequence);
        (self.ready, self.awaits_schemas, newest(self)) == (other.ready, other.awaits_schemas, newest(other))
            && self.sources == other.sources
            && self.rules.same_content(&other.rules)
            && self.kinds.len() == other.kinds.len()
            && self.kinds.iter().zip(&other.kinds).all(|(own, other)| own.same_content(other))
            && self.counters == other.counters
            && self.baselines.values().count() == other.baselines.values().count()
            && self
                .baselines
                .values()
                .zip(other.baselines.values())
                .all(|(own, other)| own.same_content(other))
    }
}

impl KindState {
    /// The verdict to report: a claim whose watch is down is `unknown`, whatever its last verdict.
    pub fn reported_verdict(&self, entry: &ClaimEntry) -> (VerdictKind, Option<UnknownReason>) {
        if self.is_stale(&entry.key().namespace, &entry.key().name) {
            (VerdictKind::Unknown, Some(UnknownReason::Stale))
        } else {
            (entry.claim.verdict.kind(), entry.claim.verdict.reason())
        }
    }

    /// Whether the watch that selects this object is down.
    pub fn is_stale(&self, namespace: &str, name: &str) -> bool {
        let is_down = |watch: &WatchState| matches!(watch.health, SyncHealth::Down { .. });
        self.watches.iter().any(|watch| is_down(watch) && watch.spec.delivers(namespace, name))
    }

    /// None if nothing of the kind is visible.
    fn scoped_to(self: &Arc<Self>, scope: &Scope) -> Option<Arc<Self>> {
        let mut watches = self.watches.to_vec();
        watches.retain(|watch| watch.spec.namespace.as_deref().is_none_or(|name| scope.has(name)));
        let blocks = self.blocks.scoped_to(|namespace| scope.has(namespace));
        if !scope.has("") && blocks.entries().next().is_none() {
            // A watch of all namespaces only shows that the kind is watched. Callers who see one of its
            // objects know that.
            watches.retain(|watch| watch.spec.namespace.is_some());
            if watches.is_empty() {
                return None;
            }
        }
        Some(Arc::new(Self { kind: self.kind.clone(), watches: watches.into(), blocks }))
    }

    fn same_content(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.watches == other.watches
            && self.blocks.entries().count() == other.blocks.entries().count()
            && self.blocks.entries().zip(other.blocks.entries()).all(|(own, other)| Arc::ptr_eq(own, other))
    }
}

impl BaselineState {
    /// None if no object that it declares is visible. Messages and lock holders are dropped: they may name
    /// objects that the caller may not see. So are skipped objects, whose namespace is unknown.
    fn scoped_to(&self, is_visible: &impl Fn(GroupKind<&str>, &str) -> bool) -> Option<Self> {
        let whole = &self.baseline;
        let mut objects = whole.objects.clone();
        objects.retain(|declared| is_visible(declared.object.group_kind(), &declared.object.namespace));
        if objects.is_empty() {
            return None;
        }
        let fault =
            whole.fault.as_ref().map(|error| BaselineError { message: SEE_LOG.into(), ..error.clone() });
        let lock = whole.lock.as_ref().map(|lock| Lock { who: Box::default(), ..lock.clone() });
        let skipped = SkippedResources::default();
        let baseline = Baseline { objects, skipped, fault, lock, ..Baseline::clone(whole) };
        let mut scoped = self.clone();
        scoped.baseline = Arc::new(baseline);
        Some(scoped)
    }

    fn same_content(&self, other: &Self) -> bool {
        (self.cluster_match, self.in_flight) == (other.cluster_match, other.in_flight)
            && self.baseline == other.baseline
    }
}

/// Replaces messages that a caller may not see.
const SEE_LOG: &str = "see the exporter's log";

/// The message of a source that is down may name objects that the caller may not see.
fn without_message(health: &SyncHealth) -> SyncHealth {
    match health {
        SyncHealth::Down { reason, .. } => SyncHealth::Down { reason: *reason, message: SEE_LOG.into() },
        SyncHealth::Starting | SyncHealth::Up => health.clone(),
    }
}

/// Whether the API server refused the list: another attempt has the same result until its configuration
/// changes.
pub(super) fn is_refused(health: &SyncHealth) -> bool {
    match health {
        SyncHealth::Starting | SyncHealth::Up => false,
        SyncHealth::Down { reason, .. } => match reason {
            DownReason::Forbidden | DownReason::NotFound | DownReason::Refused => true,
            DownReason::Stalled | DownReason::Error => false,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;

    use crate::{
        engine::{
            ClaimBlocks, CounterKey, DriftCounters, KindState, PlannedWatch, Snapshot, WatchState,
            baselines::Baselines,
        },
        types::{
            Authority, Baseline, BaselineError, BaselineFault, BaselineOrigin, DeclaredBody, DeclaredObject,
            DownReason, Kind, Lock, ObjectRef, RedactionKey, Scope, SkipReason, SkippedResource, Source,
            SyncHealth, UnknownReason, WatchSpec,
        },
    };

    fn declared(namespace: &str) -> Arc<DeclaredObject> {
        let object = ObjectRef::new("apps", "v1", "Deployment", namespace, "web");
        let body = DeclaredBody::Opaque(UnknownReason::TooLarge);
        let declared =
            DeclaredObject::new("kubernetes_deployment_v1", object, RedactionKey::new([1; 32]), body);
        Arc::new(DeclaredObject {
            address: format!("kubernetes_deployment_v1.{namespace}").into(),
            ..declared
        })
    }

    fn baseline(name: &str, namespaces: &[&str]) -> Arc<Baseline> {
        let skipped = SkippedResource {
            address: "kubernetes_thing.secret".into(),
            resource_type: "kubernetes_thing".into(),
            reason: SkipReason::UnknownType,
        };
        Arc::new(Baseline {
            source: Source::Terraform,
            name: name.into(),
            origin: BaselineOrigin::File,
            version: None,
            objects: namespaces.iter().map(|namespace| declared(namespace)).collect(),
            skipped: vec![skipped].into(),
            fault: Some(BaselineError {
                fault: BaselineFault::Unreadable,
                message: "Secret attic/tfstate-own cannot be read".into(),
            }),
            lock: Some(Lock {
                operation: Some("OperationTypeApply".into()),
                who: "ann@attic".into(),
                created: None,
                in_flight_until: None,
            }),
            this_cluster: true,
            authority: Authority::Cluster,
        })
    }

    fn kind(kind: Kind, watches: &[Option<&str>]) -> Arc<KindState> {
        let kind = Arc::new(kind);
        let watch = |namespace: Option<&str>| WatchState {
            planned: PlannedWatch::Unwatched,
            spec: Arc::new(WatchSpec {
                namespace: namespace.map(Into::into),
                ..WatchSpec::all(kind.clone())
            }),
            health: SyncHealth::Up,
            synced: true,
            first_list_ended: true,
        };
        let watches = watches.iter().copied().map(watch).collect();
        Arc::new(KindState { kind, watches, blocks: ClaimBlocks::default() })
    }

    #[test]
    fn scoped_snapshot_drops_baselines_counters_and_watches_of_other_namespaces() {
        let mut baselines = Baselines::default();
        for (name, namespaces) in
            [("both", &["shop", "attic"][..]), ("own", &["shop"]), ("others", &["attic"])]
        {
            baselines.upsert(&baseline(name, namespaces), Timestamp::UNIX_EPOCH);
        }
        let mut counters = DriftCounters::new(&[Source::Terraform]);
        for namespace in ["shop", "attic"] {
            let kind = Arc::new(Kind::deployment());
            counters.init_key(&CounterKey { kind, namespace: namespace.into(), source: Source::Terraform });
        }
        let down = SyncHealth::Down { reason: DownReason::Forbidden, message: "secrets in attic".into() };
        let snapshot = Snapshot {
            kinds: vec![
                kind(Kind::deployment(), &[Some("shop"), Some("attic")]),
                kind(Kind::service(), &[None]),
                kind(Kind::namespace(), &[None]),
            ],
            counters: Arc::new(counters),
            sources: Arc::new([(Source::Terraform, down)].into()),
            baselines: baselines.states().clone(),
            ..Snapshot::default()
        };
        let shop = Scope::In(["shop".into()].into());
        let scoped = snapshot.scoped_to(|kind| (&*kind.kind == "Deployment").then_some(&shop));

        let watches: Vec<String> = scoped.watches().map(|watch| watch.spec.to_string()).collect();
        assert_eq!(watches, ["deployments.apps in shop"]);
        let baselines: Vec<_> = scoped.baselines.values().map(|state| &state.baseline).collect();
        let counts: Vec<_> = baselines
            .iter()
            .map(|baseline| (&*baseline.name, baseline.objects.len(), baseline.skipped.len()))
            .collect();
        assert_eq!(counts, [("both", 1, 0), ("own", 1, 0)]);
        let namespaces: Vec<_> = scoped.counters.detections().map(|(key, _)| &*key.namespace).collect();
        assert_eq!((namespaces, scoped.counters.actors().count()), (vec!["shop"], 0));
        assert!(scoped.counters.resolutions().all(|(key, ..)| &*key.namespace == "shop"));
        assert!(!format!("{scoped:?}").contains("attic"), "{scoped:?}");
        assert!(
            baselines.iter().all(|baseline| baseline.fault.is_some() && baseline.lock.is_some()),
            "the existence of faults and locks stays visible"
        );
    }
}
