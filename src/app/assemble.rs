//! Wires the parts of an exporter; [`Ingest::run`] starts them.

use std::{fmt, future, sync::Arc, time::Duration};

use prometheus_client::registry::Registry;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::{
    ExporterDeps, SettingsHandle,
    config_reconciler::{ConfigInputs, ConfigReconciler},
    settings_reload::ReloadReporter,
    team_rules::TeamRuleReader,
};
use crate::{
    config::RuntimeConfig,
    engine::{self, EVENT_QUEUE_CAPACITY, Engine, EngineMetrics, History, SnapshotPublisher},
    event::Event,
    server::{BlockingPool, EventStreamLimit, Exposed, MetricsPage, build_info, process_metrics},
    sources::{DecodeSlots, SourceContext, helm, manifest, terraform},
    types::Clock,
    watch::{PlannedWatches, Planner, SchemaReader, WatchDeps, WatchMetrics, run_watchers},
};

/// A wired exporter that does not run yet.
#[derive(Debug)]
pub struct Exporter {
    /// The part that reads from the API server and reconciles.
    pub ingest: Ingest,
    /// The part that HTTP handlers read from.
    pub exposed: Arc<Exposed>,
    pub settings: SettingsHandle,
    pub reload_reporter: ReloadReporter,
}

pub struct Ingest {
    config: watch::Receiver<Arc<RuntimeConfig>>,
    team_rule_reader: TeamRuleReader,
    reconciler: ConfigReconciler,
    sources: SourceReaders,
    planner: Planner,
    plans: watch::Receiver<PlannedWatches>,
    schema_reader: SchemaReader,
    watch_deps: WatchDeps,
    events: mpsc::Receiver<Event>,
    engine: Engine,
    publisher: SnapshotPublisher,
    clock: Clock,
    stop: CancellationToken,
}

pub fn assemble(deps: &ExporterDeps, history: History) -> Exporter {
    let mut registry = Registry::default();
    let engine_metrics = EngineMetrics::register(&mut registry);
    let watch_metrics = WatchMetrics::register(&mut registry, deps.clock.clone());
    let reload_reporter = ReloadReporter::new(deps.settings_source.as_ref(), &mut registry, &deps.clock);
    build_info(&mut registry);
    process_metrics(&mut registry);
    let (first, client, clock, timing) = (&deps.settings, &deps.client, &deps.clock, deps.timing);
    let (event_sender, events) = mpsc::channel(EVENT_QUEUE_CAPACITY);
    let (config_sender, config) = watch::channel(Arc::new(RuntimeConfig::new(first.clone())));
    let sources = SourceReaders::new(deps, &config, &event_sender);
    let (team_rule_reader, teams) = TeamRuleReader::new(client.clone(), config.clone());
    let reconciler = ConfigReconciler::new(ConfigInputs {
        config: config_sender.clone(),
        teams,
        declared: sources.all().map(|source| source.declarations.subscribe()).into(),
        redaction_key: deps.redaction_key.clone(),
        events: event_sender.clone(),
    });
    let (planner, plans) = Planner::new(client.clone(), timing, &config.borrow().watch);
    let (engine_config, plan) = (reconciler.engine_config().clone(), plans.borrow().plan.clone());
    let engine = Engine::new(&plan, engine_config, history, engine_metrics, clock.clone());
    let (publisher, state) = engine::snapshot_channel(engine.snapshot());
    let exposed = Exposed {
        state,
        metrics: MetricsPage::new(registry),
        blocking: BlockingPool::new(|work| drop(tokio::task::spawn_blocking(work))),
        config: config.clone(),
        reload_status: reload_reporter.status(),
        log: deps.log.lines().clone(),
        redaction_key: deps.redaction_key.clone(),
        clock: clock.clone(),
        listeners: EventStreamLimit::default(),
        auth: deps.auth.clone(),
        stop: deps.stop.clone(),
    };
    let (schema_reader, schema_requests) = SchemaReader::new(client.clone(), timing, event_sender.clone());
    let (client, schemas) = (client.clone(), schema_requests);
    let watch_deps =
        WatchDeps { client, events: event_sender, metrics: watch_metrics, config: timing, schemas };
    let ingest = Ingest {
        team_rule_reader,
        config,
        reconciler,
        sources,
        planner,
        plans,
        schema_reader,
        watch_deps,
        events,
        engine,
        publisher,
        clock: clock.clone(),
        stop: deps.stop.clone(),
    };
    Exporter {
        ingest,
        exposed: Arc::new(exposed),
        settings: SettingsHandle::new(config_sender),
        reload_reporter,
    }
}

/// The readers of desired state that is not stored on the objects.
struct SourceReaders {
    terraform: SourceContext,
    helm: SourceContext,
    manifest: SourceContext,
}

impl SourceReaders {
    fn new(
        deps: &ExporterDeps,
        config: &watch::Receiver<Arc<RuntimeConfig>>,
        events: &mpsc::Sender<Event>,
    ) -> Self {
        let decode_slots = DecodeSlots::default();
        let context = || SourceContext {
            client: deps.client.clone(),
            config: config.clone(),
            events: events.clone(),
            declarations: watch::Sender::default(),
            clock: deps.clock.clone(),
            watch_mode: deps.timing.mode,
            decode_slots: decode_slots.clone(),
            key: deps.redaction_key.clone(),
        };
        Self { terraform: context(), helm: context(), manifest: context() }
    }

    fn all(&self) -> [&SourceContext; 3] {
        [&self.terraform, &self.helm, &self.manifest]
    }

    async fn run(self) {
        let Self { terraform, helm, manifest } = self;
        tokio::join!(terraform::run(terraform), helm::run(helm), manifest::run(manifest));
    }
}

impl fmt::Debug for Ingest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Ingest").finish_non_exhaustive()
    }
}

impl Ingest {
    /// Watches the cluster until `stop` is cancelled.
    pub async fn run(self) {
        Box::pin(self.run_after(future::ready(()))).await;
    }

    /// The same, but reads all sources before the first list: each object is listed once, with all fields
    /// that are declared. The first results are later, and the complete result is earlier.
    pub(super) async fn run_sources_first(self) {
        let mut declared = self.sources.all().map(|source| source.declarations.subscribe());
        let sources_read = async move {
            for source in &mut declared {
                // Fails only if the source's task has ended, and then everything ends.
                let _ = source.changed().await;
            }
        };
        Box::pin(self.run_after(sources_read)).await;
    }

    /// The first list starts `after` this.
    async fn run_after(self, after: impl Future<Output = ()>) {
        let (team_rule_reader, mut reconciler) = (self.team_rule_reader, self.reconciler);
        tokio::select! {
            () = team_rule_reader.read_first() => reconciler.reconcile().await,
            () = self.stop.cancelled() => return,
        }
        let ticks = send_ticks(self.watch_deps.events.clone());
        let engine = engine::run(self.engine, self.events, self.publisher, self.clock);
        let watching = async {
            after.await;
            reconciler.reconcile().await;
            let planning = self.planner.run(self.config, |config: &RuntimeConfig| &config.watch);
            let watches = run_watchers(self.plans, self.watch_deps);
            tokio::join!(team_rule_reader.run(), reconciler.run(), planning, watches)
        };
        tokio::select! {
            () = engine => {}
            _ = async { tokio::join!(watching, self.schema_reader.run(), ticks, self.sources.run()) } => {}
            () = self.stop.cancelled() => {}
        }
    }
}

/// Sends a tick every second: the engine expires grace periods, locks and rules, and updates its heartbeat.
async fn send_ticks(events: mpsc::Sender<Event>) {
    let mut interval = tokio::time::interval(Duration::from_secs(1));
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        if events.send(Event::Tick).await.is_err() {
            return;
        }
    }
}
