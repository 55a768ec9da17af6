//! The HTTP server: accepts connections, terminates TLS, and limits what one client can occupy.

mod connections;
mod health;
mod routes;

use std::{
    convert::Infallible,
    io,
    net::{Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::{HeaderValue, Request, header::HOST, uri::Authority};
use http_body::Body as _;
use http_body_util::{BodyExt as _, Limited, combinators::MapErr};
use hyper::{
    body::Incoming,
    server::conn::http1::Builder,
    service::{Service as _, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpSocket, TcpStream},
    time::{Instant, sleep, timeout},
};
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use self::connections::{ActiveRequest, Connection, Connections};
use super::{Auth, Peer, api::Problem};

pub(super) use self::connections::UnendingResponse;
pub use self::routes::{Exposed, Protection, ROUTES, Route, health_router, router};

/// The largest request head, tokens and cookies included; hyper answers 431 to a larger one.
const MAX_HEAD: usize = 16 << 10;

#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// Open connections. One more evicts the connection that is idle for longest, or else the slowest reader.
    pub connections: usize,
    /// Large responses that are generated or sent at once. One more waits, and evicts the slowest reader of one.
    pub large_responses: usize,
    pub handshake: Duration,
    /// Time for sending a request's headers, and how long an idle connection stays open.
    pub headers: Duration,
    /// How long a client may read nothing of a response.
    pub write: Duration,
    /// How long shutdown waits for running requests.
    pub drain: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: 512,
            large_responses: 16,
            handshake: Duration::from_secs(5),
            headers: Duration::from_secs(5),
            write: Duration::from_secs(30),
            drain: Duration::from_secs(5),
        }
    }
}

/// Connections that the kernel queues, so that a burst is not refused.
const BACKLOG: u32 = 4096;

/// Binds a listener with a long accept queue.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves until `stop`, then lets running requests finish. `auth` supplies the TLS configuration of each new connection.
pub async fn serve(
    listener: TcpListener,
    app: Router,
    limits: ServerLimits,
    auth: Auth,
    stop: CancellationToken,
) {
    let connections = Connections::new(limits.connections, limits.large_responses);
    let graceful = GracefulShutdown::new();
    let mut http = Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.headers).max_buf_size(MAX_HEAD);
    // `stop` interrupts waiting for a free connection too: a full server must be able to stop.
    let next = async || {
        let permit = connections.acquire().await;
        let (tcp, address) = listener.accept().await?;
        Ok::<_, io::Error>((connections.register(permit).await, tcp, address))
    };
    loop {
        let (connection, tcp, address) = tokio::select! {
            accepted = next() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    warn!(%error, "cannot accept connection");
                    sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            () = stop.cancelled() => break,
        };
        let session =
            Session { http: http.clone(), app: app.clone(), limits, watcher: graceful.watcher(), address };
        let (auth, stop) = (auth.clone(), stop.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = session.run(tcp, &auth, &connection, &stop) => {}
                () = connection.evicted() => debug!(%address, "evicted an idle or slow connection"),
            }
        });
    }
    drop(listener);
    if timeout(limits.drain, graceful.shutdown()).await.is_err() {
        warn!("aborted requests that were still running {:?} after the stop signal", limits.drain);
    }
}

/// Serves one connection.
struct Session {
    http: Builder,
    app: Router,
    limits: ServerLimits,
    watcher: Watcher,
    address: SocketAddr,
}

impl Session {
    async fn run(self, tcp: TcpStream, auth: &Auth, connection: &Arc<Connection>, stop: &CancellationToken) {
        let _ = tcp.set_nodelay(true);
        let (tls, address) = (auth.tls(), self.address);
        let with_timeout = |tcp| {
            let mut stream = TimeoutStream::new(tcp);
            stream.set_write_timeout(Some(self.limits.write));
            Box::pin(stream)
        };
        let Some((config, verified)) = tls else {
            let stream = with_timeout(tcp);
            return self.serve(stream, Peer { address, certified: false }, connection).await;
        };
        let handshake = async {
            if is_plain_http(&tcp).await {
                return reject_plain_http(self.http.clone(), tcp).await.map(|()| None);
            }
            TlsAcceptor::from(config).accept(with_timeout(tcp)).await.map(Some)
        };
        let accepted = tokio::select! {
            accepted = timeout(self.limits.handshake, handshake) => accepted,
            () = stop.cancelled() => return,
        };
        match accepted {
            Ok(Ok(None)) => debug!(%address, "client sent plain HTTP to the TLS port"),
            Ok(Ok(Some(stream))) => {
                let certified = verified && stream.get_ref().1.peer_certificates().is_some();
                self.serve(stream, Peer { address, certified }, connection).await;
            }
            Ok(Err(error)) => debug!(%address, %error, "TLS handshake failed"),
            Err(_) => debug!(%address, "TLS handshake timed out"),
        }
    }

    async fn serve<S>(self, stream: S, peer: Peer, connection: &Arc<Connection>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let app = TowerToHyperService::new(self.app);
        let service = service_fn(|mut request: Request<Incoming>| {
            let active = Arc::new(connection.start_request());
            request.extensions_mut().insert(peer);
            request.extensions_mut().insert(LargeResponse(active.clone()));
            let has_host = has_one_host(&request);
            // Dropped with the body, or at once if there is none.
            let received = RequestReceived(active.clone());
            let received = if request.body().is_end_stream() { None } else { Some(received) };
            let request = request.map(|body| hold_until_sent(body, received));
            let response = has_host.then(|| app.call(request));
            async move {
                let response = match response {
                    Some(response) => response.await?,
                    None => Problem::bad_request(HOST_REQUIRED).into_response(),
                };
                active.start_response(response.extensions().get::<UnendingResponse>());
                Ok::<_, Infallible>(response.map(|body| hold_until_sent(body, active)))
            }
        });
        let served = self.watcher.watch(self.http.serve_connection(TokioIo::new(stream), service));
        if let Err(error) = served.await {
            debug!(address = %peer.address, %error, "connection failed");
        }
    }
}

/// A request extension: lets a handler announce a large response.
#[derive(Clone, Debug)]
struct LargeResponse(Arc<ActiveRequest>);

/// Waits until a large response may be generated. Requests without a connection do not wait.
pub(super) async fn wait_for_large_response(mut request: Request<Body>, next: Next) -> Response {
    if let Some(LargeResponse(active)) = request.extensions().get().cloned() {
        let arrived = Instant::now();
        active.start_large().await;
        request.extensions_mut().insert(QueueTime(arrived.elapsed()));
    }
    next.run(request).await
}

/// A request extension: how long the request waited until its large response could be generated.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueTime(pub(super) Duration);

const HOST_REQUIRED: &str = "send exactly one header `Host` with the name or address of this server";

/// Whether a request has exactly one valid `Host`, as RFC 9112 requires. Probes and scrapes use the addresses of pods, so that any name
/// is accepted.
fn has_one_host<B>(request: &Request<B>) -> bool {
    let mut hosts = request.headers().get_all(HOST).iter();
    let is_valid = |host: &HeaderValue| host.to_str().is_ok_and(is_valid_host);
    hosts.next().is_some_and(is_valid) && hosts.next().is_none()
}

/// Whether this is a name or an address, with or without a port.
fn is_valid_host(text: &str) -> bool {
    let Ok(authority) = text.parse::<Authority>() else { return false };
    let host = authority.host();
    let is_name = match host.strip_prefix('[').and_then(|address| address.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => !host.is_empty() && !host.contains(['[', ']']),
    };
    // The authority of a URL may have a user in front of the host.
    let port = text.strip_prefix(host).map(|rest| rest.strip_prefix(':').unwrap_or(rest));
    let is_port = |port: &str| {
        port.is_empty() || port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok()
    };
    is_name && port.is_some_and(is_port)
}

/// A TLS record never begins with a letter; a plain request does.
async fn is_plain_http(stream: &TcpStream) -> bool {
    let mut first = [0];
    stream.peek(&mut first).await.is_ok_and(|read| read > 0 && first[0].is_ascii_alphabetic())
}

/// Answers 400, after reading the request: closing a socket with unread input resets the connection before the client has read
/// the response.
async fn reject_plain_http(mut http: Builder, stream: TcpStream) -> io::Result<()> {
    const MAX_DISCARDED: usize = 4 << 20;
    const DISCARD_TIMEOUT: Duration = Duration::from_secs(1);
    let reject = service_fn(async |request: Request<Incoming>| {
        let mut body = Limited::new(request.into_body(), MAX_DISCARDED);
        let discard = async { while let Some(Ok(_)) = body.frame().await {} };
        let _ = timeout(DISCARD_TIMEOUT, discard).await;
        Ok::<_, Infallible>(Problem::bad_request("this port serves TLS; use https://").into_response())
    });
    let served = http.keep_alive(false).serve_connection(TokioIo::new(stream), reject).await;
    served.map_err(io::Error::other)
}

/// Reports that a request body was received, or is no longer read.
struct RequestReceived(Arc<ActiveRequest>);

impl Drop for RequestReceived {
    fn drop(&mut self) {
        self.0.start_handler();
    }
}

/// A body that holds `value` until it was sent or received, or is dropped.
fn hold_until_sent<B: http_body::Body>(
    body: B,
    value: impl Send + 'static,
) -> MapErr<B, impl FnMut(B::Error) -> B::Error> {
    body.map_err(move |error| {
        let _held = &value;
        error
    })
}

#[cfg(test)]
mod tests {
    use super::is_valid_host;

    #[test]
    fn host_is_a_name_or_an_address_with_an_optional_port() {
        for host in ["x", "10.0.0.1:9090", "[::1]", "[::1]:9090", "exporter.drift.svc:80", "a:", "a_b"] {
            assert!(is_valid_host(host), "{host}");
        }
        for host in
            ["", ":80", "a:x", "a:+1", "a:70000", "[::1]evil", "[::1]:x", "[evil]", "u@a", "a b", "a/b"]
        {
            assert!(!is_valid_host(host), "{host}");
        }
    }
}
