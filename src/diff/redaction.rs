//! Redacts confidential values in live objects, manifests and findings: the values of Secrets, and the fields that a baseline
//! marks as sensitive.

use zeroize::Zeroize as _;

use super::{
    digests::{redact_base64, redact_member, redact_value},
    manifest::SERVER_METADATA,
    ownership::{REDACTED_ELEMENTS, REDACTED_VALUES},
    tree::{Members, Node},
};
use crate::types::{
    FieldClass, Finding, GroupKind, Kind, RedactionKey, RedactionPolicy, WHOLE_OBJECT, is_within,
};

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

pub fn is_secret(kind: GroupKind<&str>) -> bool {
    kind == GroupKind::SECRET
}

/// Replaces the values of a Secret by their digests with each key; documents of other kinds stay plain.
///
/// The digests are those of the decoded bytes, so that `data`, `stringData` and the plain values of a state can be compared.
/// `stringData` becomes `data`, as in the API server. Annotations are redacted too, since tools copy values there; the
/// last-applied annotation is dropped. Members that no Secret has are redacted as well: a value that lost its indentation in the
/// manifest is still confidential.
pub fn redact_secret(document: &mut Node, group: &str, kind: &str, keys: &[RedactionKey]) {
    if is_secret(GroupKind::new(group, kind))
        && let Node::Object(members) = document
    {
        redact_secret_members(members, keys);
    }
}

fn redact_secret_members(members: &mut Members, keys: &[RedactionKey]) {
    match members.get_mut("data") {
        Some(Node::Object(data)) => data.values_mut().for_each(|value| redact_base64(keys, value)),
        Some(other) => *other = Node::Null,
        None => {}
    }
    if let Some(Node::Object(mut texts)) = members.remove("stringData") {
        texts.values_mut().for_each(|text| redact_value(keys, text));
        match members.get_mut("data") {
            Some(Node::Object(data)) => data.extend(texts),
            _ => drop(members.insert("data".to_owned(), Node::Object(texts))),
        }
    }
    redact_all_but(SECRET_MEMBERS, members, keys);
    let Some(metadata) = members.get_mut("metadata") else { return };
    let Node::Object(metadata) = metadata else { return redact_value(keys, metadata) };
    redact_all_but(SECRET_METADATA, metadata, keys);
    if let Some(annotations) = metadata.get_mut("annotations") {
        if let Node::Object(annotations) = annotations
            && let Some(Node::String(mut manifest)) = annotations.remove(LAST_APPLIED)
        {
            manifest.zeroize();
        }
        redact_value(keys, annotations);
    }
}

fn redact_all_but(plain: &[&str], members: &mut Members, keys: &[RedactionKey]) {
    let misplaced = members.iter_mut().filter(|(name, _)| !plain.contains(&name.as_str()));
    misplaced.for_each(|(_, value)| redact_value(keys, value));
}

/// Redacts the last-applied annotation anywhere in a value: it repeats sensitive fields.
pub fn redact_last_applied(keys: &[RedactionKey], value: &mut Node) {
    match value {
        Node::Array(elements) => elements.iter_mut().for_each(|element| redact_last_applied(keys, element)),
        Node::Object(members) => {
            for (name, member) in members {
                if name == LAST_APPLIED {
                    redact_value(keys, member);
                } else {
                    redact_last_applied(keys, member);
                }
            }
        }
        Node::Null | Node::Bool(_) | Node::Number(_) | Node::String(_) | Node::Redacted(_) => {}
    }
}

/// Redacts `binary_data` in the Terraform attributes of a Secret, and drops the last-applied annotation.
pub fn redact_binary_data(key: &RedactionKey, attributes: &mut Node) {
    if let Some(Node::Object(data)) = attributes.get_mut("binary_data") {
        data.values_mut().for_each(|value| redact_base64(std::slice::from_ref(key), value));
    }
    let metadata = attributes.get_mut("metadata").and_then(|blocks| blocks.as_array_mut()?.first_mut());
    if let Some(annotations) = metadata.and_then(|block| block.get_mut("annotations")?.as_object_mut()) {
        annotations.remove(LAST_APPLIED);
    }
}

/// Redacts a live object by policy: the values of a Secret, the sensitive fields of this object, and their copies in the
/// last-applied annotation and in `managedFields`.
pub(super) fn redact_object(object: &mut Node, kind: &Kind, policy: &RedactionPolicy) {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    let namespace = text("namespace");
    let fields = policy.fields(&kind.version, namespace, text("name"));
    if fields.is_empty() && !is_secret(kind.group_kind()) {
        return;
    }
    let keys: Vec<RedactionKey> = policy.keys().iter().map(|key| key.of_namespace(namespace)).collect();
    let keys = keys.as_slice();
    redact_secret(object, &kind.group, &kind.kind, keys);
    if fields.is_empty() {
        return;
    }
    fields.iter().for_each(|field| redact_field(object, field, keys));
    redact_last_applied(keys, object);
    let managers =
        object.get_mut("metadata").and_then(|metadata| metadata.get_mut("managedFields")?.as_array_mut());
    for manager in managers.into_iter().flatten() {
        if let Some(owned) = manager.get_mut("fieldsV1") {
            fields.iter().for_each(|field| redact_owned_fields(owned, field, keys));
        }
    }
}

/// Redacts a field, in every element of the lists on its path. The identity of the object stays plain.
pub fn redact_field(object: &mut Node, field: &str, keys: &[RedactionKey]) {
    let Node::Object(members) = object else { return };
    for (name, member) in members.iter_mut() {
        let Some(rest) = rest_of_path(field, name) else { continue };
        match (name.as_str(), member) {
            ("apiVersion" | "kind", _) => {}
            ("metadata", Node::Object(metadata)) => {
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

fn redact_at(name: &str, value: &mut Node, field: &str, keys: &[RedactionKey]) {
    match value {
        value if field == WHOLE_OBJECT => redact_member(keys, name, value),
        Node::Array(elements) => {
            elements.iter_mut().for_each(|element| redact_at(name, element, field, keys));
        }
        Node::Object(members) => {
            for (name, member) in members {
                if let Some(rest) = rest_of_path(field, name) {
                    redact_at(name, member, rest, keys);
                }
            }
        }
        // The path leads into a scalar, so the scalar is sensitive.
        Node::Null | Node::Bool(_) | Node::Number(_) | Node::String(_) | Node::Redacted(_) => {
            redact_value(keys, value);
        }
    }
}

/// The rest of a path after the member of this name, which may contain dots; [`WHOLE_OBJECT`] if the path leads to all of the
/// member, [`None`] if it leads elsewhere.
fn rest_of_path<'a>(field: &'a str, name: &str) -> Option<&'a str> {
    if field == WHOLE_OBJECT {
        return Some(WHOLE_OBJECT);
    }
    let rest = field.strip_prefix(name)?;
    if rest.is_empty() { Some(WHOLE_OBJECT) } else { rest.strip_prefix('.') }
}

/// Redacts values in the keys of `fieldsV1`: `k:` identifies list elements by their keys, `v:` by their value.
fn redact_owned_fields(owned: &mut Node, field: &str, keys: &[RedactionKey]) {
    let Node::Object(members) = owned else { return };
    for (name, mut inner) in std::mem::take(members) {
        match name.split_at_checked(2) {
            Some(("f:", member)) => {
                if let Some(rest) = rest_of_path(field, member) {
                    redact_owned_fields(&mut inner, rest, keys);
                }
            }
            // Elements that were redacted for another field.
            Some((_, "")) => {
                for pair in inner.as_array_mut().into_iter().flatten() {
                    if let Some([identity, inner]) = pair.as_array_mut().map(Vec::as_mut_slice) {
                        redact_identity(identity, field, keys);
                        redact_owned_fields(inner, field, keys);
                    }
                }
            }
            Some((prefix @ ("k:" | "v:"), identity)) => {
                redact_owned_fields(&mut inner, field, keys);
                // Malformed JSON may contain the value too, so it is redacted as a string.
                let mut identity = serde_json::from_str(identity).unwrap_or_else(|_| Node::from(identity));
                if redact_identity(&mut identity, field, keys) {
                    let list = if prefix == "k:" { REDACTED_ELEMENTS } else { REDACTED_VALUES };
                    let redacted = members.entry(list.to_owned()).or_insert_with(|| Node::Array(Vec::new()));
                    if let Node::Array(redacted) = redacted {
                        redacted.push(Node::Array(vec![identity, inner]));
                    }
                    continue;
                }
            }
            Some(_) | None => redact_owned_fields(&mut inner, field, keys),
        }
        members.insert(name, inner);
    }
}

/// Redacts the identity of a list element. Returns whether it contains a sensitive value.
fn redact_identity(identity: &mut Node, field: &str, keys: &[RedactionKey]) -> bool {
    if field == WHOLE_OBJECT {
        redact_value(keys, identity);
        return true;
    }
    let sensitive = identity.get_mut(field);
    let is_sensitive = sensitive.is_some();
    sensitive.into_iter().for_each(|value| redact_member(keys, field, value));
    is_sensitive
}

/// Redacts the values of findings at, within or around one of these fields. Fields are written without indices.
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
        FieldClass, Finding, Node, RedactionKey, redact_field, redact_findings, redact_object, redact_secret,
    };
    use crate::{
        diff::{
            digests::is_same,
            ownership::{FieldOwners, Identity, Step},
            tree::node,
        },
        types::{FieldValue, Kind, ObjectRef, RedactionPolicy},
    };

    #[test]
    fn secret_is_redacted_completely_and_only_once() {
        let keys = [RedactionKey::new([1; 32]), RedactionKey::new([2; 32])];
        let mut live = node!({"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "canary", "a": "canary"}},
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
        let mut stray = node!({"type": "Opaque", "password": "canary", "stringdata": {"a": ["canary"]}, "image": "canary",
            "metadata": {"name": "a", "labels": {"app": "web"}, "password": "canary"}});
        redact_secret(&mut stray, "", "Secret", &keys);
        assert!(!stray.to_string().contains("canary"), "{stray}");
        assert_eq!(
            (&stray["type"], &stray["metadata"]["labels"]),
            (&node!("Opaque"), &node!({"app": "web"}))
        );
        let mut other = node!({"data": {"a": "b"}});
        redact_secret(&mut other, "", "ConfigMap", &keys);
        assert_eq!(other, node!({"data": {"a": "b"}}));
    }

    fn keys() -> [RedactionKey; 2] {
        [1, 2].map(|number| RedactionKey::new([number; 32]))
    }

    /// Redacts these fields of a Deployment `shop/web`.
    fn redacted(mut live: Value, fields: &[&str]) -> Node {
        live["metadata"]["name"] = "web".into();
        live["metadata"]["namespace"] = "shop".into();
        let object = ObjectRef::new("apps", "v1", "Deployment", "shop", "web");
        let mut policy = RedactionPolicy::new(keys()[0].clone());
        policy.add_key(&keys()[1]);
        policy.add_fields(&object, fields.iter().map(|field| (*field).into()));
        let mut live = Node::from(live);
        redact_object(&mut live, &Kind::deployment(), &policy);
        live
    }

    #[track_caller]
    fn check(field: &str, value: Value, left: &str) {
        let mut value = Node::from(value);
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
        let mut numbers = node!({"a": [7, 0, true, false, null, ""]});
        redact_field(&mut numbers, "", &keys());
        let [seven, zero, yes, no, null, empty] = &numbers["a"].as_array().unwrap()[..] else {
            unreachable!()
        };
        assert_eq!((null, empty), (&Node::Null, &node!("")));
        for (redacted, text) in [(seven, "7"), (zero, "0"), (yes, "true"), (no, "false")] {
            let redacted = redacted.scalar();
            let is_same = |key: &RedactionKey| is_same(key, &text.into(), &redacted);
            assert!(redacted.is_redacted() && keys().iter().all(is_same), "{text}");
        }
    }

    #[test]
    fn last_applied_annotation_is_redacted_with_a_sensitive_field() {
        let last_applied = "kubectl.kubernetes.io/last-applied-configuration";
        let live = json!({"metadata": {"annotations": {last_applied: "{\"a\":\"hunter2\"}", "team": "left"}}, "spec": {"replicas": 3}});
        assert_eq!(
            redacted(live.clone(), &[])["metadata"]["annotations"],
            Node::from(live["metadata"]["annotations"].clone())
        );
        let redacted = redacted(live, &["spec.replicas"]);
        let annotations = &redacted["metadata"]["annotations"];
        assert_eq!(annotations["team"], "left");
        let copy = annotations[last_applied].scalar();
        assert!(copy.is_redacted());
        assert!(keys().iter().all(|key| is_same(key, &"{\"a\":\"hunter2\"}".into(), &copy)));
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
            let name = &live["spec"]["template"]["spec"]["containers"][0]["env"][0]["name"];
            let env = ["spec", "template", "spec", "containers"].map(|field| Step::Field(field.into()));
            let mut path = env.to_vec();
            path.push(Step::Element([("name".into(), Identity::Plain("web".into()))].into()));
            path.push(Step::Field("env".into()));
            path.push(Step::Element([("name".into(), Identity::from(&name.scalar()))].into()));
            path.push(Step::Field("value".into()));
            let owners = FieldOwners::of(&live);
            assert_eq!(owners.owner(&path).map(|owner| &*owner.manager), Some("kubectl"), "{live}");
            let finalizer = Identity::from(&live["metadata"]["finalizers"][0].scalar());
            let mut path = vec![Step::Field("metadata".into()), Step::Field("finalizers".into())];
            path.push(Step::Value(finalizer));
            assert!(owners.owner(&path).is_some(), "{live}");
            // A plain value with the text of the digest is another element.
            let text = live["metadata"]["finalizers"][0].to_string();
            path.pop();
            path.push(Step::Value(Identity::Plain(text.trim_matches('"').into())));
            assert!(owners.owner(&path).is_none(), "{live}");
        }
        let owned = live(".value")["metadata"]["managedFields"].to_string();
        assert!(owned.contains("k:{\\\"name\\\":\\\"hunter2\\\"}"), "the key is not sensitive: {owned}");
    }

    fn is_plain(path: &str, fields: &[&str]) -> bool {
        is_plain_of(FieldClass::Env, path, fields)
    }

    fn is_plain_of(class: FieldClass, path: &str, fields: &[&str]) -> bool {
        let mut found = [Finding::new(path.parse().unwrap(), class, "canary".into(), FieldValue::Absent)];
        let fields: Vec<Box<str>> = fields.iter().map(|field| (*field).into()).collect();
        redact_findings(&mut found, &fields, &RedactionKey::new([1; 32]));
        let [Finding { expected, actual, .. }] = found;
        assert_eq!(actual, FieldValue::Absent, "an absent value has no digest");
        let redacted = FieldValue::Redacted(RedactionKey::new([1; 32]).digest(b"canary"));
        assert!(expected == FieldValue::Text("canary".into()) || expected == redacted, "{expected:?}");
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
