//! Field ownership: which field manager last set a field, by the object's `managedFields`.

use std::{cell::RefCell, collections::HashMap};

use super::{
    digests::Digests,
    tree::{Members, Node, Scalar},
};
use crate::types::{FieldManager, FieldPath, KeyedDigest, RedactionKey, Segment, ShortText};

#[derive(Debug)]
pub struct FieldOwners<'a> {
    entries: Vec<ManagedFieldsEntry<'a>>,
    identities: Identities,
}

/// The identities of list elements in `fieldsV1`, `{"name":"web"}`: each is parsed once, when a path leads into its list. Null if it is
/// malformed.
#[derive(Debug, Default)]
struct Identities(RefCell<HashMap<Box<str>, Node>>);

#[derive(Debug)]
struct ManagedFieldsEntry<'a> {
    manager: FieldManager,
    fields: &'a Node,
}

/// One step of a path in a live object, where redacted values differ from plain ones.
pub(super) type Step = Segment<Identity>;

/// A key of a list element, or a value of a set.
#[derive(Clone, Debug)]
pub(super) enum Identity {
    Plain(ShortText),
    Redacted(Box<Digests>),
}

impl From<&Scalar<'_>> for Identity {
    fn from(scalar: &Scalar<'_>) -> Self {
        match scalar {
            Scalar::Text(text) => Self::Plain((&**text).into()),
            Scalar::Redacted(digests) => Self::Redacted(Box::new((*digests).clone())),
        }
    }
}

impl Identity {
    fn shown(&self, key: &RedactionKey) -> ShortText {
        match self {
            // A path has no form that distinguishes it from a digest.
            Self::Plain(text) if KeyedDigest::looks_like(text) => {
                key.digest(text.as_bytes()).to_string().as_str().into()
            }
            Self::Plain(text) => text.clone(),
            Self::Redacted(digests) => digests.shown(key).text().into(),
        }
    }

    /// Whether it is this value in `fieldsV1`.
    fn is(&self, value: &Node) -> bool {
        match (self, value) {
            (Self::Plain(own), Node::String(text)) => own == text,
            (Self::Plain(own), Node::Number(number)) => {
                number.as_i64().is_some_and(|number| own.parse() == Ok(number))
            }
            (Self::Redacted(own), Node::Redacted(digests)) => own == digests,
            _ => false,
        }
    }
}

/// A path as it is shown to users: redacted keys are digests.
pub(super) fn shown_path(key: &RedactionKey, path: &[Step]) -> FieldPath {
    FieldPath::new(path.iter().map(|step| step.map_values(|value| value.shown(key))).collect())
}

impl<'a> FieldOwners<'a> {
    pub fn of(object: &'a Node) -> Self {
        let entries = object["metadata"]["managedFields"].elements();
        let entries = entries.iter().filter_map(ManagedFieldsEntry::read).collect();
        Self { entries, identities: Identities::default() }
    }

    /// The [owner](Self::owner) of a field without redacted keys.
    pub fn owner_at(&self, path: &FieldPath) -> Option<&FieldManager> {
        let plain = |segment: &Segment| segment.map_values(|text| Identity::Plain(text.clone()));
        self.owner(&path.segments().iter().map(plain).collect::<Vec<_>>())
    }

    /// The manager that last set the field at `path`: of all its owners, the one with the newest time. An owner of the field
    /// itself takes precedence over an owner of a parent.
    ///
    /// A manager that changes a field takes it from owners of another value, so that several owners share the same value.
    /// Writes through the `scale` subresource have no time.
    pub(super) fn owner(&self, path: &[Step]) -> Option<&FieldManager> {
        let owners = self.entries.iter().filter_map(|entry| {
            let ownership = ownership(entry.fields, path, &self.identities)?;
            Some((ownership, &entry.manager))
        });
        owners.max_by_key(|(ownership, manager)| (*ownership, manager.time)).map(|(_, manager)| manager)
    }

    pub fn managers(&self) -> impl Iterator<Item = &FieldManager> {
        self.entries.iter().map(|entry| &entry.manager)
    }

    pub(super) fn keys_owned_by(&self, manager: &str, path: &[&str]) -> impl Iterator<Item = &'a str> {
        let fields = self.entries.iter().filter(move |entry| &*entry.manager.manager == manager);
        let at = |fields: &'a Node| {
            let map = path.iter().try_fold(fields, |at, name| at.get(&format!("f:{name}")))?;
            map.as_object()
        };
        let maps: Vec<&'a Members> = fields.filter_map(|entry| at(entry.fields)).collect();
        maps.into_iter().flat_map(|map| map.keys().filter_map(|key| key.strip_prefix("f:")))
    }
}

impl<'a> ManagedFieldsEntry<'a> {
    fn read(entry: &'a Node) -> Option<Self> {
        Some(Self { manager: field_manager(entry), fields: entry.get("fieldsV1")? })
    }
}

/// The manager of one entry of `managedFields`.
pub fn field_manager(entry: &Node) -> FieldManager {
    let text = |name: &str| entry[name].as_str().unwrap_or("");
    FieldManager {
        manager: text("manager").into(),
        subresource: text("subresource").into(),
        time: text("time").parse().ok(),
    }
}

/// Ordered by precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ownership {
    /// The manager owns a whole parent.
    Parent,
    /// The manager owns the field, or a field within it.
    Itself,
}

/// Members of `fieldsV1` with the elements whose identity is redacted: a list of pairs of an identity and the owned fields. The
/// plain ones are members of their own: `k:{"name":"web"}`, `v:"a"`.
pub(super) const REDACTED_ELEMENTS: &str = "k:";
pub(super) const REDACTED_VALUES: &str = "v:";

/// Whether and how `fieldsV1` contains a path.
fn ownership(fields: &Node, path: &[Step], identities: &Identities) -> Option<Ownership> {
    let members = fields.as_object()?;
    let Some((first, rest)) = path.split_first() else {
        return Some(Ownership::Itself);
    };
    let inner = match first {
        Step::Field(name) => members.get(&format!("f:{name}")),
        Step::Index(index) => members.get(&format!("i:{index}")),
        Step::Value(Identity::Plain(value)) => members
            .get(&format!("v:{}", Node::from(value.as_str())))
            .or_else(|| members.get(&format!("v:{value}"))),
        Step::Value(value) => redacted_element(members, REDACTED_VALUES, |identity| value.is(identity)),
        Step::Element(keys) => {
            let plain = members.iter().find(|(name, _)| identities.are(name, keys)).map(|(_, inner)| inner);
            let is_element = |identity: &Node| has_keys(identity, keys);
            plain.or_else(|| redacted_element(members, REDACTED_ELEMENTS, is_element))
        }
    };
    match inner {
        Some(inner) => ownership(inner, rest, identities),
        None => members.is_empty().then_some(Ownership::Parent),
    }
}

fn redacted_element<'a>(members: &'a Members, list: &str, is: impl Fn(&Node) -> bool) -> Option<&'a Node> {
    members.get(list)?.elements().iter().find(|pair| is(&pair[0])).map(|pair| &pair[1])
}

impl Identities {
    /// Whether a `k:` entry of `fieldsV1` is the element with these keys.
    fn are(&self, entry: &str, keys: &[(ShortText, Identity)]) -> bool {
        let Some(identity) = entry.strip_prefix("k:").filter(|identity| !identity.is_empty()) else {
            return false;
        };
        let mut parsed = self.0.borrow_mut();
        if let Some(known) = parsed.get(identity) {
            return has_keys(known, keys);
        }
        let node = serde_json::from_str(identity).unwrap_or(Node::Null);
        has_keys(parsed.entry(identity.into()).or_insert(node), keys)
    }
}

fn has_keys(identity: &Node, keys: &[(ShortText, Identity)]) -> bool {
    identity.as_object().is_some_and(|members| members.len() == keys.len())
        && keys.iter().all(|(key, value)| value.is(&identity[key.as_str()]))
}
