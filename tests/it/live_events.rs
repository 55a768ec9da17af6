//! `/v1/events`: resume, rate limit, shutdown.

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use axum::body::Body;
use drift_exporter::{
    app::{Exporter, ExporterDeps, assemble, telemetry::LogHandle},
    config::Settings,
    engine::{History, Transition},
    server::{Auth, Exposed, router, serve},
    types::{Clock, Kind, ObjectKey, RedactionKey, Source, VerdictKind},
    watch::WatcherConfig,
};
use http::{Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::{
    server::UNLIMITED,
    support::{
        api_server::ApiServer,
        exporter_fixture::{BEGIN, ExporterFixture},
        live_objects::{deployment, edited, service},
        wait::completes,
    },
};

#[derive(Clone, Debug, Default, PartialEq)]
struct Event {
    name: String,
    id: Option<u64>,
    data: Value,
}

/// A client of server-sent events that also records comments and `retry`.
struct Client {
    response: Response<Body>,
    text: String,
    comments: usize,
    retry: Option<String>,
}

async fn connect(exposed: &Arc<Exposed>, path: &str, last_event_id: Option<&str>) -> Client {
    let mut request = Request::get(path);
    if let Some(last_event_id) = last_event_id {
        request = request.header("last-event-id", last_event_id);
    }
    let response =
        router(exposed.clone()).oneshot(request.body(Body::empty()).unwrap()).await.expect("infallible");
    Client { response, text: String::new(), comments: 0, retry: None }
}

impl Client {
    /// The next event; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Event> {
        loop {
            while let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                if let Some(event) = self.read(&block) {
                    return Some(event);
                }
            }
            let frame = self.response.body_mut().frame().await?.unwrap();
            self.text.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
        }
    }

    fn read(&mut self, block: &str) -> Option<Event> {
        let mut event = Event::default();
        for line in block.lines() {
            match line.split_once(':').expect("every line has a colon") {
                ("", _) => self.comments += 1,
                ("retry", time) => self.retry = Some(time.trim().to_owned()),
                ("event", name) => name.trim().clone_into(&mut event.name),
                ("id", id) => event.id = Some(id.trim().parse().unwrap()),
                ("data", data) => event.data = serde_json::from_str(data).unwrap(),
                other => panic!("{other:?}"),
            }
        }
        (!event.name.is_empty()).then_some(event)
    }

    /// All events until the stream is idle for a second.
    async fn drain(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Ok(Some(event)) = timeout(Duration::from_secs(1), self.next()).await {
            events.push(event);
        }
        events
    }
}

fn names_and_ids(events: &[Event]) -> Vec<(&str, Option<u64>)> {
    events.iter().map(|event| (event.name.as_str(), event.id)).collect()
}

/// An exporter with a history of these sequence numbers.
fn exporter_with_history(api: &ApiServer, sequences: RangeInclusive<u64>) -> Exporter {
    let key = ObjectKey { kind: Arc::new(Kind::service()), namespace: "shop".into(), name: "web".into() };
    let history = History::restore(sequences.map(|sequence| Transition {
        sequence,
        time: Timestamp::from_second(BEGIN).unwrap(),
        key: key.clone(),
        uid: Some("uid".into()),
        source: Source::Annotation,
        from: Some(VerdictKind::InSync),
        to: Some(VerdictKind::NoBaseline),
        reason: None,
        episode: None,
    }));
    let deps = ExporterDeps {
        settings_source: None,
        log: LogHandle::default(),
        client: api.client(),
        settings: Settings::default(),
        redaction_key: RedactionKey::of_process([7; 32]),
        clock: Clock::new(|| Timestamp::from_second(BEGIN).unwrap()),
        timing: WatcherConfig::default(),
        events: false,
        history_file: None,
        auth: Auth::default(),
        stop: CancellationToken::new(),
    };
    assemble(&deps, history)
}

/// The same exporter without watches.
fn with_restored_history(sequences: RangeInclusive<u64>) -> Arc<Exposed> {
    let exporter = exporter_with_history(&ApiServer::default(), sequences);
    // Keep the engine alive: the stream ends when the engine is dropped.
    std::mem::forget(exporter.ingest);
    exporter.exposed
}

async fn start_exporter() -> ExporterFixture {
    let api = ApiServer::default();
    for name in ["web", "cart", "api"] {
        api.put("deployments", deployment(name));
    }
    api.put("services", service("web"));
    ExporterFixture::ready(&api).await
}

#[tokio::test(start_paused = true)]
async fn transition_is_sent_at_once() {
    let exporter = start_exporter().await;
    let mut client = connect(&exporter.exposed, "/v1/events", None).await;
    let headers = client.response.headers();
    assert_eq!(headers[header::CONTENT_TYPE], "text/event-stream");
    assert_eq!(
        (&headers[header::CACHE_CONTROL], &headers["x-accel-buffering"]),
        (&"no-store".parse().unwrap(), &"no".parse().unwrap())
    );
    assert_eq!(names_and_ids(&client.drain().await), [("changed", None)]);
    assert_eq!(client.retry.as_deref(), Some("1000"));

    exporter.api.put("deployments", edited(deployment("web"), 3));
    let started = Instant::now();
    let event = client.next().await.unwrap();
    assert!(started.elapsed() < Duration::from_millis(20), "{:?}", started.elapsed());
    assert_eq!((event.name.as_str(), event.id), ("transition", Some(1)));
    let history = exporter.get("/v1/history").await.json();
    assert_eq!(event.data, history["transitions"][0], "the event has the format of the history");
    let changed = client.next().await.unwrap();
    assert_eq!(changed.name, "changed");
    assert_eq!(changed.data, json!({"sequence": exporter.snapshot().sequence}));
}

#[tokio::test(start_paused = true)]
async fn reconnecting_client_receives_missed_transitions() {
    let exposed = with_restored_history(500..=700);
    let all: Vec<_> = (500..=700).map(|id| ("transition", Some(id))).collect();
    for (path, last_event_id, from) in [
        ("/v1/events", Some("499"), 499),
        ("/v1/events?since=499", None, 499),
        ("/v1/events?since=499", Some(""), 499),
        // A browser reconnects with its first URL, so the header is newer.
        ("/v1/events?since=499", Some("698"), 698),
        ("/v1/events", Some("700"), 700),
        ("/v1/events", None, 700),
    ] {
        let events = connect(&exposed, path, last_event_id).await.drain().await;
        let transitions: Vec<_> =
            names_and_ids(&events).into_iter().filter(|(event, _)| *event != "changed").collect();
        assert_eq!(transitions, all[usize::try_from(from - 499).unwrap()..], "{path} {last_event_id:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn gap_in_the_history_sends_reset() {
    let exposed = with_restored_history(500..=700);
    for last_event_id in ["0", "498", "701", "18446744073709551615"] {
        let events = connect(&exposed, "/v1/events", Some(last_event_id)).await.drain().await;
        assert_eq!(names_and_ids(&events), [("reset", Some(700)), ("changed", None)], "{last_event_id}");
    }
}

#[tokio::test(start_paused = true)]
async fn slow_client_receives_reset() {
    let api = ApiServer::default();
    api.put("deployments", deployment("web"));
    let Exporter { ingest, exposed, .. } = exporter_with_history(&api, 1..=10_000);
    tokio::spawn(ingest.run());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut client = connect(&exposed, "/v1/events?since=0", None).await;
    assert_eq!(client.next().await.unwrap().id, Some(1));
    for round in 0..300 {
        let web = deployment("web");
        api.put("deployments", if round % 2 == 0 { edited(web, 1) } else { web });
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(exposed.state.snapshot().history.last_sequence(), 10_300);
    let events = client.drain().await;
    let reset = events.iter().position(|event| event.name == "reset").expect("a reset");
    assert!(events[..reset].iter().all(|event| event.id < Some(100)), "events before the gap arrive");
    assert_eq!(events[reset].id, Some(10_300));
    assert!(
        events[reset..].iter().all(|event| event.name != "transition"),
        "no transitions follow the reset"
    );
}

#[tokio::test(start_paused = true)]
async fn changed_events_are_rate_limited() {
    let exporter = start_exporter().await;
    let mut client = connect(&exporter.exposed, "/v1/events", None).await;
    client.drain().await;
    let started = Instant::now();
    let edits = async {
        for (second, name) in [(1, "web"), (2, "cart"), (3, "api")] {
            exporter.api.put("deployments", edited(deployment(name), second));
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    };
    let receive = async {
        let mut changes = Vec::new();
        let mut transitions = Vec::new();
        while let Ok(Some(event)) = timeout(Duration::from_secs(5), client.next()).await {
            let at = u64::try_from(started.elapsed().as_millis()).unwrap();
            if event.name == "changed" {
                changes.push((at, event.data["sequence"].as_u64().unwrap()));
            } else {
                transitions.push(at);
            }
        }
        (changes, transitions)
    };
    let ((), (changes, transitions)) = tokio::join!(edits, receive);
    assert_eq!(changes.len(), 2, "{changes:?}");
    assert!(changes[0].0 < 10 && (100..120).contains(&changes[1].0), "{changes:?}");
    assert_eq!(changes[1].1, exporter.snapshot().sequence, "the last event has the newest sequence number");
    assert_eq!(transitions.len(), 3);
    assert!(transitions.iter().zip([0, 30, 60]).all(|(at, put)| at - put < 10), "{transitions:?}");
}

#[tokio::test(start_paused = true)]
async fn idle_stream_sends_keep_alive_comments() {
    let exposed = with_restored_history(1..=1);
    let mut client = connect(&exposed, "/v1/events", None).await;
    client.next().await.unwrap();
    assert!(timeout(Duration::from_secs(46), client.next()).await.is_err());
    assert_eq!(client.comments, 3);
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_the_stream_at_once() {
    let exposed = with_restored_history(1..=1);
    let mut client = connect(&exposed, "/v1/events", None).await;
    client.next().await.unwrap();
    let started = Instant::now();
    let ((), next) = tokio::join!(async { exposed.stop.cancel() }, client.next());
    assert_eq!(next, None);
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn open_event_stream_does_not_delay_shutdown() {
    let exposed = with_restored_history(1..=1);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = exposed.stop.clone();
    let server =
        tokio::spawn(serve(listener, router(exposed.clone()), UNLIMITED, Auth::default(), stop.clone()));
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /v1/events?since=0 HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut text = String::new();
    while !text.contains("event: changed") {
        let mut buffer = [0; 4096];
        let length = stream.read(&mut buffer).await.unwrap();
        assert!(length > 0, "the stream ended early: {text}");
        text.push_str(std::str::from_utf8(&buffer[..length]).unwrap());
    }
    stop.cancel();
    // The drain limit is one hour.
    completes("shutdown does not wait for event streams", server).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn event_stream_257_is_rejected_until_another_closes() {
    let exposed = with_restored_history(1..=1);
    let mut clients = Vec::new();
    for _ in 0..256 {
        let client = connect(&exposed, "/v1/events", None).await;
        assert_eq!(client.response.status(), StatusCode::OK);
        clients.push(client);
    }
    let refused = connect(&exposed, "/v1/events", None).await.response;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.headers()[header::CONTENT_TYPE], "application/problem+json");
    assert_eq!(refused.headers()[header::RETRY_AFTER], "5");
    clients.pop();
    assert_eq!(connect(&exposed, "/v1/events", None).await.response.status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn invalid_sequence_number_is_a_problem() {
    let exposed = with_restored_history(1..=1);
    for (path, last_event_id) in [
        ("/v1/events", Some("yesterday")),
        ("/v1/events", Some("-1")),
        ("/v1/events?since=", None),
        ("/v1/events?since=x", None),
        ("/v1/events?colour=red", None),
    ] {
        let answer = connect(&exposed, path, last_event_id).await.response;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{path} {last_event_id:?}");
        assert_eq!(answer.headers()[header::CONTENT_TYPE], "application/problem+json");
    }
}
