//! What was made of the parts of a baseline when it was last read.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
};

use crate::types::{BaselineFault, DeclaredObject, Skipped};

/// What was made of one part: a resource of a state, a document of a manifest.
#[derive(Clone)]
pub(super) enum Made {
    Object(Arc<DeclaredObject>),
    Skipped(Skipped),
    /// It is on its way out, and nothing is declared by it.
    Nothing,
}

/// What was made of each part, by a hash of its text. Most of a baseline is the same when it is read again.
pub(super) struct Memory<M = Made> {
    hasher: RandomState,
    last: HashMap<u64, M>,
    /// What belongs to the version that is being read.
    next: HashMap<u64, M>,
}

impl<M> Default for Memory<M> {
    fn default() -> Self {
        Self { hasher: RandomState::new(), last: HashMap::new(), next: HashMap::new() }
    }
}

impl<M: Clone> Memory<M> {
    /// What was made of these texts, or is made now.
    pub(super) fn recall(
        &mut self,
        texts: &[&str],
        anew: impl FnOnce() -> Result<M, BaselineFault>,
    ) -> Result<M, BaselineFault> {
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
