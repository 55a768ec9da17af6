//! Keeps the plan up to date: when people want something else, and when the cluster has other kinds.

use std::{sync::Arc, time::Duration};

use kube::Client;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tracing::{info, warn};

use super::{
    Timing,
    discovery::Discoverer,
    fault::Fault,
    plan::plan,
    resolve::{Discovery, needs_discovery},
};
use crate::types::{Kind, Plan, WantedKind, WatchHealth};

/// How often the API server is asked which kinds it has.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(5);

/// Makes plans. Asks the API server for its kinds only while something is wanted that is not known without asking.
pub struct Planner {
    client: Client,
    timing: Timing,
    plans: watch::Sender<Arc<Plan>>,
    discoverer: Discoverer,
    discovery: Discovery,
    /// Whether the last answer was a fault, so that it is logged once.
    failing: bool,
}

impl std::fmt::Debug for Planner {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Planner").field("discovery", &self.discovery).finish_non_exhaustive()
    }
}

impl Planner {
    /// A planner, and its plans; the first one is made from what is known without asking.
    pub fn new(client: Client, timing: Timing, wanted: &[WantedKind]) -> (Self, watch::Receiver<Arc<Plan>>) {
        let discovery = Discovery::default();
        let (plans, receiver) = watch::channel(Arc::new(plan(wanted, &discovery)));
        let discoverer = Discoverer::new();
        (Self { client, timing, plans, discoverer, discovery, failing: false }, receiver)
    }

    /// Plans whenever `settings`, of which `wanted` tells the kinds, or the kinds of the cluster change.
    pub async fn run<S>(
        mut self,
        mut settings: watch::Receiver<Arc<S>>,
        wanted: impl Fn(&S) -> Vec<WantedKind>,
    ) {
        let mut next_question = Instant::now();
        loop {
            let wanted = wanted(&settings.borrow_and_update().clone());
            self.publish(plan(&wanted, &self.discovery), &wanted);
            let asks = wanted.iter().any(needs_discovery);
            let question = async {
                sleep_until(next_question).await;
                self.discover().await;
            };
            tokio::select! {
                () = change_of(&mut settings) => {}
                () = question, if asks => next_question = Instant::now() + DISCOVERY_INTERVAL,
            }
        }
    }

    async fn discover(&mut self) {
        match self.discoverer.ask(&self.client, self.timing.silence).await {
            Ok(news) => {
                if let Some(served) = news {
                    self.discovery = Discovery::Answered(served);
                }
                self.failing = false;
            }
            Err(fault) => {
                if !std::mem::replace(&mut self.failing, true) {
                    warn!(%fault, "Cannot ask the API server for its kinds; what it last said stands.");
                }
                if self.discovery.served().is_none() {
                    self.discovery = Discovery::Failed(down(&fault));
                }
            }
        }
    }

    fn publish(&self, plan: Plan, wanted: &[WantedKind]) {
        let before = self.plans.borrow().clone();
        if *before == plan {
            return;
        }
        for missing in plan.unwatched.iter().filter(|own| !before.unwatched.contains(own)) {
            if let WatchHealth::Down { message, .. } = &missing.health {
                warn!(kind = %missing.spec.kind, %message, "Wanted, and not watched.");
            }
        }
        let comes_in = |version: &str, kind: &Kind| {
            plan.streams.iter().any(|own| own.kind.is_same_type(kind) && *own.kind.version == *version)
        };
        for spec in plan.streams.iter().filter(|spec| !before.streams.contains(spec)) {
            let other = |want: &&WantedKind| {
                let version = want.version.as_ref().filter(|_| !want.by_the_way);
                want.means(&spec.kind) && version.is_some_and(|version| !comes_in(version, &spec.kind))
            };
            if let Some(want) = wanted.iter().find(other) {
                let version = &spec.kind.version;
                info!(stream = %spec, %version, "`{want}` is watched in another version.");
            }
        }
        self.plans.send_replace(Arc::new(plan));
    }
}

/// Waits for other settings; for ever, when nobody can change them any more.
async fn change_of<S>(settings: &mut watch::Receiver<Arc<S>>) {
    if settings.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn down(fault: &Fault) -> WatchHealth {
    let message = format!("cannot ask for the kinds of the cluster: {fault}");
    WatchHealth::Down { reason: fault.down_reason(), message: message.into() }
}
