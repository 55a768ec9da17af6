//! Objects declared in different versions of one kind: each is watched in its declared version, on one watch.

use std::sync::Arc;

use drift_exporter::{
    event::Event,
    types::{
        DownReason, Kind, NameSet, Scope, ServedKind, ServedKinds, Source, SyncHealth, UnknownReason,
        VerdictKind, WantedKind, Watch, WatchIds, WatchPlan, WatchSpec,
    },
    watch::{Discovery, plan},
};
use serde_json::Value;

use crate::{
    plan::{cluster, describe_streams, kind, want},
    support::{
        api_server::ServerFault,
        autoscalers::{AUTOSCALERS, SOON, StateFiles, autoscaler, declared, server},
        engine::{self, EngineFixture, state},
        exporter_fixture::ExporterFixture,
    },
};

/// A kind whose objects are declared in these versions.
fn pinned(wanted: &str, versions: &[(&str, &[&str])]) -> WantedKind {
    let versions = versions.iter().map(|(version, objects)| {
        let names: NameSet = objects.iter().filter_map(|name| name.split_once('/')).collect();
        ((*version).into(), names)
    });
    WantedKind { versions: Arc::new(versions.collect()), ..want(wanted) }
}

#[track_caller]
fn check_versions(wanted: &[WantedKind], streams: &[&str]) {
    let mut reordered = wanted.to_vec();
    reordered.reverse();
    for wanted in [wanted, &reordered] {
        let plan = plan(wanted, &cluster(), &mut WatchIds::default());
        assert_eq!(describe_streams(&plan), streams);
        assert!(plan.unwatched.is_empty(), "{:?}", plan.unwatched);
        for name in ["a/x", "a/y", "b/x", "b/z", "c/x"] {
            let (namespace, name) = name.split_once('/').unwrap();
            let count = plan.watches.iter().filter(|watch| watch.spec.delivers(namespace, name)).count();
            let covered = plan.watches.iter().any(|watch| watch.spec.covers(namespace));
            assert_eq!(count, usize::from(covered), "{namespace}/{name} in {streams:?}");
        }
    }
}

#[test]
fn object_is_watched_only_in_its_declared_version() {
    let both: &[(&str, &[&str])] = &[("v1", &["a/x", "b/x", "b/z"]), ("v2", &["a/y"])];
    check_versions(
        &[pinned("example.com/v1 Widget in a,b", both)],
        &[
            "example.com/v1 Widget in a without a/y",
            "example.com/v1 Widget in b",
            "example.com/v2 Widget in a only a/y",
        ],
    );
    check_versions(
        &[pinned("example.com/v2 Widget", both)],
        &["example.com/v2 Widget without a/x,b/x,b/z", "example.com/v1 Widget only a/x,b/x,b/z"],
    );
    // Settings select the version of all objects but declared ones.
    check_versions(
        &[
            pinned("example.com/v1 Widget in a", &[("v1", &["a/x"])]),
            want("example.com/v2 Widget but c with q"),
        ],
        &["example.com/v2 Widget but c choosing 2 without a/x", "example.com/v1 Widget but c only a/x"],
    );
    // The namespace of the other version is not wanted.
    check_versions(&[pinned("example.com/v1 Widget in b", both)], &["example.com/v1 Widget in b"]);
}

#[test]
fn unserved_version_shares_the_default_watch() {
    let versions: &[(&str, &[&str])] = &[("v1", &["a/x"]), ("v3", &["a/y", "b/x"])];
    check_versions(
        &[pinned("example.com/v3 Widget in a", versions)],
        &["example.com/v2 Widget in a without a/x", "example.com/v1 Widget in a only a/x"],
    );
    let of_deployments = pinned("apps/v1 Deployment in a", &[("v1", &["a/x"]), ("v1beta1", &["a/y"])]);
    check_versions(&[of_deployments], &["apps/v1 Deployment in a"]);
}

#[test]
fn named_lease_is_watched_in_its_version() {
    let lease = |version: &str, name: &str| WantedKind {
        scope: Scope::new(["x"], []),
        name: Some(name.into()),
        ..WantedKind::parse(&format!("coordination.k8s.io/{version}"), "Lease").unwrap()
    };
    let kinds = ["v1", "v1beta1"].map(|version| ServedKind {
        kind: Arc::new(kind("coordination.k8s.io", version, "Lease")),
        watchable: true,
    });
    let discovery = Discovery::Complete(Arc::new(ServedKinds { kinds: kinds.into() }));
    let plan = plan(&[lease("v1", "a"), lease("v1beta1", "b")], &discovery, &mut WatchIds::default());
    let watches: Vec<_> =
        plan.watches.iter().map(|Watch { spec, .. }| (spec.name.as_deref(), &*spec.kind.version)).collect();
    assert_eq!(watches, [(Some("a"), "v1"), (Some("b"), "v1beta1")]);
}

const KIND: &str = "horizontalpodautoscalers.autoscaling";

fn streams(status: &Value) -> Vec<(String, String, Option<u64>, String)> {
    let text = |entry: &Value| entry.as_str().unwrap().to_owned();
    let streams = status["streams"].as_array().unwrap().iter();
    streams
        .map(|entry| {
            (text(&entry["version"]), text(&entry["scope"]), entry["objects"].as_u64(), text(&entry["state"]))
        })
        .collect()
}

fn transitions(history: &Value) -> Vec<String> {
    let transitions = history["transitions"].as_array().unwrap().iter();
    transitions
        .map(|entry| format!("{} {} {}", entry["name"], entry["from"], entry["to"]).replace('"', ""))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn autoscalers_are_compared_in_their_declared_versions() {
    let api = server(&["v2", "v1"]);
    let states = StateFiles::new();
    for name in ["old", "new", "newer", "loose"] {
        api.put(AUTOSCALERS, autoscaler(name, "web", 80, 1));
    }
    let of = |version: &str, name: &str| declared(version, name, "web", 80);
    states.write("shop", 1, &[of("v1", "old"), of("v2", "new"), of("v2", "newer")]);
    let exporter = states.start_exporter(&api);
    for name in ["old", "new", "newer"] {
        exporter.wait_for_verdict(KIND, name, "in_sync").await;
    }
    exporter.wait_for_verdict(KIND, "loose", "no_baseline").await;
    for name in ["old", "new"] {
        api.put(AUTOSCALERS, autoscaler(name, "web", 50, 30));
    }
    let of_old = exporter.wait_for_verdict(KIND, "old", "drifted").await;
    assert_eq!(of_old, ["spec.targetCPUUtilizationPercentage"]);
    let of_new = exporter.wait_for_verdict(KIND, "new", "drifted").await;
    assert_eq!(of_new, ["spec.metrics[0].resource.target.averageUtilization"]);
    exporter.wait_for_verdict(KIND, "newer", "in_sync").await;
    let shown = exporter.get("/v1/status").await.json();
    let up = |version: &str, objects| (version.to_owned(), "shop".to_owned(), objects, "up".to_owned());
    assert_eq!(streams(&shown), [up("v2", None), up("v1", Some(1))]);
    let ready = exporter.get("/readyz").await.text();
    assert!(ready.contains("horizontalpodautoscalers.v1.autoscaling in shop: listed"), "{ready}");
    let one = exporter.get(&format!("/v1/resources/{KIND}/shop/old")).await.json();
    assert_eq!(one["apiVersion"], "autoscaling/v1");
    assert_eq!(one["claims"][0]["apiVersion"], "autoscaling/v1");
    let list = exporter.get("/v1/resources?namespace=shop&fields=resourceName,apiVersion").await.json();
    let version = |name: &str| {
        let mut all = list["resources"].as_array().unwrap().iter();
        all.find(|entry| entry["resourceName"] == name).unwrap()["apiVersion"].clone()
    };
    assert_eq!((version("old"), version("new")), ("autoscaling/v1".into(), "autoscaling/v2".into()));

    api.delete(AUTOSCALERS, "shop", "old");
    exporter.wait_for_verdict(KIND, "old", "missing").await;
    api.put(AUTOSCALERS, autoscaler("old", "web", 80, 1));
    exporter.wait_for_verdict(KIND, "old", "in_sync").await;
    assert_eq!(exporter.cached_versions(AUTOSCALERS).len(), 4);
}

#[tokio::test(start_paused = true)]
async fn forbidden_version_makes_only_its_objects_stale() {
    let api = server(&["v2", "v1"]);
    let states = StateFiles::new();
    for name in ["old", "new", "newer"] {
        api.put(AUTOSCALERS, autoscaler(name, "web", 80, 1));
    }
    let of = |version: &str, name: &str| declared(version, name, "web", 80);
    states.write("shop", 1, &[of("v1", "old"), of("v2", "new"), of("v2", "newer")]);
    let exporter = states.start_exporter(&api);
    exporter.wait_for_verdict(KIND, "old", "in_sync").await;
    api.set_fault(&format!("v1/{AUTOSCALERS}"), ServerFault::HttpError(403, None));
    api.close_watches();
    exporter.wait_for_verdict(KIND, "old", "unknown stale").await;
    exporter.wait_for_verdict(KIND, "new", "in_sync").await;
    let count = |verdict: &str, reason: &str| {
        format!(
            "drift_resources{{group=\"autoscaling\",kind=\"HorizontalPodAutoscaler\",namespace=\"shop\",\
             source=\"terraform\",verdict=\"{verdict}\",reason=\"{reason}\"}}"
        )
    };
    assert_eq!(exporter.sample(&count("unknown", "stale")).await, Some(1.0));
    assert_eq!(exporter.sample(&count("in_sync", "")).await, Some(2.0));
    let up = |version: &str| {
        format!(
            "drift_watch_stream_up{{group=\"autoscaling\",version=\"{version}\",kind=\"HorizontalPodAutoscaler\",\
             scope=\"shop\"}}"
        )
    };
    assert_eq!((exporter.sample(&up("v1")).await, exporter.sample(&up("v2")).await), (Some(0.0), Some(1.0)));
}

#[tokio::test(start_paused = true)]
async fn version_change_in_state_keeps_the_episode() {
    let api = server(&["v2", "v1"]);
    let states = StateFiles::new();
    for name in ["moves", "new", "newer"] {
        api.put(AUTOSCALERS, autoscaler(name, "web", 80, 1));
    }
    let of = |version: &str, name: &str| declared(version, name, "web", 80);
    let with = |version: &str| [of(version, "moves"), of("v2", "new"), of("v2", "newer")];
    states.write("shop", 1, &with("v1"));
    let exporter = states.start_exporter(&api);
    exporter.wait_for_verdict(KIND, "moves", "in_sync").await;
    api.put(AUTOSCALERS, autoscaler("moves", "web", 50, 30));
    exporter.wait_for_verdict(KIND, "moves", "drifted").await;
    let onset = "drift_resource_drifted_timestamp_seconds{";
    let onset_before = exporter.sample(onset).await;
    assert_eq!(onset_before, Some(f64::from(1_767_312_000 + 30)));
    for (serial, version, path, count) in [
        (2, "v2", "spec.metrics[0].resource.target.averageUtilization", 1),
        (3, "v1", "spec.targetCPUUtilizationPercentage", 2),
    ] {
        states.write("shop", serial, &with(version));
        let is_synced = |exporter: &ExporterFixture| {
            exporter.snapshot().watches().filter(|entry| entry.synced).count() == count
        };
        exporter.until("the object is watched in the other version", SOON, is_synced).await;
        assert_eq!(exporter.wait_for_verdict(KIND, "moves", "drifted").await, [path]);
        assert_eq!(exporter.sample(onset).await, onset_before);
    }
    api.put(AUTOSCALERS, autoscaler("moves", "web", 80, 40));
    exporter.wait_for_verdict(KIND, "moves", "in_sync").await;
    let history = transitions(&exporter.get("/v1/history").await.json());
    let allowed =
        ["moves drifted in_sync", "moves unknown drifted", "moves drifted unknown", "moves in_sync drifted"];
    assert!(history.iter().all(|entry| allowed.contains(&entry.as_str())), "{history:?}");
    assert_eq!((history[0].as_str(), history[history.len() - 1].as_str()), (allowed[0], allowed[3]));
    let count = |name: &str| {
        let place =
            "group=\"autoscaling\",kind=\"HorizontalPodAutoscaler\",namespace=\"shop\",source=\"terraform\"";
        format!("{name}{{{place}")
    };
    assert_eq!(exporter.sample(&count("drift_detections_total")).await, Some(1.0));
}

#[tokio::test(start_paused = true)]
async fn object_declared_in_two_versions_is_watched_in_one() {
    let api = server(&["v2", "v1"]);
    let states = StateFiles::new();
    for name in ["both", "old"] {
        api.put(AUTOSCALERS, autoscaler(name, "web", 80, 1));
    }
    let of = |version: &str, name: &str| declared(version, name, "web", 80);
    states.write("a", 1, &[of("v1", "both"), of("v1", "old")]);
    states.write("b", 1, &[of("v2", "both")]);
    let exporter = states.start_exporter(&api);
    exporter.wait_for_verdict(KIND, "both", "in_sync").await;
    let shown = exporter.get("/v1/status").await.json();
    assert_eq!(streams(&shown).len(), 1, "{shown}");
    states.remove("a");
    exporter.wait_for_verdict(KIND, "both", "in_sync").await;
    exporter.wait_for_verdict(KIND, "old", "no_baseline").await;
    let v2 = |exporter: &ExporterFixture| {
        exporter.snapshot().watches().all(|entry| entry.synced && &*entry.spec.kind.version == "v2")
    };
    exporter.until("the object is watched in the other version", SOON, v2).await;
    exporter.wait_for_verdict(KIND, "both", "in_sync").await;
}

#[tokio::test(start_paused = true)]
async fn version_change_with_live_value_absorbs_drift() {
    let api = server(&["v2", "v1"]);
    let states = StateFiles::new();
    api.put(AUTOSCALERS, autoscaler("moves", "web", 50, 30));
    states.write("shop", 1, &[declared("v1", "moves", "web", 80)]);
    let exporter = states.start_exporter(&api);
    exporter.wait_for_verdict(KIND, "moves", "drifted").await;
    states.write("shop", 2, &[declared("v2", "moves", "web", 50)]);
    exporter.wait_for_verdict(KIND, "moves", "in_sync").await;
    let last = exporter.get("/v1/history").await.json()["transitions"][0].clone();
    assert_eq!(last["cause"], "absorbed", "{last}");
}

/// An engine whose object `a` moves to a watch of another version; `b` stays.
struct MovedFixture {
    fixture: EngineFixture,
    rest: Watch,
    other: Watch,
}

const A: (&str, &str, &str) = ("a", "u-a", "1");
const B: (&str, &str, &str) = ("b", "u-b", "1");

/// `a` drifts before it moves.
fn moved() -> MovedFixture {
    let one = state("s", 1, &[A, B]);
    let mut fixture = EngineFixture::new(std::slice::from_ref(&one), &[A, B]);
    fixture.observe("a", "u-a", "2");
    fixture.assert_verdict("a", VerdictKind::Drifted);
    let mut moves = (*one.objects[0]).clone();
    moves.object.version = "v2".into();
    let mut two = state("s", 2, &[A, B]);
    two.objects[0] = Arc::new(moves);
    fixture.set_baseline(two);
    fixture.assert_unknown("a", UnknownReason::OtherVersion);
    let names: Arc<NameSet> = Arc::new([("shop", "a")].into_iter().collect());
    let rest =
        Arc::new(WatchSpec { excluded_names: names.clone(), ..WatchSpec::clone(&fixture.stream.spec) });
    let kind = Arc::new(Kind { version: "v2".into(), ..engine::config_maps() });
    let other = Arc::new(WatchSpec { included_names: names, ..WatchSpec::all(kind) });
    let watches = fixture.ids.assign([rest, other]);
    let [rest, other] = [0, 1].map(|at: usize| watches[at].clone());
    fixture.engine.apply(Event::WatchPlan(Arc::new(WatchPlan { watches, ..WatchPlan::default() })));
    MovedFixture { fixture, rest, other }
}

impl MovedFixture {
    fn list(&mut self, stream: &Watch, objects: &[(&str, &str, &str)]) {
        self.fixture.stream = stream.clone();
        self.fixture.list(objects);
    }

    fn episode(&self) -> (i64, u64) {
        let episode = self.fixture.claims("a")[0].verdict.episode().unwrap().clone();
        (episode.onset.as_second(), self.fixture.detections())
    }
}

#[test]
fn list_order_of_watches_does_not_matter() {
    for rest_first in [true, false] {
        let mut moved = moved();
        let (rest, other) = (moved.rest.clone(), moved.other.clone());
        let lists: [(&Watch, &[_]); 2] = [(&rest, &[B]), (&other, &[("a", "u-a", "2")])];
        let order = if rest_first { [0, 1] } else { [1, 0] };
        for at in order {
            let (stream, objects) = lists[at];
            moved.list(stream, objects);
            assert_eq!(moved.episode(), (900, 1), "{rest_first}");
            moved.fixture.assert_verdict("b", VerdictKind::InSync);
        }
        moved.fixture.assert_verdict("a", VerdictKind::Drifted);
        let history = moved.fixture.engine.snapshot().history;
        let to: Vec<_> = history.newest_first().filter_map(|transition| transition.to).collect();
        assert_eq!(to, [VerdictKind::Drifted, VerdictKind::Unknown, VerdictKind::Drifted], "{rest_first}");
    }
}

#[test]
fn only_the_own_watch_reports_an_object_missing() {
    let mut moved = moved();
    let (rest, other) = (moved.rest.clone(), moved.other.clone());
    moved.list(&rest, &[]);
    moved.fixture.assert_verdict("b", VerdictKind::Missing);
    moved.fixture.assert_unknown("a", UnknownReason::OtherVersion);
    moved.list(&other, &[]);
    moved.fixture.assert_verdict("a", VerdictKind::Missing);
    let key = moved.fixture.engine.snapshot().kinds[0].blocks.get("shop", "a")[0].key().clone();
    assert_eq!(&*key.kind.version, "v2");
}

#[test]
fn broken_watch_affects_only_its_objects() {
    let mut moved = moved();
    let (rest, other) = (moved.rest.clone(), moved.other.clone());
    moved.list(&rest, &[B]);
    let health = SyncHealth::Down { reason: DownReason::Forbidden, message: "no".into() };
    moved.fixture.engine.apply(Event::WatchHealth(other.id, health));
    let state = moved.fixture.engine.snapshot().kinds[0].clone();
    let shown = |name: &str| state.reported_verdict(&state.blocks.get("shop", name)[0]);
    assert_eq!(shown("a"), (VerdictKind::Unknown, Some(UnknownReason::Stale)));
    assert_eq!(shown("b"), (VerdictKind::InSync, None));
    let claims = state.blocks.get("shop", "a");
    assert_eq!((claims.len(), claims[0].claim.source), (1, Source::Terraform));
}
