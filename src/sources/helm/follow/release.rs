//! When to read a release, and what to make of it.

use jiff::Timestamp;
use tokio::time::Instant;
use tracing::info;

use super::{
    place::Place,
    reading::Outcome,
    standing::{Standing, Stored},
};
use crate::{
    sources::{
        aside::Placed,
        declare::DocumentReader,
        known::{Known, Reading, SELDOM},
    },
    types::{BaselineFault, BaselineTrouble},
};

/// What only releases have.
#[derive(Default)]
pub(super) struct Release {
    pub(super) reader: Option<DocumentReader>,
    /// The revision that is deployed, once one is.
    pub(super) stored: Option<Stored>,
    /// Whether whoever was at work has ended since it was last read.
    ended: bool,
    /// Whether it was there before anybody looked, so that its objects were too.
    stood: bool,
}

impl Release {
    pub(super) fn new(stood: bool) -> Self {
        Self { stood, ..Self::default() }
    }
}

impl Known<Release> {
    /// It stands like this now. Where another revision is deployed, it is read before anything is told.
    /// Says whether there is something to tell at once.
    pub(super) fn see(&mut self, standing: Standing, place: &Place, now: Instant, time: Timestamp) -> bool {
        let lock = match standing {
            Standing::Deployed(stored, lock) => {
                if self.own.stored.as_ref() != Some(&stored) {
                    self.own.stored = Some(stored);
                    self.read_at = Some(now);
                }
                lock
            }
            Standing::Pending(lock) => {
                self.tried |= self.read_at.is_none();
                Some(lock)
            }
            Standing::NotDeployed => {
                (self.own.stored, self.read_at) = (None, None);
                if self.fault.as_ref().is_none_or(|own| own.fault != BaselineFault::NotDeployed) {
                    self.take_fault(explain(BaselineFault::NotDeployed, place));
                    self.lock = None;
                    return true;
                }
                None
            }
        };
        match lock {
            Some(lock) if self.lock.as_ref() != Some(&lock) => {
                (self.lock, self.own.ended, self.settled_at) = (Some(lock), false, None);
                true
            }
            Some(_) => false,
            None => {
                let ends = self.lock.is_some() && self.settled_at.is_none() && !self.own.ended;
                self.own.ended |= ends;
                // What failed left the last revision deployed, and has nothing to read.
                let settles = ends && self.read_at.is_none();
                if settles {
                    self.wait(now, time);
                }
                settles
            }
        }
    }

    /// Takes what came of reading it.
    pub(super) fn take(&mut self, outcome: Outcome, place: &Place, now: Instant, time: Timestamp) {
        (self.read_at, self.refusal) = (None, None);
        let mut is_other = false;
        match outcome {
            Outcome::Read(Placed { reading, is_sure, refusal }) => {
                let before = self.good.as_ref().map(|good| &good.version);
                is_other = before.map_or(!self.own.stood, |before| *before != reading.version);
                self.log(&reading);
                if !is_sure {
                    self.read_at = Some(now + SELDOM);
                }
                self.take_good(reading);
                self.refusal = refusal;
            }
            Outcome::Fault(fault) => self.take_fault(explain(fault, place)),
            Outcome::Refused(refusal) => return self.take_refusal(refusal, now),
            // What is known stands until the feed tells what became of it. Those who look once wait for nothing more.
            Outcome::Moved => {
                self.tried = true;
                return;
            }
        }
        // Who is at work by now holds on.
        let is_held = self.lock.is_some() && self.settled_at.is_none() && !self.own.ended;
        if (is_other || self.own.ended) && !is_held {
            self.wait(now, time);
        }
    }

    fn wait(&mut self, now: Instant, time: Timestamp) {
        self.settle_for_a_moment(now, time);
        self.own.ended = false;
    }

    fn log(&self, reading: &Reading) {
        let (release, revision) = (&self.name, reading.version.serial);
        let objects = reading.objects.len();
        match &self.good {
            None => info!(%release, revision, objects, "A Helm release was found."),
            Some(good) if good.version != reading.version => {
                info!(%release, revision, objects, "Another revision of a Helm release is deployed.");
            }
            Some(_) => {}
        }
        self.log_skipped(reading);
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
