//! The lines of the history file, and the state that a restart restores from them.

use std::time::Duration;

use drift_exporter::{
    config::Settings,
    engine::{History, Transition},
    server::Auth,
};
use serde_json::{Value, json};

use crate::support::{
    api_server::{ApiServer, ServerFault},
    exporter_fixture::{BEGIN, ExporterFixture},
    live_objects::deployment,
};

/// Lines that versions before this one wrote.
const LINES: [&str; 5] = [
    r#"{"sequence":7,"time":"2026-01-01T00:00:00Z","group":"apps","version":"v1","kind":"Deployment","plural":"deployments","namespaced":true,"namespace":"shop","name":"web","uid":"u","source":"annotation","from":"in_sync","to":"drifted","reason":null,"episode":{"turn":"began","onset":"2025-12-31T23:59:59.5Z","severity":"warning","actor":"kubectl","manager":"kubectl-edit","field":"hash","paths":["spec","spec.\"a\""]}}"#,
    r#"{"sequence":8,"time":"2026-01-01T00:00:01.25Z","group":"","version":"v1","kind":"Node","plural":"nodes","namespaced":false,"namespace":"","name":"one","uid":"u","source":"terraform","from":"drifted","to":null,"reason":null,"episode":{"turn":"deleted","onset":"2025-12-31T23:59:59Z","severity":"critical","actor":"none","manager":null,"field":"existence","paths":[]}}"#,
    r#"{"sequence":9,"time":"2026-01-01T00:00:02Z","group":"apps","version":"v1","kind":"Deployment","plural":"deployments","namespaced":true,"namespace":"shop","name":"web","uid":"u","source":"annotation","from":"drifted","to":"unknown","reason":"bad_hash","episode":{"turn":"goes_on","onset":"2025-12-31T23:59:59Z","severity":"info","actor":"kubectl","manager":"kubectl","field":"other","paths":["spec"]}}"#,
    r#"{"sequence":10,"time":"2026-01-01T00:00:03Z","group":"apps","version":"v1","kind":"Deployment","plural":"deployments","namespaced":true,"namespace":"shop","name":"web","uid":"u","source":"annotation","from":null,"to":"in_sync","reason":null,"episode":null}"#,
    // The object does not exist.
    r#"{"sequence":11,"time":"2026-01-01T00:00:04Z","group":"apps","version":"v1","kind":"Deployment","plural":"deployments","namespaced":true,"namespace":"shop","name":"web","uid":"","source":"annotation","from":"in_sync","to":"missing","reason":null,"episode":null}"#,
];

#[test]
fn lines_of_the_history_file_are_read_and_written_byte_for_byte() {
    for line in LINES {
        let transition: Transition = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_string(&transition).unwrap(), line);
        assert_eq!(transition.uid.is_none(), line.contains(r#""uid":"""#));
    }
}

#[test]
fn lines_without_optional_fields_or_with_unknown_fields_are_read() {
    let line = LINES[3].replace(r#""from":null,"#, r#""later":{"a":[1]},"#);
    let line = line.replace(r#","reason":null,"episode":null"#, "");
    let transition: Transition = serde_json::from_str(&line).unwrap();
    assert_eq!(serde_json::to_string(&transition).unwrap(), LINES[3]);
}

#[test]
fn lines_with_unknown_words_are_invalid() {
    for (word, other) in [
        ("\"annotation\"", "\"magic\""),
        ("\"in_sync\"", "\"dubious\""),
        ("\"began\"", "\"ended\""),
        ("\"warning\"", "\"Warning\""),
        ("\"kubectl\"", "null"),
        ("\"hash\"", "\"\""),
    ] {
        let line = LINES[0].replacen(word, other, 1);
        assert_ne!(line, LINES[0]);
        assert!(serde_json::from_str::<Transition>(&line).is_err(), "{line}");
    }
}

/// A Deployment after `kubectl scale`: the API server records the manager and no time.
fn scaled() -> Value {
    let mut object = deployment("web");
    object["spec"]["replicas"] = json!(5);
    object["metadata"]["managedFields"] = json!([{"manager": "kubectl", "operation": "Update", "subresource": "scale",
        "fieldsV1": {"f:spec": {"f:replicas": {}}}}]);
    object
}

/// Onset and its source.
async fn onset(exporter: &ExporterFixture) -> (f64, Value) {
    let onset = exporter.sample("drift_resource_drifted_timestamp_seconds{group=\"apps\"").await.unwrap();
    let claim = exporter.get("/v1/resources/deployment/shop/web").await.json()["claims"][0].clone();
    assert_eq!(claim["onsetSource"], claim["differences"][0]["onsetSource"]);
    (onset, claim["onsetSource"].clone())
}

#[tokio::test(start_paused = true)]
async fn onset_that_no_object_records_survives_restarts_in_the_history() {
    // Scaled before the exporter starts, and while it runs.
    for is_running in [false, true] {
        let api = ApiServer::default();
        api.put("deployments", if is_running { deployment("web") } else { scaled() });
        let start = |history: History| {
            ExporterFixture::start_with_history(
                &api,
                api.client(),
                Settings::default(),
                Auth::default(),
                history,
            )
        };
        let exporter = start(History::restore([]));
        tokio::time::sleep(Duration::from_secs(10)).await;
        api.put("deployments", scaled());
        exporter.wait_idle().await;
        let (first, source) = onset(&exporter).await;
        assert!((0.0..20.0).contains(&(first - BEGIN as f64)), "{first}");
        assert_eq!(source, "observed");

        let mut lines: Vec<String> = Vec::new();
        let mut running = exporter;
        for _ in 0..2 {
            lines.extend(
                running
                    .snapshot()
                    .history
                    .after(lines.len() as u64)
                    .map(|transition| serde_json::to_string(&**transition).unwrap()),
            );
            drop(running);
            api.set_fault("deployments", ServerFault::Unresponsive);
            running = start(History::restore(lines.iter().map(|line| serde_json::from_str(line).unwrap())));
            tokio::time::sleep(Duration::from_secs(300)).await;
            api.set_fault("deployments", ServerFault::None);
            running
                .until("the object is listed", Duration::from_secs(60), |exporter| {
                    !exporter.cached_versions("deployments").is_empty()
                })
                .await;
            running.wait_idle().await;
            assert_eq!(onset(&running).await, (first, json!("history")));
        }
        // An episode that ended does not return.
        api.put("deployments", deployment("web"));
        running.wait_idle().await;
        api.put("deployments", scaled());
        running.wait_idle().await;
        let (second, source) = onset(&running).await;
        assert!(second > first, "{second}");
        assert_eq!(source, "observed");
    }
}
