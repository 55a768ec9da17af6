//! The attributes that differ between two reads of a resource. Null and empty are equal.

use std::collections::BTreeSet;

use serde_json::Value;

/// The key attributes of list elements. Elements of all other lists are compared by index.
const KEYS: &[(&str, &[&str])] = &[
    ("container", &["name"]),
    ("containers", &["name"]),
    ("volumes", &["name"]),
    ("ports", &["containerPort", "protocol"]),
    ("ports", &["name"]),
    ("ports", &["port", "protocol"]),
    ("init_container", &["name"]),
    ("env", &["name"]),
    ("volume", &["name"]),
    ("image_pull_secrets", &["name"]),
    ("image_pull_secret", &["name"]),
    ("secret", &["name"]),
    ("volume_mount", &["mount_path"]),
    ("host_aliases", &["ip"]),
    ("address", &["ip"]),
    ("not_ready_address", &["ip"]),
    ("topology_spread_constraint", &["topology_key", "when_unsatisfiable"]),
    ("port", &["container_port", "protocol"]),
    ("port", &["port", "protocol"]),
];

/// The attributes that a refresh would change, without indices.
pub(super) fn changed_attributes(address: &str, before: &Value, after: &Value) -> BTreeSet<String> {
    let mut changed = Vec::new();
    let is_manifest = address.contains("kubernetes_manifest.");
    let walk = Walk { named_keys: is_manifest };
    walk.value(before, after, "", &mut Vec::new(), &mut changed);
    // Resources that the provider does not read after their creation have no uid yet.
    let has_uid = before["metadata"][0]["uid"].as_str().is_some_and(|uid| !uid.is_empty());
    // These change with every write; a status is not declared.
    let is_relevant = |attribute: &String| {
        !attribute.ends_with("resource_version")
            && (has_uid || attribute != "metadata.uid")
            && !attribute.ends_with("generation")
            && !attribute.starts_with("status")
    };
    let changed = changed.into_iter().filter(is_relevant);
    changed
        .map(|attribute| {
            let attribute = attribute.strip_prefix("object.").unwrap_or(&attribute);
            // Quantities were attributes of blocks in old versions.
            let amounts = attribute.rsplit_once('.').filter(|_| !is_manifest).map(|(outer, _)| outer);
            let amounts = amounts
                .filter(|outer| outer.ends_with("resources.limits") || outer.ends_with("resources.requests"));
            amounts.unwrap_or(attribute).to_owned()
        })
        .collect()
}

struct Walk {
    /// Keys of maps are attribute names.
    named_keys: bool,
}

impl Walk {
    fn value(
        &self,
        before: &Value,
        after: &Value,
        name: &str,
        path: &mut Vec<String>,
        changed: &mut Vec<String>,
    ) {
        match (before, after) {
            (Value::Array(_), _) | (_, Value::Array(_)) => {
                self.list(list(before), list(after), name, path, changed);
            }
            (Value::Object(_), _) | (_, Value::Object(_)) if path.is_empty() || self.named_keys => {
                self.block(before, after, path, changed);
            }
            (Value::Object(_), _) | (_, Value::Object(_)) => {
                if without_nulls(before) != without_nulls(after) {
                    changed.push(path.join("."));
                }
            }
            _ => {
                // The provider's SDK writes absent booleans and numbers as false and zero; whole objects keep them.
                let means_nothing = |value: &Value| is_empty(value) && !(self.named_keys && is_scalar(value));
                if !(before == after || means_nothing(before) && means_nothing(after)) {
                    changed.push(path.join("."));
                }
            }
        }
    }

    fn block(&self, before: &Value, after: &Value, path: &mut Vec<String>, changed: &mut Vec<String>) {
        let names = |value: &Value| {
            value.as_object().map_or_else(Vec::new, |members| members.keys().cloned().collect())
        };
        let all: BTreeSet<String> = names(before).into_iter().chain(names(after)).collect();
        for name in all {
            path.push(name.clone());
            self.value(&before[&name], &after[&name], &name, path, changed);
            path.pop();
        }
    }

    fn list(
        &self,
        before: &[Value],
        after: &[Value],
        name: &str,
        path: &mut Vec<String>,
        changed: &mut Vec<String>,
    ) {
        if !before.iter().chain(after).any(Value::is_object) {
            if before != after {
                changed.push(path.join("."));
            }
            return;
        }
        // Of the provider's own types, only network policies have `ports`, and these have no key.
        let is_keyed = name != "ports" || self.named_keys;
        let candidates = KEYS.iter().filter(|(list, _)| is_keyed && *list == name).map(|(_, keys)| *keys);
        let candidates =
            candidates.into_iter().find(|keys| are_unique_keys(keys, before) && are_unique_keys(keys, after));
        let Some(keys) = candidates else {
            for at in 0..before.len().max(after.len()) {
                self.element(before.get(at), after.get(at), path, changed);
            }
            return;
        };
        let names =
            |list: &[Value]| -> Vec<String> { list.iter().map(|element| key(keys, element)).collect() };
        let (old, new) = (names(before), names(after));
        let all: BTreeSet<&String> = old.iter().chain(&new).collect();
        for name in all {
            let find = |names: &[String]| names.iter().position(|other| other == name);
            let (old, new) = (find(&old).map(|at| &before[at]), find(&new).map(|at| &after[at]));
            self.element(old, new, path, changed);
        }
        let kept = |names: &[String], others: &[String]| -> Vec<String> {
            names.iter().filter(|name| others.contains(name)).cloned().collect()
        };
        if kept(&old, &new) != kept(&new, &old) {
            changed.push(path.join("."));
        }
    }

    fn element(
        &self,
        before: Option<&Value>,
        after: Option<&Value>,
        path: &mut Vec<String>,
        changed: &mut Vec<String>,
    ) {
        let count = changed.len();
        self.block(before.unwrap_or(&Value::Null), after.unwrap_or(&Value::Null), path, changed);
        if before.is_some() != after.is_some() && changed.len() == count {
            changed.push(path.join("."));
        }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn key(keys: &[&str], element: &Value) -> String {
    keys.iter().map(|key| element[*key].to_string()).collect::<Vec<_>>().join("/")
}

fn are_unique_keys(keys: &[&str], list: &[Value]) -> bool {
    let names: BTreeSet<String> = list.iter().map(|element| key(keys, element)).collect();
    names.len() == list.len() && list.iter().all(|element| keys.iter().all(|key| !is_empty(&element[*key])))
}

fn without_nulls(value: &Value) -> Vec<(&String, &Value)> {
    value.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()).collect()
}

fn is_scalar(value: &Value) -> bool {
    value.is_boolean() || value.is_number()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}
