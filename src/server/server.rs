//! The HTTP server: it bounds what a careless or hostile client can hold.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{Router, body::Body};
use bytes::Bytes;
use http::Request;
use http_body::{Body as _, Frame, SizeHint};
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
    time::{sleep, timeout},
};
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{
    Auth, Peer,
    connections::{Answering, Connections, Endless, Place},
    refused_heads::{LARGEST_HEAD, Worded, ask_for_encryption, is_in_the_clear},
};

/// How much one client may ask for.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// Connections at a time. More than that, and the one goes that was silent for longest, or reads for longest.
    pub connections: usize,
    /// Time for agreeing on encryption.
    pub handshake: Duration,
    /// Time for sending a request's headers; also how long an idle connection is kept.
    pub headers: Duration,
    /// Longest time in which a client takes nothing of a response.
    pub write: Duration,
    /// Time for finishing what is under way when stopping.
    pub drain: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: 512,
            handshake: Duration::from_secs(5),
            headers: Duration::from_secs(5),
            write: Duration::from_secs(30),
            drain: Duration::from_secs(5),
        }
    }
}

/// Connections that the system keeps until we accept them: so many may come at once and nobody is told to come again.
const BACKLOG: u32 = 4096;

/// Listens on an address.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves until `stop`, then lets running requests finish. Connections are encrypted as `access` says at their beginning.
pub async fn serve(
    listener: TcpListener,
    app: Router,
    limits: ServerLimits,
    auth: Auth,
    stop: CancellationToken,
) {
    let connections = Connections::new(limits.connections);
    let graceful = GracefulShutdown::new();
    let mut http = Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.headers).max_buf_size(LARGEST_HEAD);
    // Waiting for a place is part of what `stop` interrupts: a full server must be able to stop.
    let next = async || {
        let room = connections.room().await;
        let (tcp, address) = listener.accept().await?;
        Ok::<_, io::Error>((connections.enter(room).await, tcp, address))
    };
    loop {
        let (place, tcp, address) = tokio::select! {
            accepted = next() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    warn!(%error, "Cannot accept a connection.");
                    sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            () = stop.cancelled() => break,
        };
        let line =
            Line { http: http.clone(), app: app.clone(), limits, watcher: graceful.watcher(), address };
        let (auth, stop) = (auth.clone(), stop.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = line.talk(tcp, &auth, &place, &stop) => {}
                () = place.closed() => debug!(%address, "A silent or slow connection is closed for a new one."),
            }
        });
    }
    drop(listener);
    if timeout(limits.drain, graceful.shutdown()).await.is_err() {
        warn!("Some requests were still running after {:?} and are cut off.", limits.drain);
    }
}

/// What one connection is served with.
struct Line {
    http: Builder,
    app: Router,
    limits: ServerLimits,
    watcher: Watcher,
    address: SocketAddr,
}

impl Line {
    async fn talk(self, tcp: TcpStream, auth: &Auth, place: &Arc<Place>, stop: &CancellationToken) {
        let _ = tcp.set_nodelay(true);
        let (tls, address) = (auth.tls(), self.address);
        let bounded = |tcp| {
            let mut stream = TimeoutStream::new(tcp);
            stream.set_write_timeout(Some(self.limits.write));
            Box::pin(stream)
        };
        let Some((config, verified)) = tls else {
            let stream = bounded(tcp);
            return self.answer(stream, Peer { address, certified: false }, place).await;
        };
        let agreement = async {
            if is_in_the_clear(&tcp).await {
                return ask_for_encryption(tcp).await.map(|()| None);
            }
            TlsAcceptor::from(config).accept(bounded(tcp)).await.map(Some)
        };
        let agreed = tokio::select! {
            agreed = timeout(self.limits.handshake, agreement) => agreed,
            () = stop.cancelled() => return,
        };
        match agreed {
            Ok(Ok(None)) => debug!(%address, "A client does not ask for encryption."),
            Ok(Ok(Some(stream))) => {
                let certified = verified && stream.get_ref().1.peer_certificates().is_some();
                self.answer(stream, Peer { address, certified }, place).await;
            }
            Ok(Err(error)) => debug!(%address, %error, "A client and we do not agree on encryption."),
            Err(_) => debug!(%address, "A client takes too long to agree on encryption."),
        }
    }

    async fn answer<S>(self, stream: S, peer: Peer, place: &Arc<Place>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let app = TowerToHyperService::new(self.app);
        let service = service_fn(|mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer);
            let answering = Arc::new(place.ask());
            let answer = app.call(request.map(|body| Coming::new(body, answering.clone())));
            async move {
                let response = answer.await?;
                answering.send(response.extensions().get::<Endless>());
                Ok::<_, std::convert::Infallible>(
                    response.map(|body| Tracked { body, _answering: answering }),
                )
            }
        });
        let stream = TokioIo::new(Worded::new(stream));
        let connection = self.watcher.watch(self.http.serve_connection(stream, service));
        if let Err(error) = connection.await {
            debug!(address = %peer.address, %error, "A connection ended with an error.");
        }
    }
}

/// A body that tells when it has come, or nobody waits for it.
struct Coming {
    body: Incoming,
    /// None as soon as it was told.
    answering: Option<Arc<Answering>>,
}

impl Coming {
    fn new(body: Incoming, answering: Arc<Answering>) -> Self {
        let mut coming = Self { body, answering: Some(answering) };
        if coming.body.is_end_stream() {
            coming.tell();
        }
        coming
    }

    fn tell(&mut self) {
        if let Some(answering) = self.answering.take() {
            answering.begin();
        }
    }
}

impl http_body::Body for Coming {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        self.tell();
    }
}

/// A body that tells when it was sent, or is no longer wanted.
struct Tracked {
    body: Body,
    _answering: Arc<Answering>,
}

impl http_body::Body for Tracked {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
