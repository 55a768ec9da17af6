//! The `status_hash` source: custom resources and hashes in their status, and Jobs that run Terraform.

use std::time::Duration;

use drift_exporter::{
    config::{Overrides, Settings, load},
    types::{Kind, Source},
};
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::{
    api_server::ApiServer,
    exporter_fixture::{BEGIN, ExporterFixture},
};

const SIMPLE: &str = "simpleresources";
const DRIFTED: &str = "drift_resource_drifted{group=\"infra.opr8r\"";
const TIME_LIMIT: Duration = Duration::from_secs(7);

fn simple() -> Kind {
    Kind { plural: SIMPLE.into(), ..Kind::undiscovered("infra.opr8r", "v1alpha1", "SimpleResource") }
}

pub(crate) fn job_kind() -> Kind {
    Kind { plural: "jobs".into(), ..Kind::undiscovered("batch", "v1", "Job") }
}

/// The time this many seconds after the start of the test.
fn at(second: i64) -> String {
    Timestamp::from_second(BEGIN + second).unwrap().to_string()
}

/// A second implementation of opr8r's hash.
fn hash(length: u64, prefix: &str, vars: &[(&str, &str)]) -> String {
    let mut vars = vars.to_vec();
    vars.sort_unstable();
    let mut hasher = Sha256::new();
    hasher.update(format!("{length}:{prefix}"));
    vars.iter().for_each(|(key, value)| hasher.update(format!("{key}={value}")));
    let bytes: [u8; 32] = hasher.finalize().into();
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)]))
        .collect()
}

/// A `SimpleResource` with this length. kubectl wrote its spec and the operator its status at these seconds.
fn resource(length: u64, status: &Value, spec_written: i64, status_written: i64) -> Value {
    let keys =
        status.as_object().map(|status| status.keys().map(|key| (format!("f:{key}"), json!({}))).collect());
    let status_entry = json!({"manager": "manager", "subresource": "status", "time": at(status_written),
        "fieldsV1": {"f:status": Value::Object(keys.unwrap_or_default())}});
    json!({
        "metadata": {"namespace": "shop", "name": "db", "uid": "uid-db", "generation": length, "managedFields": [
            {"manager": "kubectl-edit", "time": at(spec_written), "fieldsV1": {"f:spec": {"f:length": {}}}}, status_entry]},
        "spec": {"length": length, "prefix": "p", "vars": {"b": "2", "a": "1"}},
        "status": status,
    })
}

/// The status that the operator writes after an apply.
fn applied(length: u64, phase: &str) -> Value {
    let hash = hash(length, "p", &[("a", "1"), ("b", "2")]);
    json!({"phase": phase, "lastAppliedHash": hash, "message": "m", "outputs": {"password": "hunter2", "id": "7"}})
}

pub(crate) fn job(name: &str, subject: &str, started: i64, ended: Option<(bool, i64)>) -> Value {
    let condition = ended.map(|(succeeded, second)| {
        json!({"type": if succeeded { "Complete" } else { "Failed" }, "status": "True", "lastTransitionTime": at(second),
            "reason": if succeeded { "" } else { "BackoffLimitExceeded" },
            "message": if succeeded { "" } else { "Job has reached the specified backoff limit" }})
    });
    json!({"metadata": {"namespace": "shop", "name": name, "uid": format!("uid-{name}"),
            "labels": {"infra.opr8r/simpleresource": subject}},
        "spec": {}, "status": {"startTime": at(started), "conditions": condition.into_iter().collect::<Vec<_>>()}})
}

fn server() -> ApiServer {
    let api = ApiServer::default();
    api.serve(&[simple(), job_kind()]);
    api
}

fn settings(text: &str) -> Settings {
    load(text, &Overrides::default(), Timestamp::UNIX_EPOCH)
        .unwrap_or_else(|problems| panic!("{problems:?}"))
        .settings
}

async fn start_exporter(api: &ApiServer) -> ExporterFixture {
    ExporterFixture::ready_with(api, Settings { sources: vec![Source::StatusHash], ..Settings::default() })
        .await
}

/// The only claim on the resource.
async fn claim(exporter: &ExporterFixture) -> Value {
    let object = exporter.get("/v1/resources/simpleresource.infra.opr8r/shop/db").await.json();
    assert_eq!(object["claims"].as_array().map(Vec::len), Some(1), "{object}");
    object["claims"][0].clone()
}

/// Asserts verdict and reason of a claim.
#[track_caller]
fn check(claim: &Value, verdict: &str, reason: &str) {
    let reason = if reason.is_empty() { Value::Null } else { json!(reason) };
    assert_eq!((&claim["verdict"], &claim["reason"]), (&json!(verdict), &reason), "{claim}");
}

#[tokio::test(start_paused = true)]
async fn edit_is_drift_until_applied_or_reverted() {
    let api = server();
    api.put(SIMPLE, resource(16, &applied(16, "Ready"), -500, -400));
    let exporter = start_exporter(&api).await;
    check(&claim(&exporter).await, "in_sync", "");
    assert_eq!(exporter.sample(DRIFTED).await, Some(0.0));

    api.put(SIMPLE, resource(17, &applied(16, "Ready"), -3, -400));
    exporter.wait_idle().await;
    let drifted = claim(&exporter).await;
    check(&drifted, "drifted", "");
    assert_eq!(
        (&drifted["source"], &drifted["actor"], &drifted["manager"]),
        (&json!("status_hash"), &json!("kubectl"), &json!("kubectl-edit"))
    );
    let difference = &drifted["differences"][0];
    assert_eq!((&difference["path"], &difference["field"]), (&json!("spec"), &json!("hash")));
    let vars = [("a", "1"), ("b", "2")];
    assert_eq!(
        (&difference["expected"], &difference["actual"]),
        (&json!(hash(16, "p", &vars)), &json!(hash(17, "p", &vars)))
    );
    assert_eq!(drifted["desiredSpec"], json!({"hash": hash(16, "p", &vars)}));
    assert_eq!(drifted["onset"], at(-3));

    // The operator applies the change. Its status writes do not change the responsible manager.
    api.put(SIMPLE, resource(17, &applied(16, "Applying"), -3, -2));
    exporter.wait_idle().await;
    let in_flight = claim(&exporter).await;
    check(&in_flight, "in_flight", "");
    assert_eq!((&in_flight["actor"], &in_flight["driftDetected"]), (&json!("kubectl"), &json!(true)));
    api.put(SIMPLE, resource(17, &applied(17, "Ready"), -3, -1));
    exporter.wait_idle().await;
    check(&claim(&exporter).await, "in_sync", "");

    api.put(SIMPLE, resource(18, &applied(17, "Ready"), 0, -1));
    exporter.wait_idle().await;
    api.put(SIMPLE, resource(17, &applied(17, "Ready"), 0, -1));
    exporter.wait_idle().await;
    check(&claim(&exporter).await, "in_sync", "");
    let history = exporter.get("/v1/history").await.json();
    let causes: Vec<&str> = history["transitions"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|transition| transition["cause"].as_str())
        .collect();
    assert_eq!(causes, ["reverted", "absorbed"]);
}

#[tokio::test(start_paused = true)]
async fn phase_message_and_output_names_are_exposed_without_values() {
    let api = server();
    let mut failed = applied(16, "Error");
    failed["message"] = json!("Terraform apply failed: job x failed");
    api.put(SIMPLE, resource(16, &failed, -500, -400));
    let exporter = start_exporter(&api).await;
    let reported = claim(&exporter).await;
    check(&reported, "unknown", "phase_error");
    assert_eq!((&reported["phase"], &reported["healthStatus"]), (&json!("Error"), &json!("Unhealthy")));
    assert_eq!(reported["message"], "Terraform apply failed: job x failed");
    assert_eq!(reported["outputs"], json!(["id", "password"]));
    let page = exporter.get("/objects/simpleresource/shop/db").await.text();
    assert!(
        page.contains("could not apply it") && page.contains("Terraform apply failed: job x failed"),
        "{page}"
    );
    assert!(page.contains("id, password"), "{page}");
    for path in
        ["/v1/resources?namespace=*", "/metrics", "/objects/simpleresource/shop/db", "/v1/history", "/"]
    {
        assert!(!exporter.get(path).await.text().contains("hunter2"), "{path}");
    }
    let unknown = "drift_resources{group=\"infra.opr8r\",kind=\"SimpleResource\",namespace=\"shop\",source=\"status_hash\",verdict=\"unknown\",reason=\"phase_error\"}";
    assert_eq!(exporter.sample(unknown).await, Some(1.0));
}

#[tokio::test(start_paused = true)]
async fn invalid_status_is_unknown_with_a_reason() {
    let api = server();
    let mut odd = applied(16, "Ready");
    odd["lastAppliedHash"] = json!("x".repeat(1 << 20));
    for (status, reason) in [
        (Value::Null, "no_status"),
        (json!("text"), "no_status"),
        (json!({"phase": "Ready"}), "no_status"),
        (json!({"lastAppliedHash": 7}), "bad_hash"),
        (json!({"lastAppliedHash": {"a": "b"}}), "bad_hash"),
        (odd, "bad_hash"),
    ] {
        api.put(SIMPLE, resource(16, &status, -500, -400));
        let exporter = start_exporter(&api).await;
        let reported = claim(&exporter).await;
        check(&reported, "unknown", reason);
        assert_eq!(exporter.sample(DRIFTED).await, None);
        assert!(reported.to_string().len() < 4096);
    }
    let mut vars = resource(16, &applied(16, "Ready"), -500, -400);
    vars["spec"]["vars"] = json!({"a": 1});
    api.put(SIMPLE, vars);
    check(&claim(&start_exporter(&api).await).await, "unknown", "unreadable");
}

#[tokio::test(start_paused = true)]
async fn long_apply_becomes_drift_regardless_of_restarts() {
    let api = server();
    api.put(SIMPLE, resource(17, &applied(16, "Applying"), -200, -100));
    for _ in 0..2 {
        let exporter = start_exporter(&api).await;
        check(&claim(&exporter).await, "in_flight", "");
        assert_eq!(exporter.sample(DRIFTED).await, None);
        // The operator writes its status again; the phase stays.
        api.put(SIMPLE, resource(17, &applied(16, "Applying"), -200, -90));
        tokio::time::sleep(Duration::from_secs(198)).await;
        check(&claim(&exporter).await, "in_flight", "");
        tokio::time::sleep(Duration::from_secs(4)).await;
        check(&claim(&exporter).await, "drifted", "");
        assert_eq!(claim(&exporter).await["onset"], at(-200));
        api.put(SIMPLE, resource(17, &applied(16, "Applying"), -200, -100));
    }
    api.put(SIMPLE, resource(16, &applied(16, "Applying"), -5000, -4000));
    check(&claim(&start_exporter(&api).await).await, "in_sync", "");
}

#[tokio::test(start_paused = true)]
async fn unobserved_generation_is_drift_after_the_grace_period() {
    let text = "sources:\n  status_hash:\n  - {apiVersion: infra.opr8r/*, kind: SimpleResource, algorithm: generation, grace: 2m}\n";
    let api = server();
    api.put(SIMPLE, resource(16, &json!({"observedGeneration": 16}), -500, -400));
    let exporter = ExporterFixture::ready_with(&api, settings(text)).await;
    check(&claim(&exporter).await, "in_sync", "");
    assert!(
        exporter.snapshot().watches().all(|stream| &*stream.spec.kind.kind != "Job"),
        "Jobs are not configured"
    );
    let now = exporter.exposed.clock.now().as_second() - BEGIN;
    api.put(SIMPLE, resource(17, &json!({"observedGeneration": 16}), now, -400));
    exporter.wait_idle().await;
    check(&claim(&exporter).await, "in_flight", "");
    tokio::time::sleep(Duration::from_secs(117)).await;
    check(&claim(&exporter).await, "in_flight", "");
    assert_eq!(exporter.sample("drift_detections_total{group=\"infra.opr8r\"").await, Some(0.0));
    tokio::time::sleep(Duration::from_secs(4)).await;
    let behind = claim(&exporter).await;
    check(&behind, "drifted", "");
    assert_eq!(
        (&behind["differences"][0]["expected"], &behind["differences"][0]["actual"]),
        (&json!("generation 16"), &json!("generation 17"))
    );
    assert_eq!((&behind["actor"], &behind["onset"]), (&json!("kubectl"), &json!(at(now))));
    assert_eq!(exporter.sample("drift_detections_total{group=\"infra.opr8r\"").await, Some(1.0));
    api.put(SIMPLE, resource(17, &json!({"observedGeneration": 17}), now, now + 130));
    exporter.wait_idle().await;
    check(&claim(&exporter).await, "in_sync", "");
    let absorbed = "drift_resolutions_total{group=\"infra.opr8r\",kind=\"SimpleResource\",namespace=\"shop\",source=\"status_hash\",cause=\"absorbed\"}";
    assert_eq!(exporter.sample(absorbed).await, Some(1.0));
    // A generation that lagged before the start has no grace period.
    api.put(SIMPLE, resource(18, &json!({"observedGeneration": 17}), -900, -1000));
    let text = settings(text);
    check(&claim(&ExporterFixture::ready_with(&api, text).await).await, "drifted", "");
}

#[tokio::test(start_paused = true)]
async fn annotation_and_status_hash_are_separate_claims() {
    let api = server();
    let mut both = resource(17, &applied(16, "Ready"), -300, -400);
    both["metadata"]["annotations"] = json!({"tfdrift.jin.dev/spec-hash": "nonsense"});
    api.put(SIMPLE, both);
    let exporter =
        ExporterFixture::ready_with(&api, settings("sources: {annotation: {}, status_hash: []}\n")).await;
    let object = exporter.get("/v1/resources/simpleresource/shop/db").await.json();
    let claims: Vec<(&str, &str)> = object["claims"]
        .as_array()
        .unwrap()
        .iter()
        .map(|claim| (claim["source"].as_str().unwrap(), claim["verdict"].as_str().unwrap()))
        .collect();
    assert_eq!(claims, [("annotation", "unknown"), ("status_hash", "drifted")]);
}

#[tokio::test(start_paused = true)]
async fn settings_changes_take_effect_at_runtime() {
    let api = server();
    api.put(SIMPLE, resource(17, &applied(16, "Ready"), -300, -400));
    let both = "kinds: [{apiVersion: infra.opr8r/v1alpha1, kind: SimpleResource}]\n";
    let exporter = ExporterFixture::ready_with(&api, settings(both)).await;
    check(&claim(&exporter).await, "no_baseline", "");
    exporter.settings.replace(settings(&format!("{both}sources: {{status_hash: []}}\n")));
    tokio::time::sleep(TIME_LIMIT).await;
    check(&claim(&exporter).await, "drifted", "");
    assert_eq!(claim(&exporter).await["source"], "status_hash");
    let zero = "drift_actor_detections_total{source=\"status_hash\",actor=\"console\",severity=\"info\"}";
    assert_eq!(exporter.sample(zero).await, Some(0.0));
    let other = "sources: {status_hash: [{apiVersion: infra.opr8r/v1alpha1, kind: SimpleResource, algorithm: generation}]}\n";
    exporter.settings.replace(settings(&format!("{both}{other}")));
    tokio::time::sleep(TIME_LIMIT).await;
    check(&claim(&exporter).await, "unknown", "no_status");
    exporter.settings.replace(settings(both));
    tokio::time::sleep(TIME_LIMIT).await;
    check(&claim(&exporter).await, "no_baseline", "");
}

#[tokio::test(start_paused = true)]
async fn job_series_are_labelled_by_resource() {
    let api = server();
    api.put(SIMPLE, resource(16, &applied(16, "Ready"), -500, -400));
    api.put("jobs", job("apply-1", "db", -300, Some((false, -290))));
    let mut other = job("other", "db", -1, Some((true, 0)));
    other["metadata"]["labels"] = json!({});
    api.put("jobs", other);
    let exporter = start_exporter(&api).await;
    let labels = "{namespace=\"shop\",name=\"db\"}";
    let sample = async |name: &str| exporter.sample(&format!("drift_terraform_job_{name}{labels}")).await;
    assert_eq!((sample("last_result").await, sample("duration_seconds").await), (Some(0.0), Some(10.0)));
    assert_eq!(sample("start_timestamp_seconds").await, Some((BEGIN - 300) as f64));
    let reported = claim(&exporter).await["job"].clone();
    assert_eq!(
        reported,
        json!({"name": "apply-1", "result": "failed", "reason": "BackoffLimitExceeded",
        "message": "Job has reached the specified backoff limit", "started": at(-300), "ended": at(-290), "durationSeconds": 10})
    );
    let job_object = exporter.get("/v1/resources/job.batch/shop/apply-1").await.json();
    assert_eq!(
        (&job_object["claims"][0]["job"], &job_object["claims"][0]["source"]),
        (&reported, &json!("none"))
    );
    let page = exporter.get("/objects/simpleresource/shop/db").await.text();
    assert!(
        page.contains("BackoffLimitExceeded") && page.contains("/objects/jobs.batch/shop/apply-1"),
        "{page}"
    );

    // While a new Job runs, the last result is that of the previous Job.
    api.put("jobs", job("apply-2", "db", -20, None));
    exporter.wait_idle().await;
    assert_eq!((sample("last_result").await, sample("duration_seconds").await), (Some(0.0), None));
    assert_eq!(sample("start_timestamp_seconds").await, Some((BEGIN - 20) as f64));
    assert_eq!(claim(&exporter).await["job"]["result"], "running");
    api.put("jobs", job("apply-2", "db", -20, Some((true, -5))));
    exporter.wait_idle().await;
    assert_eq!((sample("last_result").await, sample("duration_seconds").await), (Some(1.0), Some(15.0)));
    // The old Job is deleted, then the new one.
    api.delete("jobs", "shop", "apply-1");
    exporter.wait_idle().await;
    assert_eq!(sample("last_result").await, Some(1.0));
    let lines =
        exporter.metrics().await.lines().filter(|line| line.starts_with("drift_terraform_job_")).count();
    assert_eq!(lines, 3, "one series of each metric for the resource, and none for other Jobs");
    api.delete("jobs", "shop", "apply-2");
    exporter.wait_idle().await;
    assert_eq!(sample("last_result").await, None);
    assert_eq!(claim(&exporter).await["job"], Value::Null);
}
