//! Slow clients, connection limits and shutdown.

use std::{
    convert::Infallible,
    io::{ErrorKind, Read as _},
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Router, body::Body, routing::get};
use drift_exporter::server::{Auth, ServerLimits, listen, router, serve};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::support::{
    api_server::ApiServer, exporter_fixture::ExporterFixture, live_objects::deployment, wait::completes,
};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
const SLOW: &[u8] = b"GET /slow HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
const LARGE: &[u8] = b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n";

/// Longer than any test: a server with these limits never reaches one.
pub(crate) const UNLIMITED: ServerLimits = ServerLimits {
    connections: 512,
    large_responses: 512,
    handshake: Duration::from_hours(1),
    headers: Duration::from_hours(1),
    write: Duration::from_hours(1),
    drain: Duration::from_hours(1),
};
/// A limit that tests reach.
const SHORT: Duration = Duration::from_secs(1);

/// The progress of the server's handlers.
struct Progress {
    /// `/slow` has started.
    started: Semaphore,
    /// `/slow` may continue.
    released: Semaphore,
    /// The number of chunks of `/large` that the server has requested.
    chunks_sent: AtomicUsize,
    /// The body of `/large` was dropped.
    dropped: Semaphore,
}

/// The number of chunks of `/large`.
const CHUNKS: usize = 64;

struct Server {
    address: SocketAddr,
    progress: Arc<Progress>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

fn start(limits: ServerLimits) -> Server {
    let listener = listen(([127, 0, 0, 1], 0).into()).unwrap();
    let address = listener.local_addr().unwrap();
    let progress = Arc::new(Progress {
        started: Semaphore::new(0),
        released: Semaphore::new(0),
        chunks_sent: AtomicUsize::new(0),
        dropped: Semaphore::new(0),
    });
    let (slow, large) = (progress.clone(), progress.clone());
    let slow = async move || {
        slow.started.add_permits(1);
        slow.released.acquire().await.unwrap().forget();
        "slow"
    };
    let app = Router::new()
        .route("/", get(async || "hello"))
        .route("/slow", get(slow))
        .route("/large", get(async move || Body::from_stream(chunks(Large(large)))));
    let (stop, task) = serve_on(listener, app, limits);
    Server { address, progress, stop, task }
}

/// Reports when it is dropped.
struct Large(Arc<Progress>);

impl Drop for Large {
    fn drop(&mut self) {
        self.0.dropped.add_permits(1);
    }
}

/// In chunks, because the server does not track bytes that it has passed to the kernel.
fn chunks(large: Large) -> impl futures::Stream<Item = Result<Vec<u8>, Infallible>> {
    futures::stream::iter((0..CHUNKS).map(move |_| {
        large.0.chunks_sent.fetch_add(1, Ordering::Relaxed);
        Ok(vec![b'x'; 1 << 20])
    }))
}

fn serve_on(listener: TcpListener, app: Router, limits: ServerLimits) -> (CancellationToken, JoinHandle<()>) {
    let stop = CancellationToken::new();
    let task = tokio::spawn(serve(listener, app, limits, Auth::default(), stop.clone()));
    (stop, task)
}

async fn open(address: SocketAddr, request: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request).await.unwrap();
    stream
}

async fn fetch(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = open(address, request).await;
    let mut response = String::new();
    completes("a response", stream.read_to_string(&mut response)).await.unwrap();
    response
}

/// Whether the server has neither sent anything nor closed the connection.
pub(crate) fn is_silent(stream: TcpStream) -> bool {
    let read = stream.into_std().unwrap().read(&mut [0]);
    read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

#[tokio::test]
async fn clients_with_incomplete_headers_are_disconnected() {
    let limited = start(ServerLimits { headers: SHORT, ..UNLIMITED });
    let unlimited = start(UNLIMITED);
    let mut clients = Vec::new();
    for sent in [&b""[..], b"GET / HT", b"GET / HTTP/1.1\r\nhost:"] {
        clients.push((open(unlimited.address, sent).await, open(limited.address, sent).await));
    }
    for (waits, mut cut_off) in clients {
        let _ = completes("the connection is closed", cut_off.read_to_end(&mut Vec::new())).await;
        assert!(is_silent(waits), "only the limit closes the connection");
    }
    assert!(fetch(limited.address, REQUEST).await.ends_with("hello"));
}

#[tokio::test]
async fn idle_connections_are_closed_for_new_requests() {
    let server = start(ServerLimits { connections: 2, ..UNLIMITED });
    let slow = tokio::spawn(fetch(server.address, SLOW));
    completes("the request is handled", server.progress.started.acquire()).await.unwrap().forget();
    let mut silent = Vec::new();
    for _ in 0..8 {
        silent.push(open(server.address, b"").await);
    }
    assert!(fetch(server.address, REQUEST).await.ends_with("hello"), "while another request is handled");
    server.progress.released.add_permits(1);
    assert!(slow.await.unwrap().ends_with("slow"), "a connection with a running request stays open");
}

/// Nothing, or an incomplete head or body.
const INCOMPLETE_REQUESTS: [&[u8]; 6] = [
    b"",
    b"GET / HTTP/1.1\r\nhost: x\r\nx-slow: ",
    b"GET /livez HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\n",
    b"POST /livez HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\n",
    b"GET /v1/resources?namespace=* HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5\r\n",
    b"POST /v1/resources HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{",
];

/// Opens connections with incomplete requests, and opens them again when the server closes them.
async fn open_idle_connections(address: SocketAddr, connections: u32) -> Vec<JoinHandle<()>> {
    let mut clients = Vec::new();
    let connected = Arc::new(Semaphore::new(0));
    for number in 0..connections as usize {
        let (sent, mut first) =
            (INCOMPLETE_REQUESTS[number % INCOMPLETE_REQUESTS.len()], Some(connected.clone()));
        clients.push(tokio::spawn(async move {
            loop {
                let Ok(mut stream) = TcpStream::connect(address).await else { continue };
                let _ = stream.write_all(sent).await;
                if let Some(connected) = first.take() {
                    connected.add_permits(1);
                }
                let mut end = [0; 64];
                while stream.read(&mut end).await.is_ok_and(|read| read > 0) {}
                tokio::time::sleep(Duration::from_millis(fastrand::u64(1_000..3_000))).await;
            }
        }));
    }
    completes("all are connected", connected.acquire_many(connections)).await.unwrap().forget();
    clients
}

/// No time limit closes a connection here, so each scrape replaces an idle connection. `make bench` measures the duration of a
/// scrape under this load.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_idle_connections_do_not_block_a_scrape() {
    let api = ApiServer::default();
    api.put("deployments", deployment("web"));
    let exporter = ExporterFixture::ready(&api).await;
    let listener = listen(([127, 0, 0, 1], 0).into()).unwrap();
    let address = listener.local_addr().unwrap();
    let _server = serve_on(listener, router(exporter.exposed.clone()), UNLIMITED);
    let clients = open_idle_connections(address, 2_000).await;
    for _ in 0..30 {
        let scrape = b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        assert!(fetch(address, scrape).await.contains("drift_exporter_build_info"));
    }
    clients.iter().for_each(JoinHandle::abort);
}

/// Sends a request and reads the response, which may arrive before the request is sent completely.
async fn send_head(address: SocketAddr, request: String) -> std::io::Result<String> {
    let (mut reader, mut writer) = TcpStream::connect(address).await.unwrap().into_split();
    let sender = tokio::spawn(async move { writer.write_all(request.as_bytes()).await.is_ok() });
    let mut response = String::new();
    let read = completes("a response", reader.read_to_string(&mut response)).await;
    sender.abort();
    read.map(|_| response)
}

#[tokio::test]
async fn malformed_and_too_large_heads_are_rejected_and_do_not_affect_other_clients() {
    // No time limit ends a request here: the server does not wait for the rest of it.
    let Server { address, .. } = start(UNLIMITED);
    for (request, status) in [
        ("GET / HTTP/1.1\r\nbad header\r\n\r\n", "HTTP/1.1 400 "),
        ("GET /<> HTTP/9\r\n\r\n", "HTTP/1.1 400 "),
    ] {
        let response = send_head(address, request.to_owned()).await.unwrap();
        assert!(response.starts_with(status), "{response}");
    }
    let token =
        |size| format!("GET / HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\r\n", "x".repeat(size));
    let url = format!("GET /?{} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(100 << 10));
    for request in [token(20 << 10), token(1 << 20), url] {
        match send_head(address, request).await {
            Ok(response) => assert!(response.starts_with("HTTP/1.1 431 "), "{response}"),
            // The kernel may reset a connection with unread input before the client has read the response.
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
        }
        assert!(fetch(address, REQUEST).await.ends_with("hello"));
    }
}

#[tokio::test]
async fn malformed_request_is_rejected_after_others_were_served() {
    let Server { address, .. } = start(UNLIMITED);
    let responses =
        fetch(address, b"GET / HTTP/1.1\r\nhost: x\r\n\r\nGET / HTTP/1.1\r\nnothing\r\n\r\n").await;
    let (first, second) = responses.split_once("hello").unwrap();
    assert!(first.starts_with("HTTP/1.1 200") && second.starts_with("HTTP/1.1 400"), "{responses}");
}

#[tokio::test]
async fn client_that_does_not_read_is_disconnected() {
    let Server { address, progress, stop, task } = start(ServerLimits { write: SHORT, ..UNLIMITED });
    let _stream = open(address, LARGE).await;
    completes("the response is dropped", progress.dropped.acquire()).await.unwrap().forget();
    assert!(progress.chunks_sent.load(Ordering::Relaxed) < CHUNKS, "the response was not sent completely");
    // No connection is left: the drain limit is one hour.
    stop.cancel();
    completes("the server stops", task).await.unwrap();
}

#[tokio::test]
async fn slow_readers_are_disconnected_for_new_requests() {
    let server = start(ServerLimits { connections: 8, ..UNLIMITED });
    // Later slow clients get a connection too.
    let mut slow = Vec::new();
    for _ in 0..16 {
        let mut stream = open(server.address, LARGE).await;
        completes("a response", stream.read_u8()).await.unwrap();
        slow.push(stream);
    }
    assert!(fetch(server.address, REQUEST).await.ends_with("hello"));
}

#[tokio::test]
async fn exactly_one_valid_host_is_required() {
    let server = start(UNLIMITED);
    let status = async |hosts: &[&str]| {
        let headers = hosts.iter().map(|host| format!("host: {host}\r\n")).collect::<Vec<_>>().concat();
        let request = format!("GET / HTTP/1.1\r\n{headers}connection: close\r\n\r\n");
        let response = fetch(server.address, request.as_bytes()).await;
        response.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
    };
    for host in ["x", "10.0.0.1:10374", "[::1]:10374", "drift-exporter.monitoring.svc"] {
        assert_eq!(status(&[host]).await, 200, "{host}");
    }
    for hosts in [&[][..], &["x", "x"], &["x", "y"], &[""], &["a b"], &["a/b"], &["user@x"], &["x:y:z"]] {
        assert_eq!(status(hosts).await, 400, "{hosts:?}");
    }
}

/// As the HTTP threads of an exporter: two, so that one client cannot occupy all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_that_does_not_read_a_list_delays_the_next_one_and_no_probe() {
    let api = ApiServer::default();
    // More than the buffers of a connection hold.
    for n in 0..6_000 {
        api.put("deployments", deployment(&format!("web-{n}")));
    }
    let exporter = ExporterFixture::ready(&api).await;
    let listener = listen(([127, 0, 0, 1], 0).into()).unwrap();
    let address = listener.local_addr().unwrap();
    let limits = ServerLimits { large_responses: 1, ..UNLIMITED };
    let (_stop, _task) = serve_on(listener, router(exporter.exposed.clone()), limits);
    let list = b"GET /v1/resources?namespace=* HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let probe = b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let mut first = open(address, list).await;
    completes("the first list begins", first.read_u8()).await.unwrap();
    let mut second = open(address, list).await;
    assert!(fetch(address, probe).await.ends_with("ok\n"), "probes do not wait");
    let mut answer = String::new();
    completes("the second list", second.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.contains("web-5999"), "the second list is complete");
    let mut received = Vec::new();
    let _ = completes("the slow client is disconnected", first.read_to_end(&mut received)).await;
    assert!(!received.ends_with(b"0\r\n\r\n"), "its list is not complete");
}

#[tokio::test]
async fn shutdown_finishes_running_requests_and_accepts_no_new_ones() {
    let Server { address, progress, stop, task } = start(UNLIMITED);
    let running = tokio::spawn(fetch(address, SLOW));
    completes("the request is handled", progress.started.acquire()).await.unwrap().forget();
    stop.cancel();
    let refused = async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    completes("new connections are refused", refused).await;
    progress.released.add_permits(1);
    assert!(running.await.unwrap().ends_with("slow"));
    completes("the server stops", task).await.unwrap();
}
