//! `GET /v1/gate`: whether a pipeline may continue.

use drift_exporter::config::Settings;
use serde_json::{Value, json};

use super::{
    costs::{applied, last_applied_exporter, spec},
    shop,
};
use crate::support::{
    api_server::{ApiServer, ServerFault},
    exporter_fixture::ExporterFixture,
};

async fn gate(exporter: &ExporterFixture, query: &str) -> (u16, Value) {
    let answer = exporter.get(&format!("/v1/gate?{query}")).await;
    (answer.status.as_u16(), answer.json())
}

#[tokio::test(start_paused = true)]
async fn drift_closes_the_gate_for_matching_queries() {
    let exporter = shop().await;
    let (status, closed) = gate(&exporter, "namespace=shop").await;
    assert_eq!(
        (status, &closed["open"], &closed["checked"], &closed["status"]),
        (409, &json!(false), &json!(3), &json!(409))
    );
    assert_eq!(closed["detail"], "1 thing is not as it should be");
    let reason = &closed["reasons"][0];
    assert_eq!(
        (&reason["name"], &reason["verdict"], &reason["severity"]),
        (&json!("cart"), &json!("drifted"), &json!("warning"))
    );
    assert!(reason["details"][0].as_str().unwrap().starts_with("Hash of spec mismatch"), "{reason}");
    for (query, status) in [
        ("", 409),
        ("namespace=*&kind=service", 200),
        ("namespace=shop&kind=deployment&name=web", 200),
        ("namespace=shop&name=cart&severity=critical", 200),
        ("namespace=shop&name=cart&severity=warning", 409),
        ("namespace=shop&name=cart&expectation=expected", 200),
        ("namespace=shop&name=cart&expectation=unexpected&source=annotation", 409),
    ] {
        assert_eq!(gate(&exporter, query).await.0, status, "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_objects_close_the_gate() {
    let exporter = shop().await;
    for query in ["namespace=shpo", "namespace=shop&name=wbe", "namespace=shop&source=terraform"] {
        let (status, closed) = gate(&exporter, query).await;
        assert_eq!((status, &closed["reasons"][0]["verdict"]), (409, &json!("unknown")), "{query}");
        assert_eq!(gate(&exporter, &format!("{query}&allowEmpty=true")).await.0, 200, "{query}");
    }
    exporter.api.set_fault("services", ServerFault::HttpError(403, None));
    exporter.api.close_watches();
    exporter
        .until("the watch is down", std::time::Duration::from_secs(120), |exporter| {
            exporter.snapshot().kinds.iter().any(|state| state.is_stale("shop", "web"))
        })
        .await;
    let (status, closed) = gate(&exporter, "namespace=shop&kind=service&name=web").await;
    assert_eq!(status, 409, "{closed}");
    assert!(
        closed["reasons"]
            .as_array()
            .unwrap()
            .iter()
            .all(|reason| reason["verdict"] == "unknown" && reason["reason"] == "stale"),
        "{closed}"
    );
    assert_eq!(
        gate(&exporter, "namespace=shop&kind=deployment&name=web").await.0,
        200,
        "other kinds are not affected"
    );
}

#[tokio::test(start_paused = true)]
async fn expectation_filter_lets_expected_drift_pass() {
    let api = ApiServer::default();
    api.put("deployments", applied("db", &spec(1, "postgres:15", "1"), &spec(1, "postgres:15.2", "1")));
    let exporter = last_applied_exporter(&api, Settings::default()).await;
    assert_eq!(gate(&exporter, "namespace=shop&kind=deployment").await.0, 409);
    assert_eq!(gate(&exporter, "namespace=shop&kind=deployment&expectation=unexpected").await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn gate_is_unavailable_until_synced() {
    let api = ApiServer::default();
    api.set_fault("deployments", ServerFault::Unresponsive);
    let exporter = ExporterFixture::start(&api);
    exporter.wait_idle().await;
    let answer = exporter.get("/v1/gate").await;
    assert_eq!(answer.status.as_u16(), 503, "{}", answer.text());
    assert_eq!(answer.headers["retry-after"], "5");
}
