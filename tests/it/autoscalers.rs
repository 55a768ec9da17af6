//! Autoscalers as actors of replica drift: in any order of events, and when they change or go away.

use drift_exporter::{
    types::{ResolutionCause, SyncHealth, WantedKind, WatchIds},
    watch::plan,
};
use serde_json::{Value, json};

use crate::{
    plan::{cluster, describe_streams, want},
    rules::rules,
    support::{
        api_server::{ApiServer, ServerFault},
        autoscalers::{AUTOSCALERS, SOON, StateFiles, autoscaler, declared, server},
        exporter_fixture::ExporterFixture,
    },
};

/// A Deployment that a field manager scaled at this second of January 2nd, 2026.
fn deployment(name: &str, replicas: u32, manager: &str, second: u32) -> Value {
    json!({
        "metadata": {"namespace": "shop", "name": name, "uid": format!("uid-{name}"), "managedFields": [
            {"manager": manager, "operation": "Update", "subresource": "scale", "apiVersion": "apps/v1",
                "time": format!("2026-01-02T00:00:{second:02}Z"), "fieldsV1": {"f:spec": {"f:replicas": {}}}}]},
        "spec": {"replicas": replicas},
    })
}

fn declared_deployment(name: &str) -> Value {
    let metadata = json!([{"name": name, "namespace": "shop", "uid": format!("uid-{name}")}]);
    let attributes = json!({"id": format!("shop/{name}"), "metadata": metadata, "spec": [{"replicas": "2"}]});
    json!({"mode": "managed", "type": "kubernetes_deployment_v1", "name": name,
        "instances": [{"schema_version": 1, "attributes": attributes}]})
}

/// A synced exporter with two in-sync Deployments of a state and these autoscalers.
async fn shop(states: &StateFiles, autoscalers: &[Value]) -> (ApiServer, ExporterFixture) {
    let api = server(&["v2", "v1"]);
    for name in ["web", "api"] {
        api.put("deployments", deployment(name, 2, "HashiCorp", 1));
    }
    for object in autoscalers {
        api.put(AUTOSCALERS, object.clone());
    }
    states.write("shop", 1, &[declared_deployment("web"), declared_deployment("api")]);
    let exporter = states.start_exporter(&api);
    for name in ["web", "api"] {
        exporter.wait_for_verdict("deployment", name, "in_sync").await;
    }
    let listed = |exporter: &ExporterFixture| exporter.snapshot().watches().all(|watch| watch.synced);
    exporter.until("autoscalers are listed", SOON, listed).await;
    exporter.wait_idle().await;
    (api, exporter)
}

/// Actor, expectation and second of the onset of a replica drift, for example `other unexpected 20`; the verdict without drift.
async fn scale_status(exporter: &ExporterFixture, name: &str) -> String {
    exporter.wait_idle().await;
    let object = exporter.get(&format!("/v1/resources/deployment/shop/{name}")).await.json();
    let claim = &object["claims"][0];
    let [difference] = claim["differences"].as_array().unwrap().as_slice() else {
        return claim["verdict"].as_str().unwrap().to_owned();
    };
    assert_eq!(difference["path"], "spec.replicas");
    assert_eq!(claim["onset"], difference["onset"]);
    let onset = difference["onset"].as_str().unwrap().strip_prefix("2026-01-02T00:00:").unwrap();
    let field = |name: &str| difference[name].as_str().unwrap();
    format!("{} {} {}", field("actor"), field("expectation"), onset.trim_end_matches('Z'))
}

/// The number of detected episodes, and the causes of their resolutions.
fn episodes(exporter: &ExporterFixture) -> (u64, Vec<ResolutionCause>) {
    let counters = exporter.snapshot().counters.clone();
    let ended = counters.resolutions().filter(|(.., count)| *count > 0).map(|(_, cause, _)| cause);
    (counters.detections().map(|(_, count)| count).sum(), ended.collect())
}

#[tokio::test(start_paused = true)]
async fn existing_autoscaler_is_the_actor_unless_a_known_tool_scaled() {
    let states = StateFiles::new();
    let (api, exporter) = shop(&states, &[autoscaler("scaler", "web", 80, 1)]).await;
    for (manager, wanted) in [
        ("my-scaler", "autoscaler expected"),
        ("some-operator", "autoscaler expected"),
        ("kube-controller-manager", "autoscaler expected"),
        ("kubectl", "kubectl unexpected"),
        ("argocd-controller", "gitops unexpected"),
        ("openshift-console", "console unexpected"),
    ] {
        api.put("deployments", deployment("web", 5, manager, 20));
        assert_eq!(scale_status(&exporter, "web").await, format!("{wanted} 20"), "{manager}");
    }
    // Autoscalers do not act on objects with 0 replicas.
    api.put("deployments", deployment("web", 0, "my-scaler", 20));
    assert_eq!(scale_status(&exporter, "web").await, "other unexpected 20");
    assert_eq!(episodes(&exporter), (1, vec![]));
    api.put("deployments", deployment("api", 5, "my-scaler", 20));
    assert_eq!(scale_status(&exporter, "api").await, "other unexpected 20");
}

#[tokio::test(start_paused = true)]
async fn autoscaler_changes_update_only_the_actor() {
    let states = StateFiles::new();
    let (api, exporter) = shop(&states, &[]).await;
    for name in ["web", "api"] {
        api.put("deployments", deployment(name, 5, "my-scaler", 20));
        assert_eq!(scale_status(&exporter, name).await, "other unexpected 20");
    }
    let check = async |web: &str, api: &str| {
        assert_eq!(scale_status(&exporter, "web").await, format!("{web} 20"));
        assert_eq!(scale_status(&exporter, "api").await, format!("{api} 20"));
        assert_eq!(episodes(&exporter), (2, vec![]));
    };
    let (by_autoscaler, by_other) = ("autoscaler expected", "other unexpected");
    api.put(AUTOSCALERS, autoscaler("scaler", "web", 80, 1));
    check(by_autoscaler, by_other).await;
    api.put(AUTOSCALERS, autoscaler("scaler", "api", 80, 2));
    check(by_other, by_autoscaler).await;
    api.put(AUTOSCALERS, autoscaler("second", "api", 80, 2));
    api.delete(AUTOSCALERS, "shop", "scaler");
    check(by_other, by_autoscaler).await;
    api.delete(AUTOSCALERS, "shop", "second");
    check(by_other, by_other).await;
    // A relist notices a deletion that no watch delivered.
    api.put(AUTOSCALERS, autoscaler("scaler", "web", 80, 3));
    check(by_autoscaler, by_other).await;
    api.set_fault(AUTOSCALERS, ServerFault::WatchErrorEvent(500));
    api.close_watches();
    exporter.wait_idle().await;
    api.delete(AUTOSCALERS, "shop", "scaler");
    api.compact_history();
    api.set_fault(AUTOSCALERS, ServerFault::None);
    tokio::time::sleep(SOON).await;
    check(by_other, by_other).await;
    assert_eq!(exporter.get("/v1/history").await.json()["transitions"].as_array().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn autoscaler_changes_reevaluate_rules() {
    let states = StateFiles::new();
    let (api, exporter) = shop(&states, &[]).await;
    let ignore = "[{name: r, match: {fields: [replicas], actors: [autoscaler]}, effect: ignore}]";
    exporter.rules(rules(ignore)).await;
    api.put("deployments", deployment("web", 5, "my-scaler", 20));
    assert_eq!(scale_status(&exporter, "web").await, "other unexpected 20");
    api.put(AUTOSCALERS, autoscaler("scaler", "web", 80, 1));
    exporter.wait_for_verdict("deployment", "web", "ignored").await;
    assert_eq!(episodes(&exporter), (1, vec![ResolutionCause::Rule]));
    assert_eq!(exporter.sample("drift_rule_matches{rule=\"r\"}").await, Some(1.0));
    api.delete(AUTOSCALERS, "shop", "scaler");
    assert_eq!(scale_status(&exporter, "web").await, "other unexpected 20");
    assert_eq!(exporter.sample("drift_rule_matches{rule=\"r\"}").await, Some(0.0));
}

#[tokio::test(start_paused = true)]
async fn forbidden_autoscaler_watch_is_reported_and_affects_nothing_else() {
    let states = StateFiles::new();
    let api = server(&["v2", "v1"]);
    api.set_fault(AUTOSCALERS, ServerFault::HttpError(403, None));
    api.put("deployments", deployment("web", 2, "HashiCorp", 1));
    states.write("shop", 1, &[declared_deployment("web")]);
    let exporter = states.start_exporter(&api);
    exporter.wait_for_verdict("deployment", "web", "in_sync").await;
    let down = |exporter: &ExporterFixture| {
        exporter.snapshot().watches().any(|watch| matches!(watch.health, SyncHealth::Down { .. }))
    };
    exporter.until("the watch is down", SOON, down).await;
    api.put("deployments", deployment("web", 5, "my-scaler", 20));
    assert_eq!(scale_status(&exporter, "web").await, "other unexpected 20");
    let ready = exporter.get("/readyz").await;
    assert_eq!(ready.status, 200, "{}", ready.text());
    let line = "horizontalpodautoscalers.autoscaling in shop: not listed (forbidden): ";
    assert!(ready.text().contains(line), "{}", ready.text());
    let up = "drift_watch_stream_up{group=\"autoscaling\",version=\"v2\",kind=\"HorizontalPodAutoscaler\",scope=\"shop\"}";
    assert_eq!(exporter.sample(up).await, Some(0.0));
    api.set_fault(AUTOSCALERS, ServerFault::None);
    api.put(AUTOSCALERS, autoscaler("scaler", "web", 80, 1));
    tokio::time::sleep(4 * SOON).await;
    assert_eq!(scale_status(&exporter, "web").await, "autoscaler expected 20");
}

#[tokio::test(start_paused = true)]
async fn declared_autoscaler_in_any_version_still_resolves_its_target() {
    for version in ["v1", "v2"] {
        let states = StateFiles::new();
        let (api, exporter) = shop(&states, &[autoscaler("scaler", "web", 80, 1)]).await;
        let declared_with_target = |target: &str| {
            [declared_deployment("web"), declared_deployment("api"), declared(version, "scaler", target, 80)]
        };
        states.write("shop", 2, &declared_with_target("web"));
        exporter.wait_for_verdict("horizontalpodautoscaler", "scaler", "in_sync").await;
        for name in ["web", "api"] {
            api.put("deployments", deployment(name, 5, "my-scaler", 20));
        }
        assert_eq!(scale_status(&exporter, "web").await, "autoscaler expected 20", "{version}");
        assert_eq!(scale_status(&exporter, "api").await, "other unexpected 20", "{version}");
        api.put(AUTOSCALERS, autoscaler("scaler", "api", 80, 1));
        exporter.wait_for_verdict("horizontalpodautoscaler", "scaler", "drifted").await;
        assert_eq!(scale_status(&exporter, "web").await, "other unexpected 20", "{version}");
        assert_eq!(scale_status(&exporter, "api").await, "autoscaler expected 20", "{version}");
        api.delete(AUTOSCALERS, "shop", "scaler");
        exporter.wait_for_verdict("horizontalpodautoscaler", "scaler", "missing").await;
        assert_eq!(scale_status(&exporter, "api").await, "other unexpected 20", "{version}");
        let count = exporter.snapshot().watches().filter(|watch| watch.spec.kind.is_autoscaler()).count();
        assert_eq!(count, 1, "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn cluster_without_autoscaling_api_opens_no_watch() {
    let states = StateFiles::new();
    let api = server(&[]);
    api.put("deployments", deployment("web", 5, "my-scaler", 20));
    states.write("shop", 1, &[declared_deployment("web")]);
    let exporter = states.start_exporter(&api);
    exporter.wait_for_verdict("deployment", "web", "drifted").await;
    assert_eq!(scale_status(&exporter, "web").await, "other unexpected 20");
    let kinds: Vec<_> = exporter.snapshot().watches().map(|watch| watch.spec.to_string()).collect();
    assert_eq!(kinds, ["deployments.apps in shop"]);
}

#[track_caller]
fn check_plan(explicit: &[&str], implicit: &str, streams: &[&str]) {
    let implicit = WantedKind { implicit: true, ..want(implicit) };
    let wanted: Vec<WantedKind> = explicit.iter().map(|text| want(text)).chain([implicit]).collect();
    let plan = plan(&wanted, &cluster(), &mut WatchIds::default());
    assert_eq!(describe_streams(&plan), streams);
    assert!(plan.unwatched.is_empty(), "{:?}", plan.unwatched);
    for (namespace, name) in [("a", "x"), ("b", "x"), ("z", "x")] {
        let count = plan.watches.iter().filter(|watch| watch.spec.delivers(namespace, name)).count();
        assert!(count <= 1, "{namespace} {streams:?}");
    }
}

#[test]
fn implicit_watch_needs_no_more_permissions_for_explicit_kinds() {
    let (v1, v2) = ("example.com/v1 Widget", "example.com/v2 Widget");
    check_plan(&[], &format!("{v2} in a,b"), &[&format!("{v2} in a"), &format!("{v2} in b")]);
    check_plan(&[], v2, &[v2]);
    // The implicit watch uses the version of the explicit one.
    check_plan(
        &[&format!("{v1} in a")],
        &format!("{v2} in a,b"),
        &[&format!("{v1} in a"), &format!("{v1} in b")],
    );
    // The watch of one namespace keeps working if all other namespaces are forbidden.
    check_plan(&[&format!("{v1} in a")], v2, &[&format!("{v1} in a"), &format!("{v1} but a")]);
    check_plan(&[v1], &format!("{v2} in a"), &[v1]);
    // Selectors need no additional permissions.
    check_plan(&[&format!("{v1} but b with x")], &format!("{v2} in a"), &[&format!("{v1} but b choosing 2")]);
    check_plan(&[], "example.com/v2 Nothing in a", &[]);
}
