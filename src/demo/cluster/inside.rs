//! Writes from within this process, for the shop and its story.

use serde_json::{Value, json};

use super::{
    Cluster,
    patch::Patch,
    refusal::Refusal,
    resource::Resource,
    write::{How, Part, Place, Preconditions},
};
use crate::types::{Kind, ObjectKey};

impl Cluster {
    /// Creates an object.
    pub fn create(&self, kind: &Kind, manager: &str, object: Value) -> Result<Value, Refusal> {
        let resource = Resource::of(kind).ok_or_else(Refusal::no_such_resource)?;
        let namespace = object["metadata"]["namespace"].as_str().map(str::to_owned);
        let created = self.post(resource, namespace.as_deref(), object, by(manager))?;
        Ok(created.value())
    }

    /// Replaces all of an object but its status and what the server gave it.
    pub fn replace(&self, key: &ObjectKey, manager: &str, object: Value) -> Result<Value, Refusal> {
        let stored = self.put(place(key)?, Part::Object, object, by(manager))?;
        Ok(stored.value())
    }

    /// The kind that a manifest names.
    pub fn kind(api_version: &str, kind: &str) -> Result<Kind, Refusal> {
        let resource = Resource::called(api_version, kind).ok_or_else(Refusal::no_such_resource)?;
        Ok(Kind {
            group: resource.group.into(),
            version: resource.version.into(),
            kind: resource.kind.into(),
            plural: resource.plural.into(),
            namespaced: resource.namespaced,
        })
    }

    /// An object as it is now.
    pub fn get(&self, key: &ObjectKey) -> Option<Value> {
        let key = place(key).ok()?.key();
        self.lock().get(&key).map(|stored| stored.value())
    }

    /// Merges a change into an object, as a strategic patch.
    pub fn merge(&self, key: &ObjectKey, manager: &str, change: Value) -> Result<Value, Refusal> {
        self.patch_part(key, Part::Object, manager, change)
    }

    /// The object as a change would make it; nothing is kept.
    pub fn preview(&self, key: &ObjectKey, manager: &str, change: Value) -> Result<Value, Refusal> {
        let how = How { dry_run: true, ..by(manager) };
        let stored = self.patch(place(key)?, Part::Object, &Patch::Strategic(change), how)?;
        Ok(stored.value())
    }

    /// Merges a change into an object's status.
    pub fn merge_status(&self, key: &ObjectKey, manager: &str, status: &Value) -> Result<Value, Refusal> {
        self.patch_part(key, Part::Status, manager, json!({"status": status}))
    }

    /// Sets an object's replicas, through its scale.
    pub fn scale(&self, key: &ObjectKey, manager: &str, replicas: u32) -> Result<Value, Refusal> {
        self.patch_part(key, Part::Scale, manager, json!({"spec": {"replicas": replicas}}))
    }

    /// Deletes an object.
    pub fn delete(&self, key: &ObjectKey) -> Result<(), Refusal> {
        self.erase(place(key)?, &Preconditions::default(), false).map(|_| ())
    }

    fn patch_part(
        &self,
        key: &ObjectKey,
        part: Part,
        manager: &str,
        change: Value,
    ) -> Result<Value, Refusal> {
        let stored = self.patch(place(key)?, part, &Patch::Strategic(change), by(manager))?;
        Ok(stored.value())
    }
}

fn by(manager: &str) -> How<'_> {
    How { manager, dry_run: false, strict: true }
}

fn place(key: &ObjectKey) -> Result<Place<'_>, Refusal> {
    let resource = Resource::of(&key.kind).ok_or_else(Refusal::no_such_resource)?;
    Ok(Place { resource, namespace: &key.namespace, name: &key.name })
}
