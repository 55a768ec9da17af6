//! The objects that a baseline has authority over. A tenant may write Secrets, Leases and ConfigMaps in `tenant` and nowhere else.
//! None of these objects hides, forges or discloses anything about other namespaces.

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use drift_exporter::{
    config::{BaselineLimits, Limits, Settings, ShownValues},
    diff::MAX_FINDINGS,
    engine::{Claim, History},
    rules::{RuleConfig, RuleSet, TeamRules},
    server::Auth,
    types::{Authority, Baseline, Kind, ObjectRef, Source, TrustedNamespaces, VerdictKind},
};
use serde_json::{Value, json};

use crate::{
    helm_source::{release, stored},
    hostile_inputs,
    support::{
        api_server::ApiServer,
        engine::{EngineFixture, key, sensitive_state, state},
        exporter_fixture::ExporterFixture,
        gzip::gzip,
        stored::lock_lease,
    },
    terraform_published::{publish, secrets},
    terraform_source::secret,
};

fn cluster_role() -> Kind {
    Kind {
        group: "rbac.authorization.k8s.io".into(),
        version: "v1".into(),
        kind: "ClusterRole".into(),
        plural: "clusterroles".into(),
        namespaced: false,
    }
}

fn api_server() -> ApiServer {
    let api = ApiServer::with_source_kinds();
    api.serve(&[cluster_role()]);
    api
}

fn settings() -> Settings {
    Settings { sources: vec![Source::Terraform, Source::Helm], ..Settings::default() }
}

async fn start(api: &ApiServer) -> ExporterFixture {
    restart(api, History::default()).await
}

async fn restart(api: &ApiServer, history: History) -> ExporterFixture {
    let exporter =
        ExporterFixture::start_with_history(api, api.client(), settings(), Auth::default(), history);
    settle().await;
    exporter
}

/// Longer than the grace period after a release or state changed.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(5)).await;
}

fn config_map(namespace: &str, name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"key": value},
        "metadata": {"namespace": namespace, "name": name, "uid": format!("u-{name}")}})
}

/// The annotations of Helm on objects of the release `web`.
fn annotations(namespace: &str) -> Value {
    json!({"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": namespace})
}

fn role(verb: &str, annotations: &Value) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "reader", "uid": "u-reader", "annotations": annotations},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}]})
}

/// Stores a revision of the release `web` that declares these objects.
fn put_release(api: &ApiServer, namespace: &str, revision: u64, status: &str, declared: &[Value]) {
    let manifest: Vec<String> = declared.iter().map(Value::to_string).collect();
    let manifest = manifest.join("\n---\n");
    let mut stored = stored(namespace, revision, status, &release(namespace, revision, &manifest));
    // A pending revision counts only for a limited time.
    stored["metadata"]["creationTimestamp"] = json!("2026-02-01T12:00:00Z");
    api.put("secrets", stored);
}

fn tenant_release(api: &ApiServer, declared: &[Value]) {
    put_release(api, "tenant", 1, "deployed", declared);
}

/// A state that declares objects: type, namespace, name, value.
fn terraform_state(objects: &[(&str, &str, &str, &str)]) -> Value {
    let resource = |(kind, namespace, name, value): &(&str, &str, &str, &str)| {
        let metadata = json!([{"namespace": namespace, "name": name, "uid": format!("u-{name}")}]);
        let attributes =
            json!({"id": format!("{namespace}/{name}"), "metadata": metadata, "data": {"key": value}});
        json!({"mode": "managed", "type": kind, "name": name, "instances": [{"attributes": attributes}]})
    };
    let resources: Vec<Value> = objects.iter().map(resource).collect();
    json!({"version": 4, "terraform_version": "1.11.4", "serial": 1, "lineage": "l", "resources": resources})
}

const CONFIG_MAP: &str = "kubernetes_config_map_v1";
const SECRET: &str = "kubernetes_secret_v1";

fn put_state(api: &ApiServer, namespace: &str, objects: &[(&str, &str, &str, &str)]) {
    let bytes = gzip(terraform_state(objects).to_string());
    api.put("secrets", secret(namespace, "tfstate-default-shop", &bytes));
}

/// The lock of a running apply.
fn put_lock(api: &ApiServer, namespace: &str) {
    let info = json!({"ID": "1", "Operation": "OperationTypeApply", "Who": "mallory", "Created": "2026-02-01T12:00:00Z"});
    api.put("leases", lock_lease(namespace, "shop", &info));
}

async fn resources(exporter: &ExporterFixture, query: &str) -> Vec<Value> {
    let mut list = exporter.get(&format!("/v1/resources?namespace=*{query}")).await.json();
    serde_json::from_value(list["resources"].take()).unwrap()
}

/// The only claim of a source on an object.
async fn claim(exporter: &ExporterFixture, source: Source, name: &str) -> Option<Value> {
    let claims = resources(exporter, "").await;
    let mut found = claims
        .into_iter()
        .filter(|claim| claim["source"] == source.as_str() && claim["resourceName"] == name);
    let claim = found.next();
    assert!(found.next().is_none(), "two claims of {source} on {name}");
    claim
}

async fn verdict(exporter: &ExporterFixture, source: Source, name: &str) -> Option<String> {
    claim(exporter, source, name).await.map(|claim| claim["verdict"].as_str().unwrap().to_owned())
}

/// The series about objects of a namespace.
async fn series(exporter: &ExporterFixture, namespace: &str) -> String {
    let label = format!("namespace=\"{namespace}\"");
    let page = exporter.metrics().await;
    page.lines().filter(|line| line.contains(&label)).collect::<Vec<_>>().join("\n")
}

#[tokio::test(start_paused = true)]
async fn pending_release_of_a_tenant_hides_no_drift() {
    let api = api_server();
    api.put("configmaps", config_map("victim", "web", "edited"));
    put_release(&api, "victim", 1, "deployed", &[config_map("victim", "web", "declared")]);
    let exporter = start(&api).await;
    let before = (claim(&exporter, Source::Helm, "web").await.unwrap(), series(&exporter, "victim").await);
    assert_eq!(before.0["verdict"], "drifted");
    assert!(
        before.1.contains("drift_resource_drifted{") && before.1.contains("drift_resources{"),
        "{}",
        before.1
    );

    // The release of the tenant sorts before the release of the victim, declares the live value, and has a pending upgrade.
    tenant_release(&api, &[config_map("victim", "web", "edited")]);
    settle().await;
    put_release(&api, "tenant", 2, "pending-upgrade", &[config_map("victim", "web", "edited")]);
    settle().await;
    let pending = exporter.snapshot();
    let pending = pending.baselines.values().find(|state| &*state.baseline.name == "tenant/web").unwrap();
    assert!(pending.in_flight, "the release is read, and pending");
    let mut after = (claim(&exporter, Source::Helm, "web").await.unwrap(), series(&exporter, "victim").await);
    after.0["lastChecked"] = before.0["lastChecked"].clone();
    assert_eq!(after, before, "address, state, findings and series are those of the victim's release");
}

#[tokio::test(start_paused = true)]
async fn locked_state_of_a_tenant_hides_no_drift() {
    let api = api_server();
    api.put("configmaps", config_map("victim", "web", "edited"));
    put_state(&api, "victim", &[(CONFIG_MAP, "victim", "web", "declared")]);
    let exporter = start(&api).await;
    let before =
        (claim(&exporter, Source::Terraform, "web").await.unwrap(), series(&exporter, "victim").await);
    assert_eq!(
        (&before.0["verdict"], &before.0["state"]),
        (&json!("drifted"), &json!("victim/default/shop"))
    );

    put_lock(&api, "tenant");
    put_state(&api, "tenant", &[(CONFIG_MAP, "victim", "web", "edited")]);
    settle().await;
    let locked = exporter.snapshot();
    assert!(locked.baselines.values().any(|state| state.in_flight), "the state is read, and locked");
    let mut after =
        (claim(&exporter, Source::Terraform, "web").await.unwrap(), series(&exporter, "victim").await);
    after.0["lastChecked"] = before.0["lastChecked"].clone();
    assert_eq!(after, before);
}

#[tokio::test(start_paused = true)]
async fn forged_objects_are_never_missing() {
    let api = api_server();
    let forged = config_map("kube-system", "never-there", "a");
    tenant_release(&api, &[forged, role("get", &json!({})), config_map("tenant", "own", "a")]);
    put_state(
        &api,
        "tenant",
        &[(CONFIG_MAP, "kube-system", "never-there", "a"), (CONFIG_MAP, "tenant", "other", "a")],
    );
    api.put("configmaps", config_map("tenant", "other", "a"));
    let exporter = start(&api).await;
    let claims = resources(&exporter, "").await;
    let mut claims: Vec<(&str, &str)> = claims
        .iter()
        .map(|claim| (claim["resourceName"].as_str().unwrap(), claim["verdict"].as_str().unwrap()))
        .collect();
    claims.sort_unstable();
    assert_eq!(claims, [("other", "in_sync"), ("own", "missing")], "a tenant may declare its own objects");
    assert_eq!(series(&exporter, "kube-system").await, "");
}

/// All metrics and API responses, without values that depend on durations.
async fn everything(exporter: &ExporterFixture) -> String {
    let page = exporter.metrics().await;
    let is_timed =
        |line: &&str| ["process_", "_seconds", "_bytes", "http_"].iter().any(|part| line.contains(part));
    let mut lines: Vec<&str> = page.lines().filter(|line| !is_timed(line)).collect();
    // Some metric families come from a hash map, in any order.
    lines.sort_unstable();
    let mut text = lines.join("\n");
    for path in [
        "/v1/resources?namespace=*",
        "/v1/history",
        "/v1/gate?namespace=victim",
        "/v1/resources/secret/victim/db",
    ] {
        text.push_str(&exporter.get(path).await.text());
    }
    text
}

type PutGuess<'a> = &'a dyn Fn(&ApiServer, &str);

/// Metrics and API of an exporter in whose cluster a tenant declares `victim/db` with this password.
async fn with_guess(put_guess: impl Fn(&ApiServer, &str), guess: &str) -> String {
    let api = api_server();
    api.put(
        "secrets",
        json!({"apiVersion": "v1", "kind": "Secret", "data": {"key": "aHVudGVyMg=="},
            "metadata": {"namespace": "victim", "name": "db", "uid": "u-db"}}),
    );
    put_guess(&api, guess);
    let exporter = start(&api).await;
    assert!(exporter.snapshot().baselines.values().count() > 0, "the guess is read");
    everything(&exporter).await
}

#[tokio::test(start_paused = true)]
async fn guesses_of_a_secret_look_the_same_whether_right_or_wrong() {
    let by_release = |api: &ApiServer, guess: &str| {
        tenant_release(
            api,
            &[json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"key": guess},
                "metadata": {"namespace": "victim", "name": "db"}})],
        );
    };
    let by_state =
        |api: &ApiServer, guess: &str| put_state(api, "tenant", &[(SECRET, "victim", "db", guess)]);
    // A published baseline brings its own key: its publisher could compare digests.
    let by_publishing = |api: &ApiServer, guess: &str| {
        let published = publish(&terraform_state(&[(SECRET, "victim", "db", guess)]), &["-n", "tenant"]);
        secrets(&published).into_iter().for_each(|secret| api.put("secrets", secret));
    };
    let attempts: [(&str, PutGuess<'_>); 3] =
        [("release", &by_release), ("state", &by_state), ("published", &by_publishing)];
    for (name, attempt) in attempts {
        let (right, wrong) = (with_guess(attempt, "hunter2").await, with_guess(attempt, "hunter3").await);
        assert_eq!(right, wrong, "{name}");
        assert!(!right.contains(r#"kind="Secret",namespace="victim",source="helm""#), "{name}: {right}");
        assert!(!right.contains(r#"kind="Secret",namespace="victim",source="terraform""#), "{name}: {right}");
    }
}

/// What the API, the page and the metrics show about two objects of `victim` before and after a tenant declares them with this guess of
/// their values.
async fn with_guess_of_values(
    put_guess: PutGuess<'_>,
    guess: &str,
    shown_values: ShownValues,
) -> (String, Vec<Value>) {
    let api = api_server();
    api.put("deployments", with_password("hunter2", 2));
    api.put("configmaps", config_map("victim", "x", "hunter2"));
    let settings = Settings { shown_values, ..settings() };
    let exporter = ExporterFixture::start_with(&api, settings);
    settle().await;
    put_guess(&api, guess);
    settle().await;
    let mut text = everything(&exporter).await;
    for path in [
        "/",
        "/objects/deployment/victim/web",
        "/objects/configmap/victim/x",
        "/v1/resources/deployment/victim/web",
        "/v1/resources/configmap/victim/x",
        "/v1/status",
    ] {
        let response = exporter.get(path).await;
        text.push_str(response.status.as_str());
        text.push_str(&response.text());
    }
    // `/v1/events` sends the transitions of the history, and this number.
    text.push_str(&exporter.snapshot().sequence.to_string());
    let claims = resources(&exporter, "").await;
    let untrusted = claims.into_iter().filter(|claim| claim["verdict"] == "untrusted").collect();
    (text, untrusted)
}

/// A Deployment with a confidential value in its environment and another one in an annotation.
fn with_password(password: &str, replicas: u32) -> Value {
    let mut web = scaled_to_zero(&json!({"password": password}));
    web["spec"]["replicas"] = json!(replicas);
    web["spec"]["template"]["spec"]["containers"][0]["env"] =
        json!([{"name": "DB_PASSWORD", "value": password}]);
    web
}

#[tokio::test(start_paused = true)]
async fn guesses_of_values_that_the_api_redacts_look_the_same_whether_right_or_wrong() {
    let by_release = |api: &ApiServer, guess: &str| {
        tenant_release(api, &[with_password(guess, 3), config_map("victim", "x", guess)]);
    };
    // The plain digests of several guesses beside that of the live value.
    let by_decoys = |api: &ApiServer, guess: &str| {
        let mut web = with_password("wrong", 3);
        for decoy in ["hunter1", guess, "hunter4"] {
            web["metadata"]["annotations"][decoy] = json!(decoy);
        }
        let mut map = config_map("victim", "x", "wrong");
        map["data"]["another"] = json!(guess);
        tenant_release(api, &[web, map]);
    };
    // As many other differences as a comparison lists.
    let among_many = |api: &ApiServer, guess: &str| {
        let mut web = with_password(guess, 3);
        for at in 0..MAX_FINDINGS {
            web["metadata"]["annotations"][format!("a{at:04}")] = json!("declared");
            web["metadata"]["labels"][format!("a{at:04}")] = json!("declared");
        }
        let mut map = config_map("victim", "x", guess);
        for at in 0..MAX_FINDINGS {
            map["data"][format!("a{at:04}")] = json!("declared");
        }
        tenant_release(api, &[web, map]);
    };
    let by_state =
        |api: &ApiServer, guess: &str| put_state(api, "tenant", &[(CONFIG_MAP, "victim", "x", guess)]);
    let attempts: [(&str, PutGuess<'_>); 4] =
        [("release", &by_release), ("decoys", &by_decoys), ("many", &among_many), ("state", &by_state)];
    let mut different = Vec::new();
    for (name, attempt) in attempts {
        for shown_values in [ShownValues::Digest, ShownValues::Full] {
            let (right, listed) = with_guess_of_values(attempt, "hunter2", shown_values).await;
            let (wrong, _) = with_guess_of_values(attempt, "hunter3", shown_values).await;
            // A decoy has the name of the guess.
            if right != wrong.replace("hunter3", "hunter2") {
                different.push((name, shown_values));
            }
            assert!(!listed.is_empty(), "{name}");
            for claim in listed {
                let is_web = claim["resourceName"] == "web";
                let first = if is_web { json!("spec.replicas") } else { Value::Null };
                assert_eq!(claim["untrusted"][0]["path"], first, "{name}: {claim}");
            }
        }
    }
    assert_eq!(different, []);
}

/// The declared and the live value of the only difference of a claim.
async fn displayed_values(exporter: &ExporterFixture, source: Source, name: &str) -> [String; 2] {
    let claim = claim(exporter, source, name).await.unwrap();
    assert_eq!(claim["verdict"], "drifted", "{claim}");
    let [difference] = claim["differences"].as_array().unwrap().as_slice() else { panic!("{claim}") };
    assert_eq!(difference["path"], "data.key", "{claim}");
    ["expected", "actual"].map(|value| difference[value].as_str().unwrap().to_owned())
}

#[tokio::test(start_paused = true)]
async fn equal_values_of_two_namespaces_have_different_digests() {
    let api = api_server();
    for namespace in ["victim", "tenant"] {
        let secret = |name: &str, key: &str| {
            json!({"apiVersion": "v1", "kind": "Secret", "data": {"key": key, "unchanged": "aHVudGVyMQ=="},
                "metadata": {"namespace": namespace, "name": format!("{namespace}-{name}"), "uid": "u-secret"}})
        };
        let [drifted, in_sync] = ["drifted", "synced"].map(|name| secret(name, "aHVudGVyMQ=="));
        let plain = config_map(namespace, &format!("{namespace}-plain"), "hunter1");
        put_release(&api, namespace, 1, "deployed", &[drifted, in_sync.clone(), plain]);
        put_state(&api, namespace, &[(SECRET, namespace, &format!("{namespace}-state"), "hunter1")]);
        api.put("secrets", secret("drifted", "aHVudGVyMg=="));
        api.put("secrets", in_sync);
        api.put("configmaps", config_map(namespace, &format!("{namespace}-plain"), "hunter2"));
        let mut of_state = secret("state", "aHVudGVyMg==");
        of_state["metadata"]["uid"] = json!(format!("u-{namespace}-state"));
        of_state["data"].as_object_mut().unwrap().remove("unchanged");
        api.put("secrets", of_state);
    }
    let exporter = start(&api).await;
    for (source, name) in [(Source::Helm, "drifted"), (Source::Helm, "plain"), (Source::Terraform, "state")] {
        let victim = displayed_values(&exporter, source, &format!("victim-{name}")).await;
        let tenant = displayed_values(&exporter, source, &format!("tenant-{name}")).await;
        for (one, other) in victim.iter().zip(&tenant) {
            assert!(one.starts_with("hmac:") && other.starts_with("hmac:"), "{one} {other}");
            assert_ne!(one, other, "{source} {name}");
        }
        assert_ne!(victim[0], victim[1], "{source} {name}");
    }
    for name in ["victim-synced", "tenant-synced"] {
        assert_eq!(verdict(&exporter, Source::Helm, name).await.as_deref(), Some("in_sync"), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn untrusted_differences_are_listed_and_counted_and_never_alert() {
    let api = api_server();
    let mut live = scaled_to_zero(&json!({}));
    live["spec"]["replicas"] = json!(2);
    api.put("deployments", live.clone());
    tenant_release(&api, &[scaled_to_zero(&json!({}))]);
    let exporter = start(&api).await;
    let untrusted = claim(&exporter, Source::Helm, "web").await.unwrap();
    assert_eq!((&untrusted["verdict"], &untrusted["driftDetected"]), (&json!("untrusted"), &json!(false)));
    assert_eq!((&untrusted["differences"], &untrusted["severity"]), (&json!([]), &Value::Null));
    assert_eq!(
        (&untrusted["untrusted"][0]["path"], &untrusted["untrusted"][0]["severity"]),
        (&json!("spec.replicas"), &json!("info"))
    );
    assert_eq!(untrusted["state"], "tenant/web");

    // Neither rules nor later versions of the object change what is listed.
    let own = "[{name: own, match: {kinds: [Deployment]}, effect: expected}, {name: repair, match: {kinds: [Deployment]}, effect: {advice: auto_remediate}}]";
    exporter.rules(rules(own, Vec::new())).await;
    live["metadata"]["labels"] = json!({"another": "undeclared"});
    api.put("deployments", live);
    settle().await;
    let listed = claim(&exporter, Source::Helm, "web").await.unwrap()["untrusted"][0].clone();
    assert_eq!(
        (&listed["expectation"], &listed["advice"]),
        (&json!("unexpected"), &json!("alert_only")),
        "{listed}"
    );
    let first = &untrusted["untrusted"][0];
    assert_eq!((&listed["onset"], &listed["onsetSource"]), (&first["onset"], &first["onsetSource"]));
    exporter.settings.replace(settings());
    settle().await;
    assert_eq!(verdict(&exporter, Source::Unclaimed, "web").await.as_deref(), Some("no_baseline"));
    let lines = series(&exporter, "victim").await;
    assert!(lines.contains(r#"source="helm",verdict="untrusted",reason=""} 1"#), "{lines}");
    assert_eq!(lines.lines().filter(|line| line.contains(r#"source="helm""#)).count(), 1, "{lines}");
    assert!(!lines.contains("drift_resource_"), "{lines}");
    assert!(exporter.get("/v1/history").await.json()["transitions"].as_array().is_none_or(Vec::is_empty));
    let page = exporter.get("/objects/deployment/victim/web").await.text();
    assert!(page.contains("Untrusted differences"), "{page}");

    // The settings trust the namespace, and then no longer trust it.
    let mut trusting = settings();
    trusting.trust(&TrustedNamespaces::new(["tenant"]));
    exporter.settings.replace(trusting);
    settle().await;
    assert_eq!(verdict(&exporter, Source::Helm, "web").await.as_deref(), Some("drifted"));
    assert!(series(&exporter, "victim").await.contains("drift_resource_drifted{"));
    exporter.settings.replace(settings());
    settle().await;
    assert_eq!(verdict(&exporter, Source::Helm, "web").await.as_deref(), Some("untrusted"));
    assert!(!series(&exporter, "victim").await.contains("drift_resource_drifted{"));
}

#[tokio::test(start_paused = true)]
async fn gate_ignores_untrusted_claims() {
    let api = api_server();
    api.put("configmaps", config_map("victim", "web", "live"));
    tenant_release(&api, &[config_map("victim", "web", "forged")]);
    let exporter = start(&api).await;
    let gate = exporter.get("/v1/gate?namespace=victim&allowEmpty=true").await.json();
    assert_eq!((&gate["open"], &gate["checked"]), (&json!(true), &json!(0)));
    assert_eq!(exporter.get("/v1/gate?namespace=victim").await.status, 409, "nothing was compared");
}

#[tokio::test(start_paused = true)]
async fn annotations_of_the_live_object_corroborate_its_release() {
    let api = api_server();
    put_release(&api, "ops", 1, "deployed", &[role("get", &json!({}))]);
    api.put("clusterroles", role("*", &annotations("ops")));
    let exporter = start(&api).await;
    assert_eq!(verdict(&exporter, Source::Helm, "reader").await.as_deref(), Some("drifted"));

    // The release of a tenant that the annotations do not name adds nothing.
    tenant_release(&api, &[role("*", &json!({}))]);
    settle().await;
    let drifted = claim(&exporter, Source::Helm, "reader").await.unwrap();
    assert_eq!((&drifted["verdict"], &drifted["state"]), (&json!("drifted"), &json!("ops/web")));
    assert_eq!(drifted["declaredBy"].as_array().unwrap().len(), 1);

    // Removing or forging annotations does not hide drift of an object whose release was corroborated.
    for edited in [json!({}), annotations("nowhere")] {
        api.put("clusterroles", role("*", &edited));
        settle().await;
        assert_eq!(verdict(&exporter, Source::Helm, "reader").await.as_deref(), Some("drifted"), "{edited}");
    }
    // The other release takes over the object with an upgrade. Both releases count as long as both declare the object.
    api.put("clusterroles", role("*", &annotations("tenant")));
    settle().await;
    let adopted = claim(&exporter, Source::Helm, "reader").await.unwrap();
    assert_eq!((&adopted["verdict"], &adopted["state"]), (&json!("drifted"), &json!("ops/web")));
    assert_eq!(adopted["declaredBy"].as_array().unwrap().len(), 2);
    put_release(&api, "ops", 1, "superseded", &[]);
    put_release(&api, "ops", 2, "deployed", &[config_map("ops", "a", "b")]);
    settle().await;
    let moved = claim(&exporter, Source::Helm, "reader").await.unwrap();
    assert_eq!((&moved["verdict"], &moved["state"]), (&json!("in_sync"), &json!("tenant/web")));
}

#[tokio::test(start_paused = true)]
async fn release_of_a_tenant_in_the_objects_namespace_hides_no_drift_of_another_release() {
    let annotated = |value: &str, release: &str| {
        let mut object = config_map("tenant", "agent", value);
        object["metadata"]["annotations"] = annotations(release);
        object
    };
    let api = api_server();
    put_release(&api, "ops", 1, "deployed", &[config_map("tenant", "agent", "declared")]);
    api.put("configmaps", annotated("declared", "ops"));
    let exporter = start(&api).await;
    assert_eq!(verdict(&exporter, Source::Helm, "agent").await.as_deref(), Some("in_sync"));
    tenant_release(&api, &[config_map("tenant", "agent", "edited")]);
    api.put("configmaps", annotated("edited", "tenant"));
    settle().await;
    let edited = claim(&exporter, Source::Helm, "agent").await.unwrap();
    assert_eq!((&edited["verdict"], &edited["state"]), (&json!("drifted"), &json!("ops/web")));
}

#[tokio::test(start_paused = true)]
async fn corroborations_of_deleted_releases_do_not_survive_a_restart() {
    let api = api_server();
    put_release(&api, "ops", 1, "deployed", &[role("get", &json!({}))]);
    api.put("clusterroles", role("get", &annotations("ops")));
    let exporter = start(&api).await;
    let history = exporter.snapshot().history.clone();
    assert_eq!(history.corroborations.iter().count(), 1);
    drop(exporter);
    let same = restart(&api, history.clone()).await;
    assert_eq!(same.snapshot().history.corroborations.iter().count(), 1);
    drop(same);
    api.delete("secrets", "ops", "sh.helm.release.v1.web.v1");
    let pruned = restart(&api, history).await;
    assert_eq!(pruned.snapshot().history.corroborations.iter().count(), 0);
}

/// The exporter does not wait for a namespace whose releases cost too much work, and keeps the corroborations of those that it has
/// not read yet.
#[tokio::test(start_paused = true)]
async fn corroborations_of_unread_releases_survive_a_restart() {
    let api = api_server();
    put_release(&api, "ops", 1, "deployed", &[role("get", &json!({}))]);
    api.put("clusterroles", role("get", &annotations("ops")));
    let exporter = start(&api).await;
    let history = exporter.snapshot().history.clone();
    assert_eq!(history.corroborations.iter().count(), 1);
    drop(exporter);
    api.delete("clusterroles", "", "reader");
    let document = |at: usize| format!("---\n{}\n", config_map("ops", &format!("c{at}"), "a"));
    let documents: Vec<String> = (0..9).map(document).collect();
    for name in ["a", "b", "c"] {
        api.put("secrets", hostile_inputs::release("ops", name, 1, &documents.concat()));
    }
    let baseline = BaselineLimits { documents: 8, ..BaselineLimits::default() };
    let settings = Settings { limits: Limits { baseline, ..Limits::default() }, ..settings() };
    let exporter =
        ExporterFixture::start_with_history(&api, api.client(), settings, Auth::default(), history);
    settle().await;
    let faulty =
        exporter.snapshot().baselines.values().filter(|state| state.baseline.fault.is_some()).count();
    assert_eq!(faulty, 3);
    assert_eq!(exporter.snapshot().history.corroborations.iter().count(), 1);
    assert_eq!(verdict(&exporter, Source::Helm, "reader").await.as_deref(), Some("missing"));
}

#[tokio::test(start_paused = true)]
async fn deleted_object_of_an_honest_chart_is_missing_also_after_a_restart() {
    let api = api_server();
    put_release(&api, "ops", 1, "deployed", &[role("get", &json!({}))]);
    tenant_release(&api, &[role("get", &json!({}))]);
    api.put("clusterroles", role("get", &annotations("ops")));
    let exporter = start(&api).await;
    assert_eq!(verdict(&exporter, Source::Helm, "reader").await.as_deref(), Some("in_sync"));
    api.delete("clusterroles", "", "reader");
    settle().await;
    let missing = claim(&exporter, Source::Helm, "reader").await.unwrap();
    assert_eq!((&missing["verdict"], &missing["state"]), (&json!("missing"), &json!("ops/web")));

    let history = exporter.snapshot().history.clone();
    drop(exporter);
    let remembers = restart(&api, history.clone()).await;
    assert_eq!(verdict(&remembers, Source::Helm, "reader").await.as_deref(), Some("missing"));
    let forgets = start(&api).await;
    assert_eq!(verdict(&forgets, Source::Helm, "reader").await, None, "without a history file");

    // The corroboration ends when the release no longer declares the object.
    put_release(&api, "ops", 1, "superseded", &[]);
    put_release(&api, "ops", 2, "deployed", &[config_map("ops", "a", "b")]);
    settle().await;
    assert_eq!(remembers.snapshot().history.corroborations.iter().count(), 0);
    assert_eq!(history.corroborations.iter().count(), 1, "of one release");
}

/// A user who may write ConfigMaps, but no Secrets, in the namespace of a release stores a release of the same name.
#[tokio::test(start_paused = true)]
async fn release_of_the_same_name_in_a_config_map_does_not_end_a_corroboration() {
    let api = api_server();
    let declared = role("get", &json!({}));
    put_release(&api, "ops", 1, "deployed", std::slice::from_ref(&declared));
    api.put("clusterroles", role("get", &annotations("ops")));
    let exporter = start(&api).await;
    api.delete("clusterroles", "", "reader");
    settle().await;
    assert_eq!(verdict(&exporter, Source::Helm, "reader").await.as_deref(), Some("missing"));

    let text = STANDARD.encode(release("ops", 1, &declared.to_string()));
    let secret = stored("ops", 1, "deployed", b"");
    let copy = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": secret["metadata"], "data": {"release": text}});
    api.put("configmaps", copy);
    settle().await;
    let baselines = || exporter.snapshot().baselines.values().count();
    assert_eq!(baselines(), 2);
    api.delete("configmaps", "ops", "sh.helm.release.v1.web.v1");
    settle().await;
    assert_eq!(baselines(), 1);
    assert_eq!(verdict(&exporter, Source::Helm, "reader").await.as_deref(), Some("missing"));
}

/// An engine in which a state of `shop` and a state of `tenant` declare the same ConfigMap of `shop`.
fn two_states(own: Baseline, tenant: Baseline) -> EngineFixture {
    let own = Baseline { authority: Authority::Namespace("shop".into()), this_cluster: true, ..own };
    let tenant = Baseline { authority: Authority::Namespace("tenant".into()), this_cluster: true, ..tenant };
    EngineFixture::new(&[tenant, own], &[("web", "u-web", "live")])
}

fn declared_by(claim: &Claim) -> Vec<&str> {
    claim.declared_by().iter().map(|declared| &*declared.baseline).collect()
}

#[test]
fn untrusted_declaration_neither_replaces_nor_extends_a_trusted_one() {
    let declares = |name: &str, value: &str| state(name, 1, &[("web", "u-web", value)]);
    let recreated = state("a-tenant", 1, &[("web", "another", "live")]);
    for (own, tenant, expected) in [
        ("live", declares("a-tenant", "forged"), VerdictKind::InSync),
        ("declared", declares("a-tenant", "live"), VerdictKind::Drifted),
        ("live", recreated, VerdictKind::InSync),
    ] {
        let fixture = two_states(declares("own", own), tenant);
        fixture.assert_verdict("web", expected);
        let claims = fixture.claims("web");
        assert_eq!((claims.len(), declared_by(&claims[0])), (1, vec!["own"]));
    }
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn objects_that_two_baselines_declare_are_logged_only_in_part() {
    let names: Vec<String> = (0..300).map(|at| format!("map{at}")).collect();
    let maps: Vec<_> = names.iter().map(|name| (&**name, "u", "a")).collect();
    let [first, second] = ["a", "b"].map(|name| Baseline { this_cluster: true, ..state(name, 1, &maps) });
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
    tracing::subscriber::with_default(subscriber, || EngineFixture::new(&[first, second], &[]));
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("Two baselines")).collect();
    assert_eq!(lines.len(), 11, "{text}");
    assert!(lines[10].contains("290"), "{}", lines[10]);
}

#[test]
fn untrusted_marks_and_keys_do_not_redact_the_findings_of_others() {
    let tenant = sensitive_state("a-tenant", 1, &[("web", "u-web", "guess")], &key(9));
    let fixture = two_states(state("own", 1, &[("web", "u-web", "declared")]), tenant);
    let claims = fixture.claims("web");
    let finding = &claims[0].verdict.episode().unwrap().differences[0].finding;
    assert_eq!((&*finding.expected.text(), &*finding.actual.text()), ("declared", "live"));
}

#[test]
fn untrusted_declaration_of_a_redacted_value_lists_nothing() {
    for guess in ["live", "wrong"] {
        let mut fixture = EngineFixture::new(&[], &[]);
        fixture.redaction.add_fields(&ObjectRef::new("", "v1", "ConfigMap", "shop", "web"), ["data".into()]);
        fixture.list(&[("web", "u-web", "live")]);
        let tenant = sensitive_state("tenant", 1, &[("web", "u-web", guess)], &key(1));
        let authority = Authority::Namespace("tenant".into());
        fixture.set_baseline(Baseline { authority, this_cluster: true, ..tenant });
        let claims = fixture.claims("web");
        let untrusted = claims.iter().find(|claim| claim.source == Source::Terraform).unwrap();
        assert_eq!(untrusted.verdict.kind(), VerdictKind::Untrusted);
        assert!(untrusted.verdict.untrusted_differences().is_empty(), "{guess}");
    }
}

fn rules(config: &str, teams: Vec<TeamRules>) -> RuleSet {
    let rules = serde_saphyr::from_str(config).unwrap();
    RuleSet::compile(&RuleConfig { rules, teams, ..RuleConfig::default() }).unwrap()
}

/// A Deployment that Helm declares with two replicas, scaled to none: an outage.
fn scaled_to_zero(annotations: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"namespace": "victim", "name": "web", "uid": "u-web", "annotations": annotations},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}}}})
}

#[tokio::test(start_paused = true)]
async fn rules_and_annotations_of_tenants_and_expired_ones_hide_no_critical_drift() {
    let api = api_server();
    let muted = json!({"tfdrift.jin.dev/ignore": "spec.replicas,**"});
    let mut declared = scaled_to_zero(&json!({}));
    declared["spec"]["replicas"] = json!(2);
    put_release(&api, "victim", 1, "deployed", &[declared.clone()]);
    tenant_release(&api, &[scaled_to_zero(&json!({}))]);
    api.put("deployments", scaled_to_zero(&muted));
    let exporter = ExporterFixture::start_with(&api, Settings { mute_by_annotation: true, ..settings() });
    settle().await;
    let everything: Vec<_> = serde_saphyr::from_str("[{name: all, effect: ignore}]").unwrap();
    let teams = ["tenant", "victim"]
        .map(|namespace| TeamRules { namespace: namespace.into(), rules: everything.clone() });
    let expired = "[{name: accepted, effect: ignore, owner: a, reason: b, expires: '2026-01-31'}]";
    for (name, set) in [
        ("the annotation alone", rules("[]", Vec::new())),
        ("rules of the tenant and of the victim's team", rules("[]", teams.into())),
        ("an expired acceptance", rules(expired, Vec::new())),
    ] {
        exporter.rules(set).await;
        let claim = claim(&exporter, Source::Helm, "web").await.unwrap();
        assert_eq!(
            (&claim["verdict"], &claim["severity"], &claim["state"]),
            (&json!("drifted"), &json!("critical"), &json!("victim/web")),
            "{name}"
        );
        let lines = series(&exporter, "victim").await;
        assert!(
            lines.contains("drift_resource_drifted{") && lines.contains(r#"severity="critical""#),
            "{name}: {lines}"
        );
    }
    // A rule in the settings hides it until the rule expires.
    let accepted = rules(
        "[{name: accepted, effect: ignore, owner: a, reason: b, expires: '2026-02-01T13:00:00Z'}]",
        Vec::new(),
    );
    exporter.rules(accepted).await;
    assert_eq!(verdict(&exporter, Source::Helm, "web").await.as_deref(), Some("ignored"));
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(verdict(&exporter, Source::Helm, "web").await.as_deref(), Some("drifted"));
}

/// `module::name` of each test that the threat model names, in `SECURITY.md`.
fn named_tests() -> Vec<(String, String)> {
    let text = include_str!("../../SECURITY.md");
    let names = text.split('`').skip(1).step_by(2).filter_map(|code| code.split_once("::"));
    names.map(|(module, name)| (module.to_owned(), name.to_owned())).collect()
}

#[test]
fn tests_of_the_threat_model_exist() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["src/engine", "src/sources", "tests/it", "tests/it/auth", "tests/cluster"];
    let named = named_tests();
    assert!(named.len() > 15, "{named:?}");
    for (module, name) in named {
        let is_defined = |folder: &&str| {
            let text = std::fs::read_to_string(root.join(folder).join(format!("{module}.rs")));
            text.is_ok_and(|text| text.contains(&format!("fn {name}(")))
        };
        assert!(folders.iter().any(is_defined), "{module}::{name}");
    }
}
