//! The embedded API server, over HTTP.

use drift_exporter::{
    demo,
    server::{Auth, ServerLimits, serve},
    types::Clock,
};
use kube::{Client, Config};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::wait::PATIENCE;

/// An embedded API server that serves until it is dropped.
pub struct Embedded {
    pub cluster: demo::Cluster,
    pub port: u16,
    stop: CancellationToken,
}

impl Embedded {
    /// Starts an empty one on a free port.
    pub async fn start() -> Self {
        Self::serve(demo::Cluster::new(Clock::system())).await
    }

    /// Serves a cluster on a free port.
    pub async fn serve(cluster: demo::Cluster) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("a bound listener has an address").port();
        let stop = CancellationToken::new();
        let router = demo::router(cluster.clone(), stop.clone());
        // A test that does not read for a while stays connected, also on a slow machine.
        let limits = ServerLimits { connections: 2048, write: 10 * PATIENCE, ..ServerLimits::default() };
        tokio::spawn(serve(listener, router, limits, Auth::default(), stop.clone()));
        Self { cluster, port, stop }
    }

    /// A client of it.
    pub fn client(&self) -> Client {
        let url = format!("http://127.0.0.1:{}", self.port).parse().expect("an address");
        Client::try_from(Config::new(url)).expect("a client")
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
