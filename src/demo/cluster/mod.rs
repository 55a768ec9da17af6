//! A small API server for a few kinds: no server-side apply, no admission, no etcd.
//!
//! Everything is in memory. Writes go through [`Cluster`]; who asks over HTTP comes in by [`router`]. `objects` of one
//! moment and events after it come from the same log, so a list and the watch that follows it never miss a write.

mod check;
mod defaults;
mod discovery;
mod inside;
mod list;
mod names;
mod owners;
mod patch;
mod query;
mod refusal;
mod resource;
mod routes;
mod scale;
mod schema;
mod selector;
mod sent;
mod store;
mod strategic;
mod style;
mod table;
mod watch;
mod write;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::watch as latest;

use self::store::Store;
use crate::types::{Clock, Kind};

pub use refusal::Refusal;
pub use routes::router;
pub(super) use write::uid;

/// An embedded cluster. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Cluster(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    store: Mutex<Store>,
    /// The version of the newest write, for those who wait for the next one.
    newest: latest::Sender<u64>,
    clock: Clock,
}

impl Cluster {
    /// A cluster without objects.
    pub fn new(clock: Clock) -> Self {
        Self(Arc::new(Shared { store: Mutex::default(), newest: latest::Sender::new(0), clock }))
    }

    /// The same objects under another clock.
    pub(in crate::demo) fn in_time_of(&self, clock: Clock) -> Self {
        let store = std::mem::take(&mut *self.lock());
        Self(Arc::new(Shared {
            newest: latest::Sender::new(store.version()),
            store: Mutex::new(store),
            clock,
        }))
    }

    /// What time it is there, to the second, as objects have it.
    pub(in crate::demo) fn now(&self) -> Timestamp {
        let now = self.0.clock.now();
        Timestamp::from_second(now.as_second()).unwrap_or(now)
    }

    /// Forgets what happened so far: watches that ask for older versions are answered with 410.
    pub fn forget(&self) {
        self.change(Store::compact);
    }

    /// The namespaces and names of the objects of a kind.
    pub(super) fn names(&self, kind: &Kind) -> Vec<(Box<str>, Box<str>)> {
        let objects = self.lock().objects(&kind.to_string());
        objects.into_keys().map(|key| (key.namespace, key.name)).collect()
    }

    /// The objects of a kind, by namespace and name.
    pub fn objects(&self, kind: &Kind) -> BTreeMap<(Box<str>, Box<str>), Value> {
        let objects = self.lock().objects(&kind.to_string());
        objects.into_iter().map(|(key, stored)| ((key.namespace, key.name), stored.value())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        // A write is put together before it is stored: a panic leaves nothing half done.
        self.0.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the store, and wakes those who watch.
    fn change<T>(&self, change: impl FnOnce(&mut Store) -> T) -> T {
        let mut store = self.lock();
        let result = change(&mut store);
        let version = store.version();
        drop(store);
        self.0.newest.send_if_modified(|newest| {
            let news = version > *newest;
            *newest = version.max(*newest);
            news
        });
        result
    }
}
