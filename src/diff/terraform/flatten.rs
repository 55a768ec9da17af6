//! Flattens a live object into the attributes that the provider would read.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{
    blind::AbsentAttributes,
    table::{Attribute, AttributeType, ProviderTable},
};
use crate::{
    diff::{
        digests::{is_same, octal_mode},
        tree::{Members, Node, Scalar},
    },
    types::RedactionKey,
};

/// Flattens an object. Some attributes depend on the state. `key` is that of digests in the object.
pub(super) fn flatten(
    table: &ProviderTable,
    block: usize,
    live: &Node,
    state: &Node,
    key: &RedactionKey,
) -> Members {
    let absent = AbsentAttributes::of(state);
    let is_before_v2 = absent.is_before_v2();
    Flattener { table, state, is_before_v2, key }.block(block, live, Some(state), absent)
}

/// Flattens a single list element, independent of the state.
pub(super) fn flatten_element(
    table: &ProviderTable,
    block: usize,
    live: &Node,
    key: &RedactionKey,
) -> Members {
    let flattener = Flattener { table, state: &Node::Null, is_before_v2: false, key };
    flattener.block(block, live, None, AbsentAttributes::none())
}

struct Flattener<'a> {
    table: &'a ProviderTable,
    /// All attributes of the resource.
    state: &'a Node,
    is_before_v2: bool,
    key: &'a RedactionKey,
}

impl Flattener<'_> {
    fn block(
        &self,
        block: usize,
        live: &Node,
        state: Option<&Node>,
        absent: AbsentAttributes<'_>,
    ) -> Members {
        let mut attributes = Members::new();
        let is_read = |attribute: &&Attribute| {
            !(absent.has(attribute.name) || self.is_before_v2 && attribute.is("later"))
        };
        for attribute in self.table.block(block).attributes.iter().filter(is_read) {
            let state = state.and_then(|state| state.get(attribute.name));
            if let Some(value) = self.attribute(attribute, live, state, absent.in_block(attribute.name)) {
                attributes.insert(attribute.name.to_owned(), value);
            }
        }
        attributes
    }

    fn attribute(
        &self,
        attribute: &Attribute,
        object: &Node,
        state: Option<&Node>,
        absent: AbsentAttributes<'_>,
    ) -> Option<Node> {
        let live = if attribute.is("inline") { Some(object) } else { object.get(attribute.field) };
        let live = live.filter(|value| !value.is_null());
        let keeps_state = attribute.is("sticky") && live.is_none()
            || attribute.unless.iter().any(|path| !is_zero(self.state.pointer(&format!("/{path}"))));
        if keeps_state {
            return state.cloned();
        }
        if attribute.is("declared") && state.is_none_or(|blocks| blocks.elements().is_empty()) {
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
                let is_read = |element: &&Node| {
                    let name = element.get("name").filter(|name| !is_zero(Some(name)));
                    let is_name = |other: &&str| {
                        name.is_some_and(|name| {
                            is_same(self.key, &self.state[*other].scalar(), &name.scalar())
                        })
                    };
                    name.is_none() || !attribute.without.iter().any(is_name)
                };
                let elements = live?.as_array()?.iter().filter(is_read);
                let elements =
                    elements.filter(|element| !self.is_dropped_toleration(attribute, state, element));
                let flatten = |element| Node::Object(self.block(block, element, None, absent));
                Some(elements.map(flatten).collect())
            }
        }
    }

    /// Whether a field, plain or redacted, has this text.
    fn is_text(&self, value: Option<&Node>, text: &str) -> bool {
        value.is_some_and(|value| is_same(self.key, &text.into(), &value.scalar()))
    }

    /// Old providers drop the tolerations that the API server adds to Pods, in Pod templates too.
    fn is_dropped_toleration(&self, attribute: &Attribute, state: Option<&Node>, element: &Node) -> bool {
        let is_added = |element: &Node| match element["key"].scalar() {
            Scalar::Text(key) => key.contains("node.kubernetes.io/"),
            key @ Scalar::Redacted(_) => {
                ADDED_TOLERATIONS.iter().any(|added| is_same(self.key, &Scalar::from(*added), &key))
            }
        };
        let is_in_state = || state.and_then(Node::as_array).into_iter().flatten().any(is_added);
        let lacks_attributes = !AbsentAttributes::of(self.state).is_empty();
        attribute.is("added") && lacks_attributes && is_added(element) && !is_in_state()
    }

    fn single_block(
        &self,
        attribute: &Attribute,
        block: usize,
        live: Option<&Node>,
        state: Option<&Node>,
        absent: AbsentAttributes<'_>,
    ) -> Option<Node> {
        let empty = Node::Object(Members::new());
        let live = match live {
            Some(Node::Array(elements)) if attribute.is("last") => elements
                .iter()
                .rfind(|element| element.as_object().is_some_and(|element| !element.is_empty())),
            live => live,
        };
        let live = if attribute.is("always") { live.or(Some(&empty)) } else { live };
        let block = self.block(block, live?, state.and_then(|state| state.elements().first()), absent);
        // An empty list is a value too: the surrounding block is not empty.
        let is_dropped = attribute.is("nonempty") && block.is_empty();
        Some(Node::Array(if is_dropped { Vec::new() } else { vec![Node::Object(block)] }))
    }

    fn map(&self, attribute: &Attribute, live: Option<&Node>, state: Option<&Node>) -> Option<Node> {
        let empty = Members::new();
        let live = live.and_then(Node::as_object).unwrap_or(&empty);
        let state = state.and_then(Node::as_object).unwrap_or(&empty);
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
                    .any(|other| self.state.get(other).is_some_and(|map| map.get(key).is_some()))
                || is_filtered && is_internal_key(key, self.is_before_v2) && !state.contains_key(key)
        };
        let entries = live.iter().filter(|(key, value)| !value.is_null() && !is_ignored(key));
        let entries: Members =
            entries.map(|(key, value)| (key.clone(), flatten_scalar(attribute, value))).collect();
        (!entries.is_empty()).then_some(Node::Object(entries))
    }

    fn default(&self, attribute: &Attribute) -> Option<Node> {
        let value = attribute.default.filter(|_| !self.is_before_v2)?;
        let is_bool = attribute.value_type == AttributeType::Bool;
        Some(if is_bool { Node::Bool(value == "true") } else { value.into() })
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

fn flatten_scalar(attribute: &Attribute, value: &Node) -> Node {
    match value {
        Node::Number(number) if attribute.is("octal") => {
            Node::String(number.as_i64().map_or_else(String::new, octal_mode))
        }
        Node::String(encoded) if attribute.is("bytes") => {
            let bytes = STANDARD.decode(encoded).unwrap_or_default();
            Node::String(String::from_utf8_lossy(&bytes).into_owned())
        }
        Node::String(_) | Node::Redacted(_) | Node::Bool(_) | Node::Number(_) => value.clone(),
        Node::Null | Node::Array(_) | Node::Object(_) => Node::String(value.to_string()),
    }
}

fn is_zero(value: Option<&Node>) -> bool {
    value.is_none_or(|value| match value {
        Node::Bool(value) => !value,
        Node::Number(number) => number.as_f64() == Some(0.0),
        value => value.is_empty(),
    })
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
