//! Keeps the streams running.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use kube::Client;
use tokio::{
    sync::{mpsc, watch},
    task::{AbortHandle, Id, JoinError, JoinSet},
    time::sleep,
};
use tracing::{error, info};

use super::{
    SchemaRequests, Timing, WatchMetrics,
    watcher::{Backoff, Stream},
};
use crate::types::{
    DownReason, Event, JobSpec, Kind, Plan, RecordSpec, RedactionPolicy, WatchHealth, WatchSpec,
};

/// Everything that a stream is made of, but what it watches.
#[derive(Clone)]
pub struct WatchDeps {
    /// The connection to the API server.
    pub client: Client,
    /// Where the changes go.
    pub changes: mpsc::Sender<Event>,
    /// What is counted.
    pub metrics: WatchMetrics,
    /// How long to wait for what.
    pub timing: Timing,
    /// Where is told of which kinds something has to be known.
    pub schemas: SchemaRequests,
}

impl std::fmt::Debug for WatchDeps {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("StreamParts").field("timing", &self.timing).finish_non_exhaustive()
    }
}

/// What of an object is read and kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecodeConfig {
    /// The prefix of the hash annotation.
    pub annotation_prefix: Box<str>,
    /// Whether hashes in annotations do not count.
    pub ignores_stamps: bool,
    /// The labels of objects that are kept: those that rules ask for or that series have.
    pub label_names: Arc<[Box<str>]>,
    /// Whether an annotation of the object may ask for differences to be ignored.
    pub mutes: bool,
    /// Kinds, by group and name, of which whole objects are kept because fields of theirs are compared, and what is sealed in
    /// them.
    pub documents: BTreeMap<(Box<str>, Box<str>), Arc<RedactionPolicy>>,
    /// How objects are kept that say what kubectl applied to them; none where that does not count.
    pub applied: Option<Arc<RedactionPolicy>>,
    /// Objects of which is read what their controllers recorded. Of several that want one object, the first counts.
    pub records: Arc<[RecordSpec]>,
    /// Jobs of which is read how they ran.
    pub jobs: Option<JobSpec>,
}

impl DecodeConfig {
    /// What of it matters to objects of one kind.
    pub(super) fn of_kind(&self, kind: &Kind) -> Self {
        let own = (kind.group.clone(), kind.kind.clone());
        let sealing = self.documents.get(&own).cloned();
        let documents = sealing.map(|sealing| (own, sealing)).into_iter().collect();
        let records = self.records.iter().filter(|spec| spec.objects.means(kind)).cloned().collect();
        let jobs = self.jobs.clone().filter(|spec| spec.objects.means(kind));
        Self { documents, records, jobs, ..self.clone() }
    }

    /// Whether fields of objects of a kind are compared.
    pub(super) fn compares(&self, kind: &Kind) -> bool {
        self.applied.is_some() || self.sealing_of(kind).is_some()
    }

    /// What is sealed in objects of a kind; none where whole objects are not kept.
    pub(super) fn sealing_of(&self, kind: &Kind) -> Option<&Arc<RedactionPolicy>> {
        self.documents.get(&(kind.group.clone(), kind.kind.clone()))
    }
}

/// Keeps the streams of the newest plan open until the engine is gone. Those that stay wanted are not touched, unless
/// more has to be read of their objects. One that breaks is shown as down, started anew after a while, and leaves the
/// others alone.
pub async fn follow(
    mut plans: watch::Receiver<Arc<Plan>>,
    mut readings: watch::Receiver<Arc<DecodeConfig>>,
    parts: WatchDeps,
) {
    let reading = readings.borrow_and_update().clone();
    let mut streams = Streams { parts, reading, tasks: JoinSet::new(), running: HashMap::new() };
    loop {
        let plan = plans.borrow_and_update().clone();
        streams.reading = readings.borrow_and_update().clone();
        if streams.adapt(&plan).await.is_err() || streams.tend(&mut plans, &mut readings).await.is_err() {
            return;
        }
    }
}

/// The streams that are open.
struct Streams {
    parts: WatchDeps,
    /// How streams that are opened now read.
    reading: Arc<DecodeConfig>,
    tasks: JoinSet<()>,
    running: HashMap<Id, Running>,
}

struct Running {
    spec: Arc<WatchSpec>,
    /// How it reads.
    reading: DecodeConfig,
    backoff: Backoff,
    task: AbortHandle,
}

/// Nobody takes changes any more.
struct EngineGone;

impl Streams {
    /// Ends what is no longer wanted, tells the engine, and opens what is new, in this order: the engine never hears
    /// of a stream that it does not know.
    async fn adapt(&mut self, plan: &Arc<Plan>) -> Result<(), EngineGone> {
        let wanted: HashSet<&Arc<WatchSpec>> = plan.streams.iter().collect();
        let mut leaving = HashSet::new();
        for (id, running) in &self.running {
            if !wanted.contains(&running.spec) || running.reading != self.reading.of_kind(&running.spec.kind)
            {
                running.task.abort();
                leaving.insert(*id);
            }
        }
        while !leaving.is_empty() {
            let Some(ended) = self.tasks.join_next_with_id().await else { break };
            let id = match &ended {
                Ok((id, ())) => *id,
                Err(broken) => broken.id(),
            };
            if leaving.remove(&id) {
                self.close(id, plan);
            } else {
                self.ended(ended).await?;
            }
        }
        self.parts.schemas.want(plan, &self.reading);
        self.send(Event::Plan(plan.clone())).await?;
        let open: HashSet<Arc<WatchSpec>> = self.running.values().map(|own| own.spec.clone()).collect();
        for spec in plan.streams.iter().filter(|spec| !open.contains(*spec)) {
            let selector = spec.selector.as_ref().map(ToString::to_string).unwrap_or_default();
            info!(stream = %spec, selector, "Watching.");
            let backoff = Backoff::new(self.parts.timing.first_backoff, self.parts.timing.longest_backoff);
            self.open(spec.clone(), backoff, Duration::ZERO);
        }
        Ok(())
    }

    /// Keeps the streams running until there is another plan, or more to read.
    async fn tend(
        &mut self,
        plans: &mut watch::Receiver<Arc<Plan>>,
        readings: &mut watch::Receiver<Arc<DecodeConfig>>,
    ) -> Result<(), EngineGone> {
        loop {
            tokio::select! {
                changed = plans.changed() => {
                    if changed.is_ok() {
                        return Ok(());
                    }
                    // There will be no other plan: the streams go on, and end with the engine.
                    while let Some(ended) = self.tasks.join_next_with_id().await {
                        self.ended(ended).await?;
                    }
                    return Err(EngineGone);
                }
                Ok(()) = readings.changed() => return Ok(()),
                Some(ended) = self.tasks.join_next_with_id() => self.ended(ended).await?,
            }
        }
    }

    fn open(&mut self, spec: Arc<WatchSpec>, backoff: Backoff, wait: Duration) {
        let reading = self.reading.of_kind(&spec.kind);
        let stream = Stream::new(spec.clone(), self.parts.clone(), &reading);
        let task = self.tasks.spawn(async move {
            if !wait.is_zero() {
                sleep(wait).await;
            }
            stream.run().await;
        });
        self.running.insert(task.id(), Running { spec, reading, backoff, task });
    }

    fn close(&mut self, id: Id, plan: &Plan) {
        let Some(closed) = self.running.remove(&id) else { return };
        if plan.streams.contains(&closed.spec) {
            return;
        }
        if !plan.watches(&closed.spec.kind) {
            self.parts.metrics.forget(&closed.spec.kind);
        }
        let is_of_singles = closed.spec.is_of_single_objects();
        let goes_on = |spec: &Arc<WatchSpec>| {
            spec.asks_like(&closed.spec) && spec.is_of_single_objects() == is_of_singles
        };
        if !plan.streams.iter().any(goes_on) {
            info!(stream = %closed.spec, "No longer watching.");
        }
    }

    /// A stream ends by itself when the engine is gone, and breaks when it panics.
    async fn ended(&mut self, ended: Result<(Id, ()), JoinError>) -> Result<(), EngineGone> {
        let Err(broken) = ended else { return Err(EngineGone) };
        let Some(Running { spec, mut backoff, .. }) = self.running.remove(&broken.id()) else {
            return Ok(());
        };
        error!(stream = %spec, error = %broken, "A stream broke; starting it anew.");
        let reason = DownReason::Error;
        let health = WatchHealth::Down { reason, message: "the stream broke; the log has more".into() };
        self.send(Event::WatchHealth(spec.clone(), health)).await?;
        let wait = backoff.next();
        self.open(spec, backoff, wait);
        Ok(())
    }

    async fn send(&self, change: Event) -> Result<(), EngineGone> {
        self.parts.changes.send(change).await.map_err(|_| EngineGone)
    }
}
