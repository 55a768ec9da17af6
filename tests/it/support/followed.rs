//! A running source of baselines (states, releases or manifests) and the events that it sends.

use std::{sync::Arc, time::Duration};

use drift_exporter::{
    config::{ManifestLocations, ReleaseLocations, StateLocations},
    sources::{KindRequirements, SourceContext, SourceDeclarations, helm, manifest, terraform},
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

/// A running source and the events that it sends.
pub(crate) struct SourceFixture<S = StateLocations> {
    pub(crate) settings: watch::Sender<Arc<S>>,
    pub(crate) events: mpsc::Receiver<Event>,
    pub(crate) declarations: watch::Receiver<Arc<SourceDeclarations>>,
}

#[derive(Debug)]
pub(crate) enum SourceEvent {
    Baseline(Arc<Baseline>),
    Removed(String),
    Health(WatchHealth),
}

impl SourceFixture<StateLocations> {
    pub(crate) fn start(server: &StateServer, locations: StateLocations) -> Self {
        let (source, context) = Self::new(server, locations);
        tokio::spawn(terraform::run(context));
        source
    }
}

impl SourceFixture<ReleaseLocations> {
    pub(crate) fn start_releases(server: &StateServer, locations: ReleaseLocations) -> Self {
        Self::start_releases_with(server, locations, WatchMode::Continuous)
    }

    pub(crate) fn start_releases_with(
        server: &StateServer,
        locations: ReleaseLocations,
        watch_mode: WatchMode,
    ) -> Self {
        let (source, context) = Self::new(server, locations);
        tokio::spawn(helm::run(SourceContext { watch_mode, ..context }));
        source
    }
}

impl SourceFixture<ManifestLocations> {
    pub(crate) fn start_manifests(server: &StateServer, locations: ManifestLocations) -> Self {
        let (source, context) = Self::new(server, locations);
        tokio::spawn(manifest::run(context));
        source
    }
}

impl<S> SourceFixture<S> {
    fn new(server: &StateServer, locations: S) -> (Self, SourceContext<S>) {
        let key = RedactionKey::new([7; 32]);
        let (settings, settings_receiver) = watch::channel(Arc::new(locations));
        let (event_sender, events) = mpsc::channel(1);
        let (declarations, declarations_receiver) = watch::channel(Arc::default());
        let started = Instant::now();
        let clock = Clock::new(move || start() + SignedDuration::try_from(started.elapsed()).unwrap());
        let client = server.client();
        let context = SourceContext {
            client,
            settings: settings_receiver,
            events: event_sender,
            declarations,
            clock,
            watch_mode: WatchMode::Continuous,
            key,
        };
        (Self { settings, events, declarations: declarations_receiver }, context)
    }

    /// The kinds that the exporter has to watch for the declared objects.
    pub(crate) fn requirements(&self) -> KindRequirements {
        KindRequirements::from_declarations(
            &RedactionKey::new([7; 32]),
            [&**self.declarations.borrow()].into_iter(),
        )
    }

    pub(crate) async fn next(&mut self) -> SourceEvent {
        let change = completes("an event", self.events.recv()).await;
        match change.expect("the source runs") {
            Event::Baseline(baseline) => SourceEvent::Baseline(baseline),
            Event::BaselineRemoved(_, name) => SourceEvent::Removed(name.to_string()),
            Event::SourceHealth(_, health) => SourceEvent::Health(health),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn next_baseline(&mut self) -> Arc<Baseline> {
        match self.next().await {
            SourceEvent::Baseline(baseline) => baseline,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn expect_up(&mut self) {
        match self.next().await {
            SourceEvent::Health(WatchHealth::Up) => {}
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn expect_no_event(&mut self, seconds: u64) {
        let event = timeout(Duration::from_secs(seconds), self.events.recv()).await;
        assert!(event.is_err(), "{event:?}");
    }
}
