//! What is known about one state, and when to look at it again.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use tracing::{info, warn};

use super::{
    super::state::StateReader,
    lock::changes_objects,
    place::Place,
    reading::{Outcome, Reading},
    trouble::{explain, not_opened},
};
use crate::{
    baseline::feed::Refusal,
    model::{Baseline, BaselineFault, BaselineTrouble, Lock, Source},
};

/// Terraform writes part by part. What is torn for less than this is being written.
const WRITING: Duration = Duration::from_secs(5);
/// How soon something that is being written, or that the server did not give us, is looked at again.
const SOON: Duration = Duration::from_secs(1);
/// How often a state that stays torn is looked at, beside when something changes.
const SELDOM: Duration = Duration::from_secs(30);
/// For how long differences are put down to an apply that has just ended.
const SETTLING: Duration = Duration::from_secs(1);

/// One state.
pub(super) struct Known {
    pub(super) name: Arc<str>,
    pub(super) reader: Option<StateReader>,
    /// When to read it next; none: when something changes.
    pub(super) read_at: Option<Instant>,
    /// Whether anything came of reading it since it was found.
    pub(super) tried: bool,
    pub(super) good: Option<Reading>,
    pub(super) refusal: Option<Refusal>,
    pub(super) told: Option<Arc<Baseline>>,
    fault: Option<BaselineTrouble>,
    /// Since when it is torn, where it is.
    torn_since: Option<Instant>,
    lock: Option<Lock>,
    /// Whether the lock was released and the state not read since.
    releasing: bool,
    /// When the moment after a release is over.
    pub(super) settled_at: Option<Instant>,
}

impl Known {
    pub(super) fn new(name: Arc<str>) -> Self {
        Self {
            name,
            reader: None,
            read_at: None,
            tried: false,
            good: None,
            refusal: None,
            told: None,
            fault: None,
            torn_since: None,
            lock: None,
            releasing: false,
            settled_at: None,
        }
    }

    /// Somebody holds the lock, or nobody. Where it was released, the state is read before anything is told.
    /// Says whether there is something to tell at once.
    pub(super) fn take_lock(&mut self, lock: Option<Lock>, now: Instant) -> bool {
        if lock.is_some() {
            let news = lock != self.lock;
            (self.lock, self.releasing, self.settled_at) = (lock, false, None);
            return news;
        }
        if self.lock.is_some() && !self.releasing && self.settled_at.is_none() {
            self.releasing = true;
            self.read_at = Some(now);
        }
        false
    }

    /// Takes what came of reading it.
    pub(super) fn take(&mut self, outcome: Outcome, place: &Place, now: Instant, time: Timestamp) {
        self.read_at = None;
        self.refusal = None;
        // Who writes a file anew empties it first; only what never was anything may be nothing.
        let was_something = self.good.as_ref().is_some_and(|good| !good.is_blank());
        let outcome = match outcome {
            Outcome::Read(reading) if reading.is_blank() && was_something => {
                Outcome::Fault(BaselineFault::Truncated)
            }
            outcome => outcome,
        };
        match outcome {
            Outcome::Read(reading) => {
                self.log(&reading);
                (self.good, self.fault, self.torn_since) = (Some(reading), None, None);
            }
            Outcome::Fault(fault) => {
                if passes(fault) {
                    let since = *self.torn_since.get_or_insert(now);
                    self.read_at = Some(now + if now < since + WRITING { SOON } else { SELDOM });
                    if now < since + WRITING {
                        return;
                    }
                }
                self.take_fault(explain(fault, place));
            }
            Outcome::NotOpened(why) => self.take_fault(not_opened(place, &why)),
            Outcome::Refused(refusal) => {
                // The lock stays where it is: nobody has seen what was written before it was released.
                self.refusal = Some(refusal);
                self.read_at = Some(now + SOON);
                self.tried = true;
                return;
            }
            Outcome::Absent => {}
        }
        self.tried = true;
        if std::mem::take(&mut self.releasing) {
            let applied = self.lock.take().is_some_and(|lock| changes_objects(&lock.operation));
            if applied {
                let until =
                    SignedDuration::try_from(SETTLING).ok().and_then(|wait| time.checked_add(wait).ok());
                self.lock = Some(Lock::released(until));
                self.settled_at = Some(now + SETTLING);
            }
        }
    }

    /// It cannot be read. What it last declared stays.
    pub(super) fn take_fault(&mut self, trouble: BaselineTrouble) {
        if self.fault.as_ref() != Some(&trouble) {
            warn!(state = %self.name, fault = %trouble.fault, "{}", trouble.message);
        }
        self.fault = Some(trouble);
        self.tried = true;
    }

    /// The moment after a release is over.
    pub(super) fn settle(&mut self) {
        (self.settled_at, self.lock) = (None, None);
    }

    /// What is to be told about it; none before anything is known.
    pub(super) fn baseline(&self, place: &Place, here: bool) -> Option<Baseline> {
        if self.good.is_none() && self.fault.is_none() {
            return None;
        }
        let good = self.good.as_ref();
        Some(Baseline {
            source: Source::Terraform,
            name: self.name.clone(),
            origin: place.origin(),
            version: good.map(|good| good.version.clone()),
            objects: good.map(|good| good.objects.clone()).unwrap_or_default(),
            skipped: good.map(|good| good.skipped.clone()).unwrap_or_default(),
            fault: self.fault.clone(),
            lock: self.lock.clone(),
            here,
        })
    }

    fn log(&self, reading: &Reading) {
        let (state, version, resources) = (&self.name, &reading.version, reading.objects.len());
        let serial = version.serial;
        match self.good.as_ref().map(|good| &good.version) {
            None => info!(%state, serial, resources, "A Terraform state was found."),
            Some(before) if before.lineage == version.lineage && before.serial > serial => {
                warn!(%state, serial, before = before.serial, resources, "A Terraform state went back to an earlier serial.");
            }
            Some(before) if *before != *version => {
                info!(%state, serial, resources, "A Terraform state changed.");
            }
            Some(_) => {}
        }
    }
}

/// Whether a fault may be that of something half written: a state that begins to need a second part ends too early until then.
fn passes(fault: BaselineFault) -> bool {
    match fault {
        BaselineFault::Torn | BaselineFault::Truncated => true,
        BaselineFault::TooLarge
        | BaselineFault::Encrypted
        | BaselineFault::UnsupportedVersion
        | BaselineFault::Unreadable
        | BaselineFault::Foreign
        | BaselineFault::NotDeployed => false,
    }
}
