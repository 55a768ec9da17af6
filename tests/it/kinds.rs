//! Kinds that are added, removed and change their version while the exporter runs; settings that change.

use std::time::Duration;

use drift_exporter::{
    app::{Exporter, ExporterDeps, assemble, telemetry::LogHandle},
    config::Settings,
    demo,
    engine::{History, Snapshot},
    server::Auth,
    types::{
        Clock, DownReason, Kind, RedactionKey, ResolutionCause, Scope, Selector, SyncHealth, WantedKind,
    },
    watch::WatcherConfig,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::support::{
    api_server::{ApiServer, ServerFault},
    exporter_fixture::ExporterFixture,
    live_objects::{deployment, edited, recorded, service},
};

/// The exporter finds a kind within this time: the discovery interval plus time for the list.
const DISCOVERY_LIMIT: Duration = Duration::from_secs(6);

fn widget(version: &str) -> Kind {
    Kind { plural: "widgets".into(), ..Kind::undiscovered("example.com", version, "Widget") }
}

fn exact_kind(kind: &Kind) -> WantedKind {
    WantedKind::exactly(kind)
}

fn settings(kinds: Vec<WantedKind>) -> Settings {
    Settings { kinds, ..Settings::default() }
}

/// A labelled Widget in namespace `shop` that is annotated with its hash.
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

fn health(snapshot: &Snapshot, kind: &str) -> Option<SyncHealth> {
    snapshot.watches().find(|stream| &*stream.spec.kind.kind == kind).map(|stream| stream.health.clone())
}

fn is_not_found(exporter: &ExporterFixture) -> bool {
    let health = health(&exporter.snapshot(), "Widget");
    matches!(health, Some(SyncHealth::Down { reason: DownReason::NotFound, .. }))
}

fn is_up(exporter: &ExporterFixture) -> bool {
    health(&exporter.snapshot(), "Widget") == Some(SyncHealth::Up)
}

fn lists(api: &ApiServer, what: &str) -> usize {
    api.request_urls().iter().filter(|url| url.contains(what) && !url.contains("watch=1")).count()
}

fn resolution_causes(exporter: &ExporterFixture) -> Vec<ResolutionCause> {
    let snapshot = exporter.snapshot();
    snapshot.counters.resolutions().filter(|(.., count)| *count > 0).map(|(_, cause, _)| cause).collect()
}

const GEAR: &str =
    "drift_resource_drifted{group=\"example.com\",kind=\"Widget\",namespace=\"shop\",name=\"gear\"";

#[tokio::test(start_paused = true)]
async fn added_kind_is_watched_and_removed_kind_drops_its_series() {
    let api = ApiServer::default();
    api.put("deployments", deployment("web"));
    api.put("widgets", edited(gear("gear", &json!({})), 30));
    let exporter = ExporterFixture::start_with(
        &api,
        settings(vec![exact_kind(&Kind::deployment()), exact_kind(&widget("v1"))]),
    );
    exporter.until("Widget is not found", DISCOVERY_LIMIT, is_not_found).await;
    exporter.wait_idle().await;
    let ready = exporter.get("/readyz").await;
    assert_eq!(ready.status, 200, "{}", ready.text());
    assert!(
        ready.text().contains(
            "Widget.example.com: not listed (not_found): the API server has no example.com/v1 Widget"
        )
    );
    let up = "drift_watch_stream_up{group=\"example.com\",version=\"v1\",kind=\"Widget\",scope=\"\"}";
    assert_eq!(exporter.sample(up).await, Some(0.0));
    assert_eq!(
        exporter.sample("drift_resource_drifted{group=\"apps\"").await,
        Some(0.0),
        "other kinds are not affected"
    );

    api.serve(&[widget("v1")]);
    exporter.until("Widget is watched", DISCOVERY_LIMIT, is_up).await;
    assert_eq!((exporter.sample(up).await, exporter.sample(GEAR).await), (Some(1.0), Some(1.0)));

    api.serve(&[]);
    exporter.until("Widget is removed", DISCOVERY_LIMIT, is_not_found).await;
    let page = exporter.metrics().await;
    let of_widgets: Vec<_> = page.lines().filter(|line| line.contains("kind=\"Widget\"")).collect();
    let kept_families = ["drift_watch_stream_up", "drift_resolutions_total", "drift_detections_total"];
    assert!(
        of_widgets.iter().all(|line| kept_families.iter().any(|name| line.starts_with(name))),
        "{of_widgets:#?}"
    );
    assert_eq!(exporter.sample(up).await, Some(0.0));
    assert_eq!(resolution_causes(&exporter), [ResolutionCause::Deleted]);
    assert_eq!(lists(&api, "deployments"), 1, "other watches stay open");
}

#[tokio::test(start_paused = true)]
async fn version_change_keeps_episodes_and_onsets() {
    let api = ApiServer::default();
    api.serve(&[widget("v1")]);
    api.put("widgets", edited(gear("gear", &json!({})), 30));
    api.put("widgets", gear("clean", &json!({})));
    let exporter = ExporterFixture::start_with(
        &api,
        settings(vec![WantedKind { version: None, ..exact_kind(&widget("v1")) }]),
    );
    exporter.until("Widget is watched", DISCOVERY_LIMIT, is_up).await;
    let onset = "drift_resource_drifted_timestamp_seconds{group=\"example.com\"";
    assert_eq!(exporter.sample(onset).await, Some(f64::from(1_767_312_000 + 30)));

    for versions in [vec![widget("v2"), widget("v1")], vec![widget("v2")]] {
        api.serve(&versions);
        let v2 = |exporter: &ExporterFixture| {
            exporter.snapshot().watches().all(|stream| &*stream.spec.kind.version == "v2")
        };
        exporter.until("v2 is watched", DISCOVERY_LIMIT, |exporter| v2(exporter) && is_up(exporter)).await;
        assert_eq!(exporter.sample(onset).await, Some(f64::from(1_767_312_000 + 30)));
        let clean = GEAR.replace("gear", "clean");
        assert_eq!(
            exporter.sample(&clean).await,
            Some(0.0),
            "the hash keeps the version in which it was recorded"
        );
        assert_eq!(exporter.get("/v1/history").await.json()["transitions"], json!([]));
    }
    api.put("widgets", gear("gear", &json!({})));
    exporter.wait_idle().await;
    assert_eq!(exporter.sample(GEAR).await, Some(0.0));
    assert_eq!(resolution_causes(&exporter), [ResolutionCause::Reverted]);
    let page = exporter.metrics().await;
    let detections = page.lines().filter(|line| line.starts_with("drift_detections_total{")).count();
    assert_eq!(detections, 1, "both versions share one series");
}

#[tokio::test(start_paused = true)]
async fn selectors_share_one_watch_and_apply_to_label_changes() {
    let api = ApiServer::default();
    api.serve(&[widget("v1")]);
    for (name, labels) in
        [("a", json!({"team": "a"})), ("b", json!({"tier": "web"})), ("c", json!({"team": "c"}))]
    {
        api.put("widgets", gear(name, &labels));
    }
    let with =
        |selector: &str| WantedKind { selector: Selector::parse(selector).ok(), ..exact_kind(&widget("v1")) };
    let exporter = ExporterFixture::start_with(&api, settings(vec![with("team in (a, b)"), with("tier")]));
    exporter.until("Widget is watched", DISCOVERY_LIMIT, is_up).await;
    let known =
        |exporter: &ExporterFixture| exporter.cached_versions("widgets").into_keys().collect::<Vec<_>>();
    assert_eq!(known(&exporter), ["a", "b"]);
    assert_eq!((lists(&api, "widgets"), api.open_watches()), (1, 1));
    api.put("widgets", gear("a", &json!({"team": "c"})));
    api.put("widgets", gear("c", &json!({"team": "b"})));
    exporter.wait_idle().await;
    assert_eq!(known(&exporter), ["b", "c"]);
    api.delete("widgets", "shop", "c");
    exporter.wait_idle().await;
    assert_eq!(known(&exporter), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn narrowed_settings_drop_objects_and_keep_other_watches_open() {
    let api = ApiServer::default();
    for name in ["web", "cart"] {
        api.put("deployments", edited(deployment(name), 1));
    }
    let mut elsewhere = edited(deployment("else"), 1);
    elsewhere["metadata"]["namespace"] = json!("ops");
    api.put("deployments", elsewhere);
    api.put("services", service("web"));
    let exporter = ExporterFixture::ready(&api).await;
    assert_eq!(exporter.cached_versions("deployments").len(), 3);

    let all = exporter.settings.current();
    let narrowed = Settings { excluded_namespaces: vec!["ops".into()], ..Settings::clone(&all) };
    exporter.settings.replace(narrowed);
    exporter
        .until("the namespace is excluded", DISCOVERY_LIMIT, |exporter| {
            exporter.cached_versions("deployments").len() == 2
        })
        .await;
    assert_eq!(resolution_causes(&exporter), [ResolutionCause::Rule]);
    assert_eq!(exporter.get("/readyz").await.status, 200);
    assert_eq!(exporter.get("/v1/resources?namespace=ops").await.status, 403);
    assert!(api.request_urls().iter().any(|url| url.contains("fieldSelector=metadata.namespace%21%3Dops")));

    exporter.wait_idle().await;
    let before = api.request_urls().len();
    let only_services = settings(vec![WantedKind {
        selector: Selector::parse("tfdrift.jin.dev/enabled=true").ok(),
        scope: Scope::new([], ["ops"]),
        ..exact_kind(&Kind::service())
    }]);
    exporter.settings.replace(only_services);
    exporter
        .until("Deployments are dropped", DISCOVERY_LIMIT, |exporter| exporter.snapshot().kinds.len() == 1)
        .await;
    exporter.wait_idle().await;
    assert_eq!(api.request_urls().len(), before, "the watch of Services stays open");
    let page = exporter.metrics().await;
    let left: Vec<_> = page.lines().filter(|line| line.contains("kind=\"Deployment\"")).collect();
    assert!(
        left.iter().all(|line| line.starts_with("drift_detections") || line.starts_with("drift_resolutions")),
        "{left:#?}"
    );

    exporter.settings.replace(Settings::clone(&all));
    exporter
        .until("Deployments are watched again", DISCOVERY_LIMIT, |exporter| {
            exporter.snapshot().kinds.len() == 2
        })
        .await;
    exporter
        .until("all Deployments are cached", DISCOVERY_LIMIT, |exporter| {
            exporter.cached_versions("deployments").len() == 3
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn two_hundred_settings_changes_leak_nothing() {
    let api = ApiServer::default();
    api.serve(&[widget("v1")]);
    api.put("deployments", edited(deployment("web"), 1));
    api.put("services", service("web"));
    api.put("widgets", edited(gear("gear", &json!({"team": "a"})), 1));
    let with =
        |selector: &str| WantedKind { selector: Selector::parse(selector).ok(), ..exact_kind(&widget("v1")) };
    let cycle = [
        settings(vec![exact_kind(&widget("v1"))]),
        settings(vec![
            with("team=a"),
            with("team=b"),
            exact_kind(&Kind::undiscovered("nowhere.io", "v1", "Nothing")),
        ]),
        Settings { namespaces: vec!["shop".into()], ..Settings::default() },
        Settings::default(),
    ];
    let exporter = ExporterFixture::ready(&api).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let mut seen = Vec::new();
    for round in 0..200 {
        exporter.settings.replace(cycle[round % cycle.len()].clone());
        // Some settings are replaced before the previous ones take effect.
        tokio::time::sleep(Duration::from_millis(if round % 3 == 0 { 1 } else { 7_000 })).await;
        if round % 40 == 39 {
            // The server closes watches after their time-out.
            tokio::time::sleep(Duration::from_secs(60)).await;
            let series = exporter.metrics().await.lines().filter(|line| !line.starts_with('#')).count();
            seen.push((tasks(), api.open_watches(), series, exporter.cached_versions("deployments").len()));
        }
    }
    assert!(seen.iter().all(|counts| *counts == seen[0]), "tasks, watches, series, objects: {seen:?}");
    assert_eq!(api.open_watches(), 2);
}

#[tokio::test(start_paused = true)]
async fn failed_discovery_is_not_ready_and_keeps_known_kinds() {
    let api = ApiServer::default();
    api.serve(&[widget("v1")]);
    api.put("widgets", gear("gear", &json!({})));
    api.set_fault("apis", ServerFault::Unresponsive);
    let exporter = ExporterFixture::start_with(
        &api,
        settings(vec![exact_kind(&Kind::service()), exact_kind(&widget("v1"))]),
    );
    exporter.wait_idle().await;
    assert_eq!(exporter.get("/readyz").await.status, 503);
    assert_eq!(
        (lists(&api, "/services"), lists(&api, "/widgets")),
        (1, 0),
        "built-in kinds are listed without discovery"
    );
    api.set_fault("apis", ServerFault::HttpError(500, None));
    let down = |exporter: &ExporterFixture| {
        matches!(
            health(&exporter.snapshot(), "Widget"),
            Some(SyncHealth::Down { reason: DownReason::Error, .. })
        )
    };
    exporter.until("discovery has failed", Duration::from_secs(50), down).await;
    assert_eq!(exporter.get("/readyz").await.status, 503, "a failed discovery is not ready");
    api.set_fault("apis", ServerFault::None);
    exporter.until("Widget is watched", DISCOVERY_LIMIT, is_up).await;
    exporter.wait_idle().await;
    assert_eq!(exporter.get("/readyz").await.status, 200);

    api.set_fault("apis", ServerFault::HttpError(503, None));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(is_up(&exporter));
    assert_eq!(exporter.sample(GEAR).await, Some(0.0));
}

#[tokio::test(start_paused = true)]
async fn default_kinds_are_listed_at_once() {
    let started = tokio::time::Instant::now();
    let _world = ExporterFixture::ready(&ApiServer::default()).await;
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn default_kinds_need_no_discovery() {
    let api = ApiServer::default();
    let _world = ExporterFixture::ready(&api).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(api.request_urls().iter().all(|url| url.contains("deployments") || url.contains("services")));
}

#[tokio::test(start_paused = true)]
async fn kind_in_two_namespaces_is_listed_in_each() {
    let api = ApiServer::default();
    api.serve(&[widget("v1")]);
    api.put("widgets", gear("gear", &json!({})));
    let scope = Scope::new(["shop", "ops"], []);
    let exporter =
        ExporterFixture::start_with(&api, settings(vec![WantedKind { scope, ..exact_kind(&widget("v1")) }]));
    exporter
        .until("both namespaces are synced", DISCOVERY_LIMIT, |exporter| {
            exporter.snapshot().watches().filter(|watch| watch.synced).count() == 2
        })
        .await;
    assert_eq!(lists(&api, "/namespaces/shop/widgets") + lists(&api, "/namespaces/ops/widgets"), 2);
    assert_eq!(
        exporter.cached_versions("widgets").len(),
        1,
        "an empty list of one namespace drops no objects of another"
    );
}

#[tokio::test(start_paused = true)]
async fn exporter_discovers_kinds_of_the_embedded_cluster() {
    let stop = CancellationToken::new();
    let cluster = demo::Cluster::new(Clock::system());
    cluster.create(&Kind::namespace(), "test", json!({"metadata": {"name": "shop"}})).unwrap();
    let router = demo::router(cluster, stop.clone());
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        router.clone().oneshot(request.map(axum::body::Body::new))
    });
    let deps = ExporterDeps {
        settings_source: None,
        log: LogHandle::default(),
        client: kube::Client::new(service, "default"),
        settings: settings(vec![WantedKind::parse("v1", "Namespace").unwrap()]),
        redaction_key: RedactionKey::of_process([7; 32]),
        clock: Clock::system(),
        timing: WatcherConfig::default(),
        events: false,
        history_file: None,
        auth: Auth::default(),
        stop: stop.clone(),
    };
    let Exporter { ingest, exposed, .. } = assemble(&deps, History::default());
    let running = tokio::spawn(ingest.run());
    let known = || exposed.state.snapshot().kinds.iter().map(|state| state.blocks.count()).sum::<usize>();
    tokio::time::timeout(DISCOVERY_LIMIT, async {
        while known() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
    stop.cancel();
    running.await.unwrap();
}
