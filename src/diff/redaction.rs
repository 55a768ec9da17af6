//! Redacts confidential values in live objects, manifests and findings: the values of Secrets, and the fields that a baseline
//! marks as sensitive.

use serde_json::{Map, Value};

use super::{
    manifest::SERVER_METADATA,
    redacted_text::{is_redacted, redact_base64, redact_member, redact_text, redact_value},
};
use crate::types::{FieldClass, Finding, Kind, RedactionKey, RedactionPolicy, is_within};

/// The annotation of `kubectl apply`, which contains the whole manifest.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Fields of a Secret that are always redacted.
pub(super) const REDACTED_IN_SECRETS: &[&str] = &["data", "stringData", "metadata.annotations"];

/// Members of a Secret that stay plain, or are redacted on their own. All others are misplaced values.
const SECRET_MEMBERS: &[&str] = &["apiVersion", "kind", "type", "immutable", "metadata", "data"];
const SECRET_METADATA: &[&str] = &[
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

pub fn is_secret(group: &str, kind: &str) -> bool {
    group.is_empty() && kind == "Secret"
}

/// Replaces the values of a Secret by their digests with each key; documents of other kinds stay plain.
///
/// The digests are those of the decoded bytes, so that `data`, `stringData` and the plain values of a state can be compared.
/// `stringData` becomes `data`, as in the API server. Annotations are redacted too, since tools copy values there; the
/// last-applied annotation is dropped. Members that no Secret has are redacted as well: a value that lost its indentation in the
/// manifest is still confidential.
pub fn redact_secret(document: &mut Value, group: &str, kind: &str, keys: &[RedactionKey]) {
    if is_secret(group, kind)
        && let Value::Object(members) = document
    {
        redact_secret_members(members, keys);
    }
}

fn redact_secret_members(members: &mut Map<String, Value>, keys: &[RedactionKey]) {
    match members.get_mut("data") {
        Some(Value::Object(data)) => data.values_mut().for_each(|value| redact_base64(keys, value)),
        Some(other) => *other = Value::Null,
        None => {}
    }
    if let Some(Value::Object(mut texts)) = members.remove("stringData") {
        texts.values_mut().for_each(|text| redact_value(keys, text));
        match members.get_mut("data") {
            Some(Value::Object(data)) => data.extend(texts),
            _ => drop(members.insert("data".to_owned(), texts.into())),
        }
    }
    redact_all_but(SECRET_MEMBERS, members, keys);
    let Some(metadata) = members.get_mut("metadata") else { return };
    let Value::Object(metadata) = metadata else { return redact_value(keys, metadata) };
    redact_all_but(SECRET_METADATA, metadata, keys);
    if let Some(annotations) = metadata.get_mut("annotations") {
        if let Value::Object(annotations) = annotations {
            annotations.remove(LAST_APPLIED);
        }
        redact_value(keys, annotations);
    }
}

fn redact_all_but(plain: &[&str], members: &mut Map<String, Value>, keys: &[RedactionKey]) {
    let misplaced = members.iter_mut().filter(|(name, _)| !plain.contains(&name.as_str()));
    misplaced.for_each(|(_, value)| redact_value(keys, value));
}

/// Redacts the last-applied annotation anywhere in a value: it repeats sensitive fields.
pub fn redact_last_applied(keys: &[RedactionKey], value: &mut Value) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(|element| redact_last_applied(keys, element)),
        Value::Object(members) => {
            for (name, member) in members {
                if name == LAST_APPLIED {
                    redact_value(keys, member);
                } else {
                    redact_last_applied(keys, member);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Redacts `binary_data` in the Terraform attributes of a Secret, and drops the last-applied annotation.
pub fn redact_binary_data(key: &RedactionKey, attributes: &mut Value) {
    if let Some(Value::Object(data)) = attributes.get_mut("binary_data") {
        data.values_mut().for_each(|value| redact_base64(std::slice::from_ref(key), value));
    }
    if let Some(Value::Object(annotations)) = attributes.pointer_mut("/metadata/0/annotations") {
        annotations.remove(LAST_APPLIED);
    }
}

/// Redacts a live object by policy: the values of a Secret, the sensitive fields of this object, and their copies in the
/// last-applied annotation and in `managedFields`.
pub(super) fn redact_object(object: &mut Value, kind: &Kind, policy: &RedactionPolicy) {
    let keys = policy.keys();
    redact_secret(object, &kind.group, &kind.kind, keys);
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    let fields = policy.fields(&kind.version, text("namespace"), text("name"));
    if fields.is_empty() {
        return;
    }
    fields.iter().for_each(|field| redact_field(object, field, keys));
    redact_last_applied(keys, object);
    let managers = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
    for manager in managers.into_iter().flatten() {
        if let Some(owned) = manager.get_mut("fieldsV1") {
            fields.iter().for_each(|field| redact_owned_fields(owned, field, keys));
        }
    }
}

/// Redacts a field, in every element of the lists on its path. The identity of the object stays plain.
pub fn redact_field(object: &mut Value, field: &str, keys: &[RedactionKey]) {
    let Value::Object(members) = object else { return };
    for (name, member) in members.iter_mut() {
        let Some(rest) = rest_of_path(field, name) else { continue };
        match (name.as_str(), member) {
            ("apiVersion" | "kind", _) => {}
            ("metadata", Value::Object(metadata)) => {
                for (name, member) in
                    metadata.iter_mut().filter(|(name, _)| !SERVER_METADATA.contains(&name.as_str()))
                {
                    if let Some(rest) = rest_of_path(rest, name) {
                        redact_at(name, member, rest, keys);
                    }
                }
            }
            (name, member) => redact_at(name, member, rest, keys),
        }
    }
}

fn redact_at(name: &str, value: &mut Value, field: &str, keys: &[RedactionKey]) {
    match value {
        value if field.is_empty() => redact_member(keys, name, value),
        Value::Array(elements) => {
            elements.iter_mut().for_each(|element| redact_at(name, element, field, keys));
        }
        Value::Object(members) => {
            for (name, member) in members {
                if let Some(rest) = rest_of_path(field, name) {
                    redact_at(name, member, rest, keys);
                }
            }
        }
        // The path leads into a scalar, so the scalar is sensitive.
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => redact_value(keys, value),
    }
}

/// The rest of a path after the member of this name, which may contain dots; [`None`] if the path leads elsewhere. The empty
/// path leads into every member.
fn rest_of_path<'a>(field: &'a str, name: &str) -> Option<&'a str> {
    if field.is_empty() {
        return Some("");
    }
    let rest = field.strip_prefix(name)?;
    if rest.is_empty() { Some("") } else { rest.strip_prefix('.') }
}

/// Redacts values in the keys of `fieldsV1`: `k:` identifies list elements by their keys, `v:` by their value.
fn redact_owned_fields(owned: &mut Value, field: &str, keys: &[RedactionKey]) {
    let Value::Object(members) = owned else { return };
    let redacted = std::mem::take(members).into_iter().map(|(owned_key, mut inner)| {
        let owned_key = match owned_key.split_at_checked(2) {
            Some(("f:", name)) => {
                if let Some(rest) = rest_of_path(field, name) {
                    redact_owned_fields(&mut inner, rest, keys);
                }
                owned_key
            }
            Some((prefix @ ("k:" | "v:"), identity)) => {
                redact_owned_fields(&mut inner, field, keys);
                redact_element_key(prefix, identity, field, keys).unwrap_or(owned_key)
            }
            Some(_) | None => {
                redact_owned_fields(&mut inner, field, keys);
                owned_key
            }
        };
        (owned_key, inner)
    });
    *members = redacted.collect::<Map<_, _>>();
}

/// The redacted key of a list element in `fieldsV1`; [`None`] if it contains no sensitive value.
fn redact_element_key(prefix: &str, identity: &str, field: &str, keys: &[RedactionKey]) -> Option<String> {
    // Malformed JSON may contain the value too, so it is redacted as a string.
    let mut identity: Value = serde_json::from_str(identity).unwrap_or_else(|_| identity.into());
    match &mut identity {
        Value::Object(identity) if !field.is_empty() => {
            redact_member(keys, field, identity.get_mut(field)?);
        }
        _ if !field.is_empty() => return None,
        identity => redact_value(keys, identity),
    }
    Some(format!("{prefix}{identity}"))
}

/// Redacts plain strings of an object that look redacted, so that a forged digest never equals a real one.
pub(super) fn redact_forged(value: &mut Value, keys: &[RedactionKey]) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(|element| redact_forged(element, keys)),
        Value::Object(members) => members.values_mut().for_each(|member| redact_forged(member, keys)),
        Value::String(text) if is_redacted(text) => *text = redact_text(keys, text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Redacts the values of findings at, within or around one of these fields. Fields are written without indices; the empty one
/// is the whole object.
///
/// The live object is redacted there already. A value that another source declares is not, and remains visible after the live
/// field is deleted.
pub fn redact_findings(findings: &mut [Finding], fields: &[Box<str>], key: &RedactionKey) {
    // A hash discloses nothing.
    for finding in findings.iter_mut().filter(|finding| finding.class != FieldClass::Hash) {
        let field = finding.path.field_names().collect::<Vec<_>>().join(".");
        if fields.iter().any(|sensitive| is_within(&field, sensitive) || is_within(sensitive, &field)) {
            for value in [&mut finding.expected, &mut finding.actual] {
                *value = value.redacted(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{
        FieldClass, Finding, RedactionKey, redact_field, redact_findings, redact_forged, redact_object,
        redact_secret,
    };
    use crate::{
        diff::redacted_text::{is_redacted, is_same},
        types::{FieldValue, Kind, ObjectRef, RedactionPolicy},
    };

    #[test]
    fn secret_is_redacted_completely_and_only_once() {
        let keys = [RedactionKey::new([1; 32]), RedactionKey::new([2; 32])];
        let mut live = json!({"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "canary", "a": "canary"}},
            "data": {"a": "Y2FuYXJ5", "b": "not base64 canary", "c": "", "d": 7}, "stringData": {"e": "canary"}});
        redact_secret(&mut live, "", "Secret", &keys);
        let text = live.to_string();
        assert!(
            !text.contains("anary") && !text.contains("Y2Fu") && !text.contains("last-applied"),
            "{text}"
        );
        assert_eq!(live["data"]["a"], live["data"]["e"]);
        let once = live.clone();
        redact_secret(&mut live, "", "Secret", &keys);
        assert_eq!(live, once);
        let mut stray = json!({"type": "Opaque", "password": "canary", "stringdata": {"a": ["canary"]}, "image": "canary",
            "metadata": {"name": "a", "labels": {"app": "web"}, "password": "canary"}});
        redact_secret(&mut stray, "", "Secret", &keys);
        assert!(!stray.to_string().contains("canary"), "{stray}");
        assert_eq!(
            (&stray["type"], &stray["metadata"]["labels"]),
            (&json!("Opaque"), &json!({"app": "web"}))
        );
        let mut other = json!({"data": {"a": "b"}});
        redact_secret(&mut other, "", "ConfigMap", &keys);
        assert_eq!(other, json!({"data": {"a": "b"}}));
    }

    fn keys() -> [RedactionKey; 2] {
        [1, 2].map(|number| RedactionKey::new([number; 32]))
    }

    /// Redacts these fields of a Deployment `shop/web`.
    fn redacted(mut live: Value, fields: &[&str]) -> Value {
        live["metadata"]["name"] = "web".into();
        live["metadata"]["namespace"] = "shop".into();
        let object = ObjectRef::new("apps", "v1", "Deployment", "shop", "web");
        let mut policy = RedactionPolicy::new(keys()[0].clone());
        policy.add_key(&keys()[1]);
        policy.add_fields(&object, fields.iter().map(|field| (*field).into()));
        redact_object(&mut live, &Kind::deployment(), &policy);
        live
    }

    #[track_caller]
    fn check(field: &str, mut value: Value, left: &str) {
        redact_field(&mut value, field, &keys());
        let text = value.to_string();
        assert!(!text.contains("hunter") && text.contains(left), "{field}: {text}");
    }

    #[test]
    fn field_is_redacted_in_every_list_element() {
        check("env.value", json!({"env": [{"name": "A", "value": "hunter2"}, {"name": "B"}]}), "\"B\"");
        check("env", json!({"env": [{"name": "hunter2", "value": "hunter2"}], "a": "left"}), "left");
        check("spec.a.b", json!({"spec": {"a": "hunter2"}}), "");
        check("spec.a.b", json!({"spec": {"a": [[{"b": "hunter2"}]], "b": "left"}}), "left");
    }

    #[test]
    fn field_names_may_contain_dots() {
        let path = "metadata.annotations.example.com/token";
        let annotations = |more: &str| json!({"example.com/token": "hunter2", "example": {"com/token": "hunter2"}, more: "left"});
        check(path, json!({"metadata": {"annotations": annotations("example.com/tokens")}}), "left");
    }

    #[test]
    fn redacted_object_keeps_its_identity() {
        let metadata = json!({"name": "left-name", "namespace": "n", "uid": "u", "labels": {"a": "hunter2"}, "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [{"name": "hunter2"}], "managedFields": [{"manager": "left-manager"}]});
        let object = json!({"apiVersion": "v1", "kind": "Left", "metadata": metadata, "spec": {"a": ["hunter2", 7, false]}});
        for left in ["left-name", "Left", "left-manager", "2026-01-01T00:00:00Z"] {
            check("", object.clone(), left);
        }
        let mut numbers = json!({"a": [7, 0, true, false, null, ""]});
        redact_field(&mut numbers, "", &keys());
        let [seven, zero, yes, no, null, empty] = &numbers["a"].as_array().unwrap()[..] else {
            unreachable!()
        };
        assert_eq!((null, empty), (&Value::Null, &json!("")));
        for (redacted, text) in [(seven, "7"), (zero, "0"), (yes, "true"), (no, "false")] {
            let redacted = redacted.as_str().unwrap();
            assert!(is_redacted(redacted) && keys().iter().all(|key| is_same(key, text, redacted)), "{text}");
        }
    }

    #[test]
    fn last_applied_annotation_is_redacted_with_a_sensitive_field() {
        let last_applied = "kubectl.kubernetes.io/last-applied-configuration";
        let live = json!({"metadata": {"annotations": {last_applied: "{\"a\":\"hunter2\"}", "team": "left"}}, "spec": {"replicas": 3}});
        assert_eq!(redacted(live.clone(), &[])["metadata"]["annotations"], live["metadata"]["annotations"]);
        let redacted = redacted(live, &["spec.replicas"]);
        let annotations = &redacted["metadata"]["annotations"];
        assert_eq!(annotations["team"], "left");
        let copy = annotations[last_applied].as_str().unwrap();
        assert!(keys().iter().all(|key| is_same(key, "{\"a\":\"hunter2\"}", copy)));
    }

    #[test]
    fn managed_fields_contain_digests_of_redacted_list_keys() {
        let variables = json!({".": {}, "k:{\"name\":\"hunter2\"}": {".": {}, "f:name": {}, "f:value": {}}});
        let container = json!({"k:{\"name\":\"web\"}": {"f:env": variables, "f:image": {}}});
        let owned = json!({"f:spec": {"f:template": {"f:spec": {"f:containers": container}}}, "f:metadata": {"f:finalizers": {"v:\"hunter2\"": {}}}});
        let live = |field: &str| {
            let fields =
                [format!("spec.template.spec.containers.env{field}"), "metadata.finalizers".to_owned()];
            let container = json!({"name": "web", "env": [{"name": "hunter2", "value": "left"}]});
            let live = json!({"metadata": {"finalizers": ["hunter2"], "managedFields": [{"manager": "kubectl", "fieldsV1": owned}]},
                "spec": {"template": {"spec": {"containers": [container]}}}});
            redacted(live, &fields.each_ref().map(String::as_str))
        };
        for field in ["", ".name"] {
            let live = live(field);
            assert!(!live.to_string().contains("hunter"), "{live}");
            let containers = "/metadata/managedFields/0/fieldsV1/f:spec/f:template/f:spec/f:containers";
            let name = live["spec"]["template"]["spec"]["containers"][0]["env"][0]["name"].clone();
            let list_key = format!("k:{}", json!({"name": name}));
            let variables = &live.pointer(containers).unwrap()["k:{\"name\":\"web\"}"]["f:env"];
            assert!(
                variables[&list_key]["f:value"].is_object(),
                "the owner is found by the same digest: {variables}"
            );
        }
        let owned = live(".value")["metadata"]["managedFields"].to_string();
        assert!(owned.contains("k:{\\\"name\\\":\\\"hunter2\\\"}"), "the key is not sensitive: {owned}");
    }

    #[test]
    fn string_that_looks_redacted_is_redacted() {
        let forged = format!("\u{1}{}", RedactionKey::new([3; 32]).digest(b"x"));
        let mut live = json!({"data": {"a": forged, "b": "\u{1}left"}});
        redact_forged(&mut live, &keys());
        let redacted = live["data"]["a"].as_str().unwrap();
        assert!(
            keys().iter().all(|key| redacted.contains(&key.digest(forged.as_bytes()).to_string())),
            "{redacted}"
        );
        assert_eq!(live["data"]["b"], "\u{1}left", "not a digest, so a plain string");
    }

    fn is_plain(path: &str, fields: &[&str]) -> bool {
        is_plain_of(FieldClass::Env, path, fields)
    }

    fn is_plain_of(class: FieldClass, path: &str, fields: &[&str]) -> bool {
        let mut found = [Finding::new(path.parse().unwrap(), class, "canary", "")];
        let fields: Vec<Box<str>> = fields.iter().map(|field| (*field).into()).collect();
        redact_findings(&mut found, &fields, &RedactionKey::new([1; 32]));
        let [Finding { expected, actual, .. }] = found;
        assert_eq!(actual, FieldValue::Absent, "an absent value has no digest");
        let redacted = FieldValue::Redacted(RedactionKey::new([1; 32]).digest(b"canary"));
        assert!(expected == FieldValue::non_empty("canary") || expected == redacted, "{expected:?}");
        expected != redacted
    }

    #[test]
    fn findings_at_within_or_around_a_sensitive_field_are_redacted() {
        let value = "spec.template.spec.containers[name=web].env[name=GONE].value";
        assert!(is_plain(value, &[]));
        assert!(is_plain(value, &["data", "spec.template.spec.containers.env.val"]));
        for field in ["spec.template.spec.containers.env.value", "spec.template.spec.containers.env", ""] {
            assert!(!is_plain(value, &["data", field]), "{field}");
        }
        assert!(!is_plain("spec.template", &["spec.template.spec.containers.env.value"]));
        assert!(!is_plain(
            "metadata.annotations[\"example.com/a\"]",
            &["metadata.annotations.example.com/a"]
        ));
        assert!(is_plain_of(FieldClass::Hash, "spec", &["spec.template.spec.containers.env.value"]));
        assert!(is_plain("spec.replicas", &["spec.template.spec.containers.env.value"]));
    }
}
