//! Connects the parts of an exporter; nothing runs yet.

use std::{sync::Arc, time::Duration};

use prometheus_client::registry::Registry;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::{
    Parts, SettingsHandle,
    config_reconciler::{
        Outputs, Reloads, RuleKeeper, TeamReader, manifest_sources, reading, release_sources, state_sources,
        wanted_kinds,
    },
};
use crate::{
    config::Settings,
    diff::declared::ClusterSchemas,
    engine::{self, Engine, EngineMetrics, History, QUEUE, StatePublisher},
    rules::RuleSet,
    server::{Exposed, Listeners, MetricsPage, build_info, process_metrics},
    sources::{
        Declares, SourceContext, Wanted,
        helm::{self, ReleaseSources},
        manifest::{self, ManifestSources},
        terraform::{self, StateSources},
    },
    types::{Clock, Event, Plan, WantedKind},
    watch::{DecodeConfig, Planner, SchemaReader, WatchDeps, WatchMetrics, follow},
};

/// The two halves of an exporter: what takes in, and what shows.
#[derive(Debug)]
pub struct Exporter {
    /// Takes in what the API server says.
    pub ingest: Ingest,
    /// Shows what is known.
    pub exposed: Arc<Exposed>,
    /// Changes what it was told to do.
    pub settings: SettingsHandle,
    /// Where is told how the reading of settings went.
    pub reloads: Reloads,
}

/// Streams and engine, ready to run.
#[derive(Debug)]
pub struct Ingest {
    keepers: Keepers,
    planner: Planner,
    plans: watch::Receiver<Arc<Plan>>,
    schema_reader: SchemaReader,
    shapes: watch::Receiver<Arc<ClusterSchemas>>,
    parts: WatchDeps,
    queue: mpsc::Receiver<Event>,
    engine: Engine,
    publisher: StatePublisher,
    clock: Clock,
    stop: CancellationToken,
}

/// Those who keep rules, and what is watched and read, as settings, teams and states say; and what they give out.
#[derive(Debug)]
struct Keepers {
    team_reader: TeamReader,
    rule_keeper: RuleKeeper,
    readers: Readers,
    /// What each source declares, once it has been read.
    declared: Vec<watch::Receiver<Arc<Declares>>>,
    kinds: watch::Receiver<Arc<Vec<WantedKind>>>,
    rules: watch::Receiver<Arc<RuleSet>>,
    readings: watch::Receiver<Arc<DecodeConfig>>,
    team_problems: watch::Receiver<Arc<[String]>>,
}

/// Connects the parts; nothing runs yet.
pub fn assemble(parts: &Parts, history: History) -> Exporter {
    let mut registry = Registry::default();
    let engine_metrics = EngineMetrics::register(&mut registry);
    let watch_metrics = WatchMetrics::register(&mut registry, parts.clock.clone());
    let reloads = Reloads::new(parts.settings_source.as_ref(), &mut registry, &parts.clock);
    build_info(&mut registry);
    process_metrics(&mut registry);
    let first = &parts.settings;
    let (client, clock, stop) = (&parts.client, &parts.clock, &parts.stop);
    let (handle, settings) = SettingsHandle::new(first.clone());
    let (changes, queue) = mpsc::channel(QUEUE);
    let keepers = Keepers::new(parts, &settings, &changes);
    let (planner, plans) = Planner::new(client.clone(), parts.timing, &keepers.kinds.borrow());
    let plan = plans.borrow().clone();
    let engine =
        Engine::new(&plan, first.rules.clone(), &first.sources, history, engine_metrics, clock.clone());
    let (publisher, state) = engine::state_channel(engine.snapshot());
    let exposed = Exposed {
        state,
        metrics: MetricsPage::new(registry),
        settings,
        reload_status: reloads.status(),
        team_problems: keepers.team_problems.clone(),
        log: parts.log.lines().clone(),
        seal_key: parts.seal_key.clone(),
        clock: clock.clone(),
        listeners: Listeners::default(),
        auth: parts.auth.clone(),
        stop: stop.clone(),
    };
    let timing = parts.timing;
    let (schema_reader, schemas, shapes) = SchemaReader::new(client.clone(), timing);
    let stream_parts = WatchDeps { client: client.clone(), changes, metrics: watch_metrics, timing, schemas };
    let ingest = Ingest {
        keepers,
        planner,
        plans,
        schema_reader,
        shapes,
        parts: stream_parts,
        queue,
        engine,
        publisher,
        clock: clock.clone(),
        stop: stop.clone(),
    };
    Exporter { ingest, exposed: Arc::new(exposed), settings: handle, reloads }
}

impl Keepers {
    fn new(parts: &Parts, settings: &watch::Receiver<Arc<Settings>>, changes: &mpsc::Sender<Event>) -> Self {
        let (first, client) = (&parts.settings, &parts.client);
        let nothing = Wanted::default();
        let (rules_in, rules) = watch::channel(first.rules.clone());
        let (readings_in, readings) =
            watch::channel(Arc::new(reading(first, &first.rules, &nothing, &parts.seal_key)));
        let (kinds_in, kinds) = watch::channel(Arc::new(wanted_kinds(first, &nothing)));
        let (states_in, states) = watch::channel(Arc::new(state_sources(first)));
        let (releases_in, releases) = watch::channel(Arc::new(release_sources(first)));
        let (manifests_in, manifests) = watch::channel(Arc::new(manifest_sources(first)));
        let (teams_in, teams) = watch::channel(Arc::default());
        let (problems_in, team_problems) = watch::channel(Arc::default());
        let outputs = Outputs {
            rules: rules_in,
            readings: readings_in,
            kinds: kinds_in,
            states: states_in,
            releases: releases_in,
            manifests: manifests_in,
            problems: problems_in,
        };
        let (readers, declared) = Readers::new(parts, changes, states, releases, manifests);
        Self {
            team_reader: TeamReader { client: client.clone(), settings: settings.clone(), teams: teams_in },
            rule_keeper: RuleKeeper::new(
                settings.clone(),
                teams,
                declared.clone(),
                parts.seal_key.clone(),
                outputs,
            ),
            readers,
            declared,
            kinds,
            rules,
            readings,
            team_problems,
        }
    }
}

/// Those who read what is declared elsewhere than on the objects.
#[derive(Debug)]
struct Readers {
    states: SourceContext<StateSources>,
    releases: SourceContext<ReleaseSources>,
    manifests: SourceContext<ManifestSources>,
}

impl Readers {
    /// One of each source, and where each tells what is declared.
    fn new(
        parts: &Parts,
        changes: &mpsc::Sender<Event>,
        states: watch::Receiver<Arc<StateSources>>,
        releases: watch::Receiver<Arc<ReleaseSources>>,
        manifests: watch::Receiver<Arc<ManifestSources>>,
    ) -> (Self, Vec<watch::Receiver<Arc<Declares>>>) {
        let told = [(); 3].map(|()| watch::channel(Arc::default()));
        let declared = told.iter().map(|(_, receiver)| receiver.clone()).collect();
        let [by_states, by_releases, by_manifests] = told.map(|(sender, _)| sender);
        let readers = Self {
            states: reader(parts, changes, states, by_states),
            releases: reader(parts, changes, releases, by_releases),
            manifests: reader(parts, changes, manifests, by_manifests),
        };
        (readers, declared)
    }

    /// Follows what is declared until nobody listens.
    async fn run(self) {
        let Self { states, releases, manifests } = self;
        tokio::join!(terraform::follow(states), helm::follow(releases), manifest::follow(manifests));
    }
}

/// What a reader gets: whom to ask where, and whom to tell.
fn reader<S>(
    parts: &Parts,
    changes: &mpsc::Sender<Event>,
    sources: watch::Receiver<Arc<S>>,
    declares: watch::Sender<Arc<Declares>>,
) -> SourceContext<S> {
    let (client, clock, key) = (parts.client.clone(), parts.clock.clone(), parts.seal_key.clone());
    let look = parts.timing.look;
    SourceContext { client, sources, changes: changes.clone(), declares, clock, look, key }
}

impl Ingest {
    /// Follows the API server until told to stop.
    pub async fn run(self) {
        Box::pin(self.run_after(std::future::ready(()))).await;
    }

    /// The same in turn: first all that is declared is read, and then what is there is listed, each object once. Nothing is known
    /// earlier for it, but everything is known soonest.
    pub async fn run_in_turn(self) {
        let mut declared = self.keepers.declared.clone();
        let read = async move {
            for own in &mut declared {
                // It fails only when nobody reads any more, and then everything ends.
                let _ = own.changed().await;
            }
        };
        Box::pin(self.run_after(read)).await;
    }

    /// Follows the API server until told to stop. Objects are listed `after` something.
    async fn run_after(self, after: impl Future<Output = ()>) {
        let Keepers { team_reader, mut rule_keeper, readers, kinds, rules, readings, .. } = self.keepers;
        tokio::select! {
            () = team_reader.first() => rule_keeper.renew(),
            () = self.stop.cancelled() => return,
        }
        let ticks = tick(self.parts.changes.clone());
        let schemas = self.schema_reader.run();
        let engine = engine::run(self.engine, self.queue, rules, self.shapes, self.publisher, self.clock);
        let (ready, begin) = oneshot::channel();
        let rules = async {
            after.await;
            rule_keeper.renew();
            let _ = ready.send(());
            tokio::join!(team_reader.run(), rule_keeper.run())
        };
        let listing = async {
            let _ = begin.await;
            let planning = self.planner.run(kinds, Vec::clone);
            tokio::join!(planning, follow(self.plans, readings, self.parts))
        };
        tokio::select! {
            () = engine => {}
            _ = async { tokio::join!(rules, listing, schemas, ticks, readers.run()) } => {}
            () = self.stop.cancelled() => {}
        }
    }
}

/// Tells the engine every second that time passes: it expires what is old, and shows that it is alive.
async fn tick(changes: mpsc::Sender<Event>) {
    let mut interval = tokio::time::interval(Duration::from_secs(1));
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        if changes.send(Event::Tick).await.is_err() {
            return;
        }
    }
}
