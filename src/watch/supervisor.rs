//! Runs one watcher for each collection of the plan.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use kube::Client;
use tokio::{
    sync::{mpsc, watch},
    task::{AbortHandle, Id, JoinError, JoinSet},
    time::sleep,
};
use tracing::{error, info, warn};

use super::{
    ApiError, DecodeConfig, SchemaRequests, WatchMetrics, WatcherConfig,
    decode::{Decoded, ObjectDecoder},
    planner::PlannedWatches,
    shared_decoder::SharedDecoder,
    watcher::{Backoff, ReceiverClosed, Representation, WatchHandler, Watcher, WatcherEvent},
};
use crate::{
    event::Event,
    types::{DownReason, LiveObject, SyncHealth, Watch, WatchId, WatchPlan},
};

/// What all watchers share.
#[derive(Clone)]
pub(crate) struct WatchDeps {
    pub(crate) client: Client,
    pub(crate) events: mpsc::Sender<Event>,
    pub(crate) metrics: WatchMetrics,
    pub(crate) config: WatcherConfig,
    /// Receives the custom resources that need a schema.
    pub(crate) schemas: SchemaRequests,
}

/// Runs the watchers of the newest plan until the engine stops. A watcher that remains in the plan continues. If its
/// [`DecodeConfig`] changes, it relists while the watch stays open. A watcher that panics is reported as down and restarted; the
/// others continue.
pub(crate) async fn run_watchers(mut plans: watch::Receiver<PlannedWatches>, deps: WatchDeps) {
    let decode_config = plans.borrow().decode.clone();
    let mut supervisor = Supervisor { deps, decode_config, tasks: JoinSet::new(), watchers: HashMap::new() };
    loop {
        let PlannedWatches { plan, decode } = plans.borrow_and_update().clone();
        supervisor.decode_config = decode;
        if supervisor.apply_plan(&plan).await.is_err() || supervisor.supervise(&mut plans).await.is_err() {
            return;
        }
    }
}

struct Supervisor {
    deps: WatchDeps,
    /// The configuration of watchers that start now.
    decode_config: Arc<DecodeConfig>,
    tasks: JoinSet<()>,
    watchers: HashMap<Id, RunningWatcher>,
}

struct RunningWatcher {
    watch: Watch,
    decode_config: DecodeConfig,
    decoder: Arc<SharedDecoder>,
    /// Delays restarts after panics.
    backoff: Backoff,
    task: AbortHandle,
}

impl Supervisor {
    /// Stops watchers, sends the plan, then starts watchers. In this order the engine has the plan before the first event of
    /// a new watch.
    async fn apply_plan(&mut self, plan: &Arc<WatchPlan>) -> Result<(), ReceiverClosed> {
        let planned: HashSet<WatchId> = plan.watches.iter().map(|watch| watch.id).collect();
        let mut stopping = HashSet::new();
        for (id, watcher) in &self.watchers {
            if !planned.contains(&watcher.watch.id) {
                watcher.task.abort();
                stopping.insert(*id);
            }
        }
        while !stopping.is_empty() {
            let Some(result) = self.tasks.join_next_with_id().await else { break };
            let id = match &result {
                Ok((id, ())) => *id,
                Err(error) => error.id(),
            };
            if stopping.remove(&id) {
                self.remove_stopped(id, plan);
            } else {
                self.restart_panicked(result).await?;
            }
        }
        self.deps.schemas.request(plan, &self.decode_config).await;
        self.send(Event::WatchPlan(plan.clone())).await?;
        for RunningWatcher { watch, decode_config, decoder, .. } in self.watchers.values_mut() {
            let new_config = self.decode_config.for_kind(&watch.spec.kind);
            if *decode_config != new_config {
                decoder.replace(ObjectDecoder::new(watch.spec.clone(), &new_config));
                *decode_config = new_config;
            }
        }
        let running: HashSet<WatchId> = self.watchers.values().map(|watcher| watcher.watch.id).collect();
        for watch in plan.watches.iter().filter(|watch| !running.contains(&watch.id)) {
            let selector = watch.spec.selector.as_ref().map(ToString::to_string).unwrap_or_default();
            info!(watch = %watch.spec, selector, "Watching.");
            let backoff = Backoff::new(self.deps.config.initial_backoff, self.deps.config.max_backoff);
            self.start(watch.clone(), backoff, Duration::ZERO);
        }
        Ok(())
    }

    /// Restarts watchers that panic, until the plan changes.
    async fn supervise(&mut self, plans: &mut watch::Receiver<PlannedWatches>) -> Result<(), ReceiverClosed> {
        loop {
            tokio::select! {
                changed = plans.changed() => {
                    if changed.is_ok() {
                        return Ok(());
                    }
                    // The planner has stopped: the watchers run until the engine stops.
                    while let Some(result) = self.tasks.join_next_with_id().await {
                        self.restart_panicked(result).await?;
                    }
                    return Err(ReceiverClosed);
                }
                Some(result) = self.tasks.join_next_with_id() => self.restart_panicked(result).await?,
            }
        }
    }

    fn start(&mut self, watch: Watch, backoff: Backoff, delay: Duration) {
        let spec = &watch.spec;
        let decode_config = self.decode_config.for_kind(&spec.kind);
        let WatchDeps { client, events, metrics, config, schemas } = self.deps.clone();
        let decoder = Arc::new(SharedDecoder::new(ObjectDecoder::new(spec.clone(), &decode_config)));
        let handler = EngineHandler { watch: watch.clone(), decoder: decoder.clone(), events, schemas };
        let metrics = metrics.for_kind(&spec.kind);
        let watcher = Watcher::new(spec.clone(), client, config, metrics, handler);
        let task = self.tasks.spawn(async move {
            if !delay.is_zero() {
                sleep(delay).await;
            }
            watcher.run().await;
        });
        self.watchers.insert(task.id(), RunningWatcher { watch, decode_config, decoder, backoff, task });
    }

    fn remove_stopped(&mut self, id: Id, plan: &WatchPlan) {
        let Some(RunningWatcher { watch, .. }) = self.watchers.remove(&id) else { return };
        if plan.watches.iter().any(|planned| planned.id == watch.id) {
            return;
        }
        let stopped = watch.spec;
        if !plan.is_watched(&stopped.kind) {
            self.deps.metrics.remove_kind(&stopped.kind);
        }
        let continues = |Watch { spec, .. }: &Watch| {
            spec.is_same_request(&stopped) && spec.selects_by_name() == stopped.selects_by_name()
        };
        if !plan.watches.iter().any(continues) {
            info!(watch = %stopped, "No longer watching.");
        }
    }

    /// A watcher returns only when the engine has stopped. Any other end is a panic.
    async fn restart_panicked(&mut self, result: Result<(Id, ()), JoinError>) -> Result<(), ReceiverClosed> {
        let Err(panic) = result else { return Err(ReceiverClosed) };
        let Some(RunningWatcher { watch, mut backoff, .. }) = self.watchers.remove(&panic.id()) else {
            return Ok(());
        };
        error!(watch = %watch.spec, error = %panic, "A watcher panicked; restarting it.");
        let reason = DownReason::Error;
        let health = SyncHealth::Down { reason, message: "the watcher panicked; see the log".into() };
        self.send(Event::WatchHealth(watch.id, health)).await?;
        let delay = backoff.next_delay();
        self.start(watch, backoff, delay);
        Ok(())
    }

    async fn send(&self, event: Event) -> Result<(), ReceiverClosed> {
        self.deps.events.send(event).await.map_err(|_| ReceiverClosed)
    }
}

/// Decodes objects for the engine and sends it the events of one watch.
struct EngineHandler {
    watch: Watch,
    decoder: Arc<SharedDecoder>,
    events: mpsc::Sender<Event>,
    schemas: SchemaRequests,
}

impl WatchHandler for EngineHandler {
    type Object = Decoded;

    fn representation(&self) -> Representation {
        Representation::Full
    }

    fn decode(&self, json: &[u8]) -> Result<Decoded, ApiError> {
        Ok(self.decoder.current().decode(json))
    }

    fn decoder_changed(&self) -> impl Future<Output = ()> + Send {
        self.decoder.replaced()
    }

    fn resource_version(object: &Decoded) -> Option<&str> {
        object.resource_version()
    }

    async fn handle(&self, event: WatcherEvent<Decoded>) -> Result<(), ReceiverClosed> {
        let id = self.watch.id;
        let deleted = |object: &LiveObject| {
            let (namespace, name) = (object.key.namespace.clone(), object.key.name.clone());
            Event::Deleted { watch: id, namespace, name }
        };
        let event = match event {
            WatcherEvent::Listed(Decoded::Object(object)) => Event::Listed(id, object),
            WatcherEvent::Applied(Decoded::Object(object)) => Event::Applied(id, object),
            // An object that is filtered out now may have passed the filter before.
            WatcherEvent::Deleted(Decoded::Object(object) | Decoded::Filtered(object))
            | WatcherEvent::Applied(Decoded::Filtered(object)) => deleted(&object),
            WatcherEvent::Listed(Decoded::Unnamed)
            | WatcherEvent::Applied(Decoded::Unnamed)
            | WatcherEvent::Deleted(Decoded::Unnamed) => {
                warn!(watch = %self.watch.spec, "Skipping an object without a readable name.");
                return Ok(());
            }
            // Another watch reports objects that this one excludes.
            WatcherEvent::Listed(Decoded::Filtered(_) | Decoded::Excluded(_))
            | WatcherEvent::Applied(Decoded::Excluded(_))
            | WatcherEvent::Deleted(Decoded::Excluded(_)) => return Ok(()),
            WatcherEvent::ListStarted => Event::ListStarted(id),
            WatcherEvent::ListEnded => Event::ListEnded(id),
            WatcherEvent::Up => Event::WatchHealth(id, SyncHealth::Up),
            WatcherEvent::Interrupted => {
                self.schemas.recheck(&self.watch.spec.kind).await;
                return Ok(());
            }
            WatcherEvent::Failed(_, error) => {
                let (reason, message) = (error.down_reason(), error.to_string().into());
                Event::WatchHealth(id, SyncHealth::Down { reason, message })
            }
        };
        self.events.send(event).await.map_err(|_| ReceiverClosed)
    }

    async fn closed(&self) {
        self.events.closed().await;
    }
}
