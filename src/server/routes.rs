//! Which path goes where.

use std::sync::Arc;

use axum::{
    Router,
    extract::MatchedPath,
    middleware::from_fn_with_state,
    routing::{MethodRouter, get},
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Auth, Listeners, LogLines, MetricsPage, api, auth::guard, health, metrics, ui};
use crate::{
    config::{ReloadStatus, Settings},
    engine::StateReader,
    types::{Clock, RedactionKey},
};

/// Everything that the handlers read.
#[derive(Debug)]
pub struct Exposed {
    /// What is known.
    pub state: StateReader,
    /// The `/metrics` page.
    pub metrics: MetricsPage,
    /// What we were told to do, as of now.
    pub settings: watch::Receiver<Arc<Settings>>,
    /// How the last reading of the settings went.
    pub reload_status: watch::Receiver<Arc<ReloadStatus>>,
    /// What is wrong with the rules that teams wrote.
    pub team_problems: watch::Receiver<Arc<[String]>>,
    /// What was logged lately.
    pub log: LogLines,
    /// The key of digests of values that are not shown.
    pub seal_key: RedactionKey,
    /// The time.
    pub clock: Clock,
    /// Who may listen to `/v1/events` at a time.
    pub listeners: Listeners,
    /// Who may ask for what.
    pub auth: Auth,
    /// Set when we are stopping.
    pub stop: CancellationToken,
}

impl Exposed {
    /// What we were told to do, as of now.
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.borrow().clone()
    }
}

/// Whom a route answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Anybody, who is not asked who he is.
    Open,
    /// Anybody, in brief. Those whom the access settings let in are told more, of what they may see.
    Brief,
    /// Those whom the access settings let in; everybody where there are none. They are shown what they may see.
    Guarded,
    /// The same, but whoever may ask for the path is shown everything: it is not told by namespace.
    Whole,
}

impl Protection {
    /// That of the route that a request is for; of paths that there are not as well.
    pub(super) fn of(extensions: &http::Extensions) -> Self {
        let path = extensions.get::<MatchedPath>().map(MatchedPath::as_str);
        let route = ROUTES.iter().find(|route| path == Some(route.path));
        route.map_or(Self::Guarded, |route| route.protection)
    }
}

/// One path, whom it answers, and with what.
#[derive(Debug)]
pub struct Route {
    /// The path, with its parameters in braces.
    pub path: &'static str,
    /// Whom it answers.
    pub protection: Protection,
    methods: fn() -> MethodRouter<Arc<Exposed>>,
}

impl Route {
    const fn open(path: &'static str, methods: fn() -> MethodRouter<Arc<Exposed>>) -> Self {
        Self { path, protection: Protection::Open, methods }
    }

    const fn brief(path: &'static str, methods: fn() -> MethodRouter<Arc<Exposed>>) -> Self {
        Self { path, protection: Protection::Brief, methods }
    }

    const fn guarded(path: &'static str, methods: fn() -> MethodRouter<Arc<Exposed>>) -> Self {
        Self { path, protection: Protection::Guarded, methods }
    }

    const fn whole(path: &'static str, methods: fn() -> MethodRouter<Arc<Exposed>>) -> Self {
        Self { path, protection: Protection::Whole, methods }
    }
}

/// Every path that there is.
pub const ROUTES: &[Route] = &[
    Route::open("/livez", || get(health::livez)),
    Route::brief("/readyz", || get(health::readyz)),
    Route::guarded("/healthz", || get(health::livez)),
    Route::whole("/metrics", || get(metrics::metrics)),
    Route::guarded("/", || get(ui::overview)),
    Route::guarded("/objects/{kind}/{namespace}/{name}", || get(ui::object)),
    Route::guarded("/sources", || get(ui::sources)),
    Route::whole("/rules", || get(ui::rules)),
    Route::whole("/log", || get(ui::log)),
    Route::guarded("/assets/{name}", || get(ui::asset)),
    Route::guarded("/v1/resources", || get(api::resources).post(api::post_resources)),
    Route::guarded("/v1/resources/{kind}/{namespace}/{name}", || get(api::object)),
    Route::guarded("/v1/history", || get(api::history)),
    Route::guarded("/v1/events", || get(api::events)),
    Route::whole("/v1/rules", || get(api::rules)),
    Route::guarded("/v1/gate", || get(api::gate)),
    Route::whole("/v1/status", || get(api::status)),
    Route::guarded("/openapi.json", || get(api::openapi)),
];

/// All routes.
pub fn router(exposed: Arc<Exposed>) -> Router {
    ROUTES
        .iter()
        .fold(Router::new(), |router, route| router.route(route.path, (route.methods)()))
        .fallback(ui::not_found)
        .method_not_allowed_fallback(api::method_not_allowed)
        .layer(from_fn_with_state(exposed.clone(), guard))
        .with_state(exposed)
}
