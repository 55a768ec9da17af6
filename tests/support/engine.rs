//! An engine without sources and watches: tests apply its events. Terraform states declare `ConfigMap`s.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use drift_exporter::{
    diff::pack_live_object,
    engine::{Claim, Engine, EngineMetrics, EpisodeChange, History},
    event::{EngineConfig, Event},
    rules::RuleSet,
    sources::terraform::decode,
    types::{
        Authority, Baseline, BaselineOrigin, BaselineVersion, Clock, Kind, LiveDocument, LiveObject,
        ObjectKey, RedactionKey, RedactionPolicy, Source, SyncHealth, UnknownReason, VerdictKind, Watch,
        WatchIds, WatchPlan, WatchSpec,
    },
};
use jiff::Timestamp;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

/// An engine that watches one kind, with a clock that tests set.
pub struct EngineFixture {
    pub engine: Engine,
    pub config: EngineConfig,
    pub ids: WatchIds,
    pub stream: Watch,
    pub second: Arc<AtomicI64>,
    pub version: u64,
    /// The fields to redact in objects that tests apply.
    pub redaction: RedactionPolicy,
}

/// A state that declares these ConfigMaps: name, uid, value.
pub fn state(name: &str, serial: u64, maps: &[(&str, &str, &str)]) -> Baseline {
    state_of(name, serial, maps, &json!([]), &key(1))
}

/// A state that declares one ConfigMap with labels.
pub fn state_with_labels(name: &str, map: &str, labels: &Value) -> Baseline {
    let metadata = json!([{"name": map, "namespace": "shop", "uid": "u", "labels": labels}]);
    baseline_of(name, 1, &[resource(map, &metadata, "1", &json!([]))], &key(1))
}

/// The same state with the data marked as sensitive, redacted with a key.
pub fn sensitive_state(name: &str, serial: u64, maps: &[(&str, &str, &str)], key: &RedactionKey) -> Baseline {
    state_of(name, serial, maps, &json!([[{"type": "get_attr", "value": "data"}]]), key)
}

pub fn key(number: u8) -> RedactionKey {
    RedactionKey::new([number; 32])
}

fn state_of(
    name: &str,
    serial: u64,
    maps: &[(&str, &str, &str)],
    sensitive_paths: &Value,
    key: &RedactionKey,
) -> Baseline {
    let metadata = |map, uid| json!([{"name": map, "namespace": "shop", "uid": uid}]);
    let resources =
        maps.iter().map(|(map, uid, value)| resource(map, &metadata(map, uid), value, sensitive_paths));
    baseline_of(name, serial, &resources.collect::<Vec<_>>(), key)
}

fn resource(map: &str, metadata: &Value, value: &str, sensitive_paths: &Value) -> Value {
    let attributes = json!({"id": format!("shop/{map}"), "metadata": metadata, "data": {"key": value}});
    json!({"mode": "managed", "type": "kubernetes_config_map_v1", "name": map,
        "instances": [{"schema_version": 0, "attributes": attributes, "sensitive_attributes": sensitive_paths}]})
}

fn baseline_of(name: &str, serial: u64, resources: &[Value], key: &RedactionKey) -> Baseline {
    let state = json!({"version": 4, "serial": serial, "lineage": name, "resources": resources});
    let decoded = decode(state.to_string().as_bytes(), key).unwrap();
    Baseline {
        source: Source::Terraform,
        name: name.into(),
        origin: BaselineOrigin::StateSecret,
        version: Some(BaselineVersion {
            serial,
            lineage: name.into(),
            tool_version: "1.11.4".into(),
            written: None,
            chart: None,
        }),
        objects: decoded.objects,
        skipped: decoded.skipped.into(),
        fault: None,
        lock: None,
        this_cluster: false,
        authority: Authority::Cluster,
    }
}

pub fn config_maps() -> Kind {
    Kind {
        group: "".into(),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        plural: "configmaps".into(),
        namespaced: true,
    }
}

impl EngineFixture {
    /// An engine with baselines that has listed these ConfigMaps.
    pub fn new(baselines: &[Baseline], maps: &[(&str, &str, &str)]) -> Self {
        let mut fixture = Self::not_synced(config_maps(), &[Source::Terraform]);
        for baseline in baselines {
            fixture.set_baseline(baseline.clone());
        }
        fixture.engine.apply(Event::SourceHealth(Source::Terraform, SyncHealth::Up));
        fixture.list(maps);
        fixture
    }

    /// An engine before the first list. Its clock starts at second 1000.
    pub fn not_synced(kind: Kind, sources: &[Source]) -> Self {
        let mut ids = WatchIds::default();
        let stream = ids.assign([Arc::new(WatchSpec::all(Arc::new(kind)))]).remove(0);
        let plan = WatchPlan { watches: vec![stream.clone()], ..WatchPlan::default() };
        let second = Arc::new(AtomicI64::new(1_000));
        let time = second.clone();
        let clock = Clock::new(move || Timestamp::from_second(time.load(Ordering::Relaxed)).unwrap());
        let metrics = EngineMetrics::register(&mut Registry::default());
        let config = EngineConfig { sources: sources.to_vec(), ..EngineConfig::default() };
        let engine = Engine::new(&plan, Arc::new(config.clone()), History::default(), metrics, clock);
        Self { engine, config, ids, stream, second, version: 0, redaction: RedactionPolicy::new(key(1)) }
    }

    pub fn list(&mut self, maps: &[(&str, &str, &str)]) {
        self.engine.apply(Event::ListStarted(self.stream.id));
        for map in maps {
            let object = self.object(*map);
            self.engine.apply(Event::Listed(self.stream.id, object));
        }
        self.engine.apply(Event::ListEnded(self.stream.id));
    }

    /// Returns whether the rules changed the snapshot.
    pub fn apply_rules(&mut self, rules: Arc<RuleSet>) -> bool {
        self.config.rules = rules;
        self.engine.apply(Event::Config(Arc::new(self.config.clone())))
    }

    pub fn set_time(&mut self, second: i64) -> &mut Self {
        self.second.store(second, Ordering::Relaxed);
        self
    }

    /// Returns whether the tick changed the snapshot.
    pub fn tick(&mut self) -> bool {
        self.engine.apply(Event::Tick)
    }

    pub fn advance_to(&mut self, second: i64) -> &mut Self {
        self.set_time(second).tick();
        self
    }

    pub fn set_baseline(&mut self, baseline: Baseline) -> &mut Self {
        self.engine.apply(Event::Baseline(Arc::new(baseline)));
        self
    }

    pub fn object(&mut self, (name, uid, value): (&str, &str, &str)) -> Arc<LiveObject> {
        self.version += 1;
        let document = json!({"kind": "ConfigMap", "data": {"key": value}, "metadata": {"name": name, "namespace": "shop",
            "creationTimestamp": "1970-01-01T00:10:00Z", "managedFields": [
                {"manager": "kubectl-edit", "time": "1970-01-01T00:15:00Z", "fieldsV1": {"f:data": {"f:key": {}}}}]}});
        let document = pack_live_object(document, &self.stream.spec.kind, &self.redaction);
        Arc::new(LiveObject {
            uid: uid.into(),
            resource_version: self.version.to_string().into(),
            document: Some(Box::new(LiveDocument::Readable(document))),
            ..LiveObject::named(self.key(name))
        })
    }

    pub fn key(&self, name: &str) -> ObjectKey {
        ObjectKey { kind: self.stream.spec.kind.clone(), namespace: "shop".into(), name: name.into() }
    }

    pub fn observe(&mut self, name: &str, uid: &str, value: &str) -> &mut Self {
        let object = self.object((name, uid, value));
        self.engine.apply(Event::Applied(self.stream.id, object));
        self
    }

    pub fn delete(&mut self, name: &str) -> &mut Self {
        let (watch, namespace, name) = (self.stream.id, "shop".into(), name.into());
        self.engine.apply(Event::Deleted { watch, namespace, name });
        self
    }

    pub fn claims(&self, name: &str) -> Vec<Claim> {
        let snapshot = self.engine.snapshot();
        snapshot.kinds[0].blocks.get("shop", name).iter().map(|entry| entry.claim.clone()).collect()
    }

    #[track_caller]
    pub fn verdict(&self, name: &str) -> (VerdictKind, Option<UnknownReason>) {
        let claims = self.claims(name);
        assert_eq!(claims.len(), 1, "{claims:?}");
        assert_eq!(claims[0].source, Source::Terraform);
        (claims[0].verdict.kind(), claims[0].verdict.reason())
    }

    #[track_caller]
    pub fn assert_verdict(&self, name: &str, verdict: VerdictKind) {
        assert_eq!(self.verdict(name), (verdict, None));
    }

    #[track_caller]
    pub fn assert_unknown(&self, name: &str, reason: UnknownReason) {
        assert_eq!(self.verdict(name), (VerdictKind::Unknown, Some(reason)));
    }

    /// The last episode change in the history.
    pub fn last_episode_change(&self) -> Option<EpisodeChange> {
        let history = self.engine.snapshot().history;
        history
            .newest_first()
            .find_map(|transition| transition.episode.as_ref())
            .map(|episode| episode.change)
    }

    pub fn detections(&self) -> u64 {
        self.engine.snapshot().counters.detections().map(|(_, count)| count).sum()
    }
}
