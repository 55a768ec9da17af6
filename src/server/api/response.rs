//! JSON responses, RFC 9457 problems, and `ETag` headers.

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
use serde::{Deserialize, Serialize};

use crate::{
    config::Prices,
    engine::Snapshot,
    server::{Exposed, auth::Caller},
};

pub(super) fn json(body: &impl Serialize) -> Response {
    with_nosniff(Json(body))
}

/// Keeps browsers from guessing another content type.
pub(super) fn with_nosniff(response: impl IntoResponse) -> Response {
    ([(X_CONTENT_TYPE_OPTIONS, "nosniff")], response).into_response()
}

#[derive(Debug)]
pub(in crate::server) struct Problem {
    status: StatusCode,
    detail: String,
    retry_after: Option<u32>,
    challenge: Option<&'static str>,
}

/// A problem as RFC 9457 has it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(crate) struct ProblemView {
    /// `about:blank`: the status says all there is to say about the sort of problem.
    #[serde(skip_deserializing)]
    r#type: &'static str,
    /// The name of the status.
    #[serde(skip_deserializing)]
    title: &'static str,
    #[serde(skip_deserializing)]
    status: u16,
    /// What is wrong, and what to do about it.
    pub(crate) detail: String,
}

impl Problem {
    pub(in crate::server) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), retry_after: None, challenge: None }
    }

    pub(in crate::server) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// 503 with `Retry-After`.
    pub(in crate::server) fn unavailable(detail: impl Into<String>, seconds: u32) -> Self {
        Self { retry_after: Some(seconds), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, detail) }
    }

    /// 429 with `Retry-After`.
    pub(in crate::server) fn too_many(detail: impl Into<String>, seconds: u32) -> Self {
        Self { retry_after: Some(seconds), ..Self::new(StatusCode::TOO_MANY_REQUESTS, detail) }
    }

    /// 401 with `challenge` as `WWW-Authenticate`.
    pub(in crate::server) fn unauthorized(detail: impl Into<String>, challenge: &'static str) -> Self {
        Self { challenge: Some(challenge), ..Self::new(StatusCode::UNAUTHORIZED, detail) }
    }

    pub(super) fn into_view(self) -> ProblemView {
        ProblemView {
            r#type: "about:blank",
            title: self.status.canonical_reason().unwrap_or("Error"),
            status: self.status.as_u16(),
            detail: self.detail,
        }
    }

    /// A response of type `application/problem+json`, for bodies that extend [`ProblemView`].
    pub(super) fn respond(status: StatusCode, body: &impl Serialize) -> Response {
        with_nosniff((status, [(CONTENT_TYPE, "application/problem+json")], Json(body)))
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let retry_after = self.retry_after.map(|seconds| [(RETRY_AFTER, seconds.to_string())]);
        let challenge = self.challenge.map(|challenge| [(WWW_AUTHENTICATE, challenge)]);
        (retry_after, challenge, Self::respond(self.status, &self.into_view())).into_response()
    }
}

pub(in crate::server) async fn not_found(uri: Uri) -> Response {
    let detail = format!("there is no {}; the page at `/` links to what there is", uri.path());
    Problem::new(StatusCode::NOT_FOUND, detail).into_response()
}

pub(in crate::server) async fn method_not_allowed(method: Method, uri: Uri) -> Response {
    let detail = format!("{} does not take {method}", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail).into_response()
}

/// Identifies everything that a response is made from, except the time of the request. The tag is weak because the body
/// contains that time.
#[derive(Debug)]
pub(super) struct ETag(HeaderValue);

impl ETag {
    /// Callers who see different namespaces get different tags for the same `uri`. What they see of one edition is always the same,
    /// so neither the snapshot nor the namespaces have to be read.
    pub(super) fn new(
        exposed: &Exposed,
        caller: &Caller,
        snapshot: &Snapshot,
        prices: Option<&Prices>,
        uri: &Uri,
    ) -> Self {
        let mut hasher = DefaultHasher::new();
        (snapshot.edition, caller.visible_digest(), caller.values().plain, uri).hash(&mut hasher);
        if let Some(prices) = prices {
            let Prices { currency, cpu_core_hour, memory_gib_hour, storage_gib_month, load_balancer_hour } =
                prices;
            currency.hash(&mut hasher);
            for price in [cpu_core_hour, memory_gib_hour, storage_gib_month, load_balancer_hour] {
                price.map(f64::to_bits).hash(&mut hasher);
            }
        }
        // Every process has its own key, so a tag of an earlier process never matches.
        let mut text = format!("W/\"{}-", exposed.redaction_key.id());
        write!(text, "{:016x}\"", hasher.finish()).expect("writing to a string cannot fail");
        Self(HeaderValue::from_str(&text).expect("hex digits are valid in a header"))
    }

    /// 304 if the request's `If-None-Match` matches, else `response`.
    pub(super) async fn respond(
        self,
        request_headers: &HeaderMap,
        response: impl Future<Output = Response>,
    ) -> Response {
        let values = request_headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        let tags: Vec<&str> = values.flat_map(|value| value.split(',')).map(str::trim).collect();
        // Weak comparison, as RFC 9110 requires for `If-None-Match`.
        let own = self.0.to_str().unwrap_or_default().trim_start_matches("W/");
        let mut response = if tags.iter().any(|tag| tag.trim_start_matches("W/") == own) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            response.await
        };
        // `*` matches any successful response, so the response has to be made first.
        if tags.contains(&"*") && response.status().is_success() {
            response = StatusCode::NOT_MODIFIED.into_response();
        }
        if response.status().is_success() || response.status() == StatusCode::NOT_MODIFIED {
            response.headers_mut().insert(ETAG, self.0);
            // Only the client may cache the response, and it has to revalidate it.
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        }
        response
    }
}
