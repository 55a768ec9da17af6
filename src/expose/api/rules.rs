//! `GET /v1/rules`.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use crate::{
    expose::{Exposed, access::Caller},
    rules::{Origin, Rule},
};

/// Every rule, with what it says and how much it matches now.
pub(crate) async fn rules(State(exposed): State<Arc<Exposed>>, caller: Caller) -> Response {
    let snapshot = caller.snapshot();
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
