//! One stream: list, watch from there, list again when the server has forgotten.

use std::{fmt, sync::Arc, time::Duration};

use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use serde::Deserialize;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout},
};
use tracing::{debug, info, warn};

use super::{
    DecodeConfig, SchemaRequests,
    backoff::Backoff,
    events::{Lines, WatchLine},
    exchange::{answer, refusal},
    fault::{ApiStatus, Fault},
    metrics::KindMetrics,
    read::{ObjectReader, Read},
    request::{list_url, watch_url},
    supervisor::WatchDeps,
};
use crate::{
    types::{Event, Restart, WatchEvent, WatchHealth, WatchMode, WatchSpec},
    watch::split::{Part, Splitter, Wanted},
};

/// What is read of a LIST. An object larger than this is not one that an API server stores.
const LIST: Wanted = Wanted { list: "items", members: &["metadata"], largest: 32 << 20 };

/// How long a stream waits for what.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// The server ends a watch by itself after this: a regular sign of life.
    pub watch: Duration,
    /// Longest silence, before an answer or within one, after which a stream counts as stalled.
    pub silence: Duration,
    /// Wait after the first failure.
    pub first_backoff: Duration,
    /// Longest wait after repeated failures.
    pub longest_backoff: Duration,
    /// Whether anything is watched once it was listed.
    pub look: WatchMode,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            watch: Duration::from_secs(30),
            silence: Duration::from_secs(40),
            first_backoff: Duration::from_millis(800),
            longest_backoff: Duration::from_secs(30),
            look: WatchMode::SourceContext,
        }
    }
}

/// One stream, until the engine is gone.
pub(super) struct Stream {
    spec: Arc<WatchSpec>,
    client: Client,
    reader: ObjectReader,
    changes: mpsc::Sender<Event>,
    metrics: KindMetrics,
    timing: Timing,
    schemas: SchemaRequests,
}

impl fmt::Debug for Stream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Stream").field(&self.spec).finish()
    }
}

impl Stream {
    /// A stream of these objects.
    pub(super) fn new(spec: Arc<WatchSpec>, parts: WatchDeps, reading: &DecodeConfig) -> Self {
        let WatchDeps { client, changes, metrics, timing, schemas } = parts;
        let reader = ObjectReader::new(spec.clone(), reading);
        let metrics = metrics.of_kind(&spec.kind);
        Self { spec, client, reader, changes, metrics, timing, schemas }
    }

    /// Follows the API server until nobody listens any more.
    pub(super) async fn run(self) {
        let mut backoff = Backoff::new(self.timing.first_backoff, self.timing.longest_backoff);
        let mut version = None;
        loop {
            match self.step(&mut version, &mut backoff).await {
                Ok(()) => {}
                Err(Fault::Stopped) => return,
                // Once is ordinary. Again without any event in between is a fault, and must not become a loop of lists.
                Err(Fault::Gone) if backoff.first_forgotten() => {
                    self.metrics.restarted(Restart::Gone);
                    self.schemas.look_again(&self.spec.kind);
                    info!(stream = %self.spec, "The API server has forgotten our version; listing again.");
                }
                Err(fault) => {
                    self.metrics.restarted(fault.restart());
                    let wait = backoff.next().max(fault.retry_after().unwrap_or_default());
                    warn!(stream = %self.spec, %fault, ?wait, "Stream is down; trying again.");
                    let health =
                        WatchHealth::Down { reason: fault.down_reason(), message: fault.to_string().into() };
                    if self.send(Event::WatchHealth(self.spec.clone(), health)).await.is_err() {
                        return;
                    }
                    sleep(wait).await;
                }
            }
        }
    }

    /// One list, if no version is known, or one watch.
    async fn step(&self, version: &mut Option<String>, backoff: &mut Backoff) -> Result<(), Fault> {
        match version.take() {
            None => {
                *version = Some(self.list().await?);
                if self.timing.look == WatchMode::Once {
                    self.send(Event::WatchHealth(self.spec.clone(), WatchHealth::Up)).await?;
                    // Nobody is told of what comes later; only the end of all ends this, too.
                    self.changes.closed().await;
                    return Err(Fault::Stopped);
                }
                Ok(())
            }
            Some(from) => {
                let mut newest = from;
                let ended = self.watch(&mut newest, backoff).await;
                if !ended.as_ref().is_err_and(Fault::voids_version) {
                    *version = Some(newest);
                }
                ended
            }
        }
    }

    /// Reads a complete list and returns its version.
    async fn list(&self) -> Result<String, Fault> {
        let mut body = self.get(&list_url(&self.spec)).await?.into_body();
        self.send(Event::ListStarted(self.spec.clone())).await?;
        let mut splitter = Splitter::new(LIST);
        let mut version = None;
        let mut objects = Vec::new();
        while let Some(chunk) = self.next_chunk(&mut body).await? {
            splitter.push(&chunk, |part| match part {
                Part::Item(item) => objects.push(self.reader.read(item)),
                Part::Member(_, metadata) => {
                    version = serde_json::from_slice::<Versioned>(metadata).ok();
                }
            })?;
            for object in objects.drain(..) {
                self.metrics.listed();
                match object {
                    Read::Object(object) => self.send(Event::Listed(self.spec.clone(), object)).await?,
                    Read::Unwanted(_) | Read::Elsewhere(_) => {}
                    Read::Nameless => {
                        warn!(stream = %self.spec, "An object without a readable name is left out.");
                    }
                }
            }
        }
        splitter.finish()?;
        let version = version
            .map(|metadata| metadata.resource_version)
            .ok_or_else(|| Fault::Garbled("the list has no resourceVersion".to_owned()))?;
        self.send(Event::ListEnded(self.spec.clone())).await?;
        debug!(stream = %self.spec, version, "Listed.");
        Ok(version)
    }

    /// Watches from a version on, and moves it along.
    async fn watch(&self, version: &mut String, backoff: &mut Backoff) -> Result<(), Fault> {
        let begun = Instant::now();
        let url = watch_url(&self.spec, version, self.timing.watch.as_secs());
        let mut body = self.get(&url).await?.into_body();
        let _open = self.metrics.opened();
        if backoff.has_failed() {
            self.schemas.look_again(&self.spec.kind);
        }
        self.send(Event::WatchHealth(self.spec.clone(), WatchHealth::Up)).await?;
        let mut lines = Lines::default();
        while let Some(chunk) = self.next_chunk(&mut body).await? {
            for line in lines.push(&chunk)? {
                self.event(&line, version).await?;
                backoff.reset();
            }
        }
        if begun.elapsed() < self.timing.watch {
            self.schemas.look_again(&self.spec.kind);
        }
        if begun.elapsed() < self.timing.watch / 2 {
            // Once is ordinary. A proxy that cuts every watch leaves us blind most of the time, and that must show.
            if backoff.has_failed() {
                return Err(Fault::Connection("watches are cut as soon as they open".to_owned()));
            }
            self.metrics.restarted(Restart::Closed);
            sleep(backoff.next()).await;
        } else {
            self.metrics.restarted(Restart::Planned);
            backoff.reset();
        }
        Ok(())
    }

    async fn event(&self, line: &[u8], version: &mut String) -> Result<(), Fault> {
        let garbled = || Fault::Garbled("a line of the watch is not an event".to_owned());
        let line: WatchLine<'_> = serde_json::from_slice(line).map_err(|_| garbled())?;
        let object = line.object.get();
        match line.event {
            "ADDED" | "MODIFIED" | "DELETED" => {
                let deleted = line.event == "DELETED";
                self.metrics.event(match line.event {
                    "ADDED" => WatchEvent::Added,
                    "MODIFIED" => WatchEvent::Modified,
                    _ => WatchEvent::Deleted,
                });
                let read = self.reader.read(object.as_bytes());
                if let Some(newer) = read.resource_version() {
                    newer.clone_into(version);
                }
                let stream = self.spec.clone();
                self.send(match read {
                    Read::Object(object) if !deleted => Event::Applied(stream, object),
                    // What is unwanted may have been wanted before.
                    Read::Object(object) | Read::Unwanted(object) => {
                        let (namespace, name) = (object.key.namespace.clone(), object.key.name.clone());
                        Event::Deleted { stream, namespace, name }
                    }
                    // Whoever brings it tells of it.
                    Read::Elsewhere(_) => return Ok(()),
                    Read::Nameless => {
                        warn!(stream = %self.spec, "An event without a readable name is left out.");
                        return Ok(());
                    }
                })
                .await
            }
            "BOOKMARK" => {
                self.metrics.event(WatchEvent::Bookmark);
                if let Some(newer) = bookmark_version(object) {
                    *version = newer;
                }
                Ok(())
            }
            _ => {
                self.metrics.event(WatchEvent::Error);
                let status: ApiStatus = serde_json::from_str(object).map_err(|_| garbled())?;
                Err(status.into_fault(StatusCode::INTERNAL_SERVER_ERROR, None))
            }
        }
    }

    /// Sends a request; anything but success is an error.
    async fn get(&self, url: &str) -> Result<Response<Body>, Fault> {
        let request = Request::get(url).header("accept", "application/json").body(Body::empty())?;
        let response = answer(&self.client, request, self.timing.silence).await?;
        self.metrics.contact();
        if response.status().is_success() {
            Ok(response)
        } else {
            Err(refusal(response, self.timing.silence).await)
        }
    }

    async fn next_chunk(&self, body: &mut Body) -> Result<Option<bytes::Bytes>, Fault> {
        loop {
            let frame = timeout(self.timing.silence, body.frame()).await;
            let Some(frame) = frame.map_err(|_| Fault::Stalled(self.timing.silence))? else {
                return Ok(None);
            };
            let frame = frame.map_err(|error| Fault::Connection(error.to_string()))?;
            self.metrics.contact();
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
    }

    async fn send(&self, change: Event) -> Result<(), Fault> {
        self.changes.send(change).await.map_err(|_| Fault::Stopped)
    }
}

/// The metadata of a list or of a bookmark.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Versioned {
    resource_version: String,
}

fn bookmark_version(object: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Bookmark {
        metadata: Versioned,
    }
    serde_json::from_str::<Bookmark>(object).ok().map(|bookmark| bookmark.metadata.resource_version)
}
