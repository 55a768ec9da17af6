//! An exporter on an API server in this process, in time that only passes when everybody waits.

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

/// Noon of February 1st, 2026: when every test begins.
pub(crate) const BEGIN: i64 = 1_769_947_200;

pub(crate) struct World {
    pub(crate) api: ApiServer,
    pub(crate) exposed: Arc<Exposed>,
    pub(crate) settings: SettingsHandle,
    router: Router,
    stop: CancellationToken,
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

impl World {
    /// Starts an exporter on a server that was prepared before.
    pub(crate) fn start(api: &ApiServer) -> Self {
        Self::with(api, Settings::default())
    }

    pub(crate) fn with(api: &ApiServer, settings: Settings) -> Self {
        Self::with_client(api, api.client(), settings)
    }

    /// The same once it has listed everything.
    pub(crate) async fn listed(api: &ApiServer, settings: Settings) -> Self {
        let world = Self::with(api, settings);
        world
            .until("all is listed", Duration::from_secs(7), |world| {
                let snapshot = world.snapshot();
                snapshot.watches().count() > 0 && snapshot.watches().all(|stream| stream.synced)
            })
            .await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        world
    }

    /// The same with a client that asks others as well.
    pub(crate) fn with_client(api: &ApiServer, client: Client, settings: Settings) -> Self {
        Self::with_access(api, client, settings, Auth::default())
    }

    /// The same where not everybody may ask for everything.
    pub(crate) fn with_access(api: &ApiServer, client: Client, settings: Settings, auth: Auth) -> Self {
        Self::with_history(api, client, settings, auth, History::default())
    }

    /// The same where something has happened before.
    pub(crate) fn with_history(
        api: &ApiServer,
        client: Client,
        settings: Settings,
        auth: Auth,
        history: History,
    ) -> Self {
        let (begin, started) = (Timestamp::from_second(BEGIN).unwrap(), Instant::now());
        let stop = CancellationToken::new();
        let parts = ExporterDeps {
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
        let Exporter { ingest, exposed, settings, .. } = assemble(&parts, history);
        tokio::spawn(ingest.run());
        Self { api: api.clone(), router: router(exposed.clone()), exposed, settings, stop }
    }

    /// Makes these rules hold, beside the built-in ones.
    pub(crate) async fn rules(&self, rules: RuleSet) {
        let settings = Settings { rules: Arc::new(rules), ..Settings::clone(&self.settings.current()) };
        self.settings.replace(settings);
        self.settle().await;
    }

    /// Starts an exporter and waits until it is ready.
    pub(crate) async fn ready(api: &ApiServer) -> Self {
        let world = Self::start(api);
        world
            .eventually("it is ready", |world| {
                let snapshot = world.snapshot();
                snapshot.watches().count() > 0 && snapshot.watches().all(|stream| stream.synced)
            })
            .await;
        // The watches open a moment after the lists.
        tokio::time::sleep(Duration::from_millis(10)).await;
        world
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.exposed.state.snapshot()
    }

    /// The names of a plural's known objects, and their versions.
    pub(crate) fn known(&self, plural: &str) -> BTreeMap<String, String> {
        let snapshot = self.snapshot();
        let kind = snapshot.kinds.iter().find(|state| &*state.kind.plural == plural).unwrap();
        let entries = kind.blocks.entries();
        entries
            .map(|entry| (entry.object.key.name.to_string(), entry.object.resource_version.to_string()))
            .collect()
    }

    /// Waits for something to become true.
    #[track_caller]
    pub(crate) fn eventually<'a>(
        &'a self,
        what: &'a str,
        is: impl Fn(&Self) -> bool + 'a,
    ) -> impl Future<Output = Duration> + 'a {
        self.until(what, PATIENCE, is)
    }

    /// Waits for something to become true within a time that counts: in a test whose time is paused. How long it took.
    #[track_caller]
    pub(crate) fn until<'a>(
        &'a self,
        what: &'a str,
        patience: Duration,
        is: impl Fn(&Self) -> bool + 'a,
    ) -> impl Future<Output = Duration> + 'a {
        let caller = std::panic::Location::caller();
        let begun = Instant::now();
        async move {
            while !is(self) {
                assert!(begun.elapsed() < patience, "not within {patience:?}: {what} ({caller})");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            begun.elapsed()
        }
    }

    /// Lets everything that is under way come to rest.
    pub(crate) async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(Request::get(path).body(Body::empty()).unwrap()).await
    }

    /// Asks from this machine, unless the request comes from elsewhere.
    pub(crate) async fn ask(&self, mut request: Request<Body>) -> Answer {
        let here = Peer { address: ([127, 0, 0, 1], 9).into(), certified: false };
        request.extensions_mut().get_or_insert(here);
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    /// The plain text page.
    pub(crate) async fn metrics(&self) -> String {
        self.get("/metrics").await.text()
    }

    /// The value of the one sample whose line begins so.
    pub(crate) async fn sample(&self, line: &str) -> Option<f64> {
        let page = self.metrics().await;
        let mut found = page.lines().filter(|own| own.starts_with(line));
        let value = found.next()?.rsplit(' ').next().unwrap().parse().unwrap();
        assert!(found.next().is_none(), "more than one line begins with {line}");
        Some(value)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
