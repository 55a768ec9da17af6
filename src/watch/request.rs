//! Requests to the API server: URLs, responses and errors.

use std::{fmt::Write as _, iter, time::Duration};

use http::{Request, Response, StatusCode, header::RETRY_AFTER};
use http_body_util::{BodyExt as _, Limited};
use kube::{Client, client::Body};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use tokio::time::timeout;

use super::json_items::SplitError;
use crate::types::{DownReason, Kind, RestartReason, WatchSpec};

/// Upper bound for the Retry-After of the API server, in seconds.
const MAX_RETRY_AFTER: u64 = 120;
const MAX_ERROR_BODY: usize = 64 << 10;
const MAX_ERROR_MESSAGE_CHARS: usize = 512;

/// Everything but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// 410: the `resourceVersion` is too old, list again.
    #[error("the resourceVersion is too old")]
    Gone,
    /// The server has older data than before: list again.
    #[error("the API server went back to an older resourceVersion; was etcd restored from a backup?")]
    RolledBack,
    /// No bytes arrived for this long.
    #[error("the API server sent nothing for {0:?}")]
    Stalled(Duration),
    #[error("the server answered {status}: {message}")]
    Status {
        /// The code of the `Status` object, or of the response if the body is not a `Status`.
        status: StatusCode,
        message: String,
        /// From the header of the same name, at most two minutes.
        retry_after: Option<Duration>,
    },
    /// The connection could not be established, or was lost.
    #[error("the connection failed: {0}")]
    Connection(#[source] ConnectionError),
    /// The response is not the list, watch or document that the API defines.
    #[error("malformed response: {0}")]
    Malformed(#[source] MalformedResponse),
    /// The receiver of the events is gone, so the watch ends.
    #[error("the event receiver is closed")]
    Closed,
}

#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// Displays the innermost cause: the outer ones only name the layers of the client.
    #[error("{}", root_cause(source))]
    Client { source: Box<kube::Error> },
    #[error(transparent)]
    Request(#[from] http::Error),
    /// The response ended early.
    #[error(transparent)]
    Body(Box<kube::Error>),
    #[error("watches are cut as soon as they open")]
    CutWatches,
    /// An aggregated API server does not answer.
    #[error("its API server is unavailable")]
    Unavailable,
}

#[derive(Debug, thiserror::Error)]
pub enum MalformedResponse {
    #[error(transparent)]
    List(#[from] SplitError),
    #[error("the list has no resourceVersion")]
    NoResourceVersion,
    #[error("a line of the watch is not an event")]
    NotAnEvent(#[source] serde_json::Error),
    #[error("an event is larger than {} MiB", limit >> 20)]
    LargeEvent { limit: usize },
    #[error("more than {limit} bytes")]
    LargeBody { limit: usize },
    #[error(transparent)]
    Body(serde_json::Error),
    /// Without the error, which may quote a secret.
    #[error("a {kind}, column {column}")]
    Object { kind: &'static str, column: usize },
    #[error("the discovery document: {0}")]
    Discovery(#[source] serde_json::Error),
    #[error("discovery returned {kind}; aggregated discovery needs Kubernetes 1.27 or later")]
    NotAggregated { kind: String },
    #[error("{url}: {source}")]
    OpenApi { url: String, source: serde_json::Error },
    /// The parser failed. This is a bug.
    #[error("{url}: {source}")]
    Parser { url: String, source: tokio::task::JoinError },
}

impl From<SplitError> for ApiError {
    fn from(error: SplitError) -> Self {
        Self::Malformed(error.into())
    }
}

impl From<http::Error> for ApiError {
    fn from(error: http::Error) -> Self {
        Self::Connection(error.into())
    }
}

impl ApiError {
    /// The timeout of the client counts as a stall.
    fn from_client(error: kube::Error, idle_timeout: Duration) -> Self {
        match error {
            kube::Error::Api(status) => {
                let kube::core::Status { code, message, .. } = *status;
                return ApiStatus { code, message }.into_error(StatusCode::INTERNAL_SERVER_ERROR, None);
            }
            kube::Error::SerdeError(error) => return Self::Malformed(MalformedResponse::Body(error)),
            _ => {}
        }
        let first: &dyn std::error::Error = &error;
        let mut causes = iter::successors(Some(first), |cause| cause.source());
        if causes.any(<dyn std::error::Error>::is::<tower::timeout::error::Elapsed>) {
            return Self::Stalled(idle_timeout);
        }
        Self::Connection(ConnectionError::Client { source: Box::new(error) })
    }

    /// Whether a watch has to list again instead of resuming.
    pub(super) fn requires_relist(&self) -> bool {
        match self {
            // A resumed watch would receive the malformed line again.
            Self::Gone | Self::RolledBack | Self::Malformed(_) => true,
            Self::Stalled(_) | Self::Status { .. } | Self::Connection(_) | Self::Closed => false,
        }
    }

    /// Whether the server no longer has, or does not yet have, the version of the watch.
    pub(super) fn is_version_lost(&self) -> bool {
        matches!(self, Self::Gone | Self::RolledBack)
    }

    /// The `reason` of a watch that is down because of this error.
    pub fn down_reason(&self) -> DownReason {
        match self {
            Self::Status { status: StatusCode::FORBIDDEN, .. } => DownReason::Forbidden,
            Self::Status { status: StatusCode::NOT_FOUND, .. } => DownReason::NotFound,
            Self::Stalled(_) => DownReason::Stalled,
            Self::Status { .. }
            | Self::Connection(_)
            | Self::Malformed(_)
            | Self::Gone
            | Self::RolledBack
            | Self::Closed => DownReason::Error,
        }
    }

    /// The `reason` in `drift_watch_restarts_total`.
    pub(super) fn restart_reason(&self) -> RestartReason {
        match (self, self.down_reason()) {
            (Self::Gone | Self::RolledBack, _) => RestartReason::Gone,
            (_, DownReason::Forbidden) => RestartReason::Forbidden,
            (_, DownReason::NotFound) => RestartReason::NotFound,
            (_, DownReason::Stalled) => RestartReason::Stalled,
            (_, DownReason::Refused | DownReason::Error) => RestartReason::Error,
        }
    }

    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            Self::Gone
            | Self::RolledBack
            | Self::Stalled(_)
            | Self::Connection(_)
            | Self::Malformed(_)
            | Self::Closed => None,
        }
    }
}

/// The part of a `metav1.Status` that an [`ApiError`] needs.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ApiStatus {
    code: u16,
    message: String,
}

impl ApiStatus {
    /// `response` is the code of the HTTP response; it counts if the body has no valid code.
    pub(super) fn into_error(self, response: StatusCode, retry_after: Option<Duration>) -> ApiError {
        let code = StatusCode::from_u16(self.code).ok().filter(|code| code.as_u16() >= 400);
        let status = code.unwrap_or(response);
        if status == StatusCode::GONE {
            return ApiError::Gone;
        }
        let message = if self.message.is_empty() { "no message".to_owned() } else { self.message };
        let message = message.chars().take(MAX_ERROR_MESSAGE_CHARS).collect();
        ApiError::Status { status, message, retry_after }
    }
}

/// Sends a request and waits for the head of the response, whatever its status is.
pub(super) async fn send(
    client: &Client,
    request: Request<Body>,
    idle_timeout: Duration,
) -> Result<Response<Body>, ApiError> {
    request_with_timeout(idle_timeout, client.send(request)).await
}

/// Waits for the response to a request of kube for at most `limit`.
pub async fn request_with_timeout<T>(
    limit: Duration,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, ApiError> {
    let response = timeout(limit, request).await.map_err(|_| ApiError::Stalled(limit))?;
    response.map_err(|error| ApiError::from_client(error, limit))
}

/// The last error in the chain of sources. The others only name the layers that it passed.
pub fn root_cause(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), root_cause)
}

pub(super) async fn read_body(
    response: Response<Body>,
    limit: usize,
    idle_timeout: Duration,
) -> Result<bytes::Bytes, ApiError> {
    let body = timeout(idle_timeout, Limited::new(response.into_body(), limit).collect());
    let body = body.await.map_err(|_| ApiError::Stalled(idle_timeout))?;
    // The only other error is that the body is too long.
    let body_error = |error: Box<dyn std::error::Error + Send + Sync>| match error.downcast::<kube::Error>() {
        Ok(error) => ApiError::Connection(ConnectionError::Body(error)),
        Err(_) => ApiError::Malformed(MalformedResponse::LargeBody { limit }),
    };
    Ok(body.map_err(body_error)?.to_bytes())
}

/// Returns the response if it is a success, else its error.
pub(super) async fn check_status(
    response: Response<Body>,
    idle_timeout: Duration,
) -> Result<Response<Body>, ApiError> {
    let code = response.status();
    if code.is_success() {
        return Ok(response);
    }
    let retry_after = response
        .headers()
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.parse().ok())
        .map(|seconds: u64| Duration::from_secs(seconds.min(MAX_RETRY_AFTER)));
    let body = read_body(response, MAX_ERROR_BODY, idle_timeout).await.ok();
    let status: ApiStatus = body.and_then(|body| serde_json::from_slice(&body).ok()).unwrap_or_default();
    Err(status.into_error(code, retry_after))
}

/// The URL of a complete list. Without a `resourceVersion` the server reads the most recent state, so a relist never goes
/// back in time.
pub(super) fn list_url(spec: &WatchSpec) -> String {
    let mut url = collection_path(&spec.kind, spec.namespace.as_deref());
    let mut separator = '?';
    if let Some(selector) = &spec.selector {
        let _ = write!(url, "?labelSelector={}", encode(&selector.to_string()));
        separator = '&';
    }
    let excluded = spec.excluded.iter().map(|namespace| format!("metadata.namespace!={namespace}"));
    let named = spec.name.iter().map(|name| format!("metadata.name={name}"));
    // Only Secrets are excluded by the server. Of other kinds there may be too many for a URL: the decoder drops them.
    let without = spec.excluded_names.iter().filter(|_| spec.kind.requires_selector());
    let without = without.map(|(_, name)| format!("metadata.name!={name}"));
    let fields: Vec<String> = excluded.chain(named).chain(without).collect();
    if !fields.is_empty() {
        let _ = write!(url, "{separator}fieldSelector={}", encode(&fields.join(",")));
    }
    url
}

/// The URL of a watch that starts at this `resourceVersion` and that the server ends after `timeout_seconds`.
pub(super) fn watch_url(spec: &WatchSpec, resource_version: &str, timeout_seconds: u64) -> String {
    let list = list_url(spec);
    let separator = if list.contains('?') { '&' } else { '?' };
    let version = encode(resource_version);
    format!(
        "{list}{separator}watch=1&allowWatchBookmarks=true&timeoutSeconds={timeout_seconds}&resourceVersion={version}"
    )
}

/// The URL of a list that reads one key from etcd and returns the newest `resourceVersion`. It selects one name in one
/// namespace, which the permission to list the collection includes. If the watch has no name, the selected name need not exist.
pub(super) fn probe_url(spec: &WatchSpec) -> String {
    let namespace = spec.namespace.as_deref().or(spec.kind.namespaced.then_some("default"));
    let name = spec.name.as_deref().unwrap_or("drift-exporter");
    let field = format!("metadata.name={name}");
    format!("{}?fieldSelector={}&limit=1", collection_path(&spec.kind, namespace), encode(&field))
}

/// The URL of one object. The namespace is ignored for cluster-scoped kinds.
pub fn object_url(kind: &Kind, namespace: &str, name: &str) -> String {
    let namespace = kind.namespaced.then_some(namespace);
    format!("{}/{}", collection_path(kind, namespace), encode(name))
}

fn collection_path(kind: &Kind, namespace: Option<&str>) -> String {
    let root = if kind.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", kind.group) };
    let Kind { version, plural, .. } = kind;
    match namespace {
        Some(namespace) => format!("{root}/{version}/namespaces/{}/{plural}", encode(namespace)),
        None => format!("{root}/{version}/{plural}"),
    }
}

fn encode(text: &str) -> percent_encoding::PercentEncode<'_> {
    utf8_percent_encode(text, RESERVED)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{list_url, probe_url, watch_url};
    use crate::types::{Kind, Selector, WatchSpec};

    #[test]
    fn urls_carry_selector_namespace_and_excluded_namespaces() {
        let mut spec = WatchSpec::all(Arc::new(Kind::deployment()));
        spec.selector = Selector::parse("tfdrift.jin.dev/enabled=true").ok();
        let list = "/apis/apps/v1/deployments?labelSelector=tfdrift.jin.dev%2Fenabled%3Dtrue";
        assert_eq!(list_url(&spec), list);
        assert_eq!(
            watch_url(&spec, "42", 30),
            format!("{list}&watch=1&allowWatchBookmarks=true&timeoutSeconds=30&resourceVersion=42")
        );
        spec.kind = Arc::new(Kind::service());
        spec.namespace = Some("shop".into());
        spec.selector = None;
        assert_eq!(list_url(&spec), "/api/v1/namespaces/shop/services");
        spec.namespace = None;
        spec.excluded = vec!["kube-system".into(), "tmp".into()];
        let fields = "metadata.namespace%21%3Dkube-system%2Cmetadata.namespace%21%3Dtmp";
        assert_eq!(list_url(&spec), format!("/api/v1/services?fieldSelector={fields}"));
        spec.selector = Selector::parse("a in (b,c)").ok();
        let labels = "a%20in%20%28b%2Cc%29";
        assert_eq!(
            list_url(&spec),
            format!("/api/v1/services?labelSelector={labels}&fieldSelector={fields}")
        );
        let mut one = WatchSpec::all(Arc::new(Kind::service()));
        (one.namespace, one.name) = (Some("shop".into()), Some("web".into()));
        assert_eq!(list_url(&one), "/api/v1/namespaces/shop/services?fieldSelector=metadata.name%3Dweb");
    }

    #[test]
    fn probe_reads_one_name_in_one_namespace() {
        let mut spec = WatchSpec::all(Arc::new(Kind::service()));
        spec.selector = Selector::parse("a=b").ok();
        let default =
            "/api/v1/namespaces/default/services?fieldSelector=metadata.name%3Ddrift-exporter&limit=1";
        assert_eq!(probe_url(&spec), default);
        (spec.namespace, spec.name) = (Some("shop".into()), Some("web".into()));
        assert_eq!(
            probe_url(&spec),
            "/api/v1/namespaces/shop/services?fieldSelector=metadata.name%3Dweb&limit=1"
        );
    }

    #[test]
    fn secrets_of_other_watches_are_excluded_by_the_server() {
        let secret = Kind { plural: "secrets".into(), ..Kind::undiscovered("", "v1", "Secret") };
        for (kind, fields) in
            [(secret, "?fieldSelector=metadata.name%21%3Da%2Cmetadata.name%21%3Db"), (Kind::service(), "")]
        {
            let url = format!("/api/v1/namespaces/shop/{}{fields}", kind.plural);
            let without = Arc::new([("shop", "a"), ("shop", "b")].into_iter().collect());
            let whole = WatchSpec::all(Arc::new(kind));
            assert_eq!(
                list_url(&WatchSpec { namespace: Some("shop".into()), excluded_names: without, ..whole }),
                url
            );
        }
    }
}
