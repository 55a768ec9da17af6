//! An object as the provider would read it into state.

use serde_json::{Map, Value, json};

use super::table::{Holds, Row, Table};

/// The attributes that the provider would read from an object. What the state has decides about some of them.
pub(super) fn flatten(table: &Table, shape: usize, live: &Value, state: &Value) -> Map<String, Value> {
    Flatten { table, state }.block(shape, live, Some(state))
}

/// The attributes of a single element, which nothing in the state decides about.
pub(super) fn flatten_element(table: &Table, shape: usize, live: &Value) -> Map<String, Value> {
    Flatten { table, state: &Value::Null }.block(shape, live, None)
}

struct Flatten<'a> {
    table: &'a Table,
    /// All attributes in the state.
    state: &'a Value,
}

impl Flatten<'_> {
    fn block(&self, shape: usize, live: &Value, declared: Option<&Value>) -> Map<String, Value> {
        let mut block = Map::new();
        for field in &self.table.shape(shape).fields {
            let declared = declared.and_then(|declared| declared.get(field.attribute));
            if let Some(value) = self.attribute(field, live, declared) {
                block.insert(field.attribute.to_owned(), value);
            }
        }
        block
    }

    fn attribute(&self, field: &Row, block: &Value, declared: Option<&Value>) -> Option<Value> {
        let live = block.get(field.field).filter(|value| !value.is_null());
        let stays = field.is("sticky") && live.is_none()
            || field.unless.iter().any(|attribute| !is_zero(self.state.get(*attribute)));
        if stays {
            return declared.cloned();
        }
        if field.is("declared") && declared.and_then(|blocks| blocks.get(0)).is_none() {
            return None;
        }
        // The attributes that others depend on are called as their fields are.
        if field.when.is_some_and(|(other, value)| block.get(other).and_then(Value::as_str) != Some(value)) {
            return default(field);
        }
        match field.holds {
            Holds::Text => live.map(|live| text(field, live)).or_else(|| default(field)),
            Holds::Number | Holds::Bool => live.cloned().or_else(|| default(field)),
            Holds::Map => self.map(field, live, declared),
            Holds::List | Holds::Set => live.cloned(),
            Holds::One(shape) => self.one(field, shape, live, declared),
            Holds::Many(shape) | Holds::Any(shape) => {
                let left_out = |element: &&Value| {
                    let name = element.get("name").filter(|name| !is_zero(Some(name)));
                    name.is_none() || field.without.iter().all(|other| self.state.get(*other) != name)
                };
                let elements = live?.as_array()?.iter().filter(left_out);
                Some(elements.map(|element| Value::Object(self.block(shape, element, None))).collect())
            }
        }
    }

    fn one(
        &self,
        field: &Row,
        shape: usize,
        live: Option<&Value>,
        declared: Option<&Value>,
    ) -> Option<Value> {
        let nothing = Value::Object(Map::new());
        let live = match live {
            Some(Value::Array(elements)) if field.is("last") => elements
                .iter()
                .rfind(|element| element.as_object().is_some_and(|element| !element.is_empty())),
            live => live,
        };
        let live = if field.is("always") { live.or(Some(&nothing)) } else { live };
        let block = self.block(shape, live?, declared.and_then(|declared| declared.get(0)));
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
        let is_left_out = |key: &str| {
            field.without.contains(&key)
                || field
                    .without
                    .iter()
                    .any(|other| self.state.get(*other).is_some_and(|map| map.get(key).is_some()))
                || field.is("filtered") && is_internal(key) && !declared.contains_key(key)
        };
        let kept = live.iter().filter(|(key, value)| !value.is_null() && !is_left_out(key));
        let kept: Map<String, Value> = kept.map(|(key, value)| (key.clone(), text(field, value))).collect();
        (!kept.is_empty()).then_some(Value::Object(kept))
    }
}

fn default(field: &Row) -> Option<Value> {
    field
        .default
        .map(|value| if field.holds == Holds::Bool { (value == "true").into() } else { value.into() })
}

/// A scalar as a text attribute.
fn text(field: &Row, value: &Value) -> Value {
    match value {
        Value::Number(number) if field.is("octal") => {
            number.as_i64().map_or_else(String::new, |mode| format!("0{mode:o}")).into()
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

/// Whether the provider takes a label or annotation to be Kubernetes' own: its host ends in `kubernetes.io`.
fn is_internal(key: &str) -> bool {
    let host = key.split(['/', '?', '#']).next().unwrap_or(key);
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let host = host.split(':').next().unwrap_or(host);
    match host {
        "app.kubernetes.io" | "service.beta.kubernetes.io" => false,
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
            assert!(is_internal(key), "{key}");
        }
        for key in
            ["app.kubernetes.io/name", "service.beta.kubernetes.io/aws", "team", "example.com/kubernetes.io"]
        {
            assert!(!is_internal(key), "{key}");
        }
    }
}
