//! A snapshot for somebody who may not see everything.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use super::{BaselineState, DriftCounters, KindState, Snapshot};
use crate::types::{Baseline, BaselineTrouble, Kind, Lock, Scope, WatchHealth};

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
