//! Creating, changing and deleting objects.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    Cluster, check, defaults,
    owners::{self, Hand},
    patch::Patch,
    refusal::{FieldError, Refusal},
    resource::{Resource, Trait},
    scale,
    sent::{in_namespace, patched, read, require_name, status, unknown_field},
    store::{Key, Store, Stored},
};

/// Which part of an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Everything but its status.
    Object,
    /// Its status alone.
    Status,
    /// Its replicas, through a `Scale`.
    Scale,
}

/// How to write.
#[derive(Clone, Copy, Debug)]
pub(super) struct How<'a> {
    /// Who writes.
    pub(super) manager: &'a str,
    /// Check everything, keep nothing.
    pub(super) dry_run: bool,
    /// Refuse fields that the kind does not have.
    pub(super) strict: bool,
}

/// Which object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) resource: &'static Resource,
    /// Empty for what is in none.
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

impl Place<'_> {
    pub(super) fn key(&self) -> Key {
        Key::new(self.resource, self.namespace, self.name)
    }

    fn scope(&self) -> Option<&str> {
        self.resource.namespaced.then_some(self.namespace)
    }
}

/// What a caller says must be true of the object.
#[derive(Clone, Debug, Default)]
pub(super) struct Preconditions {
    pub(super) uid: Option<String>,
    pub(super) version: Option<String>,
}

impl Cluster {
    pub(super) fn post(
        &self,
        resource: &'static Resource,
        namespace: Option<&str>,
        object: Value,
        how: How<'_>,
    ) -> Result<Arc<Stored>, Refusal> {
        let mut object = read(resource, namespace, object, how.strict)?;
        object.as_object_mut().expect("a kind is an object").remove("status");
        let now = self.0.clock.now();
        let metadata = object["metadata"].as_object_mut().expect("a kind has metadata");
        metadata
            .retain(|name, _| !matches!(name.as_str(), "resourceVersion" | "managedFields" | "generation"));
        metadata.insert("uid".to_owned(), uid().into());
        metadata.insert("creationTimestamp".to_owned(), owners::seconds(now).into());
        if resource.has(Trait::Generation) {
            metadata.insert("generation".to_owned(), 1.into());
        }
        defaults::fill_in(resource.kind, &mut object);
        let name = object["metadata"]["name"].as_str().unwrap_or("").to_owned();
        refuse_errors(resource, &name, &object, None)?;
        let hand = Hand { manager: how.manager, subresource: "", time: Some(now) };
        owners::own(resource.kind, &resource.api_version(), None, &mut object, hand);
        assign(resource, &mut object);
        let key = Key::new(resource, namespace.unwrap_or(""), &name);
        self.change(|store| {
            if let Some(namespace) = namespace.filter(|_| resource.namespaced) {
                require_namespace(store, namespace)?;
            }
            if store.get(&key).is_some() {
                return Err(Refusal::exists(resource, &name));
            }
            Ok(if how.dry_run { Stored::new(&object) } else { store.put(key, object) })
        })
    }

    pub(super) fn put(
        &self,
        place: Place<'_>,
        part: Part,
        sent: Value,
        how: How<'_>,
    ) -> Result<Arc<Stored>, Refusal> {
        require_name(&sent, place.name)?;
        let sent = match part {
            Part::Scale => check::typed_scale(sent).map_err(|why| {
                Refusal::bad_request(format!(
                    "the object provided is unrecognized (must be of type Scale): {why}"
                ))
            })?,
            Part::Object | Part::Status => read(place.resource, place.scope(), sent, how.strict)?,
        };
        self.write_over(place, part, how, |_| Ok(sent))
    }

    pub(super) fn patch(
        &self,
        place: Place<'_>,
        part: Part,
        patch: &Patch,
        how: How<'_>,
    ) -> Result<Arc<Stored>, Refusal> {
        self.write_over(place, part, how, |before| {
            if part == Part::Scale {
                let patched = patched(patch, &scale::of(before))?;
                return check::typed_scale(patched).map_err(|why| Refusal::bad_patch(&why));
            }
            let patched = patched(patch, before)?;
            let kept = (place.resource.typed)(patched.clone()).map_err(|why| Refusal::bad_patch(&why))?;
            if patched["kind"] != kept["kind"] || patched["apiVersion"] != kept["apiVersion"] {
                return Err(Refusal::bad_patch("the kind of an object cannot be changed"));
            }
            if kept["metadata"]["uid"] != before["metadata"]["uid"] {
                let error =
                    FieldError::invalid("metadata.uid", &kept["metadata"]["uid"], "field is immutable");
                return Err(Refusal::invalid(place.resource, place.name, &[error]));
            }
            match check::unknown_field(&patched, &kept).filter(|_| how.strict) {
                Some(field) => Err(unknown_field(&field)),
                None => in_namespace(place.scope(), kept),
            }
        })
    }

    pub(super) fn erase(
        &self,
        place: Place<'_>,
        preconditions: &Preconditions,
        dry_run: bool,
    ) -> Result<Arc<Stored>, Refusal> {
        let (key, Place { resource, name, .. }) = (place.key(), place);
        self.change(|store| {
            let before = store.get(&key).cloned().ok_or_else(|| Refusal::not_found(resource, name))?;
            require(resource, name, &before.value(), preconditions)?;
            if dry_run {
                return Ok(before);
            }
            if resource.kind == "Namespace" {
                for inside in store.keys_in(name) {
                    store.remove(&inside);
                }
            }
            Ok(store.remove(&key).unwrap_or(before))
        })
    }

    /// Replaces a part of an object by what is made of it, in one step.
    fn write_over(
        &self,
        place: Place<'_>,
        part: Part,
        how: How<'_>,
        make: impl FnOnce(&Value) -> Result<Value, Refusal>,
    ) -> Result<Arc<Stored>, Refusal> {
        let now = self.0.clock.now();
        let (key, Place { resource, name, .. }) = (place.key(), place);
        self.change(|store| {
            let before = store.get(&key).cloned().ok_or_else(|| Refusal::not_found(resource, name))?;
            let known = before.value();
            let sent = make(&known)?;
            require_name(&sent, name)?;
            require(resource, name, &known, &Preconditions::of(&sent))?;
            let mut after = match part {
                Part::Object => replaced(resource, &known, sent),
                Part::Status => with_field(&known, "status", status(resource, sent)),
                Part::Scale => with_replicas(&known, scale::read(&sent)?),
            };
            if part == Part::Object {
                refuse_errors(resource, name, &after, Some(&known))?;
            }
            count_generation(resource, &known, &mut after);
            if same_but_owners(&known, &after) {
                return Ok(before);
            }
            let (subresource, time) = match part {
                Part::Object => ("", Some(now)),
                Part::Status => ("status", Some(now)),
                Part::Scale => ("scale", None),
            };
            let hand = Hand { manager: how.manager, subresource, time };
            owners::own(resource.kind, &resource.api_version(), Some(&known), &mut after, hand);
            Ok(if how.dry_run { Stored::new(&after) } else { store.put(key, after) })
        })
    }
}

impl Preconditions {
    fn of(object: &Value) -> Self {
        let text =
            |name: &str| object["metadata"][name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        Self { uid: text("uid"), version: text("resourceVersion") }
    }
}

fn refuse_errors(
    resource: &Resource,
    name: &str,
    object: &Value,
    before: Option<&Value>,
) -> Result<(), Refusal> {
    let errors = check::errors(resource, object, before);
    if errors.is_empty() { Ok(()) } else { Err(Refusal::invalid(resource, name, &errors)) }
}

fn require_namespace(store: &Store, namespace: &str) -> Result<(), Refusal> {
    let namespaces = Resource::find("", "v1", "namespaces").expect("it is in the table");
    let key = Key::new(namespaces, "", namespace);
    store.get(&key).map(|_| ()).ok_or_else(|| Refusal::not_found(namespaces, namespace))
}

fn require(resource: &Resource, name: &str, before: &Value, wanted: &Preconditions) -> Result<(), Refusal> {
    let own = |field: &str| before["metadata"][field].as_str().unwrap_or("").to_owned();
    if let Some(uid) = wanted.uid.as_deref().filter(|uid| *uid != own("uid")) {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            own("uid")
        );
        return Err(Refusal::other_uid(resource, name, &why));
    }
    match &wanted.version {
        Some(version) if *version != own("resourceVersion") => Err(Refusal::modified(resource, name)),
        _ => Ok(()),
    }
}

/// The new object with what only the server sets.
fn replaced(resource: &Resource, before: &Value, mut after: Value) -> Value {
    for name in ["uid", "creationTimestamp", "generation", "resourceVersion", "namespace"] {
        keep(before, &mut after, "metadata", name);
    }
    if after["metadata"]["managedFields"].as_array().is_none_or(Vec::is_empty) {
        keep(before, &mut after, "metadata", "managedFields");
    }
    if resource.kind == "Service" && before["spec"]["type"] == after["spec"]["type"] {
        for name in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if after["spec"][name].is_null() {
                keep(before, &mut after, "spec", name);
            }
        }
    }
    match before.get("status") {
        Some(status) => after["status"] = status.clone(),
        None => drop(after.as_object_mut().and_then(|after| after.remove("status"))),
    }
    defaults::fill_in(resource.kind, &mut after);
    after
}

fn keep(before: &Value, after: &mut Value, part: &str, name: &str) {
    let Some(after) = after[part].as_object_mut() else { return };
    match &before[part][name] {
        Value::Null => after.remove(name),
        own => after.insert(name.to_owned(), own.clone()),
    };
}

fn with_field(before: &Value, name: &str, value: Value) -> Value {
    let mut after = before.clone();
    after[name] = value;
    after
}

fn with_replicas(before: &Value, replicas: i64) -> Value {
    let mut spec = before["spec"].clone();
    spec["replicas"] = replicas.into();
    with_field(before, "spec", spec)
}

/// A new spec is a new generation; for Deployments new annotations are, too, since their controller copies them.
fn count_generation(resource: &Resource, before: &Value, after: &mut Value) {
    let same = before["spec"] == after["spec"]
        && (resource.kind != "Deployment"
            || before["metadata"]["annotations"] == after["metadata"]["annotations"]);
    if resource.has(Trait::Generation) && !same {
        after["metadata"]["generation"] = (before["metadata"]["generation"].as_i64().unwrap_or(0) + 1).into();
    }
}

fn same_but_owners(before: &Value, after: &Value) -> bool {
    let mut after = after.clone();
    keep(before, &mut after, "metadata", "managedFields");
    *before == after
}

/// What a new object gets from the server alone. Nobody owns it: it is given after the owners are settled.
fn assign(resource: &Resource, object: &mut Value) {
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
pub(in crate::demo) fn uid() -> String {
    let bits = fastrand::u128(..) & !(0xf << 76 | 0xc << 60) | (0x4 << 76 | 0x8 << 60);
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}
