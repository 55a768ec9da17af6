//! What time does to what is known, and what is remembered.

use std::time::Duration;

use serde_json::json;

use crate::support::{
    api_server::ApiServer,
    objects::{deployment, edited, recorded},
    world::{BEGIN, World},
};

const EPISODES: &str = "drift_resource_episodes_total{";

#[tokio::test(start_paused = true)]
async fn flapping_is_counted_for_a_day_after_the_last_time() {
    let api = ApiServer::default();
    api.put("deployments", deployment("web"));
    let world = World::ready(&api).await;
    for _ in 0..3 {
        api.put("deployments", edited(deployment("web"), 1));
        world.settle().await;
        api.put("deployments", deployment("web"));
        world.settle().await;
    }
    assert_eq!(world.sample(EPISODES).await, Some(3.0));
    tokio::time::sleep(Duration::from_secs(86_300)).await;
    assert_eq!(world.sample(EPISODES).await, Some(3.0));
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert_eq!(world.sample(EPISODES).await, None);
}

#[tokio::test(start_paused = true)]
async fn what_stands_at_the_start_is_shown_and_not_counted() {
    let api = ApiServer::default();
    api.put("deployments", edited(deployment("web"), 30));
    let world = World::ready(&api).await;
    let onset = world.sample("drift_resource_drifted_timestamp_seconds{").await;
    assert_eq!(onset, Some(f64::from(1_767_312_000 + 30)));
    assert_eq!(world.sample("drift_detections_total{").await, Some(0.0));
    assert_eq!(world.sample(EPISODES).await, None);
    assert_eq!(world.get("/v1/history").await.json()["transitions"], json!([]));

    api.put("deployments", deployment("web"));
    world.settle().await;
    let resolved =
        "drift_resolved_age_seconds_count{source=\"annotation\",cause=\"reverted\",severity=\"warning\"}";
    assert_eq!(world.sample(resolved).await, Some(1.0), "its end is seen, though");
    let sum = world.sample("drift_resolved_age_seconds_sum").await.unwrap();
    let age = f64::from(u32::try_from(BEGIN - 1_767_312_030).unwrap());
    assert!((sum - age).abs() < 10.0, "{sum} is not about {age}");
}

#[tokio::test(start_paused = true)]
async fn an_onset_in_the_future_is_now() {
    let api = ApiServer::default();
    let mut object = edited(deployment("web"), 1);
    object["metadata"]["managedFields"][1]["time"] = json!("2027-01-01T00:00:00Z");
    api.put("deployments", object);
    let world = World::ready(&api).await;
    let onset = world.sample("drift_resource_drifted_timestamp_seconds{").await.unwrap();
    assert!(onset <= (BEGIN + 1) as f64, "{onset}");
}

#[tokio::test(start_paused = true)]
async fn causes_tell_a_revert_from_a_moved_baseline_and_a_deletion() {
    let api = ApiServer::default();
    let drifted = edited(deployment("web"), 1);
    let hash = json!(drifted["metadata"]["annotations"]["tfdrift.jin.dev/spec-hash"]);
    api.put("deployments", drifted.clone());
    let world = World::ready(&api).await;
    let actual =
        world.get("/v1/resources?namespace=shop").await.json()["resources"][0]["actualSpec"]["hash"].clone();
    api.put("deployments", recorded(drifted.clone(), actual.as_str().unwrap()));
    world.settle().await;
    api.put("deployments", recorded(drifted, hash.as_str().unwrap()));
    world.settle().await;
    api.delete("deployments", "web");
    world.settle().await;
    let history = world.get("/v1/history").await.json();
    let causes: Vec<_> =
        history["transitions"].as_array().unwrap().iter().map(|own| own["cause"].clone()).collect();
    assert_eq!(causes, [json!("deleted"), json!(null), json!("absorbed")]);
}

#[tokio::test(start_paused = true)]
async fn a_baseline_that_moves_by_way_of_nonsense_absorbs_all_the_same() {
    let api = ApiServer::default();
    let drifted = edited(deployment("web"), 1);
    api.put("deployments", drifted.clone());
    let world = World::ready(&api).await;
    let actual =
        world.get("/v1/resources?namespace=shop").await.json()["resources"][0]["actualSpec"]["hash"].clone();
    api.put("deployments", recorded(drifted.clone(), "nonsense"));
    world.settle().await;
    api.put("deployments", recorded(drifted, actual.as_str().unwrap()));
    world.settle().await;
    let history = world.get("/v1/history").await.json();
    assert_eq!(history["transitions"][0]["cause"], "absorbed", "{history}");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_without_objects_leaves_no_series_unless_something_was_counted() {
    let api = ApiServer::default();
    let mut preview = deployment("preview");
    preview["metadata"]["namespace"] = json!("preview-1");
    api.put("deployments", preview);
    api.put("deployments", edited(deployment("web"), 1));
    let world = World::ready(&api).await;
    assert!(world.metrics().await.contains("preview-1"));
    api.delete("deployments", "preview");
    api.delete("deployments", "web");
    world.settle().await;
    let page = world.metrics().await;
    assert!(!page.contains("preview-1"), "{page}");
    assert!(page.contains("namespace=\"shop\",source=\"annotation\",cause=\"deleted\"} 1"), "{page}");
}

#[tokio::test(start_paused = true)]
async fn a_change_of_facts_alone_leaves_the_page_as_it_is() {
    let api = ApiServer::default();
    api.put("deployments", deployment("web"));
    let world = World::ready(&api).await;
    let before = world.snapshot().sequence;
    let mut object = deployment("web");
    object["status"]["conditions"] = json!([]);
    api.put("deployments", object.clone());
    world.settle().await;
    assert_eq!(world.known("deployments"), api.truth("deployments"));
    assert_eq!(world.snapshot().sequence, before);
    object["status"]["availableReplicas"] = json!(1);
    api.put("deployments", object);
    world.settle().await;
    assert!(world.snapshot().sequence > before, "health has a series");
}

#[tokio::test(start_paused = true)]
async fn an_object_stamped_with_jcs_drifts_by_a_label_and_whoever_set_it_is_named() {
    let api = ApiServer::default();
    let stamped = recorded(deployment("web"), JCS_OF_WEB);
    api.put("deployments", stamped.clone());
    let world = World::ready(&api).await;
    let web = "drift_resource_drifted{";
    assert_eq!(world.sample(web).await, Some(0.0), "{}", world.get("/v1/resources?namespace=*").await.text());
    let mut labelled = stamped;
    labelled["metadata"]["labels"]["team"] = json!("ops");
    labelled["metadata"]["managedFields"].as_array_mut().unwrap().push(json!({"manager": "kubectl-label",
        "time": "2026-01-03T00:00:00Z", "fieldsV1": {"f:metadata": {"f:labels": {"f:team": {}}}}}));
    api.put("deployments", labelled);
    world.settle().await;
    assert_eq!(world.sample(web).await, Some(1.0));
    let view = world.get("/v1/resources?namespace=*").await.json();
    assert_eq!(view["resources"][0]["manager"], "kubectl-label");
    assert_eq!(view["resources"][0]["onset"], "2026-01-03T00:00:00Z");
}

/// A fixed value: another one would make every stamp out there drift.
const JCS_OF_WEB: &str = "jcs-v1:79be48a9370a3d33fb84fcfd8e57dc4d366d20ee3d93bfb500d3051d859b4e79";
