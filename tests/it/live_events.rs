//! `/v1/events`: resuming, calm, ends.

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
    programs::wait::completes,
    server::UNLIMITED,
    support::{
        api_server::ApiServer,
        objects::{deployment, edited, service},
        world::{BEGIN, World},
    },
};

/// One event as a client reads it.
#[derive(Clone, Debug, Default, PartialEq)]
struct Event {
    name: String,
    id: Option<u64>,
    data: Value,
}

/// A client that reads events, and remembers what else was said.
struct Client {
    response: Response<Body>,
    text: String,
    comments: usize,
    retry: Option<String>,
}

async fn connect(exposed: &Arc<Exposed>, path: &str, last: Option<&str>) -> Client {
    let mut request = Request::get(path);
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    let response =
        router(exposed.clone()).oneshot(request.body(Body::empty()).unwrap()).await.expect("infallible");
    Client { response, text: String::new(), comments: 0, retry: None }
}

impl Client {
    /// The next event; none when the stream has ended.
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

    /// Events until nothing comes for a while.
    async fn rest(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Ok(Some(event)) = timeout(Duration::from_secs(1), self.next()).await {
            events.push(event);
        }
        events
    }
}

fn told(events: &[Event]) -> Vec<(&str, Option<u64>)> {
    events.iter().map(|event| (event.name.as_str(), event.id)).collect()
}

/// An exporter that was started with a history of these sequence numbers.
fn with_history(api: &ApiServer, sequences: RangeInclusive<u64>) -> Exporter {
    let key = ObjectKey { kind: Arc::new(Kind::service()), namespace: "shop".into(), name: "web".into() };
    let history = History::restore(sequences.map(|sequence| Transition {
        sequence,
        time: Timestamp::from_second(BEGIN).unwrap(),
        key: key.clone(),
        uid: "uid".into(),
        source: Source::Annotation,
        from: Some(VerdictKind::InSync),
        to: Some(VerdictKind::NoBaseline),
        reason: None,
        episode: None,
    }));
    let parts = ExporterDeps {
        settings_source: None,
        log: LogHandle::default(),
        client: api.client(),
        settings: Settings::default(),
        redaction_key: RedactionKey::new([7; 32]),
        clock: Clock::new(|| Timestamp::from_second(BEGIN).unwrap()),
        timing: WatcherConfig::default(),
        events: false,
        history_file: None,
        auth: Auth::default(),
        stop: CancellationToken::new(),
    };
    assemble(&parts, history)
}

/// The same, but it watches nothing.
fn restored(sequences: RangeInclusive<u64>) -> Arc<Exposed> {
    let exporter = with_history(&ApiServer::default(), sequences);
    // The engine lives on: a stream also ends when there will never be anything new.
    std::mem::forget(exporter.ingest);
    exporter.exposed
}

async fn shop() -> World {
    let api = ApiServer::default();
    for name in ["web", "cart", "api"] {
        api.put("deployments", deployment(name));
    }
    api.put("services", service("web"));
    World::ready(&api).await
}

#[tokio::test(start_paused = true)]
async fn a_transition_arrives_as_it_happens() {
    let world = shop().await;
    let mut client = connect(&world.exposed, "/v1/events", None).await;
    let headers = client.response.headers();
    assert_eq!(headers[header::CONTENT_TYPE], "text/event-stream");
    assert_eq!(
        (&headers[header::CACHE_CONTROL], &headers["x-accel-buffering"]),
        (&"no-store".parse().unwrap(), &"no".parse().unwrap())
    );
    assert_eq!(told(&client.rest().await), [("changed", None)]);
    assert_eq!(client.retry.as_deref(), Some("1000"));

    world.api.put("deployments", edited(deployment("web"), 3));
    let begun = Instant::now();
    let event = client.next().await.unwrap();
    assert!(begun.elapsed() < Duration::from_millis(20), "{:?}", begun.elapsed());
    assert_eq!((event.name.as_str(), event.id), ("transition", Some(1)));
    let history = world.get("/v1/history").await.json();
    assert_eq!(event.data, history["transitions"][0], "the same shape as in the history");
    let changed = client.next().await.unwrap();
    assert_eq!(changed.name, "changed");
    assert_eq!(changed.data, json!({"sequence": world.snapshot().sequence}));
}

#[tokio::test(start_paused = true)]
async fn who_comes_back_gets_what_was_missed() {
    let exposed = restored(500..=700);
    let all: Vec<_> = (500..=700).map(|id| ("transition", Some(id))).collect();
    for (path, last, from) in [
        ("/v1/events", Some("499"), 499),
        ("/v1/events?since=499", None, 499),
        ("/v1/events?since=499", Some(""), 499),
        // A browser comes back with its first URL, so the header is newer.
        ("/v1/events?since=499", Some("698"), 698),
        ("/v1/events", Some("700"), 700),
        ("/v1/events", None, 700),
    ] {
        let events = connect(&exposed, path, last).await.rest().await;
        let transitions: Vec<_> =
            told(&events).into_iter().filter(|(event, _)| *event != "changed").collect();
        assert_eq!(transitions, all[usize::try_from(from - 499).unwrap()..], "{path} {last:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_gap_is_told_and_not_hidden() {
    let exposed = restored(500..=700);
    for last in ["0", "498", "701", "18446744073709551615"] {
        let events = connect(&exposed, "/v1/events", Some(last)).await.rest().await;
        assert_eq!(told(&events), [("reset", Some(700)), ("changed", None)], "{last}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_reads_more_slowly_than_things_happen_is_told_of_the_gap() {
    let api = ApiServer::default();
    api.put("deployments", deployment("web"));
    let Exporter { ingest, exposed, .. } = with_history(&api, 1..=10_000);
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
    let events = client.rest().await;
    let reset = events.iter().position(|event| event.name == "reset").expect("a reset");
    assert!(events[..reset].iter().all(|event| event.id < Some(100)), "what was on its way arrives");
    assert_eq!(events[reset].id, Some(10_300));
    assert!(events[reset..].iter().all(|event| event.name != "transition"), "what is gone is not made up");
}

#[tokio::test(start_paused = true)]
async fn changes_are_told_at_once_and_then_calmly() {
    let world = shop().await;
    let mut client = connect(&world.exposed, "/v1/events", None).await;
    client.rest().await;
    let begun = Instant::now();
    let edits = async {
        for (second, name) in [(1, "web"), (2, "cart"), (3, "api")] {
            world.api.put("deployments", edited(deployment(name), second));
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    };
    let listen = async {
        let mut changes = Vec::new();
        let mut transitions = Vec::new();
        while let Ok(Some(event)) = timeout(Duration::from_secs(5), client.next()).await {
            let at = u64::try_from(begun.elapsed().as_millis()).unwrap();
            if event.name == "changed" {
                changes.push((at, event.data["sequence"].as_u64().unwrap()));
            } else {
                transitions.push(at);
            }
        }
        (changes, transitions)
    };
    let ((), (changes, transitions)) = tokio::join!(edits, listen);
    assert_eq!(changes.len(), 2, "{changes:?}");
    assert!(changes[0].0 < 10 && (100..120).contains(&changes[1].0), "{changes:?}");
    assert_eq!(changes[1].1, world.snapshot().sequence, "the last word is about the newest state");
    assert_eq!(transitions.len(), 3);
    assert!(transitions.iter().zip([0, 30, 60]).all(|(at, put)| at - put < 10), "{transitions:?}");
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_shows_that_it_lives() {
    let exposed = restored(1..=1);
    let mut client = connect(&exposed, "/v1/events", None).await;
    client.next().await.unwrap();
    assert!(timeout(Duration::from_secs(46), client.next()).await.is_err());
    assert_eq!(client.comments, 3);
}

#[tokio::test(start_paused = true)]
async fn stopping_ends_the_stream_at_once() {
    let exposed = restored(1..=1);
    let mut client = connect(&exposed, "/v1/events", None).await;
    client.next().await.unwrap();
    let begun = Instant::now();
    let ((), next) = tokio::join!(async { exposed.stop.cancel() }, client.next());
    assert_eq!(next, None);
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn a_listener_does_not_hold_up_a_graceful_stop() {
    let exposed = restored(1..=1);
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
        assert!(length > 0, "it ended early: {text}");
        text.push_str(std::str::from_utf8(&buffer[..length]).unwrap());
    }
    stop.cancel();
    // The server would wait for a request that goes on for an hour.
    completes("stopping does not wait for listeners", server).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_257th_listener_is_refused_until_one_goes() {
    let exposed = restored(1..=1);
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
async fn what_is_no_sequence_number_is_a_problem() {
    let exposed = restored(1..=1);
    for (path, last) in [
        ("/v1/events", Some("yesterday")),
        ("/v1/events", Some("-1")),
        ("/v1/events?since=", None),
        ("/v1/events?since=x", None),
        ("/v1/events?colour=red", None),
    ] {
        let answer = connect(&exposed, path, last).await.response;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{path} {last:?}");
        assert_eq!(answer.headers()[header::CONTENT_TYPE], "application/problem+json");
    }
}
