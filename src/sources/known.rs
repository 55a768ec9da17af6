//! What is known about one baseline, and when to look at it again.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use tracing::warn;

use super::feed::Refusal;
use crate::types::{
    Baseline, BaselineTrouble, BaselineVersion, DeclaredObject, Lock, Origin, RedactionKey, Skipped, Source,
};

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
