//! `GET /v1/events`: transitions as they happen, and a word whenever there is anything new to look at.

use std::{convert::Infallible, fmt::Write as _, sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::stream;
use http::{
    HeaderMap, HeaderName, HeaderValue,
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
    params::of_url,
    response::{Problem, plain},
};
use crate::{
    config::ReloadStatus,
    engine::{Snapshot, StateReader},
    server::{Exposed, auth::Caller, http::EventStream},
};

/// Each listener holds a connection, and scrapes need some too.
const LISTENERS: usize = 256;
/// How soon a client comes back after its connection broke.
const HELLO: &str = "retry: 1000\n\n";
/// Silent connections are cut by proxies.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The shortest time between two `changed`.
const CALM: Duration = Duration::from_millis(100);
/// Transitions written at a time; the rest waits in the history, which all clients share.
const BATCH: usize = 64;

/// Room for those who listen.
#[derive(Clone, Debug)]
pub struct Listeners(Arc<Semaphore>);

impl Default for Listeners {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LISTENERS)))
    }
}

/// Where to begin.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsQuery {
    /// As `Last-Event-ID`, for clients that cannot set headers.
    since: Option<u64>,
}

/// Server-Sent Events until the client goes or we stop.
pub(crate) async fn events(
    State(exposed): State<Arc<Exposed>>,
    caller: Caller,
    request: Request,
) -> Response {
    let (mut parts, _) = request.into_parts();
    let since = match of_url::<EventsQuery>(&mut parts).await {
        Ok(query) => query.since,
        Err(problem) => return problem.into_response(),
    };
    let seen = match last_event_id(&parts.headers) {
        // A browser that comes back still has its first URL, so what it says in the header is newer.
        Ok(last) => last.or(since),
        Err(problem) => return problem.into_response(),
    };
    let Ok(place) = exposed.listeners.0.clone().try_acquire_owned() else {
        let detail = format!("{LISTENERS} clients listen already");
        return Problem::busy(detail, 5).into_response();
    };
    let listener = Listener::new(exposed, caller, seen, place);
    let frames = stream::unfold(listener, async |mut listener| {
        let frame = listener.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(frame)), listener))
    });
    let mut response = plain(Response::new(Body::from_stream(frames)));
    response.extensions_mut().insert(EventStream);
    for (name, value) in [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get("last-event-id").filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let number = value.to_str().ok().and_then(|text| text.parse().ok());
    let problem = || Problem::bad_request("`Last-Event-ID` is not a sequence number");
    number.map(Some).ok_or_else(problem)
}

/// One client. Nothing is queued for it: it remembers how far it has come in the history.
struct Listener {
    exposed: Arc<Exposed>,
    caller: Caller,
    state: StateReader,
    /// The page shows how the last reading of the settings went, too.
    settings: watch::Receiver<Arc<ReloadStatus>>,
    greeted: bool,
    /// The last transition that was sent.
    seen: u64,
    /// Whether there is more in the history than was sent.
    behind: bool,
    /// Whether something was published since the last `changed`.
    owes_changed: bool,
    /// When the next `changed` may be sent.
    changed_from: Instant,
    /// The edition of which the last `changed` told.
    told: Option<u64>,
    /// When the client has to come back, and prove again who it is.
    until: Option<Instant>,
    _place: OwnedSemaphorePermit,
}

impl Listener {
    fn new(exposed: Arc<Exposed>, caller: Caller, seen: Option<u64>, place: OwnedSemaphorePermit) -> Self {
        let mut state = exposed.state.clone();
        let mut settings = exposed.reload_status.clone();
        settings.mark_unchanged();
        let newest = state.newest().history.last_sequence();
        let seen = seen.unwrap_or(newest);
        // Something may have happened between loading a page and listening, so there is a `changed` at once.
        let (owes_changed, changed_from) = (true, Instant::now());
        let until = caller.stream_lifetime().map(|time| Instant::now() + time);
        Self {
            exposed,
            caller,
            state,
            settings,
            greeted: false,
            seen,
            behind: false,
            owes_changed,
            changed_from,
            told: None,
            until,
            _place: place,
        }
    }

    /// What to send next. None when it is over.
    async fn next(&mut self) -> Option<String> {
        let heartbeat = Instant::now() + HEARTBEAT;
        loop {
            let is_over = self.until.is_some_and(|until| until <= Instant::now());
            if is_over || self.exposed.stop.is_cancelled() {
                return None;
            }
            if self.may_look() {
                let frame = self.news(&self.caller.snapshot());
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
                    self.owes_changed = true;
                }
                Ok(()) = self.settings.changed() => (self.owes_changed, self.told) = (true, None),
                () = sleep_until(self.changed_from), if self.owes_changed => {}
                () = sleep_until(self.until.unwrap_or(heartbeat)), if self.until.is_some() => return None,
                () = sleep_until(heartbeat) => return Some(":\n\n".to_owned()),
            }
        }
    }

    /// Whether it may be looked what is new. To leave out what a client may not see costs something, so that is done now and then.
    fn may_look(&self) -> bool {
        self.caller.sees_everything() || self.behind || Instant::now() >= self.changed_from
    }

    /// Everything that can be said right now.
    fn news(&mut self, snapshot: &Snapshot) -> String {
        let mut frame = String::new();
        if !self.greeted {
            self.greeted = true;
            frame.push_str(HELLO);
        }
        if !snapshot.history.reaches_back_to(self.seen) {
            self.seen = snapshot.history.last_sequence();
            write_event(&mut frame, "reset", Some(self.seen), "{}");
        }
        let mut sent = 0;
        for transition in snapshot.history.after(self.seen).take(BATCH) {
            sent += 1;
            self.seen = transition.sequence;
            let data = serde_json::to_string(&TransitionView::new(transition));
            let data = data.expect("a transition has only string keys");
            write_event(&mut frame, "transition", Some(transition.sequence), &data);
        }
        self.behind = sent == BATCH;
        if !self.behind {
            // What the client may not see has been looked at as well.
            self.seen = snapshot.history.last_sequence();
        }
        let now = Instant::now();
        if self.owes_changed && now >= self.changed_from {
            self.owes_changed = false;
            let is_news = self.told.replace(snapshot.edition) != Some(snapshot.edition);
            if is_news || !self.caller.sees_everything() {
                self.changed_from = now + CALM;
            }
            if is_news {
                let data = format!("{{\"sequence\":{}}}", snapshot.sequence);
                write_event(&mut frame, "changed", None, &data);
            }
        }
        frame
    }
}

/// Writes one event. JSON has no line breaks, so its data is one line.
fn write_event(frame: &mut String, event: &str, id: Option<u64>, data: &str) {
    writeln!(frame, "event: {event}").expect("writing to a string cannot fail");
    if let Some(id) = id {
        writeln!(frame, "id: {id}").expect("writing to a string cannot fail");
    }
    writeln!(frame, "data: {data}\n").expect("writing to a string cannot fail");
}
