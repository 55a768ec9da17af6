//! `GET /v1/history`.

use axum::{
    Json,
    extract::{Query, rejection::QueryRejection},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::json;

use super::{problem::Problem, view::TransitionView};
use crate::expose::access::Caller;

/// Which transitions to show.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct HistoryQuery {
    namespace: Option<String>,
    name: Option<String>,
    /// Only those after this sequence number.
    #[serde(default)]
    since: u64,
    #[serde(default = "default_limit")]
    limit: usize,
}

fn default_limit() -> usize {
    100
}

/// The last transitions, newest first.
pub(crate) async fn history(caller: Caller, query: Result<Query<HistoryQuery>, QueryRejection>) -> Response {
    let query = match query {
        Ok(Query(query)) => query,
        Err(rejection) => return Problem::bad_request(rejection.body_text()).into_response(),
    };
    let snapshot = caller.snapshot();
    let transitions: Vec<_> = snapshot
        .history
        .newest_first()
        .take_while(|transition| transition.sequence > query.since)
        .filter(|transition| {
            query.namespace.as_deref().is_none_or(|wanted| wanted == &*transition.key.namespace)
        })
        .filter(|transition| query.name.as_deref().is_none_or(|wanted| wanted == &*transition.key.name))
        .take(query.limit)
        .map(|transition| TransitionView::new(transition))
        .collect();
    Json(json!({"transitions": transitions, "last": snapshot.history.last_sequence()})).into_response()
}
