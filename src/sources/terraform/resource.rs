//! One resource of a state as a declared object.

use serde_json::Value;

use super::{identity::object_of, secrets::seal_at};
use crate::{
    diff::{
        declared::prepare,
        is_secret, pack, seal_binary_data, seal_last_applied, seal_live,
        terraform::{PART_TYPES, mark_absent, mark_unset, object_type, seal_field, sensitive_attributes},
    },
    sources::{documents::object_of_document, scopes::is_built_in},
    types::{DeclaredBody, DeclaredObject, RedactionKey, SkipReason, UnknownReason},
};

/// A resource as a state has it.
pub(super) struct Instance<'a> {
    pub(super) address: Box<str>,
    pub(super) resource_type: &'a str,
    pub(super) schema_version: u64,
    pub(super) attributes: Value,
    /// Attributes that the state marks as sensitive.
    pub(super) sensitive: Vec<Box<str>>,
    pub(super) identity: Option<Value>,
}

/// The newest version of the provider's schemas that we know.
const NEWEST_SCHEMA: u64 = 1;

/// What the resource declares, with digests in place of what may not be told.
pub(super) fn declared(instance: Instance<'_>, key: &RedactionKey) -> Result<DeclaredObject, SkipReason> {
    let is_document = matches!(instance.resource_type, "kubernetes_manifest" | "kubectl_manifest");
    let is_part = PART_TYPES.contains(&instance.resource_type);
    if !is_document && !is_part && object_type(instance.resource_type).is_none() {
        return Err(SkipReason::UnknownType);
    }
    if !instance.attributes.is_object() {
        return Err(SkipReason::Unreadable);
    }
    let is_newer = instance.schema_version > NEWEST_SCHEMA;
    let mut declared =
        if is_document { document(instance, key) } else { attributes(instance, is_part, key) }?;
    if is_newer {
        declared.body = DeclaredBody::Opaque(UnknownReason::NewerSchema);
    }
    Ok(declared)
}

fn attributes(
    instance: Instance<'_>,
    is_part: bool,
    key: &RedactionKey,
) -> Result<DeclaredObject, SkipReason> {
    let Instance { address, resource_type, schema_version, mut attributes, mut sensitive, identity } =
        instance;
    let object = object_of(resource_type, &attributes, identity.as_ref()).ok_or(SkipReason::NoIdentity)?;
    let uid = attributes["metadata"][0]["uid"].as_str().filter(|uid| !uid.is_empty()).map(Into::into);
    // Old versions of Terraform do not write down what the provider's schema marks.
    let known =
        sensitive_attributes(resource_type).into_iter().filter(|name| attributes.get(*name).is_some());
    sensitive.extend(known.map(Into::into));
    if is_secret(&object.group, &object.kind) {
        seal_binary_data(key, &mut attributes);
    }
    for path in &sensitive {
        seal_at(key, &mut attributes, path);
    }
    seal_last_applied(std::slice::from_ref(key), &mut attributes);
    if !is_part {
        mark_absent(resource_type, &mut attributes);
    }
    if schema_version == 0 {
        upgrade_resources(&mut attributes);
    }
    prune(&mut attributes);
    let body = pack(&attributes);
    let body = if is_part { DeclaredBody::Parts(body) } else { DeclaredBody::Attributes(body) };
    let key = key.clone();
    Ok(DeclaredObject { address, resource_type: resource_type.into(), object, uid, sensitive, key, body })
}

fn document(instance: Instance<'_>, key: &RedactionKey) -> Result<DeclaredObject, SkipReason> {
    let Instance { address, resource_type, mut attributes, sensitive, .. } = instance;
    let is_manifest = resource_type == "kubernetes_manifest";
    let mut document = if is_manifest {
        let mut object = attributes["object"].take();
        // A state writes the type beside the value, `terraform show -json` only the value.
        if object.get("type").is_some_and(Value::is_array) { object["value"].take() } else { object }
    } else {
        // Go's reader takes `0644` for octal.
        let options = serde_saphyr::options! { legacy_octal_numbers: true };
        let text = attributes["yaml_body"].as_str().ok_or(SkipReason::Unreadable)?;
        serde_saphyr::from_str_with_options(text, options).map_err(|_| SkipReason::Unreadable)?
    };
    let mut object = object_of_document(&document).ok_or(SkipReason::NoIdentity)?;
    // The provider may have put it elsewhere than where the body says.
    if let Some(namespace) = attributes["namespace"].as_str().filter(|own| !own.is_empty() && !is_manifest) {
        object.namespace = namespace.into();
    }
    let uid =
        ["live_uid", "uid"].iter().find_map(|name| attributes[*name].as_str().filter(|uid| !uid.is_empty()));
    let uid = uid.map(Into::into);
    let mut sensitive = if is_manifest { within_document(&sensitive) } else { sensitive_fields(&attributes) };
    let keys = std::slice::from_ref(key);
    if is_secret(&object.group, &object.kind) {
        seal_live(&mut document, &object.group, &object.kind, keys);
        sensitive.extend(["data", "metadata.annotations"].map(Into::into));
    }
    sensitive.iter().for_each(|path| seal_field(&mut document, path, keys));
    if is_manifest {
        seal_last_applied(keys, &mut document);
        if !is_built_in(&object.group) {
            mark_unset(&mut document);
        }
        prune(&mut document);
    } else {
        prepare(&mut document, key);
    }
    let body = pack(&document);
    let body = if is_manifest { DeclaredBody::Whole(body) } else { DeclaredBody::Subset(body) };
    let key = key.clone();
    Ok(DeclaredObject { address, resource_type: resource_type.into(), object, uid, sensitive, key, body })
}

/// What is sensitive in `manifest` is sensitive in `object`, which is not marked, and the other way round.
fn within_document(sensitive: &[Box<str>]) -> Vec<Box<str>> {
    let inside = sensitive.iter().filter_map(|path| {
        let (first, rest) = path.split_once('.').unwrap_or((path, ""));
        ["", "manifest", "object"].contains(&first).then(|| rest.into())
    });
    inside.collect()
}

fn sensitive_fields(attributes: &Value) -> Vec<Box<str>> {
    let fields = attributes["sensitive_fields"].as_array().map_or(&[][..], Vec::as_slice);
    fields.iter().filter_map(Value::as_str).map(Into::into).collect()
}

/// Before schema 1, limits and requests were blocks: `[{"cpu": "1"}]`.
fn upgrade_resources(value: &mut Value) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(upgrade_resources),
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                if let ("limits" | "requests", Value::Array(blocks)) = (name.as_str(), &mut *member) {
                    *member = blocks.first_mut().map_or(Value::Null, Value::take);
                    if let Value::Object(amounts) = member {
                        amounts.retain(|_, amount| amount.as_str().is_some_and(|amount| !amount.is_empty()));
                    }
                } else {
                    upgrade_resources(member);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Leaves out what says nothing: states write every attribute there is.
fn prune(value: &mut Value) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(prune),
        Value::Object(members) => {
            members.values_mut().for_each(prune);
            members.retain(|_, member| !member.is_null() && *member != Value::Array(Vec::new()));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
