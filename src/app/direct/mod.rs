//! One look at a cluster without an exporter in it: the same exporter in this process, and nothing listens.

mod usual;

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use axum::{Router, body::Body};
use http::{Request, Response};
use tokio::{
    sync::oneshot,
    time::{Instant, interval},
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

pub use self::usual::{readable_scope, usual_settings};
use super::{AppError, Exporter, Parts, SettingsHandle, assemble, spawn_ingest};
use crate::{
    expose::{Peer, router},
    model::StreamHealth,
    state::{History, Snapshot, StateReader},
};

/// What does not answer after this is shown as not seen.
const PATIENCE: Duration = Duration::from_secs(15);
/// How often is told how far it is.
const TELLING: Duration = Duration::from_millis(100);

/// An exporter that looks at a cluster and is asked in this process.
#[derive(Debug)]
pub struct Direct {
    router: Router,
    state: StateReader,
    ended: oneshot::Receiver<()>,
    stop: CancellationToken,
    /// Held, or settings could not change any more.
    _settings: SettingsHandle,
}

/// How far a look is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Kinds whose list was answered.
    pub done: usize,
    /// Kinds that are listed; none while it is still being read what is declared.
    pub all: usize,
}

impl Direct {
    /// Begins to look.
    pub fn start(parts: &Parts) -> Result<Self, AppError> {
        let Exporter { ingest, exposed, settings, .. } = assemble(parts, History::default());
        let state = exposed.state.clone();
        let ended = spawn_ingest(ingest.run_in_turn())?;
        let stop = parts.stop.clone();
        Ok(Self { router: router(exposed), state, ended, stop, _settings: settings })
    }

    /// Waits until all has been answered, or will not be, and tells how far it is meanwhile.
    pub async fn settled(&mut self, mut tell: impl FnMut(Progress)) -> Result<(), AppError> {
        let begun = Instant::now();
        let mut ticks = interval(TELLING);
        loop {
            let snapshot = self.state.newest();
            if is_settled(&snapshot, begun.elapsed() > PATIENCE) {
                return Ok(());
            }
            tell(progress(&snapshot));
            tokio::select! {
                more = self.state.changed() => if !more {
                    return Err(AppError::EngineStopped);
                },
                _ = &mut self.ended => return Err(AppError::EngineStopped),
                _ = ticks.tick() => {}
            }
        }
    }

    /// Asks as one would ask over HTTP. Whoever asks is here, and sees what his own rights let him see.
    pub async fn ask(&self, mut request: Request<Body>) -> Response<Body> {
        let address = (Ipv4Addr::LOCALHOST, 0).into();
        request.extensions_mut().insert(Peer { address, certified: false });
        let answer = self.router.clone().oneshot(request).await;
        answer.unwrap_or_else(|never| match never {})
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Whether there is nothing left to wait for. Those who are `impatient` do not wait for what has failed so far.
fn is_settled(snapshot: &Arc<Snapshot>, impatient: bool) -> bool {
    let failed = |health: &StreamHealth| matches!(health, StreamHealth::Down { .. });
    let sources = snapshot.sources.values().all(|health| *health != StreamHealth::Starting);
    let mut streams = snapshot.streams();
    let any = streams.next().is_some();
    let answered = snapshot.streams().all(|stream| stream.answered || (impatient && failed(&stream.health)));
    let listed = snapshot.ready || (sources && any && answered);
    listed && (impatient || !snapshot.awaits_shapes)
}

fn progress(snapshot: &Snapshot) -> Progress {
    let waits = snapshot.sources.values().any(|health| *health == StreamHealth::Starting);
    if waits {
        return Progress::default();
    }
    let done = snapshot.streams().filter(|stream| stream.answered).count();
    Progress { done, all: snapshot.streams().count() }
}
