//! The HTTP server: it bounds what a careless or hostile client can hold.

use std::{sync::Arc, time::Duration};

use axum::Router;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{
    net::TcpListener,
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

/// How much one client may ask for.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// Connections at a time; more wait in the kernel's queue.
    pub connections: usize,
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
            headers: Duration::from_secs(5),
            write: Duration::from_secs(30),
            drain: Duration::from_secs(5),
        }
    }
}

/// Serves until `stop`, then lets running requests finish.
pub async fn serve(listener: TcpListener, app: Router, limits: ServerLimits, stop: CancellationToken) {
    let slots = Arc::new(Semaphore::new(limits.connections));
    let graceful = GracefulShutdown::new();
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.headers).max_buf_size(128 << 10);
    // Waiting for a slot is part of what `stop` interrupts: a full server must be able to stop.
    let next = async || {
        let slot = slots.clone().acquire_owned().await;
        (slot, listener.accept().await)
    };
    loop {
        let (slot, tcp) = tokio::select! {
            (slot, accepted) = next() => match accepted {
                Ok((tcp, _)) => (slot, tcp),
                Err(error) => {
                    warn!(%error, "Cannot accept a connection.");
                    sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            () = stop.cancelled() => break,
        };
        let _ = tcp.set_nodelay(true);
        let mut stream = TimeoutStream::new(tcp);
        stream.set_write_timeout(Some(limits.write));
        let service = TowerToHyperService::new(app.clone());
        let connection = graceful.watch(http.serve_connection(TokioIo::new(Box::pin(stream)), service));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                debug!(%error, "A connection ended with an error.");
            }
            drop(slot);
        });
    }
    drop(listener);
    if timeout(limits.drain, graceful.shutdown()).await.is_err() {
        warn!("Some requests were still running after {:?} and are cut off.", limits.drain);
    }
}
