//! Objects, versions, and the log of what happened to them.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use serde_json::{Value, json};

use super::resource::Resource;

/// How many events are remembered, and how many bytes of text; whoever wants older ones has to list again.
const REMEMBERED: usize = 4096;
const REMEMBERED_BYTES: usize = 1 << 20;

/// The place of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// `deployments.apps`.
    pub(super) resource: Box<str>,
    pub(super) namespace: Box<str>,
    pub(super) name: Box<str>,
}

impl Key {
    pub(super) fn new(resource: &Resource, namespace: &str, name: &str) -> Self {
        Self { resource: resource.qualified().into(), namespace: namespace.into(), name: name.into() }
    }
}

/// An object as it was at one version. It is kept as text, which takes a tenth of the memory, is written once however many
/// read it, and is rarely needed as anything else.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) text: Box<str>,
    /// What selectors ask for, with the metadata around it; text, too, since there are thousands of them.
    selectable: Box<str>,
}

impl Stored {
    pub(super) fn new(value: &Value) -> Arc<Self> {
        let own = &value["metadata"];
        let metadata = json!({"name": own["name"], "namespace": own["namespace"], "labels": own["labels"]});
        let selectable = json!({"metadata": metadata}).to_string();
        Arc::new(Self { text: value.to_string().into(), selectable: selectable.into() })
    }

    /// What selectors ask for, with the metadata around it.
    pub(super) fn selectable(&self) -> Value {
        serde_json::from_str(&self.selectable).expect("it was written from a value")
    }

    /// The object itself.
    pub(super) fn value(&self) -> Value {
        serde_json::from_str(&self.text).expect("it was written from a value")
    }
}

/// One write. An object that appeared has no `before`, one that went no `after`.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) version: u64,
    pub(super) key: Key,
    pub(super) before: Option<Arc<Stored>>,
    pub(super) after: Option<Arc<Stored>>,
}

impl Event {
    /// How much text it keeps from being forgotten, at most.
    fn weight(&self) -> usize {
        self.before.iter().chain(&self.after).map(|stored| stored.text.len()).sum()
    }

    /// The object as it was, with the version of its end: what those are told who see it go.
    pub(super) fn farewell(&self) -> Option<Arc<Stored>> {
        self.before.as_ref().map(|before| farewell(before, self.version))
    }
}

/// The version is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Forgotten {
    /// The oldest version that is not.
    pub(super) oldest: u64,
}

/// All objects of a cluster.
#[derive(Debug, Default)]
pub(super) struct Store {
    version: u64,
    objects: BTreeMap<Key, Arc<Stored>>,
    log: VecDeque<Arc<Event>>,
    /// The weight of the log.
    weight: usize,
    /// Events up to this version are forgotten.
    compacted: u64,
}

impl Store {
    /// The version of the newest write.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Arc<Stored>> {
        self.objects.get(key)
    }

    /// Everything that is in a namespace.
    pub(super) fn keys_in(&self, namespace: &str) -> Vec<Key> {
        self.objects.keys().filter(|key| &*key.namespace == namespace).cloned().collect()
    }

    /// The objects of a resource at this moment, in order of namespace and name.
    pub(super) fn objects(&self, resource: &str) -> BTreeMap<Key, Arc<Stored>> {
        let own = self.objects.iter().filter(|(key, _)| &*key.resource == resource);
        own.map(|(key, stored)| (key.clone(), stored.clone())).collect()
    }

    /// The objects of a resource as they were at an earlier version: everything since is undone.
    pub(super) fn objects_at(
        &self,
        resource: &str,
        version: u64,
    ) -> Result<BTreeMap<Key, Arc<Stored>>, Forgotten> {
        let mut objects = self.objects(resource);
        for event in
            self.events_after(version)?.into_iter().rev().filter(|event| &*event.key.resource == resource)
        {
            match &event.before {
                Some(before) => objects.insert(event.key.clone(), before.clone()),
                None => objects.remove(&event.key),
            };
        }
        Ok(objects)
    }

    /// What happened after a version, oldest first.
    pub(super) fn events_after(&self, version: u64) -> Result<Vec<Arc<Event>>, Forgotten> {
        if version < self.compacted {
            return Err(Forgotten { oldest: self.compacted });
        }
        let newer = self.log.iter().rev().take_while(|event| event.version > version);
        let mut events: Vec<_> = newer.cloned().collect();
        events.reverse();
        Ok(events)
    }

    /// Creates or replaces an object, which gets the next version.
    pub(super) fn put(&mut self, key: Key, mut value: Value) -> Arc<Stored> {
        self.version += 1;
        set_version(&mut value, self.version);
        let after = Stored::new(&value);
        let before = self.objects.insert(key.clone(), after.clone());
        self.remember(Event { version: self.version, key, before, after: Some(after.clone()) });
        after
    }

    /// Removes an object; what remains to be said of it, with the version of its end.
    pub(super) fn remove(&mut self, key: &Key) -> Option<Arc<Stored>> {
        let before = self.objects.remove(key)?;
        self.version += 1;
        let event = Event { version: self.version, key: key.clone(), before: Some(before), after: None };
        let farewell = event.farewell();
        self.remember(event);
        farewell
    }

    /// Forgets all events so far.
    pub(super) fn compact(&mut self) {
        // Something happens elsewhere, so that every version seen so far is older than what is remembered.
        self.version += 1;
        self.compacted = self.version;
        self.log.clear();
        self.weight = 0;
    }

    fn remember(&mut self, event: Event) {
        self.weight += event.weight();
        self.log.push_back(Arc::new(event));
        // The newest event stays, however large: somebody waits for it.
        while (self.log.len() > REMEMBERED || self.weight > REMEMBERED_BYTES) && self.log.len() > 1 {
            let Some(oldest) = self.log.pop_front() else { break };
            self.weight -= oldest.weight();
            self.compacted = oldest.version;
        }
    }
}

fn farewell(before: &Stored, version: u64) -> Arc<Stored> {
    let mut value = before.value();
    set_version(&mut value, version);
    Stored::new(&value)
}

fn set_version(value: &mut Value, version: u64) {
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("resourceVersion".to_owned(), version.to_string().into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Key, REMEMBERED, REMEMBERED_BYTES, Store};

    fn key(name: &str) -> Key {
        Key { resource: "services".into(), namespace: "shop".into(), name: name.into() }
    }

    fn names(store: &Store, version: u64) -> Vec<String> {
        store.objects_at("services", version).unwrap().into_keys().map(|key| key.name.to_string()).collect()
    }

    #[test]
    fn the_past_can_be_asked_for_until_it_is_forgotten() {
        let mut store = Store::default();
        store.put(key("a"), json!({"metadata": {}, "spec": 1}));
        store.put(key("b"), json!({"metadata": {}}));
        store.put(key("a"), json!({"metadata": {}, "spec": 2}));
        store.remove(&key("b"));
        assert_eq!(
            (names(&store, 1), names(&store, 2), names(&store, 4)),
            (vec!["a".into()], vec!["a".into(), "b".into()], vec!["a".into()])
        );
        assert_eq!(store.objects_at("services", 2).unwrap()[&key("a")].value()["spec"], 1);
        store.compact();
        assert_eq!(store.objects_at("services", 4).unwrap_err().oldest, 5);
        assert_eq!(names(&store, 5), ["a"]);
    }

    #[test]
    fn the_log_does_not_grow_without_end() {
        let mut store = Store::default();
        for _ in 0..REMEMBERED + 10 {
            store.put(key("a"), json!({"metadata": {}}));
        }
        assert_eq!(store.log.len(), REMEMBERED);
        assert!(store.events_after(9).is_err());
        assert_eq!(store.events_after(10).unwrap().len(), REMEMBERED);
    }

    #[test]
    fn large_objects_make_a_short_log() {
        let mut store = Store::default();
        let large = "x".repeat(REMEMBERED_BYTES / 8);
        for _ in 0..20 {
            store.put(key("a"), json!({"metadata": {}, "spec": large}));
            assert!(store.weight <= REMEMBERED_BYTES, "{}", store.weight);
        }
        assert!(store.log.len() >= 3, "{}", store.log.len());
        store.put(key("a"), json!({"metadata": {}, "spec": large.repeat(16)}));
        assert_eq!(store.events_after(store.version() - 1).unwrap().len(), 1, "the newest is always told");
        assert!(store.events_after(store.version() - 2).is_err());
        store.compact();
        assert_eq!(store.weight, 0);
    }
}
