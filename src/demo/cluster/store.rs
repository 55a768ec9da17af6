//! The objects of the cluster, and the event log that serves watches and lists at an older resource version.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use serde_json::{Value, json};

use super::resources::Resource;

/// Older events are compacted; a client that needs them gets 410 and has to list again.
const MAX_LOG_EVENTS: usize = 4096;
const MAX_LOG_BYTES: usize = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StoreKey {
    /// The group resource, for example `deployments.apps`.
    pub(super) resource: Box<str>,
    pub(super) namespace: Box<str>,
    pub(super) name: Box<str>,
}

impl StoreKey {
    pub(super) fn new(resource: &Resource, namespace: &str, name: &str) -> Self {
        Self { resource: resource.group_resource().into(), namespace: namespace.into(), name: name.into() }
    }
}

/// An object at one resource version. It is stored as JSON text, which takes a tenth of the memory of a [`Value`] and is
/// encoded once for all clients.
#[derive(Debug)]
pub(super) struct StoredObject {
    pub(super) json: Box<str>,
    /// The metadata that selectors match, as JSON text.
    selectable: Box<str>,
}

impl StoredObject {
    pub(super) fn new(object: &Value) -> Arc<Self> {
        let metadata = &object["metadata"];
        let metadata = json!({"name": metadata["name"], "namespace": metadata["namespace"], "labels": metadata["labels"]});
        let selectable = json!({"metadata": metadata}).to_string();
        Arc::new(Self { json: object.to_string().into(), selectable: selectable.into() })
    }

    /// A partial object with the metadata that selectors match.
    pub(super) fn selectable(&self) -> Value {
        serde_json::from_str(&self.selectable).expect("stored text is valid JSON")
    }

    pub(super) fn to_value(&self) -> Value {
        serde_json::from_str(&self.json).expect("stored text is valid JSON")
    }
}

/// One write. A creation has no `previous`, a deletion no `current`.
#[derive(Debug)]
pub(super) struct StoreEvent {
    pub(super) resource_version: u64,
    pub(super) key: StoreKey,
    pub(super) previous: Option<Arc<StoredObject>>,
    pub(super) current: Option<Arc<StoredObject>>,
}

impl StoreEvent {
    /// An upper bound: neighbouring events of an object share its text.
    fn json_len(&self) -> usize {
        self.previous.iter().chain(&self.current).map(|stored| stored.json.len()).sum()
    }

    /// The last state of the object with the resource version of its deletion, as in a `DELETED` event.
    pub(super) fn deleted_object(&self) -> Option<Arc<StoredObject>> {
        let mut object = self.previous.as_ref()?.to_value();
        set_resource_version(&mut object, self.resource_version);
        Some(StoredObject::new(&object))
    }
}

/// The requested resource version is compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expired {
    pub(super) oldest_available: u64,
}

#[derive(Debug, Default)]
pub(super) struct Store {
    resource_version: u64,
    objects: BTreeMap<StoreKey, Arc<StoredObject>>,
    log: VecDeque<Arc<StoreEvent>>,
    log_bytes: usize,
    /// Events up to this resource version are not in the log.
    compacted: u64,
}

impl Store {
    /// The resource version of the latest write.
    pub(super) fn resource_version(&self) -> u64 {
        self.resource_version
    }

    pub(super) fn get(&self, key: &StoreKey) -> Option<&Arc<StoredObject>> {
        self.objects.get(key)
    }

    pub(super) fn keys_in_namespace(&self, namespace: &str) -> Vec<StoreKey> {
        self.objects.keys().filter(|key| &*key.namespace == namespace).cloned().collect()
    }

    /// The current objects of a group resource, in order of namespace and name.
    pub(super) fn objects(&self, resource: &str) -> BTreeMap<StoreKey, Arc<StoredObject>> {
        let objects = self.objects.iter().filter(|(key, _)| &*key.resource == resource);
        objects.map(|(key, stored)| (key.clone(), stored.clone())).collect()
    }

    /// The objects of a group resource at an older resource version: later events are undone.
    pub(super) fn objects_at(
        &self,
        resource: &str,
        resource_version: u64,
    ) -> Result<BTreeMap<StoreKey, Arc<StoredObject>>, Expired> {
        let mut objects = self.objects(resource);
        for event in self
            .events_after(resource_version)?
            .into_iter()
            .rev()
            .filter(|event| &*event.key.resource == resource)
        {
            match &event.previous {
                Some(previous) => objects.insert(event.key.clone(), previous.clone()),
                None => objects.remove(&event.key),
            };
        }
        Ok(objects)
    }

    /// The events after a resource version, oldest first.
    pub(super) fn events_after(&self, resource_version: u64) -> Result<Vec<Arc<StoreEvent>>, Expired> {
        if resource_version < self.compacted {
            return Err(Expired { oldest_available: self.compacted });
        }
        let newer = self.log.iter().rev().take_while(|event| event.resource_version > resource_version);
        let mut events: Vec<_> = newer.cloned().collect();
        events.reverse();
        Ok(events)
    }

    /// Creates or replaces an object and assigns the next resource version to it.
    pub(super) fn put(&mut self, key: StoreKey, mut object: Value) -> Arc<StoredObject> {
        self.resource_version += 1;
        set_resource_version(&mut object, self.resource_version);
        let current = StoredObject::new(&object);
        let previous = self.objects.insert(key.clone(), current.clone());
        self.append_to_log(StoreEvent {
            resource_version: self.resource_version,
            key,
            previous,
            current: Some(current.clone()),
        });
        current
    }

    /// Deletes an object and returns its last state with the resource version of the deletion.
    pub(super) fn remove(&mut self, key: &StoreKey) -> Option<Arc<StoredObject>> {
        let previous = self.objects.remove(key)?;
        self.resource_version += 1;
        let event = StoreEvent {
            resource_version: self.resource_version,
            key: key.clone(),
            previous: Some(previous),
            current: None,
        };
        let deleted_object = event.deleted_object();
        self.append_to_log(event);
        deleted_object
    }

    /// Drops all events, as a compaction of etcd does.
    pub(super) fn compact(&mut self) {
        // The version advances, so that every resource version that a client has seen is expired.
        self.resource_version += 1;
        self.compacted = self.resource_version;
        self.log.clear();
        self.log_bytes = 0;
    }

    fn append_to_log(&mut self, event: StoreEvent) {
        self.log_bytes += event.json_len();
        self.log.push_back(Arc::new(event));
        // The latest event stays even if it is too large: watches are about to send it.
        while (self.log.len() > MAX_LOG_EVENTS || self.log_bytes > MAX_LOG_BYTES) && self.log.len() > 1 {
            let Some(oldest) = self.log.pop_front() else { break };
            self.log_bytes -= oldest.json_len();
            self.compacted = oldest.resource_version;
        }
    }
}

fn set_resource_version(object: &mut Value, resource_version: u64) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("resourceVersion".to_owned(), resource_version.to_string().into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{MAX_LOG_BYTES, MAX_LOG_EVENTS, Store, StoreKey};

    fn key(name: &str) -> StoreKey {
        StoreKey { resource: "services".into(), namespace: "shop".into(), name: name.into() }
    }

    fn names(store: &Store, resource_version: u64) -> Vec<String> {
        store
            .objects_at("services", resource_version)
            .unwrap()
            .into_keys()
            .map(|key| key.name.to_string())
            .collect()
    }

    #[test]
    fn objects_at_older_versions_are_available_until_compaction() {
        let mut store = Store::default();
        store.put(key("a"), json!({"metadata": {}, "spec": 1}));
        store.put(key("b"), json!({"metadata": {}}));
        store.put(key("a"), json!({"metadata": {}, "spec": 2}));
        store.remove(&key("b"));
        assert_eq!(
            (names(&store, 1), names(&store, 2), names(&store, 4)),
            (vec!["a".into()], vec!["a".into(), "b".into()], vec!["a".into()])
        );
        assert_eq!(store.objects_at("services", 2).unwrap()[&key("a")].to_value()["spec"], 1);
        store.compact();
        assert_eq!(store.objects_at("services", 4).unwrap_err().oldest_available, 5);
        assert_eq!(names(&store, 5), ["a"]);
    }

    #[test]
    fn log_is_limited_by_event_count() {
        let mut store = Store::default();
        for _ in 0..MAX_LOG_EVENTS + 10 {
            store.put(key("a"), json!({"metadata": {}}));
        }
        assert_eq!(store.log.len(), MAX_LOG_EVENTS);
        assert!(store.events_after(9).is_err());
        assert_eq!(store.events_after(10).unwrap().len(), MAX_LOG_EVENTS);
    }

    #[test]
    fn log_is_limited_by_bytes_but_keeps_the_latest_event() {
        let mut store = Store::default();
        let large = "x".repeat(MAX_LOG_BYTES / 8);
        for _ in 0..20 {
            store.put(key("a"), json!({"metadata": {}, "spec": large}));
            assert!(store.log_bytes <= MAX_LOG_BYTES, "{}", store.log_bytes);
        }
        assert!(store.log.len() >= 3, "{}", store.log.len());
        store.put(key("a"), json!({"metadata": {}, "spec": large.repeat(16)}));
        assert_eq!(
            store.events_after(store.resource_version() - 1).unwrap().len(),
            1,
            "the latest event is available"
        );
        assert!(store.events_after(store.resource_version() - 2).is_err());
        store.compact();
        assert_eq!(store.log_bytes, 0);
    }
}
