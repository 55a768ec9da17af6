//! What everyone else reads: an immutable picture of one moment.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use super::{BaselineState, Blocks, DriftCounters, Entry, History, RuleBook};
use crate::types::{
    Baseline, BaselineTrouble, DownReason, Kind, Lock, Scope, Source, UnknownReason, VerdictKind,
    WatchHealth, WatchSpec,
};

/// Everything that is known at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Counts up with each change of what the series show; other facts may change without it.
    pub sequence: u64,
    /// Counts up with each snapshot that is published: two of the same edition are the same in every way.
    pub edition: u64,
    /// The watched kinds, in order.
    pub kinds: Vec<Arc<KindState>>,
    /// What happened since the start.
    pub ledger: Arc<DriftCounters>,
    /// The last transitions.
    pub history: History,
    /// Whether at one moment every first list was answered and at least one could be listed. Streams that are opened
    /// later do not take that back: what was known goes on being shown.
    pub ready: bool,
    /// Whether the server is still being asked how objects of some kinds are compared; nothing is said about these yet.
    pub awaits_shapes: bool,
    /// The rules that hold, and what they match.
    pub rules: Arc<RuleBook>,
    /// Whether the baselines of each source can be found, for sources that have baselines of their own.
    pub sources: BTreeMap<Source, WatchHealth>,
    /// Those baselines, by source and name.
    pub baselines: Arc<[BaselineState]>,
}

/// One watched kind.
#[derive(Clone, Debug)]
pub struct KindState {
    /// The kind.
    pub kind: Arc<Kind>,
    /// Its streams, which never overlap, and what is wanted of it and cannot be watched.
    pub streams: Vec<WatchState>,
    /// Its objects.
    pub blocks: Blocks,
}

/// One stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchState {
    /// What it watches.
    pub spec: Arc<WatchSpec>,
    /// How it fares.
    pub health: WatchHealth,
    /// Whether it was ever listed completely.
    pub listed: bool,
    /// Whether the first list was ever answered: with a list, or with a plain no.
    pub answered: bool,
}

impl Snapshot {
    /// All streams of all kinds.
    pub fn streams(&self) -> impl Iterator<Item = &WatchState> {
        self.kinds.iter().flat_map(|kind| &kind.streams)
    }

    pub(super) fn note_readiness(&mut self) {
        let loaded = |health: &WatchHealth| *health == WatchHealth::Up || is_answer(health);
        let nothing_declared = self.baselines.iter().all(|own| own.baseline.objects.is_empty());
        let all_up = self.sources.values().all(|health| *health == WatchHealth::Up);
        let found_nothing = self.kinds.is_empty() && !self.sources.is_empty() && all_up && nothing_declared;
        self.ready = self.ready
            || (self.sources.values().all(loaded)
                && self.streams().all(|stream| stream.answered)
                && (found_nothing || self.streams().any(|stream| stream.listed)));
    }
}

impl KindState {
    /// Whether this is one of its streams.
    pub(super) fn has_stream(&self, stream: &WatchSpec) -> bool {
        self.kind.is_same_type(&stream.kind) && self.streams.iter().any(|own| *own.spec == *stream)
    }

    /// The verdict and reason to show for an entry: a claim whose stream is down is `unknown`, whatever it was.
    pub fn shown_verdict(&self, entry: &Entry) -> (VerdictKind, Option<UnknownReason>) {
        if self.is_stale(&entry.object.key.namespace, &entry.object.key.name) {
            (VerdictKind::Unknown, Some(UnknownReason::Stale))
        } else {
            (entry.claim.verdict.kind(), entry.claim.verdict.reason())
        }
    }

    /// Whether changes of this object do not reach us.
    pub fn is_stale(&self, namespace: &str, name: &str) -> bool {
        let is_down = |stream: &WatchState| matches!(stream.health, WatchHealth::Down { .. });
        self.streams.iter().any(|stream| is_down(stream) && stream.spec.brings(namespace, name))
    }
}

impl Snapshot {
    /// What is left where only objects of some kinds in some namespaces may be seen: in those that `seen` has for a kind. What cannot be told
    /// by namespace is not in it.
    #[must_use]
    pub fn only<'a>(&self, seen: impl Fn(&Kind) -> Option<&'a Scope>) -> Self {
        // Found once for each kind, however many objects and transitions it has.
        let scopes: HashMap<(&str, &str), &Scope> = self
            .kinds
            .iter()
            .filter_map(|state| Some(((&*state.kind.group, &*state.kind.kind), seen(&state.kind)?)))
            .collect();
        let is_seen = |group: &str, kind: &str, namespace: &str| {
            scopes.get(&(group, kind)).is_some_and(|scope| scope.has(namespace))
        };
        let of_kind = |state: &Arc<KindState>| state.only(seen(&state.kind)?);
        let kinds: Vec<Arc<KindState>> = self.kinds.iter().filter_map(of_kind).collect();
        let in_some_kind = |namespace: &str| scopes.values().any(|scope| scope.has(namespace));
        let verdicts = || kinds.iter().flat_map(|own| own.blocks.entries()).map(|own| &own.claim.verdict);
        let baselines = self.baselines.iter().filter_map(|own| own.only(&is_seen));
        Self {
            sequence: self.sequence,
            edition: self.edition,
            ledger: Arc::new(self.ledger.only(&is_seen)),
            history: self
                .history
                .only(|own| is_seen(&own.key.kind.group, &own.key.kind.kind, &own.key.namespace)),
            ready: self.ready,
            awaits_shapes: self.awaits_shapes,
            rules: Arc::new(self.rules.only(in_some_kind, verdicts())),
            sources: self.sources.iter().map(|(source, health)| (*source, without_words(health))).collect(),
            baselines: baselines.collect(),
            kinds,
        }
    }

    /// Whether two snapshots have the same in them, be they of different moments. Entries that did not change are the same ones.
    pub fn has_the_same(&self, other: &Self) -> bool {
        let newest = |own: &Self| own.history.newest_first().next().map(|transition| transition.sequence);
        (self.ready, self.awaits_shapes, newest(self)) == (other.ready, other.awaits_shapes, newest(other))
            && self.sources == other.sources
            && self.rules.is_same(&other.rules)
            && self.kinds.len() == other.kinds.len()
            && self.kinds.iter().zip(&other.kinds).all(|(own, other)| own.has_the_same(other))
            && self.ledger.detections == other.ledger.detections
            && self.ledger.resolutions == other.ledger.resolutions
            && self.baselines.len() == other.baselines.len()
            && self.baselines.iter().zip(&*other.baselines).all(|(own, other)| own.is_same(other))
    }
}

impl KindState {
    /// None where nothing of the kind may be seen.
    fn only(self: &Arc<Self>, seen: &Scope) -> Option<Arc<Self>> {
        let mut streams = self.streams.clone();
        streams.retain(|stream| stream.spec.namespace.as_deref().is_none_or(|name| seen.has(name)));
        let blocks = self.blocks.only(|namespace| seen.has(namespace));
        if !seen.has("") && blocks.entries().next().is_none() {
            // A stream of all namespaces tells that the kind is watched, which is no secret to those who see some of it.
            streams.retain(|stream| stream.spec.namespace.is_some());
            if streams.is_empty() {
                return None;
            }
        }
        Some(Arc::new(Self { kind: self.kind.clone(), streams, blocks }))
    }

    fn has_the_same(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.streams == other.streams
            && self.blocks.entries().count() == other.blocks.entries().count()
            && self.blocks.entries().zip(other.blocks.entries()).all(|(own, other)| Arc::ptr_eq(own, other))
    }
}

impl BaselineState {
    /// None where it declares nothing that may be seen.
    fn only(&self, is_seen: &impl Fn(&str, &str, &str) -> bool) -> Option<Self> {
        let whole = &self.baseline;
        let mut objects = whole.objects.clone();
        objects.retain(|own| is_seen(&own.object.group, &own.object.kind, &own.object.namespace));
        if objects.is_empty() {
            return None;
        }
        // Who writes it, and why it cannot be read, is told in words that may name what it is kept in.
        let fault = whole.fault.as_ref().map(|own| BaselineTrouble { message: LOG.into(), ..own.clone() });
        let lock = whole.lock.as_ref().map(|own| Lock { who: Box::default(), ..own.clone() });
        // Nobody can tell where objects are that could not be read.
        let baseline = Baseline { objects, skipped: Vec::new(), fault, lock, ..Baseline::clone(whole) };
        let mut left = self.clone();
        left.baseline = Arc::new(baseline);
        Some(left)
    }

    fn is_same(&self, other: &Self) -> bool {
        (self.belonging, self.in_flight) == (other.belonging, other.in_flight)
            && self.baseline == other.baseline
    }
}

/// Where those who may see everything find what is left out here.
const LOG: &str = "the exporter's log says more";

impl DriftCounters {
    fn only(&self, is_seen: &impl Fn(&str, &str, &str) -> bool) -> Self {
        let is_seen = |own: &super::Place| is_seen(&own.kind.group, &own.kind.kind, &own.namespace);
        let detections = self.detections.iter().filter(|(place, _)| is_seen(place));
        let resolutions = self.resolutions.iter().filter(|((place, _), _)| is_seen(place));
        Self {
            detections: detections.map(|(place, count)| (place.clone(), *count)).collect(),
            resolutions: resolutions.map(|(place, count)| (place.clone(), *count)).collect(),
            actors: BTreeMap::new(),
            ages: BTreeMap::new(),
        }
    }
}

/// Why a source cannot be read is told in words that may name what it was looked for in.
fn without_words(health: &WatchHealth) -> WatchHealth {
    match health {
        WatchHealth::Down { reason, .. } => WatchHealth::Down { reason: *reason, message: LOG.into() },
        WatchHealth::Starting | WatchHealth::Up => health.clone(),
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;

    use crate::{
        engine::{Blocks, DriftCounters, KindState, Place, Snapshot, WatchState, baselines::Baselines},
        types::{
            Baseline, BaselineFault, BaselineTrouble, DeclaredBody, DeclaredObject, DownReason, Kind, Lock,
            ObjectName, Origin, RedactionKey, Scope, SkipReason, Skipped, Source, UnknownReason, WatchHealth,
            WatchSpec,
        },
    };

    fn declared(namespace: &str) -> Arc<DeclaredObject> {
        Arc::new(DeclaredObject {
            address: format!("kubernetes_deployment_v1.{namespace}").into(),
            resource_type: "kubernetes_deployment_v1".into(),
            object: ObjectName {
                group: "apps".into(),
                version: "v1".into(),
                kind: "Deployment".into(),
                namespace: namespace.into(),
                name: "web".into(),
            },
            uid: None,
            sensitive: Vec::new(),
            key: RedactionKey::new([1; 32]),
            body: DeclaredBody::Opaque(UnknownReason::TooLarge),
        })
    }

    fn baseline(name: &str, namespaces: &[&str]) -> Arc<Baseline> {
        let skipped = Skipped {
            address: "kubernetes_thing.secret".into(),
            resource_type: "kubernetes_thing".into(),
            reason: SkipReason::UnknownType,
        };
        Arc::new(Baseline {
            source: Source::Terraform,
            name: name.into(),
            origin: Origin::File,
            version: None,
            objects: namespaces.iter().map(|namespace| declared(namespace)).collect(),
            skipped: vec![skipped],
            fault: Some(BaselineTrouble {
                fault: BaselineFault::Unreadable,
                message: "Secret attic/tfstate-own cannot be read".into(),
            }),
            lock: Some(Lock {
                operation: "OperationTypeApply".into(),
                who: "ann@attic".into(),
                created: None,
                holds_until: None,
            }),
            here: true,
        })
    }

    fn kind(kind: Kind, streams: &[Option<&str>]) -> Arc<KindState> {
        let kind = Arc::new(kind);
        let stream = |namespace: Option<&str>| WatchState {
            spec: Arc::new(WatchSpec {
                namespace: namespace.map(Into::into),
                ..WatchSpec::whole(kind.clone())
            }),
            health: WatchHealth::Up,
            listed: true,
            answered: true,
        };
        let streams = streams.iter().copied().map(stream).collect();
        Arc::new(KindState { kind, streams, blocks: Blocks::default() })
    }

    #[test]
    fn what_is_not_of_a_single_object_is_left_out_as_well() {
        let mut baselines = Baselines::default();
        for (name, namespaces) in
            [("both", &["shop", "attic"][..]), ("own", &["shop"]), ("others", &["attic"])]
        {
            baselines.put(&baseline(name, namespaces), Timestamp::UNIX_EPOCH);
        }
        let mut ledger = DriftCounters::new(&[Source::Terraform]);
        for namespace in ["shop", "attic"] {
            let kind = Arc::new(Kind::deployment());
            ledger.open(Place { kind, namespace: namespace.into(), source: Source::Terraform });
        }
        let down = WatchHealth::Down { reason: DownReason::Forbidden, message: "secrets in attic".into() };
        let snapshot = Snapshot {
            kinds: vec![
                kind(Kind::deployment(), &[Some("shop"), Some("attic")]),
                kind(Kind::service(), &[None]),
                kind(Kind::namespace(), &[None]),
            ],
            ledger: Arc::new(ledger),
            sources: [(Source::Terraform, down)].into(),
            baselines: baselines.all().cloned().collect(),
            ..Snapshot::default()
        };
        let shop = Scope::In(["shop".into()].into());
        let seen = snapshot.only(|kind| (&*kind.kind == "Deployment").then_some(&shop));

        let streams: Vec<String> = seen.streams().map(|stream| stream.spec.to_string()).collect();
        assert_eq!(streams, ["deployments.apps in shop"]);
        let left: Vec<_> = seen.baselines.iter().map(|own| &own.baseline).collect();
        let counts: Vec<_> =
            left.iter().map(|own| (&*own.name, own.objects.len(), own.skipped.len())).collect();
        assert_eq!(counts, [("both", 1, 0), ("own", 1, 0)]);
        assert!(seen.ledger.detections.keys().all(|place| &*place.namespace == "shop"));
        assert!(seen.ledger.resolutions.keys().all(|(place, _)| &*place.namespace == "shop"));
        assert!(!seen.ledger.detections.is_empty() && seen.ledger.actors.is_empty());
        assert!(!format!("{seen:?}").contains("attic"), "{seen:?}");
        assert!(
            left.iter().all(|own| own.fault.is_some() && own.lock.is_some()),
            "that there are any is told"
        );
    }
}
