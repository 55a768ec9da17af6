//! The list/watch loop of one collection.
//!
//! A [`Watcher`] lists, watches from the `resourceVersion` of the list, resumes from the last version or bookmark after a
//! disconnect, and lists again after a 410. A [`WatchHandler`] decodes the objects and receives the [`WatcherEvent`]s.
//!
//! # When a watch is up
//!
//! A watch is up after a list. After a failure, it is up once the watcher has read the backlog. The API server sends the backlog
//! first and does not mark its end. The watcher therefore requests the newest version with a list of at most one object
//! ([`probe_url`]), and has caught up when one of these is true:
//!
//! - An event or a bookmark reaches that version. The server sends a bookmark two seconds before the end of a watch, so the
//!   watch after a failure is short.
//! - The server ended a watch at its timeout and sent nothing. There is no backlog: a server sends no bookmark of a version that
//!   the client already has.
//!
//! # When a version is lost
//!
//! A 410 reports a lost version. After a restore of etcd from a backup, nothing reports it: the server accepts a watch from a
//! version in its future, and sends nothing until it reaches that version. The watcher therefore compares its version with the
//! newest one after a disconnect and after a watch without any event. Watches that fail while lists succeed also count as a
//! lost version.
//!
//! # When the decoder changes
//!
//! The new decoder reads new events at once. The other objects are relisted while the watch stays open ([`Watcher::relist`]), so
//! the cache has all changes and the watch stays up. The list may be newer than the version of the watch: an older event that
//! arrives after it moves an object back until the next event of that object.

use std::{
    future::{Future, pending},
    mem,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info, warn};
use zeroize::Zeroize as _;

use super::{
    json_items::{ItemSplitter, ListLayout, Part},
    metrics::KindMetrics,
    request::{
        ApiError, ApiStatus, ConnectionError, MalformedResponse, check_status, list_url, probe_url,
        read_body, send, watch_url,
    },
};
use crate::{
    diff::is_secret,
    types::{DownReason, RestartReason, WatchEvent, WatchMode, WatchSpec},
};

/// Larger than any object that etcd stores.
const MAX_OBJECT_BYTES: usize = 32 << 20;
/// `timeoutSeconds` of the watch after a failure: its bookmark is due two seconds earlier.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(5);
/// After this many failed watches in a row, the watcher lists again if a list request succeeds.
const MAX_FAILED_WATCHES: u32 = 3;
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
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

    /// Resolves once for each change of the decoder. The watch then relists.
    fn decoder_changed(&self) -> impl Future<Output = ()> + Send {
        pending()
    }

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
    /// A list is requested. Discard what an unfinished list brought. If a watch is open, its events until `ListEnded` are newer
    /// than the objects of the list.
    ListStarted,
    Listed(T),
    /// The list is complete: the collection is synced, and objects that were not listed do not exist.
    ListEnded,
    /// The object was added or modified.
    Applied(T),
    /// The object was deleted, or the selector no longer matches it.
    Deleted(T),
    /// The watch is open and has caught up, or the list is complete and nothing is watched after it.
    Up,
    /// The watch was cut, or works again after a failure. The server cuts watches when the schema of the kind changes.
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
    /// Whether buffers are overwritten.
    is_secret: bool,
    /// Whether the decoder changed since the last list.
    relist_due: AtomicBool,
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
        let is_secret = is_secret(spec.kind.group_kind());
        Self { spec, client, config, metrics, handler, is_secret, relist_due: AtomicBool::new(false) }
    }

    /// Runs until the handler is closed.
    pub(crate) async fn run(self) {
        let mut progress = Progress::new(Backoff::new(self.config.initial_backoff, self.config.max_backoff));
        let mut logged = String::new();
        let mut relist = pin!(self.relist());
        loop {
            let operation = if progress.version.is_none() { Operation::List } else { Operation::Watch };
            let is_up = operation == Operation::Watch && !progress.is_down;
            if !is_up {
                // Starts a new relist once the watch is up.
                relist.set(self.relist());
            }
            let result = tokio::select! {
                biased;
                () = self.handler.decoder_changed(), if operation == Operation::List => continue,
                // Before the relist, so that a long list does not delay events.
                result = self.list_or_watch(&mut progress) => result,
                ReceiverClosed = &mut relist, if is_up => return,
            };
            let handled = match result {
                Ok(()) => {
                    logged.clear();
                    Ok(())
                }
                Err(ApiError::Closed) => return,
                Err(error) => self.handle_failure(operation, error, &mut progress, &mut logged).await,
            };
            if handled.is_err() {
                return;
            }
        }
    }

    /// Reports a failure, and waits until the next try is due.
    async fn handle_failure(
        &self,
        operation: Operation,
        error: ApiError,
        progress: &mut Progress,
        logged: &mut String,
    ) -> Result<(), ReceiverClosed> {
        self.metrics.restarted(error.restart_reason());
        progress.is_down = true;
        // One lost version is normal. A second one without an event in between must not cause a loop of lists.
        if error.is_version_lost() && progress.backoff.is_first_lost_version() {
            info!(watch = %self.spec, %error, "Listing again.");
            self.handler.handle(WatcherEvent::Interrupted).await?;
            return self.handler.handle(WatcherEvent::Failed(operation, error)).await;
        }
        let delay = progress.backoff.next_delay().max(error.retry_after().unwrap_or_default());
        // Each error is logged once, however often it repeats.
        if !self.handler.logs_failures() && *logged != error.to_string() {
            *logged = error.to_string();
            warn!(watch = %self.spec, %error, "Watch is down; retrying.");
        }
        let is_refused = matches!(error.down_reason(), DownReason::Forbidden | DownReason::NotFound);
        self.handler.handle(WatcherEvent::Failed(operation, error)).await?;
        if progress.version.is_some() {
            progress.failed_watches += 1;
            let is_due = progress.failed_watches.is_multiple_of(MAX_FAILED_WATCHES);
            if is_due && !is_refused && self.newest_version().await.is_ok() {
                info!(watch = %self.spec, "Watches fail and lists succeed; listing again.");
                progress.version = None;
            }
        }
        sleep(delay).await;
        Ok(())
    }

    /// Lists if there is no version to resume from, else watches once.
    async fn list_or_watch(&self, progress: &mut Progress) -> Result<(), ApiError> {
        let Some(mut newest) = progress.version.take() else {
            let version = self.list().await?;
            self.relist_due.store(false, Ordering::Relaxed);
            progress.restart_from(version);
            if self.config.mode == WatchMode::Once {
                self.handler.handle(WatcherEvent::Up).await?;
                self.handler.closed().await;
                return Err(ApiError::Closed);
            }
            return Ok(());
        };
        let result = self.watch(&mut newest, progress).await;
        if !result.as_ref().is_err_and(ApiError::requires_relist) {
            progress.version = Some(newest);
        }
        result
    }

    /// Relists whenever the decoder changes, while the watch stays open at its own version.
    async fn relist(&self) -> ReceiverClosed {
        let mut backoff = Backoff::new(self.config.initial_backoff, self.config.max_backoff);
        loop {
            if !self.relist_due.load(Ordering::Relaxed) {
                self.handler.decoder_changed().await;
                self.relist_due.store(true, Ordering::Relaxed);
            }
            match self.list().await {
                Ok(_) => {
                    self.relist_due.store(false, Ordering::Relaxed);
                    backoff.reset();
                }
                Err(ApiError::Closed) => return ReceiverClosed,
                Err(error) => {
                    if !backoff.has_failed() {
                        warn!(watch = %self.spec, %error, "Relist failed; retrying.");
                    }
                    sleep(backoff.next_delay().max(error.retry_after().unwrap_or_default())).await;
                }
            }
        }
    }

    /// Returns the `resourceVersion` of the list.
    async fn list(&self) -> Result<String, ApiError> {
        // Before the request: the list has all changes that the watch reported before.
        self.handler.handle(WatcherEvent::ListStarted).await?;
        let mut body = self.get(Operation::List, &list_url(&self.spec)).await?.into_body();
        let mut splitter = ItemSplitter::new(LIST);
        let mut metadata = None;
        let mut objects = Vec::new();
        while let Some(chunk) = self.next_chunk(&mut body).await? {
            let split = splitter.push(&chunk, |part| match part {
                Part::Item(item) => objects.push(self.handler.decode(item)),
                Part::Member(_, value) => metadata = serde_json::from_slice::<ListMeta>(value).ok(),
            });
            self.wipe_chunk(chunk);
            split?;
            for object in objects.drain(..) {
                self.metrics.listed();
                self.handler.handle(WatcherEvent::Listed(object?)).await?;
            }
        }
        splitter.finish()?;
        if self.is_secret {
            splitter.wipe();
        }
        let version = metadata
            .map(|metadata| metadata.resource_version)
            .ok_or(ApiError::Malformed(MalformedResponse::NoResourceVersion))?;
        self.handler.handle(WatcherEvent::ListEnded).await?;
        debug!(watch = %self.spec, version, "Listed.");
        Ok(version)
    }

    /// Watches from `version` on and advances it with each event.
    async fn watch(&self, version: &mut String, progress: &mut Progress) -> Result<(), ApiError> {
        let started = Instant::now();
        let limit = if progress.is_down { CATCH_UP_TIMEOUT } else { Duration::MAX };
        let limit = limit.min(self.config.watch_timeout);
        let url = watch_url(&self.spec, version, limit.as_secs());
        let mut body = self.get(Operation::Watch, &url).await?.into_body();
        let _open = self.metrics.opened();
        if progress.backoff.has_failed() {
            self.handler.handle(WatcherEvent::Interrupted).await?;
        }
        if !mem::take(&mut progress.is_confirmed) || progress.is_down && progress.target.is_none() {
            // If the request fails, the versions are compared when the next watch opens.
            progress.target = self.newest_version().await.ok().flatten();
            if number(version) > progress.target && progress.target.is_some() {
                return Err(ApiError::RolledBack);
            }
        }
        if !progress.is_down || progress.has_caught_up(version) {
            self.report_up(progress).await?;
        }
        let (mut lines, mut is_silent) = (LineBuffer::default(), true);
        while let Some(chunk) = self.next_chunk(&mut body).await? {
            let complete = lines.push(&chunk);
            self.wipe_chunk(chunk);
            for mut line in complete? {
                let event = self.handle_line(&line, version).await;
                if self.is_secret {
                    line.zeroize();
                }
                let event = event?;
                progress.backoff.reset();
                (progress.failed_watches, is_silent) = (0, false);
                if progress.is_down
                    && (progress.has_caught_up(version)
                        || progress.target.is_none() && event == WatchEvent::Bookmark)
                {
                    self.report_up(progress).await?;
                }
            }
        }
        if started.elapsed() < limit {
            self.handler.handle(WatcherEvent::Interrupted).await?;
        }
        if started.elapsed() < limit / 2 {
            // One early end is normal. A proxy that cuts every watch is an outage and must be reported as one.
            if progress.backoff.has_failed() {
                return Err(ApiError::Connection(ConnectionError::CutWatches));
            }
            self.metrics.restarted(RestartReason::Closed);
            sleep(progress.backoff.next_delay()).await;
        } else {
            self.metrics.restarted(RestartReason::Planned);
            progress.backoff.reset();
            (progress.failed_watches, progress.is_confirmed) = (0, !is_silent);
            if progress.is_down && is_silent {
                self.report_up(progress).await?;
            }
        }
        Ok(())
    }

    async fn report_up(&self, progress: &mut Progress) -> Result<(), ReceiverClosed> {
        (progress.is_down, progress.target) = (false, None);
        self.handler.handle(WatcherEvent::Up).await
    }

    /// The newest version of the server; `None` if its versions are not numbers.
    async fn newest_version(&self) -> Result<Option<u64>, ApiError> {
        let accept = format!("{},application/json", Representation::MetadataOnly.accept(Operation::List));
        let request = Request::get(probe_url(&self.spec)).header("accept", accept).body(Body::empty())?;
        let response = send(&self.client, request, PROBE_TIMEOUT).await?;
        let response = check_status(response, PROBE_TIMEOUT).await?;
        let body = read_body(response, MAX_OBJECT_BYTES, PROBE_TIMEOUT).await?;
        // A list and a bookmark have their version in the same field.
        let list: Bookmark = serde_json::from_slice(&body)
            .map_err(|_| ApiError::Malformed(MalformedResponse::NoResourceVersion))?;
        Ok(number(&list.metadata.resource_version))
    }

    async fn handle_line(&self, line: &[u8], version: &mut String) -> Result<WatchEvent, ApiError> {
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
                    let newer = bookmark.metadata.resource_version;
                    if is_older(&newer, version) {
                        return Err(ApiError::RolledBack);
                    }
                    *version = newer;
                }
                return Ok(WatchEvent::Bookmark);
            }
            _ => {
                self.metrics.event(WatchEvent::Error);
                let status: ApiStatus = serde_json::from_str(object).map_err(malformed)?;
                return Err(status.into_error(StatusCode::INTERNAL_SERVER_ERROR, None));
            }
        };
        self.metrics.event(event);
        let object = self.handler.decode(object.as_bytes())?;
        // Keep the newer version: an older one comes from a restored server, and must not hide the restore.
        if let Some(newer) = H::resource_version(&object).filter(|newer| !is_older(newer, version)) {
            newer.clone_into(version);
        }
        let is_deleted = event == WatchEvent::Deleted;
        let watcher_event =
            if is_deleted { WatcherEvent::Deleted(object) } else { WatcherEvent::Applied(object) };
        self.handler.handle(watcher_event).await?;
        Ok(event)
    }

    /// Overwrites a chunk of a response with Secrets, unless the HTTP client still uses the buffer.
    fn wipe_chunk(&self, chunk: Bytes) {
        if self.is_secret
            && let Ok(mut bytes) = chunk.try_into_mut()
        {
            bytes.as_mut().zeroize();
        }
    }

    async fn get(&self, operation: Operation, url: &str) -> Result<Response<Body>, ApiError> {
        let accept = self.handler.representation().accept(operation);
        let request = Request::get(url).header("accept", accept).body(Body::empty())?;
        let response = send(&self.client, request, self.config.idle_timeout).await?;
        self.metrics.contact();
        check_status(response, self.config.idle_timeout).await
    }

    async fn next_chunk(&self, body: &mut Body) -> Result<Option<Bytes>, ApiError> {
        loop {
            let frame = timeout(self.config.idle_timeout, body.frame()).await;
            let Some(frame) = frame.map_err(|_| ApiError::Stalled(self.config.idle_timeout))? else {
                return Ok(None);
            };
            let cut = |error: kube::Error| ApiError::Connection(ConnectionError::Body(Box::new(error)));
            let frame = frame.map_err(cut)?;
            self.metrics.contact();
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
    }
}

/// The progress of a [`Watcher`].
struct Progress {
    /// The version from which a watch resumes; `None` if the collection has to be listed.
    version: Option<String>,
    /// Whether the server is known to have the version: it comes from a list, or from a watch that ended at its timeout.
    is_confirmed: bool,
    /// Whether a failure was reported and the watch was not reported as up since.
    is_down: bool,
    /// The version at which the backlog ends, once it is known.
    target: Option<u64>,
    /// Watches that failed in a row.
    failed_watches: u32,
    backoff: Backoff,
}

impl Progress {
    fn new(backoff: Backoff) -> Self {
        Self { version: None, is_confirmed: false, is_down: false, target: None, failed_watches: 0, backoff }
    }

    /// Continues from the version of a complete list.
    fn restart_from(&mut self, version: String) {
        (self.version, self.is_confirmed) = (Some(version), true);
        (self.is_down, self.target, self.failed_watches) = (false, None, 0);
    }

    fn has_caught_up(&self, version: &str) -> bool {
        self.target.is_some_and(|target| number(version).is_some_and(|own| own >= target))
    }
}

/// Versions of kube-apiserver are increasing numbers. Versions of other servers may not be numbers and cannot be compared.
fn number(version: &str) -> Option<u64> {
    version.parse().ok()
}

fn is_older(version: &str, than: &str) -> bool {
    number(version).zip(number(than)).is_some_and(|(version, than)| version < than)
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
    /// Whether a version was lost since the last reset.
    lost_version: bool,
}

impl Backoff {
    pub(super) fn new(initial: Duration, max: Duration) -> Self {
        Self { initial, max, failures: 0, lost_version: false }
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

    /// Records a lost version. The first one since the last reset needs no delay, however many other failures came before.
    fn is_first_lost_version(&mut self) -> bool {
        !mem::replace(&mut self.lost_version, true)
    }

    fn reset(&mut self) {
        self.failures = 0;
        self.lost_version = false;
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
