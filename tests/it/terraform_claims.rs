//! Claims of Terraform states: what the engine makes of states, locks and objects that come and go.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use drift_exporter::{
    baseline::terraform::decode,
    compare::keep,
    model::{
        Baseline, BaselineFault, BaselineTrouble, BaselineVersion, Cause, Change, Clock, DownReason, Kind,
        LiveObject, Lock, ObjectKey, Origin, Plan, SealKey, Source, Stamp, StreamHealth, StreamSpec,
        UnknownReason, VerdictKind,
    },
    state::{Belonging, Claim, Engine, EngineMetrics, History, Turn},
};
use jiff::Timestamp;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

struct World {
    engine: Engine,
    stream: Arc<StreamSpec>,
    second: Arc<AtomicI64>,
    version: u64,
}

/// A state of one name with these ConfigMaps: name, uid, value.
fn state(name: &str, serial: u64, maps: &[(&str, &str, &str)]) -> Baseline {
    let resource = |(map, uid, value): &(&str, &str, &str)| {
        let metadata = json!([{"name": map, "namespace": "shop", "uid": uid}]);
        let attributes = json!({"id": format!("shop/{map}"), "metadata": metadata, "data": {"key": value}});
        json!({"mode": "managed", "type": "kubernetes_config_map_v1", "name": map,
            "instances": [{"schema_version": 0, "attributes": attributes}]})
    };
    let resources: Vec<Value> = maps.iter().map(resource).collect();
    let state = json!({"version": 4, "serial": serial, "lineage": name, "resources": resources});
    let read = decode(state.to_string().as_bytes(), &SealKey::new([1; 32])).unwrap();
    Baseline {
        source: Source::Terraform,
        name: name.into(),
        origin: Origin::StateSecret,
        version: Some(BaselineVersion {
            serial,
            lineage: name.into(),
            tool_version: "1.11.4".into(),
            written: None,
        }),
        objects: read.objects,
        skipped: read.skipped,
        fault: None,
        lock: None,
        here: false,
    }
}

fn config_maps() -> Kind {
    Kind {
        group: "".into(),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        plural: "configmaps".into(),
        namespaced: true,
    }
}

impl World {
    /// An engine that has listed these ConfigMaps.
    fn new(baselines: &[Baseline], maps: &[(&str, &str, &str)]) -> Self {
        let stream = Arc::new(StreamSpec::whole(Arc::new(config_maps())));
        let plan = Plan { streams: vec![stream.clone()], ..Plan::default() };
        let second = Arc::new(AtomicI64::new(1_000));
        let time = second.clone();
        let clock = Clock::new(move || Timestamp::from_second(time.load(Ordering::Relaxed)).unwrap());
        let metrics = EngineMetrics::register(&mut Registry::default());
        let sources = [Source::Terraform];
        let engine = Engine::new(&plan, Arc::default(), &sources, History::default(), metrics, clock);
        let mut world = Self { engine, stream, second, version: 0 };
        for baseline in baselines {
            world.baseline(baseline.clone());
        }
        world.engine.apply(Change::Source(Source::Terraform, StreamHealth::Up));
        world.list(maps);
        world
    }

    fn list(&mut self, maps: &[(&str, &str, &str)]) {
        self.engine.apply(Change::ListStarted(self.stream.clone()));
        for map in maps {
            let object = self.object(*map);
            self.engine.apply(Change::Listed(self.stream.clone(), object));
        }
        self.engine.apply(Change::ListEnded(self.stream.clone()));
    }

    fn at(&mut self, second: i64) -> &mut Self {
        self.second.store(second, Ordering::Relaxed);
        self.engine.apply(Change::Tick);
        self
    }

    fn baseline(&mut self, baseline: Baseline) -> &mut Self {
        self.engine.apply(Change::Baseline(Arc::new(baseline)));
        self
    }

    fn object(&mut self, (name, uid, value): (&str, &str, &str)) -> Box<LiveObject> {
        self.version += 1;
        let document = json!({"kind": "ConfigMap", "data": {"key": value}, "metadata": {"name": name, "namespace": "shop",
            "creationTimestamp": "1970-01-01T00:10:00Z", "managedFields": [
                {"manager": "kubectl-edit", "time": "1970-01-01T00:15:00Z", "fieldsV1": {"f:data": {"f:key": {}}}}]}});
        Box::new(LiveObject {
            exists: true,
            uid: uid.into(),
            resource_version: self.version.to_string().into(),
            document: Some(Box::new(keep(document))),
            ..LiveObject::absent(self.key(name))
        })
    }

    fn key(&self, name: &str) -> ObjectKey {
        ObjectKey { kind: self.stream.kind.clone(), namespace: "shop".into(), name: name.into() }
    }

    fn see(&mut self, name: &str, uid: &str, value: &str) -> &mut Self {
        let object = self.object((name, uid, value));
        self.engine.apply(Change::Seen(self.stream.clone(), object));
        self
    }

    fn gone(&mut self, name: &str) -> &mut Self {
        let (stream, namespace, name) = (self.stream.clone(), "shop".into(), name.into());
        self.engine.apply(Change::Gone { stream, namespace, name });
        self
    }

    fn claims(&self, name: &str) -> Vec<Claim> {
        let snapshot = self.engine.snapshot();
        snapshot.kinds[0].blocks.get("shop", name).iter().map(|entry| entry.claim.clone()).collect()
    }

    #[track_caller]
    fn verdict(&self, name: &str) -> (VerdictKind, Option<UnknownReason>) {
        let claims = self.claims(name);
        assert_eq!(claims.len(), 1, "{claims:?}");
        assert_eq!(claims[0].source, Source::Terraform);
        (claims[0].verdict.kind(), claims[0].verdict.reason())
    }

    #[track_caller]
    fn check(&self, name: &str, verdict: VerdictKind) {
        assert_eq!(self.verdict(name), (verdict, None));
    }

    #[track_caller]
    fn check_unknown(&self, name: &str, reason: UnknownReason) {
        assert_eq!(self.verdict(name), (VerdictKind::Unknown, Some(reason)));
    }

    /// How the last episode of the history turned.
    fn last_turn(&self) -> Option<Turn> {
        let history = self.engine.snapshot().history;
        history.newest_first().find_map(|own| own.episode.as_ref()).map(|episode| episode.turn)
    }

    fn detections(&self) -> u64 {
        self.engine.snapshot().ledger.detections.values().sum()
    }
}

const A: (&str, &str, &str) = ("a", "u-a", "1");
const B: (&str, &str, &str) = ("b", "u-b", "1");

fn locked(baseline: Baseline, until: Option<i64>) -> Baseline {
    let lock = Lock {
        operation: "OperationTypeApply".into(),
        who: "ci@runner".into(),
        created: Timestamp::from_second(1_000).ok(),
        holds_until: until.and_then(|until| Timestamp::from_second(until).ok()),
    };
    Baseline { lock: Some(lock), ..baseline }
}

#[test]
fn an_edit_is_drift_with_its_field_writer_onset_and_address() {
    let mut world = World::new(&[state("s", 1, &[A])], &[A, B]);
    world.check("a", VerdictKind::InSync);
    let claims = world.claims("b");
    assert_eq!((claims[0].source, claims[0].verdict.kind()), (Source::Nothing, VerdictKind::NoBaseline));
    world.see("a", "u-a", "2");
    world.check("a", VerdictKind::Drifted);
    let claim = world.claims("a").remove(0);
    let episode = claim.verdict.episode().unwrap();
    let finding = &episode.differences[0].finding;
    assert_eq!((&*finding.path, &*finding.expected, &*finding.actual), ("data.key", "1", "2"));
    assert_eq!(finding.writer.as_ref().map(|writer| &*writer.manager), Some("kubectl-edit"));
    assert_eq!(episode.onset.as_second(), 900);
    let declared = &claim.declared_by()[0];
    assert_eq!((&*declared.address, &*declared.baseline), ("kubernetes_config_map_v1.a", "s"));
    world.see("a", "u-a", "1");
    world.check("a", VerdictKind::InSync);
    assert_eq!(world.last_turn(), Some(Turn::Ended(Cause::Reverted)));
    assert_eq!(world.detections(), 1);
}

#[test]
fn what_is_deleted_is_missing_until_it_is_there_again_or_no_longer_declared() {
    let mut world = World::new(&[state("s", 1, &[A, B])], &[A, B]);
    world.gone("a");
    world.check("a", VerdictKind::Missing);
    let snapshot = world.engine.snapshot();
    assert_eq!(snapshot.kinds[0].blocks.count(), 1, "only one exists");
    assert!(!snapshot.kinds[0].blocks.get("shop", "a")[0].object.exists);
    world.see("a", "u-new", "1");
    world.check("a", VerdictKind::Replaced);
    let claim = world.claims("a").remove(0);
    assert_eq!(claim.verdict.episode().unwrap().onset.as_second(), 600, "when the other one was made");
    world.baseline(state("s", 2, &[("a", "u-new", "1"), B]));
    world.check("a", VerdictKind::InSync);
    assert_eq!(world.last_turn(), Some(Turn::Ended(Cause::Absorbed)));
    world.gone("b").baseline(state("s", 3, &[("a", "u-new", "1")]));
    assert!(world.claims("b").is_empty());
    assert_eq!(world.last_turn(), Some(Turn::Ended(Cause::Deleted)));
    assert_eq!(world.detections(), 2);
}

#[test]
fn what_was_missing_or_differed_at_the_start_is_shown_and_not_counted() {
    let mut world = World::new(&[state("s", 1, &[A, B])], &[("a", "u-a", "2")]);
    world.check("a", VerdictKind::Drifted);
    world.check("b", VerdictKind::Missing);
    assert_eq!((world.detections(), world.last_turn()), (0, None));
    world.list(&[("a", "u-a", "2")]);
    assert_eq!((world.detections(), world.last_turn()), (0, None), "nor by a later list");
}

#[test]
fn an_apply_in_flight_holds_what_was_shown_and_then_reverts_or_absorbs() {
    let one = state("s", 1, &[A, B]);
    let mut world = World::new(&[one.clone()], &[A, B]);
    world.see("a", "u-a", "2").see("b", "u-b", "3");
    world.baseline(locked(one.clone(), Some(2_000)));
    for name in ["a", "b"] {
        world.check(name, VerdictKind::InFlight);
        assert_eq!(world.claims(name)[0].verdict.drifted(), Some(true), "held");
    }
    // The apply puts `a` back and takes over what it finds at `b`.
    world.see("a", "u-a", "1");
    world.baseline(locked(state("s", 2, &[A, ("b", "u-b", "3")]), Some(2_000)));
    world.check("a", VerdictKind::InFlight);
    world.baseline(state("s", 2, &[A, ("b", "u-b", "3")]));
    world.check("a", VerdictKind::InSync);
    world.check("b", VerdictKind::InSync);
    let history = world.engine.snapshot().history;
    let ends: Vec<_> = history
        .newest_first()
        .filter_map(|own| match own.episode.as_ref()?.turn {
            Turn::Ended(cause) => Some((own.key.name.to_string(), cause)),
            Turn::Began | Turn::GoesOn => None,
        })
        .collect();
    assert!(ends.contains(&("a".into(), Cause::Reverted)), "{ends:?}");
    assert!(ends.contains(&("b".into(), Cause::Absorbed)), "{ends:?}");
    assert_eq!(ends.len(), 2);
}

#[test]
fn a_lock_holds_for_some_time_at_most_and_a_plan_holds_nothing() {
    let one = state("s", 1, &[A]);
    let mut world = World::new(&[locked(one.clone(), Some(1_500))], &[A]);
    world.check("a", VerdictKind::InFlight);
    assert_eq!(world.claims("a")[0].verdict.drifted(), None, "never settled");
    world.see("a", "u-a", "2").check("a", VerdictKind::InFlight);
    world.at(1_499).check("a", VerdictKind::InFlight);
    world.at(1_500).check("a", VerdictKind::Drifted);
    world.baseline(locked(one, None));
    world.check("a", VerdictKind::Drifted);
}

#[test]
fn a_state_that_cannot_be_read_makes_unknown_and_holds_what_was_shown() {
    let one = state("s", 1, &[A, B]);
    let mut world = World::new(&[one.clone()], &[A, B]);
    world.see("a", "u-a", "2");
    let fault = BaselineTrouble { fault: BaselineFault::Encrypted, message: "encrypted".into() };
    world.baseline(Baseline { fault: Some(fault), ..one.clone() });
    world.check_unknown("a", UnknownReason::Encrypted);
    assert_eq!(world.claims("a")[0].verdict.drifted(), Some(true));
    assert_eq!(world.claims("b")[0].verdict.drifted(), Some(false));
    world.baseline(one);
    world.check("a", VerdictKind::Drifted);
    assert_eq!(world.detections(), 1, "it is the same episode");
}

#[test]
fn a_state_of_another_cluster_is_unknown_and_not_missing() {
    let elsewhere = state("s", 1, &[("a", "x-a", "1"), ("c", "x-c", "1")]);
    let mut world = World::new(&[elsewhere.clone()], &[A]);
    world.check_unknown("a", UnknownReason::OtherCluster);
    world.check_unknown("c", UnknownReason::OtherCluster);
    assert_eq!(world.engine.snapshot().baselines[0].belonging, Belonging::Elsewhere);
    world.baseline(Baseline { here: true, ..elsewhere.clone() });
    world.check("a", VerdictKind::Replaced);
    world.check("c", VerdictKind::Missing);
    // Once one of its objects turns up, it is of this cluster after all.
    let mut world = World::new(&[elsewhere], &[A]);
    world.see("c", "x-c", "1");
    world.check("c", VerdictKind::InSync);
    world.check("a", VerdictKind::Replaced);
}

#[test]
fn states_that_declare_the_same_object_are_one_claim() {
    let mut world = World::new(&[state("s", 1, &[A]), state("t", 1, &[("a", "u-a", "2")])], &[A]);
    world.check("a", VerdictKind::Drifted);
    let names: Vec<_> =
        world.claims("a")[0].declared_by().iter().map(|own| own.baseline.to_string()).collect();
    assert_eq!(names, ["s", "t"]);
    world.engine.apply(Change::BaselineGone(Source::Terraform, "t".into()));
    world.check("a", VerdictKind::InSync);
    world.engine.apply(Change::BaselineGone(Source::Terraform, "s".into()));
    assert_eq!(world.claims("a")[0].source, Source::Nothing);
}

#[test]
fn nothing_is_said_before_the_kind_was_listed_and_a_kind_that_cannot_be_listed_is_said() {
    let mut world = World::new(&[], &[]);
    let plan = |streams| Arc::new(Plan { streams, ..Plan::default() });
    world.engine.apply(Change::Streams(plan(vec![])));
    world.baseline(Baseline { here: true, ..state("s", 1, &[A]) });
    assert!(world.engine.snapshot().kinds.is_empty());
    world.engine.apply(Change::Streams(plan(vec![world.stream.clone()])));
    assert!(world.claims("a").is_empty());
    let health = StreamHealth::Down { reason: DownReason::Forbidden, message: "no".into() };
    world.engine.apply(Change::Stream(world.stream.clone(), health));
    world.check_unknown("a", UnknownReason::Unwatched);
    world.list(&[A]);
    world.check("a", VerdictKind::InSync);
}

#[test]
fn an_object_read_in_another_version_is_not_compared() {
    let mut world = World::new(&[], &[]);
    let kind = Arc::new(Kind { version: "v2".into(), ..config_maps() });
    let stream = Arc::new(StreamSpec::whole(kind));
    world.engine.apply(Change::Streams(Arc::new(Plan { streams: vec![stream.clone()], ..Plan::default() })));
    world.stream = stream;
    world.baseline(state("s", 1, &[A]));
    world.list(&[A]);
    world.check_unknown("a", UnknownReason::OtherVersion);
}

#[test]
fn a_hash_on_the_object_is_a_claim_of_its_own() {
    let stream = Arc::new(StreamSpec::whole(Arc::new(config_maps())));
    let plan = Plan { streams: vec![stream.clone()], ..Plan::default() };
    let metrics = EngineMetrics::register(&mut Registry::default());
    let clock = Clock::new(|| Timestamp::UNIX_EPOCH);
    let sources = [Source::Annotation, Source::Terraform];
    let engine = Engine::new(&plan, Arc::default(), &sources, History::default(), metrics, clock);
    let mut world = World { engine, stream, second: Arc::default(), version: 0 };
    world.baseline(state("s", 1, &[A]));
    world.list(&[]);
    let sources = |world: &World, name| -> Vec<_> {
        world.claims(name).iter().map(|claim| (claim.source, claim.verdict.kind())).collect()
    };
    let mut object = world.object(A);
    object.stamp = Stamp::Unusable(UnknownReason::BadHash);
    world.engine.apply(Change::Seen(world.stream.clone(), object));
    let mut object = world.object(B);
    object.stamp = Stamp::Absent;
    world.engine.apply(Change::Seen(world.stream.clone(), object));
    let both = [(Source::Annotation, VerdictKind::Unknown), (Source::Terraform, VerdictKind::InSync)];
    assert_eq!(sources(&world, "a"), both);
    assert_eq!(sources(&world, "b"), [(Source::Annotation, VerdictKind::NoBaseline)]);
    world.gone("a");
    assert_eq!(sources(&world, "a"), [(Source::Terraform, VerdictKind::Missing)]);
}
