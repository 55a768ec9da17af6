//! What the feeds have shown so far.

use std::collections::BTreeMap;

use super::{Entry, Feed, Notice, Refusal};

/// What there is, as far as feeds have shown it.
pub(in crate::sources) struct Shown<Of> {
    feeds: BTreeMap<Feed<Of>, Part>,
}

type EntryKey = (Box<str>, Box<str>);

/// What one feed has shown.
#[derive(Default)]
struct Part {
    /// By namespace and name; none before the first list.
    entries: Option<BTreeMap<EntryKey, Entry>>,
    refusal: Option<Refusal>,
}

impl<Of: Copy + Ord> Shown<Of> {
    /// Nothing yet of these feeds.
    pub(in crate::sources) fn new(feeds: Vec<Feed<Of>>) -> Self {
        Self { feeds: feeds.into_iter().map(|feed| (feed, Part::default())).collect() }
    }

    pub(in crate::sources) fn take(&mut self, notice: Notice<Of>) {
        match notice {
            Notice::Listed(feed, entries) => {
                let entries = entries.into_iter().map(|entry| (key(&entry), entry)).collect();
                self.feeds.insert(feed, Part { entries: Some(entries), refusal: None });
            }
            Notice::Seen(feed, entry) => {
                let part = self.feeds.entry(feed).or_default();
                part.entries.get_or_insert_default().insert(key(&entry), entry);
            }
            Notice::Gone(feed, entry) => {
                let part = self.feeds.entry(feed).or_default();
                part.entries.get_or_insert_default().remove(&key(&entry));
            }
            Notice::Failed(feed, refusal) => self.feeds.entry(feed).or_default().refusal = Some(refusal),
        }
    }

    /// Whether every feed has said something.
    pub(in crate::sources) fn all_answered(&self) -> bool {
        self.feeds.values().all(|part| part.entries.is_some() || part.refusal.is_some())
    }

    /// What does not work.
    pub(in crate::sources) fn refusals(&self) -> impl Iterator<Item = &Refusal> {
        self.feeds.values().filter_map(|part| part.refusal.as_ref())
    }

    /// Whether it is known what there is in a namespace.
    pub(in crate::sources) fn is_listed(&self, of: Of, namespace: &str) -> bool {
        let covers = |feed: &Feed<Of>| feed.namespace.as_deref().is_none_or(|own| own == namespace);
        self.feeds.iter().any(|(feed, part)| feed.of == of && covers(feed) && part.entries.is_some())
    }

    /// All that there is of something.
    pub(in crate::sources) fn entries(&self, of: Of) -> impl Iterator<Item = &Entry> {
        let feeds = self.feeds.iter().filter(move |(feed, _)| feed.of == of);
        feeds.flat_map(|(_, part)| part.entries.iter().flat_map(BTreeMap::values))
    }
}

fn key(entry: &Entry) -> EntryKey {
    (entry.namespace.clone(), entry.name.clone())
}
