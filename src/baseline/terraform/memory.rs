//! What was made of the resources of a state when it was last read.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
};

use crate::model::{BaselineFault, DeclaredObject, Skipped};

/// What was made of one resource.
#[derive(Clone)]
pub(super) enum Made {
    Object(Arc<DeclaredObject>),
    Skipped(Skipped),
    /// It is on its way out, and nothing is declared by it.
    Nothing,
}

/// What was made of each resource, by a hash of its text. Most of a state is the same when it is read again.
#[derive(Default)]
pub(super) struct Memory {
    hasher: RandomState,
    last: HashMap<u64, Made>,
    /// What belongs to the version that is being read.
    next: HashMap<u64, Made>,
}

impl Memory {
    /// What was made of these texts, or is made now.
    pub(super) fn recall(
        &mut self,
        texts: &[&str],
        anew: impl FnOnce() -> Result<Made, BaselineFault>,
    ) -> Result<Made, BaselineFault> {
        let hash = self.hasher.hash_one(texts);
        let made = match self.last.get(&hash) {
            Some(made) => made.clone(),
            None => anew()?,
        };
        self.next.insert(hash, made.clone());
        Ok(made)
    }

    /// The version was read to its end: what is not in it is forgotten.
    pub(super) fn turn(&mut self) {
        self.last = std::mem::take(&mut self.next);
    }

    /// The version could not be read to its end: what was known before still is.
    pub(super) fn give_up(&mut self) {
        self.next.clear();
    }
}
