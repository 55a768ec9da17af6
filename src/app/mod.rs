//! Wiring: who is connected to whom.

mod announce;
pub mod demo;
mod events;
mod follower;
mod history_file;
pub mod telemetry;

use std::{path::PathBuf, sync::Arc, time::Duration};

use kube::Client;
use prometheus_client::registry::Registry;
use tokio::{net::TcpListener, sync::mpsc, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use tracing::info;

use self::follower::Follower;
use crate::{
    expose::{
        Exposed, Listeners, MetricsOptions, MetricsPage, ServerLimits, build_info, process_metrics, router,
        serve,
    },
    model::{Change, Clock, StreamSpec},
    settings::Settings,
    state::{self, Engine, EngineMetrics, History, QUEUE, StatePublisher, StateReader},
    watch::{StreamParts, Timing, WatchMetrics, follow},
};

/// Everything that the exporter gets from outside.
pub struct Parts {
    /// The connection to the API server.
    pub client: Client,
    /// What to do.
    pub settings: Settings,
    /// The time.
    pub clock: Clock,
    /// How long streams wait for what.
    pub timing: Timing,
    /// Whether a Warning Event is written for each episode: the one thing that writes to the cluster.
    pub events: bool,
    /// Where transitions are kept across restarts.
    pub history_file: Option<PathBuf>,
    /// Ends everything.
    pub stop: CancellationToken,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Parts").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// The exporter could not start, or could not go on.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The history file cannot be used.
    #[error("cannot use history file {path}: {source}")]
    History {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: std::io::Error,
    },
    /// A thread could not be started.
    #[error("cannot start the thread that watches the cluster: {0}")]
    Thread(std::io::Error),
    /// The demo's cluster could not be made.
    #[error("cannot set up the demo's cluster: {0}")]
    Demo(String),
    /// The engine ended by itself, which it never should.
    #[error("the engine has stopped unexpectedly; its reason is in the log above")]
    EngineStopped,
}

/// The two halves of an exporter: what takes in, and what shows.
#[derive(Debug)]
pub struct Exporter {
    /// Takes in what the API server says.
    pub ingest: Ingest,
    /// Shows what is known.
    pub exposed: Arc<Exposed>,
}

/// Streams and engine, ready to run.
#[derive(Debug)]
pub struct Ingest {
    streams: Vec<Arc<StreamSpec>>,
    parts: StreamParts,
    queue: mpsc::Receiver<Change>,
    engine: Engine,
    publisher: StatePublisher,
    clock: Clock,
    stop: CancellationToken,
}

/// Connects the parts; nothing runs yet.
pub fn assemble(parts: &Parts, history: History) -> Exporter {
    let mut registry = Registry::default();
    let engine_metrics = EngineMetrics::register(&mut registry);
    let watch_metrics = WatchMetrics::register(&mut registry, parts.clock.clone());
    build_info(&mut registry);
    process_metrics(&mut registry);
    let settings = parts.settings.clone();
    let streams = settings.streams();
    let engine = Engine::new(&streams, &settings.sources, history, engine_metrics, parts.clock.clone());
    let (publisher, state) = state::state_channel(engine.snapshot());
    let (changes, queue) = mpsc::channel(QUEUE);
    let stream_parts = StreamParts {
        client: parts.client.clone(),
        annotation_prefix: settings.annotation_prefix.clone(),
        label_names: engine.snapshot().rules.set().label_names(),
        changes,
        metrics: watch_metrics,
        timing: parts.timing,
    };
    let options = MetricsOptions {
        max_series: settings.max_series,
        only_drifted: settings.only_drifted,
        health: settings.health_series,
    };
    let exposed = Exposed {
        state,
        metrics: MetricsPage::new(registry, options),
        settings,
        clock: parts.clock.clone(),
        listeners: Listeners::default(),
        stop: parts.stop.clone(),
    };
    let ingest = Ingest {
        streams,
        parts: stream_parts,
        queue,
        engine,
        publisher,
        clock: parts.clock.clone(),
        stop: parts.stop.clone(),
    };
    Exporter { ingest, exposed: Arc::new(exposed) }
}

impl Ingest {
    /// Where changes go in that no stream brings, such as new rules.
    pub fn changes(&self) -> mpsc::Sender<Change> {
        self.parts.changes.clone()
    }

    /// Follows the API server until told to stop.
    pub async fn run(self) {
        let ticks = tick(self.parts.changes.clone());
        let follow = follow(self.streams, self.parts);
        let engine = state::run(self.engine, self.queue, self.publisher, self.clock);
        tokio::select! {
            () = engine => {}
            ((), ()) = async { tokio::join!(follow, ticks) } => {}
            () = self.stop.cancelled() => {}
        }
    }
}

/// Tells the engine every second that time passes: it expires what is old, and shows that it is alive.
async fn tick(changes: mpsc::Sender<Change>) {
    let mut interval = tokio::time::interval(Duration::from_secs(1));
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        if changes.send(Change::Tick).await.is_err() {
            return;
        }
    }
}

/// Runs the exporter until it is told to stop.
pub async fn run(parts: Parts, listener: TcpListener) -> Result<(), AppError> {
    start(&parts, listener)?.wait().await
}

/// An exporter that runs.
struct Running {
    state: StateReader,
    ingest: tokio::sync::oneshot::Receiver<()>,
    server: JoinHandle<()>,
    keepers: Vec<JoinHandle<()>>,
    stop: CancellationToken,
}

fn start(parts: &Parts, listener: TcpListener) -> Result<Running, AppError> {
    let (history, file) = match &parts.history_file {
        Some(path) => {
            let wrong = |source| AppError::History { path: path.clone(), source };
            let (history, file) = history_file::open(path).map_err(wrong)?;
            (history, Some(file))
        }
        None => (History::default(), None),
    };
    let restored = history.last_sequence();
    let Exporter { ingest, exposed } = assemble(parts, history);
    if let Ok(address) = listener.local_addr() {
        info!(%address, "Serving /metrics.");
    }
    for stream in parts.settings.streams() {
        let selector = stream.selector.as_deref().unwrap_or("");
        info!(%stream, selector, "Watching.");
    }
    let ingest = spawn_ingest(ingest)?;
    let keepers = spawn_keepers(parts, &exposed.state, restored, file);
    let (state, stop) = (exposed.state.clone(), parts.stop.clone());
    let server = tokio::spawn(serve(listener, router(exposed), ServerLimits::default(), stop.clone()));
    Ok(Running { state, ingest, server, keepers, stop })
}

impl Running {
    async fn wait(self) -> Result<(), AppError> {
        let _ = tokio::select! {
            ended = self.ingest => ended,
            () = self.stop.cancelled() => Ok(()),
        };
        let unexpected = !self.stop.is_cancelled();
        self.stop.cancel();
        let _ = self.server.await;
        for keeper in self.keepers {
            let _ = keeper.await;
        }
        if unexpected { Err(AppError::EngineStopped) } else { Ok(()) }
    }
}

/// The watch side runs on one thread of its own: handing each object to another thread costs half as much again.
fn spawn_ingest(ingest: Ingest) -> Result<tokio::sync::oneshot::Receiver<()>, AppError> {
    let (done, ended) = tokio::sync::oneshot::channel();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(AppError::Thread)?;
    std::thread::Builder::new()
        .name("watch".to_owned())
        .spawn(move || {
            runtime.block_on(ingest.run());
            let _ = done.send(());
        })
        .map_err(AppError::Thread)?;
    Ok(ended)
}

/// Starts the tasks that follow the history: one tells the log, one writes Events, one writes the file.
fn spawn_keepers(
    parts: &Parts,
    state: &StateReader,
    restored: u64,
    file: Option<history_file::HistoryFile>,
) -> Vec<JoinHandle<()>> {
    let follower = || Follower { state: state.clone(), seen: restored, stop: parts.stop.clone() };
    let mut keepers = vec![tokio::spawn(announce::announce(follower()))];
    if parts.events {
        keepers.push(tokio::spawn(events::publish(parts.client.clone(), follower())));
    }
    if let Some(file) = file {
        keepers.push(tokio::spawn(file.follow(state.clone(), parts.stop.clone())));
    }
    keepers
}
