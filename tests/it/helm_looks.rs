//! Reading many Helm releases, and releases that change during the read.

use std::{collections::BTreeSet, time::Duration};

use drift_exporter::types::WatchMode;
use tokio::time::Instant;

use crate::{
    helm_follow::{enabled, manifest, put, release, stored},
    support::{
        followed::{SourceEvent, SourceFixture},
        state_server::StateServer,
    },
};

#[tokio::test(start_paused = true)]
async fn releases_are_read_with_bounded_concurrency() {
    const COUNT: usize = 200;
    let server = StateServer::default();
    for at in 0..COUNT {
        let namespace = format!("shop-{at}");
        server.put("secrets", stored(&namespace, 1, "deployed", &release(&namespace, 1, &manifest(&["a"]))));
    }
    server.set_latency(Duration::from_millis(50));
    let begin = Instant::now();
    let mut source = SourceFixture::start_releases(&server, enabled());
    let mut names = BTreeSet::new();
    for _ in 0..COUNT {
        names.insert(source.next_baseline().await.name.to_string());
    }
    source.expect_up().await;
    assert_eq!(names.len(), COUNT);
    // Eight at a time: not sequentially, and not all at once.
    let took = begin.elapsed();
    assert!((1200..2000).contains(&took.as_millis()), "{took:?}");
    source.expect_no_event(60).await;
}

#[tokio::test(start_paused = true)]
async fn one_shot_read_skips_releases_deleted_meanwhile() {
    let server = StateServer::default();
    put(&server, 1, "deployed", &["a"]);
    server.put("secrets", stored("other", 1, "deployed", &release("other", 1, &manifest(&["b"]))));
    server.return_not_found("sh.helm.release.v1.web.v1");
    let mut source = SourceFixture::start_releases_with(&server, enabled(), WatchMode::Once);
    let update = source.next().await;
    assert!(matches!(update, SourceEvent::Health(_)), "only the end of the read is reported: {update:?}");

    // After a concurrent upgrade, the listed revision is no longer deployed.
    let server = StateServer::default();
    put(&server, 1, "deployed", &["a"]);
    server.set_latency(Duration::from_secs(1));
    let mut source = SourceFixture::start_releases_with(&server, enabled(), WatchMode::Once);
    tokio::time::sleep(Duration::from_millis(500)).await;
    put(&server, 1, "superseded", &["a"]);
    let update = source.next().await;
    assert!(matches!(update, SourceEvent::Health(_)), "{update:?}");
}
