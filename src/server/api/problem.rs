//! Errors as RFC 9457 problems.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::{
    HeaderValue, Method, StatusCode, Uri,
    header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE},
};
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::plain;

/// What went wrong, in words for the caller.
#[derive(Debug)]
pub(in crate::server) struct Problem {
    status: StatusCode,
    detail: String,
    retry_after: Option<u32>,
    challenge: Option<&'static str>,
}

/// A problem as RFC 9457 has it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(super) struct ProblemView {
    /// `about:blank`: the status says all there is to say about the sort of problem.
    r#type: &'static str,
    /// The name of the status.
    title: &'static str,
    status: u16,
    /// What is wrong, and what to do about it.
    detail: String,
}

impl Problem {
    pub(in crate::server) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), retry_after: None, challenge: None }
    }

    pub(in crate::server) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// Asks the caller to come back after so many seconds.
    pub(in crate::server) fn busy(detail: impl Into<String>, seconds: u32) -> Self {
        Self { retry_after: Some(seconds), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, detail) }
    }

    pub(super) fn into_view(self) -> ProblemView {
        ProblemView {
            r#type: "about:blank",
            title: self.status.canonical_reason().unwrap_or("Error"),
            status: self.status.as_u16(),
            detail: self.detail,
        }
    }

    /// An answer with this status whose body tells of a problem.
    pub(super) fn respond(status: StatusCode, body: &impl Serialize) -> Response {
        let mut response = plain((status, Json(body)).into_response());
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        response
    }

    /// The whole answer as it goes over the wire where there is no request that it would be a response to, and no other one after it.
    pub(in crate::server) fn into_closing_answer(self) -> Vec<u8> {
        let status = self.status;
        let body = serde_json::to_vec(&self.into_view()).expect("a view has only string keys");
        let mut answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/problem+json\r\nx-content-type-options: nosniff\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        )
        .into_bytes();
        answer.extend(body);
        answer
    }

    /// Asks a caller who asks too often to come back after so many seconds.
    pub(in crate::server) fn too_many(detail: impl Into<String>, seconds: u32) -> Self {
        Self { retry_after: Some(seconds), ..Self::new(StatusCode::TOO_MANY_REQUESTS, detail) }
    }

    /// Asks the caller who he is. `challenge`: what he may prove it with.
    pub(in crate::server) fn unauthorized(detail: impl Into<String>, challenge: &'static str) -> Self {
        Self { challenge: Some(challenge), ..Self::new(StatusCode::UNAUTHORIZED, detail) }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, retry_after, challenge) = (self.status, self.retry_after, self.challenge);
        let mut response = Self::respond(status, &self.into_view());
        if let Some(seconds) = retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        if let Some(challenge) = challenge {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        response
    }
}

/// Any path that there is not.
pub(crate) async fn not_found(uri: Uri) -> Response {
    Problem::new(
        StatusCode::NOT_FOUND,
        format!("there is no {}; the page at `/` links to what there is", uri.path()),
    )
    .into_response()
}

/// Any method that a path does not have.
pub(crate) async fn method_not_allowed(method: Method, uri: Uri) -> Response {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, format!("{} does not take {method}", uri.path()))
        .into_response()
}
