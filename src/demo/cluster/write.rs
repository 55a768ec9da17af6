//! Creates, updates and deletes objects, and decodes the request bodies for that.

use std::sync::Arc;

use k8s_openapi::{api::autoscaling::v1::Scale, apimachinery::pkg::apis::meta::v1::Preconditions};
use serde_json::{Map, Value, json};

use super::{
    Cluster,
    errors::{StatusError, invalid_value},
    list::join_labels,
    ownership::{FieldManager, update_managed_fields, whole_seconds},
    patch::Patch,
    resources::{Feature, Resource, round_trip, unknown_field, zero_value},
    store::{Store, StoreKey, StoredObject},
    validation::{set_defaults, validate},
};

/// The main resource or a subresource. Writes to one do not change the fields of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    Object,
    Status,
    Scale,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct WriteOptions<'a> {
    pub(super) field_manager: &'a str,
    pub(super) dry_run: bool,
    /// Reject unknown fields instead of dropping them.
    pub(super) strict: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ObjectPath<'a> {
    pub(super) resource: &'static Resource,
    /// Empty for cluster-scoped objects.
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

impl ObjectPath<'_> {
    pub(super) fn key(&self) -> StoreKey {
        StoreKey::new(self.resource, self.namespace, self.name)
    }

    fn request_namespace(&self) -> Option<&str> {
        self.resource.namespaced.then_some(self.namespace)
    }
}

impl Cluster {
    pub(super) fn create_object(
        &self,
        resource: &'static Resource,
        namespace: Option<&str>,
        object: Value,
        options: WriteOptions<'_>,
    ) -> Result<Arc<StoredObject>, StatusError> {
        let mut object = decode_object(resource, namespace, object, options.strict)?;
        object.as_object_mut().expect("a decoded object is a JSON object").remove("status");
        let now = self.0.clock.now();
        let metadata = object["metadata"].as_object_mut().expect("a decoded object has metadata");
        metadata
            .retain(|name, _| !matches!(name.as_str(), "resourceVersion" | "managedFields" | "generation"));
        metadata.insert("uid".to_owned(), random_uid().into());
        metadata.insert("creationTimestamp".to_owned(), whole_seconds(now).to_string().into());
        if resource.has(Feature::Generation) {
            metadata.insert("generation".to_owned(), 1.into());
        }
        set_defaults(resource.kind, &mut object);
        let name = object["metadata"]["name"].as_str().unwrap_or("").to_owned();
        validate_object(resource, &name, &object, None)?;
        let manager = FieldManager { name: options.field_manager, subresource: "", time: Some(now) };
        update_managed_fields(resource, None, &mut object, manager);
        assign_server_fields(resource, &mut object);
        let key = StoreKey::new(resource, namespace.unwrap_or(""), &name);
        self.update_store(|store| {
            if let Some(namespace) = namespace.filter(|_| resource.namespaced) {
                require_namespace(store, namespace)?;
            }
            if store.get(&key).is_some() {
                return Err(StatusError::already_exists(resource, &name));
            }
            Ok(if options.dry_run { StoredObject::new(&object) } else { store.put(key, object) })
        })
    }

    pub(super) fn replace_object(
        &self,
        path: ObjectPath<'_>,
        endpoint: Endpoint,
        requested: Value,
        options: WriteOptions<'_>,
    ) -> Result<Arc<StoredObject>, StatusError> {
        require_matching_name(&requested, path.name)?;
        let requested = match endpoint {
            Endpoint::Scale => round_trip::<Scale>(requested).map_err(|error| {
                StatusError::bad_request(format!(
                    "the object provided is unrecognized (must be of type Scale): {error}"
                ))
            })?,
            Endpoint::Object | Endpoint::Status => {
                decode_object(path.resource, path.request_namespace(), requested, options.strict)?
            }
        };
        self.guaranteed_update(path, endpoint, options, |_| Ok(requested))
    }

    pub(super) fn patch_object(
        &self,
        path: ObjectPath<'_>,
        endpoint: Endpoint,
        patch: &Patch,
        options: WriteOptions<'_>,
    ) -> Result<Arc<StoredObject>, StatusError> {
        self.guaranteed_update(path, endpoint, options, |previous| {
            if endpoint == Endpoint::Scale {
                let patched = apply_patch(patch, &scale_of(previous))?;
                return round_trip::<Scale>(patched).map_err(StatusError::invalid_patch);
            }
            let patched = apply_patch(patch, previous)?;
            let decoded = (path.resource.decode)(patched.clone()).map_err(StatusError::invalid_patch)?;
            if patched["kind"] != decoded["kind"] || patched["apiVersion"] != decoded["apiVersion"] {
                return Err(StatusError::invalid_patch("the kind of an object cannot be changed"));
            }
            if decoded["metadata"]["uid"] != previous["metadata"]["uid"] {
                let error = invalid_value("metadata.uid", &decoded["metadata"]["uid"], "field is immutable");
                return Err(StatusError::invalid(path.resource, path.name, vec![error]));
            }
            match unknown_field(&patched, &decoded).filter(|_| options.strict) {
                Some(field) => Err(unknown_field_error(&field)),
                None => with_request_namespace(path.request_namespace(), decoded),
            }
        })
    }

    pub(super) fn delete_object(
        &self,
        path: ObjectPath<'_>,
        preconditions: &Preconditions,
        dry_run: bool,
    ) -> Result<Arc<StoredObject>, StatusError> {
        let (key, ObjectPath { resource, name, .. }) = (path.key(), path);
        self.update_store(|store| {
            let previous = store.get(&key).cloned().ok_or_else(|| StatusError::not_found(resource, name))?;
            check_preconditions(resource, name, &previous.to_value(), preconditions)?;
            if dry_run {
                return Ok(previous);
            }
            if resource.kind == "Namespace" {
                for key in store.keys_in_namespace(name) {
                    store.remove(&key);
                }
            }
            Ok(store.remove(&key).unwrap_or(previous))
        })
    }

    /// Stores the result of `update` in one transaction, so no other write comes in between.
    fn guaranteed_update(
        &self,
        path: ObjectPath<'_>,
        endpoint: Endpoint,
        options: WriteOptions<'_>,
        update: impl FnOnce(&Value) -> Result<Value, StatusError>,
    ) -> Result<Arc<StoredObject>, StatusError> {
        let now = self.0.clock.now();
        let (key, ObjectPath { resource, name, .. }) = (path.key(), path);
        self.update_store(|store| {
            let stored = store.get(&key).cloned().ok_or_else(|| StatusError::not_found(resource, name))?;
            let current = stored.to_value();
            let requested = update(&current)?;
            require_matching_name(&requested, name)?;
            check_preconditions(resource, name, &current, &preconditions_of(&requested))?;
            let mut updated = match endpoint {
                Endpoint::Object => with_server_fields(resource, &current, requested),
                Endpoint::Status => with_field(&current, "status", requested_status(resource, requested)),
                Endpoint::Scale => with_replicas(&current, requested_replicas(&requested)?),
            };
            if endpoint == Endpoint::Object {
                validate_object(resource, name, &updated, Some(&current))?;
            }
            increment_generation(resource, &current, &mut updated);
            if equals_ignoring_managed_fields(&current, &updated) {
                return Ok(stored);
            }
            let (subresource, time) = match endpoint {
                Endpoint::Object => ("", Some(now)),
                Endpoint::Status => ("status", Some(now)),
                Endpoint::Scale => ("scale", None),
            };
            let manager = FieldManager { name: options.field_manager, subresource, time };
            update_managed_fields(resource, Some(&current), &mut updated, manager);
            Ok(if options.dry_run { StoredObject::new(&updated) } else { store.put(key, updated) })
        })
    }
}

/// A write with a uid or a resource version fails with a conflict unless the stored object has them.
fn preconditions_of(object: &Value) -> Preconditions {
    let string =
        |name: &str| object["metadata"][name].as_str().filter(|string| !string.is_empty()).map(str::to_owned);
    Preconditions { uid: string("uid"), resource_version: string("resourceVersion") }
}

fn validate_object(
    resource: &Resource,
    name: &str,
    object: &Value,
    previous: Option<&Value>,
) -> Result<(), StatusError> {
    let errors = validate(resource, object, previous);
    if errors.is_empty() { Ok(()) } else { Err(StatusError::invalid(resource, name, errors)) }
}

fn require_namespace(store: &Store, namespace: &str) -> Result<(), StatusError> {
    let namespaces = Resource::find("", "v1", "namespaces").expect("namespaces are served");
    let key = StoreKey::new(namespaces, "", namespace);
    store.get(&key).map(|_| ()).ok_or_else(|| StatusError::not_found(namespaces, namespace))
}

fn check_preconditions(
    resource: &Resource,
    name: &str,
    previous: &Value,
    preconditions: &Preconditions,
) -> Result<(), StatusError> {
    let recorded = |field: &str| previous["metadata"][field].as_str().unwrap_or("").to_owned();
    if let Some(uid) = preconditions.uid.as_deref().filter(|uid| *uid != recorded("uid")) {
        let error = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            recorded("uid")
        );
        return Err(StatusError::uid_conflict(resource, name, &error));
    }
    match &preconditions.resource_version {
        Some(resource_version) if *resource_version != recorded("resourceVersion") => {
            Err(StatusError::conflict(resource, name))
        }
        _ => Ok(()),
    }
}

/// Keeps the fields that only the server assigns, and the status.
fn with_server_fields(resource: &Resource, previous: &Value, mut updated: Value) -> Value {
    for name in ["uid", "creationTimestamp", "generation", "resourceVersion", "namespace"] {
        copy_field(previous, &mut updated, "metadata", name);
    }
    if updated["metadata"]["managedFields"].as_array().is_none_or(Vec::is_empty) {
        copy_field(previous, &mut updated, "metadata", "managedFields");
    }
    if resource.kind == "Service" && previous["spec"]["type"] == updated["spec"]["type"] {
        for name in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if updated["spec"][name].is_null() {
                copy_field(previous, &mut updated, "spec", name);
            }
        }
    }
    match previous.get("status") {
        Some(status) => updated["status"] = status.clone(),
        None => drop(updated.as_object_mut().and_then(|updated| updated.remove("status"))),
    }
    set_defaults(resource.kind, &mut updated);
    updated
}

/// Copies a field of `metadata` or `spec`. An unset field is removed.
fn copy_field(previous: &Value, updated: &mut Value, parent: &str, name: &str) {
    let Some(updated) = updated[parent].as_object_mut() else { return };
    match &previous[parent][name] {
        Value::Null => updated.remove(name),
        value => updated.insert(name.to_owned(), value.clone()),
    };
}

fn with_field(previous: &Value, name: &str, value: Value) -> Value {
    let mut updated = previous.clone();
    updated[name] = value;
    updated
}

fn with_replicas(previous: &Value, replicas: i64) -> Value {
    let mut spec = previous["spec"].clone();
    spec["replicas"] = replicas.into();
    with_field(previous, "spec", spec)
}

/// The generation counts changes of the spec, and of the annotations of a Deployment, which its replica sets copy.
fn increment_generation(resource: &Resource, previous: &Value, updated: &mut Value) {
    let unchanged = previous["spec"] == updated["spec"]
        && (resource.kind != "Deployment"
            || previous["metadata"]["annotations"] == updated["metadata"]["annotations"]);
    if resource.has(Feature::Generation) && !unchanged {
        updated["metadata"]["generation"] =
            (previous["metadata"]["generation"].as_i64().unwrap_or(0) + 1).into();
    }
}

fn equals_ignoring_managed_fields(previous: &Value, updated: &Value) -> bool {
    let mut updated = updated.clone();
    copy_field(previous, &mut updated, "metadata", "managedFields");
    *previous == updated
}

/// Sets the fields that the server assigns to a new object. They have no owner, so this follows the managed fields.
fn assign_server_fields(resource: &Resource, object: &mut Value) {
    if resource.kind == "Namespace" {
        object["spec"] = json!({"finalizers": ["kubernetes"]});
        object["status"] = json!({"phase": "Active"});
    }
    if resource.kind != "Service" || object["spec"]["type"] == "ExternalName" {
        return;
    }
    let spec = &mut object["spec"];
    if spec["clusterIP"].is_null() {
        spec["clusterIP"] = format!("10.96.{}.{}", fastrand::u8(..), fastrand::u8(1..255)).into();
    }
    spec["clusterIPs"] = json!([spec["clusterIP"]]);
    spec["ipFamilies"] = json!(["IPv4"]);
    spec["ipFamilyPolicy"] = "SingleStack".into();
}

/// A random version 4 UUID.
pub(in crate::demo) fn random_uid() -> String {
    let bits = fastrand::u128(..) & !(0xf << 76 | 0xc << 60) | (0x4 << 76 | 0x8 << 60);
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Fails if the patched document is not a Kubernetes object.
fn apply_patch(patch: &Patch, object: &Value) -> Result<Value, StatusError> {
    let patched = patch.apply(object)?;
    match &patched {
        Value::Object(fields) if fields.contains_key("kind") && fields.contains_key("apiVersion") => {
            Ok(patched)
        }
        Value::Object(_) => Err(StatusError::bad_request("Object 'Kind' or 'apiVersion' is missing")),
        Value::Array(_) => Err(StatusError::invalid_patch("a list is no object")),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Err(StatusError::unprocessable_entity())
        }
    }
}

/// The status in the request, or the zero value if there is none.
fn requested_status(resource: &Resource, mut requested: Value) -> Value {
    match requested["status"].take() {
        Value::Null => zero_value(resource.kind)["status"].take(),
        status => status,
    }
}

/// Decodes a request body. `namespace` is the namespace in the path.
fn decode_object(
    resource: &Resource,
    namespace: Option<&str>,
    object: Value,
    strict: bool,
) -> Result<Value, StatusError> {
    let string = |name: &str| object[name].as_str().unwrap_or("").to_owned();
    let (kind, api_version) = (string("kind"), string("apiVersion"));
    if !object.is_object()
        || (!kind.is_empty() && kind != resource.kind)
        || (!api_version.is_empty() && api_version != resource.api_version())
    {
        return Err(StatusError::bad_request(format!(
            "{kind} in version \"{api_version}\" cannot be handled as a {}",
            resource.kind
        )));
    }
    let mut object = object;
    object["kind"] = resource.kind.into();
    object["apiVersion"] = resource.api_version().into();
    if object["metadata"].is_null() {
        object["metadata"] = json!({});
    }
    let decoded = (resource.decode)(object.clone()).map_err(|error| {
        StatusError::bad_request(format!(
            "{} in version \"{}\" cannot be handled as a {0}: {error}",
            resource.kind, resource.version
        ))
    })?;
    if let Some(field) = unknown_field(&object, &decoded).filter(|_| strict) {
        return Err(unknown_field_error(&field));
    }
    with_request_namespace(namespace, decoded)
}

fn unknown_field_error(field: &str) -> StatusError {
    StatusError::bad_request(format!("strict decoding error: unknown field \"{field}\""))
}

/// Sets the namespace of the path. An object with another namespace is rejected.
fn with_request_namespace(namespace: Option<&str>, mut object: Value) -> Result<Value, StatusError> {
    let metadata = object["metadata"].as_object_mut().expect("a decoded object has metadata");
    match (namespace, metadata.get("namespace").and_then(Value::as_str)) {
        (Some(namespace), None | Some("")) => {
            metadata.insert("namespace".to_owned(), namespace.into());
        }
        (Some(namespace), Some(in_object)) if namespace == in_object => {}
        (None, _) => {
            metadata.remove("namespace");
        }
        (Some(_), Some(_)) => {
            return Err(StatusError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
    }
    Ok(object)
}

fn require_matching_name(requested: &Value, name: &str) -> Result<(), StatusError> {
    match requested["metadata"]["name"].as_str() {
        Some(in_object) if in_object != name => Err(StatusError::bad_request(format!(
            "the name of the object ({in_object}) does not match the name on the URL ({name})"
        ))),
        Some(_) | None => Ok(()),
    }
}

pub(super) fn scale_of(object: &Value) -> Value {
    let metadata = &object["metadata"];
    let copied = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];
    let metadata: Map<String, Value> =
        copied.iter().map(|name| ((*name).to_owned(), metadata[*name].clone())).collect();
    let replicas = object["spec"]["replicas"].as_i64().unwrap_or(0);
    let current = object["status"]["replicas"].as_i64().unwrap_or(0);
    let mut scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": {}, "status": {"replicas": current, "selector": join_labels(&object["spec"]["selector"]["matchLabels"])},
    });
    // The real API server omits zero replicas.
    if replicas != 0 {
        scale["spec"]["replicas"] = replicas.into();
    }
    scale
}

fn requested_replicas(scale: &Value) -> Result<i64, StatusError> {
    match scale["spec"]["replicas"].as_i64().unwrap_or(0) {
        replicas if replicas < 0 => {
            let name = scale["metadata"]["name"].as_str().unwrap_or("");
            Err(StatusError::negative_scale(name, &replicas.into()))
        }
        replicas => Ok(replicas),
    }
}
