//! Reads and checks the parameters of requests.

use axum::{
    body::Body,
    extract::{FromRequestParts, Query},
};
use http::{HeaderMap, StatusCode, header::CONTENT_TYPE, request::Parts};
use http_body_util::BodyExt as _;
use serde::{Deserialize, de::DeserializeOwned};

use super::response::Problem;
use crate::server::Exposed;

#[derive(Debug)]
pub(in crate::server) struct Params<T>(pub(super) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        match Query::from_request_parts(parts, &()).await {
            Ok(Query(query)) => Ok(Self(query)),
            Err(rejection) => Err(Problem::bad_request(rephrase(&rejection.body_text()))),
        }
    }
}

/// Rejects every query parameter.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::server) struct NoParams {}

/// Parses a JSON object. The guard has already limited the length of the body and the time that it may take to arrive.
pub(super) async fn parse_body<T: DeserializeOwned>(headers: &HeaderMap, body: Body) -> Result<T, Problem> {
    if !is_json(headers) {
        let detail = "the body has to be JSON, with `Content-Type: application/json`";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    let unreadable = |why: String| Problem::bad_request(format!("the body cannot be read: {why}"));
    let body = body.collect().await.map_err(|error| unreadable(error.to_string()))?.to_bytes();
    // serde accepts an array for a struct.
    if body.trim_ascii_start().first() == Some(&b'[') {
        return Err(unreadable("want an object: {\"namespace\": …}".to_owned()));
    }
    serde_json::from_slice(&body).map_err(|error| unreadable(rephrase(&error.to_string())))
}

/// Rejects a namespace that the settings exclude.
pub(super) fn check_namespace(namespace: &str, exposed: &Exposed) -> Result<(), Problem> {
    if namespace == "*" || exposed.settings().allows_namespace(namespace) {
        return Ok(());
    }
    let detail = format!("namespace `{namespace}` is not among those this exporter watches");
    Err(Problem::new(StatusCode::FORBIDDEN, detail))
}

/// Replaces the terms of serde and axum with ours.
fn rephrase(error: &str) -> String {
    let error = error.strip_prefix("Failed to deserialize query string: ").unwrap_or(error);
    let phrases = [
        ("invalid digit found in string", "want a whole number"),
        ("cannot parse integer from empty string", "want a whole number"),
        ("number too large to fit in target type", "the number is too large"),
        ("provided string was not `true` or `false`", "want true or false"),
        ("unknown variant", "unknown value"),
        (", there are no fields", ", this question takes none"),
        ("expected usize", "want a whole number"),
        ("expected a string", "want a text"),
        ("expected struct ResourceQuery", "want an object: {\"namespace\": …}"),
    ];
    phrases.iter().fold(error.to_owned(), |error, (theirs, ours)| error.replace(theirs, ours))
}

fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}
