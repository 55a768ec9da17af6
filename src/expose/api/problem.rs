//! Errors as RFC 9457 problems.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::{
    HeaderValue, Method, StatusCode, Uri,
    header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE},
};
use serde_json::json;

/// What went wrong, in words for the caller.
#[derive(Debug)]
pub(in crate::expose) struct Problem {
    status: StatusCode,
    detail: String,
    retry_after: Option<u32>,
    challenge: Option<&'static str>,
}

impl Problem {
    pub(in crate::expose) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), retry_after: None, challenge: None }
    }

    pub(in crate::expose) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// Asks the caller to come back after so many seconds.
    pub(in crate::expose) fn busy(detail: impl Into<String>, seconds: u32) -> Self {
        Self { retry_after: Some(seconds), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, detail) }
    }

    /// Asks a caller who asks too often to come back after so many seconds.
    pub(in crate::expose) fn too_many(detail: impl Into<String>, seconds: u32) -> Self {
        Self { retry_after: Some(seconds), ..Self::new(StatusCode::TOO_MANY_REQUESTS, detail) }
    }

    /// Asks the caller who he is. `challenge`: what he may prove it with.
    pub(in crate::expose) fn unauthorized(detail: impl Into<String>, challenge: &'static str) -> Self {
        Self { challenge: Some(challenge), ..Self::new(StatusCode::UNAUTHORIZED, detail) }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let title = self.status.canonical_reason().unwrap_or("Error");
        let body = json!({
            "type": "about:blank", "title": title, "status": self.status.as_u16(), "detail": self.detail,
        });
        let mut response = (self.status, Json(body)).into_response();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        if let Some(challenge) = self.challenge {
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
