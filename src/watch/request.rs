//! Requests to the API server: their URLs, what it answers, and why a list or a watch ends.

use std::{fmt::Write as _, time::Duration};

use http::{Request, Response, StatusCode, header::RETRY_AFTER};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use kube::{Client, client::Body};
use serde::Deserialize;
use tokio::time::timeout;

use super::{json_items::SplitError, watcher::LineTooLong};
use crate::types::{DownReason, Kind, Restart, WatchSpec};

/// A server that asks us to stay away for longer than this many seconds is asked again all the same.
const LONGEST_RETRY_AFTER: u64 = 120;

/// Sends a request and waits for the head of the answer, whatever it says.
pub(super) async fn answer(
    client: &Client,
    request: Request<Body>,
    silence: Duration,
) -> Result<Response<Body>, Fault> {
    timeout(silence, client.send(request))
        .await
        .map_err(|_| Fault::Stalled(silence))?
        .map_err(|error| Fault::from_client(&error, silence))
}

/// Reads an answer to its end.
pub(super) async fn whole(
    response: Response<Body>,
    limit: usize,
    silence: Duration,
) -> Result<bytes::Bytes, Fault> {
    let body = timeout(silence, Limited::new(response.into_body(), limit).collect());
    let body = body.await.map_err(|_| Fault::Stalled(silence))?;
    let broken = |error: Box<dyn std::error::Error + Send + Sync>| {
        if error.is::<LengthLimitError>() {
            Fault::Garbled(format!("it has more than {limit} bytes"))
        } else {
            Fault::Connection(error.to_string())
        }
    };
    Ok(body.map_err(broken)?.to_bytes())
}

/// What an answer means that is no success.
pub(super) async fn refusal(response: Response<Body>, silence: Duration) -> Fault {
    let status = response.status();
    let retry_after = response
        .headers()
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.parse().ok())
        .map(|seconds: u64| Duration::from_secs(seconds.min(LONGEST_RETRY_AFTER)));
    let said = whole(response, 64 << 10, silence).await.ok();
    let said: ApiStatus = said.and_then(|said| serde_json::from_slice(&said).ok()).unwrap_or_default();
    said.into_fault(status, retry_after)
}

/// Why a list or a watch came to an end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// The server no longer has the version that we know.
    #[error("the server has forgotten this version")]
    Gone,
    /// Nothing came, for too long.
    #[error("nothing was heard for {0:?}")]
    Stalled(Duration),
    /// The server said no.
    #[error("the server answered {status}: {message}")]
    Refused { status: StatusCode, message: String, retry_after: Option<Duration> },
    /// The connection could not be made, or broke.
    #[error("the connection failed: {0}")]
    Connection(String),
    /// What came is not what a list or a watch should be.
    #[error("what the server sent cannot be read: {0}")]
    Garbled(String),
    /// Nobody listens any more.
    #[error("the engine has stopped")]
    Stopped,
}

impl From<SplitError> for Fault {
    fn from(error: SplitError) -> Self {
        Self::Garbled(error.to_string())
    }
}

impl From<LineTooLong> for Fault {
    fn from(error: LineTooLong) -> Self {
        Self::Garbled(error.to_string())
    }
}

impl From<http::Error> for Fault {
    fn from(error: http::Error) -> Self {
        Self::Connection(error.to_string())
    }
}

impl Fault {
    /// A request that failed. The client's own time limit is a stall too; other failures are told with their innermost
    /// cause, which names the fault.
    pub(super) fn from_client(error: &kube::Error, silence: Duration) -> Self {
        let mut cause: &dyn std::error::Error = error;
        loop {
            if cause.is::<tower::timeout::error::Elapsed>() {
                return Self::Stalled(silence);
            }
            match cause.source() {
                Some(source) => cause = source,
                None => return Self::Connection(cause.to_string()),
            }
        }
    }

    /// Whether the version that we know is of no more use.
    pub(super) fn voids_version(&self) -> bool {
        match self {
            // The same line would come again.
            Self::Gone | Self::Garbled(_) => true,
            Self::Stalled(_) | Self::Refused { .. } | Self::Connection(_) | Self::Stopped => false,
        }
    }

    /// What it makes of the stream.
    pub(super) fn down_reason(&self) -> DownReason {
        match self {
            Self::Refused { status: StatusCode::FORBIDDEN, .. } => DownReason::Forbidden,
            Self::Refused { status: StatusCode::NOT_FOUND, .. } => DownReason::NotFound,
            Self::Stalled(_) => DownReason::Stalled,
            Self::Refused { .. } | Self::Connection(_) | Self::Garbled(_) | Self::Gone | Self::Stopped => {
                DownReason::Error
            }
        }
    }

    /// How it is counted.
    pub(super) fn restart(&self) -> Restart {
        match (self, self.down_reason()) {
            (Self::Gone, _) => Restart::Gone,
            (_, DownReason::Forbidden) => Restart::Forbidden,
            (_, DownReason::NotFound) => Restart::NotFound,
            (_, DownReason::Stalled) => Restart::Stalled,
            (_, DownReason::Refused | DownReason::Error) => Restart::Error,
        }
    }

    /// How long the server wants to be left alone.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            Self::Gone | Self::Stalled(_) | Self::Connection(_) | Self::Garbled(_) | Self::Stopped => None,
        }
    }
}

/// The part of a Kubernetes `Status` that we act on.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ApiStatus {
    code: u16,
    message: String,
}

impl ApiStatus {
    /// What a status means; `http` is the response's own, for bodies that name none.
    pub(super) fn into_fault(self, http: StatusCode, retry_after: Option<Duration>) -> Fault {
        let status = StatusCode::from_u16(self.code).ok().filter(|code| code.as_u16() >= 400).unwrap_or(http);
        if status == StatusCode::GONE {
            return Fault::Gone;
        }
        let message = if self.message.is_empty() { "no message".to_owned() } else { self.message };
        Fault::Refused { status, message: message.chars().take(512).collect(), retry_after }
    }
}

/// The URL of a complete list. Without a resourceVersion the answer is never older than what we already saw.
pub(super) fn list_url(stream: &WatchSpec) -> String {
    let mut url = collection(&stream.kind, stream.namespace.as_deref());
    let mut joint = '?';
    if let Some(selector) = &stream.selector {
        let selector = encode(&selector.to_string());
        write!(url, "?labelSelector={selector}").expect("writing to a string cannot fail");
        joint = '&';
    }
    let excluded = stream.excluded.iter().map(|name| format!("metadata.namespace!={name}"));
    let named = stream.name.iter().map(|name| format!("metadata.name={name}"));
    // Of other kinds there may be too many for a URL, and we leave them out here.
    let left_out = stream.without.iter().filter(|_| stream.kind.is_guarded());
    let without = left_out.map(|(_, name)| format!("metadata.name!={name}"));
    let fields: Vec<String> = excluded.chain(named).chain(without).collect();
    if !fields.is_empty() {
        write!(url, "{joint}fieldSelector={}", encode(&fields.join(",")))
            .expect("writing to a string cannot fail");
    }
    url
}

/// The URL of one object.
pub fn object_url(kind: &Kind, namespace: &str, name: &str) -> String {
    let namespace = kind.namespaced.then_some(namespace);
    format!("{}/{}", collection(kind, namespace), encode(name))
}

/// The URL of a watch from this version on, which the server ends by itself after `seconds`.
pub(super) fn watch_url(stream: &WatchSpec, resource_version: &str, seconds: u64) -> String {
    let mut url = list_url(stream);
    let joint = if url.contains('?') { '&' } else { '?' };
    write!(
        url,
        "{joint}watch=1&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={}",
        encode(resource_version)
    )
    .expect("writing to a string cannot fail");
    url
}

fn collection(kind: &Kind, namespace: Option<&str>) -> String {
    let mut url = if kind.group.is_empty() {
        format!("/api/{}", kind.version)
    } else {
        format!("/apis/{}/{}", kind.group, kind.version)
    };
    if let Some(namespace) = namespace {
        write!(url, "/namespaces/{}", encode(namespace)).expect("writing to a string cannot fail");
    }
    write!(url, "/{}", kind.plural).expect("writing to a string cannot fail");
    url
}

/// Percent-encodes everything but unreserved characters.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => write!(encoded, "%{byte:02X}").expect("writing to a string cannot fail"),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{list_url, watch_url};
    use crate::types::{Kind, Selector, WatchSpec};

    #[test]
    fn the_selector_and_the_namespace_go_to_the_server() {
        let mut stream = WatchSpec::whole(Arc::new(Kind::deployment()));
        stream.selector = Selector::parse("tfdrift.jin.dev/enabled=true").ok();
        let list = "/apis/apps/v1/deployments?labelSelector=tfdrift.jin.dev%2Fenabled%3Dtrue";
        assert_eq!(list_url(&stream), list);
        assert_eq!(
            watch_url(&stream, "42", 30),
            format!("{list}&watch=1&allowWatchBookmarks=true&timeoutSeconds=30&resourceVersion=42")
        );
        stream.kind = Arc::new(Kind::service());
        stream.namespace = Some("shop".into());
        stream.selector = None;
        assert_eq!(list_url(&stream), "/api/v1/namespaces/shop/services");
        stream.namespace = None;
        stream.excluded = vec!["kube-system".into(), "tmp".into()];
        let fields = "metadata.namespace%21%3Dkube-system%2Cmetadata.namespace%21%3Dtmp";
        assert_eq!(list_url(&stream), format!("/api/v1/services?fieldSelector={fields}"));
        stream.selector = Selector::parse("a in (b,c)").ok();
        let labels = "a%20in%20%28b%2Cc%29";
        assert_eq!(
            list_url(&stream),
            format!("/api/v1/services?labelSelector={labels}&fieldSelector={fields}")
        );
        let mut one = WatchSpec::whole(Arc::new(Kind::service()));
        (one.namespace, one.name) = (Some("shop".into()), Some("web".into()));
        assert_eq!(list_url(&one), "/api/v1/namespaces/shop/services?fieldSelector=metadata.name%3Dweb");
    }

    #[test]
    fn secrets_that_others_ask_for_are_left_out_by_the_server() {
        let secret = Kind { plural: "secrets".into(), ..Kind::unseen("", "v1", "Secret") };
        for (kind, fields) in
            [(secret, "?fieldSelector=metadata.name%21%3Da%2Cmetadata.name%21%3Db"), (Kind::service(), "")]
        {
            let url = format!("/api/v1/namespaces/shop/{}{fields}", kind.plural);
            let without = Arc::new([("shop", "a"), ("shop", "b")].into_iter().collect());
            let whole = WatchSpec::whole(Arc::new(kind));
            assert_eq!(list_url(&WatchSpec { namespace: Some("shop".into()), without, ..whole }), url);
        }
    }
}
