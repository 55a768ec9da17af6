//! `GET /v1/events`: transitions as Server-Sent Events, and a `changed` event after every new snapshot.

use std::{convert::Infallible, fmt::Write as _, sync::Arc, time::Duration};

use axum::{Extension, body::Body, extract::State, response::Response};
use bytes::Bytes;
use futures_util::stream;
use http::{
    HeaderMap, HeaderName,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::{Instant, sleep_until},
};

use super::{
    history::TransitionView,
    params::Params,
    response::{Problem, with_nosniff},
};
use crate::{
    config::ReloadStatus,
    engine::{Snapshot, SnapshotReader},
    server::{Exposed, auth::Caller, http::UnendingResponse},
};

/// Every stream holds a connection, and scrapes need connections too.
const MAX_STREAMS: usize = 256;
/// Asks the client to reconnect after one second.
const RETRY: &str = "retry: 1000\n\n";
/// Proxies close idle connections.
const HEARTBEAT: Duration = Duration::from_secs(15);
const CHANGED_INTERVAL: Duration = Duration::from_millis(100);
/// Transitions per frame. The others stay in the history, which all streams share.
const MAX_TRANSITIONS: usize = 64;

#[derive(Clone, Debug)]
pub struct EventStreamLimit(Arc<Semaphore>);

impl Default for EventStreamLimit {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_STREAMS)))
    }
}

/// Where to begin.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::server) struct EventsQuery {
    /// As `Last-Event-ID`, for clients that cannot set headers.
    since: Option<u64>,
}

pub(in crate::server) async fn events(
    State(exposed): State<Arc<Exposed>>,
    caller: Caller,
    Params(query): Params<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    // A browser reconnects to its first URL, so the header is newer than the query.
    let last_sent = last_event_id(&headers)?.or(query.since);
    let permit = exposed.listeners.0.clone().try_acquire_owned();
    let permit =
        permit.map_err(|_| Problem::unavailable(format!("{MAX_STREAMS} clients listen already"), 5))?;
    let events = EventStream::new(exposed, caller, last_sent, permit);
    let frames = stream::unfold(events, async |mut events| {
        let frame = events.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(frame)), events))
    });
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok(with_nosniff((Extension(UnendingResponse), headers, Body::from_stream(frames))))
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get("last-event-id").filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let number = value.to_str().ok().and_then(|text| text.parse().ok());
    let problem = || Problem::bad_request("`Last-Event-ID` is not a sequence number");
    number.map(Some).ok_or_else(problem)
}

/// The events of one client. Nothing is queued: the stream remembers its position in the history.
struct EventStream {
    exposed: Arc<Exposed>,
    caller: Caller,
    state: SnapshotReader,
    /// A reload is a change too, because the pages show its result.
    reloads: watch::Receiver<Arc<ReloadStatus>>,
    sent_retry: bool,
    /// The sequence number of the last transition that was sent or skipped.
    last_sent: u64,
    /// Whether the history has more transitions than fit into the last frame.
    is_behind: bool,
    /// Whether there was a new snapshot or a reload since the last `changed` event.
    changed_pending: bool,
    /// The earliest time of the next `changed` event.
    next_changed: Instant,
    /// The edition of the snapshot at the last `changed` event.
    sent_edition: Option<u64>,
    /// When the stream ends, so that the client has to authenticate again.
    expires: Option<Instant>,
    _permit: OwnedSemaphorePermit,
}

impl EventStream {
    fn new(
        exposed: Arc<Exposed>,
        caller: Caller,
        last_sent: Option<u64>,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let mut state = exposed.state.clone();
        let mut reloads = exposed.reload_status.clone();
        reloads.mark_unchanged();
        let newest = state.snapshot_and_update().history.last_sequence();
        let expires = caller.stream_lifetime().map(|time| Instant::now() + time);
        Self {
            exposed,
            caller,
            state,
            reloads,
            sent_retry: false,
            last_sent: last_sent.unwrap_or(newest),
            is_behind: false,
            // The snapshot may have changed between the request for the page and this one.
            changed_pending: true,
            next_changed: Instant::now(),
            sent_edition: None,
            expires,
            _permit: permit,
        }
    }

    /// The next frame. `None` ends the stream.
    async fn next(&mut self) -> Option<String> {
        let heartbeat = Instant::now() + HEARTBEAT;
        loop {
            let is_expired = self.expires.is_some_and(|expires| expires <= Instant::now());
            if is_expired || self.exposed.stop.is_cancelled() {
                return None;
            }
            if self.may_read_snapshot() {
                let snapshot = self.caller.snapshot().await;
                let frame = self.frame(&snapshot);
                if !frame.is_empty() {
                    return Some(frame);
                }
            }
            tokio::select! {
                biased;
                () = self.exposed.stop.cancelled() => return None,
                more = self.state.changed() => {
                    if !more {
                        return None;
                    }
                    self.changed_pending = true;
                }
                Ok(()) = self.reloads.changed() => (self.changed_pending, self.sent_edition) = (true, None),
                () = sleep_until(self.next_changed), if self.changed_pending => {}
                () = sleep_until(self.expires.unwrap_or(heartbeat)), if self.expires.is_some() => return None,
                () = sleep_until(heartbeat) => return Some(":\n\n".to_owned()),
            }
        }
    }

    /// Scoping a snapshot to the namespaces of a caller is expensive, so that happens at most once per interval.
    fn may_read_snapshot(&self) -> bool {
        self.caller.sees_everything() || self.is_behind || Instant::now() >= self.next_changed
    }

    /// All events that are due. Empty if there are none.
    fn frame(&mut self, snapshot: &Snapshot) -> String {
        let mut frame = String::new();
        if !self.sent_retry {
            self.sent_retry = true;
            frame.push_str(RETRY);
        }
        if !snapshot.history.reaches_back_to(self.last_sent) {
            self.last_sent = snapshot.history.last_sequence();
            write_event(&mut frame, "reset", Some(self.last_sent), "{}");
        }
        let mut sent = 0;
        for transition in snapshot.history.after(self.last_sent).take(MAX_TRANSITIONS) {
            sent += 1;
            self.last_sent = transition.sequence;
            let data = serde_json::to_string(&TransitionView::new(transition));
            let data = data.expect("a transition has only string keys");
            write_event(&mut frame, "transition", Some(transition.sequence), &data);
        }
        self.is_behind = sent == MAX_TRANSITIONS;
        if !self.is_behind {
            // Skips the transitions that the caller may not see.
            self.last_sent = snapshot.history.last_sequence();
        }
        let now = Instant::now();
        if self.changed_pending && now >= self.next_changed {
            self.changed_pending = false;
            let is_new = self.sent_edition.replace(snapshot.edition) != Some(snapshot.edition);
            if is_new || !self.caller.sees_everything() {
                self.next_changed = now + CHANGED_INTERVAL;
            }
            if is_new {
                let data = format!("{{\"sequence\":{}}}", snapshot.sequence);
                write_event(&mut frame, "changed", None, &data);
            }
        }
        frame
    }
}

/// `data` has to be one line, which JSON without pretty-printing is.
fn write_event(frame: &mut String, event: &str, id: Option<u64>, data: &str) {
    writeln!(frame, "event: {event}").expect("writing to a string cannot fail");
    if let Some(id) = id {
        writeln!(frame, "id: {id}").expect("writing to a string cannot fail");
    }
    writeln!(frame, "data: {data}\n").expect("writing to a string cannot fail");
}
