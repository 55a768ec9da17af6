//! What is known about one release, and when to look at it again.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use tracing::{info, warn};

use super::{
    place::Place,
    reading::{Outcome, Reading},
    standing::{Standing, Stored},
};
use crate::{
    baseline::{declare::DocumentReader, feed::Refusal},
    model::{Baseline, BaselineFault, BaselineTrouble, Lock, Source},
};

/// How soon what the server did not give us is looked at again.
const SOON: Duration = Duration::from_secs(1);
/// How often kinds are asked for that the cluster does not have.
const SELDOM: Duration = Duration::from_secs(30);
/// For how long differences are put down to an upgrade that has just ended.
const SETTLING: Duration = Duration::from_secs(1);

/// One release.
pub(super) struct Known {
    pub(super) name: Arc<str>,
    pub(super) reader: Option<DocumentReader>,
    /// The revision that is deployed, once one is.
    pub(super) stored: Option<Stored>,
    /// When to read it next; none: when something changes.
    pub(super) read_at: Option<Instant>,
    /// Whether anything came of reading it since it was found.
    pub(super) tried: bool,
    pub(super) good: Option<Box<Reading>>,
    pub(super) refusal: Option<Refusal>,
    pub(super) told: Option<Arc<Baseline>>,
    /// When the moment after an upgrade is over.
    pub(super) settled_at: Option<Instant>,
    fault: Option<BaselineTrouble>,
    lock: Option<Lock>,
    /// Whether whoever was at work has ended since it was last read.
    ended: bool,
    /// Whether it was there before anybody looked, so that its objects were too.
    stood: bool,
}

impl Known {
    pub(super) fn new(name: Arc<str>, stood: bool) -> Self {
        Self {
            name,
            reader: None,
            stored: None,
            read_at: None,
            tried: false,
            good: None,
            refusal: None,
            told: None,
            settled_at: None,
            fault: None,
            lock: None,
            ended: false,
            stood,
        }
    }

    /// It stands like this now. Where another revision is deployed, it is read before anything is told.
    /// Says whether there is something to tell at once.
    pub(super) fn see(&mut self, standing: Standing, place: &Place, now: Instant, time: Timestamp) -> bool {
        let lock = match standing {
            Standing::Deployed(stored, lock) => {
                if self.stored.as_ref() != Some(&stored) {
                    self.stored = Some(stored);
                    self.read_at = Some(now);
                }
                lock
            }
            Standing::Pending(lock) => {
                self.tried |= self.read_at.is_none();
                Some(lock)
            }
            Standing::NotDeployed => {
                (self.stored, self.read_at) = (None, None);
                if self.fault.as_ref().is_none_or(|own| own.fault != BaselineFault::NotDeployed) {
                    self.take_fault(BaselineFault::NotDeployed, place);
                    self.lock = None;
                    return true;
                }
                None
            }
            Standing::Ended => None,
        };
        match lock {
            Some(lock) if self.lock.as_ref() != Some(&lock) => {
                (self.lock, self.ended, self.settled_at) = (Some(lock), false, None);
                true
            }
            Some(_) => false,
            None => {
                let ends = self.lock.is_some() && self.settled_at.is_none() && !self.ended;
                self.ended |= ends;
                // What failed left the last revision deployed, and has nothing to read.
                if ends && self.read_at.is_none() {
                    self.settle_for_a_moment(now, time);
                }
                ends && self.read_at.is_none()
            }
        }
    }

    /// Takes what came of reading it.
    pub(super) fn take(&mut self, outcome: Outcome, place: &Place, now: Instant, time: Timestamp) {
        (self.read_at, self.refusal) = (None, None);
        let mut is_other = false;
        match outcome {
            Outcome::Read(reading) => {
                let before = self.good.as_ref().map(|good| &good.version);
                is_other = before.map_or(!self.stood, |before| *before != reading.version);
                self.log(&reading);
                if !reading.placed {
                    self.read_at = Some(now + SELDOM);
                }
                (self.good, self.fault) = (Some(reading), None);
            }
            Outcome::Fault(fault) => self.take_fault(fault, place),
            Outcome::Refused(refusal) => {
                // The lock stays where it is: nobody has seen what was deployed.
                (self.refusal, self.read_at, self.tried) = (Some(refusal), Some(now + SOON), true);
                return;
            }
            // What is known stands until the feed tells what became of it.
            Outcome::Moved => return,
        }
        self.tried = true;
        if is_other || self.ended {
            self.settle_for_a_moment(now, time);
        }
    }

    /// The moment after an upgrade is over.
    pub(super) fn settle(&mut self) {
        (self.settled_at, self.lock) = (None, None);
    }

    /// What is to be told about it; none before anything is known.
    pub(super) fn baseline(&self, place: &Place) -> Option<Baseline> {
        if self.good.is_none() && self.fault.is_none() {
            return None;
        }
        let good = self.good.as_ref();
        Some(Baseline {
            source: Source::Helm,
            name: self.name.clone(),
            origin: place.driver.origin(),
            version: good.map(|good| good.version.clone()),
            objects: good.map(|good| good.declared.objects.clone()).unwrap_or_default(),
            skipped: good.map(|good| good.declared.skipped.clone()).unwrap_or_default(),
            fault: self.fault.clone(),
            lock: self.lock.clone(),
            // Helm keeps releases in the cluster that it installs them in.
            here: true,
        })
    }

    /// Objects that were changed may be told of after the revision that declares them.
    fn settle_for_a_moment(&mut self, now: Instant, time: Timestamp) {
        let until = SignedDuration::try_from(SETTLING).ok().and_then(|wait| time.checked_add(wait).ok());
        (self.lock, self.settled_at) = (Some(Lock::released(until)), Some(now + SETTLING));
        self.ended = false;
    }

    /// It cannot be read. What it last declared stays.
    fn take_fault(&mut self, fault: BaselineFault, place: &Place) {
        let trouble = explain(fault, place);
        if self.fault.as_ref() != Some(&trouble) {
            warn!(release = %self.name, fault = %trouble.fault, "{}", trouble.message);
        }
        self.fault = Some(trouble);
        self.tried = true;
    }

    fn log(&self, reading: &Reading) {
        let (release, revision) = (&self.name, reading.version.serial);
        let objects = reading.declared.objects.len();
        let before = self.good.as_ref();
        match before {
            None => info!(%release, revision, objects, "A Helm release was found."),
            Some(good) if good.version != reading.version => {
                info!(%release, revision, objects, "Another revision of a Helm release is deployed.");
            }
            Some(_) => {}
        }
        let known = before.map_or(&[][..], |good| &good.declared.skipped);
        for skipped in reading.declared.skipped.iter().filter(|own| !known.contains(own)) {
            let (template, reason) = (&skipped.address, skipped.reason);
            warn!(%release, %template, %reason, "A document of a Helm release is not compared.");
        }
    }
}

/// A fault, and what people are told about it.
fn explain(fault: BaselineFault, place: &Place) -> BaselineTrouble {
    let object = place.driver.object();
    let again = "deploy it again (helm upgrade, or helm rollback)";
    let message = match fault {
        BaselineFault::Torn | BaselineFault::Truncated => {
            format!("the {object} of {place} ends too early; {again}")
        }
        BaselineFault::TooLarge => {
            format!("the {object} of {place} inflates to more than anything that is read; {again}")
        }
        BaselineFault::Foreign => {
            format!("the {object} of {place} holds another release, as if it was copied; delete it")
        }
        BaselineFault::NotDeployed => {
            format!("no revision of {place} is deployed; see helm history, and {again}")
        }
        BaselineFault::Encrypted | BaselineFault::UnsupportedVersion | BaselineFault::Unreadable => {
            format!("the {object} of {place} is no release of Helm 3, or a broken one; {again}")
        }
    };
    BaselineTrouble { fault, message: message.into() }
}
