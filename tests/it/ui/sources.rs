//! The sources page.

use drift_exporter::{
    config::Settings,
    types::{Kind, Source, WantedKind},
};

use super::{assert_contains, between, sample_cluster};
use crate::support::{api_server::ServerFault, exporter_fixture::ExporterFixture};

#[tokio::test(start_paused = true)]
async fn sources_page_shows_sources_and_watches() {
    let settings = Settings {
        sources: vec![Source::Annotation, Source::LastApplied],
        kinds: [Kind::deployment(), Kind::service()].iter().map(WantedKind::exactly).collect(),
        ..Settings::default()
    };
    let exporter = ExporterFixture::ready_with(&sample_cluster(), settings).await;
    exporter.wait_idle().await;
    let page = exporter.get("/sources").await;
    assert_eq!(page.status.as_u16(), 200);
    let text = page.text();
    let sources = between(&text, "id=\"switched-on\"", "</section>");
    for (source, part) in [("annotation", "5 of 7 compared"), ("last_applied", "what kubectl applied last")] {
        let row = between(sources, &format!("<a href=\"/?source={source}\">"), "</tr>");
        assert!(row.contains(part), "no {part} in {row}");
    }
    let streams = between(&text, "id=\"streams\"", "</section>");
    let deployments = between(streams, "deployments.apps</th>", "</tr>");
    assert!(deployments.contains("<td data-label=\"Objects\">6</td>"), "{deployments}");
    assert!(deployments.contains("<td data-label=\"State\">up</td>"), "{deployments}");
}

#[tokio::test(start_paused = true)]
async fn broken_watch_shows_its_reason() {
    let exporter = ExporterFixture::ready(&sample_cluster()).await;
    exporter.api.set_fault("deployments", ServerFault::HttpError(403, None));
    exporter.api.close_watches();
    let stale = |exporter: &ExporterFixture| {
        exporter.snapshot().kinds.iter().any(|state| state.is_stale("shop", "web"))
    };
    exporter.until("the watch is down", std::time::Duration::from_secs(60), stale).await;
    let page = exporter.get("/sources").await;
    let text = page.text();
    let streams = between(&text, "id=\"streams\"", "</section>");
    let deployments = between(streams, "deployments.apps</th>", "</tr>");
    assert!(deployments.contains("<strong>down</strong> (forbidden)"), "{deployments}");
    assert_contains(&exporter.get("/").await, "<strong>1 up</strong>, <strong class=\"off\">1 down</strong>");
}
