//! Answers as JSON, and what spares sending them again.
//! Errors as RFC 9457 problems.

use std::{
    fmt::Write as _,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::{
    HeaderMap, HeaderValue, Method, StatusCode, Uri,
    header::{
        CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, RETRY_AFTER, WWW_AUTHENTICATE,
        X_CONTENT_TYPE_OPTIONS,
    },
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    config::Prices,
    engine::Snapshot,
    server::{Exposed, auth::Caller},
};

/// A JSON answer that no browser takes for anything else.
pub(super) fn json(body: &impl Serialize) -> Response {
    plain(Json(body).into_response())
}

/// The same answer, which no browser takes for anything but what it says it is.
pub(super) fn plain(mut response: Response) -> Response {
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Stands for all that an answer is made from. The time at which it was checked is not part of it, so it is a weak one.
#[derive(Debug)]
pub(super) struct Tag(HeaderValue);

impl Tag {
    /// The tag of an answer to this question. Two callers have different ones where they see different namespaces.
    pub(super) fn new(
        exposed: &Exposed,
        caller: &Caller,
        snapshot: &Snapshot,
        prices: Option<&Prices>,
        asked: &Uri,
    ) -> Self {
        let mut hasher = DefaultHasher::new();
        (snapshot.edition, caller.values().are_full(), asked).hash(&mut hasher);
        for state in &snapshot.kinds {
            state.kind.hash(&mut hasher);
            state.blocks.namespaces().for_each(|namespace| namespace.hash(&mut hasher));
        }
        if let Some(prices) = prices {
            let Prices { currency, cpu_core_hour, memory_gib_hour, storage_gib_month, load_balancer_hour } =
                prices;
            currency.hash(&mut hasher);
            for price in [cpu_core_hour, memory_gib_hour, storage_gib_month, load_balancer_hour] {
                price.to_bits().hash(&mut hasher);
            }
        }
        // Every process has a key of its own, so what an earlier one answered is never taken for what this one would.
        let mut text = format!("W/\"{}-", exposed.seal_key.id());
        write!(text, "{:016x}\"", hasher.finish()).expect("writing to a string cannot fail");
        Self(HeaderValue::from_str(&text).expect("hex digits can stand in a header"))
    }

    /// The answer, unless the caller has it already.
    pub(super) async fn unless_known(
        self,
        headers: &HeaderMap,
        answer: impl Future<Output = Response>,
    ) -> Response {
        let known = Known::of(headers);
        let mut response =
            if known.has(&self) { StatusCode::NOT_MODIFIED.into_response() } else { answer.await };
        if known.any && response.status().is_success() {
            response = StatusCode::NOT_MODIFIED.into_response();
        }
        if response.status().is_success() || response.status() == StatusCode::NOT_MODIFIED {
            response.headers_mut().insert(ETAG, self.0);
            // To be kept by whom it was sent to, and asked about before it is used again.
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        }
        response
    }
}

/// What a caller says that he has.
struct Known<'a> {
    tags: Vec<&'a str>,
    /// Whether he has any answer, and wants another one only where there is none: that is known when it was made.
    any: bool,
}

impl<'a> Known<'a> {
    fn of(headers: &'a HeaderMap) -> Self {
        let values = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        let tags: Vec<&str> = values.flat_map(|value| value.split(',')).map(str::trim).collect();
        Self { any: tags.contains(&"*"), tags }
    }

    fn has(&self, tag: &Tag) -> bool {
        let own = tag.0.to_str().unwrap_or_default().trim_start_matches("W/");
        self.tags.iter().any(|tag| tag.trim_start_matches("W/") == own)
    }
}

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
