//! An exporter inside the test process, whose settings can change while it runs.

use std::sync::Arc;

use axum::body::Body;
use drift_exporter::{
    app::{Exporter, ExporterDeps, SettingsHandle, assemble, telemetry::LogHandle},
    config::Settings,
    engine::History,
    server::{Auth, Exposed, Peer, router},
    types::{Clock, RedactionKey},
    watch::{ClusterConnection, WatcherConfig, client_from},
};
use http_body_util::BodyExt as _;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::{
    cluster::{Cluster, User},
    page,
    wait::eventually,
};

/// An exporter on a real cluster, with the permissions of the exporter's user.
pub struct InProcessExporter<'a> {
    pub settings: SettingsHandle,
    cluster: &'a Cluster,
    exposed: Arc<Exposed>,
    stop: CancellationToken,
}

impl<'a> InProcessExporter<'a> {
    pub fn start(cluster: &'a Cluster, settings: Settings) -> Self {
        let stop = CancellationToken::new();
        let connection =
            ClusterConnection { kubeconfig: Some(cluster.kubeconfig(User::Exporter)), context: None };
        let client = cluster.block_on(client_from(&connection)).expect("the kubeconfig is good");
        let parts = ExporterDeps {
            settings_source: None,
            log: LogHandle::default(),
            client,
            settings,
            redaction_key: RedactionKey::new([7; 32]),
            clock: Clock::system(),
            timing: WatcherConfig::default(),
            events: false,
            history_file: None,
            auth: Auth::default(),
            stop: stop.clone(),
        };
        let Exporter { ingest, exposed, settings, .. } = assemble(&parts, History::default());
        cluster.block_on(async { drop(tokio::spawn(ingest.run())) });
        Self { settings, cluster, exposed, stop }
    }

    /// Gets a path: status and text.
    pub fn get(&self, path: &str) -> (u16, String) {
        let here = Peer { address: ([127, 0, 0, 1], 9).into(), certified: false };
        let request = http::Request::get(path).extension(here).body(Body::empty()).expect("a request");
        self.cluster.block_on(async {
            let response = router(self.exposed.clone()).oneshot(request).await.expect("an answer");
            let status = response.status().as_u16();
            let body = response.into_body().collect().await.expect("a body").to_bytes();
            (status, String::from_utf8(body.to_vec()).expect("text"))
        })
    }

    /// The value of the only sample with these labels.
    pub fn sample(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        page::sample(&self.get("/metrics").1, name, labels)
    }

    /// Waits until a sample has a value, or is absent.
    #[track_caller]
    pub fn wait_for(&self, name: &str, labels: &[(&str, &str)], value: Option<f64>) {
        let what = format!("{name}{labels:?} is {value:?}");
        eventually(&what, || (self.sample(name, labels) == value).then_some(()));
    }
}

impl Drop for InProcessExporter<'_> {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
