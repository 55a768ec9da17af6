//! A snapshot for somebody who may not see everything.

use std::{collections::BTreeMap, sync::Arc};

use super::{BaselineState, KindState, Ledger, Snapshot};
use crate::model::{Baseline, Kind, StreamHealth};

impl Snapshot {
    /// What is left where only objects of some kinds in some namespaces may be seen. What cannot be told by namespace is not in it.
    #[must_use]
    pub fn only(&self, sees: &impl Fn(&Kind, &str) -> bool) -> Self {
        let kinds: Vec<Arc<KindState>> = self.kinds.iter().filter_map(|state| state.only(sees)).collect();
        let kind_of = |group: &str, kind: &str| {
            let mut found = self.kinds.iter().map(|state| &state.kind);
            found.find(|own| &*own.group == group && &*own.kind == kind)
        };
        let is_seen = |group: &str, kind: &str, namespace: &str| {
            kind_of(group, kind).is_some_and(|kind| sees(kind, namespace))
        };
        let in_some_kind = |namespace: &str| self.kinds.iter().any(|state| sees(&state.kind, namespace));
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
}

impl KindState {
    /// None where nothing of the kind may be seen.
    fn only(self: &Arc<Self>, sees: &impl Fn(&Kind, &str) -> bool) -> Option<Arc<Self>> {
        let in_namespace = |namespace: &str| sees(&self.kind, namespace);
        let mut streams = self.streams.clone();
        streams.retain(|stream| stream.spec.namespace.as_deref().is_none_or(in_namespace));
        let blocks = self.blocks.only(in_namespace);
        let everywhere = sees(&self.kind, "");
        if !everywhere && blocks.entries().next().is_none() {
            // A stream of all namespaces tells that the kind is watched, which is no secret to those who see some of it.
            streams.retain(|stream| stream.spec.namespace.is_some());
            if streams.is_empty() {
                return None;
            }
        }
        Some(Arc::new(Self { kind: self.kind.clone(), streams, blocks }))
    }
}

impl BaselineState {
    /// None where it declares nothing that may be seen.
    fn only(&self, is_seen: &impl Fn(&str, &str, &str) -> bool) -> Option<Self> {
        let mut objects = self.baseline.objects.clone();
        objects.retain(|own| is_seen(&own.object.group, &own.object.kind, &own.object.namespace));
        if objects.is_empty() {
            return None;
        }
        // Nobody can tell where objects are that could not be read.
        let skipped = if objects.len() == self.baseline.objects.len() {
            self.baseline.skipped.clone()
        } else {
            Vec::new()
        };
        let baseline = Baseline { objects, skipped, ..Baseline::clone(&self.baseline) };
        let mut left = self.clone();
        left.baseline = Arc::new(baseline);
        Some(left)
    }
}

impl Ledger {
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
fn without_words(health: &StreamHealth) -> StreamHealth {
    match health {
        StreamHealth::Down { reason, .. } => {
            StreamHealth::Down { reason: *reason, message: "the exporter's log says more".into() }
        }
        StreamHealth::Starting | StreamHealth::Up => health.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;

    use crate::{
        model::{
            Baseline, DeclaredBody, DeclaredObject, DownReason, Kind, ObjectName, Origin, SealKey,
            SkipReason, Skipped, Source, StreamHealth, StreamSpec, UnknownReason,
        },
        state::{Blocks, KindState, Ledger, Place, Snapshot, StreamState, baselines::Baselines},
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
            key: SealKey::new([1; 32]),
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
            fault: None,
            lock: None,
            here: true,
        })
    }

    fn kind(kind: Kind, streams: &[Option<&str>]) -> Arc<KindState> {
        let kind = Arc::new(kind);
        let stream = |namespace: Option<&str>| StreamState {
            spec: Arc::new(StreamSpec {
                namespace: namespace.map(Into::into),
                ..StreamSpec::whole(kind.clone())
            }),
            health: StreamHealth::Up,
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
        let mut ledger = Ledger::new(&[Source::Terraform]);
        for namespace in ["shop", "attic"] {
            let kind = Arc::new(Kind::deployment());
            ledger.open(Place { kind, namespace: namespace.into(), source: Source::Terraform });
        }
        let down = StreamHealth::Down { reason: DownReason::Forbidden, message: "secrets in attic".into() };
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
        let seen =
            snapshot.only(&|kind: &Kind, namespace: &str| &*kind.kind == "Deployment" && namespace == "shop");

        let streams: Vec<String> = seen.streams().map(|stream| stream.spec.to_string()).collect();
        assert_eq!(streams, ["deployments.apps in shop"]);
        let left: Vec<_> = seen.baselines.iter().map(|own| &own.baseline).collect();
        let counts: Vec<_> =
            left.iter().map(|own| (&*own.name, own.objects.len(), own.skipped.len())).collect();
        assert_eq!(counts, [("both", 1, 0), ("own", 1, 1)]);
        assert!(seen.ledger.detections.keys().all(|place| &*place.namespace == "shop"));
        assert!(seen.ledger.resolutions.keys().all(|(place, _)| &*place.namespace == "shop"));
        assert!(!seen.ledger.detections.is_empty() && seen.ledger.actors.is_empty());
        assert!(!format!("{seen:?}").contains("attic"), "{seen:?}");
    }
}
