//! Objects that are declared in different versions of one kind: each is read in its own, through one stream.

use std::sync::Arc;

use drift_exporter::{
    types::{
        DownReason, Event, Kind, NameSet, Scope, ServedKind, ServedKinds, Source, UnknownReason, VerdictKind,
        WantedKind, WatchHealth, WatchPlan, WatchSpec,
    },
    watch::{Discovery, plan},
};
use serde_json::Value;

use crate::{
    plan::{cluster, kind, told, want},
    support::{
        api_server::Mood,
        autoscalers::{AUTOSCALERS, SOON, States, autoscaler, declared, server},
        claims::{self, state},
        world::World,
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
    let mut turned = wanted.to_vec();
    turned.reverse();
    for wanted in [wanted, &turned] {
        let plan = plan(wanted, &cluster());
        assert_eq!(told(&plan), streams);
        assert!(plan.unwatched.is_empty(), "{:?}", plan.unwatched);
        for name in ["a/x", "a/y", "b/x", "b/z", "c/x"] {
            let (namespace, name) = name.split_once('/').unwrap();
            let count = plan.streams.iter().filter(|spec| spec.delivers(namespace, name)).count();
            let covered = plan.streams.iter().any(|spec| spec.covers(namespace));
            assert_eq!(count, usize::from(covered), "{namespace}/{name} in {streams:?}");
        }
    }
}

#[test]
fn what_is_declared_in_another_version_comes_in_that_and_in_no_other() {
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
    // What settings ask for is read as they say, but for what is declared.
    check_versions(
        &[
            pinned("example.com/v1 Widget in a", &[("v1", &["a/x"])]),
            want("example.com/v2 Widget but c with q"),
        ],
        &["example.com/v2 Widget but c choosing 2 without a/x", "example.com/v1 Widget but c only a/x"],
    );
    // Nobody is to look there.
    check_versions(&[pinned("example.com/v1 Widget in b", both)], &["example.com/v1 Widget in b"]);
}

#[test]
fn a_version_that_is_not_served_is_read_with_the_others() {
    let versions: &[(&str, &[&str])] = &[("v1", &["a/x"]), ("v3", &["a/y", "b/x"])];
    check_versions(
        &[pinned("example.com/v3 Widget in a", versions)],
        &["example.com/v2 Widget in a without a/x", "example.com/v1 Widget in a only a/x"],
    );
    let of_deployments = pinned("apps/v1 Deployment in a", &[("v1", &["a/x"]), ("v1beta1", &["a/y"])]);
    check_versions(&[of_deployments], &["apps/v1 Deployment in a"]);
}

#[test]
fn a_single_lease_is_asked_for_in_its_own_version() {
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
    let plan = plan(&[lease("v1", "a"), lease("v1beta1", "b")], &discovery);
    let told: Vec<_> = plan.streams.iter().map(|spec| (spec.name.as_deref(), &*spec.kind.version)).collect();
    assert_eq!(told, [(Some("a"), "v1"), (Some("b"), "v1beta1")]);
}

const KIND: &str = "horizontalpodautoscalers.autoscaling";

fn streams(status: &Value) -> Vec<(String, String, Option<u64>, String)> {
    let text = |own: &Value| own.as_str().unwrap().to_owned();
    let streams = status["streams"].as_array().unwrap().iter();
    streams
        .map(|own| (text(&own["version"]), text(&own["scope"]), own["objects"].as_u64(), text(&own["state"])))
        .collect()
}

fn history(told: &Value) -> Vec<String> {
    let told = told["transitions"].as_array().unwrap().iter();
    told.map(|own| format!("{} {} {}", own["name"], own["from"], own["to"]).replace('"', "")).collect()
}

#[tokio::test(start_paused = true)]
async fn autoscalers_of_both_versions_are_compared_each_in_its_own() {
    let api = server(&["v2", "v1"]);
    let states = States::new();
    for name in ["old", "new", "newer", "loose"] {
        api.put(AUTOSCALERS, autoscaler(name, "web", 80, 1));
    }
    let of = |version: &str, name: &str| declared(version, name, "web", 80);
    states.write("shop", 1, &[of("v1", "old"), of("v2", "new"), of("v2", "newer")]);
    let world = states.world(&api);
    for name in ["old", "new", "newer"] {
        world.until_told(KIND, name, "in_sync").await;
    }
    world.until_told(KIND, "loose", "no_baseline").await;
    for name in ["old", "new"] {
        api.put(AUTOSCALERS, autoscaler(name, "web", 50, 30));
    }
    let of_old = world.until_told(KIND, "old", "drifted").await;
    assert_eq!(of_old, ["spec.targetCPUUtilizationPercentage"]);
    let of_new = world.until_told(KIND, "new", "drifted").await;
    assert_eq!(of_new, ["spec.metrics[0].resource.target.averageUtilization"]);
    world.until_told(KIND, "newer", "in_sync").await;
    let shown = world.get("/v1/status").await.json();
    let up = |version: &str, objects| (version.to_owned(), "shop".to_owned(), objects, "up".to_owned());
    assert_eq!(streams(&shown), [up("v2", None), up("v1", Some(1))]);
    let ready = world.get("/readyz").await.text();
    assert!(ready.contains("horizontalpodautoscalers.v1.autoscaling in shop: listed"), "{ready}");
    let one = world.get(&format!("/v1/resources/{KIND}/shop/old")).await.json();
    assert_eq!(one["apiVersion"], "autoscaling/v1");
    assert_eq!(one["claims"][0]["apiVersion"], "autoscaling/v1");
    let list = world.get("/v1/resources?namespace=shop&fields=resourceName,apiVersion").await.json();
    let version = |name: &str| {
        let mut all = list["resources"].as_array().unwrap().iter();
        all.find(|own| own["resourceName"] == name).unwrap()["apiVersion"].clone()
    };
    assert_eq!((version("old"), version("new")), ("autoscaling/v1".into(), "autoscaling/v2".into()));

    api.delete(AUTOSCALERS, "old");
    world.until_told(KIND, "old", "missing").await;
    api.put(AUTOSCALERS, autoscaler("old", "web", 80, 1));
    world.until_told(KIND, "old", "in_sync").await;
    assert_eq!(world.known(AUTOSCALERS).len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_forbidden_blinds_its_own_objects_alone() {
    let api = server(&["v2", "v1"]);
    let states = States::new();
    for name in ["old", "new", "newer"] {
        api.put(AUTOSCALERS, autoscaler(name, "web", 80, 1));
    }
    let of = |version: &str, name: &str| declared(version, name, "web", 80);
    states.write("shop", 1, &[of("v1", "old"), of("v2", "new"), of("v2", "newer")]);
    let world = states.world(&api);
    world.until_told(KIND, "old", "in_sync").await;
    api.mood(&format!("v1/{AUTOSCALERS}"), Mood::Refuses(403, None));
    api.cut();
    world.until_told(KIND, "old", "unknown stale").await;
    world.until_told(KIND, "new", "in_sync").await;
    let count = |verdict: &str, reason: &str| {
        format!(
            "drift_resources{{group=\"autoscaling\",kind=\"HorizontalPodAutoscaler\",namespace=\"shop\",\
             source=\"terraform\",verdict=\"{verdict}\",reason=\"{reason}\"}}"
        )
    };
    assert_eq!(world.sample(&count("unknown", "stale")).await, Some(1.0));
    assert_eq!(world.sample(&count("in_sync", "")).await, Some(2.0));
    let up = |version: &str| {
        format!(
            "drift_watch_stream_up{{group=\"autoscaling\",version=\"{version}\",kind=\"HorizontalPodAutoscaler\",\
             scope=\"shop\"}}"
        )
    };
    assert_eq!((world.sample(&up("v1")).await, world.sample(&up("v2")).await), (Some(0.0), Some(1.0)));
}

#[tokio::test(start_paused = true)]
async fn a_state_that_moves_an_object_to_another_version_keeps_its_episode() {
    let api = server(&["v2", "v1"]);
    let states = States::new();
    for name in ["moves", "new", "newer"] {
        api.put(AUTOSCALERS, autoscaler(name, "web", 80, 1));
    }
    let of = |version: &str, name: &str| declared(version, name, "web", 80);
    let with = |version: &str| [of(version, "moves"), of("v2", "new"), of("v2", "newer")];
    states.write("shop", 1, &with("v1"));
    let world = states.world(&api);
    world.until_told(KIND, "moves", "in_sync").await;
    api.put(AUTOSCALERS, autoscaler("moves", "web", 50, 30));
    world.until_told(KIND, "moves", "drifted").await;
    let onset = "drift_resource_drifted_timestamp_seconds{";
    let began = world.sample(onset).await;
    assert_eq!(began, Some(f64::from(1_767_312_000 + 30)));
    for (serial, version, path, count) in [
        (2, "v2", "spec.metrics[0].resource.target.averageUtilization", 1),
        (3, "v1", "spec.targetCPUUtilizationPercentage", 2),
    ] {
        states.write("shop", serial, &with(version));
        let is_split = |world: &World| world.snapshot().watches().filter(|own| own.synced).count() == count;
        world.until("it comes in the other version", SOON, is_split).await;
        assert_eq!(world.until_told(KIND, "moves", "drifted").await, [path]);
        assert_eq!(world.sample(onset).await, began);
    }
    api.put(AUTOSCALERS, autoscaler("moves", "web", 80, 40));
    world.until_told(KIND, "moves", "in_sync").await;
    let history = history(&world.get("/v1/history").await.json());
    let seen =
        ["moves drifted in_sync", "moves unknown drifted", "moves drifted unknown", "moves in_sync drifted"];
    assert!(history.iter().all(|own| seen.contains(&own.as_str())), "{history:?}");
    assert_eq!((history[0].as_str(), history[history.len() - 1].as_str()), (seen[0], seen[3]));
    let count = |name: &str| {
        let place =
            "group=\"autoscaling\",kind=\"HorizontalPodAutoscaler\",namespace=\"shop\",source=\"terraform\"";
        format!("{name}{{{place}")
    };
    assert_eq!(world.sample(&count("drift_detections_total")).await, Some(1.0));
}

#[tokio::test(start_paused = true)]
async fn what_two_states_declare_in_two_versions_comes_in_one_of_them() {
    let api = server(&["v2", "v1"]);
    let states = States::new();
    for name in ["both", "old"] {
        api.put(AUTOSCALERS, autoscaler(name, "web", 80, 1));
    }
    let of = |version: &str, name: &str| declared(version, name, "web", 80);
    states.write("a", 1, &[of("v1", "both"), of("v1", "old")]);
    states.write("b", 1, &[of("v2", "both")]);
    let world = states.world(&api);
    world.until_told(KIND, "both", "in_sync").await;
    let shown = world.get("/v1/status").await.json();
    assert_eq!(streams(&shown).len(), 1, "{shown}");
    states.remove("a");
    world.until_told(KIND, "both", "in_sync").await;
    world.until_told(KIND, "old", "no_baseline").await;
    let v2 =
        |world: &World| world.snapshot().watches().all(|own| own.synced && &*own.spec.kind.version == "v2");
    world.until("it comes in the other version", SOON, v2).await;
    world.until_told(KIND, "both", "in_sync").await;
}

#[tokio::test(start_paused = true)]
async fn a_state_that_takes_over_what_it_finds_in_another_version_absorbs_it() {
    let api = server(&["v2", "v1"]);
    let states = States::new();
    api.put(AUTOSCALERS, autoscaler("moves", "web", 50, 30));
    states.write("shop", 1, &[declared("v1", "moves", "web", 80)]);
    let world = states.world(&api);
    world.until_told(KIND, "moves", "drifted").await;
    states.write("shop", 2, &[declared("v2", "moves", "web", 50)]);
    world.until_told(KIND, "moves", "in_sync").await;
    let last = world.get("/v1/history").await.json()["transitions"][0].clone();
    assert_eq!(last["cause"], "absorbed", "{last}");
}

/// An engine whose object `a` moves to a stream of another version; `b` stays.
struct Moved {
    world: claims::World,
    rest: Arc<WatchSpec>,
    other: Arc<WatchSpec>,
}

const A: (&str, &str, &str) = ("a", "u-a", "1");
const B: (&str, &str, &str) = ("b", "u-b", "1");

/// The object has drifted before it moves.
fn moved() -> Moved {
    let one = state("s", 1, &[A, B]);
    let mut world = claims::World::new(std::slice::from_ref(&one), &[A, B]);
    world.see("a", "u-a", "2");
    world.check("a", VerdictKind::Drifted);
    let mut moves = (*one.objects[0]).clone();
    moves.object.version = "v2".into();
    let mut two = state("s", 2, &[A, B]);
    two.objects[0] = Arc::new(moves);
    world.baseline(two);
    world.check_unknown("a", UnknownReason::OtherVersion);
    let names: Arc<NameSet> = Arc::new([("shop", "a")].into_iter().collect());
    let rest = Arc::new(WatchSpec { excluded_names: names.clone(), ..WatchSpec::clone(&world.stream) });
    let kind = Arc::new(Kind { version: "v2".into(), ..claims::config_maps() });
    let other = Arc::new(WatchSpec { included_names: names, ..WatchSpec::all(kind) });
    let streams = vec![rest.clone(), other.clone()];
    world.engine.apply(Event::WatchPlan(Arc::new(WatchPlan { streams, ..WatchPlan::default() })));
    Moved { world, rest, other }
}

impl Moved {
    fn list(&mut self, stream: &Arc<WatchSpec>, maps: &[(&str, &str, &str)]) {
        self.world.stream = stream.clone();
        self.world.list(maps);
    }

    fn episode(&self) -> (i64, u64) {
        let episode = self.world.claims("a")[0].verdict.episode().unwrap().clone();
        (episode.onset.as_second(), self.world.detections())
    }
}

#[test]
fn whichever_stream_is_listed_first_nothing_is_missed() {
    for rest_first in [true, false] {
        let mut moved = moved();
        let (rest, other) = (moved.rest.clone(), moved.other.clone());
        let lists: [(&Arc<WatchSpec>, &[_]); 2] = [(&rest, &[B]), (&other, &[("a", "u-a", "2")])];
        let turns = if rest_first { [0, 1] } else { [1, 0] };
        for at in turns {
            let (stream, maps) = lists[at];
            moved.list(stream, maps);
            assert_eq!(moved.episode(), (900, 1), "{rest_first}");
            moved.world.check("b", VerdictKind::InSync);
        }
        moved.world.check("a", VerdictKind::Drifted);
        let history = moved.world.engine.snapshot().history;
        let to: Vec<_> = history.newest_first().filter_map(|own| own.to).collect();
        assert_eq!(to, [VerdictKind::Drifted, VerdictKind::Unknown, VerdictKind::Drifted], "{rest_first}");
    }
}

#[test]
fn what_is_gone_by_the_list_of_its_own_stream_is_missing_and_by_no_other() {
    let mut moved = moved();
    let (rest, other) = (moved.rest.clone(), moved.other.clone());
    moved.list(&rest, &[]);
    moved.world.check("b", VerdictKind::Missing);
    moved.world.check_unknown("a", UnknownReason::OtherVersion);
    moved.list(&other, &[]);
    moved.world.check("a", VerdictKind::Missing);
    let key = moved.world.engine.snapshot().kinds[0].blocks.get("shop", "a")[0].object.key.clone();
    assert_eq!(&*key.kind.version, "v2");
}

#[test]
fn a_stream_that_is_down_says_nothing_about_what_others_bring() {
    let mut moved = moved();
    let (rest, other) = (moved.rest.clone(), moved.other.clone());
    moved.list(&rest, &[B]);
    let health = WatchHealth::Down { reason: DownReason::Forbidden, message: "no".into() };
    moved.world.engine.apply(Event::WatchHealth(other, health));
    let state = moved.world.engine.snapshot().kinds[0].clone();
    let shown = |name: &str| state.reported_verdict(&state.blocks.get("shop", name)[0]);
    assert_eq!(shown("a"), (VerdictKind::Unknown, Some(UnknownReason::Stale)));
    assert_eq!(shown("b"), (VerdictKind::InSync, None));
    let claims = state.blocks.get("shop", "a");
    assert_eq!((claims.len(), claims[0].claim.source), (1, Source::Terraform));
}
