//! Drift episodes over time: counters, onsets, resolution causes, series.

use std::time::Duration;

use drift_exporter::{
    config::Settings,
    types::{FieldPath, Kind, Source, StatusHashAlgorithm, StatusHashSpec, WantedKind},
};
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::support::{
    api_server::ApiServer,
    exporter_fixture::{BEGIN, ExporterFixture},
    live_objects::{deployment, edited, recorded},
};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const EPISODES: &str = "drift_resource_episodes_total{";

#[tokio::test(start_paused = true)]
async fn episode_counter_expires_a_day_after_the_last_episode() {
    let api = ApiServer::default();
    api.put("deployments", deployment("web"));
    let exporter = ExporterFixture::ready(&api).await;
    for _ in 0..3 {
        api.put("deployments", edited(deployment("web"), 1));
        exporter.wait_idle().await;
        api.put("deployments", deployment("web"));
        exporter.wait_idle().await;
    }
    assert_eq!(exporter.sample(EPISODES).await, Some(3.0));
    tokio::time::sleep(Duration::from_secs(86_300)).await;
    assert_eq!(exporter.sample(EPISODES).await, Some(3.0));
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert_eq!(exporter.sample(EPISODES).await, None);
}

#[tokio::test(start_paused = true)]
async fn drift_at_startup_is_exposed_but_not_counted() {
    let api = ApiServer::default();
    api.put("deployments", edited(deployment("web"), 30));
    let exporter = ExporterFixture::ready(&api).await;
    let onset = exporter.sample("drift_resource_drifted_timestamp_seconds{").await;
    assert_eq!(onset, Some(f64::from(1_767_312_000 + 30)));
    assert_eq!(exporter.sample("drift_detections_total{").await, Some(0.0));
    assert_eq!(exporter.sample(EPISODES).await, None);
    assert_eq!(exporter.get("/v1/history").await.json()["transitions"], json!([]));

    api.put("deployments", deployment("web"));
    exporter.wait_idle().await;
    let resolved =
        "drift_resolved_age_seconds_count{source=\"annotation\",cause=\"reverted\",severity=\"warning\"}";
    assert_eq!(exporter.sample(resolved).await, Some(1.0), "its resolution is counted");
    let sum = exporter.sample("drift_resolved_age_seconds_sum").await.unwrap();
    let age = f64::from(u32::try_from(BEGIN - 1_767_312_030).unwrap());
    assert!((sum - age).abs() < 10.0, "{sum} is not about {age}");
}

#[tokio::test(start_paused = true)]
async fn future_onset_is_clamped_to_now() {
    let api = ApiServer::default();
    let mut object = edited(deployment("web"), 1);
    object["metadata"]["managedFields"][1]["time"] = json!("2027-01-01T00:00:00Z");
    api.put("deployments", object);
    let exporter = ExporterFixture::ready(&api).await;
    let onset = exporter.sample("drift_resource_drifted_timestamp_seconds{").await.unwrap();
    assert!(onset <= (BEGIN + 1) as f64, "{onset}");
}

#[tokio::test(start_paused = true)]
async fn resolution_causes_are_absorbed_and_deleted() {
    let api = ApiServer::default();
    let drifted = edited(deployment("web"), 1);
    let hash = json!(drifted["metadata"]["annotations"]["tfdrift.jin.dev/spec-hash"]);
    api.put("deployments", drifted.clone());
    let exporter = ExporterFixture::ready(&api).await;
    let actual =
        exporter.get("/v1/resources?namespace=shop").await.json()["resources"][0]["actualSpec"]["hash"]
            .clone();
    api.put("deployments", recorded(drifted.clone(), actual.as_str().unwrap()));
    exporter.wait_idle().await;
    api.put("deployments", recorded(drifted, hash.as_str().unwrap()));
    exporter.wait_idle().await;
    api.delete("deployments", "shop", "web");
    exporter.wait_idle().await;
    let history = exporter.get("/v1/history").await.json();
    let causes: Vec<_> = history["transitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|transition| transition["cause"].clone())
        .collect();
    assert_eq!(causes, [json!("deleted"), json!(null), json!("absorbed")]);
}

#[tokio::test(start_paused = true)]
async fn disabled_source_ends_episodes_with_the_cause_rule() {
    const ON_OBJECT: [Source; 3] = [Source::Annotation, Source::LastApplied, Source::StatusHash];
    let kind = WantedKind::exactly(&Kind::deployment());
    let observed = FieldPath::of_fields(["status", "observedGeneration"]);
    let status_hash = StatusHashSpec::with_defaults(kind.clone(), StatusHashAlgorithm::Generation, observed);
    let status_hashes = vec![StatusHashSpec { grace: SignedDuration::ZERO, ..status_hash }];
    let settings =
        Settings { kinds: vec![kind], sources: ON_OBJECT.into(), status_hashes, ..Settings::default() };
    let applied = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 2}});
    let mut drifted = edited(deployment("web"), 1);
    drifted["metadata"]["annotations"][LAST_APPLIED] = applied.to_string().into();
    drifted["metadata"]["generation"] = 2.into();
    for disabled in ON_OBJECT {
        let api = ApiServer::default();
        api.put("deployments", drifted.clone());
        let exporter = ExporterFixture::ready_with(&api, settings.clone()).await;
        let sources = ON_OBJECT.into_iter().filter(|source| *source != disabled).collect();
        exporter.settings.replace(Settings { sources, ..settings.clone() });
        exporter.wait_idle().await;
        let history = exporter.get("/v1/history").await.json();
        let ended: Vec<[&Value; 3]> = history["transitions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|transition| ["source", "from", "cause"].map(|key| &transition[key]))
            .collect();
        assert_eq!(ended, [[disabled.as_str(), "drifted", "rule"]], "{history}");
    }
}

#[tokio::test(start_paused = true)]
async fn baseline_change_through_invalid_hash_is_absorbed() {
    let api = ApiServer::default();
    let drifted = edited(deployment("web"), 1);
    api.put("deployments", drifted.clone());
    let exporter = ExporterFixture::ready(&api).await;
    let actual =
        exporter.get("/v1/resources?namespace=shop").await.json()["resources"][0]["actualSpec"]["hash"]
            .clone();
    api.put("deployments", recorded(drifted.clone(), "nonsense"));
    exporter.wait_idle().await;
    api.put("deployments", recorded(drifted, actual.as_str().unwrap()));
    exporter.wait_idle().await;
    let history = exporter.get("/v1/history").await.json();
    assert_eq!(history["transitions"][0]["cause"], "absorbed", "{history}");
}

#[tokio::test(start_paused = true)]
async fn empty_namespace_keeps_only_counter_series() {
    let api = ApiServer::default();
    let mut preview = deployment("preview");
    preview["metadata"]["namespace"] = json!("preview-1");
    api.put("deployments", preview);
    api.put("deployments", edited(deployment("web"), 1));
    let exporter = ExporterFixture::ready(&api).await;
    assert!(exporter.metrics().await.contains("preview-1"));
    api.delete("deployments", "preview-1", "preview");
    api.delete("deployments", "shop", "web");
    exporter.wait_idle().await;
    let page = exporter.metrics().await;
    assert!(!page.contains("preview-1"), "{page}");
    assert!(page.contains("namespace=\"shop\",source=\"annotation\",cause=\"deleted\"} 1"), "{page}");
}

#[tokio::test(start_paused = true)]
async fn status_change_without_series_keeps_the_snapshot_sequence() {
    let api = ApiServer::default();
    api.put("deployments", deployment("web"));
    let exporter = ExporterFixture::ready(&api).await;
    let before = exporter.snapshot().sequence;
    let mut object = deployment("web");
    object["status"]["conditions"] = json!([]);
    api.put("deployments", object.clone());
    exporter.wait_idle().await;
    assert_eq!(exporter.cached_versions("deployments"), api.resource_versions("deployments"));
    assert_eq!(exporter.snapshot().sequence, before);
    object["status"]["availableReplicas"] = json!(1);
    api.put("deployments", object);
    exporter.wait_idle().await;
    assert!(exporter.snapshot().sequence > before, "health is exposed as a series");
}

#[tokio::test(start_paused = true)]
async fn jcs_hash_drifts_by_label_and_names_its_manager() {
    let api = ApiServer::default();
    let annotated = recorded(deployment("web"), WEB_JCS_HASH);
    api.put("deployments", annotated.clone());
    let exporter = ExporterFixture::ready(&api).await;
    let web = "drift_resource_drifted{";
    assert_eq!(
        exporter.sample(web).await,
        Some(0.0),
        "{}",
        exporter.get("/v1/resources?namespace=*").await.text()
    );
    let mut labelled = annotated;
    labelled["metadata"]["labels"]["team"] = json!("ops");
    labelled["metadata"]["managedFields"].as_array_mut().unwrap().push(json!({"manager": "kubectl-label",
        "time": "2026-01-03T00:00:00Z", "fieldsV1": {"f:metadata": {"f:labels": {"f:team": {}}}}}));
    api.put("deployments", labelled);
    exporter.wait_idle().await;
    assert_eq!(exporter.sample(web).await, Some(1.0));
    let view = exporter.get("/v1/resources?namespace=*").await.json();
    assert_eq!(view["resources"][0]["manager"], "kubectl-label");
    assert_eq!(view["resources"][0]["onset"], "2026-01-03T00:00:00Z");
}

/// A fixed value: if the algorithm changed, every annotated object would drift.
const WEB_JCS_HASH: &str = "jcs-v1:79be48a9370a3d33fb84fcfd8e57dc4d366d20ee3d93bfb500d3051d859b4e79";

#[tokio::test(start_paused = true)]
async fn reload_that_enables_a_source_exposes_its_counters_with_the_value_zero() {
    let api = ApiServer::default();
    api.put("deployments", deployment("web"));
    let exporter = ExporterFixture::ready(&api).await;
    for (source, reason) in [(Source::LastApplied, "unreadable_baseline"), (Source::StatusHash, "bad_hash")] {
        let errors = format!("drift_baseline_errors_total{{source=\"{source}\",reason=\"{reason}\"}}");
        let labels = format!("source=\"{source}\",actor=\"console\",severity=\"info\"");
        let actors = format!("drift_actor_detections_total{{{labels}}}");
        assert_eq!((exporter.sample(&errors).await, exporter.sample(&actors).await), (None, None));
        let sources = vec![Source::Annotation, source];
        exporter.settings.replace(Settings { sources, ..Settings::default() });
        exporter.wait_idle().await;
        assert_eq!(exporter.sample(&errors).await, Some(0.0), "{source}");
        assert_eq!(exporter.sample(&actors).await, Some(0.0), "{source}");
    }
}

#[tokio::test(start_paused = true)]
async fn episode_ends_with_the_cause_rule_if_the_settings_name_another_annotation() {
    let api = ApiServer::default();
    api.put("deployments", edited(deployment("web"), 1));
    let all = WantedKind::parse("apps/v1", "Deployment").unwrap();
    let settings = Settings { kinds: vec![all], ..Settings::default() };
    let exporter = ExporterFixture::ready_with(&api, settings.clone()).await;
    assert_eq!(exporter.sample("drift_resource_drifted{").await, Some(1.0));
    exporter.settings.replace(Settings { annotation_prefix: "drift.example.com".into(), ..settings });
    exporter.wait_idle().await;
    let transition = exporter.get("/v1/history").await.json()["transitions"][0].clone();
    assert_eq!((&transition["to"], &transition["cause"]), (&json!("no_baseline"), &json!("rule")));

    // The same change by an edit of the object.
    let mut without = deployment("db");
    api.put("deployments", edited(without.clone(), 1));
    without["metadata"]["annotations"] = json!({});
    let exporter = ExporterFixture::ready(&api).await;
    api.put("deployments", without);
    exporter.wait_idle().await;
    let transition = exporter.get("/v1/history").await.json()["transitions"][0].clone();
    assert_eq!((&transition["to"], &transition["cause"]), (&json!("no_baseline"), &json!("deleted")));
}
