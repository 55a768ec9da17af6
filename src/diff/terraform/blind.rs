//! What the provider does not read: fields without an attribute, and attributes that the provider of a state did not have yet.
//!
//! A provider writes every attribute of its schema, and null for an absent value. So an attribute that is missing in a state is
//! missing in the schema of that provider version, and a refresh does not read it. Changes there are blind spots, not drift.

use super::table::{Attribute, AttributeType, ProviderTable};
use crate::{
    diff::{
        digests::is_same,
        ownership::{FieldOwners, Identity, Step, shown_path},
        tree::{Members, Node},
    },
    types::{FieldPath, RedactionKey},
};

/// The field managers of the provider. A field that they own was declared, or defaulted with a declaration.
pub(in crate::diff) const TERRAFORM_MANAGERS: &[&str] = &["HashiCorp", "Terraform"];

/// The member of attributes that records absent ones, in published baselines too: a tree of attributes whose leaves are `true`. No
/// attribute has this name. [`AbsentAttributes`] reads it.
const ABSENT: &str = "(absent)";

/// The member of that tree that marks a state of a provider before 2.0, which reads some attributes differently.
const BEFORE_V2: &str = "(first)";

/// The member of a document's objects that lists fields that are null. No field has this name.
pub(super) const UNSET: &str = "(unset)";

/// Records which attributes of its type a resource does not have. Call it before any attribute is removed.
pub fn record_absent_attributes(resource_type: &str, attributes: &mut Node) {
    let table = ProviderTable::get();
    // Only providers before 2.0 wrote `self_link`.
    let is_before_v2 = attributes["metadata"][0].get("self_link").is_some();
    let (Some(resource_type), Node::Object(members)) = (table.resource_type(resource_type), attributes)
    else {
        return;
    };
    // Attributes of a published baseline have the record already.
    if members.contains_key(ABSENT) {
        return;
    }
    let mut absent = Members::new();
    collect_absent(table, resource_type.block, members, &mut absent);
    if is_before_v2 {
        absent.insert(BEFORE_V2.to_owned(), Node::Bool(true));
    }
    members.insert(ABSENT.to_owned(), Node::Object(absent));
}

/// Records the null fields of a document. An object with such a record has a schema: fields that are neither in the object nor
/// in the record are not read.
pub fn record_unset_fields(value: &mut Node) {
    match value {
        Node::Array(elements) => elements.iter_mut().for_each(record_unset_fields),
        Node::Object(members) => {
            members.values_mut().for_each(record_unset_fields);
            let unset = members.iter().filter(|(_, member)| member.is_null());
            let unset: Vec<Node> = unset.map(|(name, _)| name.as_str().into()).collect();
            if !unset.is_empty() {
                members.insert(UNSET.to_owned(), Node::Array(unset));
            }
        }
        Node::Null | Node::Bool(_) | Node::Number(_) | Node::String(_) | Node::Redacted(_) => {}
    }
}

/// The attributes that a block does not have, as [`record_absent_attributes`] recorded them.
#[derive(Clone, Copy)]
pub(super) struct AbsentAttributes<'a>(&'a Node);

impl<'a> AbsentAttributes<'a> {
    /// Those of a resource; none if nothing is recorded.
    pub(super) fn of(state: &'a Node) -> Self {
        Self(&state[ABSENT])
    }

    pub(super) fn none() -> Self {
        Self(&Node::Null)
    }

    /// Those of the block in this attribute.
    pub(super) fn in_block(self, attribute: &str) -> Self {
        Self(&self.0[attribute])
    }

    pub(super) fn has(self, attribute: &str) -> bool {
        self.0[attribute] == Node::Bool(true)
    }

    pub(super) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Whether a provider before 2.0 wrote the state.
    pub(super) fn is_before_v2(self) -> bool {
        self.has(BEFORE_V2)
    }
}

fn collect_absent(table: &ProviderTable, block: usize, members: &Members, absent: &mut Members) {
    for attribute in &table.block(block).attributes {
        let name = attribute.name;
        let Some(value) = members.get(name) else {
            absent.insert(name.to_owned(), Node::Bool(true));
            continue;
        };
        let Some(block) = attribute.value_type.block() else { continue };
        let mut inner = match absent.remove(name) {
            Some(Node::Object(inner)) => inner,
            _ => Members::new(),
        };
        let blocks = value.as_array().into_iter().flatten().filter_map(Node::as_object);
        blocks.for_each(|members| collect_absent(table, block, members, &mut inner));
        if !inner.is_empty() {
            absent.insert(name.to_owned(), Node::Object(inner));
        }
    }
}

/// The fields of an object that other managers set and a refresh does not read. `key` is that of digests in the object.
pub(super) fn blind_fields(
    table: &ProviderTable,
    block: usize,
    live: &Node,
    absent: AbsentAttributes<'_>,
    owners: &FieldOwners<'_>,
    key: &RedactionKey,
) -> Vec<FieldPath> {
    let is_before_v2 = absent.is_before_v2();
    let mut walk = BlindFieldWalk { table, owners, key, is_before_v2, path: Vec::new(), found: Vec::new() };
    walk.block(block, live, absent);
    walk.found
}

struct BlindFieldWalk<'a> {
    table: &'a ProviderTable,
    owners: &'a FieldOwners<'a>,
    key: &'a RedactionKey,
    is_before_v2: bool,
    path: Vec<Step>,
    found: Vec<FieldPath>,
}

impl BlindFieldWalk<'_> {
    fn block(&mut self, block: usize, live: &Node, absent: AbsentAttributes<'_>) {
        let table = self.table;
        let block = table.block(block);
        let is_before_v2 = self.is_before_v2;
        let is_unread =
            |attribute: &Attribute| absent.has(attribute.name) || is_before_v2 && attribute.is("later");
        let unread = block.attributes.iter().filter(|attribute| is_unread(attribute));
        for name in block.unread.iter().copied().chain(unread.map(|attribute| attribute.field)) {
            if self.is_set(&live[name]) {
                self.path.push(Step::Field(name.into()));
                let owner = self.owners.owner(&self.path);
                if owner.is_some_and(|owner| !TERRAFORM_MANAGERS.contains(&&*owner.manager)) {
                    self.found.push(shown_path(self.key, &self.path));
                }
                self.path.pop();
            }
        }
        for attribute in block.attributes.iter().filter(|attribute| !is_unread(attribute)) {
            let absent = absent.in_block(attribute.name);
            if let (AttributeType::Block(block), true) = (attribute.value_type, attribute.is("inline")) {
                self.block(block, live, absent);
                continue;
            }
            self.path.push(Step::Field(attribute.field.into()));
            match (attribute.value_type, &live[attribute.field]) {
                (AttributeType::Block(block), object @ Node::Object(_)) => self.block(block, object, absent),
                (AttributeType::BlockList(block) | AttributeType::BlockSet(block), Node::Array(elements)) => {
                    for (at, element) in elements.iter().enumerate() {
                        self.path.push(element_step(&attribute.keys, at, element));
                        self.block(block, element, absent);
                        self.path.pop();
                    }
                }
                _ => {}
            }
            self.path.pop();
        }
    }

    fn is_set(&self, value: &Node) -> bool {
        match value {
            Node::Bool(set) => *set,
            Node::Redacted(_) => !is_same(self.key, &"false".into(), &value.scalar()),
            value => !value.is_empty(),
        }
    }
}

/// The step to a list element: by its keys if it has them all, else by its index.
fn element_step(keys: &[&str], at: usize, element: &Node) -> Step {
    let keys = keys.iter().map(|key| match &element[*key] {
        Node::Null => None,
        value => Some(((*key).into(), Identity::from(&value.scalar()))),
    });
    let keys: Option<Box<[_]>> = keys.collect();
    keys.filter(|keys| !keys.is_empty()).map_or(Step::Index(at), Step::Element)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{ABSENT, AbsentAttributes, Node, record_absent_attributes};
    use crate::diff::tree::node;

    fn absent(spec: &Value) -> Node {
        let mut attributes = node!({"metadata": [{"annotations": null, "labels": null}], "spec": [spec]});
        record_absent_attributes("kubernetes_service", &mut attributes);
        attributes[ABSENT]["spec"].clone()
    }

    #[test]
    fn null_attribute_is_present_and_missing_attribute_is_absent() {
        let absent = absent(&json!({"cluster_ip": null, "port": [{"port": 80, "protocol": "TCP"}]}));
        assert_eq!((&absent["cluster_ip"], &absent["type"]), (&Node::Null, &Node::Bool(true)));
        assert_eq!(
            (&absent["port"]["port"], &absent["port"]["app_protocol"]),
            (&Node::Null, &Node::Bool(true))
        );
    }

    #[test]
    fn existing_record_is_kept() {
        let mut attributes = node!({"(absent)": {}, "metadata": []});
        record_absent_attributes("kubernetes_service", &mut attributes);
        assert_eq!(attributes[ABSENT], node!({}));
    }

    #[test]
    fn provider_before_v2_is_detected_by_self_link() {
        for (attribute, expected) in [("self_link", true), ("uid", false)] {
            let mut attributes = node!({"metadata": [{attribute: ""}]});
            record_absent_attributes("kubernetes_service", &mut attributes);
            assert_eq!(AbsentAttributes::of(&attributes).is_before_v2(), expected, "{attribute}");
        }
    }
}
