//! A small API server for a few kinds: no server-side apply, no admission plugins, no etcd.
//!
//! All objects are in memory. The demo itself uses the methods of [`Cluster`]; clients use HTTP through [`router`]. Lists
//! and watches read the same store and event log, so a watch from a list's resource version misses no write.

mod errors;
mod list;
mod ownership;
mod patch;
mod resources;
mod routes;
mod store;
mod validation;
mod watch;
mod write;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Preconditions;
use serde_json::{Value, json};
use tokio::sync::watch as watch_channel;

use self::{
    ownership::whole_seconds,
    patch::Patch,
    resources::Resource,
    store::Store,
    write::{Endpoint, ObjectPath, WriteOptions},
};
use crate::types::{Clock, Kind, ObjectKey};

pub use errors::StatusError;
pub use routes::router;
pub(super) use write::random_uid;

/// An embedded cluster. Clones share the same objects.
#[derive(Clone, Debug)]
pub struct Cluster(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    store: Mutex<Store>,
    /// The resource version of the latest write. Watches wait for it to change.
    latest_version: watch_channel::Sender<u64>,
    clock: Clock,
}

impl Cluster {
    pub fn new(clock: Clock) -> Self {
        Self::with_store(Store::default(), clock)
    }

    fn with_store(store: Store, clock: Clock) -> Self {
        let latest_version = watch_channel::Sender::new(store.resource_version());
        Self(Arc::new(Shared { store: Mutex::new(store), latest_version, clock }))
    }

    /// Moves all objects to a cluster with another clock. This cluster is empty afterwards.
    pub(super) fn with_clock(&self, clock: Clock) -> Self {
        Self::with_store(std::mem::take(&mut *self.lock()), clock)
    }

    /// The current time without fractions of a second, as objects record it.
    pub(super) fn now(&self) -> Timestamp {
        whole_seconds(self.0.clock.now())
    }

    /// Compacts the event log: watches and lists at an older resource version get 410.
    pub fn compact(&self) {
        self.update_store(Store::compact);
    }

    pub(super) fn names(&self, kind: &Kind) -> Vec<(Box<str>, Box<str>)> {
        let objects = self.lock().objects(&kind.to_string());
        objects.into_keys().map(|key| (key.namespace, key.name)).collect()
    }

    /// The objects of a kind, by namespace and name.
    pub fn objects(&self, kind: &Kind) -> BTreeMap<(Box<str>, Box<str>), Value> {
        let objects = self.lock().objects(&kind.to_string());
        objects.into_iter().map(|(key, stored)| ((key.namespace, key.name), stored.to_value())).collect()
    }

    pub fn get(&self, key: &ObjectKey) -> Option<Value> {
        let key = object_path(key).ok()?.key();
        self.lock().get(&key).map(|stored| stored.to_value())
    }

    pub fn create(&self, kind: &Kind, manager: &str, object: Value) -> Result<Value, StatusError> {
        let resource = Resource::for_kind(kind).ok_or_else(StatusError::resource_not_found)?;
        let namespace = object["metadata"]["namespace"].as_str().map(str::to_owned);
        let created = self.create_object(resource, namespace.as_deref(), object, written_by(manager))?;
        Ok(created.to_value())
    }

    /// Replaces an object except for its status and the fields that the server assigns.
    pub fn replace(&self, key: &ObjectKey, manager: &str, object: Value) -> Result<Value, StatusError> {
        let stored = self.replace_object(object_path(key)?, Endpoint::Object, object, written_by(manager))?;
        Ok(stored.to_value())
    }

    pub(super) fn create_or_replace(&self, manager: &str, object: Value) -> Result<(), StatusError> {
        let key = Self::key_of(&object)?;
        match self.get(&key) {
            None => self.create(&key.kind, manager, object)?,
            Some(_) => self.replace(&key, manager, object)?,
        };
        Ok(())
    }

    /// Applies a strategic merge patch.
    pub fn patch(&self, key: &ObjectKey, manager: &str, patch: Value) -> Result<Value, StatusError> {
        self.patch_endpoint(key, Endpoint::Object, patch, written_by(manager))
    }

    /// Returns the object that a strategic merge patch would store.
    pub(super) fn dry_run_patch(
        &self,
        key: &ObjectKey,
        manager: &str,
        patch: Value,
    ) -> Result<Value, StatusError> {
        self.patch_endpoint(
            key,
            Endpoint::Object,
            patch,
            WriteOptions { dry_run: true, ..written_by(manager) },
        )
    }

    pub(super) fn patch_status(
        &self,
        key: &ObjectKey,
        manager: &str,
        status: &Value,
    ) -> Result<Value, StatusError> {
        self.patch_endpoint(key, Endpoint::Status, json!({"status": status}), written_by(manager))
    }

    /// Sets the replicas through the `scale` subresource.
    pub fn scale(&self, key: &ObjectKey, manager: &str, replicas: u32) -> Result<Value, StatusError> {
        let patch = json!({"spec": {"replicas": replicas}});
        self.patch_endpoint(key, Endpoint::Scale, patch, written_by(manager))
    }

    pub fn delete(&self, key: &ObjectKey) -> Result<(), StatusError> {
        self.delete_object(object_path(key)?, &Preconditions::default(), false).map(|_| ())
    }

    pub fn resolve_kind(api_version: &str, kind: &str) -> Result<Kind, StatusError> {
        let resource =
            Resource::for_manifest(api_version, kind).ok_or_else(StatusError::resource_not_found)?;
        Ok(Kind {
            group: resource.group.into(),
            version: resource.version.into(),
            kind: resource.kind.into(),
            plural: resource.plural.into(),
            namespaced: resource.namespaced,
        })
    }

    pub(super) fn key_of(object: &Value) -> Result<ObjectKey, StatusError> {
        let string = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let kind = Self::resolve_kind(string("/apiVersion"), string("/kind"))?;
        Ok(ObjectKey::new(kind, string("/metadata/namespace"), string("/metadata/name")))
    }

    fn patch_endpoint(
        &self,
        key: &ObjectKey,
        endpoint: Endpoint,
        patch: Value,
        options: WriteOptions<'_>,
    ) -> Result<Value, StatusError> {
        let stored = self.patch_object(object_path(key)?, endpoint, &Patch::Strategic(patch), options)?;
        Ok(stored.to_value())
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        // Objects are complete before they are stored, so a panic leaves no partial write.
        self.0.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Updates the store and notifies the watches.
    fn update_store<T>(&self, update: impl FnOnce(&mut Store) -> T) -> T {
        let mut store = self.lock();
        let result = update(&mut store);
        let version = store.resource_version();
        drop(store);
        self.0.latest_version.send_if_modified(|latest| {
            let advanced = version > *latest;
            *latest = version.max(*latest);
            advanced
        });
        result
    }
}

fn written_by(field_manager: &str) -> WriteOptions<'_> {
    WriteOptions { field_manager, dry_run: false, strict: true }
}

fn object_path(key: &ObjectKey) -> Result<ObjectPath<'_>, StatusError> {
    let resource = Resource::for_kind(&key.kind).ok_or_else(StatusError::resource_not_found)?;
    Ok(ObjectPath { resource, namespace: &key.namespace, name: &key.name })
}
