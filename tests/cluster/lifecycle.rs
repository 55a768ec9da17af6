//! Objects are labelled, annotated, edited, reverted, deleted and recreated.

use std::time::Duration;

use drift_exporter::types::Kind;
use k8s_openapi::api::events::v1::Event;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    fixture::{DRIFTED, Shop, WEB},
    support::{
        cluster::User,
        exporter::Exporter,
        http_client,
        objects::{HASH, LABEL, create_with_hash, delete, deployment, hash_of, patch, read_only_rules},
        process::free_port,
        wait::eventually,
    },
};

const ONSET: &str = "drift_resource_drifted_timestamp_seconds";

fn resources(verdict: &'static str, reason: &'static str) -> [(&'static str, &'static str); 3] {
    [("kind", "Deployment"), ("verdict", verdict), ("reason", reason)]
}

#[test]
fn edit_is_drift_until_reverted() {
    let shop = Shop::start(&[]);
    let exporter = &shop.exporter;
    assert_eq!(exporter.sample(DRIFTED, WEB), Some(0.0));

    shop.edit("kubectl-edit", json!({"spec": {"replicas": 5}}));
    exporter.wait_for(DRIFTED, WEB, Some(1.0));
    let attributed = [("name", "web"), ("actor", "kubectl"), ("field", "hash"), ("severity", "warning")];
    assert!(exporter.sample(ONSET, &attributed).is_some(), "{}", exporter.metrics());
    assert_eq!(exporter.sample("drift_resource_drifted_fields", WEB), Some(1.0));
    assert_eq!(exporter.sample("drift_detections_total", &[("kind", "Deployment")]), Some(1.0));
    let kubectl = [("actor", "kubectl"), ("severity", "warning")];
    assert_eq!(exporter.sample("drift_actor_detections_total", &kubectl), Some(1.0));

    shop.edit("kubectl-edit", json!({"spec": {"replicas": 2}}));
    exporter.wait_for(DRIFTED, WEB, Some(0.0));
    assert_eq!(exporter.sample(ONSET, WEB), None);
    assert_eq!(exporter.sample("drift_resource_drifted_fields", WEB), None);
    assert_eq!(exporter.sample("drift_resource_episodes_total", WEB), Some(1.0));
    let reverted = [("kind", "Deployment"), ("cause", "reverted")];
    assert_eq!(exporter.sample("drift_resolutions_total", &reverted), Some(1.0));
    let history = exporter.get("/v1/history").unwrap().json();
    let moves: Vec<_> =
        history["transitions"].as_array().unwrap().iter().map(|t| (&t["from"], &t["to"])).collect();
    assert_eq!(moves, [(&json!("drifted"), &json!("in_sync")), (&json!("in_sync"), &json!("drifted"))]);
}

#[test]
fn health_address_serves_probes_only() {
    let port = free_port();
    let shop = Shop::start(&["--web.health-address", &format!("127.0.0.1:{port}")]);
    let get = |path: &str| http_client::get(port, path, &[]).expect("the health listener answers");
    assert_eq!((get("/livez").status, get("/livez").text()), (200, "ok\n".to_owned()));
    assert_eq!((get("/readyz").status, get("/readyz").text()), (200, "ready\n".to_owned()));
    for path in ["/metrics", "/", "/v1/status", "/healthz"] {
        assert_eq!(get(path).status, 404, "{path}");
    }
    assert_eq!(shop.exporter.get("/livez").map(|page| page.status), Some(200), "the other port still does");
}

#[test]
fn label_and_annotation_changes_update_the_verdict() {
    let shop = Shop::start(&[]);
    let (exporter, annotate) = (&shop.exporter, |value: Value| {
        shop.edit("kubectl-annotate", json!({"metadata": {"annotations": {HASH: value}}}))
    });
    let label = |value: Value| shop.edit("kubectl-label", json!({"metadata": {"labels": {LABEL: value}}}));

    // An unlabelled object is not watched. A labelled object without a hash has no baseline.
    label(Value::Null);
    exporter.wait_for(DRIFTED, WEB, None);
    assert_eq!(exporter.sample("drift_cache_objects", &[("kind", "Deployment")]), Some(0.0));
    label(json!("true"));
    exporter.wait_for(DRIFTED, WEB, Some(0.0));
    annotate(Value::Null);
    exporter.wait_for(DRIFTED, WEB, None);
    assert_eq!(exporter.sample("drift_resources", &resources("no_baseline", "")), Some(1.0));

    // A different hash is drift. An invalid hash is unknown and keeps the last value.
    annotate(json!("a".repeat(64)));
    exporter.wait_for(DRIFTED, WEB, Some(1.0));
    annotate(json!("not a hash"));
    exporter.wait_for("drift_resources", &resources("unknown", "bad_hash"), Some(1.0));
    assert_eq!(exporter.sample(DRIFTED, WEB), Some(1.0));
    annotate(json!(format!("md5:{}", "a".repeat(32))));
    exporter.wait_for("drift_resources", &resources("unknown", "unknown_algorithm"), Some(1.0));
    annotate(json!("x".repeat(200 << 10)));
    exporter.wait_for("drift_resources", &resources("unknown", "bad_hash"), Some(1.0));
    let bad = [("reason", "bad_hash"), ("source", "annotation")];
    assert_eq!(exporter.sample("drift_baseline_errors_total", &bad), Some(2.0));

    // The correct hash ends the drift. The object did not change, so the cause is `absorbed`.
    let live = shop.cluster.block_on(shop.deployments.get("web")).unwrap();
    annotate(json!(hash_of(&Kind::deployment(), &live)));
    exporter.wait_for(DRIFTED, WEB, Some(0.0));
    assert_eq!(exporter.sample("drift_resources", &resources("in_sync", "")), Some(1.0));
    let absorbed = [("kind", "Deployment"), ("cause", "absorbed")];
    assert_eq!(exporter.sample("drift_resolutions_total", &absorbed), Some(1.0));
}

#[test]
fn deleted_object_drops_its_series_and_recreated_object_starts_over() {
    let shop = Shop::start(&[]);
    let exporter = &shop.exporter;
    shop.edit("kubectl-edit", json!({"spec": {"replicas": 5}}));
    exporter.wait_for(DRIFTED, WEB, Some(1.0));
    shop.cluster.block_on(delete(&shop.deployments, "web"));
    exporter.wait_for(DRIFTED, WEB, None);
    for gone in [ONSET, "drift_resource_drifted_fields", "drift_resource_episodes_total"] {
        assert_eq!(exporter.sample(gone, WEB), None, "{gone}");
    }
    let deleted = [("kind", "Deployment"), ("cause", "deleted")];
    assert_eq!(exporter.sample("drift_resolutions_total", &deleted), Some(1.0));

    shop.cluster.block_on(create_with_hash(
        &shop.cluster.client(),
        &Kind::deployment(),
        &deployment("shop", "web"),
    ));
    exporter.wait_for(DRIFTED, WEB, Some(0.0));
    assert_eq!(exporter.sample("drift_resource_episodes_total", WEB), None);
}

/// For zero replicas, the API server keeps neither a field manager nor a time in managedFields.
#[test]
fn scale_to_zero_has_an_unknown_actor() {
    let mut shop = Shop::start(&[]);
    std::thread::sleep(Duration::from_secs(3));
    let started = jiff::Timestamp::now().as_second() as f64;
    let (how, none) = (PatchParams::default(), Patch::Merge(json!({"spec": {"replicas": 0}})));
    shop.cluster.block_on(shop.deployments.patch_scale("web", &how, &none)).expect("it can be scaled");
    shop.exporter.wait_for(DRIFTED, WEB, Some(1.0));
    let unknown = [("name", "web"), ("actor", "none"), ("field", "hash")];
    let onset = shop.exporter.sample(ONSET, &unknown);
    assert!(onset.is_some_and(|onset| onset >= started), "{onset:?} is not after {started}");

    shop.exporter.running.signal("TERM");
    assert_eq!(shop.exporter.running.wait(), Some(0));
    let kubeconfig = shop.cluster.kubeconfig(User::Exporter);
    let restarted = Exporter::start(&kubeconfig, shop.cluster.folder(), &[]).ready();
    let onset = restarted.sample(ONSET, &unknown);
    assert!(onset.is_some_and(|onset| onset >= started), "{onset:?} is not after {started}");
}

#[test]
fn onset_survives_a_restart_without_storage() {
    let mut shop = Shop::start(&[]);
    shop.edit("kubectl-edit", json!({"spec": {"replicas": 5}}));
    shop.exporter.wait_for(DRIFTED, WEB, Some(1.0));
    let before = shop.exporter.sample(ONSET, WEB).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    shop.exporter.running.signal("TERM");
    assert_eq!(shop.exporter.running.wait(), Some(0));

    let kubeconfig = shop.cluster.kubeconfig(User::Exporter);
    let restarted = Exporter::start(&kubeconfig, shop.cluster.folder(), &[]).ready();
    assert_eq!(restarted.sample(ONSET, WEB), Some(before));
    assert_eq!(
        restarted.sample("drift_detections_total", &[("kind", "Deployment")]),
        Some(0.0),
        "drift at the start is not counted"
    );
    let written: Vec<_> = shop
        .cluster
        .requests_by(User::Exporter)
        .into_iter()
        .filter(|(verb, _)| !["get", "list", "watch"].contains(&verb.as_str()))
        .collect();
    assert!(written.is_empty(), "{written:?}");
    assert!(shop.cluster.requests_by(User::Exporter).iter().any(|(verb, _)| verb == "watch"));
}

#[test]
fn history_file_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("history.jsonl");
    let flags = ["--history.file", file.to_str().unwrap(), "--log.format", "json"];
    let mut shop = Shop::start(&flags);
    shop.edit("kubectl-edit", json!({"spec": {"replicas": 5}}));
    shop.exporter.wait_for(DRIFTED, WEB, Some(1.0));
    let before = shop.exporter.get("/v1/history").unwrap().json();
    assert_eq!(before["transitions"][0]["to"], "drifted");
    shop.exporter.running.signal("TERM");
    assert_eq!(shop.exporter.running.wait(), Some(0));

    let written = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{written}this line is not ours\n")).unwrap();
    let kubeconfig = shop.cluster.kubeconfig(User::Exporter);
    let restarted = Exporter::start(&kubeconfig, shop.cluster.folder(), &flags).ready();
    assert_eq!(restarted.get("/v1/history").unwrap().json(), before);
    shop.edit("kubectl-edit", json!({"spec": {"replicas": 2}}));
    restarted.wait_for(DRIFTED, WEB, Some(0.0));
    assert_eq!(restarted.get("/v1/history").unwrap().json()["last"], 2);
    for line in restarted.logged().lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(line["message"].is_string() && line["level"].is_string(), "{line}");
    }
    assert!(restarted.logged().contains("Dropped incomplete lines of the history file"));
}

#[test]
fn events_are_opt_in_and_written_once_per_episode() {
    let mut rules = read_only_rules();
    rules
        .as_array_mut()
        .unwrap()
        .push(json!({"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]}));
    let shop = Shop::start_with_rules(rules, &["--events"]);
    shop.edit("kubectl-edit", json!({"spec": {"replicas": 5}}));
    shop.edit("kubectl-edit", json!({"spec": {"replicas": 6}}));
    shop.exporter.wait_for(DRIFTED, WEB, Some(1.0));
    let events = || {
        let api = Api::<Event>::namespaced(shop.cluster.client(), "shop");
        let mut events = shop.cluster.block_on(api.list(&kube::api::ListParams::default())).unwrap().items;
        // The API server writes Events, too.
        events.retain(|event| event.reporting_controller.as_deref() == Some("drift-exporter"));
        events
    };
    // Events are written in order: the Event of a later episode proves that those of the first one are complete.
    let (client, later) = (shop.cluster.client(), [("kind", "Deployment"), ("name", "later")]);
    shop.cluster.block_on(create_with_hash(&client, &Kind::deployment(), &deployment("shop", "later")));
    shop.exporter.wait_for(DRIFTED, &later, Some(0.0));
    shop.cluster.block_on(patch(
        &shop.deployments,
        "later",
        "kubectl-edit",
        json!({"spec": {"replicas": 5}}),
    ));
    let about = |event: &Event| event.regarding.as_ref().and_then(|regarding| regarding.name.clone());
    let mut events = eventually("an event of the later episode", || {
        Some(events()).filter(|events| events.iter().any(|event| about(event).as_deref() == Some("later")))
    });
    events.retain(|event| about(event).as_deref() != Some("later"));
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(about(&events[0]).as_deref(), Some("web"));
    assert_eq!(events[0].reason.as_deref(), Some("DriftDetected"));
    assert_eq!(events[0].type_.as_deref(), Some("Warning"));
    assert!(events[0].series.is_none(), "one per episode: {:?}", events[0].series);
    // The API server writes its audit log after the response.
    let writes = eventually("the audit log has both requests", || {
        let requests = shop.cluster.requests_by(User::Exporter).into_iter();
        let writes: Vec<_> = requests.filter(|(verb, _)| verb == "create").collect();
        Some(writes).filter(|writes| writes.len() >= 2)
    });
    let create = || ("create".to_owned(), "events".to_owned());
    assert_eq!(writes, [create(), create()]);
}
