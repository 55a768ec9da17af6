//! What the feeds have shown so far.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    super::chunks::{group_chunks, part_of},
    StateSources,
    place::{Place, SecretName},
};
use crate::sources::feed::{Entry, Feed, Notice, Objects, Refusal, Shown};

/// What the feeds of this source are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FeedOf {
    States,
    Locks,
    Published,
}

/// The feeds that these settings want.
pub(super) fn feeds(sources: &StateSources) -> Vec<Feed<FeedOf>> {
    if !sources.enabled {
        return Vec::new();
    }
    let published = format!("{}/baseline=true", sources.prefix);
    [
        Feed::within(&sources.scope, FeedOf::States, Objects::Secrets, "tfstate=true"),
        Feed::within(&sources.scope, FeedOf::Locks, Objects::Leases, "tfstate=true"),
        Feed::within(&sources.scope, FeedOf::Published, Objects::Secrets, &published),
    ]
    .concat()
}

/// What there is, as far as the feeds have shown it.
pub(super) struct Seen {
    shown: Shown<FeedOf>,
}

/// The Secrets of one state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Group {
    /// Their names and versions: another one means another state.
    pub(super) versions: Vec<(Box<str>, Box<str>)>,
    /// The labels that all of them have.
    pub(super) labels: BTreeMap<String, String>,
}

impl Seen {
    pub(super) fn new(sources: &StateSources) -> Self {
        Self { shown: Shown::new(feeds(sources)) }
    }

    pub(super) fn take(&mut self, notice: Notice<FeedOf>) {
        self.shown.take(notice);
    }

    /// Whether every feed has said something.
    pub(super) fn all_answered(&self) -> bool {
        self.shown.all_answered()
    }

    /// What does not work.
    pub(super) fn refusals(&self) -> impl Iterator<Item = &Refusal> {
        self.shown.refusals()
    }

    /// Whether it is known what there is where this place is, so that it is gone if it is not there.
    pub(super) fn is_known(&self, place: &Place) -> bool {
        match place {
            Place::State(secret) => self.shown.is_listed(FeedOf::States, &secret.namespace),
            Place::Published(secret) => self.shown.is_listed(FeedOf::Published, &secret.namespace),
            Place::File(_) => false,
        }
    }

    /// Whether it is known who holds locks in a namespace.
    pub(super) fn knows_locks(&self, namespace: &str) -> bool {
        self.shown.is_listed(FeedOf::Locks, namespace)
    }

    /// All states and published baselines.
    pub(super) fn groups(&self, sources: &StateSources) -> BTreeMap<Place, Group> {
        let mut groups = BTreeMap::new();
        for of in [FeedOf::States, FeedOf::Published] {
            let entries = |namespace: &str| {
                self.shown.entries(of).filter(move |entry| *entry.namespace == *namespace).collect::<Vec<_>>()
            };
            let namespaces: BTreeSet<&str> = self.shown.entries(of).map(|entry| &*entry.namespace).collect();
            for namespace in namespaces.into_iter().filter(|namespace| sources.scope.has(namespace)) {
                let entries = entries(namespace);
                for state in group_chunks(entries.iter().map(|entry| &*entry.name)) {
                    let own = |entry: &&&Entry| state.parts.iter().flatten().any(|part| *part == entry.name);
                    let group = group(&entries.iter().filter(own).copied().collect::<Vec<_>>());
                    let secret = SecretName { namespace: namespace.into(), name: state.name };
                    if of == FeedOf::States {
                        groups.insert(Place::State(secret), group);
                    } else if part_of(&secret.name).is_none() {
                        // A part without its beginning is what somebody forgot to delete.
                        groups.insert(Place::Published(secret), group);
                    }
                }
            }
        }
        groups
    }

    /// The lock of a state, where somebody holds it.
    pub(super) fn lock_of(&self, secret: &SecretName) -> Option<&Entry> {
        let name = format!("lock-{}", secret.name);
        let own = |entry: &&Entry| *entry.name == *name && entry.namespace == secret.namespace;
        self.shown.entries(FeedOf::Locks).find(own).filter(|entry| entry.held.is_some())
    }
}

fn group(entries: &[&Entry]) -> Group {
    let versions = entries.iter().map(|entry| (entry.name.clone(), entry.version.clone())).collect();
    let Some((first, others)) = entries.split_first() else { return Group::default() };
    let mut labels = first.labels.clone();
    labels.retain(|name, value| others.iter().all(|other| other.labels.get(name) == Some(value)));
    Group { versions, labels }
}
