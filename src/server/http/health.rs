//! `/livez`, `/readyz` and `/healthz`.

use std::{fmt::Write as _, sync::Arc};

use axum::extract::State;
use http::StatusCode;
use jiff::SignedDuration;

use super::Exposed;
use crate::{
    engine::Snapshot,
    server::{api::Problem, auth::Caller},
    types::SyncHealth,
};

/// The engine handles a tick every second; without one for this long, it hangs.
const HANG_TIMEOUT: SignedDuration = SignedDuration::from_secs(60);

/// Depends on the engine only: an outage of the API server is no reason to restart the exporter.
pub(super) async fn livez(State(exposed): State<Arc<Exposed>>) -> (StatusCode, String) {
    match exposed.state.since_last_heartbeat(exposed.clock.now()) {
        Some(silent) if silent > HANG_TIMEOUT => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("the engine has hung for {} s\n", silent.as_secs()))
        }
        Some(_) | None => (StatusCode::OK, "ok\n".to_owned()),
    }
}

/// Whether the exporter is ready, without details.
pub(super) async fn brief_readyz(State(exposed): State<Arc<Exposed>>) -> (StatusCode, String) {
    let is_stopping = exposed.stop.is_cancelled();
    let ready = !is_stopping && exposed.state.snapshot().ready;
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let stopping = if is_stopping { "stopping\n" } else { "" };
    (status, format!("{}{stopping}", if ready { "ready\n" } else { "not ready\n" }))
}

/// Ready once every source and every watch has synced or was refused, and at least one watch has synced. Kinds that are added later
/// are listed while they sync, and do not revoke readiness. Clients that are not authenticated get no names.
pub(super) async fn readyz(
    State(exposed): State<Arc<Exposed>>,
    caller: Result<Caller, Problem>,
) -> (StatusCode, String) {
    let (status, mut body) = brief_readyz(State(exposed.clone())).await;
    let Some(caller) = caller.ok().filter(Caller::is_authenticated) else { return (status, body) };
    let snapshot = caller.snapshot().await;
    // A line per watch: there may be thousands of watches.
    body += &exposed.blocking.run_now(move || details(&snapshot)).await;
    (status, body)
}

/// The state of each source and of each watch.
fn details(snapshot: &Snapshot) -> String {
    let mut details = String::new();
    for (source, health) in &*snapshot.sources {
        let state = match health {
            SyncHealth::Starting => "waiting for its baselines".to_owned(),
            SyncHealth::Up => "loaded".to_owned(),
            SyncHealth::Down { reason, message } => format!("not all of it ({reason}): {message}"),
        };
        writeln!(details, "source {source}: {state}").expect("writing to a string cannot fail");
    }
    for watch in snapshot.watches() {
        let state = match (&watch.health, watch.synced) {
            (SyncHealth::Starting, _) => "waiting for its first list".to_owned(),
            (SyncHealth::Up, _) => "listed".to_owned(),
            (SyncHealth::Down { reason, message }, true) => {
                format!("listed, now down ({reason}): {message}")
            }
            (SyncHealth::Down { reason, message }, false) => format!("not listed ({reason}): {message}"),
        };
        writeln!(details, "{}: {state}", watch.spec).expect("writing to a string cannot fail");
    }
    details
}
