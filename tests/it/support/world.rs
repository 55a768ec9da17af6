//! An exporter on a fake API server, over HTTP. With paused time, the clock advances only while all tasks wait.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use axum::{Router, body::Body};
use drift_exporter::{
    app::{Exporter, ExporterDeps, SettingsHandle, assemble, telemetry::LogHandle},
    config::Settings,
    engine::{History, Snapshot},
    rules::RuleSet,
    server::{Auth, Exposed, Peer, router},
    types::{Clock, RedactionKey},
    watch::WatcherConfig,
};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use kube::Client;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::api_server::ApiServer;
use crate::programs::wait::PATIENCE;

/// Noon of February 1st, 2026: the time at which every test starts.
pub(crate) const BEGIN: i64 = 1_769_947_200;

pub(crate) struct ExporterFixture {
    pub(crate) api: ApiServer,
    pub(crate) exposed: Arc<Exposed>,
    pub(crate) settings: SettingsHandle,
    router: Router,
    stop: CancellationToken,
}

pub(crate) struct HttpResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl HttpResponse {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

impl ExporterFixture {
    pub(crate) fn start(api: &ApiServer) -> Self {
        Self::start_with(api, Settings::default())
    }

    pub(crate) fn start_with(api: &ApiServer, settings: Settings) -> Self {
        Self::start_with_client(api, api.client(), settings)
    }

    /// Starts an exporter with settings and waits until all its watches are synced.
    pub(crate) async fn ready_with(api: &ApiServer, settings: Settings) -> Self {
        let exporter = Self::start_with(api, settings);
        exporter
            .until("all watches are synced", Duration::from_secs(7), |exporter| {
                let snapshot = exporter.snapshot();
                snapshot.watches().count() > 0 && snapshot.watches().all(|stream| stream.synced)
            })
            .await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        exporter
    }

    pub(crate) fn start_with_client(api: &ApiServer, client: Client, settings: Settings) -> Self {
        Self::start_with_auth(api, client, settings, Auth::default())
    }

    pub(crate) fn start_with_auth(api: &ApiServer, client: Client, settings: Settings, auth: Auth) -> Self {
        Self::start_with_history(api, client, settings, auth, History::default())
    }

    pub(crate) fn start_with_history(
        api: &ApiServer,
        client: Client,
        settings: Settings,
        auth: Auth,
        history: History,
    ) -> Self {
        let (begin, started) = (Timestamp::from_second(BEGIN).unwrap(), Instant::now());
        let stop = CancellationToken::new();
        let deps = ExporterDeps {
            settings_source: None,
            log: LogHandle::default(),
            client,
            settings,
            redaction_key: RedactionKey::new([7; 32]),
            clock: Clock::new(move || begin + started.elapsed()),
            timing: WatcherConfig::default(),
            events: false,
            history_file: None::<PathBuf>,
            auth,
            stop: stop.clone(),
        };
        let Exporter { ingest, exposed, settings, .. } = assemble(&deps, history);
        tokio::spawn(ingest.run());
        Self { api: api.clone(), router: router(exposed.clone()), exposed, settings, stop }
    }

    /// Replaces the rules of the settings.
    pub(crate) async fn rules(&self, rules: RuleSet) {
        let settings = Settings { rules: Arc::new(rules), ..Settings::clone(&self.settings.current()) };
        self.settings.replace(settings);
        self.wait_idle().await;
    }

    /// Starts an exporter and waits until all its watches are synced.
    pub(crate) async fn ready(api: &ApiServer) -> Self {
        let exporter = Self::start(api);
        exporter
            .eventually("all watches are synced", |exporter| {
                let snapshot = exporter.snapshot();
                snapshot.watches().count() > 0 && snapshot.watches().all(|stream| stream.synced)
            })
            .await;
        // The watches open shortly after the lists.
        tokio::time::sleep(Duration::from_millis(10)).await;
        exporter
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.exposed.state.snapshot()
    }

    /// The resource version of each cached object of a plural, by name.
    pub(crate) fn cached_versions(&self, plural: &str) -> BTreeMap<String, String> {
        let snapshot = self.snapshot();
        let kind = snapshot.kinds.iter().find(|state| &*state.kind.plural == plural).unwrap();
        let entries = kind.blocks.entries();
        entries
            .map(|entry| (entry.object.key.name.to_string(), entry.object.resource_version.to_string()))
            .collect()
    }

    /// Waits until a condition is true.
    #[track_caller]
    pub(crate) fn eventually<'a>(
        &'a self,
        what: &'a str,
        condition: impl Fn(&Self) -> bool + 'a,
    ) -> impl Future<Output = Duration> + 'a {
        self.until(what, PATIENCE, condition)
    }

    /// Waits until a condition is true, for at most `time_limit`; returns how long it took. Only for tests with paused time.
    #[track_caller]
    pub(crate) fn until<'a>(
        &'a self,
        what: &'a str,
        time_limit: Duration,
        condition: impl Fn(&Self) -> bool + 'a,
    ) -> impl Future<Output = Duration> + 'a {
        let caller = std::panic::Location::caller();
        let started = Instant::now();
        async move {
            while !condition(self) {
                assert!(started.elapsed() < time_limit, "not within {time_limit:?}: {what} ({caller})");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            started.elapsed()
        }
    }

    /// Waits until the exporter has processed all pending events.
    pub(crate) async fn wait_idle(&self) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    pub(crate) async fn get(&self, path: &str) -> HttpResponse {
        self.send(Request::get(path).body(Body::empty()).unwrap()).await
    }

    /// Sends a request from a loopback address, unless the request has a peer.
    pub(crate) async fn send(&self, mut request: Request<Body>) -> HttpResponse {
        let peer = Peer { address: ([127, 0, 0, 1], 9).into(), certified: false };
        request.extensions_mut().get_or_insert(peer);
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        HttpResponse { status: parts.status, headers: parts.headers, body }
    }

    pub(crate) async fn metrics(&self) -> String {
        self.get("/metrics").await.text()
    }

    /// The value of the only sample whose line starts with `line`.
    pub(crate) async fn sample(&self, line: &str) -> Option<f64> {
        let page = self.metrics().await;
        let mut found = page.lines().filter(|sample_line| sample_line.starts_with(line));
        let value = found.next()?.rsplit(' ').next().unwrap().parse().unwrap();
        assert!(found.next().is_none(), "more than one line starts with {line}");
        Some(value)
    }
}

impl Drop for ExporterFixture {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
