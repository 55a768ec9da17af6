//! Runs an exporter: wires its parts, starts its tasks, and waits for their end.

mod assemble;
mod config_reconciler;
mod declared_kinds;
pub mod demo;
mod direct;
mod events;
mod history_file;
mod settings_reload;
mod team_rules;
pub mod telemetry;

use std::{fmt, io, path::PathBuf, sync::Arc, thread};

use kube::Client;
use tokio::{net::TcpListener, runtime, sync::oneshot, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

pub use self::{
    assemble::{Exporter, Ingest, assemble},
    direct::{
        InProcessExporter, MissedNamespaces, ReadableSecrets, SyncProgress, default_settings, limit_sources,
        limit_to_namespace, may_have_namespace, readable_secrets, reads_all_namespaces,
    },
    events::drift_event,
    settings_reload::{SettingsHandle, SettingsSource},
};

use self::{
    events::{TransitionFollower, log_transitions, publish_events},
    history_file::{HistoryFile, HistoryFileError},
    settings_reload::SettingsReloader,
    telemetry::LogHandle,
};
use crate::{
    config::Settings,
    engine::{History, SnapshotReader},
    server::{Auth, Exposed, ServerLimits, health_router, router, serve},
    types::{Clock, RedactionKey},
    watch::WatcherConfig,
};

/// Connections of the health listener. Above it, idle ones are closed.
const HEALTH_CONNECTIONS: usize = 64;

/// Everything that an exporter gets from outside.
pub struct ExporterDeps {
    pub client: Client,
    pub settings: Settings,
    /// The file that the settings are reloaded from.
    pub settings_source: Option<SettingsSource>,
    pub log: LogHandle,
    /// The key of the digests that replace sensitive values.
    pub redaction_key: RedactionKey,
    pub clock: Clock,
    pub timing: WatcherConfig,
    /// Whether each episode creates a Warning Event. The exporter writes nothing else to the cluster.
    pub events: bool,
    pub history_file: Option<PathBuf>,
    pub auth: Auth,
    pub stop: CancellationToken,
}

impl fmt::Debug for ExporterDeps {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ExporterDeps").field("settings", &self.settings).finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum AppError {
    #[error("cannot use history file {path}: {source}")]
    History { path: PathBuf, source: HistoryFileError },
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
    #[error("cannot start logging: {0}")]
    Log(#[from] tracing_subscriber::util::TryInitError),
    #[error(transparent)]
    Demo(#[from] demo::DemoError),
    #[error("the engine stopped unexpectedly; the log above has the reason")]
    EngineStopped,
}

/// The sockets that an exporter serves on.
#[derive(Debug)]
pub struct Listeners {
    pub web: TcpListener,
    /// For probes only, so that no other client can delay them.
    pub health: Option<TcpListener>,
}

/// Runs an exporter until `stop` is cancelled.
pub async fn run(deps: ExporterDeps, listeners: Listeners) -> Result<(), AppError> {
    start(deps, listeners)?.wait().await
}

struct RunningExporter {
    state: SnapshotReader,
    ingest: oneshot::Receiver<()>,
    server: JoinHandle<()>,
    /// The threads that follow the history.
    followers: Vec<oneshot::Receiver<()>>,
    stop: CancellationToken,
    /// Keeps the settings channel open.
    _settings: SettingsHandle,
}

fn start(mut deps: ExporterDeps, listeners: Listeners) -> Result<RunningExporter, AppError> {
    let Listeners { web: listener, health } = listeners;
    let (history, file) = match &deps.history_file {
        Some(path) => {
            let (history, file) =
                HistoryFile::open(path).map_err(|source| AppError::History { path: path.clone(), source })?;
            (history, Some(file))
        }
        None => (History::default(), None),
    };
    let last_sequence = history.last_sequence();
    let Exporter { ingest, exposed, settings, reload_reporter } = assemble(&deps, history);
    if let Ok(address) = listener.local_addr() {
        info!(%address, "Serving /metrics.");
    }
    if let Some(health) = health {
        spawn_health(health, exposed.clone())?;
    }
    let ingest = spawn_thread("watch", ingest.run())?;
    let followers = spawn_followers(&deps, &exposed.state, last_sequence, file)?;
    if let Some(source) = deps.settings_source.take() {
        let reloader = SettingsReloader {
            source,
            settings: settings.clone(),
            reporter: reload_reporter,
            log: deps.log.clone(),
            clock: deps.clock.clone(),
        };
        spawn_thread("settings", reloader.run())?;
    }
    let (state, stop) = (exposed.state.clone(), deps.stop.clone());
    let server =
        tokio::spawn(serve(listener, router(exposed), ServerLimits::default(), deps.auth, stop.clone()));
    Ok(RunningExporter { state, ingest, server, followers, stop, _settings: settings })
}

impl RunningExporter {
    async fn wait(self) -> Result<(), AppError> {
        let _ = tokio::select! {
            ended = self.ingest => ended,
            () = self.stop.cancelled() => Ok(()),
        };
        let unexpected = !self.stop.is_cancelled();
        self.stop.cancel();
        let _ = self.server.await;
        for follower in self.followers {
            let _ = follower.await;
        }
        if unexpected { Err(AppError::EngineStopped) } else { Ok(()) }
    }
}

/// Serves probes on a separate thread, in plain HTTP, because the kubelet verifies no certificate. The thread ends with the
/// process, so `/readyz` returns 503 while running requests finish.
fn spawn_health(listener: TcpListener, exposed: Arc<Exposed>) -> Result<(), AppError> {
    let stop = CancellationToken::new();
    if let Ok(address) = listener.local_addr() {
        info!(%address, "Serving /livez and /readyz.");
    }
    let listener = listener.into_std().map_err(AppError::Thread)?;
    let limits = ServerLimits { connections: HEALTH_CONNECTIONS, ..ServerLimits::default() };
    spawn_thread("health", async move {
        match TcpListener::from_std(listener) {
            Ok(listener) => serve(listener, health_router(exposed), limits, Auth::default(), stop).await,
            Err(error) => error!(%error, "Cannot serve /livez and /readyz."),
        }
    })?;
    Ok(())
}

/// Runs a task on a thread of its own, so that it may block. The receiver reports its end.
fn spawn_thread(
    name: &str,
    task: impl Future<Output = ()> + Send + 'static,
) -> Result<oneshot::Receiver<()>, AppError> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(AppError::Thread)?;
    let (done, ended) = oneshot::channel();
    let run = move || {
        runtime.block_on(task);
        let _ = done.send(());
    };
    thread::Builder::new().name(name.to_owned()).spawn(run).map_err(AppError::Thread)?;
    Ok(ended)
}

/// Starts what follows the history. A blocked log pipe or a slow disk delays nothing else.
fn spawn_followers(
    deps: &ExporterDeps,
    state: &SnapshotReader,
    last_sequence: u64,
    file: Option<HistoryFile>,
) -> Result<Vec<oneshot::Receiver<()>>, AppError> {
    let follower = || TransitionFollower { state: state.clone(), last_sequence, stop: deps.stop.clone() };
    let mut followers = vec![spawn_thread("log", log_transitions(follower()))?];
    if deps.events {
        followers.push(spawn_thread("events", publish_events(deps.client.clone(), follower()))?);
    }
    if let Some(file) = file {
        followers.push(spawn_thread("history", file.run(state.clone(), deps.stop.clone()))?);
    }
    Ok(followers)
}
