//! When to read a state, and what to make of it.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use tracing::{info, warn};

use super::{
    super::state::StateReader,
    files::Stamp,
    lock::changes_objects,
    place::Place,
    reading::Outcome,
    seen::Group,
    trouble::{explain, not_opened},
};
use crate::{
    sources::known::{Known, Reading, SELDOM, SOON},
    types::{BaselineFault, Lock},
};

/// Terraform writes part by part. What is torn for less than this is being written.
const WRITING: Duration = Duration::from_secs(5);

/// What only states have.
#[derive(Default)]
pub(super) struct State {
    pub(super) reader: Option<StateReader>,
    /// By what it was seen to be another one.
    pub(super) version: Option<Version>,
    /// Since when it is torn, where it is.
    torn_since: Option<Instant>,
    /// Whether the lock was released and the state not read since.
    releasing: bool,
}

/// What tells that a state has to be read again.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Version {
    Secrets(Group),
    File(Stamp),
}

impl Known<State> {
    /// It was seen as it is now.
    pub(super) fn see(&mut self, version: Version) {
        if self.own.version.as_ref() != Some(&version) {
            self.own.version = Some(version);
            self.read_at = Some(Instant::now());
        }
    }

    /// Somebody holds the lock, or nobody. Where it was released, the state is read before anything is told.
    /// Says whether there is something to tell at once.
    pub(super) fn take_lock(&mut self, lock: Option<Lock>, now: Instant) -> bool {
        if lock.is_some() {
            let news = lock != self.lock;
            (self.lock, self.own.releasing, self.settled_at) = (lock, false, None);
            return news;
        }
        if self.lock.is_some() && !self.own.releasing && self.settled_at.is_none() {
            self.own.releasing = true;
            self.read_at = Some(now);
        }
        false
    }

    /// Takes what came of reading it.
    pub(super) fn take(&mut self, outcome: Outcome, place: &Place, now: Instant, time: Timestamp) {
        (self.read_at, self.refusal) = (None, None);
        // Who writes a file anew empties it first; only what never was anything may be nothing.
        let was_something = self.good.as_ref().is_some_and(|good| !is_blank(good));
        let outcome = match outcome {
            Outcome::Read(reading) if is_blank(&reading) && was_something => {
                Outcome::Fault(BaselineFault::Truncated)
            }
            outcome => outcome,
        };
        match outcome {
            Outcome::Read(reading) => {
                self.log(&reading);
                self.take_good(reading);
                self.own.torn_since = None;
            }
            Outcome::Fault(fault) => {
                if passes(fault) {
                    let since = *self.own.torn_since.get_or_insert(now);
                    self.read_at = Some(now + if now < since + WRITING { SOON } else { SELDOM });
                    if now < since + WRITING {
                        return;
                    }
                }
                self.take_fault(explain(fault, place));
            }
            Outcome::NotOpened(why) => self.take_fault(not_opened(place, &why)),
            Outcome::Refused(refusal) => return self.take_refusal(refusal, now),
            Outcome::Absent => {}
        }
        self.tried = true;
        if std::mem::take(&mut self.own.releasing) {
            let applied = self.lock.take().is_some_and(|lock| changes_objects(&lock.operation));
            if applied {
                self.settle_for_a_moment(now, time);
            }
        }
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

/// Whether it is what there is before the first state was written.
fn is_blank(reading: &Reading) -> bool {
    reading.version.lineage.is_empty() && reading.objects.is_empty() && reading.skipped.is_empty()
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
