//! Wiring: who is connected to whom.

mod assemble;
mod config_reconciler;
pub mod demo;
mod direct;
mod events;
mod history_file;
pub mod telemetry;

use std::path::PathBuf;

use kube::Client;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use tracing::info;

pub use self::{
    assemble::{Exporter, Ingest, assemble},
    config_reconciler::{SettingsHandle, SettingsSource},
    direct::{
        Direct, Missed, Progress, Readable, has_wide_sources, narrow, narrow_sources, readable_scope,
        usual_settings,
    },
};

use self::{config_reconciler::Reloader, events::Follower, telemetry::LogHandle};
use crate::{
    config::Settings,
    engine::{History, StateReader},
    server::{Auth, ServerLimits, router, serve},
    types::{Clock, RedactionKey},
    watch::Timing,
};

/// Everything that the exporter gets from outside.
pub struct Parts {
    /// The connection to the API server.
    pub client: Client,
    /// What to do.
    pub settings: Settings,
    /// The file that it was read from and that is followed; none where there is none.
    pub settings_source: Option<SettingsSource>,
    /// Through which the log is told how much to say.
    pub log: LogHandle,
    /// The key of digests of values that may not be told.
    pub seal_key: RedactionKey,
    /// The time.
    pub clock: Clock,
    /// How long streams wait for what.
    pub timing: Timing,
    /// Whether a Warning Event is written for each episode: the one thing that writes to the cluster.
    pub events: bool,
    /// Where transitions are kept across restarts.
    pub history_file: Option<PathBuf>,
    /// Who may ask for what.
    pub auth: Auth,
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
    #[error(transparent)]
    Demo(#[from] demo::DemoError),
    /// The engine ended by itself, which it never should.
    #[error("the engine has stopped unexpectedly; its reason is in the log above")]
    EngineStopped,
}

/// Runs the exporter until it is told to stop.
pub async fn run(parts: Parts, listener: TcpListener) -> Result<(), AppError> {
    start(parts, listener)?.wait().await
}

/// An exporter that runs.
struct Running {
    state: StateReader,
    ingest: tokio::sync::oneshot::Receiver<()>,
    server: JoinHandle<()>,
    keepers: Vec<JoinHandle<()>>,
    stop: CancellationToken,
    /// Held, or settings could not change any more.
    _settings: SettingsHandle,
}

fn start(mut parts: Parts, listener: TcpListener) -> Result<Running, AppError> {
    let (history, file) = match &parts.history_file {
        Some(path) => {
            let wrong = |source| AppError::History { path: path.clone(), source };
            let (history, file) = history_file::open(path).map_err(wrong)?;
            (history, Some(file))
        }
        None => (History::default(), None),
    };
    let restored = history.last_sequence();
    let Exporter { ingest, exposed, settings, reloads } = assemble(&parts, history);
    if let Ok(address) = listener.local_addr() {
        info!(%address, "Serving /metrics.");
    }
    let ingest = spawn_ingest(ingest.run())?;
    let keepers = spawn_keepers(&parts, &exposed.state, restored, file);
    if let Some(source) = parts.settings_source.take() {
        let (settings, log, clock) = (settings.clone(), parts.log.clone(), parts.clock.clone());
        tokio::spawn(Reloader { source, settings, reloads, log, clock }.run());
    }
    let (state, stop) = (exposed.state.clone(), parts.stop.clone());
    let auth = parts.auth.clone();
    let server = tokio::spawn(serve(listener, router(exposed), ServerLimits::default(), auth, stop.clone()));
    Ok(Running { state, ingest, server, keepers, stop, _settings: settings })
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
fn spawn_ingest(
    ingest: impl Future<Output = ()> + Send + 'static,
) -> Result<tokio::sync::oneshot::Receiver<()>, AppError> {
    let (done, ended) = tokio::sync::oneshot::channel();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(AppError::Thread)?;
    std::thread::Builder::new()
        .name("watch".to_owned())
        .spawn(move || {
            runtime.block_on(ingest);
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
    let mut keepers = vec![tokio::spawn(events::announce(follower()))];
    if parts.events {
        keepers.push(tokio::spawn(events::publish(parts.client.clone(), follower())));
    }
    if let Some(file) = file {
        keepers.push(tokio::spawn(file.follow(state.clone(), parts.stop.clone())));
    }
    keepers
}
