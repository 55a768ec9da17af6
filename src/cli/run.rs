//! `drift-exporter run`.

use std::io;

use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{
    Outcome,
    args::{ListenAddress, Resources, RunArgs},
};
use crate::{
    app::{self, Parts, telemetry},
    model::Clock,
    settings::Settings,
    watch::{Timing, client_from},
};

/// Runs the exporter until a signal ends it.
pub(super) fn run(arguments: RunArgs) -> Result<Outcome, String> {
    telemetry::start(&arguments.log_level, arguments.log_format)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("http")
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}"))?;
    let ended = runtime.block_on(serve(arguments));
    runtime.shutdown_background();
    ended
}

async fn serve(arguments: RunArgs) -> Result<Outcome, String> {
    let client = client_from(&arguments.cluster.connection()).await.map_err(|error| error.to_string())?;
    let listener = bind(&arguments.listen).await?;
    let stop = CancellationToken::new();
    let parts = Parts {
        client,
        settings: settings(&arguments),
        clock: Clock::system(),
        timing: Timing::default(),
        events: arguments.events,
        history_file: arguments.history_file,
        stop: stop.clone(),
    };
    let mut signals = Signals::listen().map_err(|error| format!("cannot listen for signals: {error}"))?;
    let app = app::run(parts, listener);
    tokio::pin!(app);
    tokio::select! {
        ended = &mut app => return ended.map(|()| Outcome::Fine).map_err(|error| error.to_string()),
        name = signals.next() => info!(signal = name, "Stopping; running requests may finish."),
    }
    stop.cancel();
    tokio::select! {
        ended = &mut app => ended.map(|()| Outcome::Fine).map_err(|error| error.to_string()),
        name = signals.next() => Err(format!("stopped at once by a second signal ({name})")),
    }
}

fn settings(arguments: &RunArgs) -> Settings {
    Settings {
        namespaces: arguments.namespaces.iter().map(|name| name.trim().into()).collect(),
        sources: arguments.sources.clone(),
        max_series: arguments.max_series,
        only_drifted: arguments.resources == Resources::Drifted,
        health_series: arguments.health,
        ..Settings::default()
    }
}

async fn bind(address: &ListenAddress) -> Result<TcpListener, String> {
    let mut wrong = "the name has no address".to_owned();
    for candidate in &address.candidates {
        match TcpListener::bind(candidate).await {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                return Err(format!(
                    "{candidate} is in use; choose another address with --web.listen-address"
                ));
            }
            Err(error) => wrong = format!("{candidate}: {error}"),
        }
    }
    Err(format!("cannot listen on {wrong}; choose another address with --web.listen-address"))
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
