//! A task that follows states, releases or manifests, and all that it tells.

use std::{sync::Arc, time::Duration};

use drift_exporter::{
    sources::{
        KindRequirements, SourceContext, SourceDeclarations,
        helm::{self, ReleaseLocations},
        manifest::{self, ManifestLocations},
        terraform::{self, StateLocations},
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
pub(crate) struct Followed<S = StateLocations> {
    pub(crate) sources: watch::Sender<Arc<S>>,
    pub(crate) changes: mpsc::Receiver<Event>,
    pub(crate) declares: watch::Receiver<Arc<SourceDeclarations>>,
}

/// What was told, in a few words.
#[derive(Debug)]
pub(crate) enum Told {
    Baseline(Arc<Baseline>),
    Gone(String),
    Source(WatchHealth),
}

impl Followed<StateLocations> {
    pub(crate) fn start(server: &StateServer, sources: StateLocations) -> Self {
        let (followed, follow) = Self::new(server, sources);
        tokio::spawn(terraform::run(follow));
        followed
    }
}

impl Followed<ReleaseLocations> {
    pub(crate) fn start_releases(server: &StateServer, sources: ReleaseLocations) -> Self {
        Self::look_at_releases(server, sources, WatchMode::Continuous)
    }

    /// The same by those who may look but once.
    pub(crate) fn look_at_releases(server: &StateServer, sources: ReleaseLocations, look: WatchMode) -> Self {
        let (followed, follow) = Self::new(server, sources);
        tokio::spawn(helm::run(SourceContext { watch_mode: look, ..follow }));
        followed
    }
}

impl Followed<ManifestLocations> {
    pub(crate) fn start_manifests(server: &StateServer, sources: ManifestLocations) -> Self {
        let (followed, follow) = Self::new(server, sources);
        tokio::spawn(manifest::run(follow));
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
            settings: receiver,
            events: changes,
            declarations: declares,
            clock,
            watch_mode: WatchMode::Continuous,
            key,
        };
        (Self { sources: sender, changes: told, declares: read }, follow)
    }

    /// What has to be watched for what is declared.
    pub(crate) fn wanted(&self) -> KindRequirements {
        KindRequirements::from_declarations(
            &RedactionKey::new([7; 32]),
            [&**self.declares.borrow()].into_iter(),
        )
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
