//! Kinds that come, go and change their version while the exporter runs; settings that change.

use std::time::Duration;

use drift_exporter::{
    app::{Exporter, ExporterDeps, assemble, telemetry::LogHandle},
    config::Settings,
    demo,
    engine::{History, Snapshot},
    server::Auth,
    types::{
        Clock, DownReason, Kind, RedactionKey, ResolutionCause, Scope, Selector, WantedKind, WatchHealth,
    },
    watch::WatcherConfig,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::support::{
    api_server::{ApiServer, Mood},
    objects::{deployment, edited, recorded, service},
    world::World,
};

/// A kind is found within this: the interval of questions, and a little for the list.
const SOON: Duration = Duration::from_secs(6);

fn widget(version: &str) -> Kind {
    Kind { plural: "widgets".into(), ..Kind::undiscovered("example.com", version, "Widget") }
}

fn want(kind: &Kind) -> WantedKind {
    WantedKind::exactly(kind)
}

fn settings(kinds: Vec<WantedKind>) -> Settings {
    Settings { kinds, ..Settings::default() }
}

/// A Widget in namespace `shop` that carries its own hash, with labels.
fn gear(name: &str, labels: &Value) -> Value {
    let object = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "spec": {"teeth": 12},
        "metadata": {"namespace": "shop", "name": name, "uid": format!("uid-{name}"), "labels": labels,
            "annotations": {}, "managedFields": [{"manager": "HashiCorp", "apiVersion": "example.com/v1",
                "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {}, "f:metadata": {"f:annotations": {
                    "f:tfdrift.jin.dev/spec-hash": {}}}}}]},
    });
    let algorithm = drift_exporter::diff::Algorithm::JcsV1;
    let kind = widget("v1");
    let digest = drift_exporter::diff::fingerprint(algorithm, &kind, &object.to_string(), "tfdrift.jin.dev");
    recorded(object, &algorithm.record(digest.unwrap()))
}

fn health(snapshot: &Snapshot, kind: &str) -> Option<WatchHealth> {
    snapshot.watches().find(|stream| &*stream.spec.kind.kind == kind).map(|stream| stream.health.clone())
}

fn is_missing(world: &World) -> bool {
    let health = health(&world.snapshot(), "Widget");
    matches!(health, Some(WatchHealth::Down { reason: DownReason::NotFound, .. }))
}

fn is_up(world: &World) -> bool {
    health(&world.snapshot(), "Widget") == Some(WatchHealth::Up)
}

fn lists(api: &ApiServer, what: &str) -> usize {
    api.requests().iter().filter(|url| url.contains(what) && !url.contains("watch=1")).count()
}

fn ended(world: &World) -> Vec<ResolutionCause> {
    let snapshot = world.snapshot();
    snapshot
        .counters
        .resolutions
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|((_, cause), _)| *cause)
        .collect()
}

const GEAR: &str =
    "drift_resource_drifted{group=\"example.com\",kind=\"Widget\",namespace=\"shop\",name=\"gear\"";

#[tokio::test(start_paused = true)]
async fn a_kind_that_comes_later_is_watched_and_one_that_goes_takes_its_series_along() {
    let api = ApiServer::default();
    api.put("deployments", deployment("web"));
    api.put("widgets", edited(gear("gear", &json!({})), 30));
    let world = World::with(&api, settings(vec![want(&Kind::deployment()), want(&widget("v1"))]));
    world.until("it is missed", SOON, is_missing).await;
    world.settle().await;
    let ready = world.get("/readyz").await;
    assert_eq!(ready.status, 200, "{}", ready.text());
    assert!(
        ready.text().contains(
            "Widget.example.com: not listed (not_found): the API server has no example.com/v1 Widget"
        )
    );
    let up = "drift_watch_stream_up{group=\"example.com\",version=\"v1\",kind=\"Widget\",scope=\"\"}";
    assert_eq!(world.sample(up).await, Some(0.0));
    assert_eq!(
        world.sample("drift_resource_drifted{group=\"apps\"").await,
        Some(0.0),
        "nothing else is affected"
    );

    api.serve(&[widget("v1")]);
    world.until("it is found", SOON, is_up).await;
    assert_eq!((world.sample(up).await, world.sample(GEAR).await), (Some(1.0), Some(1.0)));

    api.serve(&[]);
    world.until("it is gone", SOON, is_missing).await;
    let page = world.metrics().await;
    let of_widgets: Vec<_> = page.lines().filter(|line| line.contains("kind=\"Widget\"")).collect();
    let stays = ["drift_watch_stream_up", "drift_resolutions_total", "drift_detections_total"];
    assert!(of_widgets.iter().all(|line| stays.iter().any(|name| line.starts_with(name))), "{of_widgets:#?}");
    assert_eq!(world.sample(up).await, Some(0.0));
    assert_eq!(ended(&world), [ResolutionCause::Deleted]);
    assert_eq!(lists(&api, "deployments"), 1, "the others stay open");
}

#[tokio::test(start_paused = true)]
async fn a_version_is_followed_and_episodes_and_onsets_stay() {
    let api = ApiServer::default();
    api.serve(&[widget("v1")]);
    api.put("widgets", edited(gear("gear", &json!({})), 30));
    api.put("widgets", gear("clean", &json!({})));
    let world = World::with(&api, settings(vec![WantedKind { version: None, ..want(&widget("v1")) }]));
    world.until("it is up", SOON, is_up).await;
    let onset = "drift_resource_drifted_timestamp_seconds{group=\"example.com\"";
    assert_eq!(world.sample(onset).await, Some(f64::from(1_767_312_000 + 30)));

    for versions in [vec![widget("v2"), widget("v1")], vec![widget("v2")]] {
        api.serve(&versions);
        let v2 = |world: &World| world.snapshot().watches().all(|stream| &*stream.spec.kind.version == "v2");
        world.until("v2 is watched", SOON, |world| v2(world) && is_up(world)).await;
        assert_eq!(world.sample(onset).await, Some(f64::from(1_767_312_000 + 30)));
        let clean = GEAR.replace("gear", "clean");
        assert_eq!(
            world.sample(&clean).await,
            Some(0.0),
            "the version in its hash is the one it was stamped in"
        );
        assert_eq!(world.get("/v1/history").await.json()["transitions"], json!([]));
    }
    api.put("widgets", gear("gear", &json!({})));
    world.settle().await;
    assert_eq!(world.sample(GEAR).await, Some(0.0));
    assert_eq!(ended(&world), [ResolutionCause::Reverted]);
    let page = world.metrics().await;
    let detections = page.lines().filter(|line| line.starts_with("drift_detections_total{")).count();
    assert_eq!(detections, 1, "one line for both versions");
}

#[tokio::test(start_paused = true)]
async fn differing_selectors_share_a_stream_and_labels_come_and_go() {
    let api = ApiServer::default();
    api.serve(&[widget("v1")]);
    for (name, labels) in
        [("a", json!({"team": "a"})), ("b", json!({"tier": "web"})), ("c", json!({"team": "c"}))]
    {
        api.put("widgets", gear(name, &labels));
    }
    let with =
        |selector: &str| WantedKind { selector: Selector::parse(selector).ok(), ..want(&widget("v1")) };
    let world = World::with(&api, settings(vec![with("team in (a, b)"), with("tier")]));
    world.until("it is up", SOON, is_up).await;
    let known = |world: &World| world.known("widgets").into_keys().collect::<Vec<_>>();
    assert_eq!(known(&world), ["a", "b"]);
    assert_eq!((lists(&api, "widgets"), api.open_watches()), (1, 1));
    api.put("widgets", gear("a", &json!({"team": "c"})));
    api.put("widgets", gear("c", &json!({"team": "b"})));
    world.settle().await;
    assert_eq!(known(&world), ["b", "c"]);
    api.delete("widgets", "c");
    world.settle().await;
    assert_eq!(known(&world), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_longer_wanted_ends_by_rule_and_what_stays_wanted_is_not_touched() {
    let api = ApiServer::default();
    for name in ["web", "cart"] {
        api.put("deployments", edited(deployment(name), 1));
    }
    let mut elsewhere = edited(deployment("else"), 1);
    elsewhere["metadata"]["namespace"] = json!("ops");
    api.put("deployments", elsewhere);
    api.put("services", service("web"));
    let world = World::ready(&api).await;
    assert_eq!(world.known("deployments").len(), 3);

    let all = world.settings.current();
    let narrowed = Settings { excluded_namespaces: vec!["ops".into()], ..Settings::clone(&all) };
    world.settings.replace(narrowed);
    world.until("the namespace is left out", SOON, |world| world.known("deployments").len() == 2).await;
    assert_eq!(ended(&world), [ResolutionCause::Rule]);
    assert_eq!(world.get("/readyz").await.status, 200);
    assert_eq!(world.get("/v1/resources?namespace=ops").await.status, 403);
    assert!(api.requests().iter().any(|url| url.contains("fieldSelector=metadata.namespace%21%3Dops")));

    world.settle().await;
    let before = api.requests().len();
    let only_services = settings(vec![WantedKind {
        selector: Selector::parse("tfdrift.jin.dev/enabled=true").ok(),
        scope: Scope::new([], ["ops"]),
        ..want(&Kind::service())
    }]);
    world.settings.replace(only_services);
    world.until("deployments go", SOON, |world| world.snapshot().kinds.len() == 1).await;
    world.settle().await;
    assert_eq!(api.requests().len(), before, "the stream of services stays open");
    let page = world.metrics().await;
    let left: Vec<_> = page.lines().filter(|line| line.contains("kind=\"Deployment\"")).collect();
    assert!(
        left.iter().all(|line| line.starts_with("drift_detections") || line.starts_with("drift_resolutions")),
        "{left:#?}"
    );

    world.settings.replace(Settings::clone(&all));
    world.until("they are back", SOON, |world| world.snapshot().kinds.len() == 2).await;
    world.until("all of them", SOON, |world| world.known("deployments").len() == 3).await;
}

#[tokio::test(start_paused = true)]
async fn two_hundred_changes_of_settings_leave_nothing_behind() {
    let api = ApiServer::default();
    api.serve(&[widget("v1")]);
    api.put("deployments", edited(deployment("web"), 1));
    api.put("services", service("web"));
    api.put("widgets", edited(gear("gear", &json!({"team": "a"})), 1));
    let with =
        |selector: &str| WantedKind { selector: Selector::parse(selector).ok(), ..want(&widget("v1")) };
    let cycle = [
        settings(vec![want(&widget("v1"))]),
        settings(vec![
            with("team=a"),
            with("team=b"),
            want(&Kind::undiscovered("nowhere.io", "v1", "Nothing")),
        ]),
        Settings { namespaces: vec!["shop".into()], ..Settings::default() },
        Settings::default(),
    ];
    let world = World::ready(&api).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let mut seen = Vec::new();
    for round in 0..200 {
        world.settings.replace(cycle[round % cycle.len()].clone());
        // Some changes come before the last one has had any effect.
        tokio::time::sleep(Duration::from_millis(if round % 3 == 0 { 1 } else { 7_000 })).await;
        if round % 40 == 39 {
            // The server's own watches live as long as they were asked for.
            tokio::time::sleep(Duration::from_secs(60)).await;
            let series = world.metrics().await.lines().filter(|line| !line.starts_with('#')).count();
            seen.push((tasks(), api.open_watches(), series, world.known("deployments").len()));
        }
    }
    assert!(seen.iter().all(|own| *own == seen[0]), "tasks, watches, series, objects: {seen:?}");
    assert_eq!(api.open_watches(), 2);
}

#[tokio::test(start_paused = true)]
async fn while_kinds_cannot_be_asked_for_nothing_is_guessed_and_what_is_known_stands() {
    let api = ApiServer::default();
    api.serve(&[widget("v1")]);
    api.put("widgets", gear("gear", &json!({})));
    api.mood("apis", Mood::Mute);
    let world = World::with(&api, settings(vec![want(&Kind::service()), want(&widget("v1"))]));
    world.settle().await;
    assert_eq!(world.get("/readyz").await.status, 503);
    assert_eq!((lists(&api, "/services"), lists(&api, "/widgets")), (1, 0), "what is known starts at once");
    api.mood("apis", Mood::Refuses(500, None));
    let down = |world: &World| {
        matches!(
            health(&world.snapshot(), "Widget"),
            Some(WatchHealth::Down { reason: DownReason::Error, .. })
        )
    };
    world.until("the fault shows", Duration::from_secs(50), down).await;
    assert_eq!(world.get("/readyz").await.status, 503, "an error is no answer");
    api.mood("apis", Mood::Well);
    world.until("it is up", SOON, is_up).await;
    world.settle().await;
    assert_eq!(world.get("/readyz").await.status, 200);

    api.mood("apis", Mood::Refuses(503, None));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(is_up(&world));
    assert_eq!(world.sample(GEAR).await, Some(0.0));
}

#[tokio::test(start_paused = true)]
async fn the_usual_kinds_are_listed_at_once() {
    let begun = tokio::time::Instant::now();
    let _world = World::ready(&ApiServer::default()).await;
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_usual_kinds_never_ask_which_kinds_there_are() {
    let api = ApiServer::default();
    let _world = World::ready(&api).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(api.requests().iter().all(|url| url.contains("deployments") || url.contains("services")));
}

#[tokio::test(start_paused = true)]
async fn a_kind_in_another_namespace_is_listed_there_alone() {
    let api = ApiServer::default();
    api.serve(&[widget("v1")]);
    api.put("widgets", gear("gear", &json!({})));
    let scope = Scope::new(["shop", "ops"], []);
    let world = World::with(&api, settings(vec![WantedKind { scope, ..want(&widget("v1")) }]));
    world
        .until("both are up", SOON, |world| world.snapshot().watches().filter(|own| own.synced).count() == 2)
        .await;
    assert_eq!(lists(&api, "/namespaces/shop/widgets") + lists(&api, "/namespaces/ops/widgets"), 2);
    assert_eq!(world.known("widgets").len(), 1, "an empty list of one namespace takes nothing from another");
}

#[tokio::test(start_paused = true)]
async fn the_embedded_cluster_tells_its_kinds_too() {
    let stop = CancellationToken::new();
    let cluster = demo::Cluster::new(Clock::system());
    cluster.create(&Kind::namespace(), "test", json!({"metadata": {"name": "shop"}})).unwrap();
    let router = demo::router(cluster, stop.clone());
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        router.clone().oneshot(request.map(axum::body::Body::new))
    });
    let parts = ExporterDeps {
        settings_source: None,
        log: LogHandle::default(),
        client: kube::Client::new(service, "default"),
        settings: settings(vec![WantedKind::parse("v1", "Namespace").unwrap()]),
        redaction_key: RedactionKey::new([7; 32]),
        clock: Clock::system(),
        timing: WatcherConfig::default(),
        events: false,
        history_file: None,
        auth: Auth::default(),
        stop: stop.clone(),
    };
    let Exporter { ingest, exposed, .. } = assemble(&parts, History::default());
    let running = tokio::spawn(ingest.run());
    let known = || exposed.state.snapshot().kinds.iter().map(|state| state.blocks.count()).sum::<usize>();
    tokio::time::timeout(SOON, async {
        while known() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
    stop.cancel();
    running.await.unwrap();
}
