//! Watches on an API server that stalls, disconnects, rejects requests or expires resource versions.

use std::time::Duration;

use drift_exporter::types::{DownReason, SyncHealth};
use serde_json::json;

use crate::support::{
    api_server::{ApiServer, ServerFault},
    exporter_fixture::ExporterFixture,
    live_objects::{deployment, edited, recorded, service},
};

const STALL_TIMEOUT: Duration = Duration::from_secs(45);

fn down_reason(exporter: &ExporterFixture, plural: &str) -> Option<DownReason> {
    let snapshot = exporter.snapshot();
    let stream = snapshot.watches().find(|stream| &*stream.spec.kind.plural == plural).unwrap();
    match &stream.health {
        SyncHealth::Down { reason, .. } => Some(*reason),
        SyncHealth::Starting | SyncHealth::Up => None,
    }
}

fn shop() -> ApiServer {
    let api = ApiServer::default();
    api.put("deployments", deployment("web"));
    api.put("deployments", deployment("cart"));
    api.put("services", service("web"));
    api
}

#[tokio::test(start_paused = true)]
async fn readyz_waits_for_first_list_and_stalled_list_is_detected() {
    let api = shop();
    api.set_fault("deployments", ServerFault::Unresponsive);
    let exporter = ExporterFixture::start(&api);
    exporter.wait_idle().await;
    let ready = exporter.get("/readyz").await;
    assert_eq!(ready.status, 503);
    assert!(ready.text().contains("deployments.apps: waiting for its first list"), "{}", ready.text());
    assert_eq!(
        exporter.sample("drift_resource_drifted{group=\"apps\"").await,
        None,
        "no series before the first list"
    );
    assert_eq!(
        exporter.sample("drift_resource_drifted{group=\"\"").await,
        Some(0.0),
        "the other kind is not affected"
    );

    exporter
        .until("the stall is detected", STALL_TIMEOUT, |exporter| {
            down_reason(exporter, "deployments") == Some(DownReason::Stalled)
        })
        .await;
    assert_eq!(exporter.get("/readyz").await.status, 503, "a stalled kind is not synced");
    assert_eq!(exporter.get("/livez").await.status, 200);
    api.set_fault("deployments", ServerFault::None);
    exporter
        .until("the watch recovers", Duration::from_secs(35), |exporter| {
            exporter.cached_versions("deployments").len() == 2
        })
        .await;
    assert_eq!(exporter.get("/readyz").await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn incomplete_list_exposes_nothing_and_is_retried() {
    for mood in [ServerFault::ListStalls(700), ServerFault::ListTruncated(700)] {
        let api = shop();
        api.set_fault("deployments", mood);
        let exporter = ExporterFixture::start(&api);
        exporter
            .until("the failure is detected", STALL_TIMEOUT, |exporter| {
                down_reason(exporter, "deployments").is_some()
            })
            .await;
        assert!(exporter.cached_versions("deployments").is_empty());
        api.set_fault("deployments", ServerFault::None);
        exporter
            .until("the watch recovers", Duration::from_secs(35), |exporter| {
                exporter.cached_versions("deployments").len() == 2
            })
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn failed_relist_keeps_the_cache() {
    let api = shop();
    let exporter = ExporterFixture::ready(&api).await;
    api.set_fault("deployments", ServerFault::ListTruncated(700));
    api.delete("deployments", "shop", "cart");
    api.compact_history();
    api.close_watches();
    exporter
        .until("the failure is detected", STALL_TIMEOUT, |exporter| {
            down_reason(exporter, "deployments").is_some()
        })
        .await;
    let page = exporter.metrics().await;
    assert_eq!(
        page.lines().filter(|line| line.starts_with("drift_resource_drifted{group=\"apps\"")).count(),
        1
    );
    // The watch delivered the deletion before the disconnect, so only the deleted object is gone.
    assert!(page.contains("verdict=\"unknown\",reason=\"stale\""), "{page}");
    api.set_fault("deployments", ServerFault::None);
    exporter
        .until("the watch recovers", Duration::from_secs(35), |exporter| {
            down_reason(exporter, "deployments").is_none()
        })
        .await;
    assert_eq!(exporter.cached_versions("deployments"), api.resource_versions("deployments"));
}

#[tokio::test(start_paused = true)]
async fn stalled_watch_is_detected_and_its_claims_are_unknown() {
    let api = shop();
    let exporter = ExporterFixture::ready(&api).await;
    api.put("deployments", edited(deployment("web"), 1));
    exporter.wait_idle().await;
    let web = "drift_resource_drifted{group=\"apps\",kind=\"Deployment\",namespace=\"shop\",name=\"web\"";
    assert_eq!(exporter.sample(web).await, Some(1.0));
    api.set_fault("deployments", ServerFault::Unresponsive);
    let took = exporter.until("the stall is detected", STALL_TIMEOUT + Duration::from_secs(30), |exporter| {
        down_reason(exporter, "deployments") == Some(DownReason::Stalled)
    });
    let took = took.await;
    assert!(took <= STALL_TIMEOUT, "{took:?}");
    assert_eq!(exporter.sample("drift_watch_stream_up{group=\"apps\"").await, Some(0.0));
    assert_eq!(exporter.sample("drift_watch_stream_up{group=\"\"").await, Some(1.0));
    let stale = "drift_resources{group=\"apps\",kind=\"Deployment\",namespace=\"shop\",source=\"annotation\",verdict=\"unknown\",reason=\"stale\"}";
    assert_eq!(exporter.sample(stale).await, Some(2.0));
    assert_eq!(exporter.sample(web).await, Some(1.0), "the last value is kept");
}

#[tokio::test(start_paused = true)]
async fn expired_resource_version_triggers_relist() {
    for mood in [ServerFault::WatchErrorEvent(410), ServerFault::WatchHttpError(410)] {
        let api = shop();
        let exporter = ExporterFixture::ready(&api).await;
        api.set_fault("deployments", mood);
        api.close_watches();
        tokio::time::sleep(Duration::from_secs(2)).await;
        // No watch delivers these two changes.
        api.delete("deployments", "shop", "cart");
        api.put("deployments", edited(deployment("web"), 1));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(exporter.cached_versions("deployments"), api.resource_versions("deployments"));
        let lists = api
            .request_urls()
            .iter()
            .filter(|url| url.contains("deployments?") && !url.contains("watch"))
            .count();
        assert!((2..20).contains(&lists), "{lists} lists in a minute");
    }
}

#[tokio::test(start_paused = true)]
async fn expired_version_after_outage_is_relisted_at_once() {
    let api = shop();
    let exporter = ExporterFixture::ready(&api).await;
    api.set_fault("deployments", ServerFault::HttpError(503, None));
    api.close_watches();
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(down_reason(&exporter, "deployments"), Some(DownReason::Error));
    api.put("deployments", edited(deployment("web"), 1));
    api.compact_history();
    api.set_fault("deployments", ServerFault::None);
    exporter
        .until("the watch is up again", Duration::from_secs(35), |exporter| {
            down_reason(exporter, "deployments").is_none()
        })
        .await;
    exporter
        .until("the cache is current as soon as the watch is up", Duration::from_millis(100), is_current)
        .await;
}

/// Whether the cache has all objects in their current versions.
fn is_current(exporter: &ExporterFixture) -> bool {
    exporter.cached_versions("deployments") == exporter.api.resource_versions("deployments")
}

fn lists(api: &ApiServer) -> usize {
    let is_list =
        |url: &&String| url.contains("deployments") && !url.contains("watch=1") && !url.ends_with("&limit=1");
    api.request_urls().iter().filter(is_list).count()
}

#[tokio::test(start_paused = true)]
async fn watch_is_down_from_a_lost_version_until_the_relist_ends() {
    let api = shop();
    let exporter = ExporterFixture::ready(&api).await;
    api.set_fault("deployments", ServerFault::SlowList(Duration::from_secs(20)));
    api.close_watches();
    api.put("deployments", edited(deployment("web"), 1));
    api.compact_history();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(exporter.sample("drift_watch_stream_up{group=\"apps\"").await, Some(0.0));
    let page = exporter.metrics().await;
    assert!(page.contains("verdict=\"unknown\",reason=\"stale\""), "{page}");
    assert!(!is_current(&exporter), "the list is not complete");
    exporter
        .until("the watch is up again", Duration::from_secs(20), |exporter| {
            down_reason(exporter, "deployments").is_none()
        })
        .await;
    assert!(is_current(&exporter));
    assert_eq!(lists(&api), 2);
}

#[tokio::test(start_paused = true)]
async fn watch_is_up_after_its_backlog_was_read() {
    // An outage, then a backlog that arrives before, at and after the end of the first watch.
    for delay in [0, 1, 4, 8] {
        let api = shop();
        let exporter = ExporterFixture::ready(&api).await;
        api.set_fault("deployments", ServerFault::HttpError(503, None));
        api.close_watches();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(down_reason(&exporter, "deployments"), Some(DownReason::Error));
        api.put("deployments", edited(deployment("web"), 1));
        api.put("services", service("web"));
        api.set_fault("deployments", ServerFault::SlowBacklog(Duration::from_secs(delay)));
        exporter
            .until("the watch is up again", Duration::from_secs(50), |exporter| {
                down_reason(exporter, "deployments").is_none()
            })
            .await;
        assert!(is_current(&exporter), "up with a backlog that arrives after {delay} s");
        assert_eq!(lists(&api), 1, "the watch resumed");
    }
}

#[tokio::test(start_paused = true)]
async fn restored_backup_is_relisted_within_a_minute() {
    for is_cut in [true, false] {
        let api = shop();
        let exporter = ExporterFixture::ready(&api).await;
        let backup = api.backup();
        for replicas in 1..=9 {
            api.put("deployments", edited(deployment("web"), replicas));
        }
        exporter.wait_idle().await;
        assert!(is_current(&exporter));
        api.restore(&backup);
        api.delete("deployments", "shop", "cart");
        if is_cut {
            api.close_watches();
        }
        exporter.until("the backup is listed", Duration::from_secs(60), is_current).await;
        assert_eq!(down_reason(&exporter, "deployments"), None);
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(lists(&api), 2, "one relist");
        api.put("deployments", edited(deployment("web"), 4));
        exporter.until("the next edit arrives", Duration::from_secs(1), is_current).await;
    }
}

#[tokio::test(start_paused = true)]
async fn refused_watches_do_not_keep_a_version_while_lists_succeed() {
    for code in [400, 500, 504] {
        let api = shop();
        let exporter = ExporterFixture::ready(&api).await;
        api.set_fault("deployments", ServerFault::WatchHttpError(code));
        api.close_watches();
        tokio::time::sleep(Duration::from_secs(1)).await;
        api.put("deployments", edited(deployment("web"), 1));
        exporter.until("the edit is listed", Duration::from_secs(30), is_current).await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert!((2..15).contains(&lists(&api)), "{} lists in ten minutes", lists(&api));
    }
    // If no request succeeds, the watch resumes after the outage.
    let api = shop();
    let exporter = ExporterFixture::ready(&api).await;
    api.set_fault("deployments", ServerFault::HttpError(500, None));
    api.close_watches();
    tokio::time::sleep(Duration::from_secs(600)).await;
    api.set_fault("deployments", ServerFault::None);
    let is_up = |exporter: &ExporterFixture| down_reason(exporter, "deployments").is_none();
    exporter.until("the watch is up again", Duration::from_secs(40), is_up).await;
    assert_eq!(lists(&api), 1);
}

#[tokio::test(start_paused = true)]
async fn forbidden_kind_is_retried_with_backoff_until_granted() {
    let api = shop();
    api.set_fault("deployments", ServerFault::HttpError(403, None));
    let exporter = ExporterFixture::start(&api);
    exporter
        .until("the list is rejected", Duration::from_secs(5), |exporter| {
            down_reason(exporter, "deployments").is_some()
        })
        .await;
    let ready = exporter.get("/readyz").await;
    assert_eq!(
        (ready.status.as_u16(), down_reason(&exporter, "deployments")),
        (200, Some(DownReason::Forbidden))
    );
    assert!(ready.text().contains("deployments.apps: not listed (forbidden): "), "{}", ready.text());
    tokio::time::sleep(Duration::from_secs(600)).await;
    let requests = api.request_urls().iter().filter(|url| url.contains("deployments")).count();
    assert!((15..60).contains(&requests), "{requests} requests in ten minutes");
    api.set_fault("deployments", ServerFault::None);
    exporter
        .until("the watch recovers", Duration::from_secs(35), |exporter| {
            exporter.cached_versions("deployments").len() == 2
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn readyz_stays_ready_during_an_outage() {
    let api = shop();
    api.set_fault("deployments", ServerFault::HttpError(403, None));
    let exporter = ExporterFixture::start(&api);
    exporter
        .until("the list is rejected", Duration::from_secs(5), |exporter| {
            down_reason(exporter, "deployments").is_some()
        })
        .await;
    exporter.wait_idle().await;
    assert_eq!(exporter.get("/readyz").await.status, 200);
    api.set_fault("deployments", ServerFault::HttpError(500, None));
    api.set_fault("services", ServerFault::HttpError(500, None));
    api.close_watches();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(down_reason(&exporter, "deployments"), Some(DownReason::Error));
    assert_eq!(exporter.get("/readyz").await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn repeatedly_closed_watch_backs_off() {
    let api = shop();
    let exporter = ExporterFixture::ready(&api).await;
    for _ in 0..600 {
        api.close_watches();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let watches = api
        .request_urls()
        .iter()
        .filter(|url| url.contains("deployments") && url.contains("watch=1"))
        .count();
    assert!(watches < 80, "{watches} watches in ten minutes");
    api.put("deployments", edited(deployment("web"), 1));
    exporter.until("the edit arrives", Duration::from_secs(35), is_current).await;
}

#[tokio::test(start_paused = true)]
async fn readyz_fails_if_no_kind_can_be_listed() {
    let api = shop();
    api.set_fault("deployments", ServerFault::HttpError(403, None));
    api.set_fault("services", ServerFault::HttpError(404, None));
    let exporter = ExporterFixture::start(&api);
    exporter
        .until("both lists are rejected", Duration::from_secs(5), |exporter| {
            down_reason(exporter, "deployments").is_some()
                && down_reason(exporter, "services") == Some(DownReason::NotFound)
        })
        .await;
    assert_eq!(exporter.get("/readyz").await.status, 503);
}

#[tokio::test(start_paused = true)]
async fn retry_after_header_is_respected() {
    let api = shop();
    api.set_fault("deployments", ServerFault::HttpError(429, Some(20)));
    let _world = ExporterFixture::start(&api);
    tokio::time::sleep(Duration::from_secs(19)).await;
    assert_eq!(api.request_urls().iter().filter(|url| url.contains("deployments")).count(), 1);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(api.request_urls().iter().filter(|url| url.contains("deployments")).count(), 2);
}

#[tokio::test(start_paused = true)]
async fn invalid_object_hides_no_other() {
    let api = shop();
    let mut bad_replicas = deployment("odd");
    bad_replicas["spec"]["replicas"] = json!("three");
    api.put("deployments", bad_replicas);
    let mut bad_spec = deployment("odder");
    bad_spec["spec"] = json!([1, 2]);
    bad_spec["metadata"]["labels"] = json!(7);
    api.put("deployments", bad_spec);
    let mut quantity = deployment("quantity");
    quantity["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = json!({"cpu": "lots"});
    api.put("deployments", quantity);
    let labels = json!({"tfdrift.jin.dev/enabled": "true"});
    api.put("deployments", json!({"metadata": {"name": "", "namespace": "shop", "labels": labels}}));
    api.put("deployments", recorded(deployment("annotated"), &"x".repeat(256 << 10)));
    let exporter = ExporterFixture::ready(&api).await;
    assert_eq!(exporter.cached_versions("deployments").len(), 6);
    let line = |verdict: &str, reason: &str| {
        format!(
            "drift_resources{{group=\"apps\",kind=\"Deployment\",namespace=\"shop\",source=\"annotation\",verdict=\"{verdict}\",reason=\"{reason}\"}}"
        )
    };
    assert_eq!(exporter.sample(&line("in_sync", "")).await, Some(2.0), "{}", exporter.metrics().await);
    assert_eq!(exporter.sample(&line("unknown", "unreadable")).await, Some(3.0));
    assert_eq!(exporter.sample(&line("unknown", "bad_hash")).await, Some(1.0));

    // The same through a watch, with malformed events in between.
    api.send_line("deployments", r#"{"type":"MODIFIED","object":{"metadata":{"namespace":"shop"}}}"#);
    api.put("deployments", edited(deployment("web"), 1));
    exporter.wait_idle().await;
    let web = "drift_resource_drifted{group=\"apps\",kind=\"Deployment\",namespace=\"shop\",name=\"web\"";
    assert_eq!(exporter.sample(web).await, Some(1.0));
    api.send_line("deployments", "this is not JSON");
    exporter
        .until("the malformed watch is closed", Duration::from_secs(1), |exporter| {
            down_reason(exporter, "deployments").is_some()
        })
        .await;
    api.put("deployments", deployment("web"));
    exporter
        .until("the watch recovers", Duration::from_secs(35), |exporter| {
            down_reason(exporter, "deployments").is_none()
        })
        .await;
    exporter.wait_idle().await;
    assert_eq!(exporter.sample(web).await, Some(0.0));
}

#[tokio::test(start_paused = true)]
async fn idle_watch_sends_four_small_requests_per_minute_and_no_list() {
    let api = shop();
    let _world = ExporterFixture::ready(&api).await;
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    let requests = api.request_urls();
    let watches =
        requests.iter().filter(|url| url.contains("deployments") && url.contains("watch=1")).count();
    let (probes, others): (Vec<_>, Vec<_>) = requests.iter().partition(|url| url.ends_with("&limit=1"));
    let probes = probes.iter().filter(|url| url.contains("deployments")).count();
    assert_eq!(lists(&api), 1);
    assert!((115..=125).contains(&watches), "{watches}");
    assert!((115..=125).contains(&probes), "{probes}");
    assert!(others.iter().all(|url| url.contains("labelSelector=tfdrift.jin.dev%2Fenabled%3Dtrue")));
}
