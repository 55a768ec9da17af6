//! The loop that all sources share, and the trait that makes a source of it.
//!
//! [`run`] lists what exists, reads new and changed baselines outside the loop, publishes them, reports the health of the source and retries
//! with backoff. A [`BaselineSource`] decides where baselines are, when one has to be read, and how it is decoded.

use std::{fmt, io, path::PathBuf, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use kube::Client;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch},
    time::{Instant, sleep_until},
};

use super::{
    inflate::ReadError,
    metadata_watch::{ApiFailure, ChangedNamespaces, MetadataCache, ObjectQuery},
    publisher::{Closed, DecodedBaseline, MAX_RETRY, Publisher, ReadId, TrackedBaseline},
    requirements::SourceDeclarations,
};
use crate::{
    config::{BaselineLimits, LimitExceeded, RuntimeConfig, Settings},
    event::Event,
    types::{Authority, BaselineFault, Clock, RedactionKey, Scope, Source, WatchMode},
    watch::config_changed,
};

/// Directories are polled, since mounted volumes deliver no change notifications.
const SCAN_INTERVAL: Duration = Duration::from_secs(1);
/// A scan takes at most one part in this many of the time, unless that exceeds [`MAX_SCAN_INTERVAL`].
const SCAN_TIME_SHARE: u32 = 50;
const MAX_SCAN_INTERVAL: Duration = Duration::from_secs(30);

/// The inputs and outputs of one source.
pub struct SourceContext {
    pub client: Client,
    /// May change at any time; the source follows.
    pub config: watch::Receiver<Arc<RuntimeConfig>>,
    pub events: mpsc::Sender<Event>,
    /// Receives all declared objects once every baseline that exists has been read, and after each change.
    pub declarations: watch::Sender<Arc<SourceDeclarations>>,
    pub clock: Clock,
    pub watch_mode: WatchMode,
    /// Shared by all sources of an exporter.
    pub decode_slots: DecodeSlots,
    /// The key of the digests that replace redacted values.
    pub key: RedactionKey,
}

impl fmt::Debug for SourceContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SourceContext").finish_non_exhaustive()
    }
}

pub(super) type ReadResult = Result<DecodedBaseline, ReadFailure>;

#[derive(Debug, thiserror::Error)]
pub(super) enum ReadFailure {
    /// The stored bytes are not a valid baseline.
    #[error("not a valid baseline: {}", .0.as_str())]
    Invalid(BaselineFault),
    #[error(transparent)]
    TooLarge(LimitExceeded),
    #[error(transparent)]
    Io(io::Error),
    #[error(transparent)]
    Api(ApiFailure),
    /// The object is gone or no longer current. The next watch event brings the reason.
    #[error("not found")]
    NotFound,
}

impl From<ReadError> for ReadFailure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io(error) => Self::Io(error),
            ReadError::Invalid(fault) => Self::Invalid(fault),
            ReadError::TooLarge(limit) => Self::TooLarge(limit),
        }
    }
}

impl From<LimitExceeded> for ReadFailure {
    fn from(limit: LimitExceeded) -> Self {
        Self::TooLarge(limit)
    }
}

impl From<BaselineFault> for ReadFailure {
    fn from(fault: BaselineFault) -> Self {
        Self::Invalid(fault)
    }
}

/// Decodes successive versions of one baseline, and reuses objects that did not change.
pub(super) trait BaselineReader: Sized + Send + 'static {
    fn with_key(key: RedactionKey) -> Self;

    fn key(&self) -> &RedactionKey;

    /// The work units of the last read.
    fn work(&self) -> usize;
}

/// The number of baselines that are decoded at once: two small ones, or one large one. This bounds memory.
#[derive(Clone, Debug)]
pub struct DecodeSlots(Arc<Semaphore>);

impl DecodeSlots {
    const COUNT: u32 = 2;
    /// A larger baseline takes all slots.
    const MAX_SMALL: usize = 64 << 10;

    /// Waits until a baseline of this stored size may be decoded. Requests are served in order.
    async fn acquire(&self, size: usize) -> Option<OwnedSemaphorePermit> {
        let count = if size > Self::MAX_SMALL { Self::COUNT } else { 1 };
        // Fails only if the semaphore is closed, which never happens.
        self.0.clone().acquire_many_owned(count).await.ok()
    }
}

impl Default for DecodeSlots {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(Self::COUNT as usize)))
    }
}

/// Runs `read` on a blocking thread once there is a slot, and returns the reader. If `read` panics, the baseline is unreadable.
/// `size` is the number of stored bytes.
pub(super) async fn read_blocking<R: BaselineReader>(
    mut reader: R,
    slots: &DecodeSlots,
    size: usize,
    read: impl FnOnce(&mut R) -> ReadResult + Send + 'static,
) -> (R, ReadResult) {
    let key = reader.key().clone();
    let slot = slots.acquire(size).await;
    // The slot moves to the thread, which keeps running if this future is dropped.
    let task = tokio::task::spawn_blocking(move || {
        let result = read(&mut reader);
        drop(slot);
        (reader, result)
    });
    task.await.unwrap_or_else(|_| (R::with_key(key), Err(BaselineFault::Unreadable.into())))
}

/// Finds, reads and decodes the baselines of one source. All methods return at once; only [`Self::scan`] and the future of
/// [`Self::read`] may take time.
pub(super) trait BaselineSource: Sized + Send + 'static {
    const SOURCE: Source;
    const MAX_CONCURRENT_READS: usize;

    type Settings: Clone + PartialEq + Send + Sync + 'static;
    /// Identifies a baseline: a Secret, a release, a path.
    type Location: Clone + Ord + Send + Sync + 'static;
    /// State of one baseline that only this source needs.
    type State: Send;
    type Reader: BaselineReader;
    /// The files that a scan finds.
    type Scan: Default + Send + 'static;

    fn new(context: &SourceContext) -> Self;

    /// The namespace that stores a baseline; empty for files. Namespaces share the source equally.
    fn namespace(_: &Self::Location) -> &str {
        <&str>::default()
    }

    /// The part of the settings that is about this source.
    fn settings(settings: &Settings) -> Self::Settings;

    /// The objects that a baseline at this location has authority over, unless the settings trust its namespace.
    fn authority(location: &Self::Location) -> Authority;

    /// Uses other settings from now on, and drops baselines that they exclude. The source is enabled.
    fn apply_settings(&mut self, settings: Self::Settings, publisher: &mut Publisher<Self>);

    /// The objects that store baselines, and their namespaces.
    fn queries(&self) -> (Vec<ObjectQuery>, Scope) {
        (Vec::new(), Scope::default())
    }

    /// Tracks, drops and schedules baselines in namespaces whose objects changed.
    fn observe_objects(&mut self, _: &MetadataCache, _: &ChangedNamespaces, _: &mut Publisher<Self>) {}

    /// The files and directories to scan.
    fn paths(&self) -> &[PathBuf] {
        &[]
    }

    /// Lists files. Runs on a blocking thread.
    fn scan(_: &[PathBuf]) -> Self::Scan {
        Self::Scan::default()
    }

    /// Tracks, drops and schedules baselines in files.
    fn observe_files(&mut self, _: Self::Scan, _: &mut Publisher<Self>) {}

    /// Starts to read a baseline that is due.
    fn read(
        &mut self,
        location: &Self::Location,
        tracked: &TrackedBaseline<Self>,
        reader: Self::Reader,
        limits: BaselineLimits,
    ) -> BoxFuture<'static, (Self::Reader, ReadResult)>;

    /// Records the result of a read during which the baseline did not change; never [`ReadFailure::Api`].
    fn finish_read(
        &mut self,
        location: &Self::Location,
        tracked: &mut TrackedBaseline<Self>,
        result: ReadResult,
    );
}

/// Publishes all baselines of a source and every change to them, until the receiver of events is gone.
///
/// Baselines that exist at the start are published before the source is reported as up; its declarations follow after that.
pub(super) async fn run<S: BaselineSource>(context: SourceContext) {
    let mut publisher = Publisher::new(&context);
    let mut source = S::new(&context);
    while run_until_settings_change(&mut source, &mut publisher, &context).await.is_ok() {}
}

async fn run_until_settings_change<S: BaselineSource>(
    source: &mut S,
    publisher: &mut Publisher<S>,
    SourceContext { client, config, watch_mode, key, .. }: &SourceContext,
) -> Result<(), Closed> {
    let mut config = config.clone();
    let settings = enabled_settings::<S>(&config.borrow_and_update());
    publisher.set_limits(config.borrow().settings.limits);
    let (mut queries, mut scope, mut next_scan) = (Vec::new(), Scope::default(), None);
    if let Some(settings) = &settings {
        source.apply_settings(settings.clone(), publisher);
        (queries, scope) = source.queries();
        next_scan = (!source.paths().is_empty()).then(Instant::now);
    } else {
        publisher.retain(|_| false);
    }
    publisher.resume();
    let mut cache = MetadataCache::start(client, queries, &scope, *watch_mode);
    // Reads run beside the loop: an operation on another baseline has to be published before its objects change.
    let mut reads = FuturesUnordered::new();
    loop {
        if next_scan.is_some_and(|at| at <= Instant::now()) {
            next_scan = Some(scan_files(source, publisher).await);
        }
        if let Some(changed) = cache.take_changed() {
            source.observe_objects(&cache, &changed, publisher);
        }
        publisher.end_grace_periods();
        publisher.flush().await?;
        let mut next_read = None;
        // Updates come first: a lock is published before the content that is written under it.
        if cache.has_synced_or_failed() && !cache.has_updates() {
            for location in publisher.cancel_excess() {
                let limit = publisher.limits().namespace.baselines_exceeded();
                if let Some(tracked) = publisher.get_mut(&location) {
                    source.finish_read(&location, tracked, Err(ReadFailure::TooLarge(limit)));
                }
                publisher.publish(&location);
            }
            let limits = publisher.limits().baseline;
            while reads.len() < S::MAX_CONCURRENT_READS
                && let Some((location, id, tracked)) = publisher.start_due_read()
            {
                let reader = tracked.take_reader().unwrap_or_else(|| S::Reader::with_key(key.clone()));
                let read = source.read(&location, tracked, reader, limits);
                reads.push(async move { (location, id, read.await) });
            }
            publisher.report(settings.is_some(), cache.failures()).await?;
            next_read = publisher.next_read().filter(|_| reads.len() < S::MAX_CONCURRENT_READS);
        }
        let wake = [next_scan, next_read, publisher.next_grace_end()].into_iter().flatten().min();
        tokio::select! {
            biased;
            () = publisher.closed() => return Err(Closed),
            () = config_changed(&mut config, |config| {
                enabled_settings::<S>(config) != settings || config.settings.limits != publisher.limits()
            }) => return Ok(()),
            () = cache.update() => {}
            Some((location, id, (reader, result))) = reads.next() => {
                finish_read(source, publisher, &location, id, reader, result);
            }
            () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {}
        }
    }
}

/// Returns when to scan again.
async fn scan_files<S: BaselineSource>(source: &mut S, publisher: &mut Publisher<S>) -> Instant {
    let (paths, begun) = (source.paths().to_vec(), Instant::now());
    if let Ok(scan) = tokio::task::spawn_blocking(move || S::scan(&paths)).await {
        source.observe_files(scan, publisher);
    }
    Instant::now() + (begun.elapsed() * SCAN_TIME_SHARE).clamp(SCAN_INTERVAL, MAX_SCAN_INTERVAL)
}

fn finish_read<S: BaselineSource>(
    source: &mut S,
    publisher: &mut Publisher<S>,
    location: &S::Location,
    id: ReadId,
    reader: S::Reader,
    mut result: ReadResult,
) {
    let mut is_rejected = matches!(result, Err(ReadFailure::TooLarge(_)));
    let work = if is_rejected { publisher.limits().baseline.work.saturating_add(1) } else { reader.work() };
    let Some(tracked) = publisher.get_mut(location) else { return };
    // A baseline that changed meanwhile is read again, and one that was cancelled is not waited for.
    let counts = tracked.end_read(id, reader);
    publisher.add_work(location, work);
    if !counts {
        return;
    }
    if let Ok(decoded) = &result
        && let Err(limit) = publisher.check_share(location, decoded.claims())
    {
        result = Err(ReadFailure::TooLarge(limit));
        is_rejected = true;
    }
    let Some(tracked) = publisher.get_mut(location) else { return };
    if is_rejected {
        // It caches what it decoded, which is more than the limits allow.
        drop(tracked.take_reader());
    }
    tracked.failure = None;
    if let Ok(decoded) = &mut result {
        tracked.failure = decoded.failure.take();
        if decoded.has_unknown_scopes {
            tracked.read_after(MAX_RETRY);
        }
    }
    match result {
        Err(ReadFailure::Api(failure)) => tracked.back_off(failure),
        result => source.finish_read(location, tracked, result),
    }
    publisher.publish(location);
}

/// The settings of a source; none if it is disabled.
fn enabled_settings<S: BaselineSource>(config: &RuntimeConfig) -> Option<S::Settings> {
    config.settings.sources.contains(&S::SOURCE).then(|| S::settings(&config.settings))
}
