//! The UI without data: empty clusters, pending lists and broken watches.

use std::time::Duration;

use super::{assert_contains, assert_not_contains, headline, rows, sample_cluster, tile};
use crate::support::{
    api_server::{ApiServer, ServerFault},
    exporter_fixture::ExporterFixture,
    live_objects::{deployment, service},
};

#[tokio::test(start_paused = true)]
async fn empty_cluster_shows_how_to_enable_objects() {
    let exporter = ExporterFixture::ready(&ApiServer::default()).await;
    let page = exporter.get("/").await;
    assert_eq!(headline(&page), "No object takes part yet");
    assert_contains(&page, "<code>tfdrift.jin.dev/enabled=true</code>");
    assert_contains(&page, "<code>tfdrift.jin.dev/spec-hash</code>");
    assert_eq!(tile(&page, "drifted"), "0");
}

#[tokio::test(start_paused = true)]
async fn page_before_first_list_shows_waiting() {
    let api = ApiServer::default();
    api.set_fault("deployments", ServerFault::Unresponsive);
    let exporter = ExporterFixture::start(&api);
    exporter.wait_idle().await;
    let page = exporter.get("/").await;
    assert_eq!(headline(&page), "Waiting for the first list");
    assert_contains(&page, "Waiting for the first list of <strong>deployments.apps</strong>");
    assert_not_contains(&page, "Let objects take part");
    assert_eq!(tile(&page, "drifted"), "–");
}

#[tokio::test(start_paused = true)]
async fn broken_watch_is_shown_first() {
    let api = ApiServer::default();
    api.put("deployments", deployment("web"));
    api.put("services", service("web"));
    let exporter = ExporterFixture::ready(&api).await;
    assert_eq!(headline(&exporter.get("/").await), "Everything is as declared");
    assert_not_contains(&exporter.get("/").await, "Blind");
    api.set_fault("deployments", ServerFault::HttpError(403, None));
    api.close_watches();
    let stale = |exporter: &ExporterFixture| {
        exporter.snapshot().kinds.iter().any(|state| state.is_stale("shop", "web"))
    };
    exporter.until("the watch is down", Duration::from_secs(60), stale).await;
    let page = exporter.get("/").await;
    assert_eq!(headline(&page), "Not everything can be seen");
    assert_contains(
        &page,
        "Blind: deployments.apps.</strong> The API server forbids listing or watching it.",
    );
    assert_contains(&page, "1 object is unknown until it is back.");
    assert_contains(&page, "said 403");
    assert_eq!(rows(&page), ["deployments/shop/web", "services/shop/web"], "the unknown object is first");
    assert_eq!((tile(&page, "unknown"), tile(&page, "in_sync")), ("1".to_owned(), "1".to_owned()));
    assert_contains(&page, "Healthy</span><span class=\"detail\">when last seen</span>");
    let page = exporter.get("/objects/deployments.apps/shop/web").await;
    assert_contains(&page, "Changes do not arrive. When it could last be judged, it was as declared.");
    assert_contains(&page, "The stream of deployments.apps is <strong>down</strong> (forbidden)");
}

#[tokio::test(start_paused = true)]
async fn stale_objects_keep_last_verdict() {
    let exporter = ExporterFixture::ready(&sample_cluster()).await;
    exporter.api.set_fault("deployments", ServerFault::HttpError(500, None));
    exporter.api.close_watches();
    let stale = |exporter: &ExporterFixture| {
        exporter.snapshot().kinds.iter().any(|state| state.is_stale("shop", "web"))
    };
    exporter.until("the watch is down", Duration::from_secs(60), stale).await;
    let page = exporter.get("/").await;
    assert_eq!(headline(&page), "Not everything can be seen; 3 objects had drifted when last seen");
    assert_eq!(tile(&page, "drifted"), "–");
    let first = rows(&page).remove(0);
    assert_eq!(first, "deployments/shop/search");
    assert_contains(&page, "stale</span><span class=\"detail\">had drifted</span>");
    let cart = exporter.get("/objects/deployments.apps/shop/cart").await;
    assert_contains(&cart, "it had drifted.");
    assert_contains(&cart, "aria-label=\"annotation: drifted for 30 d 11 h, then unknown now\"");
    // Severities count current drift only.
    assert_contains(&page, "warning</span> <strong>0</strong>");
    assert_eq!(rows(&exporter.get("/?severity=warning").await), [""; 0]);
}
