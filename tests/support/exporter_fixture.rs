//! Exporters in the test process: on a fake API server, and on a real cluster.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{Router, body::Body};
use drift_exporter::{
    app::{Exporter, ExporterDeps, SettingsHandle, assemble, telemetry::LogHandle},
    config::Settings,
    engine::{History, Snapshot, snapshot_channel},
    rules::RuleSet,
    server::{Auth, BlockingPool, Exposed, Peer, router},
    types::{Clock, RedactionKey},
    watch::{ClusterConnection, WatcherConfig, client_from},
};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use kube::Client;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::{
    api_server::ApiServer,
    cluster::{Cluster, User},
    http_client,
    wait::{PATIENCE, eventually},
};

/// Noon of February 1st, 2026: the time at which every test starts.
pub const BEGIN: i64 = 1_769_947_200;

/// An exporter on a fake API server. With paused time, the clock advances only while all tasks wait.
pub struct ExporterFixture {
    pub api: ApiServer,
    pub exposed: Arc<Exposed>,
    pub settings: SettingsHandle,
    router: Router,
    stop: CancellationToken,
}

pub struct HttpResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl HttpResponse {
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

impl ExporterFixture {
    pub fn start(api: &ApiServer) -> Self {
        Self::start_with(api, Settings::default())
    }

    pub fn start_with(api: &ApiServer, settings: Settings) -> Self {
        Self::start_with_client(api, api.client(), settings)
    }

    /// Starts an exporter with settings and waits until all its watches are synced.
    pub async fn ready_with(api: &ApiServer, settings: Settings) -> Self {
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

    pub fn start_with_client(api: &ApiServer, client: Client, settings: Settings) -> Self {
        Self::start_with_auth(api, client, settings, Auth::default())
    }

    pub fn start_with_auth(api: &ApiServer, client: Client, settings: Settings, auth: Auth) -> Self {
        Self::start_with_history(api, client, settings, auth, History::default())
    }

    pub fn start_with_history(
        api: &ApiServer,
        client: Client,
        settings: Settings,
        auth: Auth,
        history: History,
    ) -> Self {
        let (begin, started) = (Timestamp::from_second(BEGIN).unwrap(), Instant::now());
        let clock = Clock::new(move || begin + started.elapsed());
        let InProcess { exposed, settings, stop } = InProcess::start(client, settings, clock, auth, history);
        Self { api: api.clone(), router: router(exposed.clone()), exposed, settings, stop }
    }

    /// Replaces the pool that runs the work of requests.
    #[must_use]
    pub fn with_pool(self, pool: BlockingPool) -> Self {
        self.with_exposed(|exposed| exposed.blocking = pool)
    }

    /// Serves this snapshot in place of those of the engine.
    #[must_use]
    pub fn with_snapshot(self, snapshot: Snapshot) -> Self {
        self.with_exposed(|exposed| exposed.state = snapshot_channel(snapshot).1)
    }

    fn with_exposed(mut self, change: impl FnOnce(&mut Exposed)) -> Self {
        self.router = Router::new();
        change(Arc::get_mut(&mut self.exposed).expect("only the router shares it"));
        self.router = router(self.exposed.clone());
        self
    }

    /// Replaces the rules of the settings.
    pub async fn rules(&self, rules: RuleSet) {
        let settings = Settings { rules: Arc::new(rules), ..Settings::clone(&self.settings.current()) };
        self.settings.replace(settings);
        self.wait_idle().await;
    }

    /// Starts an exporter and waits until all its watches are synced.
    pub async fn ready(api: &ApiServer) -> Self {
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

    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.exposed.state.snapshot()
    }

    /// The resource version of each cached object of a plural, by name.
    pub fn cached_versions(&self, plural: &str) -> BTreeMap<String, String> {
        let snapshot = self.snapshot();
        let kind = snapshot.kinds.iter().find(|state| &*state.kind.plural == plural).unwrap();
        let entries = kind.blocks.entries();
        entries
            .filter_map(|entry| entry.object.live())
            .map(|object| (object.key.name.to_string(), object.resource_version.to_string()))
            .collect()
    }

    /// Waits until a condition is true.
    #[track_caller]
    pub fn eventually<'a>(
        &'a self,
        what: &'a str,
        condition: impl Fn(&Self) -> bool + 'a,
    ) -> impl Future<Output = Duration> + 'a {
        self.until(what, PATIENCE, condition)
    }

    /// Waits until a condition is true, for at most `time_limit`; returns how long it took. Only for tests with paused time.
    #[track_caller]
    pub fn until<'a>(
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
    pub async fn wait_idle(&self) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    pub async fn get(&self, path: &str) -> HttpResponse {
        self.send(Request::get(path).body(Body::empty()).unwrap()).await
    }

    /// Sends a request from a loopback address, unless the request has a peer.
    pub async fn send(&self, request: Request<Body>) -> HttpResponse {
        send(&self.router, request).await
    }

    pub async fn metrics(&self) -> String {
        self.get("/metrics").await.text()
    }

    /// The value of the only sample whose line starts with `line`.
    pub async fn sample(&self, line: &str) -> Option<f64> {
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

/// A running exporter without a server.
struct InProcess {
    exposed: Arc<Exposed>,
    settings: SettingsHandle,
    stop: CancellationToken,
}

impl InProcess {
    fn start(client: Client, settings: Settings, clock: Clock, auth: Auth, history: History) -> Self {
        let stop = CancellationToken::new();
        let deps = ExporterDeps {
            settings_source: None,
            log: LogHandle::default(),
            client,
            settings,
            redaction_key: RedactionKey::of_process([7; 32]),
            clock,
            timing: WatcherConfig::default(),
            events: false,
            history_file: None,
            auth,
            stop: stop.clone(),
        };
        let Exporter { ingest, exposed, settings, .. } = assemble(&deps, history);
        tokio::spawn(ingest.run());
        Self { exposed, settings, stop }
    }
}

async fn send(router: &Router, mut request: Request<Body>) -> HttpResponse {
    let peer = Peer { address: ([127, 0, 0, 1], 9).into(), certified: false };
    request.extensions_mut().get_or_insert(peer);
    let response = router.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes().to_vec();
    HttpResponse { status: parts.status, headers: parts.headers, body }
}

/// An exporter on a real cluster, with the permissions of the exporter's user. Its settings can change while it runs.
pub struct ClusterExporter<'a> {
    pub settings: SettingsHandle,
    cluster: &'a Cluster,
    router: Router,
    stop: CancellationToken,
}

impl<'a> ClusterExporter<'a> {
    pub fn start(cluster: &'a Cluster, settings: Settings) -> Self {
        let connection =
            ClusterConnection { kubeconfig: Some(cluster.kubeconfig(User::Exporter)), context: None };
        let InProcess { exposed, settings, stop } = cluster.block_on(async {
            let client = client_from(&connection).await.expect("the kubeconfig is valid");
            InProcess::start(client, settings, Clock::system(), Auth::default(), History::default())
        });
        Self { settings, cluster, router: router(exposed), stop }
    }

    pub fn get(&self, path: &str) -> HttpResponse {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        self.cluster.block_on(send(&self.router, request))
    }

    /// The value of the only sample with these labels.
    pub fn sample(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        http_client::sample(&self.get("/metrics").text(), name, labels)
    }

    /// Waits until a sample has a value, or is absent.
    #[track_caller]
    pub fn wait_for(&self, name: &str, labels: &[(&str, &str)], value: Option<f64>) {
        let what = format!("{name}{labels:?} is {value:?}");
        eventually(&what, || (self.sample(name, labels) == value).then_some(()));
    }
}

impl Drop for ClusterExporter<'_> {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
