//! Flattens a live object into the attributes that the provider would read.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use super::{
    blind::{ABSENT, is_absent, is_before_v2},
    table::{Attribute, AttributeType, ProviderTable},
};
use crate::{
    diff::{
        canonical::is_empty,
        redacted_text::{is_redacted, is_same, octal_mode},
        reporter::scalar_text,
    },
    types::RedactionKey,
};

/// Flattens an object. Some attributes depend on the state. `key` is that of digests in the object.
pub(super) fn flatten(
    table: &ProviderTable,
    block: usize,
    live: &Value,
    state: &Value,
    key: &RedactionKey,
) -> Map<String, Value> {
    let is_before_v2 = is_before_v2(&state[ABSENT]);
    Flattener { table, state, is_before_v2, key }.block(block, live, Some(state), &state[ABSENT])
}

/// Flattens a single list element, independent of the state.
pub(super) fn flatten_element(
    table: &ProviderTable,
    block: usize,
    live: &Value,
    key: &RedactionKey,
) -> Map<String, Value> {
    let flattener = Flattener { table, state: &Value::Null, is_before_v2: false, key };
    flattener.block(block, live, None, &Value::Null)
}

struct Flattener<'a> {
    table: &'a ProviderTable,
    /// All attributes of the resource.
    state: &'a Value,
    is_before_v2: bool,
    key: &'a RedactionKey,
}

impl Flattener<'_> {
    fn block(&self, block: usize, live: &Value, state: Option<&Value>, absent: &Value) -> Map<String, Value> {
        let mut attributes = Map::new();
        let is_read = |attribute: &&Attribute| {
            !(is_absent(absent, attribute.name) || self.is_before_v2 && attribute.is("later"))
        };
        for attribute in self.table.block(block).attributes.iter().filter(is_read) {
            let state = state.and_then(|state| state.get(attribute.name));
            if let Some(value) = self.attribute(attribute, live, state, &absent[attribute.name]) {
                attributes.insert(attribute.name.to_owned(), value);
            }
        }
        attributes
    }

    fn attribute(
        &self,
        attribute: &Attribute,
        object: &Value,
        state: Option<&Value>,
        absent: &Value,
    ) -> Option<Value> {
        let live = if attribute.is("inline") { Some(object) } else { object.get(attribute.field) };
        let live = live.filter(|value| !value.is_null());
        let keeps_state = attribute.is("sticky") && live.is_none()
            || attribute.unless.iter().any(|path| !is_zero(self.state.pointer(&format!("/{path}"))));
        if keeps_state {
            return state.cloned();
        }
        if attribute.is("declared") && state.and_then(|blocks| blocks.get(0)).is_none() {
            return None;
        }
        // The attributes that others depend on have the name of their field.
        if attribute.when.is_some_and(|(other, value)| !self.is_text(object.get(other), value)) {
            return self.default(attribute);
        }
        match attribute.value_type {
            AttributeType::Text => {
                live.map(|live| flatten_scalar(attribute, live)).or_else(|| self.default(attribute))
            }
            AttributeType::Number | AttributeType::Bool => live.cloned().or_else(|| self.default(attribute)),
            AttributeType::Map => self.map(attribute, live, state),
            AttributeType::List | AttributeType::Set => live.cloned(),
            AttributeType::Block(block) => self.single_block(attribute, block, live, state, absent),
            AttributeType::BlockList(block) | AttributeType::BlockSet(block) => {
                let is_read = |element: &&Value| {
                    let name = element.get("name").filter(|name| !is_zero(Some(name)));
                    let is_name = |other: &&str| {
                        self.is_text(name, &scalar_text(self.state.get(*other).unwrap_or(&Value::Null)))
                    };
                    name.is_none() || !attribute.without.iter().any(is_name)
                };
                let elements = live?.as_array()?.iter().filter(is_read);
                let elements =
                    elements.filter(|element| !self.is_dropped_toleration(attribute, state, element));
                let flatten = |element| Value::Object(self.block(block, element, None, absent));
                Some(elements.map(flatten).collect())
            }
        }
    }

    /// Whether a field, plain or redacted, has this text.
    fn is_text(&self, value: Option<&Value>, text: &str) -> bool {
        value.and_then(Value::as_str).is_some_and(|value| is_same(self.key, text, value))
    }

    /// Old providers drop the tolerations that the API server adds to Pods, in Pod templates too.
    fn is_dropped_toleration(&self, attribute: &Attribute, state: Option<&Value>, element: &Value) -> bool {
        let is_added = |element: &Value| match element["key"].as_str() {
            Some(key) if is_redacted(key) => {
                ADDED_TOLERATIONS.iter().any(|added| is_same(self.key, added, key))
            }
            key => key.is_some_and(|key| key.contains("node.kubernetes.io/")),
        };
        let is_in_state = || state.and_then(Value::as_array).into_iter().flatten().any(is_added);
        attribute.is("added") && !is_zero(self.state.get(ABSENT)) && is_added(element) && !is_in_state()
    }

    fn single_block(
        &self,
        attribute: &Attribute,
        block: usize,
        live: Option<&Value>,
        state: Option<&Value>,
        absent: &Value,
    ) -> Option<Value> {
        let empty = Value::Object(Map::new());
        let live = match live {
            Some(Value::Array(elements)) if attribute.is("last") => elements
                .iter()
                .rfind(|element| element.as_object().is_some_and(|element| !element.is_empty())),
            live => live,
        };
        let live = if attribute.is("always") { live.or(Some(&empty)) } else { live };
        let block = self.block(block, live?, state.and_then(|state| state.get(0)), absent);
        // An empty list is a value too: the surrounding block is not empty.
        Some(if attribute.is("nonempty") && block.is_empty() { json!([]) } else { json!([block]) })
    }

    fn map(&self, attribute: &Attribute, live: Option<&Value>, state: Option<&Value>) -> Option<Value> {
        let empty = Map::new();
        let live = live.and_then(Value::as_object).unwrap_or(&empty);
        let state = state.and_then(Value::as_object).unwrap_or(&empty);
        if attribute.is("keys") {
            let entry = |key: &String| (key.clone(), live.get(key).cloned().unwrap_or_else(|| "".into()));
            return Some(state.keys().map(entry).collect());
        }
        let is_filtered = attribute.is("filtered")
            || self.is_before_v2 && ["annotations", "labels"].contains(&attribute.name);
        let is_ignored = |key: &str| {
            attribute.without.contains(&key) && !state.contains_key(key)
                || attribute
                    .without
                    .iter()
                    .any(|other| self.state.get(*other).is_some_and(|map| map.get(key).is_some()))
                || is_filtered && is_internal_key(key, self.is_before_v2) && !state.contains_key(key)
        };
        let entries = live.iter().filter(|(key, value)| !value.is_null() && !is_ignored(key));
        let entries: Map<String, Value> =
            entries.map(|(key, value)| (key.clone(), flatten_scalar(attribute, value))).collect();
        (!entries.is_empty()).then_some(Value::Object(entries))
    }

    fn default(&self, attribute: &Attribute) -> Option<Value> {
        let value = attribute.default.filter(|_| !self.is_before_v2)?;
        let is_bool = attribute.value_type == AttributeType::Bool;
        Some(if is_bool { (value == "true").into() } else { value.into() })
    }
}

const ADDED_TOLERATIONS: &[&str] = &[
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/out-of-service",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/unschedulable",
];

fn flatten_scalar(attribute: &Attribute, value: &Value) -> Value {
    match value {
        Value::Number(number) if attribute.is("octal") => {
            number.as_i64().map_or_else(String::new, octal_mode).into()
        }
        Value::String(encoded) if attribute.is("bytes") && !is_redacted(encoded) => {
            let bytes = STANDARD.decode(encoded).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned().into()
        }
        Value::String(_) => value.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string().into()
        }
    }
}

fn is_zero(value: Option<&Value>) -> bool {
    value.is_none_or(|value| is_empty(value) || *value == false || value.as_f64() == Some(0.0))
}

/// Whether the provider takes a label or annotation for internal: its host ends in `kubernetes.io`. Providers before 2.0 have no
/// exceptions.
fn is_internal_key(key: &str, is_before_v2: bool) -> bool {
    let host = key.split(['/', '?', '#']).next().unwrap_or(key);
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let host = host.split(':').next().unwrap_or(host);
    match host {
        "app.kubernetes.io" | "service.beta.kubernetes.io" => is_before_v2,
        _ => host.ends_with("kubernetes.io") || key.contains("deprecated.daemonset.template.generation"),
    }
}

#[cfg(test)]
mod tests {
    use super::is_internal_key;

    #[test]
    fn internal_keys_are_detected_by_their_host() {
        for key in [
            "kubernetes.io/metadata.name",
            "deployment.kubernetes.io/revision",
            "xkubernetes.io/a",
            "deprecated.daemonset.template.generation",
        ] {
            assert!(is_internal_key(key, false), "{key}");
        }
        for key in
            ["app.kubernetes.io/name", "service.beta.kubernetes.io/aws", "team", "example.com/kubernetes.io"]
        {
            assert!(!is_internal_key(key, false), "{key}");
        }
    }
}
