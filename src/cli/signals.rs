//! How a command that runs until it is told to stop is told so.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::Outcome;
use crate::app::AppError;

/// Runs something until it ends, or until a signal asks it to; a second one does not wait.
pub(super) async fn until_signal(
    app: impl Future<Output = Result<(), AppError>>,
    stop: &CancellationToken,
) -> Result<Outcome, String> {
    let mut signals = Signals::listen().map_err(|error| format!("cannot listen for signals: {error}"))?;
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

/// A runtime for HTTP; what watches the cluster has a thread of its own.
pub(super) fn http_runtime() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("http")
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}"))
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
