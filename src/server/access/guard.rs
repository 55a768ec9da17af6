//! What every request has to pass before anybody answers it.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header::AUTHORIZATION};
use http_body::Body as _;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use percent_encoding::percent_decode_str;
use tokio::time::{Instant, timeout};

use super::{identity::Identity, web_config::Web};
use crate::server::{Exposed, Protection, api::Problem};

/// How long somebody waits until it is clear who he is and what he may see.
const PATIENCE: Duration = Duration::from_millis(1_800);
/// How much can be sent to us. Questions are short.
const LARGEST_BODY: usize = 64 << 10;
/// How long it may take to send that.
const BODY: Duration = Duration::from_secs(5);

/// Lets requests through whose sender may ask them, under whatever path and method. Nothing is answered without it.
pub(in crate::server) async fn guard(
    State(exposed): State<Arc<Exposed>>,
    request: Request,
    next: Next,
) -> Response {
    let web = exposed.access.look();
    let mut response = match admit(&exposed, &web, request).await {
        Ok(request) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    for (name, value) in &web.settings.headers {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            // What a page says about itself is narrower than what is said of all of them.
            response.headers_mut().entry(name).or_insert(value);
        }
    }
    response
}

async fn admit(exposed: &Exposed, web: &Web, request: Request) -> Result<Request, Problem> {
    let (mut parts, body) = request.into_parts();
    let protection = Protection::of(&parts.extensions);
    let within_rate = || web.settings.rate_limit.is_none_or(|limit| exposed.access.0.bucket.take(limit));
    let identity = match protection {
        // Not even asked: whether we are alive depends on nobody else.
        Protection::Open => Identity::Stranger,
        Protection::Brief if web.closed => Identity::Stranger,
        // A probe without credentials costs nothing, so it does not count.
        Protection::Brief if parts.headers.contains_key(AUTHORIZATION) && !within_rate() => {
            Identity::Stranger
        }
        Protection::Brief => identify(exposed, web, &parts).await.unwrap_or(Identity::Stranger),
        Protection::Guarded | Protection::Whole => {
            if web.closed {
                let detail = "the web configuration file cannot be used; the exporter's log says why";
                return Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail));
            }
            if !within_rate() {
                return Err(Problem::too_many("more requests than the web configuration file allows", 1));
            }
            let identity = identify(exposed, web, &parts).await?;
            check_query(&parts.uri)?;
            identity
        }
    };
    parts.extensions.insert(identity);
    // What somebody sends along with a question that has no body is not waited for.
    let is_probe = matches!(protection, Protection::Open | Protection::Brief);
    let asks_without = is_probe || matches!(parts.method, Method::GET | Method::HEAD);
    let body = if asks_without { Body::empty() } else { received(body).await? };
    Ok(Request::from_parts(parts, body))
}

async fn identify(exposed: &Exposed, web: &Web, parts: &http::request::Parts) -> Result<Identity, Problem> {
    let deadline = Instant::now() + PATIENCE;
    exposed.access.identify(web, &exposed.seal_key, parts, deadline).await
}

/// Refuses a query that is no text: whoever reads it would put other letters in place of it, and look for those.
fn check_query(asked: &Uri) -> Result<(), Problem> {
    match percent_decode_str(asked.query().unwrap_or_default()).decode_utf8() {
        Ok(_) => Ok(()),
        Err(_) => Err(Problem::bad_request("the query of the URL is not UTF-8")),
    }
}

/// A body that has come whole, in time, and is small; no handler ever waits for one.
async fn received(body: Body) -> Result<Body, Problem> {
    if body.is_end_stream() {
        return Ok(body);
    }
    let too_large = || {
        let detail =
            format!("what was sent is longer than the {} KiB that a question may have", LARGEST_BODY >> 10);
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
    };
    if body.size_hint().lower() > LARGEST_BODY as u64 {
        return Err(too_large());
    }
    let whole = timeout(BODY, Limited::new(body, LARGEST_BODY).collect()).await;
    match whole.map_err(|_| Problem::new(StatusCode::REQUEST_TIMEOUT, "what is sent does not come"))? {
        Ok(whole) => Ok(Body::from(whole.to_bytes())),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
        Err(_) => Err(Problem::bad_request("what was sent did not come whole")),
    }
}
