//! The middleware that every request passes: rate limit, authentication, authorization of the path, size of the body.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri,
    header::{AUTHORIZATION, HOST},
    request::Parts,
};
use http_body::Body as _;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use percent_encoding::percent_decode_str;
use tokio::time::{Instant, timeout};

use super::{
    passwords::QueueFull,
    reviews::{Account, Permission, ReviewUnavailable, Reviews},
    web_config::Web,
};
use crate::{
    server::{Exposed, Protection, api::Problem},
    types::RedactionKey,
};

/// How long authentication and authorization of one request may take.
const AUTH_TIMEOUT: Duration = Duration::from_millis(1_800);
const MAX_BODY: usize = 64 << 10;
const BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// Headers that a proxy adds.
const FORWARDED_HEADERS: [&str; 4] = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip"];

/// The authenticated client.
#[derive(Clone, Debug)]
pub(super) enum Identity {
    /// Authentication is not configured.
    Anonymous,
    Unauthenticated,
    /// Authenticated by password or by client certificate.
    User,
    /// A cluster account, and the deadline of its reviews.
    Account(Arc<Account>, Instant),
}

/// The other end of a connection, an extension of each request on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    pub address: SocketAddr,
    /// A verified client certificate was presented.
    pub certified: bool,
}

impl Peer {
    /// Whether the request comes from this machine: not through a proxy, and not from a browser that was tricked by DNS rebinding.
    pub(super) fn is_local(&self, headers: &HeaderMap) -> bool {
        self.address.ip().to_canonical().is_loopback()
            && !FORWARDED_HEADERS.iter().any(|name| headers.contains_key(*name))
            && headers.get_all(HOST).iter().all(|host| host.to_str().is_ok_and(is_loopback_host))
    }
}

fn is_loopback_host(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Runs the handler only for requests that pass; adds the configured response headers to every response.
pub(in crate::server) async fn guard(
    State(exposed): State<Arc<Exposed>>,
    request: Request,
    next: Next,
) -> Response {
    let web = exposed.auth.web();
    let mut response = match admit(&exposed, &web, request).await {
        Ok(request) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    for (name, value) in &web.settings.headers {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            // A header that the handler set is more specific.
            response.headers_mut().entry(name).or_insert(value);
        }
    }
    response
}

async fn admit(exposed: &Exposed, web: &Web, request: Request) -> Result<Request, Problem> {
    let (mut parts, body) = request.into_parts();
    let protection = Protection::of(&parts.extensions);
    let within_limit = || web.limiter.as_ref().is_none_or(|limiter| limiter.allows_request());
    let identity = match protection {
        // Liveness depends on nothing but the process.
        Protection::Open => Identity::Unauthenticated,
        Protection::Brief if web.closed => Identity::Unauthenticated,
        // A probe without credentials costs nothing, so it does not count against the limit.
        Protection::Brief if parts.headers.contains_key(AUTHORIZATION) && !within_limit() => {
            Identity::Unauthenticated
        }
        Protection::Brief => identify(exposed, web, &parts).await.unwrap_or(Identity::Unauthenticated),
        Protection::Guarded | Protection::Whole => {
            if web.closed {
                let detail = "the web configuration file is invalid; the exporter's log has the reason";
                return Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail));
            }
            if !within_limit() {
                return Err(Problem::too_many("more requests than the web configuration file allows", 1));
            }
            let identity = identify(exposed, web, &parts).await?;
            check_query(&parts.uri)?;
            identity
        }
    };
    parts.extensions.insert(identity);
    // The body of a request that needs none is never read.
    let is_probe = matches!(protection, Protection::Open | Protection::Brief);
    let has_no_body = is_probe || matches!(parts.method, Method::GET | Method::HEAD);
    let body = if has_no_body { Body::empty() } else { read_body(body).await? };
    Ok(Request::from_parts(parts, body))
}

async fn identify(exposed: &Exposed, web: &Web, request: &Parts) -> Result<Identity, Problem> {
    let deadline = Instant::now() + AUTH_TIMEOUT;
    let (auth, key) = (&exposed.auth.0, &exposed.redaction_key);
    if let Some(reviews) = &auth.reviews {
        return authenticate_token(reviews, key, request, deadline).await;
    }
    let users = &web.settings.users;
    if !users.is_empty() {
        let challenge = "Basic realm=\"drift-exporter\", charset=\"UTF-8\"";
        let denied = |detail| Problem::unauthorized(detail, challenge);
        let Some((user, password)) = basic_credentials(&request.headers) else {
            return Err(denied("a user and a password are required"));
        };
        return match auth.passwords.verify(users, key, &user, &password).await {
            Ok(true) => Ok(Identity::User),
            Ok(false) => Err(denied("invalid user or password")),
            Err(QueueFull) => Err(Problem::unavailable("too many passwords are being verified", 1)),
        };
    }
    let certified = request.extensions.get::<Peer>().is_some_and(|peer| peer.certified);
    Ok(if certified { Identity::User } else { Identity::Anonymous })
}

async fn authenticate_token(
    reviews: &Reviews,
    key: &RedactionKey,
    request: &Parts,
    deadline: Instant,
) -> Result<Identity, Problem> {
    let Some(token) = bearer_token(&request.headers) else {
        return Err(Problem::unauthorized("a bearer token is required", "Bearer realm=\"drift-exporter\""));
    };
    let account = reviews.authenticate(key, token, deadline).await.map_err(review_unavailable)?;
    let Some(account) = account else {
        let challenge = "Bearer realm=\"drift-exporter\", error=\"invalid_token\"";
        return Err(Problem::unauthorized("the API server rejects this token", challenge));
    };
    let (path, verb) = (request.uri.path(), request.method.as_str().to_ascii_lowercase());
    let permission = Permission::Path { path, verb: &verb };
    if !reviews.is_allowed(key, &account, permission, deadline).await.map_err(review_unavailable)? {
        let detail = format!("this account may not {verb} {path}; it needs a rule for nonResourceURLs");
        return Err(Problem::new(StatusCode::FORBIDDEN, detail));
    }
    Ok(Identity::Account(account, deadline))
}

/// 503 instead of 401: the credentials may be valid, and a client would discard them after a 401.
pub(super) fn review_unavailable(_: ReviewUnavailable) -> Problem {
    Problem::unavailable("the API server does not answer TokenReviews and SubjectAccessReviews", 1)
}

/// The credentials of one scheme; none if the header is repeated.
fn credentials<'a>(headers: &'a HeaderMap, scheme: &str) -> Option<&'a str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (first, second) = (values.next()?, values.next());
    let (name, credentials) = first.to_str().ok()?.split_once(' ')?;
    (second.is_none() && name.eq_ignore_ascii_case(scheme)).then(|| credentials.trim())
}

fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    credentials(headers, "bearer").filter(|token| !token.is_empty() && !token.contains(' '))
}

fn basic_credentials(headers: &HeaderMap) -> Option<(String, String)> {
    let decoded = STANDARD.decode(credentials(headers, "basic")?).ok()?;
    let text = String::from_utf8(decoded).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

/// axum would replace invalid bytes, and the handler would filter by something else than the client sent.
fn check_query(uri: &Uri) -> Result<(), Problem> {
    match percent_decode_str(uri.query().unwrap_or_default()).decode_utf8() {
        Ok(_) => Ok(()),
        Err(_) => Err(Problem::bad_request("the query of the URL is not UTF-8")),
    }
}

/// Reads the whole body, so that no handler waits for one.
async fn read_body(body: Body) -> Result<Body, Problem> {
    if body.is_end_stream() {
        return Ok(body);
    }
    let too_large = || {
        let detail = format!("the request body is larger than {} KiB", MAX_BODY >> 10);
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
    };
    if body.size_hint().lower() > MAX_BODY as u64 {
        return Err(too_large());
    }
    let collected = timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY).collect()).await;
    let timed_out = |_| Problem::new(StatusCode::REQUEST_TIMEOUT, "the request body did not arrive in time");
    match collected.map_err(timed_out)? {
        Ok(collected) => Ok(Body::from(collected.to_bytes())),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
        Err(_) => Err(Problem::bad_request("the request body is incomplete")),
    }
}
