//! How soon releases are known: many at once, and those that change while they are read.

use std::{collections::BTreeSet, time::Duration};

use drift_exporter::types::WatchMode;
use tokio::time::Instant;

use crate::{
    helm_follow::{enabled, manifest, put, release, stored},
    support::{
        followed::{Followed, Told},
        state_server::StateServer,
    },
};

#[tokio::test(start_paused = true)]
async fn many_releases_are_read_some_at_a_time() {
    const COUNT: usize = 200;
    let server = StateServer::default();
    for at in 0..COUNT {
        let namespace = format!("shop-{at}");
        server.put("secrets", stored(&namespace, 1, "deployed", &release(&namespace, 1, &manifest(&["a"]))));
    }
    server.take_time(Duration::from_millis(50));
    let begun = Instant::now();
    let mut followed = Followed::start_releases(&server, enabled());
    let mut names = BTreeSet::new();
    for _ in 0..COUNT {
        names.insert(followed.baseline().await.name.to_string());
    }
    followed.up().await;
    assert_eq!(names.len(), COUNT);
    // Eight at a time: neither one by one, nor all at once.
    let took = begun.elapsed();
    assert!((1200..2000).contains(&took.as_millis()), "{took:?}");
    followed.silent(60).await;
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_gone_when_it_is_read_is_waited_for_by_nobody_who_looks_once() {
    let server = StateServer::default();
    put(&server, 1, "deployed", &["a"]);
    server.put("secrets", stored("other", 1, "deployed", &release("other", 1, &manifest(&["b"]))));
    server.vanish("sh.helm.release.v1.web.v1");
    let mut followed = Followed::look_at_releases(&server, enabled(), WatchMode::Once);
    let told = followed.next().await;
    assert!(
        matches!(told, Told::Source(_)),
        "nothing is said about them, and that all was looked at: {told:?}"
    );

    // Where somebody upgraded it meanwhile, the one that was listed is not deployed any more.
    let server = StateServer::default();
    put(&server, 1, "deployed", &["a"]);
    server.take_time(Duration::from_secs(1));
    let mut followed = Followed::look_at_releases(&server, enabled(), WatchMode::Once);
    tokio::time::sleep(Duration::from_millis(500)).await;
    put(&server, 1, "superseded", &["a"]);
    let told = followed.next().await;
    assert!(matches!(told, Told::Source(_)), "{told:?}");
}
