//! The API server restarts, compacts, denies requests and stops responding.

use std::time::Instant;

use drift_exporter::types::Kind;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::{
    fixture::{DRIFTED, Shop, WEB},
    support::{
        http_client::sample,
        objects::{create_with_hash, delete, deployment, grant, read_only_rules},
        wait::eventually,
    },
};

const UP: &str = "drift_watch_stream_up";
const DEPLOYMENTS: &[(&str, &str)] = &[("kind", "Deployment")];

#[test]
fn relist_after_compaction_drops_deleted_objects() {
    let mut shop = Shop::start(&[]);
    let client = shop.cluster.client();
    shop.cluster.block_on(create_with_hash(&client, &Kind::deployment(), &deployment("shop", "victim")));
    let victim = [("kind", "Deployment"), ("name", "victim")];
    shop.exporter.wait_for(DRIFTED, &victim, Some(0.0));

    shop.change_during_outage(|shop| {
        shop.cluster.block_on(delete(&shop.deployments, "victim"));
        shop.edit("kubectl-edit", json!({"spec": {"replicas": 5}}));
    });

    let exporter = &shop.exporter;
    exporter.wait_for(DRIFTED, WEB, Some(1.0));
    assert_eq!(exporter.sample(DRIFTED, &victim), None, "{}", exporter.metrics());
    let gone = [("kind", "Deployment"), ("reason", "gone")];
    assert!(exporter.sample("drift_watch_restarts_total", &gone) >= Some(1.0), "{}", exporter.metrics());
    assert_eq!(
        exporter.sample("drift_detections_total", DEPLOYMENTS),
        Some(1.0),
        "the edit is detected once"
    );
}

#[test]
fn api_server_outage_makes_claims_unknown_and_keeps_last_values() {
    let mut shop = Shop::start(&[]);
    shop.edit("kubectl-edit", json!({"spec": {"replicas": 5}}));
    shop.exporter.wait_for(DRIFTED, WEB, Some(1.0));
    shop.cluster.kill_apiserver();
    let exporter = &shop.exporter;
    exporter.wait_for(UP, DEPLOYMENTS, Some(0.0));
    let stale = [("kind", "Deployment"), ("verdict", "unknown"), ("reason", "stale")];
    exporter.wait_for("drift_resources", &stale, Some(1.0));
    assert_eq!(exporter.sample(DRIFTED, WEB), Some(1.0), "the last value is kept");
    assert!(
        exporter.sample("drift_resource_drifted_timestamp_seconds", WEB).is_some(),
        "the last value is kept"
    );
    assert_eq!(exporter.get("/livez").unwrap().status, 200);
    let ready = exporter.get("/readyz").unwrap();
    assert_eq!(ready.status, 200, "{}", ready.text());
    assert!(ready.text().contains("now down (error)"), "{}", ready.text());
    let view = exporter.get("/v1/resources/deployment/shop/web").unwrap().json();
    assert_eq!(
        (&view["claims"][0]["verdict"], &view["claims"][0]["reason"]),
        (&json!("unknown"), &json!("stale"))
    );

    shop.cluster.start_apiserver();
    let exporter = &shop.exporter;
    exporter.wait_for(UP, DEPLOYMENTS, Some(1.0));
    shop.edit("kubectl-edit", json!({"spec": {"replicas": 2}}));
    exporter.wait_for(DRIFTED, WEB, Some(0.0));
}

#[test]
fn forbidden_kind_does_not_affect_others_and_recovers_when_granted() {
    let services = json!([{"apiGroups": [""], "resources": ["services"], "verbs": ["list", "watch"]}]);
    let shop = Shop::start_with_rules(services, &[]);
    let exporter = &shop.exporter;
    assert_eq!(exporter.sample(DRIFTED, &[("kind", "Service"), ("name", "web")]), Some(0.0));
    assert_eq!(exporter.sample(UP, &[("kind", "Service")]), Some(1.0));
    assert_eq!(exporter.sample(UP, DEPLOYMENTS), Some(0.0));
    assert_eq!(exporter.sample(DRIFTED, WEB), None);
    let ready = exporter.get("/readyz").unwrap().text();
    assert!(ready.contains("deployments.apps: not listed (forbidden)"), "{ready}");

    shop.cluster.block_on(grant(&shop.cluster.client(), "more", read_only_rules()));
    exporter.wait_for(DRIFTED, WEB, Some(0.0));
    assert_eq!(exporter.sample(UP, DEPLOYMENTS), Some(1.0));
}

#[test]
fn stalled_watch_is_restarted() {
    let shop = Shop::start(&[]);
    shop.cluster.apiserver().signal("STOP");
    let silent = Instant::now();
    shop.exporter.wait_for(UP, DEPLOYMENTS, Some(0.0));
    println!("the stalled watch is reported after {:?}", silent.elapsed());
    let stale = [("kind", "Deployment"), ("verdict", "unknown"), ("reason", "stale")];
    assert_eq!(shop.exporter.sample("drift_resources", &stale), Some(1.0));
    let restarts = [("kind", "Deployment"), ("reason", "stalled")];
    assert_eq!(shop.exporter.sample("drift_watch_restarts_total", &restarts), Some(1.0));
    shop.cluster.apiserver().signal("CONT");
    shop.exporter.wait_for(UP, DEPLOYMENTS, Some(1.0));
}

#[test]
fn watch_is_up_again_with_the_changes_of_an_outage() {
    let mut shop = Shop::start(&[]);
    for (replicas, drifted) in [(5, 1.0), (2, 0.0)] {
        shop.cluster.kill_apiserver();
        shop.exporter.wait_for(UP, DEPLOYMENTS, Some(0.0));
        // The edit comes before the exporter reconnects. A later edit is not a change of the outage.
        shop.exporter.running.signal("STOP");
        shop.cluster.start_apiserver();
        shop.edit("kubectl-edit", json!({"spec": {"replicas": replicas}}));
        shop.exporter.running.signal("CONT");
        let back = Instant::now();
        let page = eventually("the watch is up again", || {
            let page = shop.exporter.metrics();
            (sample(&page, UP, DEPLOYMENTS) == Some(1.0)).then_some(page)
        });
        println!("the watch is up again after {:?}", back.elapsed());
        assert_eq!(sample(&page, DRIFTED, WEB), Some(drifted), "{page}");
    }
}

#[test]
fn onset_of_kubectl_scale_is_observed_and_of_kubectl_edit_is_exact() {
    let shop = Shop::start(&[]);
    let params = PatchParams { field_manager: Some("kubectl".to_owned()), ..PatchParams::default() };
    let scale = Patch::Merge(json!({"spec": {"replicas": 5}}));
    shop.cluster.block_on(shop.deployments.patch_scale("web", &params, &scale)).unwrap();
    shop.exporter.wait_for(DRIFTED, WEB, Some(1.0));
    let source = || {
        let view = shop.exporter.get("/v1/resources/deployment/shop/web").unwrap().json();
        view["claims"][0]["onsetSource"].clone()
    };
    assert_eq!(source(), "observed");
    shop.edit("kubectl-edit", json!({"spec": {"replicas": 2}}));
    shop.exporter.wait_for(DRIFTED, WEB, Some(0.0));
    shop.edit("kubectl-edit", json!({"spec": {"replicas": 4}}));
    shop.exporter.wait_for(DRIFTED, WEB, Some(1.0));
    assert_eq!(source(), "field_manager");
}
