//! What is told about a source, and to whom; what is known about one baseline, and when to look at it again.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tracing::{info, warn};

use super::{
    driver::SourceContext,
    metadata_watch::{Refusal, health},
    requirements::Declares,
};
use crate::types::{
    Baseline, BaselineTrouble, BaselineVersion, DeclaredObject, Event, Lock, Origin, RedactionKey, Skipped,
    Source, WatchHealth,
};

/// Knows the baselines of one source, and tells of them and of how the source fares, where that is news.
pub(super) struct Publisher<P, T> {
    source: Source,
    changes: mpsc::Sender<Event>,
    declares: watch::Sender<Arc<Declares>>,
    /// All baselines there are, by where they are.
    pub(super) known: BTreeMap<P, Known<T>>,
    /// Whether all of them declare objects of this cluster, so that nobody has to find out.
    pub(super) here: bool,
    /// What was last told about the source.
    health: Option<WatchHealth>,
    /// Whether something was told that may change what is declared.
    declares_other: bool,
}

/// Nobody listens any more.
pub(super) struct Closed;

impl<P: Clone + Ord, T> Publisher<P, T> {
    /// One that has told nothing yet.
    pub(super) fn new<S>(source: Source, follow: &SourceContext<S>) -> Self {
        Self {
            source,
            changes: follow.changes.clone(),
            declares: follow.declares.clone(),
            known: BTreeMap::new(),
            here: true,
            health: None,
            declares_other: true,
        }
    }

    /// Tells what is known about a baseline, where that is news.
    pub(super) async fn tell(&mut self, place: &P) -> Result<(), Closed> {
        let Some(known) = self.known.get_mut(place) else { return Ok(()) };
        let Some(baseline) = known.baseline(self.source, self.here) else { return Ok(()) };
        if known.told.as_deref() == Some(&baseline) {
            return Ok(());
        }
        let baseline = Arc::new(baseline);
        known.told = Some(baseline.clone());
        self.declares_other = true;
        self.send(Event::Baseline(baseline)).await
    }

    /// Tells that all others are gone, where they were told of.
    pub(super) async fn keep(&mut self, stays: impl Fn(&P) -> bool) -> Result<(), Closed> {
        let gone: Vec<P> = self.known.keys().filter(|place| !stays(place)).cloned().collect();
        for known in gone.iter().filter_map(|place| self.known.remove(place)).collect::<Vec<_>>() {
            if known.told.is_some() {
                info!(source = %self.source, baseline = %known.name, "A baseline is gone.");
                self.declares_other = true;
                self.send(Event::BaselineRemoved(self.source, known.name)).await?;
            }
        }
        Ok(())
    }

    /// Tells of those whose moment after somebody's work is over.
    pub(super) async fn settle(&mut self) -> Result<(), Closed> {
        let now = Instant::now();
        let over = self.known.iter().filter(|(_, known)| known.settled_at.is_some_and(|at| at <= now));
        for place in over.map(|(place, _)| place.clone()).collect::<Vec<_>>() {
            if let Some(known) = self.known.get_mut(&place) {
                known.settle();
            }
            self.tell(&place).await?;
        }
        Ok(())
    }

    /// Tells how the source fares and what is wanted, once all that is there has been told of. One that is switched off is gone.
    pub(super) async fn report(&mut self, enabled: bool, refusals: Vec<&Refusal>) -> Result<(), Closed> {
        if !self.known.values().all(|known| known.tried) {
            return Ok(());
        }
        let own = self.known.values().filter_map(|known| known.refusal.as_ref());
        let health = enabled.then(|| health(refusals.into_iter().chain(own)));
        if self.health != health {
            if let Some(WatchHealth::Down { reason, message }) = &health {
                warn!(source = %self.source, %reason, "Some baselines cannot be found: {message}");
            }
            self.health.clone_from(&health);
            self.send(match health {
                Some(health) => Event::SourceHealth(self.source, health),
                None => Event::SourceRemoved(self.source),
            })
            .await?;
        }
        if std::mem::take(&mut self.declares_other) {
            let good = self.known.values().filter_map(|known| known.good.as_ref());
            let declares = Declares::new(good.map(|good| (good.key.as_ref(), &*good.objects)));
            self.declares.send_replace(Arc::new(declares));
        }
        Ok(())
    }

    /// Whether it was told how the source fares.
    pub(super) fn has_reported(&self) -> bool {
        self.health.is_some()
    }

    /// Whether a baseline is called this.
    pub(super) fn is_taken(&self, name: &str) -> bool {
        self.known.values().any(|known| *known.name == *name)
    }

    /// One of these baselines that has to be read now.
    pub(super) fn next_due(&self, of: impl Fn(&P) -> bool) -> Option<P> {
        let now = Instant::now();
        let due = self.known.iter().filter(|(_, known)| known.read_at.is_some_and(|at| at <= now));
        let due = due.filter(|(place, _)| of(place));
        due.min_by_key(|(_, known)| known.read_at).map(|(place, _)| place.clone())
    }

    /// When the next one of these has to be read.
    pub(super) fn read_at(&self, of: impl Fn(&P) -> bool) -> Option<Instant> {
        self.known.iter().filter(|(place, _)| of(place)).filter_map(|(_, known)| known.read_at).min()
    }

    /// When the next moment after somebody's work is over.
    pub(super) fn settled_at(&self) -> Option<Instant> {
        self.known.values().filter_map(|known| known.settled_at).min()
    }

    async fn send(&self, change: Event) -> Result<(), Closed> {
        self.changes.send(change).await.map_err(|_| Closed)
    }
}

/// How soon something that is being written, or that the server did not give us, is looked at again.
pub(super) const SOON: Duration = Duration::from_secs(1);
/// How often something is looked at that stays torn, or has kinds that the cluster does not have.
pub(super) const SELDOM: Duration = Duration::from_secs(30);
/// For how long differences are put down to somebody who has just ended their work.
const SETTLING: Duration = Duration::from_secs(1);

/// What was read.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) version: BaselineVersion,
    pub(super) objects: Vec<Arc<DeclaredObject>>,
    pub(super) skipped: Vec<Skipped>,
    /// The key that a published baseline brings.
    pub(super) key: Option<RedactionKey>,
}

/// One baseline: a state, a release, a directory.
pub(super) struct Known<T> {
    pub(super) name: Arc<str>,
    origin: Origin,
    /// When to read it next; none: when something changes.
    pub(super) read_at: Option<Instant>,
    /// Whether anything came of reading it since it was found.
    pub(super) tried: bool,
    pub(super) good: Option<Reading>,
    pub(super) fault: Option<BaselineTrouble>,
    pub(super) refusal: Option<Refusal>,
    /// How long it was last waited after a refusal.
    pause: Duration,
    pub(super) lock: Option<Lock>,
    /// When the moment after somebody's work is over.
    pub(super) settled_at: Option<Instant>,
    pub(super) told: Option<Arc<Baseline>>,
    /// What nobody but its own source has to know about it.
    pub(super) own: T,
}

impl<T> Known<T> {
    pub(super) fn new(name: Arc<str>, origin: Origin, own: T) -> Self {
        Self {
            name,
            origin,
            read_at: None,
            tried: false,
            good: None,
            fault: None,
            refusal: None,
            pause: Duration::ZERO,
            lock: None,
            settled_at: None,
            told: None,
            own,
        }
    }

    /// It was read.
    pub(super) fn take_good(&mut self, reading: Reading) {
        (self.good, self.fault, self.tried, self.pause) = (Some(reading), None, true, Duration::ZERO);
    }

    /// It cannot be read. What it last declared stays.
    pub(super) fn take_fault(&mut self, trouble: BaselineTrouble) {
        if self.fault.as_ref() != Some(&trouble) {
            warn!(baseline = %self.name, fault = %trouble.fault, "{}", trouble.message);
        }
        (self.fault, self.tried) = (Some(trouble), true);
    }

    /// The server does not let us read it now. It is asked again, less and less often. The lock stays where it is: nobody has
    /// seen what was written under it.
    pub(super) fn take_refusal(&mut self, refusal: Refusal, now: Instant) {
        self.pause = (self.pause * 2).clamp(SOON, SELDOM);
        (self.refusal, self.read_at, self.tried) = (Some(refusal), Some(now + self.pause), true);
    }

    /// Objects that were changed may be told of after what declares them.
    pub(super) fn settle_for_a_moment(&mut self, now: Instant, time: Timestamp) {
        let until = SignedDuration::try_from(SETTLING).ok().and_then(|wait| time.checked_add(wait).ok());
        (self.lock, self.settled_at) = (Some(Lock::released(until)), Some(now + SETTLING));
    }

    /// The moment is over.
    pub(super) fn settle(&mut self) {
        (self.settled_at, self.lock) = (None, None);
    }

    /// Logs what is not compared and was before, or was not there.
    pub(super) fn log_skipped(&self, reading: &Reading) {
        let before = self.good.as_ref().map_or(&[][..], |good| &good.skipped);
        for skipped in reading.skipped.iter().filter(|own| !before.contains(own)) {
            let (document, reason) = (&skipped.address, skipped.reason);
            warn!(baseline = %self.name, %document, %reason, "Something that is declared is not compared.");
        }
    }

    /// What is to be told about it; none before anything is known.
    pub(super) fn baseline(&self, source: Source, here: bool) -> Option<Baseline> {
        if self.good.is_none() && self.fault.is_none() {
            return None;
        }
        let good = self.good.as_ref();
        Some(Baseline {
            source,
            name: self.name.clone(),
            origin: self.origin,
            version: good.map(|good| good.version.clone()),
            objects: good.map(|good| good.objects.clone()).unwrap_or_default(),
            skipped: good.map(|good| good.skipped.clone()).unwrap_or_default(),
            fault: self.fault.clone(),
            lock: self.lock.clone(),
            here,
        })
    }
}
