//! One watch: list, watch from there, list again when the server has forgotten.

use std::{fmt, sync::Arc, time::Duration};

use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout},
};
use tracing::{debug, info, warn};

use super::{
    DecodeConfig, SchemaRequests,
    decode::{ObjectReader, Read},
    json_items::{Part, Splitter, Wanted},
    metrics::KindMetrics,
    request::{ApiStatus, Fault, answer, list_url, refusal, watch_url},
    supervisor::WatchDeps,
};
use crate::types::{Event, Restart, WatchEvent, WatchHealth, WatchMode, WatchSpec};

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

/// One line of a watch.
#[derive(Debug, Deserialize)]
pub(super) struct WatchLine<'a> {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    #[serde(rename = "type")]
    pub(super) event: &'a str,
    /// The object, or the status of an error.
    #[serde(borrow)]
    pub(super) object: &'a RawValue,
}

/// A line longer than this is not an event that an API server sends.
const LONGEST_LINE: usize = 32 << 20;

/// Joins the pieces of a line that came in several chunks.
#[derive(Debug, Default)]
pub(super) struct Lines {
    partial: Vec<u8>,
}

/// A line is longer than any event can be.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("an event is larger than {} MiB", LONGEST_LINE >> 20)]
pub(super) struct LineTooLong;

impl Lines {
    /// Takes the next bytes and gives the complete lines among them.
    pub(super) fn push(&mut self, chunk: &[u8]) -> Result<Vec<Vec<u8>>, LineTooLong> {
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
        if self.partial.len() + rest.len() > LONGEST_LINE {
            return Err(LineTooLong);
        }
        self.partial.extend_from_slice(rest);
        Ok(lines)
    }
}

/// Doubles with each failure, with jitter, so that many exporters do not come back at once.
#[derive(Clone, Debug)]
pub(super) struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
    /// Whether the version of the last list was forgotten before anything came of it.
    listed_in_vain: bool,
}

impl Backoff {
    pub(super) fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, failures: 0, listed_in_vain: false }
    }

    /// The wait after one more failure: between half of the step and the whole of it.
    pub(super) fn next(&mut self) -> Duration {
        let step = self.first.saturating_mul(2_u32.saturating_pow(self.failures)).min(self.longest);
        self.failures = self.failures.saturating_add(1);
        step.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// Whether there was a failure since the last reset.
    pub(super) fn has_failed(&self) -> bool {
        self.failures > 0
    }

    /// Notes that the server has forgotten our version. Says whether that is the first time since all was well: then a
    /// new list is due at once, however long the server was away before.
    pub(super) fn first_forgotten(&mut self) -> bool {
        !std::mem::replace(&mut self.listed_in_vain, true)
    }

    /// All is well again.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
        self.listed_in_vain = false;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Backoff;

    #[test]
    fn waits_double_up_to_the_longest_and_vary() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(10));
        for step in [1, 2, 4, 8, 10, 10] {
            let wait = backoff.next();
            assert!(wait >= Duration::from_secs(step) / 2 && wait <= Duration::from_secs(step), "{wait:?}");
        }
        backoff.reset();
        assert!(backoff.next() <= Duration::from_secs(1));
        let mut waits: Vec<_> =
            (0..20).map(|_| Backoff::new(Duration::from_secs(1), Duration::MAX).next()).collect();
        waits.dedup();
        assert!(waits.len() > 1, "there is no jitter");
    }
}
