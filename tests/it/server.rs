//! Slow clients, full servers, stopping.

use std::time::{Duration, Instant};

use axum::{Router, body::Body, routing::get};
use drift_exporter::server::{Auth, ServerLimits, listen, router, serve};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::support::{api_server::ApiServer, objects::deployment, world::World};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

fn start(limits: ServerLimits) -> (std::net::SocketAddr, CancellationToken, JoinHandle<()>) {
    let listener = listen(([127, 0, 0, 1], 0).into()).unwrap();
    let address = listener.local_addr().unwrap();
    let app = Router::new().route("/", get(async || "hello")).route(
        "/slow",
        get(async || {
            tokio::time::sleep(Duration::from_millis(300)).await;
            "slow"
        }),
    );
    // In pieces: what is handed over in one is no longer ours to wait for.
    let pieces =
        || futures::stream::iter((0..64).map(|_| Ok::<_, std::convert::Infallible>(vec![b'x'; 1 << 20])));
    let app = app.route("/large", get(async move || Body::from_stream(pieces())));
    let (stop, server) = serve_on(listener, app, limits);
    (address, stop, server)
}

fn serve_on(listener: TcpListener, app: Router, limits: ServerLimits) -> (CancellationToken, JoinHandle<()>) {
    let stop = CancellationToken::new();
    let server = tokio::spawn(serve(listener, app, limits, Auth::default(), stop.clone()));
    (stop, server)
}

async fn fetch(address: std::net::SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

fn quick() -> ServerLimits {
    let short = Duration::from_millis(300);
    ServerLimits {
        connections: 2,
        handshake: short,
        headers: short,
        write: short,
        drain: Duration::from_secs(5),
    }
}

#[tokio::test]
async fn clients_that_send_nothing_or_half_a_header_are_cut_off() {
    let (address, _stop, _server) = start(quick());
    for sent in [&b""[..], b"GET / HT", b"GET / HTTP/1.1\r\nhost:"] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(sent).await.unwrap();
        let begun = Instant::now();
        let mut rest = Vec::new();
        let _ = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut rest))
            .await
            .expect("cut off");
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    }
    assert!(fetch(address, REQUEST).await.ends_with("hello"));
}

#[tokio::test]
async fn silent_clients_make_room_for_those_who_ask() {
    let patient = ServerLimits { connections: 2, ..ServerLimits::default() };
    let (address, _stop, _server) = start(patient);
    let slow = tokio::spawn(fetch(address, b"GET /slow HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"));
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut silent = Vec::new();
    for _ in 0..8 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let begun = Instant::now();
    assert!(fetch(address, REQUEST).await.ends_with("hello"));
    assert!(begun.elapsed() < Duration::from_millis(200), "{:?}", begun.elapsed());
    assert!(slow.await.unwrap().ends_with("slow"), "who is being answered stays");
}

/// What besiegers send: nothing, a head or a body that does not end.
const SIEGE: [&[u8]; 6] = [
    b"",
    b"GET / HTTP/1.1\r\nhost: x\r\nx-slow: ",
    b"GET /livez HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\n",
    b"POST /livez HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\n",
    b"GET /v1/resources?namespace=* HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5\r\n",
    b"POST /v1/resources HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{",
];

/// Opens connections that hold their places for as long as they can, and opens them anew when they are closed.
async fn besiege(address: std::net::SocketAddr, connections: usize) -> Vec<JoinHandle<()>> {
    let mut besiegers = Vec::new();
    for number in 0..connections {
        let sent = SIEGE[number % SIEGE.len()];
        besiegers.push(tokio::spawn(async move {
            loop {
                let Ok(mut stream) = TcpStream::connect(address).await else { continue };
                let _ = stream.write_all(sent).await;
                let mut end = [0; 64];
                while stream.read(&mut end).await.is_ok_and(|read| read > 0) {}
                tokio::time::sleep(Duration::from_millis(fastrand::u64(1_000..3_000))).await;
            }
        }));
    }
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    besiegers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_idle_connections_leave_a_scrape_under_100_ms() {
    let api = ApiServer::default();
    api.put("deployments", deployment("web"));
    let world = World::ready(&api).await;
    let listener = listen(([127, 0, 0, 1], 0).into()).unwrap();
    let address = listener.local_addr().unwrap();
    let _server = serve_on(listener, router(world.exposed.clone()), ServerLimits::default());
    let scrape = b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let besiegers = besiege(address, 2_000).await;
    // A machine that is busy with something else makes one round slow; a server that can be shut out, every one.
    let mut rounds = Vec::new();
    for _ in 0..3 {
        let mut slowest = Duration::ZERO;
        for _ in 0..30 {
            let begun = Instant::now();
            assert!(fetch(address, scrape).await.contains("drift_exporter_build_info"));
            slowest = slowest.max(begun.elapsed());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        rounds.push(slowest);
        if slowest < Duration::from_millis(100) {
            break;
        }
    }
    besiegers.iter().for_each(JoinHandle::abort);
    assert!(rounds.iter().any(|slowest| *slowest < Duration::from_millis(100)), "{rounds:?}");
}

/// Asks and reads all of the answer, which may come before all of the question is written.
async fn ask_at_length(address: std::net::SocketAddr, request: String) -> (String, serde_json::Value) {
    let begun = Instant::now();
    let (mut answers, mut questions) = TcpStream::connect(address).await.unwrap().into_split();
    let writer = tokio::spawn(async move { questions.write_all(request.as_bytes()).await.is_ok() });
    let mut answer = String::new();
    answers.read_to_string(&mut answer).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    writer.abort();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), serde_json::from_str(body).unwrap())
}

#[tokio::test]
async fn a_head_that_is_too_large_or_none_is_refused_at_once_and_in_words() {
    let (address, _stop, _server) = start(ServerLimits::default());
    let token =
        |size| format!("GET / HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\r\n", "x".repeat(size));
    let url = format!("GET /?{} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(100 << 10));
    let large = "URL and headers of a request have at most 16 KiB";
    let cases = [
        (token(20 << 10), 431, large),
        (token(1 << 20), 431, large),
        (url, 431, large),
        ("GET / HTTP/1.1\r\nbad header\r\n\r\n".to_owned(), 400, "no request of HTTP/1.1"),
        ("GET /<> HTTP/9\r\n\r\n".to_owned(), 400, "no request of HTTP/1.1"),
    ];
    for (request, status, detail) in cases {
        let (head, problem) = ask_at_length(address, request).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        assert!(head.contains("content-type: application/problem+json"), "{head}");
        assert_eq!(problem["status"], status);
        assert!(problem["detail"].as_str().unwrap().contains(detail), "{problem}");
    }
    assert!(fetch(address, REQUEST).await.ends_with("hello"));
}

#[tokio::test]
async fn one_request_may_be_refused_after_others_were_answered() {
    let (address, _stop, _server) = start(ServerLimits::default());
    let answers = fetch(address, b"GET / HTTP/1.1\r\nhost: x\r\n\r\nGET / HTTP/1.1\r\nnothing\r\n\r\n").await;
    let (first, second) = answers.split_once("hello").unwrap();
    assert!(first.starts_with("HTTP/1.1 200") && second.starts_with("HTTP/1.1 400"), "{answers}");
    assert!(second.ends_with('}'), "{second}");
    let old = b"GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\nnothing\r\n\r\n";
    assert!(fetch(address, old).await.ends_with('}'), "who speaks an older version is told, too");
}

#[tokio::test]
async fn a_client_that_does_not_read_is_cut_off() {
    let (address, stop, server) = start(quick());
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    tokio::time::sleep(Duration::from_millis(900)).await;
    // Nobody is left, so stopping does not have to wait.
    stop.cancel();
    let begun = Instant::now();
    server.await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn clients_that_read_slowly_make_room_for_those_who_ask() {
    let patient = ServerLimits { connections: 8, ..ServerLimits::default() };
    let (address, _stop, _server) = start(patient);
    // Those of them that come later have to get in, too.
    let begun = Instant::now();
    let mut slow = Vec::new();
    for _ in 0..16 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        stream.read_u8().await.unwrap();
        slow.push(stream);
    }
    assert!(fetch(address, REQUEST).await.ends_with("hello"));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn stopping_lets_running_requests_finish_and_takes_no_new_ones() {
    let (address, stop, server) = start(quick());
    let running = tokio::spawn(fetch(address, b"GET /slow HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"));
    tokio::time::sleep(Duration::from_millis(100)).await;
    stop.cancel();
    assert!(running.await.unwrap().ends_with("slow"));
    server.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}
