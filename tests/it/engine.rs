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
