//! `GET /v1/rules` and `GET /v1/status`.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use crate::{
    expose::Exposed,
    model::StreamHealth,
    rules::{Origin, Rule},
    settings::Problem,
    state::StreamState,
};

/// Every rule, with what it says and how much it matches now.
pub(crate) async fn rules(State(exposed): State<Arc<Exposed>>) -> Response {
    let snapshot = exposed.state.snapshot();
    let now = exposed.clock.now();
    let rules: Vec<Value> = snapshot
        .rules
        .matches()
        .map(|(rule, matches)| {
            let mut view = json!({
                "name": **rule.name(), "from": from(rule), "match": rule.spec().matches, "effect": rule.spec().effect,
                "owner": rule.spec().owner, "reason": rule.spec().reason, "expires": rule.expires(),
                "applies": rule.applies(now), "matches": matches,
            });
            if let Origin::Team { namespace } = rule.origin() {
                view["namespace"] = namespace.as_ref().into();
            }
            view
        })
        .collect();
    let problems = exposed.team_problems.borrow().clone();
    Json(json!({"rules": rules, "total": rules.len(), "problems": *problems})).into_response()
}

fn from(rule: &Rule) -> &'static str {
    match rule.origin() {
        Origin::BuiltIn => "built_in",
        Origin::Settings => "settings",
        Origin::Team { .. } => "team",
    }
}

/// Which settings are in use, how their last reading went, and how the streams fare.
pub(crate) async fn status(State(exposed): State<Arc<Exposed>>) -> Response {
    let reload = exposed.reload_status.borrow().clone();
    let snapshot = exposed.state.snapshot();
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
    let (state, reason, message) = match &stream.health {
        StreamHealth::Starting => ("starting", None, None),
        StreamHealth::Up => ("up", None, None),
        StreamHealth::Down { reason, message } => ("down", Some(reason.as_str()), Some(&**message)),
    };
    let kind = &stream.spec.kind;
    json!({
        "group": kind.group, "version": kind.version, "kind": kind.kind, "scope": stream.spec.scope(),
        "selector": stream.spec.selector.as_ref().map(ToString::to_string), "state": state, "reason": reason,
        "message": message,
    })
}
