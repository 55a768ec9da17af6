//! Which path goes where.

use std::sync::Arc;

use axum::{Router, routing::get};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Listeners, MetricsPage, api, health, metrics, ui};
use crate::{
    model::{Clock, SealKey},
    settings::{ReloadStatus, Settings},
    state::StateReader,
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
    /// The key of digests of values that are not shown.
    pub seal_key: SealKey,
    /// The time.
    pub clock: Clock,
    /// Who may listen to `/v1/events` at a time.
    pub listeners: Listeners,
    /// Set when we are stopping.
    pub stop: CancellationToken,
}

impl Exposed {
    /// What we were told to do, as of now.
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.borrow().clone()
    }
}

/// All routes.
pub fn router(exposed: Arc<Exposed>) -> Router {
    Router::new()
        .route("/", get(ui::overview))
        .route("/objects/{kind}/{namespace}/{name}", get(ui::object))
        .route("/assets/{name}", get(ui::asset))
        .route("/metrics", get(metrics::metrics))
        .route("/livez", get(health::livez))
        .route("/healthz", get(health::livez))
        .route("/readyz", get(health::readyz))
        .route("/v1/resources", get(api::resources))
        .route("/v1/resources/{kind}/{namespace}/{name}", get(api::object))
        .route("/v1/history", get(api::history))
        .route("/v1/events", get(api::events))
        .route("/v1/rules", get(api::rules))
        .route("/v1/status", get(api::status))
        .fallback(ui::not_found)
        .method_not_allowed_fallback(api::method_not_allowed)
        .with_state(exposed)
}
