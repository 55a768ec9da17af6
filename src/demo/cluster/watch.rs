//! Watches: what happens after a version, for as long as the client wants to know.
//!
//! Nothing is kept for a watcher but its place in the log, so a thousand of them, or one that does not read, cost
//! nothing. One that falls too far behind is told so with 410, as by a real server.

use std::{sync::Arc, time::Duration};

use axum::body::{Body, Bytes};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::{
    sync::watch as latest,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    Cluster,
    query::Parameters,
    refusal::Refusal,
    resource::Resource,
    schema::skeleton,
    selector::Selector,
    store::{Event, Stored},
    style::{Style, metadata_of},
};

/// How long a watch lasts where the client does not say.
const DEFAULT_TIMEOUT: u64 = 1800;
const BOOKMARKS: Duration = Duration::from_secs(10);
/// How many bytes are put together at a time for one client.
const ENOUGH: usize = 64 << 10;

/// Opens a watch.
pub(super) fn open(
    cluster: &Cluster,
    resource: &'static Resource,
    selector: Selector,
    parameters: &Parameters,
    style: Style,
    stop: CancellationToken,
) -> Result<Body, Refusal> {
    if parameters.wants_initial_events() {
        return Err(Refusal::not_implemented("a watch with sendInitialEvents"));
    }
    let version = parameters.version()?.unwrap_or(0);
    let timeout = Duration::from_secs(parameters.timeout_seconds()?.unwrap_or(DEFAULT_TIMEOUT).min(86_400));
    let now = Instant::now();
    let watcher = Watcher {
        cluster: cluster.clone(),
        resource,
        selector,
        style,
        seen: version,
        told: version,
        newest: cluster.0.newest.subscribe(),
        bookmarks: parameters.wants_bookmarks(),
        next_bookmark: now + BOOKMARKS,
        deadline: now + timeout,
        stop,
        state: if version == 0 { Watching::Begins } else { Watching::GoesOn },
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
    selector: Selector,
    style: Style,
    /// Every event up to this version has been looked at.
    seen: u64,
    /// The version that the client could read in the last line.
    told: u64,
    newest: latest::Receiver<u64>,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    stop: CancellationToken,
    state: Watching,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Watching {
    /// What there is comes first.
    Begins,
    GoesOn,
    Ended,
}

impl Watcher {
    /// The next lines; none at the end.
    async fn next(&mut self) -> Option<Bytes> {
        match self.state {
            Watching::Begins => {
                self.state = Watching::GoesOn;
                let lines = self.first();
                if !lines.is_empty() {
                    return Some(lines.into());
                }
            }
            Watching::GoesOn => {}
            Watching::Ended => return None,
        }
        loop {
            self.newest.mark_unchanged();
            let lines = self.news();
            if !lines.is_empty() {
                self.told = self.seen;
                return Some(lines.into());
            }
            tokio::select! {
                changed = self.newest.changed() => changed.ok()?,
                () = sleep_until(self.next_bookmark), if self.bookmarks => return Some(self.bookmark(&json!({})).into()),
                () = sleep_until(self.deadline) => {
                    self.state = Watching::Ended;
                    let news = self.bookmarks && self.seen > self.told;
                    return news.then(|| self.bookmark(&json!({})).into());
                }
                () = self.stop.cancelled() => return None,
            }
        }
    }

    /// Everything there is, as if it had just been added.
    fn first(&mut self) -> String {
        let store = self.cluster.lock();
        self.seen = store.version();
        let objects = store.objects(&self.resource.qualified());
        drop(store);
        let own = objects.values().filter(|stored| self.selector.matches(&stored.selectable()));
        let mut lines: String = own.map(|stored| self.line("ADDED", stored)).collect();
        if self.bookmarks {
            lines += &self.bookmark(&json!({"k8s.io/initial-events-end": "true"}));
        }
        lines
    }

    /// What happened since the last time.
    fn news(&mut self) -> String {
        let store = self.cluster.lock();
        let (events, version) = (store.events_after(self.seen), store.version());
        drop(store);
        match events {
            Ok(events) => {
                let mut lines = String::new();
                for event in events {
                    self.seen = event.version;
                    lines.extend(self.tell(&event));
                    // The rest stays in the log, which all share, until the client has taken this much.
                    if lines.len() >= ENOUGH {
                        return lines;
                    }
                }
                self.seen = self.seen.max(version);
                lines
            }
            Err(forgotten) => {
                self.state = Watching::Ended;
                let message = format!("too old resource version: {} ({})", self.seen, forgotten.oldest);
                event_line("ERROR", &Refusal::expired(message).status().to_string())
            }
        }
    }

    fn tell(&self, event: &Arc<Event>) -> Option<String> {
        if *event.key.resource != *self.resource.qualified() {
            return None;
        }
        let matches = |stored: &Option<Arc<Stored>>| {
            stored.as_ref().is_some_and(|own| self.selector.matches(&own.selectable()))
        };
        match (matches(&event.before), matches(&event.after)) {
            (false, true) => Some(self.line("ADDED", event.after.as_ref()?)),
            (true, true) => Some(self.line("MODIFIED", event.after.as_ref()?)),
            (true, false) => Some(self.line("DELETED", &*event.farewell()?)),
            (false, false) => None,
        }
    }

    fn line(&self, kind: &str, stored: &Stored) -> String {
        match &self.style {
            Style::Plain => event_line(kind, &stored.text),
            Style::Metadata => event_line(kind, &metadata_of(stored).to_string()),
            Style::Table(table) => event_line(kind, &table.of(self.resource, &[stored], None).to_string()),
        }
    }

    fn bookmark(&mut self, annotations: &Value) -> String {
        self.next_bookmark = Instant::now() + BOOKMARKS;
        self.told = self.seen;
        let mut object = skeleton(self.resource.kind);
        object["kind"] = self.resource.kind.into();
        object["apiVersion"] = self.resource.api_version().into();
        if let Style::Metadata = self.style {
            object = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"});
        }
        object["metadata"] = json!({"resourceVersion": self.seen.to_string()});
        if annotations.as_object().is_some_and(|annotations| !annotations.is_empty()) {
            object["metadata"]["annotations"] = annotations.clone();
        }
        event_line("BOOKMARK", &object.to_string())
    }
}

fn event_line(kind: &str, object: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}
