//! Watches: the events after a resource version, as one JSON document per line.
//!
//! The only state of a watch is its position in the event log, so idle and slow clients cost no memory. A client that
//! falls behind the log gets 410 and has to list again.

use std::{sync::Arc, time::Duration};

use axum::body::{Body, Bytes};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::{
    sync::watch as watch_channel,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    Cluster,
    errors::StatusError,
    list::ObjectSelector,
    resources::{Resource, zero_value},
    routes::{QueryParameters, ResponseFormat, partial_object_metadata},
    store::{StoreEvent, StoredObject},
};

/// Used if the client sets no `timeoutSeconds`.
const DEFAULT_TIMEOUT_SECONDS: u64 = 1800;
const MAX_TIMEOUT_SECONDS: u64 = 86_400;
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(10);
/// Events beyond this size wait in the log, which all watches share, until the client has read the chunk.
const MAX_CHUNK_BYTES: usize = 64 << 10;

pub(super) fn open(
    cluster: &Cluster,
    resource: &'static Resource,
    selector: ObjectSelector,
    parameters: &QueryParameters,
    format: ResponseFormat,
    stop: CancellationToken,
) -> Result<Body, StatusError> {
    if parameters.send_initial_events {
        return Err(StatusError::not_implemented("a watch with sendInitialEvents"));
    }
    let resource_version = parameters.requested_version()?.unwrap_or(0);
    let timeout = parameters.timeout_seconds()?.unwrap_or(DEFAULT_TIMEOUT_SECONDS).min(MAX_TIMEOUT_SECONDS);
    let now = Instant::now();
    let watcher = Watcher {
        cluster: cluster.clone(),
        resource,
        selector,
        format,
        observed_version: resource_version,
        sent_version: resource_version,
        latest_version: cluster.0.latest_version.subscribe(),
        bookmarks: parameters.allow_watch_bookmarks,
        next_bookmark: now + BOOKMARK_INTERVAL,
        deadline: now + Duration::from_secs(timeout),
        stop,
        state: if resource_version == 0 { WatchState::Initial } else { WatchState::Streaming },
    };
    let lines = stream::unfold(watcher, |mut watcher| async move {
        let lines = watcher.next().await?;
        Some((Ok::<_, std::convert::Infallible>(lines), watcher))
    });
    Ok(Body::from_stream(lines))
}

struct Watcher {
    cluster: Cluster,
    resource: &'static Resource,
    selector: ObjectSelector,
    format: ResponseFormat,
    /// Events up to this resource version were sent or do not match.
    observed_version: u64,
    /// The resource version that the client knows from the last line.
    sent_version: u64,
    latest_version: watch_channel::Receiver<u64>,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    stop: CancellationToken,
    state: WatchState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WatchState {
    /// The current objects are sent first, as `ADDED` events.
    Initial,
    Streaming,
    Closed,
}

impl Watcher {
    async fn next(&mut self) -> Option<Bytes> {
        match self.state {
            WatchState::Initial => {
                self.state = WatchState::Streaming;
                let lines = self.initial_events();
                if !lines.is_empty() {
                    return Some(lines.into());
                }
            }
            WatchState::Streaming => {}
            WatchState::Closed => return None,
        }
        loop {
            self.latest_version.mark_unchanged();
            let lines = self.next_events();
            if !lines.is_empty() {
                self.sent_version = self.observed_version;
                return Some(lines.into());
            }
            tokio::select! {
                changed = self.latest_version.changed() => changed.ok()?,
                () = sleep_until(self.next_bookmark), if self.bookmarks => return Some(self.bookmark(None).into()),
                () = sleep_until(self.deadline) => {
                    self.state = WatchState::Closed;
                    let unsent = self.bookmarks && self.observed_version > self.sent_version;
                    return unsent.then(|| self.bookmark(None).into());
                }
                () = self.stop.cancelled() => return None,
            }
        }
    }

    fn initial_events(&mut self) -> String {
        let store = self.cluster.lock();
        self.observed_version = store.resource_version();
        let objects = store.objects(&self.resource.group_resource());
        drop(store);
        let matching = objects.values().filter(|stored| self.selector.matches(&stored.selectable()));
        let mut lines: String = matching.map(|stored| self.encode("ADDED", stored)).collect();
        if self.bookmarks {
            lines += &self.bookmark(Some(json!({"k8s.io/initial-events-end": "true"})));
        }
        lines
    }

    fn next_events(&mut self) -> String {
        let store = self.cluster.lock();
        let (events, resource_version) =
            (store.events_after(self.observed_version), store.resource_version());
        drop(store);
        match events {
            Ok(events) => {
                let mut lines = String::new();
                for event in events {
                    self.observed_version = event.resource_version;
                    lines.extend(self.encode_event(&event));
                    if lines.len() >= MAX_CHUNK_BYTES {
                        return lines;
                    }
                }
                self.observed_version = self.observed_version.max(resource_version);
                lines
            }
            Err(expired) => {
                self.state = WatchState::Closed;
                let message = format!(
                    "too old resource version: {} ({})",
                    self.observed_version, expired.oldest_available
                );
                watch_event_line("ERROR", &json!(StatusError::expired(message, None).status).to_string())
            }
        }
    }

    fn encode_event(&self, event: &Arc<StoreEvent>) -> Option<String> {
        if *event.key.resource != *self.resource.group_resource() {
            return None;
        }
        let matches = |stored: &Option<Arc<StoredObject>>| {
            stored.as_ref().is_some_and(|stored| self.selector.matches(&stored.selectable()))
        };
        match (matches(&event.previous), matches(&event.current)) {
            (false, true) => Some(self.encode("ADDED", event.current.as_ref()?)),
            (true, true) => Some(self.encode("MODIFIED", event.current.as_ref()?)),
            (true, false) => Some(self.encode("DELETED", &*event.deleted_object()?)),
            (false, false) => None,
        }
    }

    fn encode(&self, event_type: &str, stored: &StoredObject) -> String {
        match &self.format {
            ResponseFormat::Object => watch_event_line(event_type, &stored.json),
            ResponseFormat::Metadata => {
                watch_event_line(event_type, &partial_object_metadata(stored).to_string())
            }
            ResponseFormat::Table(table) => {
                watch_event_line(event_type, &table.render(self.resource, &[stored], None).to_string())
            }
        }
    }

    fn bookmark(&mut self, annotations: Option<Value>) -> String {
        self.next_bookmark = Instant::now() + BOOKMARK_INTERVAL;
        self.sent_version = self.observed_version;
        let mut object = zero_value(self.resource.kind);
        object["kind"] = self.resource.kind.into();
        object["apiVersion"] = self.resource.api_version().into();
        if let ResponseFormat::Metadata = self.format {
            object = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"});
        }
        object["metadata"] = json!({"resourceVersion": self.observed_version.to_string()});
        if let Some(annotations) = annotations {
            object["metadata"]["annotations"] = annotations;
        }
        watch_event_line("BOOKMARK", &object.to_string())
    }
}

fn watch_event_line(event_type: &str, object: &str) -> String {
    format!("{{\"type\":\"{event_type}\",\"object\":{object}}}\n")
}
