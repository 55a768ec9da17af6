//! One resource of a state as a declared object.

use serde_json::Value;

use crate::{
    diff::{
        declared::prepare,
        is_secret, pack, seal_all, seal_binary_data, seal_last_applied, seal_live,
        terraform::{PART_TYPES, mark_absent, mark_unset, object_type, seal_field, sensitive_attributes},
    },
    sources::{
        documents::{object_of_document, split_version},
        scopes::is_built_in,
    },
    types::{DeclaredBody, DeclaredObject, ObjectName, RedactionKey, SkipReason, UnknownReason},
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

/// The object that a resource of a known type stands for; none where the state does not tell.
pub(super) fn object_of(
    resource_type: &str,
    attributes: &Value,
    identity: Option<&Value>,
) -> Option<ObjectName> {
    if let Some((group, version, kind)) = object_type(resource_type) {
        return named(group, version, kind, attributes, identity);
    }
    match resource_type {
        "kubernetes_config_map_v1_data" => named("", "v1", "ConfigMap", attributes, identity),
        "kubernetes_secret_v1_data" => named("", "v1", "Secret", attributes, identity),
        _ if PART_TYPES.contains(&resource_type) => {
            let (group, version) = split_version(attributes["api_version"].as_str()?);
            named(group, version, attributes["kind"].as_str()?, attributes, identity)
        }
        _ => None,
    }
}

fn named(
    group: &str,
    version: &str,
    kind: &str,
    attributes: &Value,
    identity: Option<&Value>,
) -> Option<ObjectName> {
    let metadata = &attributes["metadata"][0];
    let filled = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let of_identity = |name: &str| identity.and_then(|identity| filled(&identity[name]));
    let id = attributes["id"].as_str().filter(|id| !id.contains('='));
    let (id_namespace, id_name) = id.map_or((None, None), |id| match id.split_once('/') {
        Some((namespace, name)) => (Some(namespace.to_owned()), Some(name.to_owned())),
        None => (None, Some(id.to_owned())),
    });
    let name = of_identity("name")
        .or_else(|| filled(&metadata["name"]))
        .or(id_name)
        .filter(|name| !name.is_empty())?;
    let namespace = of_identity("namespace").or_else(|| filled(&metadata["namespace"])).or(id_namespace);
    Some(ObjectName {
        group: group.into(),
        version: version.into(),
        kind: kind.into(),
        namespace: namespace.unwrap_or_default().into(),
        name: name.into(),
    })
}

/// Attributes, without indices, that a state marks as sensitive: `[{"type":"get_attr","value":"data"}, …]` each.
pub(super) fn sensitive_paths(marked: &Value) -> Vec<Box<str>> {
    let paths = marked.as_array().map_or(&[][..], Vec::as_slice);
    paths.iter().filter_map(|path| path.as_array()).map(|steps| path_of(steps)).collect()
}

/// The same from `terraform show -json`, which marks with `true` in a document of the same form.
pub(super) fn sensitive_marks(marked: &Value) -> Vec<Box<str>> {
    let mut found = Vec::new();
    collect_marks(marked, &mut Vec::new(), &mut found);
    found
}

fn collect_marks<'a>(marked: &'a Value, path: &mut Vec<&'a str>, found: &mut Vec<Box<str>>) {
    match marked {
        Value::Bool(true) => found.push(path.join(".").into()),
        Value::Array(elements) => elements.iter().for_each(|element| collect_marks(element, path, found)),
        Value::Object(members) => {
            for (name, member) in members {
                // A key of a map is no attribute: the whole map is covered then, which may be too much and never too little.
                if member == &Value::Bool(true) && !is_attribute(name) {
                    found.push(path.join(".").into());
                    continue;
                }
                path.push(name);
                collect_marks(member, path, found);
                path.pop();
            }
        }
        Value::Null | Value::Bool(false) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_attribute(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

fn path_of(steps: &[Value]) -> Box<str> {
    let mut names = Vec::new();
    for step in steps {
        match (step["type"].as_str(), &step["value"]) {
            (Some("get_attr"), Value::String(name)) => names.push(name.as_str()),
            (Some("index"), index) if index["value"].is_number() => {}
            // A key of a map, or something that is not known: all of what it is in.
            _ => break,
        }
    }
    names.join(".").into()
}

/// Replaces the values at a path of attributes by digests, in every element of lists on the way.
pub(super) fn seal_at(key: &RedactionKey, value: &mut Value, path: &str) {
    if path.is_empty() {
        return seal_all(key, value);
    }
    if let Value::Array(elements) = value {
        elements.iter_mut().for_each(|element| seal_at(key, element, path));
        return;
    }
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    match value {
        Value::Object(members) => {
            if let Some(member) = members.get_mut(first) {
                seal_at(key, member, rest);
            } else if !members.is_empty() {
                // It is marked and not found, so it may be anything in here.
                members.values_mut().for_each(|member| seal_all(key, member));
            }
        }
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => seal_all(key, value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{RedactionKey, object_of, seal_at, sensitive_marks, sensitive_paths};

    #[track_caller]
    fn check(resource_type: &str, attributes: &Value, identity: Option<&Value>, expected: &str) {
        let object = object_of(resource_type, attributes, identity).unwrap();
        let text = format!(
            "{}/{} {} {}/{}",
            object.group, object.version, object.kind, object.namespace, object.name
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn identity_comes_before_metadata_and_metadata_before_the_id() {
        let metadata = json!({"id": "a/b", "metadata": [{"name": "web", "namespace": "shop"}]});
        check("kubernetes_deployment", &metadata, None, "apps/v1 Deployment shop/web");
        let identity = json!({"name": "web2", "namespace": "shop2"});
        check("kubernetes_deployment_v1", &metadata, Some(&identity), "apps/v1 Deployment shop2/web2");
        check("kubernetes_service", &json!({"id": "a/b"}), None, "/v1 Service a/b");
        check("kubernetes_namespace", &json!({"id": "b"}), None, "/v1 Namespace /b");
    }

    #[test]
    fn types_that_own_parts_say_what_they_own_parts_of() {
        let labels = json!({"id": "apiVersion=apps/v1,kind=Deployment,name=web", "api_version": "apps/v1", "kind": "Deployment",
            "metadata": [{"name": "web", "namespace": "shop"}]});
        check("kubernetes_labels", &labels, None, "apps/v1 Deployment shop/web");
        assert!(object_of("kubernetes_labels", &json!({}), None).is_none());
        assert!(object_of("kubernetes_deployment", &json!({"metadata": 7}), None).is_none());
    }

    #[test]
    fn paths_are_attributes_without_indices_and_stop_at_keys() {
        let marked = json!([
            [{"type": "get_attr", "value": "data"}],
            [{"type": "get_attr", "value": "spec"}, {"type": "index", "value": {"value": 0, "type": "number"}}, {"type": "get_attr", "value": "a"}],
            [{"type": "get_attr", "value": "data"}, {"type": "index", "value": {"value": "k", "type": "string"}}],
            7, []]);
        let paths: Vec<_> = sensitive_paths(&marked).into_iter().map(String::from).collect();
        assert_eq!(paths, ["data", "spec.a", "data", ""]);
        let marks = sensitive_marks(&json!({"data": {"K": true}, "spec": [{"a": true, "b": false}]}));
        assert_eq!(marks.iter().map(|mark| &**mark).collect::<Vec<_>>(), ["data", "spec.a"]);
    }

    #[test]
    fn what_is_marked_is_sealed_wherever_it_stands() {
        let key = RedactionKey::new([1; 32]);
        let mut value = json!({"spec": [{"a": "hunter2", "b": "x"}, {"a": {"c": "hunter2"}}]});
        seal_at(&key, &mut value, "spec.a");
        assert!(!value.to_string().contains("hunter") && value["spec"][0]["b"] == "x");
        let mut value = json!({"spec": "hunter2"});
        seal_at(&key, &mut value, "");
        assert!(!value.to_string().contains("hunter"));
    }
}
