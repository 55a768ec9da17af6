//! Turns one resource of a state into a declared object, and redacts its sensitive values.

use serde_json::Value;

use crate::{
    diff::{
        Node, is_secret,
        manifest::normalize,
        pack, redact_all, redact_binary_data, redact_last_applied, redact_secret,
        terraform::{
            self, PART_TYPES, ResourceType, record_absent_attributes, record_unset_fields, redact_field,
            sensitive_attributes,
        },
    },
    sources::{
        documents::{object_of_document, split_version},
        scopes::is_built_in,
    },
    types::{DeclaredBody, DeclaredObject, ObjectRef, RedactionKey, SkipReason, UnknownReason},
};

pub(super) struct ResourceInstance<'a> {
    pub(super) address: Box<str>,
    pub(super) resource_type: &'a str,
    pub(super) schema_version: u64,
    pub(super) attributes: Node,
    /// Paths of attributes that the state marks as sensitive.
    pub(super) sensitive: Vec<Box<str>>,
    pub(super) identity: Option<Node>,
}

/// The newest schema version of the provider that can be compared.
const MAX_SCHEMA_VERSION: u64 = 1;

pub(super) fn declared_object(
    instance: ResourceInstance<'_>,
    key: &RedactionKey,
) -> Result<DeclaredObject, SkipReason> {
    let is_document = matches!(instance.resource_type, "kubernetes_manifest" | "kubectl_manifest");
    let is_partial = PART_TYPES.contains(&instance.resource_type);
    if !is_document && !is_partial && terraform::resource_type(instance.resource_type).is_none() {
        return Err(SkipReason::UnknownType);
    }
    if !instance.attributes.is_object() {
        return Err(SkipReason::Unreadable);
    }
    let has_newer_schema = instance.schema_version > MAX_SCHEMA_VERSION;
    let mut declared =
        if is_document { from_document(instance, key) } else { from_attributes(instance, is_partial, key) }?;
    if has_newer_schema {
        declared.body = DeclaredBody::Opaque(UnknownReason::NewerSchema);
    }
    Ok(declared)
}

fn from_attributes(
    instance: ResourceInstance<'_>,
    is_partial: bool,
    key: &RedactionKey,
) -> Result<DeclaredObject, SkipReason> {
    let ResourceInstance { address, resource_type, schema_version, mut attributes, mut sensitive, identity } =
        instance;
    let object = object_of(resource_type, &attributes, identity.as_ref()).ok_or(SkipReason::NoIdentity)?;
    let key = &key.of_namespace(&object.namespace);
    let uid = attributes["metadata"][0]["uid"].as_str().filter(|uid| !uid.is_empty()).map(Into::into);
    // Old versions of Terraform do not store the marks of the provider's schema.
    let by_schema =
        sensitive_attributes(resource_type).into_iter().filter(|name| attributes.get(name).is_some());
    sensitive.extend(by_schema.map(Into::into));
    if is_secret(object.group_kind()) {
        redact_binary_data(key, &mut attributes);
    }
    for path in &sensitive {
        redact_at(key, &mut attributes, path);
    }
    redact_last_applied(std::slice::from_ref(key), &mut attributes);
    if !is_partial {
        record_absent_attributes(resource_type, &mut attributes);
    }
    if schema_version == 0 {
        upgrade_resources(&mut attributes);
    }
    prune(&mut attributes);
    let body = pack(&attributes);
    let body = if is_partial { DeclaredBody::Parts(body) } else { DeclaredBody::Attributes(body) };
    let key = key.clone();
    Ok(DeclaredObject { address, resource_type: resource_type.into(), object, uid, sensitive, key, body })
}

fn from_document(instance: ResourceInstance<'_>, key: &RedactionKey) -> Result<DeclaredObject, SkipReason> {
    let ResourceInstance { address, resource_type, mut attributes, sensitive, .. } = instance;
    let is_manifest = resource_type == "kubernetes_manifest";
    let mut document = if is_manifest {
        let mut object = attributes.take_member("object");
        // A state stores type and value, `terraform show -json` only the value.
        if object["type"].as_array().is_some() { object.take_member("value") } else { object }
    } else {
        // Like Go, read `0644` as octal.
        let options = serde_saphyr::options! { legacy_octal_numbers: true };
        let text = attributes["yaml_body"].as_str().ok_or(SkipReason::Unreadable)?;
        let document: Value =
            serde_saphyr::from_str_with_options(text, options).map_err(|_| SkipReason::Unreadable)?;
        Node::from(document)
    };
    let object = object_of_document(|pointer| document.pointer(pointer).and_then(Node::as_str));
    let mut object = object.ok_or(SkipReason::NoIdentity)?;
    // The provider may override the namespace of the body.
    if let Some(namespace) =
        attributes["namespace"].as_str().filter(|namespace| !namespace.is_empty() && !is_manifest)
    {
        object.namespace = namespace.into();
    }
    let uid =
        ["live_uid", "uid"].iter().find_map(|name| attributes[*name].as_str().filter(|uid| !uid.is_empty()));
    let uid = uid.map(Into::into);
    let mut sensitive = if is_manifest { document_paths(&sensitive) } else { sensitive_fields(&attributes) };
    let key = &key.of_namespace(&object.namespace);
    let keys = std::slice::from_ref(key);
    if is_secret(object.group_kind()) {
        redact_secret(&mut document, &object.group, &object.kind, keys);
        sensitive.extend(["data", "metadata.annotations"].map(Into::into));
    }
    sensitive.iter().for_each(|path| redact_field(&mut document, path, keys));
    if is_manifest {
        redact_last_applied(keys, &mut document);
        if !is_built_in(&object.group) {
            record_unset_fields(&mut document);
        }
        prune(&mut document);
    } else {
        normalize(&mut document, key);
    }
    let body = pack(&document);
    let body = if is_manifest { DeclaredBody::Whole(body) } else { DeclaredBody::Subset(body) };
    let key = key.clone();
    Ok(DeclaredObject { address, resource_type: resource_type.into(), object, uid, sensitive, key, body })
}

/// Paths within the document. Marks of `manifest` also apply to `object`, and vice versa.
fn document_paths(sensitive: &[Box<str>]) -> Vec<Box<str>> {
    let inside = sensitive.iter().filter_map(|path| {
        let (first, rest) = path.split_once('.').unwrap_or((path, ""));
        ["", "manifest", "object"].contains(&first).then(|| rest.into())
    });
    inside.collect()
}

fn sensitive_fields(attributes: &Node) -> Vec<Box<str>> {
    let fields = attributes["sensitive_fields"].elements();
    fields.iter().filter_map(Node::as_str).map(Into::into).collect()
}

/// In schema version 0, limits and requests are blocks: `[{"cpu": "1"}]`.
fn upgrade_resources(value: &mut Node) {
    match value {
        Node::Array(elements) => elements.iter_mut().for_each(upgrade_resources),
        Node::Object(members) => {
            for (name, member) in members.iter_mut() {
                if let ("limits" | "requests", Node::Array(blocks)) = (name.as_str(), &mut *member) {
                    *member = blocks.first_mut().map(std::mem::take).unwrap_or_default();
                    if let Node::Object(amounts) = member {
                        amounts.retain(|_, amount| match amount {
                            Node::String(text) => !text.is_empty(),
                            amount => matches!(amount, Node::Redacted(_)),
                        });
                    }
                } else {
                    upgrade_resources(member);
                }
            }
        }
        Node::Null | Node::Bool(_) | Node::Number(_) | Node::String(_) | Node::Redacted(_) => {}
    }
}

/// Removes nulls and empty lists, since states contain every attribute.
fn prune(value: &mut Node) {
    value.retain_members(&|_, member| !member.is_null() && *member != Node::Array(Vec::new()));
}

/// Identifies the object of a resource; `None` if the state does not name it.
fn object_of(resource_type: &str, attributes: &Node, identity: Option<&Node>) -> Option<ObjectRef> {
    if let Some(ResourceType { group, version, kind, .. }) = terraform::resource_type(resource_type) {
        return object_name(group, version, kind, attributes, identity);
    }
    match resource_type {
        "kubernetes_config_map_v1_data" => object_name("", "v1", "ConfigMap", attributes, identity),
        "kubernetes_secret_v1_data" => object_name("", "v1", "Secret", attributes, identity),
        _ if PART_TYPES.contains(&resource_type) => {
            let (group, version) = split_version(attributes["api_version"].as_str()?);
            object_name(group, version, attributes["kind"].as_str()?, attributes, identity)
        }
        _ => None,
    }
}

fn object_name(
    group: &str,
    version: &str,
    kind: &str,
    attributes: &Node,
    identity: Option<&Node>,
) -> Option<ObjectRef> {
    let metadata = &attributes["metadata"][0];
    let id = attributes["id"].as_str().filter(|id| !id.contains('=')).unwrap_or_default();
    let (id_namespace, id_name) = id.split_once('/').unwrap_or(("", id));
    let find = |name: &str, from_id: &'_ str| {
        let recorded = [identity.map(|identity| &identity[name]), Some(&metadata[name])];
        let mut recorded = recorded.into_iter().flatten().filter_map(Node::as_str);
        recorded.find(|text| !text.is_empty()).unwrap_or(from_id).to_owned()
    };
    let (namespace, name) = (find("namespace", id_namespace), find("name", id_name));
    (!name.is_empty()).then(|| ObjectRef::new(group, version, kind, &namespace, &name))
}

/// Paths, without indices, that a state marks as sensitive by `[{"type":"get_attr","value":"data"}, …]`.
pub(super) fn sensitive_paths(marks: &Value) -> Vec<Box<str>> {
    let paths = marks.as_array().map_or(&[][..], Vec::as_slice);
    paths.iter().filter_map(|path| path.as_array()).map(|steps| path_of(steps)).collect()
}

/// Paths that `terraform show -json` marks as sensitive by `true` in a document of the same shape.
pub(super) fn sensitive_marks(marks: &Value) -> Vec<Box<str>> {
    let mut paths = Vec::new();
    collect_marks(marks, &mut Vec::new(), &mut paths);
    paths
}

fn collect_marks<'a>(marks: &'a Value, path: &mut Vec<&'a str>, paths: &mut Vec<Box<str>>) {
    match marks {
        Value::Bool(true) => paths.push(path.join(".").into()),
        Value::Array(elements) => elements.iter().for_each(|element| collect_marks(element, path, paths)),
        Value::Object(members) => {
            for (name, member) in members {
                // A map key is not part of a path, so that the whole map is redacted: too much, but never too little.
                if member == &Value::Bool(true) && !is_attribute(name) {
                    paths.push(path.join(".").into());
                    continue;
                }
                path.push(name);
                collect_marks(member, path, paths);
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
            // Map keys and unknown steps mark the whole parent.
            _ => break,
        }
    }
    names.join(".").into()
}

/// Replaces values at a path by digests, in all elements of the lists on the path.
fn redact_at(key: &RedactionKey, value: &mut Node, path: &str) {
    if path.is_empty() {
        return redact_all(key, value);
    }
    if let Node::Array(elements) = value {
        elements.iter_mut().for_each(|element| redact_at(key, element, path));
        return;
    }
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    match value {
        Node::Object(members) => {
            if let Some(member) = members.get_mut(first) {
                redact_at(key, member, rest);
            } else if !members.is_empty() {
                // The marked attribute is not found, so that any member may be sensitive.
                members.values_mut().for_each(|member| redact_all(key, member));
            }
        }
        Node::Null => {}
        Node::Bool(_) | Node::Number(_) | Node::String(_) | Node::Redacted(_) | Node::Array(_) => {
            redact_all(key, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Node, RedactionKey, object_of, redact_at, sensitive_marks, sensitive_paths};

    #[track_caller]
    fn check(resource_type: &str, attributes: &Value, identity: Option<&Value>, expected: &str) {
        let (attributes, identity) = (Node::from(attributes.clone()), identity.cloned().map(Node::from));
        let object = object_of(resource_type, &attributes, identity.as_ref()).unwrap();
        let text = format!(
            "{}/{} {} {}/{}",
            object.group, object.version, object.kind, object.namespace, object.name
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn identity_wins_over_metadata_and_metadata_over_the_id() {
        let metadata = json!({"id": "a/b", "metadata": [{"name": "web", "namespace": "shop"}]});
        check("kubernetes_deployment", &metadata, None, "apps/v1 Deployment shop/web");
        let identity = json!({"name": "web2", "namespace": "shop2"});
        check("kubernetes_deployment_v1", &metadata, Some(&identity), "apps/v1 Deployment shop2/web2");
        check("kubernetes_service", &json!({"id": "a/b"}), None, "/v1 Service a/b");
        check("kubernetes_namespace", &json!({"id": "b"}), None, "/v1 Namespace /b");
    }

    #[test]
    fn types_that_declare_parts_name_their_object() {
        let labels = json!({"id": "apiVersion=apps/v1,kind=Deployment,name=web", "api_version": "apps/v1", "kind": "Deployment",
            "metadata": [{"name": "web", "namespace": "shop"}]});
        check("kubernetes_labels", &labels, None, "apps/v1 Deployment shop/web");
        assert!(object_of("kubernetes_labels", &Node::from(json!({})), None).is_none());
        assert!(object_of("kubernetes_deployment", &Node::from(json!({"metadata": 7})), None).is_none());
    }

    #[test]
    fn sensitive_paths_omit_indices_and_stop_at_map_keys() {
        let marks = json!([
            [{"type": "get_attr", "value": "data"}],
            [{"type": "get_attr", "value": "spec"}, {"type": "index", "value": {"value": 0, "type": "number"}}, {"type": "get_attr", "value": "a"}],
            [{"type": "get_attr", "value": "data"}, {"type": "index", "value": {"value": "k", "type": "string"}}],
            7, []]);
        let paths: Vec<_> = sensitive_paths(&marks).into_iter().map(String::from).collect();
        assert_eq!(paths, ["data", "spec.a", "data", ""]);
        let shown = sensitive_marks(&json!({"data": {"K": true}, "spec": [{"a": true, "b": false}]}));
        assert_eq!(shown.iter().map(|path| &**path).collect::<Vec<_>>(), ["data", "spec.a"]);
    }

    #[test]
    fn marked_values_are_redacted_in_lists_and_maps() {
        let key = RedactionKey::new([1; 32]);
        let mut value = Node::from(json!({"spec": [{"a": "hunter2", "b": "x"}, {"a": {"c": "hunter2"}}]}));
        redact_at(&key, &mut value, "spec.a");
        assert!(!value.to_string().contains("hunter") && value["spec"][0]["b"] == "x");
        let mut value = Node::from(json!({"spec": "hunter2"}));
        redact_at(&key, &mut value, "");
        assert!(!value.to_string().contains("hunter"));
    }
}
