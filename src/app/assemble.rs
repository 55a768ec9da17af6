//! Wires the parts of an exporter; [`Ingest::run`] starts them.

use std::{fmt, future, sync::Arc, time::Duration};

use prometheus_client::registry::Registry;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::{
    ExporterDeps, SettingsHandle,
    config_reconciler::{
        ConfigOutputs, ConfigReconciler, ReloadReporter, TeamRuleReader, decode_config, manifest_sources,
        release_sources, state_sources, wanted_kinds,
    },
};
use crate::{
    config::{ManifestLocations, ReleaseLocations, Settings, StateLocations},
    diff::manifest::ClusterSchemas,
    engine::{self, EVENT_QUEUE_CAPACITY, Engine, EngineMetrics, History, SnapshotPublisher},
    rules::RuleSet,
    server::{BlockingPool, EventStreamLimit, Exposed, MetricsPage, build_info, process_metrics},
    sources::{KindRequirements, SourceContext, SourceDeclarations, helm, manifest, terraform},
    types::{Clock, Event, WantedKind, WatchPlan},
    watch::{DecodeConfig, Planner, SchemaReader, WatchDeps, WatchMetrics, run_watchers},
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
    config: ConfigPipeline,
    sources: SourceReaders,
    planner: Planner,
    plans: watch::Receiver<Arc<WatchPlan>>,
    schema_reader: SchemaReader,
    schemas: watch::Receiver<Arc<ClusterSchemas>>,
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
    let first = &deps.settings;
    let (client, clock, timing) = (&deps.client, &deps.clock, deps.timing);
    let (handle, settings) = SettingsHandle::new(first.clone());
    let (event_sender, events) = mpsc::channel(EVENT_QUEUE_CAPACITY);
    let (config, sources) = ConfigPipeline::new(deps, &settings, &event_sender);
    let (planner, plans) = Planner::new(client.clone(), timing, &config.kinds.borrow());
    let plan = plans.borrow().clone();
    let engine =
        Engine::new(&plan, first.rules.clone(), &first.sources, history, engine_metrics, clock.clone());
    let (publisher, state) = engine::snapshot_channel(engine.snapshot());
    let exposed = Exposed {
        state,
        metrics: MetricsPage::new(registry),
        blocking: BlockingPool::new(|work| drop(tokio::task::spawn_blocking(work))),
        settings,
        reload_status: reload_reporter.status(),
        team_problems: config.team_problems.clone(),
        log: deps.log.lines().clone(),
        redaction_key: deps.redaction_key.clone(),
        clock: clock.clone(),
        listeners: EventStreamLimit::default(),
        auth: deps.auth.clone(),
        stop: deps.stop.clone(),
    };
    let (schema_reader, schema_requests, schemas) = SchemaReader::new(client.clone(), timing);
    let watch_deps = WatchDeps {
        client: client.clone(),
        events: event_sender,
        metrics: watch_metrics,
        config: timing,
        schemas: schema_requests,
    };
    let ingest = Ingest {
        config,
        sources,
        planner,
        plans,
        schema_reader,
        schemas,
        watch_deps,
        events,
        engine,
        publisher,
        clock: clock.clone(),
        stop: deps.stop.clone(),
    };
    Exporter { ingest, exposed: Arc::new(exposed), settings: handle, reload_reporter }
}

/// The config reconciler with its inputs, and the receivers of the config that it derives.
struct ConfigPipeline {
    team_rule_reader: TeamRuleReader,
    reconciler: ConfigReconciler,
    /// The objects that each source declares, once it has been read.
    declared: Vec<watch::Receiver<Arc<SourceDeclarations>>>,
    kinds: watch::Receiver<Arc<Vec<WantedKind>>>,
    rules: watch::Receiver<Arc<RuleSet>>,
    decode: watch::Receiver<Arc<DecodeConfig>>,
    team_problems: watch::Receiver<Arc<[String]>>,
}

impl ConfigPipeline {
    fn new(
        deps: &ExporterDeps,
        settings: &watch::Receiver<Arc<Settings>>,
        events: &mpsc::Sender<Event>,
    ) -> (Self, SourceReaders) {
        let first = &deps.settings;
        let no_declared = KindRequirements::default();
        let first_decode = decode_config(first, &first.rules, &no_declared, &deps.redaction_key);
        let (teams_sender, teams) = watch::channel(Arc::default());
        let outputs = ConfigOutputs {
            rules: watch::Sender::new(first.rules.clone()),
            decode: watch::Sender::new(Arc::new(first_decode)),
            kinds: watch::Sender::new(Arc::new(wanted_kinds(first, &no_declared))),
            terraform: watch::Sender::new(Arc::new(state_sources(first))),
            helm: watch::Sender::new(Arc::new(release_sources(first))),
            manifest: watch::Sender::new(Arc::new(manifest_sources(first))),
            team_problems: watch::Sender::default(),
        };
        let sources = SourceReaders {
            terraform: source_context(deps, events, outputs.terraform.subscribe()),
            helm: source_context(deps, events, outputs.helm.subscribe()),
            manifest: source_context(deps, events, outputs.manifest.subscribe()),
        };
        let declared = vec![
            sources.terraform.declarations.subscribe(),
            sources.helm.declarations.subscribe(),
            sources.manifest.declarations.subscribe(),
        ];
        let (kinds, rules) = (outputs.kinds.subscribe(), outputs.rules.subscribe());
        let (decode, team_problems) = (outputs.decode.subscribe(), outputs.team_problems.subscribe());
        let (client, redaction_key) = (deps.client.clone(), deps.redaction_key.clone());
        let pipeline = Self {
            team_rule_reader: TeamRuleReader { client, settings: settings.clone(), teams: teams_sender },
            reconciler: ConfigReconciler::new(
                settings.clone(),
                teams,
                declared.clone(),
                redaction_key,
                outputs,
            ),
            declared,
            kinds,
            rules,
            decode,
            team_problems,
        };
        (pipeline, sources)
    }
}

/// The readers of desired state that is not stored on the objects.
struct SourceReaders {
    terraform: SourceContext<StateLocations>,
    helm: SourceContext<ReleaseLocations>,
    manifest: SourceContext<ManifestLocations>,
}

impl SourceReaders {
    async fn run(self) {
        let Self { terraform, helm, manifest } = self;
        tokio::join!(terraform::run(terraform), helm::run(helm), manifest::run(manifest));
    }
}

fn source_context<S>(
    deps: &ExporterDeps,
    events: &mpsc::Sender<Event>,
    sources: watch::Receiver<Arc<S>>,
) -> SourceContext<S> {
    SourceContext {
        client: deps.client.clone(),
        settings: sources,
        events: events.clone(),
        declarations: watch::Sender::default(),
        clock: deps.clock.clone(),
        watch_mode: deps.timing.mode,
        key: deps.redaction_key.clone(),
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
        let mut declared = self.config.declared.clone();
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
        let ConfigPipeline { team_rule_reader, mut reconciler, kinds, rules, decode, .. } = self.config;
        tokio::select! {
            () = team_rule_reader.read_first() => reconciler.reconcile(),
            () = self.stop.cancelled() => return,
        }
        let ticks = send_ticks(self.watch_deps.events.clone());
        let engine = engine::run(self.engine, self.events, rules, self.schemas, self.publisher, self.clock);
        let watching = async {
            after.await;
            reconciler.reconcile();
            let planning = self.planner.run(kinds, Vec::clone);
            let watches = run_watchers(self.plans, decode, self.watch_deps);
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
