//! What the feeds have shown so far.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    super::chunks::{group_chunks, part_of},
    StateSources,
    feed::{Entry, Feed, FeedOf, Notice, feeds},
    place::{Place, SecretName},
    trouble::Refusal,
};

/// What there is, as far as the feeds have shown it.
pub(super) struct Seen {
    feeds: BTreeMap<Feed, Shown>,
}

type EntryKey = (Box<str>, Box<str>);

#[derive(Default)]
struct Shown {
    /// By namespace and name; none before the first list.
    entries: Option<BTreeMap<EntryKey, Entry>>,
    refusal: Option<Refusal>,
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
        Self { feeds: feeds(sources).into_iter().map(|feed| (feed, Shown::default())).collect() }
    }

    pub(super) fn take(&mut self, notice: Notice) {
        match notice {
            Notice::Listed(feed, entries) => {
                let entries = entries.into_iter().map(|entry| (key(&entry), entry)).collect();
                self.feeds.insert(feed, Shown { entries: Some(entries), refusal: None });
            }
            Notice::Seen(feed, entry) => {
                let shown = self.feeds.entry(feed).or_default();
                shown.entries.get_or_insert_default().insert(key(&entry), entry);
            }
            Notice::Gone(feed, entry) => {
                let shown = self.feeds.entry(feed).or_default();
                shown.entries.get_or_insert_default().remove(&key(&entry));
            }
            Notice::Failed(feed, refusal) => self.feeds.entry(feed).or_default().refusal = Some(refusal),
        }
    }

    /// Whether every feed has said something.
    pub(super) fn all_answered(&self) -> bool {
        self.feeds.values().all(|shown| shown.entries.is_some() || shown.refusal.is_some())
    }

    /// What does not work.
    pub(super) fn refusals(&self) -> impl Iterator<Item = &Refusal> {
        self.feeds.values().filter_map(|shown| shown.refusal.as_ref())
    }

    /// Whether it is known what there is where this place is, so that it is gone if it is not there.
    pub(super) fn is_known(&self, place: &Place) -> bool {
        match place {
            Place::State(secret) => self.is_listed(FeedOf::States, &secret.namespace),
            Place::Published(secret) => self.is_listed(FeedOf::Published, &secret.namespace),
            Place::File(_) => false,
        }
    }

    /// Whether it is known who holds locks in a namespace.
    pub(super) fn knows_locks(&self, namespace: &str) -> bool {
        self.is_listed(FeedOf::Locks, namespace)
    }

    fn is_listed(&self, of: FeedOf, namespace: &str) -> bool {
        let covers = |feed: &Feed| feed.namespace.as_deref().is_none_or(|own| own == namespace);
        self.feeds.iter().any(|(feed, shown)| feed.of == of && covers(feed) && shown.entries.is_some())
    }

    /// All states and published baselines.
    pub(super) fn groups(&self, sources: &StateSources) -> BTreeMap<Place, Group> {
        let mut groups = BTreeMap::new();
        for of in [FeedOf::States, FeedOf::Published] {
            let entries = |namespace: &str| {
                self.entries(of).filter(move |entry| *entry.namespace == *namespace).collect::<Vec<_>>()
            };
            let namespaces: BTreeSet<&str> = self.entries(of).map(|entry| &*entry.namespace).collect();
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
        self.entries(FeedOf::Locks).find(own).filter(|entry| entry.held.is_some())
    }

    fn entries(&self, of: FeedOf) -> impl Iterator<Item = &Entry> {
        let feeds = self.feeds.iter().filter(move |(feed, _)| feed.of == of);
        feeds.flat_map(|(_, shown)| shown.entries.iter().flat_map(BTreeMap::values))
    }
}

fn key(entry: &Entry) -> EntryKey {
    (entry.namespace.clone(), entry.name.clone())
}

fn group(entries: &[&Entry]) -> Group {
    let versions = entries.iter().map(|entry| (entry.name.clone(), entry.version.clone())).collect();
    let Some((first, others)) = entries.split_first() else { return Group::default() };
    let mut labels = first.labels.clone();
    labels.retain(|name, value| others.iter().all(|other| other.labels.get(name) == Some(value)));
    Group { versions, labels }
}
