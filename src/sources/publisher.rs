//! The baselines of one source: what is tracked about each, and the events that are published about them.

use std::{
    collections::{BTreeMap, HashMap, HashSet, btree_map::Entry},
    fmt,
    sync::Arc,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tracing::{info, warn};

use super::{
    driver::{BaselineSource, SourceContext},
    metadata_watch::{ApiFailure, health_of},
    requirements::{BaselineDeclarations, SourceDeclarations},
};
use crate::{
    config::{LimitExceeded, Limits},
    event::Event,
    types::{
        Authority, Baseline, BaselineError, BaselineFault, BaselineOrigin, BaselineVersion, DeclaredObject,
        Lock, RedactionKey, SkippedResource, SkippedResources, SyncHealth, TrustedNamespaces, WatchMode,
    },
};

/// The first delay after a baseline could not be read, or while it is being written.
pub(super) const MIN_RETRY: Duration = Duration::from_secs(1);
/// The longest delay, and the one for baselines that stay incomplete or use kinds that the cluster does not serve.
pub(super) const MAX_RETRY: Duration = Duration::from_secs(30);
/// Events about objects may arrive later than the baseline that explains them.
const GRACE_PERIOD: Duration = Duration::from_secs(1);
/// The source is reported without waiting for a namespace that has used more work than this number of baselines may.
const AWAITED_BUDGETS: usize = 2;
/// The maximum number of skipped documents of one version that are logged one by one.
const MAX_LOGGED: usize = 10;

#[derive(Clone, Debug)]
pub(super) struct DecodedBaseline {
    pub(super) version: BaselineVersion,
    pub(super) objects: Vec<Arc<DeclaredObject>>,
    pub(super) skipped: SkippedResources,
    /// The key that a published baseline brings along.
    pub(super) key: Option<RedactionKey>,
    /// Whether the cluster does not serve some of its kinds, so that their scope is a guess.
    pub(super) has_unknown_scopes: bool,
    /// Why objects of some kinds are left out: their scope could not be discovered.
    pub(super) failure: Option<ApiFailure>,
}

impl DecodedBaseline {
    pub(super) fn new(
        version: BaselineVersion,
        objects: Vec<Arc<DeclaredObject>>,
        skipped: Vec<SkippedResource>,
        key: Option<RedactionKey>,
    ) -> Self {
        let skipped = skipped.into();
        Self { version, objects, skipped, key, has_unknown_scopes: false, failure: None }
    }

    /// What counts against `limits.namespace.claims`: skipped documents use memory like objects do.
    pub(super) fn claims(&self) -> usize {
        self.objects.len() + self.skipped.len()
    }
}

/// Distinguishes the current read of a baseline from a cancelled one.
pub(super) type ReadId = u64;

/// One baseline: a Terraform state, a Helm release, a directory of manifests.
pub(super) struct TrackedBaseline<S: BaselineSource> {
    pub(super) name: Arc<str>,
    origin: BaselineOrigin,
    /// When to read it next; `None` until something changes.
    read_at: Option<Instant>,
    /// The read that is running.
    read: Option<ReadId>,
    /// Lent to the read that is running.
    reader: Option<S::Reader>,
    /// Whether a read has finished or there is nothing to read; the source is not reported before.
    is_synced: bool,
    /// The last valid version, which holds while a newer one is invalid.
    pub(super) decoded: Option<DecodedBaseline>,
    pub(super) fault: Option<BaselineError>,
    pub(super) failure: Option<ApiFailure>,
    backoff: Duration,
    pub(super) lock: Option<Lock>,
    grace_ends: Option<Instant>,
    published: Option<Arc<Baseline>>,
    /// Whether it was rejected because its namespace has no share left. It is read again when other baselines free some.
    waits_for_share: bool,
    /// Whether it is not read because its namespace has too many baselines.
    is_excess: bool,
    pub(super) state: S::State,
}

impl<S: BaselineSource> TrackedBaseline<S> {
    fn new(name: Arc<str>, origin: BaselineOrigin, state: S::State) -> Self {
        Self {
            name,
            origin,
            read_at: None,
            read: None,
            reader: None,
            is_synced: false,
            decoded: None,
            fault: None,
            failure: None,
            backoff: Duration::ZERO,
            lock: None,
            grace_ends: None,
            published: None,
            waits_for_share: false,
            is_excess: false,
            state,
        }
    }

    pub(super) fn read_now(&mut self) {
        self.read_at = Some(Instant::now());
    }

    pub(super) fn read_after(&mut self, delay: Duration) {
        self.read_at = Some(Instant::now() + delay);
    }

    /// Neither starts a read nor uses the result of one that is running.
    pub(super) fn cancel_read(&mut self) {
        (self.read_at, self.read) = (None, None);
    }

    pub(super) fn is_reading(&self) -> bool {
        self.read.is_some()
    }

    /// Whether there is something to publish.
    fn is_known(&self) -> bool {
        self.decoded.is_some() || self.fault.is_some()
    }

    pub(super) fn has_pending_read(&self) -> bool {
        self.read_at.is_some() || self.read.is_some()
    }

    /// The reader of the last read, if it is not lent.
    pub(super) fn take_reader(&mut self) -> Option<S::Reader> {
        self.reader.take()
    }

    /// Takes the reader back. Returns whether the result counts: the read was not cancelled, and no other one is due.
    pub(super) fn end_read(&mut self, id: ReadId, reader: S::Reader) -> bool {
        if self.read != Some(id) {
            self.reader.get_or_insert(reader);
            return false;
        }
        (self.read, self.reader) = (None, Some(reader));
        self.read_at.is_none()
    }

    /// The source may be reported without waiting for this baseline.
    pub(super) fn mark_synced(&mut self) {
        self.is_synced = true;
    }

    pub(super) fn set_decoded(&mut self, mut decoded: DecodedBaseline) {
        decoded.skipped.truncate();
        (self.decoded, self.fault, self.is_synced, self.backoff) =
            (Some(decoded), None, true, Duration::ZERO);
    }

    /// The declared objects stay those of the last valid version.
    pub(super) fn set_fault(&mut self, fault: BaselineFault, message: String) {
        let trouble = BaselineError { fault, message: message.into() };
        if self.fault.as_ref() != Some(&trouble) {
            warn!(baseline = %self.name, fault = %trouble.fault, "{}", trouble.message);
        }
        (self.fault, self.is_synced) = (Some(trouble), true);
    }

    pub(super) fn set_too_large(&mut self, name: impl fmt::Display, limit: LimitExceeded) {
        self.set_fault(BaselineFault::TooLarge, format!("cannot read {name}: {limit}"));
    }

    /// Schedules another read after an exponential delay. The lock stays, since the content that was written under it is unknown.
    pub(super) fn back_off(&mut self, failure: ApiFailure) {
        self.backoff = (self.backoff * 2).clamp(MIN_RETRY, MAX_RETRY);
        (self.failure, self.is_synced) = (Some(failure), true);
        self.read_after(self.backoff);
    }

    pub(super) fn set_lock(&mut self, lock: Option<Lock>) {
        (self.lock, self.grace_ends) = (lock, None);
    }

    /// Whether an operation holds the lock, and not the grace period after one.
    pub(super) fn is_locked(&self) -> bool {
        self.lock.is_some() && self.grace_ends.is_none()
    }

    /// Keeps the baseline in flight for a moment after an operation has ended.
    pub(super) fn start_grace_period(&mut self, time: Timestamp) {
        let grace = SignedDuration::try_from(GRACE_PERIOD).ok();
        let until = grace.and_then(|grace| time.checked_add(grace).ok());
        (self.lock, self.grace_ends) = (Some(Lock::released(until)), Some(Instant::now() + GRACE_PERIOD));
    }

    /// Logs documents and resources that the previous version did not skip.
    pub(super) fn log_skipped(&self, decoded: &DecodedBaseline) {
        let identity = |skipped: &SkippedResource| (skipped.address.clone(), skipped.reason);
        let before: HashSet<_> =
            self.decoded.iter().flat_map(|decoded| decoded.skipped.listed()).map(identity).collect();
        let listed = decoded.skipped.listed().iter().take(SkippedResources::MAX_LISTED);
        let new: Vec<&SkippedResource> =
            listed.filter(|skipped| !before.contains(&identity(skipped))).collect();
        for skipped in new.iter().take(MAX_LOGGED) {
            let (document, reason) = (&skipped.address, skipped.reason);
            warn!(baseline = %self.name, %document, %reason, "Skipping a document that cannot be compared.");
        }
        let unlisted =
            |decoded: &DecodedBaseline| decoded.skipped.len().saturating_sub(SkippedResources::MAX_LISTED);
        let new_unlisted = unlisted(decoded).saturating_sub(self.decoded.as_ref().map_or(0, unlisted));
        let more = new.len().saturating_sub(MAX_LOGGED) + new_unlisted;
        if more > 0 {
            warn!(baseline = %self.name, more, "Skipping more documents that cannot be compared.");
        }
    }

    /// `None` before the first read.
    fn baseline(&self, this_cluster: bool, authority: Authority) -> Option<Baseline> {
        if !self.is_known() {
            return None;
        }
        let decoded = self.decoded.as_ref();
        Some(Baseline {
            source: S::SOURCE,
            name: self.name.clone(),
            origin: self.origin,
            version: decoded.map(|decoded| decoded.version.clone()),
            objects: decoded.map(|decoded| decoded.objects.clone()).unwrap_or_default(),
            skipped: decoded.map(|decoded| decoded.skipped.clone()).unwrap_or_default(),
            fault: self.fault.clone(),
            lock: self.lock.clone(),
            this_cluster,
            authority,
        })
    }
}

/// The cost of one namespace so far.
#[derive(Clone, Copy, Default)]
struct NamespaceUse {
    /// The last read that started.
    last_read: ReadId,
    /// The work units of all its reads.
    work: usize,
    /// The baselines that are tracked, read or not.
    tracked: usize,
}

/// Tracks the baselines of one source, and sends an event for each change.
pub(super) struct Publisher<S: BaselineSource> {
    baselines: BTreeMap<S::Location, TrackedBaseline<S>>,
    /// How many of them have each name.
    names: HashMap<Arc<str>, usize>,
    namespaces: BTreeMap<Box<str>, NamespaceUse>,
    limits: Limits,
    watch_mode: WatchMode,
    /// Whether settings assign all baselines to this cluster, so that no uid has to match.
    pub(super) this_cluster: bool,
    /// Namespaces whose baselines have authority over all objects.
    pub(super) trusted_namespaces: TrustedNamespaces,
    events: mpsc::Sender<Event>,
    /// Not sent yet.
    queue: Vec<Event>,
    declarations: watch::Sender<Arc<SourceDeclarations>>,
    declarations_changed: bool,
    /// The health that was last sent; `None` for a source that is disabled.
    health: Option<SyncHealth>,
    last_read: ReadId,
    /// Whether all baselines that exist at the start were read.
    has_read_all: bool,
}

pub(super) struct Closed;

impl<S: BaselineSource> Publisher<S> {
    pub(super) fn new(context: &SourceContext) -> Self {
        Self {
            baselines: BTreeMap::new(),
            names: HashMap::new(),
            namespaces: BTreeMap::new(),
            limits: Limits::default(),
            watch_mode: context.watch_mode,
            this_cluster: true,
            trusted_namespaces: TrustedNamespaces::default(),
            events: context.events.clone(),
            queue: Vec::new(),
            declarations: context.declarations.clone(),
            declarations_changed: true,
            health: None,
            last_read: 0,
            has_read_all: false,
        }
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    /// Sets the limits. If they changed, baselines that exceeded one are read again. The others are not: a lower limit applies to
    /// them when they change.
    pub(super) fn set_limits(&mut self, limits: Limits) {
        if std::mem::replace(&mut self.limits, limits) != limits {
            let too_large = |tracked: &&mut TrackedBaseline<S>| {
                tracked.waits_for_share
                    || tracked.fault.as_ref().is_some_and(|error| error.fault == BaselineFault::TooLarge)
            };
            self.baselines.values_mut().filter(too_large).for_each(TrackedBaseline::read_now);
        }
    }

    /// Adds the work units of a read to those of its namespace.
    pub(super) fn add_work(&mut self, location: &S::Location, work: usize) {
        let namespace = self.namespaces.entry(S::namespace(location).into()).or_default();
        namespace.work = namespace.work.saturating_add(work);
    }

    /// Fails if a baseline with this many declared objects and skipped documents exceeds the share of its namespace. Files have
    /// no namespace.
    pub(super) fn check_share(&mut self, location: &S::Location, claims: usize) -> Result<(), LimitExceeded> {
        let (namespace, limits) = (S::namespace(location), self.limits.namespace);
        let others = self.baselines.iter().filter(|(other, _)| {
            *other != location && !namespace.is_empty() && S::namespace(other) == namespace
        });
        let decoded: Vec<usize> =
            others.filter_map(|(_, other)| other.decoded.as_ref()).map(DecodedBaseline::claims).collect();
        let is_trusted = S::authority(location).extended_by(&self.trusted_namespaces) == Authority::Cluster;
        let result = if namespace.is_empty() {
            Ok(())
        } else if decoded.len() >= limits.baselines {
            Err(limits.baselines_exceeded())
        } else {
            limits.check_claims(decoded.iter().sum::<usize>() + claims, is_trusted)
        };
        let Some(tracked) = self.baselines.get_mut(location) else { return result };
        let before = tracked.decoded.as_ref().map_or(0, DecodedBaseline::claims);
        tracked.waits_for_share = result.is_err();
        if result.is_ok() && claims < before {
            self.read_waiting(S::namespace(location));
        }
        result
    }

    /// Reads baselines again that exceeded the share of their namespace.
    fn read_waiting(&mut self, namespace: &str) {
        let waiting = |(location, tracked): &(&S::Location, &mut TrackedBaseline<S>)| {
            tracked.waits_for_share && S::namespace(location) == namespace
        };
        self.baselines.iter_mut().filter(waiting).for_each(|(_, tracked)| tracked.read_now());
    }

    pub(super) fn get_mut(&mut self, location: &S::Location) -> Option<&mut TrackedBaseline<S>> {
        self.baselines.get_mut(location)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut TrackedBaseline<S>> {
        self.baselines.values_mut()
    }

    /// The baseline at this location. A new one gets the first of these names, or the second if that is taken. `None` for a new one
    /// in a namespace that has one more than it may have: [`Self::cancel_excess`] reports that one, and the others cost nothing.
    pub(super) fn track(
        &mut self,
        location: &S::Location,
        origin: BaselineOrigin,
        names: impl FnOnce() -> [String; 2],
        state: impl FnOnce() -> S::State,
    ) -> Option<&mut TrackedBaseline<S>> {
        match self.baselines.entry(location.clone()) {
            Entry::Occupied(tracked) => Some(tracked.into_mut()),
            Entry::Vacant(vacant) => {
                let namespace = self.namespaces.entry(S::namespace(location).into()).or_default();
                if namespace.tracked > self.limits.namespace.baselines && !S::namespace(location).is_empty() {
                    return None;
                }
                namespace.tracked += 1;
                let [name, longer] = names();
                let name = if self.names.contains_key(&*name) { longer } else { name };
                let name: Arc<str> = name.into();
                *self.names.entry(name.clone()).or_default() += 1;
                Some(vacant.insert(TrackedBaseline::new(name, origin, state())))
            }
        }
    }

    /// Drops all other baselines.
    pub(super) fn retain(&mut self, keep: impl Fn(&S::Location) -> bool) {
        let removed: Vec<_> = self.baselines.extract_if(.., |location, _| !keep(location)).collect();
        for (location, tracked) in removed {
            if let Some(namespace) = self.namespaces.get_mut(S::namespace(&location)) {
                namespace.tracked -= 1;
            }
            if let Some(count) = self.names.get_mut(&tracked.name) {
                *count -= 1;
                if *count == 0 {
                    self.names.remove(&tracked.name);
                }
            }
            self.read_waiting(S::namespace(&location));
            if tracked.published.is_some() {
                info!(source = %S::SOURCE, baseline = %tracked.name, "A baseline is no longer read: it was deleted, or its source was disabled.");
                self.declarations_changed = true;
                self.queue.push(Event::BaselineRemoved(S::SOURCE, tracked.name));
            }
        }
    }

    /// Continues with other settings: starts interrupted reads again, and publishes baselines that the settings changed.
    pub(super) fn resume(&mut self) {
        for tracked in self.baselines.values_mut().filter(|tracked| tracked.is_reading()) {
            tracked.cancel_read();
            tracked.read_now();
        }
        for location in self.baselines.keys().cloned().collect::<Vec<_>>() {
            self.publish(&location);
        }
    }

    /// Queues an event if the baseline differs from the one that was last published.
    pub(super) fn publish(&mut self, location: &S::Location) {
        let Some(tracked) = self.baselines.get_mut(location) else { return };
        let authority = S::authority(location).extended_by(&self.trusted_namespaces);
        let Some(baseline) = tracked.baseline(self.this_cluster, authority) else { return };
        if tracked.published.as_deref() != Some(&baseline) {
            let baseline = Arc::new(baseline);
            tracked.published = Some(baseline.clone());
            self.declarations_changed = true;
            self.queue.push(Event::Baseline(baseline));
        }
    }

    pub(super) fn end_grace_periods(&mut self) {
        let now = Instant::now();
        let ended =
            self.baselines.iter().filter(|(_, tracked)| tracked.grace_ends.is_some_and(|at| at <= now));
        for location in ended.map(|(location, _)| location.clone()).collect::<Vec<_>>() {
            if let Some(tracked) = self.baselines.get_mut(&location) {
                tracked.set_lock(None);
            }
            self.publish(&location);
        }
    }

    pub(super) fn next_grace_end(&self) -> Option<Instant> {
        self.baselines.values().filter_map(|tracked| tracked.grace_ends).min()
    }

    /// Cancels the reads of new baselines in namespaces that have too many. Returns one of each namespace, which is published as too
    /// large. The others have neither a status nor series.
    pub(super) fn cancel_excess(&mut self) -> Vec<S::Location> {
        let mut counts: BTreeMap<&str, (usize, bool)> = BTreeMap::new();
        for (location, tracked) in self.baselines.iter().filter(|(_, tracked)| tracked.is_known()) {
            let (count, is_reported) = counts.entry(S::namespace(location)).or_default();
            *count += usize::from(!tracked.is_excess);
            *is_reported |= tracked.is_excess;
        }
        let max = self.limits.namespace.baselines;
        let full =
            counts.into_iter().filter(|(namespace, (count, _))| !namespace.is_empty() && *count >= max);
        let mut full: BTreeMap<Box<str>, bool> =
            full.map(|(namespace, (_, is_reported))| (namespace.into(), is_reported)).collect();
        let (now, mut reported) = (Instant::now(), Vec::new());
        for (location, tracked) in &mut self.baselines {
            let is_due = !tracked.is_reading() && tracked.read_at.is_some_and(|at| at <= now);
            if !is_due || (tracked.is_known() && !tracked.is_excess) {
                continue;
            }
            if let Some(is_reported) = full.get_mut(S::namespace(location)) {
                (tracked.read_at, tracked.is_synced) = (None, true);
                (tracked.waits_for_share, tracked.is_excess) = (true, true);
                if !std::mem::replace(is_reported, true) {
                    reported.push(location.clone());
                }
            }
        }
        reported
    }

    /// Marks a baseline that is due as being read. Namespaces take turns, with one read at a time. Within a namespace, the
    /// baseline that has been due for longest comes first.
    pub(super) fn start_due_read(&mut self) -> Option<(S::Location, ReadId, &mut TrackedBaseline<S>)> {
        let now = Instant::now();
        let turn = |location: &S::Location| {
            self.namespaces.get(S::namespace(location)).map_or(0, |namespace| namespace.last_read)
        };
        let due = self.waiting_reads().filter(|(at, _)| *at <= now);
        let (_, location) = due.min_by_key(|(at, location)| (turn(location), *at))?;
        let location = location.clone();
        self.last_read += 1;
        self.namespaces.entry(S::namespace(&location).into()).or_default().last_read = self.last_read;
        let tracked = self.baselines.get_mut(&location)?;
        (tracked.read_at, tracked.read, tracked.is_excess) = (None, Some(self.last_read), false);
        Some((location, self.last_read, tracked))
    }

    /// The time at which the next baseline may be read.
    pub(super) fn next_read(&self) -> Option<Instant> {
        self.waiting_reads().map(|(at, _)| at).min()
    }

    /// The scheduled reads in namespaces without a running read.
    fn waiting_reads(&self) -> impl Iterator<Item = (Instant, &S::Location)> {
        let running = self.baselines.iter().filter(|(_, tracked)| tracked.is_reading());
        let busy: HashSet<&str> =
            running.map(|(location, _)| S::namespace(location)).filter(|name| !name.is_empty()).collect();
        let idle = self.baselines.iter().filter(move |(location, tracked)| {
            !tracked.is_reading() && !busy.contains(S::namespace(location))
        });
        idle.filter_map(|(location, tracked)| Some((tracked.read_at?, location)))
    }

    /// Whether the source is reported only after this baseline was read. It does not wait for a namespace that has used more than
    /// its share of work.
    fn is_awaited(&self, location: &S::Location, tracked: &TrackedBaseline<S>) -> bool {
        let share = self.limits.baseline.work.saturating_mul(AWAITED_BUDGETS);
        let is_within_share =
            || self.namespaces.get(S::namespace(location)).is_none_or(|namespace| namespace.work <= share);
        !tracked.is_synced && (self.watch_mode == WatchMode::Once || is_within_share())
    }

    /// Whether all baselines that exist at the start have been published.
    pub(super) fn has_reported(&self) -> bool {
        self.health.is_some()
    }

    pub(super) async fn flush(&mut self) -> Result<(), Closed> {
        for event in self.queue.drain(..) {
            self.events.send(event).await.map_err(|_| Closed)?;
        }
        Ok(())
    }

    /// Sends the health of the source and then its declarations, once every baseline has been read. A disabled source is removed.
    pub(super) async fn report(
        &mut self,
        enabled: bool,
        watch_failures: impl Iterator<Item = &ApiFailure>,
    ) -> Result<(), Closed> {
        if self.baselines.iter().any(|(location, tracked)| self.is_awaited(location, tracked)) {
            return Ok(());
        }
        let mut failures: Vec<&ApiFailure> = watch_failures.collect();
        failures.extend(self.baselines.values().filter_map(|tracked| tracked.failure.as_ref()));
        let health = enabled.then(|| health_of(failures));
        let has_read_all =
            health == Some(SyncHealth::Up) && self.baselines.values().all(|tracked| tracked.is_synced);
        if has_read_all && !std::mem::replace(&mut self.has_read_all, true) {
            self.queue.push(Event::BaselinesRead(S::SOURCE));
        }
        if self.health != health {
            if let Some(SyncHealth::Down { reason, message }) = &health {
                warn!(source = %S::SOURCE, %reason, "Some baselines cannot be read: {message}");
            }
            self.health.clone_from(&health);
            self.queue.push(match health {
                Some(health) => Event::SourceHealth(S::SOURCE, health),
                None => Event::SourceRemoved(S::SOURCE),
            });
        }
        self.flush().await?;
        if std::mem::take(&mut self.declarations_changed) {
            let decoded = self.baselines.iter().filter_map(|(location, tracked)| {
                let DecodedBaseline { key, objects, .. } = tracked.decoded.as_ref()?;
                let authority = S::authority(location).extended_by(&self.trusted_namespaces);
                Some(BaselineDeclarations { authority, key: key.clone(), objects: objects.clone() })
            });
            let declarations = SourceDeclarations(decoded.collect());
            self.declarations.send_replace(Arc::new(declarations));
        }
        Ok(())
    }

    pub(super) async fn closed(&self) {
        self.events.closed().await;
    }
}
