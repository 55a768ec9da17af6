//! Live objects, of which values that may not be told are kept as digests only.

use serde_json::{Map, Value};

use crate::{
    diff::{
        declared::NOT_DECLARED,
        sealed::{is_sealed, seal_member, seal_text, seal_with},
        secrets::{seal_last_applied, seal_live},
    },
    types::{Kind, RedactionKey, RedactionPolicy},
};

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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{seal_field, seal_forged, seal_object};
    use crate::{
        diff::sealed::{is_same, is_sealed},
        types::{Kind, ObjectName, RedactionKey, RedactionPolicy},
    };

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
}
