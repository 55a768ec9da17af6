//! An object as the provider would read it into state.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use super::{
    blind::{ABSENT, is_absent, is_of_first},
    table::{FieldType, Row, Table},
};
use crate::{
    diff::{
        findings,
        redacted_text::{is_same, is_sealed, octal},
    },
    types::RedactionKey,
};

/// The attributes that the provider would read from an object. What the state has decides about some of them. What is sealed
/// in the object is known by digests of this key.
pub(super) fn flatten(
    table: &Table,
    shape: usize,
    live: &Value,
    state: &Value,
    key: &RedactionKey,
) -> Map<String, Value> {
    let is_first = is_of_first(&state[ABSENT]);
    Flatten { table, state, is_first, key }.block(shape, live, Some(state), &state[ABSENT])
}

/// The attributes of a single element, which nothing in the state decides about.
pub(super) fn flatten_element(
    table: &Table,
    shape: usize,
    live: &Value,
    key: &RedactionKey,
) -> Map<String, Value> {
    Flatten { table, state: &Value::Null, is_first: false, key }.block(shape, live, None, &Value::Null)
}

struct Flatten<'a> {
    table: &'a Table,
    /// All attributes in the state.
    state: &'a Value,
    /// Whether a provider before 2.0 wrote it.
    is_first: bool,
    /// The key of digests in the state.
    key: &'a RedactionKey,
}

impl Flatten<'_> {
    fn block(
        &self,
        shape: usize,
        live: &Value,
        declared: Option<&Value>,
        absent: &Value,
    ) -> Map<String, Value> {
        let mut block = Map::new();
        let is_read =
            |field: &&Row| !(is_absent(absent, field.attribute) || self.is_first && field.is("later"));
        for field in self.table.shape(shape).fields.iter().filter(is_read) {
            let declared = declared.and_then(|declared| declared.get(field.attribute));
            if let Some(value) = self.attribute(field, live, declared, &absent[field.attribute]) {
                block.insert(field.attribute.to_owned(), value);
            }
        }
        block
    }

    fn attribute(
        &self,
        field: &Row,
        block: &Value,
        declared: Option<&Value>,
        absent: &Value,
    ) -> Option<Value> {
        let live = if field.is("inline") { Some(block) } else { block.get(field.field) };
        let live = live.filter(|value| !value.is_null());
        let stays = field.is("sticky") && live.is_none()
            || field.unless.iter().any(|path| !is_zero(self.state.pointer(&format!("/{path}"))));
        if stays {
            return declared.cloned();
        }
        if field.is("declared") && declared.and_then(|blocks| blocks.get(0)).is_none() {
            return None;
        }
        // The attributes that others depend on are called as their fields are.
        if field.when.is_some_and(|(other, value)| !self.is(block.get(other), value)) {
            return self.default(field);
        }
        match field.holds {
            FieldType::Text => live.map(|live| text(field, live)).or_else(|| self.default(field)),
            FieldType::Number | FieldType::Bool => live.cloned().or_else(|| self.default(field)),
            FieldType::Map => self.map(field, live, declared),
            FieldType::List | FieldType::Set => live.cloned(),
            FieldType::One(shape) => self.one(field, shape, live, declared, absent),
            FieldType::Many(shape) | FieldType::Any(shape) => {
                let is_read = |element: &&Value| {
                    let name = element.get("name").filter(|name| !is_zero(Some(name)));
                    let is_name = |other: &&str| {
                        self.is(name, &findings::text(self.state.get(*other).unwrap_or(&Value::Null)))
                    };
                    name.is_none() || !field.without.iter().any(is_name)
                };
                let elements = live?.as_array()?.iter().filter(is_read);
                let elements = elements.filter(|element| !self.is_left_out_of_old(field, declared, element));
                let read = |element| Value::Object(self.block(shape, element, None, absent));
                Some(elements.map(read).collect())
            }
        }
    }

    /// Whether a field has this text, sealed or not.
    fn is(&self, value: Option<&Value>, text: &str) -> bool {
        value.and_then(Value::as_str).is_some_and(|value| is_same(self.key, text, value))
    }

    /// Providers of old left out what the API server adds to Pods, in templates too.
    fn is_left_out_of_old(&self, field: &Row, declared: Option<&Value>, element: &Value) -> bool {
        let is_added = |element: &Value| match element["key"].as_str() {
            Some(key) if is_sealed(key) => ADDED.iter().any(|added| is_same(self.key, added, key)),
            key => key.is_some_and(|key| key.contains("node.kubernetes.io/")),
        };
        let is_known = || declared.and_then(Value::as_array).into_iter().flatten().any(is_added);
        field.is("added") && !is_zero(self.state.get(ABSENT)) && is_added(element) && !is_known()
    }

    fn one(
        &self,
        field: &Row,
        shape: usize,
        live: Option<&Value>,
        declared: Option<&Value>,
        absent: &Value,
    ) -> Option<Value> {
        let nothing = Value::Object(Map::new());
        let live = match live {
            Some(Value::Array(elements)) if field.is("last") => elements
                .iter()
                .rfind(|element| element.as_object().is_some_and(|element| !element.is_empty())),
            live => live,
        };
        let live = if field.is("always") { live.or(Some(&nothing)) } else { live };
        let block = self.block(shape, live?, declared.and_then(|declared| declared.get(0)), absent);
        // An empty list is still something that was read: what it stands in is not empty.
        Some(if field.is("nonempty") && block.is_empty() { json!([]) } else { json!([block]) })
    }

    fn map(&self, field: &Row, live: Option<&Value>, declared: Option<&Value>) -> Option<Value> {
        let empty = Map::new();
        let live = live.and_then(Value::as_object).unwrap_or(&empty);
        let declared = declared.and_then(Value::as_object).unwrap_or(&empty);
        if field.is("keys") {
            let of = |key: &String| (key.clone(), live.get(key).cloned().unwrap_or_else(|| "".into()));
            return Some(declared.keys().map(of).collect());
        }
        let is_filtered =
            field.is("filtered") || self.is_first && ["annotations", "labels"].contains(&field.attribute);
        let is_left_out = |key: &str| {
            field.without.contains(&key) && !declared.contains_key(key)
                || field
                    .without
                    .iter()
                    .any(|other| self.state.get(*other).is_some_and(|map| map.get(key).is_some()))
                || is_filtered && is_internal(key, self.is_first) && !declared.contains_key(key)
        };
        let kept = live.iter().filter(|(key, value)| !value.is_null() && !is_left_out(key));
        let kept: Map<String, Value> = kept.map(|(key, value)| (key.clone(), text(field, value))).collect();
        (!kept.is_empty()).then_some(Value::Object(kept))
    }

    fn default(&self, field: &Row) -> Option<Value> {
        let value = field.default.filter(|_| !self.is_first)?;
        Some(if field.holds == FieldType::Bool { (value == "true").into() } else { value.into() })
    }
}

/// The keys of tolerations that Kubernetes adds.
const ADDED: &[&str] = &[
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/out-of-service",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/unschedulable",
];

/// A scalar as a text attribute.
fn text(field: &Row, value: &Value) -> Value {
    match value {
        Value::Number(number) if field.is("octal") => number.as_i64().map_or_else(String::new, octal).into(),
        Value::String(encoded) if field.is("bytes") && !is_sealed(encoded) => {
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
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Number(number)) => number.as_f64() == Some(0.0),
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Bool(set)) => !set,
        Some(Value::Array(elements)) => elements.is_empty(),
        Some(Value::Object(members)) => members.is_empty(),
    }
}

/// Whether the provider takes a label or annotation to be Kubernetes' own: its host ends in `kubernetes.io`. The first knew no
/// exceptions.
fn is_internal(key: &str, is_first: bool) -> bool {
    let host = key.split(['/', '?', '#']).next().unwrap_or(key);
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let host = host.split(':').next().unwrap_or(host);
    match host {
        "app.kubernetes.io" | "service.beta.kubernetes.io" => is_first,
        _ => host.ends_with("kubernetes.io") || key.contains("deprecated.daemonset.template.generation"),
    }
}

#[cfg(test)]
mod tests {
    use super::is_internal;

    #[test]
    fn keys_of_kubernetes_are_told_by_their_host() {
        for key in [
            "kubernetes.io/metadata.name",
            "deployment.kubernetes.io/revision",
            "xkubernetes.io/a",
            "deprecated.daemonset.template.generation",
        ] {
            assert!(is_internal(key, false), "{key}");
        }
        for key in
            ["app.kubernetes.io/name", "service.beta.kubernetes.io/aws", "team", "example.com/kubernetes.io"]
        {
            assert!(!is_internal(key, false), "{key}");
        }
    }
}
