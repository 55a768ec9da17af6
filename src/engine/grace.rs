//! Controllers may be at work, or behind, for some time; then it counts.

use std::collections::HashMap;

use jiff::Timestamp;

use super::{Engine, opinion::Presence, settle::Moment};
use crate::types::{Cause, ObjectKey, Record};

/// Objects about which nothing is said yet, by when something will be.
pub(super) type Resting = HashMap<ObjectKey, Timestamp>;

impl Engine {
    /// Remembers when to look at an object again.
    pub(super) fn note_rest(&mut self, key: &ObjectKey, presence: &Presence, now: Timestamp) {
        let until = match presence {
            Presence::Exists(object) => object.record().and_then(Record::rests_until),
            Presence::Absent | Presence::Unwatched | Presence::Unseen => None,
        };
        match until.filter(|until| now < *until) {
            Some(until) => drop(self.resting.insert(key.clone(), until)),
            None => drop(self.resting.remove(key)),
        }
    }

    /// Asks again about objects that have rested for long enough.
    pub(super) fn let_rests_end(&mut self, now: Timestamp) -> bool {
        let due: Vec<ObjectKey> =
            self.resting.iter().filter(|(_, until)| **until <= now).map(|(key, _)| key.clone()).collect();
        for key in &due {
            self.resting.remove(key);
        }
        let changed = !due.is_empty();
        // What has lasted while we watched begins to count now.
        self.settle_at(due, Moment { counted: true, cause: Cause::Rule, now });
        changed
    }
}
