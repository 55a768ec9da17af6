//! The route table: each path with its protection and its handlers.

use std::sync::Arc;

use axum::{
    Router,
    extract::MatchedPath,
    middleware::{from_fn, from_fn_with_state},
    routing::{MethodRouter, get},
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{health, wait_for_large_response};
use crate::{
    config::{ReloadStatus, RuntimeConfig, Settings},
    engine::SnapshotReader,
    server::{Auth, BlockingPool, EventStreamLimit, LogLines, MetricsPage, api, auth::guard, metrics, ui},
    types::{Clock, RedactionKey},
};

#[derive(Debug)]
pub struct Exposed {
    pub state: SnapshotReader,
    pub metrics: MetricsPage,
    pub blocking: BlockingPool,
    pub config: watch::Receiver<Arc<RuntimeConfig>>,
    pub reload_status: watch::Receiver<Arc<ReloadStatus>>,
    pub log: LogLines,
    /// Redacts values in responses.
    pub redaction_key: RedactionKey,
    pub clock: Clock,
    /// Clients of `/v1/events`.
    pub listeners: EventStreamLimit,
    pub auth: Auth,
    /// Cancelled on shutdown.
    pub stop: CancellationToken,
}

impl Exposed {
    pub fn settings(&self) -> Arc<Settings> {
        self.config.borrow().settings.clone()
    }

    /// Problems in the rules of teams.
    pub fn team_problems(&self) -> Arc<[String]> {
        self.config.borrow().team_problems.clone()
    }
}

/// Which clients a route serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// All clients, without authentication.
    Open,
    /// All clients get a short answer; authenticated ones get the details that they may see.
    Brief,
    /// Authenticated clients, or all if authentication is off. They get what they may see.
    Guarded,
    /// As `Guarded`, but a client that may request the path gets everything: the answer is not divided by namespace.
    Whole,
}

impl Protection {
    /// The protection of the matched route; unknown paths are guarded.
    pub(in crate::server) fn of(extensions: &http::Extensions) -> Self {
        let path = extensions.get::<MatchedPath>().map(MatchedPath::as_str);
        let route = ROUTES.iter().find(|route| path == Some(route.path));
        route.map_or(Self::Guarded, |route| route.protection)
    }
}

#[derive(Debug)]
pub struct Route {
    /// With parameters in braces.
    pub path: &'static str,
    pub protection: Protection,
    /// Its response grows with the number of objects, and is not shared by requests.
    is_large: bool,
    methods: fn() -> MethodRouter<Arc<Exposed>>,
}

impl Route {
    const fn new(
        path: &'static str,
        protection: Protection,
        methods: fn() -> MethodRouter<Arc<Exposed>>,
    ) -> Self {
        Self { path, protection, is_large: false, methods }
    }

    const fn large(self) -> Self {
        Self { is_large: true, ..self }
    }

    fn methods(&self) -> MethodRouter<Arc<Exposed>> {
        let methods = (self.methods)();
        if self.is_large { methods.layer(from_fn(wait_for_large_response)) } else { methods }
    }
}

pub const ROUTES: &[Route] = &[
    Route::new("/livez", Protection::Open, || get(health::livez)),
    Route::new("/readyz", Protection::Brief, || get(health::readyz)),
    Route::new("/healthz", Protection::Guarded, || get(health::livez)),
    Route::new("/metrics", Protection::Whole, || get(metrics::metrics)),
    Route::new("/", Protection::Guarded, || get(ui::overview)).large(),
    Route::new("/objects/{kind}/{namespace}/{name}", Protection::Guarded, || get(ui::object)).large(),
    Route::new("/sources", Protection::Guarded, || get(ui::sources)).large(),
    Route::new("/rules", Protection::Whole, || get(ui::rules)).large(),
    Route::new("/log", Protection::Whole, || get(ui::log)),
    Route::new("/assets/{name}", Protection::Guarded, || get(ui::asset)),
    Route::new("/v1/resources", Protection::Guarded, || get(api::resources).post(api::post_resources))
        .large(),
    Route::new("/v1/resources/{kind}/{namespace}/{name}", Protection::Guarded, || get(api::object)).large(),
    Route::new("/v1/history", Protection::Guarded, || get(api::history)).large(),
    Route::new("/v1/events", Protection::Guarded, || get(api::events)),
    Route::new("/v1/rules", Protection::Whole, || get(api::rules)).large(),
    Route::new("/v1/gate", Protection::Guarded, || get(api::gate)).large(),
    Route::new("/v1/status", Protection::Whole, || get(api::status)).large(),
    Route::new("/openapi.json", Protection::Guarded, || get(api::openapi)),
];

/// The router of [`ROUTES`], behind the guard.
pub fn router(exposed: Arc<Exposed>) -> Router {
    ROUTES
        .iter()
        .fold(Router::new(), |router, route| router.route(route.path, route.methods()))
        .fallback(ui::not_found)
        .method_not_allowed_fallback(api::method_not_allowed)
        .layer(from_fn_with_state(exposed.clone(), guard))
        .with_state(exposed)
}

/// The router of the health listener: probes only, and nothing to authenticate for.
pub fn health_router(exposed: Arc<Exposed>) -> Router {
    Router::new()
        .route("/livez", get(health::livez))
        .route("/readyz", get(health::brief_readyz))
        .with_state(exposed)
}
