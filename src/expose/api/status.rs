//! `GET /v1/status`.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use super::baselines::{baselines, health_words, sources};
use crate::{
    expose::{Exposed, access::Caller},
    settings::Problem,
    state::StreamState,
};

/// Which settings are in use, how their last reading went, and how the streams fare.
pub(crate) async fn status(State(exposed): State<Arc<Exposed>>, caller: Caller) -> Response {
    let reload = exposed.reload_status.borrow().clone();
    let snapshot = caller.snapshot();
    let problems = |problems: &[Problem]| problems.iter().map(problem).collect::<Vec<Value>>();
    let streams: Vec<Value> = snapshot.streams().map(stream).collect();
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "ready": snapshot.ready,
        "settings": {
            "file": reload.file, "successful": reload.is_successful(), "lastSuccess": reload.last_success,
            "problems": problems(&reload.problems), "warnings": problems(&reload.warnings),
        },
        "teamProblems": *exposed.team_problems.borrow().clone(),
        "streams": streams,
        "sources": sources(&snapshot),
        "baselines": baselines(&snapshot, exposed.clock.now()),
    }))
    .into_response()
}

fn problem(problem: &Problem) -> Value {
    json!({
        "line": problem.place.map(|place| place.line), "column": problem.place.map(|place| place.column),
        "key": problem.key, "message": problem.message, "suggestion": problem.suggestion,
    })
}

fn stream(stream: &StreamState) -> Value {
    let (state, reason, message) = health_words(&stream.health);
    let kind = &stream.spec.kind;
    json!({
        "group": kind.group, "version": kind.version, "kind": kind.kind, "scope": stream.spec.scope(),
        "name": stream.spec.name,
        "objects": (!stream.spec.only.is_empty()).then(|| stream.spec.only.count()),
        "selector": stream.spec.selector.as_ref().map(ToString::to_string), "state": state, "reason": reason,
        "message": message,
    })
}
