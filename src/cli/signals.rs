//! How a command that runs until it is told to stop is told so.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::Outcome;
use crate::app::AppError;

/// What a closed terminal (SIGHUP) means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hangup {
    /// The same as SIGTERM.
    Ends,
    /// Whatever somebody else makes of it: `run` reads its settings file again.
    IsNotOurs,
}

/// Runs something until it ends, or until a signal asks it to; a second one does not wait.
pub(super) async fn until_signal(
    app: impl Future<Output = Result<(), AppError>>,
    stop: &CancellationToken,
    hangup: Hangup,
) -> Result<Outcome, String> {
    let mut signals =
        Signals::listen(hangup).map_err(|error| format!("cannot listen for signals: {error}"))?;
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
    hangup: Option<Signal>,
}

impl Signals {
    fn listen(hangup: Hangup) -> io::Result<Self> {
        let hangup = match hangup {
            Hangup::Ends => Some(signal(SignalKind::hangup())?),
            Hangup::IsNotOurs => None,
        };
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(Self { terminate, interrupt, hangup })
    }

    async fn next(&mut self) -> &'static str {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = hangup => "SIGHUP",
        }
    }
}
