//! Custom resources: when the exporter reads their OpenAPI schemas, and its defaults without a schema.

use std::time::Duration;

use drift_exporter::{
    config::Settings,
    types::{Kind, Source, VerdictKind, WantedKind},
};
use serde_json::{Value, json};

use crate::support::{
    api_server::{ApiServer, ServerFault},
    exporter_fixture::ExporterFixture,
    live_objects::deployment,
};

const VERSION: &str = "example.com/v1";
const TIME_LIMIT: Duration = Duration::from_secs(6);

fn widget() -> Kind {
    Kind { plural: "widgets".into(), ..Kind::undiscovered("example.com", "v1", "Widget") }
}

/// A Widget whose live stages have another order than the applied ones.
fn reordered(name: &str) -> Value {
    let applied = json!({"apiVersion": VERSION, "kind": "Widget", "metadata": {"name": name, "namespace": "shop"},
        "spec": {"stages": [{"zone": "eu"}, {"zone": "us"}]}});
    json!({"metadata": {"namespace": "shop", "name": name, "uid": format!("uid-{name}"),
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": applied.to_string()}},
        "spec": {"stages": [{"zone": "us"}, {"zone": "eu"}]}})
}

/// The schema of Widgets with these properties of the list of stages.
fn schema(stages: &Value) -> Value {
    let mut list =
        json!({"type": "array", "items": {"type": "object", "properties": {"zone": {"type": "string"}}}});
    for (name, value) in stages.as_object().unwrap() {
        list[name] = value.clone();
    }
    json!({"type": "object", "x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Widget"}],
        "properties": {"spec": {"type": "object", "properties": {"stages": list}}}})
}

/// A document with this schema, and this many bytes of another schema.
fn document(schema: &Value, more: usize) -> Vec<u8> {
    let others = "x".repeat(more);
    let other = json!({"type": "object", "description": others, "x-kubernetes-group-version-kind": [
        {"group": "example.com", "version": "v1", "kind": "Gadget"}]});
    json!({"openapi": "3.0.0", "components": {"schemas": {"com.example.v1.Widget": schema, "com.example.v1.Gadget": other}}})
        .to_string()
        .into()
}

fn atomic_schema() -> Vec<u8> {
    document(&schema(&json!({"x-kubernetes-list-type": "atomic"})), 0)
}

fn map_schema() -> Vec<u8> {
    let stages = json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["zone"]});
    document(&schema(&stages), 0)
}

fn cluster() -> ApiServer {
    let api = ApiServer::default();
    api.serve(&[widget()]);
    api.put("deployments", deployment("web"));
    api.put("widgets", reordered("gear"));
    api
}

fn start_exporter(api: &ApiServer) -> ExporterFixture {
    let kinds = vec![WantedKind::exactly(&Kind::deployment()), WantedKind::exactly(&widget())];
    let sources = vec![Source::Annotation, Source::LastApplied];
    ExporterFixture::start_with(api, Settings { kinds, sources, ..Settings::default() })
}

fn verdict(exporter: &ExporterFixture, kind: &str, name: &str) -> Option<VerdictKind> {
    let snapshot = exporter.snapshot();
    let state = snapshot.kinds.iter().find(|state| &*state.kind.kind == kind)?;
    let entry = state.blocks.get("shop", name).first()?;
    Some(entry.claim.verdict.kind())
}

async fn wait_for(exporter: &ExporterFixture, wanted: VerdictKind, time_limit: Duration) -> Duration {
    let case = format!("Widget is {wanted:?}");
    exporter.until(&case, time_limit, |exporter| verdict(exporter, "Widget", "gear") == Some(wanted)).await
}

fn request_count(api: &ApiServer, case: &str) -> usize {
    api.request_urls().iter().filter(|url| url.starts_with(case)).count()
}

#[tokio::test(start_paused = true)]
async fn schema_and_its_updates_take_effect() {
    let api = cluster();
    api.set_openapi(VERSION, atomic_schema());
    let exporter = start_exporter(&api);
    wait_for(&exporter, VerdictKind::Drifted, TIME_LIMIT).await;
    assert_eq!(
        exporter.snapshot().history.newest_first().count(),
        0,
        "no verdict before the schema was read"
    );

    // An API server closes the watches of a kind whose schema changes, and publishes the schema a little later.
    api.close_watches();
    tokio::time::sleep(Duration::from_secs(2)).await;
    api.set_openapi(VERSION, map_schema());
    let took = wait_for(&exporter, VerdictKind::InSync, TIME_LIMIT).await;
    assert!(took < Duration::from_secs(4), "{took:?}");
    api.set_openapi(VERSION, atomic_schema());
    api.close_watches();
    wait_for(&exporter, VerdictKind::Drifted, TIME_LIMIT).await;
    assert_eq!(request_count(&api, "/openapi/v3/apis/example.com/v1?hash="), 3, "each document is read once");
    assert_eq!(request_count(&api, "/openapi/v3/"), 3, "no other document is read");

    tokio::time::sleep(Duration::from_mins(1)).await;
    let before = request_count(&api, "/openapi/v3");
    tokio::time::sleep(Duration::from_hours(1)).await;
    let index_requests = request_count(&api, "/openapi/v3") - before;
    assert!((50..=60).contains(&index_requests), "{index_requests} requests of the index in an idle hour");
    assert_eq!(request_count(&api, "/openapi/v3/"), 3);
}

#[tokio::test(start_paused = true)]
async fn late_schema_is_awaited() {
    let api = cluster();
    api.set_openapi("other.example/v1", document(&json!({}), 0));
    let exporter = start_exporter(&api);
    wait_for(&exporter, VerdictKind::InFlight, TIME_LIMIT).await;
    assert_eq!(verdict(&exporter, "Deployment", "web"), Some(VerdictKind::InSync), "other kinds do not wait");
    tokio::time::sleep(Duration::from_secs(1)).await;
    api.set_openapi(VERSION, atomic_schema());
    wait_for(&exporter, VerdictKind::Drifted, TIME_LIMIT).await;
    assert_eq!(exporter.snapshot().history.newest_first().count(), 0);
}

/// Asserts that Widgets are compared with default list semantics and that other kinds are not affected.
async fn assert_default_schema(case: &str, api: ApiServer, time_limit: Duration) -> usize {
    let exporter = start_exporter(&api);
    wait_for(&exporter, VerdictKind::InSync, time_limit).await;
    assert_eq!(verdict(&exporter, "Deployment", "web"), Some(VerdictKind::InSync), "{case}");
    assert_eq!(exporter.get("/readyz").await.status, 200, "{case}");
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(verdict(&exporter, "Widget", "gear"), Some(VerdictKind::InSync), "{case}");
    let (all, documents) = (request_count(&api, "/openapi/v3"), request_count(&api, "/openapi/v3/"));
    assert!(all - documents <= 14, "{case}: {all} requests in ten minutes");
    documents
}

#[tokio::test(start_paused = true)]
async fn missing_schema_falls_back_to_defaults() {
    assert_default_schema("no index", cluster(), TIME_LIMIT).await;
    for (code, time_limit) in [(403, 6), (404, 6), (401, 6), (500, 20), (429, 20)] {
        let api = cluster();
        api.set_openapi(VERSION, atomic_schema());
        api.set_fault("v3", ServerFault::HttpError(code, None));
        assert_default_schema(&format!("the index fails with {code}"), api, Duration::from_secs(time_limit))
            .await;
        let api = cluster();
        api.set_openapi(VERSION, atomic_schema());
        api.set_fault("v1", ServerFault::HttpError(code, None));
        assert_default_schema(
            &format!("the document fails with {code}"),
            api,
            Duration::from_secs(time_limit),
        )
        .await;
    }
    let api = cluster();
    api.set_openapi(VERSION, atomic_schema());
    api.set_fault("v3", ServerFault::Unresponsive);
    assert_default_schema("the index request stalls", api, Duration::from_secs(50)).await;
    let api = cluster();
    api.set_openapi("other.example/v1", atomic_schema());
    assert_default_schema("the version is not in the index", api, Duration::from_secs(20)).await;
}

#[tokio::test(start_paused = true)]
async fn invalid_document_falls_back_to_defaults() {
    let preserve_unknown = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let named = schema(&json!({}))["x-kubernetes-group-version-kind"].clone();
    let bare = |properties: Value| json!({"type": "object", "x-kubernetes-group-version-kind": named, "properties": properties});
    for (case, text) in [
        ("empty", Vec::new()),
        ("truncated", atomic_schema()[..200].to_vec()),
        ("not UTF-8", vec![0xff; 64]),
        ("another document", b"{\"kind\": \"Status\"}".to_vec()),
        ("lists for schemas", b"{\"components\": {\"schemas\": []}}".to_vec()),
        ("another kind", document(&json!({"type": "object"}), 0)),
        ("no fields", document(&bare(json!({"metadata": {"type": "object"}})), 0)),
        ("unknown fields preserved", document(&bare(json!({"spec": preserve_unknown})), 0)),
        ("endless nesting", [b"{\"components\": ".to_vec(), b"[".repeat(1 << 20)].concat()),
        ("larger than the limit", document(&schema(&json!({})), 33 << 20)),
    ] {
        let api = cluster();
        api.set_openapi(VERSION, text);
        assert_eq!(
            assert_default_schema(case, api, TIME_LIMIT).await,
            1,
            "{case}: the document is read once"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn large_document_is_read() {
    let api = cluster();
    api.set_openapi(VERSION, document(&schema(&json!({"x-kubernetes-list-type": "atomic"})), 20 << 20));
    wait_for(&start_exporter(&api), VerdictKind::Drifted, TIME_LIMIT).await;
}

#[tokio::test(start_paused = true)]
async fn unreadable_schema_keeps_the_last_one() {
    let api = cluster();
    api.set_openapi(VERSION, atomic_schema());
    let exporter = start_exporter(&api);
    wait_for(&exporter, VerdictKind::Drifted, TIME_LIMIT).await;
    for path in ["v3", "v1"] {
        api.set_fault(path, ServerFault::HttpError(403, None));
        api.set_openapi(VERSION, map_schema());
        api.close_watches();
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(verdict(&exporter, "Widget", "gear"), Some(VerdictKind::Drifted), "{path}");
        api.set_fault(path, ServerFault::None);
        api.close_watches();
        wait_for(&exporter, VerdictKind::InSync, TIME_LIMIT).await;
        api.set_openapi(VERSION, atomic_schema());
        api.close_watches();
        wait_for(&exporter, VerdictKind::Drifted, TIME_LIMIT).await;
    }
}

#[tokio::test(start_paused = true)]
async fn schemas_are_requested_only_for_compared_custom_resources() {
    let api = cluster();
    api.set_openapi(VERSION, atomic_schema());
    let known = Settings {
        kinds: vec![WantedKind::exactly(&Kind::deployment())],
        sources: vec![Source::LastApplied],
        ..Settings::default()
    };
    let not_compared = Settings { kinds: vec![WantedKind::exactly(&widget())], ..Settings::default() };
    for settings in [known, not_compared] {
        let exporter = ExporterFixture::start_with(&api, settings);
        tokio::time::sleep(Duration::from_mins(11)).await;
        assert_eq!(request_count(&api, "/openapi"), 0);
        drop(exporter);
    }
}

#[tokio::test(start_paused = true)]
async fn kind_that_is_watched_again_is_compared_again() {
    let api = cluster();
    api.set_openapi(VERSION, atomic_schema());
    let exporter = start_exporter(&api);
    wait_for(&exporter, VerdictKind::Drifted, TIME_LIMIT).await;
    let wanted = Settings::clone(&exporter.settings.current());
    let others =
        Settings { kinds: vec![WantedKind::exactly(&Kind::deployment())], ..Settings::clone(&wanted) };
    for _ in 0..3 {
        exporter.settings.replace(others.clone());
        exporter
            .until("the kind is dropped", TIME_LIMIT, |exporter| {
                verdict(exporter, "Widget", "gear").is_none()
            })
            .await;
        exporter.settings.replace(wanted.clone());
        wait_for(&exporter, VerdictKind::Drifted, Duration::from_secs(20)).await;
    }
}
