//! Where baselines come from, and what is wrong there.

use drift_exporter::{
    config::Settings,
    types::{Kind, Source, WantedKind},
};

use super::{between, has, shop};
use crate::support::{api_server::Mood, world::World};

#[tokio::test(start_paused = true)]
async fn every_source_and_stream_is_told_with_what_it_covers() {
    let settings = Settings {
        sources: vec![Source::Annotation, Source::LastApplied],
        kinds: [Kind::deployment(), Kind::service()].iter().map(WantedKind::exactly).collect(),
        ..Settings::default()
    };
    let world = World::listed(&shop(), settings).await;
    world.settle().await;
    let page = world.get("/sources").await;
    assert_eq!(page.status.as_u16(), 200);
    let text = page.text();
    let sources = between(&text, "id=\"switched-on\"", "</section>");
    for (source, says) in [("annotation", "5 of 7 compared"), ("last_applied", "what kubectl applied last")] {
        let row = between(sources, &format!("<a href=\"/?source={source}\">"), "</tr>");
        assert!(row.contains(says), "no {says} in {row}");
    }
    let streams = between(&text, "id=\"streams\"", "</section>");
    let deployments = between(streams, "deployments.apps</th>", "</tr>");
    assert!(deployments.contains("<td data-label=\"Objects\">6</td>"), "{deployments}");
    assert!(deployments.contains("<td data-label=\"State\">up</td>"), "{deployments}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_down_says_why() {
    let world = World::ready(&shop()).await;
    world.api.mood("deployments", Mood::Refuses(403, None));
    world.api.cut();
    let stale = |world: &World| world.snapshot().kinds.iter().any(|state| state.is_stale("shop", "web"));
    world.until("the stream is down", std::time::Duration::from_secs(60), stale).await;
    let page = world.get("/sources").await;
    let text = page.text();
    let streams = between(&text, "id=\"streams\"", "</section>");
    let deployments = between(streams, "deployments.apps</th>", "</tr>");
    assert!(deployments.contains("<strong>down</strong> (forbidden)"), "{deployments}");
    has(&world.get("/").await, "<strong>1 up</strong>, <strong class=\"off\">1 down</strong>");
}
