//! A running source of baselines (states, releases or manifests) and the events that it sends.

use std::{sync::Arc, time::Duration};

use drift_exporter::{
    config::{RuntimeConfig, Settings},
    event::Event,
    sources::{DecodeSlots, KindRequirements, SourceContext, SourceDeclarations, helm, manifest, terraform},
    types::{Baseline, Clock, RedactionKey, SyncHealth, WatchMode},
};
use jiff::{SignedDuration, Timestamp};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, timeout},
};

use super::api_server::ApiServer;
use super::wait::completes;

pub const START: &str = "2026-01-01T12:00:00Z";

pub fn start() -> Timestamp {
    START.parse().unwrap()
}

/// A running source and the events that it sends.
pub struct SourceFixture {
    config: watch::Sender<Arc<RuntimeConfig>>,
    pub events: mpsc::Receiver<Event>,
    pub declarations: watch::Receiver<Arc<SourceDeclarations>>,
}

#[derive(Debug)]
pub enum SourceEvent {
    Baseline(Arc<Baseline>),
    Removed(String),
    Health(SyncHealth),
}

impl SourceFixture {
    /// Starts the source of Terraform states.
    pub fn start(server: &ApiServer, settings: Settings) -> Self {
        let (source, context) = Self::new(server, settings);
        tokio::spawn(terraform::run(context));
        source
    }

    pub fn start_releases(server: &ApiServer, settings: Settings) -> Self {
        Self::start_releases_with(server, settings, WatchMode::Continuous)
    }

    pub fn start_releases_with(server: &ApiServer, settings: Settings, watch_mode: WatchMode) -> Self {
        let (source, context) = Self::new(server, settings);
        tokio::spawn(helm::run(SourceContext { watch_mode, ..context }));
        source
    }

    pub fn start_manifests(server: &ApiServer, settings: Settings) -> Self {
        let (source, context) = Self::new(server, settings);
        tokio::spawn(manifest::run(context));
        source
    }

    fn new(server: &ApiServer, settings: Settings) -> (Self, SourceContext) {
        let key = RedactionKey::new([7; 32]);
        let (config, config_receiver) = watch::channel(Arc::new(RuntimeConfig::new(settings)));
        let (event_sender, events) = mpsc::channel(1);
        let (declarations, declarations_receiver) = watch::channel(Arc::default());
        let started = Instant::now();
        let clock = Clock::new(move || start() + SignedDuration::try_from(started.elapsed()).unwrap());
        let client = server.client();
        let context = SourceContext {
            client,
            config: config_receiver,
            events: event_sender,
            declarations,
            clock,
            watch_mode: WatchMode::Continuous,
            decode_slots: DecodeSlots::default(),
            key,
        };
        (Self { config, events, declarations: declarations_receiver }, context)
    }

    pub fn set(&self, settings: Settings) {
        self.config.send_replace(Arc::new(RuntimeConfig::new(settings)));
    }

    /// The kinds that the exporter has to watch for the declared objects.
    pub fn requirements(&self) -> KindRequirements {
        KindRequirements::from_declarations(
            &RedactionKey::new([7; 32]),
            [&**self.declarations.borrow()].into_iter(),
        )
    }

    pub async fn next(&mut self) -> SourceEvent {
        let change = completes("an event", self.events.recv()).await;
        match change.expect("the source runs") {
            Event::BaselinesRead(_) => Box::pin(self.next()).await,
            Event::Baseline(baseline) => SourceEvent::Baseline(baseline),
            Event::BaselineRemoved(_, name) => SourceEvent::Removed(name.to_string()),
            Event::SourceHealth(_, health) => SourceEvent::Health(health),
            other => panic!("{other:?}"),
        }
    }

    pub async fn next_baseline(&mut self) -> Arc<Baseline> {
        match self.next().await {
            SourceEvent::Baseline(baseline) => baseline,
            other => panic!("{other:?}"),
        }
    }

    pub async fn expect_up(&mut self) {
        match self.next().await {
            SourceEvent::Health(SyncHealth::Up) => {}
            other => panic!("{other:?}"),
        }
    }

    pub async fn expect_no_event(&mut self, seconds: u64) {
        let event = timeout(Duration::from_secs(seconds), self.events.recv()).await;
        assert!(event.is_err(), "{event:?}");
    }
}
