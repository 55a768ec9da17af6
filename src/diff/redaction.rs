//! Secrets, of which nobody keeps the values.
//!
//! Live objects, of which values that may not be told are kept as digests only.
//!
//! What one declaration marks as sensitive, in what others say about the same object.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{
    declared::NOT_DECLARED,
    redacted_text::{is_sealed, seal_encoded, seal_member, seal_text, seal_with},
};
use crate::types::{FieldClass, FieldPath, Finding, Kind, RedactionKey, RedactionPolicy, Segment, is_within};

/// Where kubectl writes once more what was applied, values included.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Fields of every Secret that are sealed whatever anybody marks.
pub(super) const SEALED_IN_SECRETS: &[&str] = &["data", "stringData", "metadata.annotations"];

/// Members of every Secret that say what it is. A value in any other place is a value that somebody has misplaced.
const PLAIN: &[&str] = &["apiVersion", "kind", "type", "immutable", "metadata", "data"];
/// The same of its metadata.
const PLAIN_METADATA: &[&str] = &[
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

/// Whether objects of a kind are Secrets.
pub fn is_secret(group: &str, kind: &str) -> bool {
    group.is_empty() && kind == "Secret"
}

/// Replaces the values of a Secret by their digests under each key; documents of other kinds stay as they are.
///
/// What is sealed are the bytes that the values stand for, so that `data`, `stringData` and what a state has in the clear can
/// be compared. `stringData` becomes `data`, as the API server does it. Annotations are sealed too, since tools copy values
/// there; the copy that kubectl keeps is dropped. So is whatever stands where no Secret has anything: a text that lost its
/// indentation is a value all the same.
pub fn seal_live(document: &mut Value, group: &str, kind: &str, keys: &[RedactionKey]) {
    if is_secret(group, kind)
        && let Value::Object(members) = document
    {
        seal_secret(members, keys);
    }
}

/// An object as it may be compared: a Secret with digests under this key, any other as it is.
pub(super) fn sealed<'a>(live: &'a Value, group: &str, kind: &str, key: &RedactionKey) -> Cow<'a, Value> {
    if !is_secret(group, kind) {
        return Cow::Borrowed(live);
    }
    let mut sealed = live.clone();
    seal_live(&mut sealed, group, kind, std::slice::from_ref(key));
    Cow::Owned(sealed)
}

fn seal_secret(members: &mut Map<String, Value>, keys: &[RedactionKey]) {
    match members.get_mut("data") {
        Some(Value::Object(data)) => data.values_mut().for_each(|value| seal_encoded(keys, value)),
        Some(other) => *other = Value::Null,
        None => {}
    }
    if let Some(Value::Object(mut texts)) = members.remove("stringData") {
        texts.values_mut().for_each(|text| seal_with(keys, text));
        match members.get_mut("data") {
            Some(Value::Object(data)) => data.extend(texts),
            _ => drop(members.insert("data".to_owned(), texts.into())),
        }
    }
    seal_all_but(PLAIN, members, keys);
    let Some(metadata) = members.get_mut("metadata") else { return };
    let Value::Object(metadata) = metadata else { return seal_with(keys, metadata) };
    seal_all_but(PLAIN_METADATA, metadata, keys);
    if let Some(annotations) = metadata.get_mut("annotations") {
        if let Value::Object(annotations) = annotations {
            annotations.remove(LAST_APPLIED);
        }
        seal_with(keys, annotations);
    }
}

fn seal_all_but(plain: &[&str], members: &mut Map<String, Value>, keys: &[RedactionKey]) {
    let strays = members.iter_mut().filter(|(name, _)| !plain.contains(&name.as_str()));
    strays.for_each(|(_, value)| seal_with(keys, value));
}

/// Replaces what kubectl wrote down of an object by its digests, wherever it stands: what is sensitive stands there once more.
pub fn seal_last_applied(keys: &[RedactionKey], value: &mut Value) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(|element| seal_last_applied(keys, element)),
        Value::Object(members) => {
            for (name, member) in members {
                if name == LAST_APPLIED {
                    seal_with(keys, member);
                } else {
                    seal_last_applied(keys, member);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Replaces the values of a Secret's attributes that are base64 by the digests of what they stand for, and forgets what
/// kubectl wrote down.
pub fn seal_binary_data(key: &RedactionKey, attributes: &mut Value) {
    if let Some(Value::Object(data)) = attributes.get_mut("binary_data") {
        data.values_mut().for_each(|value| seal_encoded(std::slice::from_ref(key), value));
    }
    if let Some(Value::Object(annotations)) = attributes.pointer_mut("/metadata/0/annotations") {
        annotations.remove(LAST_APPLIED);
    }
}

/// Replaces what may not be told of a live object of a kind by digests: what every Secret holds, what is marked in this object,
/// and copies of it that kubectl wrote down.
pub fn seal_object(object: &mut Value, kind: &Kind, sealing: &RedactionPolicy) {
    let keys = sealing.keys();
    seal_live(object, &kind.group, &kind.kind, keys);
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    let fields = sealing.fields(&kind.version, text("namespace"), text("name"));
    if fields.is_empty() {
        return;
    }
    fields.iter().for_each(|field| seal_field(object, field, keys));
    seal_last_applied(keys, object);
    let managers = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
    for manager in managers.into_iter().flatten() {
        if let Some(owned) = manager.get_mut("fieldsV1") {
            fields.iter().for_each(|field| seal_owned(owned, field, keys));
        }
    }
}

/// Replaces the values of a field by digests, in every element of lists on the way. Which object it is stays.
pub fn seal_field(object: &mut Value, field: &str, keys: &[RedactionKey]) {
    let Value::Object(members) = object else { return };
    for (name, member) in members.iter_mut() {
        let Some(rest) = rest_of(field, name) else { continue };
        match (name.as_str(), member) {
            ("apiVersion" | "kind", _) => {}
            ("metadata", Value::Object(metadata)) => {
                for (name, member) in
                    metadata.iter_mut().filter(|(name, _)| !NOT_DECLARED.contains(&name.as_str()))
                {
                    if let Some(rest) = rest_of(rest, name) {
                        seal_at(name, member, rest, keys);
                    }
                }
            }
            (name, member) => seal_at(name, member, rest, keys),
        }
    }
}

fn seal_at(name: &str, value: &mut Value, field: &str, keys: &[RedactionKey]) {
    match value {
        value if field.is_empty() => seal_member(keys, name, value),
        Value::Array(elements) => elements.iter_mut().for_each(|element| seal_at(name, element, field, keys)),
        Value::Object(members) => {
            for (name, member) in members {
                if let Some(rest) = rest_of(field, name) {
                    seal_at(name, member, rest, keys);
                }
            }
        }
        // It is marked deeper than it is, so it is what is marked.
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => seal_with(keys, value),
    }
}

/// What is left of a path after the member of this name, which may have dots in it; none where it leads elsewhere. What is
/// within the end of a path is marked with it.
fn rest_of<'a>(field: &'a str, name: &str) -> Option<&'a str> {
    if field.is_empty() {
        return Some("");
    }
    let rest = field.strip_prefix(name)?;
    if rest.is_empty() { Some("") } else { rest.strip_prefix('.') }
}

/// Replaces values in the names of what a manager owns: elements of lists are known there by their keys, and sets by their
/// values.
fn seal_owned(owned: &mut Value, field: &str, keys: &[RedactionKey]) {
    let Value::Object(members) = owned else { return };
    let sealed = std::mem::take(members).into_iter().map(|(name, mut inner)| {
        let name = match name.split_at_checked(2) {
            Some(("f:", own)) => {
                if let Some(rest) = rest_of(field, own) {
                    seal_owned(&mut inner, rest, keys);
                }
                name
            }
            Some((sign @ ("k:" | "v:"), known)) => {
                seal_owned(&mut inner, field, keys);
                sealed_name(sign, known, field, keys).unwrap_or(name)
            }
            Some(_) | None => {
                seal_owned(&mut inner, field, keys);
                name
            }
        };
        (name, inner)
    });
    *members = sealed.collect::<Map<_, _>>();
}

/// The name of an element with digests in place of what is marked; none where nothing is.
fn sealed_name(sign: &str, known: &str, field: &str, keys: &[RedactionKey]) -> Option<String> {
    // It may be anything, so no word of it stays.
    let mut known: Value = serde_json::from_str(known).unwrap_or_else(|_| known.into());
    match &mut known {
        Value::Object(known) if !field.is_empty() => {
            seal_member(keys, field, known.get_mut(field)?);
        }
        _ if !field.is_empty() => return None,
        known => seal_with(keys, known),
    }
    Some(format!("{sign}{known}"))
}

/// Replaces texts of an object that look as if they were sealed: nobody may pass a text off as a digest.
pub(in crate::diff) fn seal_forged(value: &mut Value, keys: &[RedactionKey]) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(|element| seal_forged(element, keys)),
        Value::Object(members) => members.values_mut().for_each(|member| seal_forged(member, keys)),
        Value::String(text) if is_sealed(text) => *text = seal_text(keys, text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Replaces the values of findings by digests where they are at one of these fields, within one, or around one. Fields are
/// written without indices; the empty one is the whole object.
///
/// The live object is sealed there already. What another source declares is not, and shows where nothing is left of it.
pub fn seal_findings(findings: &mut [Finding], fields: &[Box<str>], key: &RedactionKey) {
    // A hash is told as one, whatever it is of.
    for finding in findings.iter_mut().filter(|finding| finding.class != FieldClass::Hash) {
        let field = without_indices(&finding.path);
        if fields.iter().any(|marked| is_within(&field, marked) || is_within(marked, &field)) {
            for text in [&mut finding.expected, &mut finding.actual] {
                if !text.is_empty() && !RedactionKey::is_digest(text) {
                    *text = key.digest(text.as_bytes()).into();
                }
            }
        }
    }
}

/// The names on the way to a field; none on the way to what is no path, which is then around everything.
fn without_indices(path: &str) -> String {
    let Ok(path) = path.parse::<FieldPath>() else { return String::new() };
    let names = path.segments().iter().filter_map(|segment| match segment {
        Segment::Field(name) => Some(&**name),
        Segment::Element(_) | Segment::Index(_) | Segment::Value(_) => None,
    });
    names.collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{
        FieldClass, Finding, RedactionKey, seal_field, seal_findings, seal_forged, seal_live, seal_object,
    };
    use crate::{
        diff::redacted_text::{is_same, is_sealed},
        types::{Kind, ObjectName, RedactionPolicy},
    };

    #[test]
    fn nothing_of_a_secret_is_left_and_sealing_it_again_changes_nothing() {
        let keys = [RedactionKey::new([1; 32]), RedactionKey::new([2; 32])];
        let mut live = json!({"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "canary", "a": "canary"}},
        "data": {"a": "Y2FuYXJ5", "b": "not base64 canary", "c": "", "d": 7}, "stringData": {"e": "canary"}});
        seal_live(&mut live, "", "Secret", &keys);
        let text = live.to_string();
        assert!(
            !text.contains("anary") && !text.contains("Y2Fu") && !text.contains("last-applied"),
            "{text}"
        );
        assert_eq!(live["data"]["a"], live["data"]["e"]);
        let once = live.clone();
        seal_live(&mut live, "", "Secret", &keys);
        assert_eq!(live, once);
        let mut stray = json!({"type": "Opaque", "password": "canary", "stringdata": {"a": ["canary"]}, "image": "canary",
        "metadata": {"name": "a", "labels": {"app": "web"}, "password": "canary"}});
        seal_live(&mut stray, "", "Secret", &keys);
        assert!(!stray.to_string().contains("canary"), "{stray}");
        assert_eq!(
            (&stray["type"], &stray["metadata"]["labels"]),
            (&json!("Opaque"), &json!({"app": "web"}))
        );
        let mut other = json!({"data": {"a": "b"}});
        seal_live(&mut other, "", "ConfigMap", &keys);
        assert_eq!(other, json!({"data": {"a": "b"}}));
    }

    fn keys() -> [RedactionKey; 2] {
        [1, 2].map(|number| RedactionKey::new([number; 32]))
    }

    /// A Deployment `shop/web` of which these fields are marked.
    fn sealed(mut live: Value, fields: &[&str]) -> Value {
        live["metadata"]["name"] = "web".into();
        live["metadata"]["namespace"] = "shop".into();
        let Kind { group, version, kind, .. } = Kind::deployment();
        let object = ObjectName { group, version, kind, namespace: "shop".into(), name: "web".into() };
        let mut sealing = RedactionPolicy::new(keys()[0].clone());
        sealing.add_key(&keys()[1]);
        sealing.mark(&object, fields.iter().map(|field| (*field).into()));
        seal_object(&mut live, &Kind::deployment(), &sealing);
        live
    }

    #[track_caller]
    fn check(field: &str, mut value: Value, left: &str) {
        seal_field(&mut value, field, &keys());
        let text = value.to_string();
        assert!(!text.contains("hunter") && text.contains(left), "{field}: {text}");
    }

    #[test]
    fn what_is_marked_is_sealed_in_each_element_that_has_it() {
        check("env.value", json!({"env": [{"name": "A", "value": "hunter2"}, {"name": "B"}]}), "\"B\"");
        check("env", json!({"env": [{"name": "hunter2", "value": "hunter2"}], "a": "left"}), "left");
        check("spec.a.b", json!({"spec": {"a": "hunter2"}}), "");
        check("spec.a.b", json!({"spec": {"a": [[{"b": "hunter2"}]], "b": "left"}}), "left");
    }

    #[test]
    fn names_with_dots_are_found() {
        let path = "metadata.annotations.example.com/token";
        let annotations = |more: &str| json!({"example.com/token": "hunter2", "example": {"com/token": "hunter2"}, more: "left"});
        check(path, json!({"metadata": {"annotations": annotations("example.com/tokens")}}), "left");
    }

    #[test]
    fn of_a_whole_object_it_is_left_which_it_is() {
        let metadata = json!({"name": "left-name", "namespace": "n", "uid": "u", "labels": {"a": "hunter2"}, "creationTimestamp": "2026-01-01T00:00:00Z",
        "ownerReferences": [{"name": "hunter2"}], "managedFields": [{"manager": "left-manager"}]});
        let object = json!({"apiVersion": "v1", "kind": "Left", "metadata": metadata, "spec": {"a": ["hunter2", 7, false]}});
        for left in ["left-name", "Left", "left-manager", "2026-01-01T00:00:00Z"] {
            check("", object.clone(), left);
        }
        let mut numbers = json!({"a": [7, 0, true, false, null, ""]});
        seal_field(&mut numbers, "", &keys());
        let [seven, zero, yes, no, null, empty] = &numbers["a"].as_array().unwrap()[..] else {
            unreachable!()
        };
        assert_eq!((null, empty), (&Value::Null, &json!("")));
        for (sealed, text) in [(seven, "7"), (zero, "0"), (yes, "true"), (no, "false")] {
            let sealed = sealed.as_str().unwrap();
            assert!(is_sealed(sealed) && keys().iter().all(|key| is_same(key, text, sealed)), "{text}");
        }
    }

    #[test]
    fn what_kubectl_wrote_down_is_sealed_with_what_is_marked() {
        let last_applied = "kubectl.kubernetes.io/last-applied-configuration";
        let live = json!({"metadata": {"annotations": {last_applied: "{\"a\":\"hunter2\"}", "team": "left"}}, "spec": {"replicas": 3}});
        assert_eq!(sealed(live.clone(), &[])["metadata"]["annotations"], live["metadata"]["annotations"]);
        let sealed = sealed(live, &["spec.replicas"]);
        let annotations = &sealed["metadata"]["annotations"];
        assert_eq!(annotations["team"], "left");
        let copy = annotations[last_applied].as_str().unwrap();
        assert!(keys().iter().all(|key| is_same(key, "{\"a\":\"hunter2\"}", copy)));
    }

    #[test]
    fn managers_do_not_tell_what_elements_are_known_by_where_that_is_marked() {
        let variables = json!({".": {}, "k:{\"name\":\"hunter2\"}": {".": {}, "f:name": {}, "f:value": {}}});
        let container = json!({"k:{\"name\":\"web\"}": {"f:env": variables, "f:image": {}}});
        let owned = json!({"f:spec": {"f:template": {"f:spec": {"f:containers": container}}}, "f:metadata": {"f:finalizers": {"v:\"hunter2\"": {}}}});
        let live = |field: &str| {
            let fields =
                [format!("spec.template.spec.containers.env{field}"), "metadata.finalizers".to_owned()];
            let container = json!({"name": "web", "env": [{"name": "hunter2", "value": "left"}]});
            let live = json!({"metadata": {"finalizers": ["hunter2"], "managedFields": [{"manager": "kubectl", "fieldsV1": owned}]},
            "spec": {"template": {"spec": {"containers": [container]}}}});
            sealed(live, &fields.each_ref().map(String::as_str))
        };
        for field in ["", ".name"] {
            let live = live(field);
            assert!(!live.to_string().contains("hunter"), "{live}");
            let containers = "/metadata/managedFields/0/fieldsV1/f:spec/f:template/f:spec/f:containers";
            let name = live["spec"]["template"]["spec"]["containers"][0]["env"][0]["name"].clone();
            let known = format!("k:{}", json!({"name": name}));
            let variables = &live.pointer(containers).unwrap()["k:{\"name\":\"web\"}"]["f:env"];
            assert!(
                variables[&known]["f:value"].is_object(),
                "who owns it is known by the same digest: {variables}"
            );
        }
        let owned = live(".value")["metadata"]["managedFields"].to_string();
        assert!(owned.contains("k:{\\\"name\\\":\\\"hunter2\\\"}"), "names are as they were: {owned}");
    }

    #[test]
    fn a_text_that_looks_sealed_is_sealed_once_more() {
        let forged = format!("\u{1}{}", RedactionKey::new([3; 32]).digest(b"x"));
        let mut live = json!({"data": {"a": forged, "b": "\u{1}left"}});
        seal_forged(&mut live, &keys());
        let sealed = live["data"]["a"].as_str().unwrap();
        assert!(keys().iter().all(|key| sealed.contains(&key.digest(forged.as_bytes()))), "{sealed}");
        assert_eq!(live["data"]["b"], "\u{1}left", "that is a text as any other");
    }

    fn is_told(path: &str, fields: &[&str]) -> bool {
        is_told_of(FieldClass::Env, path, fields)
    }

    fn is_told_of(class: FieldClass, path: &str, fields: &[&str]) -> bool {
        let (expected, actual) = ("canary".into(), Box::default());
        let mut found = [Finding { path: path.into(), class, expected, actual, writer: None }];
        let fields: Vec<Box<str>> = fields.iter().map(|field| (*field).into()).collect();
        seal_findings(&mut found, &fields, &RedactionKey::new([1; 32]));
        let [Finding { expected, actual, .. }] = found;
        assert!(actual.is_empty(), "nothing has no digest");
        assert!(&*expected == "canary" || RedactionKey::is_digest(&expected), "{expected}");
        &*expected == "canary"
    }

    #[test]
    fn what_is_at_within_or_around_a_marked_field_is_a_digest() {
        let value = "spec.template.spec.containers[name=web].env[name=GONE].value";
        assert!(is_told(value, &[]));
        assert!(is_told(value, &["data", "spec.template.spec.containers.env.val"]));
        for field in ["spec.template.spec.containers.env.value", "spec.template.spec.containers.env", ""] {
            assert!(!is_told(value, &["data", field]), "{field}");
        }
        assert!(!is_told("spec.template", &["spec.template.spec.containers.env.value"]));
        assert!(!is_told("metadata.annotations[\"example.com/a\"]", &["metadata.annotations.example.com/a"]));
        assert!(is_told_of(FieldClass::Hash, "spec", &["spec.template.spec.containers.env.value"]));
        assert!(is_told("spec.replicas", &["spec.template.spec.containers.env.value"]));
    }
}
