//! One look at a cluster without an exporter in it: the same exporter in this process, and nothing listens.

mod usual;

use std::{net::Ipv4Addr, time::Duration};

use axum::{Router, body::Body};
use http::{Request, Response};
use tokio::{
    sync::oneshot,
    time::{Instant, interval},
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

pub use self::usual::{
    Missed, Readable, has_wide_sources, narrow, narrow_sources, readable_scope, usual_settings,
};
use super::{AppError, Exporter, Parts, SettingsHandle, assemble, spawn_ingest};
use crate::{
    engine::{History, Snapshot, StateReader},
    server::{Peer, router},
    types::WatchHealth,
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
    /// States and releases that were read.
    pub read: usize,
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
        let mut wait = Wait::from(Instant::now());
        let mut ticks = interval(TELLING);
        loop {
            let snapshot = self.state.newest();
            if wait.is_over(&snapshot, Instant::now()) {
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

    /// Whether the server has not said yet how objects of some kinds are compared. Nothing is said about these.
    pub fn awaits_shapes(&self) -> bool {
        self.state.snapshot().awaits_shapes
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

/// How long it is waited for what.
struct Wait {
    begun: Instant,
    /// When every list was answered, or was not waited for any longer.
    listed: Option<Instant>,
}

impl Wait {
    fn from(begun: Instant) -> Self {
        Self { begun, listed: None }
    }

    /// Whether there is nothing left to wait for. It is waited for what has failed so far, and once all is listed for how kinds
    /// are compared, but not for ever.
    fn is_over(&mut self, snapshot: &Snapshot, now: Instant) -> bool {
        let is_patient = |since: Instant| now.saturating_duration_since(since) <= PATIENCE;
        if self.listed.is_none() && is_listed(snapshot, !is_patient(self.begun)) {
            self.listed = Some(now);
        }
        self.listed.is_some_and(|listed| !snapshot.awaits_shapes || !is_patient(listed))
    }
}

/// Whether all is listed. Those who are `impatient` do not wait for what has failed so far.
fn is_listed(snapshot: &Snapshot, impatient: bool) -> bool {
    let failed = |health: &WatchHealth| matches!(health, WatchHealth::Down { .. });
    let sources = snapshot.sources.values().all(|health| *health != WatchHealth::Starting);
    let mut streams = snapshot.streams();
    let any = streams.next().is_some();
    let answered = snapshot.streams().all(|stream| stream.answered || (impatient && failed(&stream.health)));
    snapshot.ready || (sources && any && answered)
}

fn progress(snapshot: &Snapshot) -> Progress {
    let waits = snapshot.sources.values().any(|health| *health == WatchHealth::Starting);
    if waits {
        return Progress { read: snapshot.baselines.len(), ..Progress::default() };
    }
    let done = snapshot.streams().filter(|stream| stream.answered).count();
    Progress { read: snapshot.baselines.len(), done, all: snapshot.streams().count() }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Instant, PATIENCE, Snapshot, Wait};

    #[test]
    fn how_kinds_are_compared_is_waited_for_from_when_all_is_listed() {
        let begun = Instant::now();
        let mut wait = Wait::from(begun);
        // A large cluster has used up all patience by then.
        let listed = begun + PATIENCE * 2;
        assert!(!wait.is_over(&Snapshot::default(), begun));
        let awaiting = Snapshot { ready: true, awaits_shapes: true, ..Snapshot::default() };
        assert!(!wait.is_over(&awaiting, listed) && !wait.is_over(&awaiting, listed + PATIENCE));
        assert!(wait.is_over(&awaiting, listed + PATIENCE + Duration::from_millis(1)));
        assert!(Wait::from(begun).is_over(&Snapshot { awaits_shapes: false, ..awaiting }, begun));
    }
}
