//! `/livez`, `/readyz` and `/healthz`.

use std::{fmt::Write as _, sync::Arc};

use axum::extract::State;
use http::StatusCode;
use jiff::SignedDuration;

use super::{Exposed, api::Problem, auth::Caller};
use crate::{engine::WatchState, types::WatchHealth};

/// The engine takes something from its queue every second; when it has not for this long, it hangs.
const HUNG: SignedDuration = SignedDuration::from_secs(60);

/// Alive as long as the engine works. Never asks the API server: its outage is no reason to restart us.
pub(super) async fn livez(State(exposed): State<Arc<Exposed>>) -> (StatusCode, String) {
    match exposed.state.since_last_beat(exposed.clock.now()) {
        Some(silent) if silent > HUNG => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("the engine has hung for {} s\n", silent.as_secs()))
        }
        Some(_) | None => (StatusCode::OK, "ok\n".to_owned()),
    }
}

/// Ready once every source was looked for and every kind's first list was answered, and at least one could be listed. Kinds that are added later are
/// named while they are waited for, and do not take readiness back.
/// Those who may not know what is watched are told no names.
pub(super) async fn readyz(
    State(exposed): State<Arc<Exposed>>,
    caller: Result<Caller, Problem>,
) -> (StatusCode, String) {
    let ready = !exposed.stop.is_cancelled() && exposed.state.snapshot().ready;
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut body = String::from(if ready { "ready\n" } else { "not ready\n" });
    if exposed.stop.is_cancelled() {
        body.push_str("stopping\n");
    }
    let Some(snapshot) = caller.ok().filter(Caller::is_authenticated).map(|caller| caller.snapshot()) else {
        return (status, body);
    };
    let streams: Vec<&WatchState> = snapshot.streams().collect();
    for (source, health) in &snapshot.sources {
        let state = match health {
            WatchHealth::Starting => "waiting for its baselines".to_owned(),
            WatchHealth::Up => "loaded".to_owned(),
            WatchHealth::Down { reason, message } => format!("not all of it ({reason}): {message}"),
        };
        writeln!(body, "source {source}: {state}").expect("writing to a string cannot fail");
    }
    for stream in streams {
        let state = match (&stream.health, stream.listed) {
            (WatchHealth::Starting, _) => "waiting for its first list".to_owned(),
            (WatchHealth::Up, _) => "listed".to_owned(),
            (WatchHealth::Down { reason, message }, true) => {
                format!("listed, now down ({reason}): {message}")
            }
            (WatchHealth::Down { reason, message }, false) => format!("not listed ({reason}): {message}"),
        };
        writeln!(body, "{}: {state}", stream.spec).expect("writing to a string cannot fail");
    }
    (status, body)
}
