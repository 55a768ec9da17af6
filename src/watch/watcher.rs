//! The list/watch loop of one collection.
//!
//! A [`Watcher`] lists, watches from the `resourceVersion` of the list, resumes from the last version or bookmark after a
//! disconnect, and lists again after a 410. A [`WatchHandler`] decodes the objects and receives the [`WatcherEvent`]s.

use std::{sync::Arc, time::Duration};

use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info, warn};

use super::{
    json_items::{ItemSplitter, ListLayout, Part},
    metrics::KindMetrics,
    request::{
        ApiError, ApiStatus, ConnectionError, MalformedResponse, check_status, list_url, send, watch_url,
    },
};
use crate::types::{RestartReason, WatchEvent, WatchMode, WatchSpec};

/// Larger than any object that etcd stores.
const MAX_OBJECT_BYTES: usize = 32 << 20;
const LIST: ListLayout = ListLayout { list: "items", members: &["metadata"], max_bytes: MAX_OBJECT_BYTES };

#[derive(Clone, Copy, Debug)]
pub struct WatcherConfig {
    /// `timeoutSeconds` of a watch: the server ends it, and a new one proves that the connection works.
    pub watch_timeout: Duration,
    /// Longest silence, before a response or within one, after which a watch counts as stalled. Longer than
    /// `watch_timeout`, because a quiet watch of a server without bookmarks sends nothing.
    pub idle_timeout: Duration,
    pub initial_backoff: Duration,
    pub max_backoff: Duration,
    /// Whether collections are watched after they are listed.
    pub mode: WatchMode,
}

impl Default for WatcherConfig {
    fn default() -> Self {
        Self {
            watch_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(40),
            initial_backoff: Duration::from_millis(800),
            max_backoff: Duration::from_secs(30),
            mode: WatchMode::Continuous,
        }
    }
}

/// Decodes the objects of a [`Watcher`] and receives its events.
pub trait WatchHandler: Send + Sync {
    /// A decoded object.
    type Object: Send;

    /// What the API server sends for each object.
    fn representation(&self) -> Representation;

    /// An error ends the list or watch, which is then tried again.
    fn decode(&self, json: &[u8]) -> Result<Self::Object, ApiError>;

    /// The version from which a watch resumes after this object.
    fn resource_version(object: &Self::Object) -> Option<&str>;

    /// Receives an event. An error ends the watcher.
    fn handle(
        &self,
        event: WatcherEvent<Self::Object>,
    ) -> impl Future<Output = Result<(), ReceiverClosed>> + Send;

    /// Whether the handler logs failures, so that the watcher does not.
    fn logs_failures(&self) -> bool {
        false
    }

    /// Resolves once no event can be received any more.
    fn closed(&self) -> impl Future<Output = ()> + Send;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Representation {
    Full,
    /// `PartialObjectMetadata`: the contents of Secrets and ConfigMaps never reach this process.
    MetadataOnly,
}

impl Representation {
    fn accept(self, operation: Operation) -> &'static str {
        match (self, operation) {
            (Self::Full, _) => "application/json",
            (Self::MetadataOnly, Operation::List) => {
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
            }
            (Self::MetadataOnly, Operation::Watch) => {
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
            }
        }
    }
}

/// What a [`Watcher`] reports. A list is complete when `ListEnded` arrives; one that fails halfway starts again.
#[derive(Debug)]
pub enum WatcherEvent<T> {
    /// A list begins. Discard what an unfinished list brought.
    ListStarted,
    Listed(T),
    /// The list is complete: the collection is synced, and objects that were not listed do not exist.
    ListEnded,
    /// The object was added or modified.
    Applied(T),
    /// The object was deleted, or the selector no longer matches it.
    Deleted(T),
    /// The watch is open, or the list is complete and nothing is watched after it.
    Up,
    /// The watch was cut, or works again after a failure. The server does this when the schema of the kind changes.
    Interrupted,
    /// A request failed. The watcher retries; what it reported before remains valid but is stale.
    Failed(Operation, ApiError),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    List,
    Watch,
}

/// The receiver of events is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverClosed;

impl From<ReceiverClosed> for ApiError {
    fn from(_: ReceiverClosed) -> Self {
        Self::Closed
    }
}

/// Lists and watches one collection until its handler is closed.
pub(crate) struct Watcher<H> {
    spec: Arc<WatchSpec>,
    client: Client,
    config: WatcherConfig,
    metrics: KindMetrics,
    handler: H,
}

impl<H: WatchHandler> Watcher<H> {
    /// A watcher of the collection of `spec`. The handler applies the names and filters of the spec to the objects.
    pub(crate) fn new(
        spec: Arc<WatchSpec>,
        client: Client,
        config: WatcherConfig,
        metrics: KindMetrics,
        handler: H,
    ) -> Self {
        Self { spec, client, config, metrics, handler }
    }

    /// Runs until the handler is closed.
    pub(crate) async fn run(self) {
        let mut backoff = Backoff::new(self.config.initial_backoff, self.config.max_backoff);
        let (mut version, mut logged) = (None, String::new());
        loop {
            let operation = if version.is_none() { Operation::List } else { Operation::Watch };
            let handled = match self.list_or_watch(&mut version, &mut backoff).await {
                Ok(()) => {
                    logged.clear();
                    Ok(())
                }
                Err(ApiError::Closed) => return,
                // One 410 is normal. A second one without an event in between must not become a loop of lists.
                Err(ApiError::Gone) if backoff.is_first_gone() => {
                    self.metrics.restarted(RestartReason::Gone);
                    info!(watch = %self.spec, "The resourceVersion is too old; listing again.");
                    self.handler.handle(WatcherEvent::Interrupted).await
                }
                Err(error) => {
                    self.metrics.restarted(error.restart_reason());
                    let delay = backoff.next_delay().max(error.retry_after().unwrap_or_default());
                    // Each error is logged once, however often it repeats.
                    if !self.handler.logs_failures() && logged != error.to_string() {
                        logged = error.to_string();
                        warn!(watch = %self.spec, %error, "Watch is down; retrying.");
                    }
                    let handled = self.handler.handle(WatcherEvent::Failed(operation, error)).await;
                    if handled.is_ok() {
                        sleep(delay).await;
                    }
                    handled
                }
            };
            if handled.is_err() {
                return;
            }
        }
    }

    /// Lists if there is no version to resume from, else watches once.
    async fn list_or_watch(
        &self,
        version: &mut Option<String>,
        backoff: &mut Backoff,
    ) -> Result<(), ApiError> {
        let Some(mut newest) = version.take() else {
            *version = Some(self.list().await?);
            if self.config.mode == WatchMode::Once {
                self.handler.handle(WatcherEvent::Up).await?;
                self.handler.closed().await;
                return Err(ApiError::Closed);
            }
            return Ok(());
        };
        let result = self.watch(&mut newest, backoff).await;
        if !result.as_ref().is_err_and(ApiError::requires_relist) {
            *version = Some(newest);
        }
        result
    }

    /// Returns the `resourceVersion` of the list.
    async fn list(&self) -> Result<String, ApiError> {
        let mut body = self.get(Operation::List, &list_url(&self.spec)).await?.into_body();
        self.handler.handle(WatcherEvent::ListStarted).await?;
        let mut splitter = ItemSplitter::new(LIST);
        let mut metadata = None;
        let mut objects = Vec::new();
        while let Some(chunk) = self.next_chunk(&mut body).await? {
            splitter.push(&chunk, |part| match part {
                Part::Item(item) => objects.push(self.handler.decode(item)),
                Part::Member(_, value) => metadata = serde_json::from_slice::<ListMeta>(value).ok(),
            })?;
            for object in objects.drain(..) {
                self.metrics.listed();
                self.handler.handle(WatcherEvent::Listed(object?)).await?;
            }
        }
        splitter.finish()?;
        let version = metadata
            .map(|metadata| metadata.resource_version)
            .ok_or(ApiError::Malformed(MalformedResponse::NoResourceVersion))?;
        self.handler.handle(WatcherEvent::ListEnded).await?;
        debug!(watch = %self.spec, version, "Listed.");
        Ok(version)
    }

    /// Watches from `version` on and advances it with each event.
    async fn watch(&self, version: &mut String, backoff: &mut Backoff) -> Result<(), ApiError> {
        let started = Instant::now();
        let url = watch_url(&self.spec, version, self.config.watch_timeout.as_secs());
        let mut body = self.get(Operation::Watch, &url).await?.into_body();
        let _open = self.metrics.opened();
        if backoff.has_failed() {
            self.handler.handle(WatcherEvent::Interrupted).await?;
        }
        self.handler.handle(WatcherEvent::Up).await?;
        let mut lines = LineBuffer::default();
        while let Some(chunk) = self.next_chunk(&mut body).await? {
            for line in lines.push(&chunk)? {
                self.handle_line(&line, version).await?;
                backoff.reset();
            }
        }
        if started.elapsed() < self.config.watch_timeout {
            self.handler.handle(WatcherEvent::Interrupted).await?;
        }
        if started.elapsed() < self.config.watch_timeout / 2 {
            // One early end is normal. A proxy that cuts every watch is an outage and must be reported as one.
            if backoff.has_failed() {
                return Err(ApiError::Connection(ConnectionError::CutWatches));
            }
            self.metrics.restarted(RestartReason::Closed);
            sleep(backoff.next_delay()).await;
        } else {
            self.metrics.restarted(RestartReason::Planned);
            backoff.reset();
        }
        Ok(())
    }

    async fn handle_line(&self, line: &[u8], version: &mut String) -> Result<(), ApiError> {
        let malformed = |error| ApiError::Malformed(MalformedResponse::NotAnEvent(error));
        let line: WatchLine<'_> = serde_json::from_slice(line).map_err(malformed)?;
        let object = line.object.get();
        let event = match line.event {
            "ADDED" => WatchEvent::Added,
            "MODIFIED" => WatchEvent::Modified,
            "DELETED" => WatchEvent::Deleted,
            "BOOKMARK" => {
                self.metrics.event(WatchEvent::Bookmark);
                if let Ok(bookmark) = serde_json::from_str::<Bookmark>(object) {
                    *version = bookmark.metadata.resource_version;
                }
                return Ok(());
            }
            _ => {
                self.metrics.event(WatchEvent::Error);
                let status: ApiStatus = serde_json::from_str(object).map_err(malformed)?;
                return Err(status.into_error(StatusCode::INTERNAL_SERVER_ERROR, None));
            }
        };
        self.metrics.event(event);
        let object = self.handler.decode(object.as_bytes())?;
        if let Some(newer) = H::resource_version(&object) {
            newer.clone_into(version);
        }
        let is_deleted = event == WatchEvent::Deleted;
        let event = if is_deleted { WatcherEvent::Deleted(object) } else { WatcherEvent::Applied(object) };
        Ok(self.handler.handle(event).await?)
    }

    async fn get(&self, operation: Operation, url: &str) -> Result<Response<Body>, ApiError> {
        let accept = self.handler.representation().accept(operation);
        let request = Request::get(url).header("accept", accept).body(Body::empty())?;
        let response = send(&self.client, request, self.config.idle_timeout).await?;
        self.metrics.contact();
        check_status(response, self.config.idle_timeout).await
    }

    async fn next_chunk(&self, body: &mut Body) -> Result<Option<bytes::Bytes>, ApiError> {
        loop {
            let frame = timeout(self.config.idle_timeout, body.frame()).await;
            let Some(frame) = frame.map_err(|_| ApiError::Stalled(self.config.idle_timeout))? else {
                return Ok(None);
            };
            let cut = |error: kube::Error| ApiError::Connection(ConnectionError::Body(error.into()));
            let frame = frame.map_err(cut)?;
            self.metrics.contact();
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    resource_version: String,
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: ListMeta,
}

/// One line of a watch, with its object unparsed.
#[derive(Debug, Deserialize)]
pub struct WatchLine<'a> {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    #[serde(rename = "type")]
    pub event: &'a str,
    /// The object, or the status of an error.
    #[serde(borrow)]
    pub object: &'a RawValue,
}

/// Joins lines that arrive in several chunks.
#[derive(Debug, Default)]
pub struct LineBuffer {
    partial: Vec<u8>,
}

impl LineBuffer {
    pub fn push(&mut self, chunk: &[u8]) -> Result<Vec<Vec<u8>>, ApiError> {
        let mut lines = Vec::new();
        let mut rest = chunk;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let mut line = std::mem::take(&mut self.partial);
            line.extend_from_slice(&rest[..end]);
            if !line.iter().all(u8::is_ascii_whitespace) {
                lines.push(line);
            }
            rest = &rest[end + 1..];
        }
        if self.partial.len() + rest.len() > MAX_OBJECT_BYTES {
            return Err(ApiError::Malformed(MalformedResponse::LargeEvent { limit: MAX_OBJECT_BYTES }));
        }
        self.partial.extend_from_slice(rest);
        Ok(lines)
    }
}

/// Exponential backoff with jitter, so that exporters do not reconnect all at once.
#[derive(Clone, Debug)]
pub(super) struct Backoff {
    initial: Duration,
    max: Duration,
    failures: u32,
    /// Whether a 410 arrived since the last reset.
    gone: bool,
}

impl Backoff {
    pub(super) fn new(initial: Duration, max: Duration) -> Self {
        Self { initial, max, failures: 0, gone: false }
    }

    /// Counts a failure. The delay is between half of the step and the whole step.
    pub(super) fn next_delay(&mut self) -> Duration {
        let step = self.initial.saturating_mul(2_u32.saturating_pow(self.failures)).min(self.max);
        self.failures = self.failures.saturating_add(1);
        step.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    fn has_failed(&self) -> bool {
        self.failures > 0
    }

    /// Records a 410. The first one since the last reset needs no delay, however many other failures came before.
    fn is_first_gone(&mut self) -> bool {
        !std::mem::replace(&mut self.gone, true)
    }

    fn reset(&mut self) {
        self.failures = 0;
        self.gone = false;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Backoff;

    #[test]
    fn backoff_doubles_up_to_its_maximum_with_jitter() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(10));
        for step in [1, 2, 4, 8, 10, 10] {
            let delay = backoff.next_delay();
            assert!(
                delay >= Duration::from_secs(step) / 2 && delay <= Duration::from_secs(step),
                "{delay:?}"
            );
        }
        backoff.reset();
        assert!(backoff.next_delay() <= Duration::from_secs(1));
        let mut delays: Vec<_> =
            (0..20).map(|_| Backoff::new(Duration::from_secs(1), Duration::MAX).next_delay()).collect();
        delays.dedup();
        assert!(delays.len() > 1, "there is no jitter");
    }
}
