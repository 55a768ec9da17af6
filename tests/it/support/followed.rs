//! A task that follows states, releases or manifests, and all that it tells.

use std::{sync::Arc, time::Duration};

use drift_exporter::{
    sources::{
        Declares, SourceContext, Wanted,
        helm::{self, ReleaseSources},
        manifest::{self, ManifestSources},
        terraform::{self, StateSources},
    },
    types::{Baseline, Clock, Event, RedactionKey, WatchHealth, WatchMode},
};
use jiff::{SignedDuration, Timestamp};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, timeout},
};

use super::state_server::StateServer;
use crate::programs::wait::completes;

pub(crate) const START: &str = "2026-01-01T12:00:00Z";

pub(crate) fn start() -> Timestamp {
    START.parse().unwrap()
}

/// A follower, and all that it tells.
pub(crate) struct Followed<S = StateSources> {
    pub(crate) sources: watch::Sender<Arc<S>>,
    pub(crate) changes: mpsc::Receiver<Event>,
    pub(crate) declares: watch::Receiver<Arc<Declares>>,
}

/// What was told, in a few words.
#[derive(Debug)]
pub(crate) enum Told {
    Baseline(Arc<Baseline>),
    Gone(String),
    Source(WatchHealth),
}

impl Followed<StateSources> {
    pub(crate) fn start(server: &StateServer, sources: StateSources) -> Self {
        let (followed, follow) = Self::new(server, sources);
        tokio::spawn(terraform::follow(follow));
        followed
    }
}

impl Followed<ReleaseSources> {
    pub(crate) fn start_releases(server: &StateServer, sources: ReleaseSources) -> Self {
        Self::look_at_releases(server, sources, WatchMode::SourceContext)
    }

    /// The same by those who may look but once.
    pub(crate) fn look_at_releases(server: &StateServer, sources: ReleaseSources, look: WatchMode) -> Self {
        let (followed, follow) = Self::new(server, sources);
        tokio::spawn(helm::follow(SourceContext { look, ..follow }));
        followed
    }
}

impl Followed<ManifestSources> {
    pub(crate) fn start_manifests(server: &StateServer, sources: ManifestSources) -> Self {
        let (followed, follow) = Self::new(server, sources);
        tokio::spawn(manifest::follow(follow));
        followed
    }
}

impl<S> Followed<S> {
    fn new(server: &StateServer, sources: S) -> (Self, SourceContext<S>) {
        let key = RedactionKey::new([7; 32]);
        let (sender, receiver) = watch::channel(Arc::new(sources));
        let (changes, told) = mpsc::channel(1);
        let (declares, read) = watch::channel(Arc::default());
        let begun = Instant::now();
        let clock = Clock::new(move || start() + SignedDuration::try_from(begun.elapsed()).unwrap());
        let client = server.client();
        let follow = SourceContext {
            client,
            sources: receiver,
            changes,
            declares,
            clock,
            look: WatchMode::SourceContext,
            key,
        };
        (Self { sources: sender, changes: told, declares: read }, follow)
    }

    /// What has to be watched for what is declared.
    pub(crate) fn wanted(&self) -> Wanted {
        Wanted::of(&RedactionKey::new([7; 32]), [&**self.declares.borrow()].into_iter())
    }

    pub(crate) async fn next(&mut self) -> Told {
        let change = completes("something is told", self.changes.recv()).await;
        match change.expect("it goes on") {
            Event::Baseline(baseline) => Told::Baseline(baseline),
            Event::BaselineRemoved(_, name) => Told::Gone(name.to_string()),
            Event::SourceHealth(_, health) => Told::Source(health),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn baseline(&mut self) -> Arc<Baseline> {
        match self.next().await {
            Told::Baseline(baseline) => baseline,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn up(&mut self) {
        match self.next().await {
            Told::Source(WatchHealth::Up) => {}
            other => panic!("{other:?}"),
        }
    }

    /// Nothing is told for so long.
    pub(crate) async fn silent(&mut self, seconds: u64) {
        let told = timeout(Duration::from_secs(seconds), self.changes.recv()).await;
        assert!(told.is_err(), "{told:?}");
    }
}
