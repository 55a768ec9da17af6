//! Slow clients, full servers, stopping.

use std::time::{Duration, Instant};

use axum::{Router, body::Body, routing::get};
use drift_exporter::expose::{ServerLimits, serve};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

async fn start(limits: ServerLimits) -> (std::net::SocketAddr, CancellationToken, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = Router::new().route("/", get(async || "hello")).route(
        "/slow",
        get(async || {
            tokio::time::sleep(Duration::from_millis(300)).await;
            "slow"
        }),
    );
    let app = app.route("/large", get(async || Body::from(vec![b'x'; 64 << 20])));
    let stop = CancellationToken::new();
    let server = tokio::spawn(serve(listener, app, limits, stop.clone()));
    (address, stop, server)
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
    ServerLimits { connections: 2, headers: short, write: short, drain: Duration::from_secs(5) }
}

#[tokio::test]
async fn clients_that_send_nothing_or_half_a_header_are_cut_off() {
    let (address, _stop, _server) = start(quick()).await;
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
async fn silent_clients_hold_all_slots_only_for_a_moment() {
    let (address, _stop, _server) = start(quick()).await;
    let mut silent = Vec::new();
    for _ in 0..8 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let begun = Instant::now();
    assert!(fetch(address, REQUEST).await.ends_with("hello"));
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_client_that_does_not_read_is_cut_off() {
    let (address, stop, server) = start(quick()).await;
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
async fn stopping_lets_running_requests_finish_and_takes_no_new_ones() {
    let (address, stop, server) = start(quick()).await;
    let running = tokio::spawn(fetch(address, b"GET /slow HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"));
    tokio::time::sleep(Duration::from_millis(100)).await;
    stop.cancel();
    assert!(running.await.unwrap().ends_with("slow"));
    server.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}
