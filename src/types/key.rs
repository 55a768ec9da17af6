//! The identity of an object.

use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use ecow::EcoString;

use super::Kind;

/// A name or a version. Up to 15 bytes it takes no memory of its own; a longer one is shared by those who clone it.
pub type ShortText = EcoString;

/// Kind, namespace and name: what people call an object by. The version that it was read in is no part of it.
#[derive(Clone, Debug)]
pub struct ObjectKey {
    /// The resource type.
    pub kind: Arc<Kind>,
    /// Empty for cluster-scoped objects.
    pub namespace: ShortText,
    /// The object's name.
    pub name: ShortText,
}

impl PartialEq for ObjectKey {
    fn eq(&self, other: &Self) -> bool {
        self.kind.is_same_type(&other.kind) && self.namespace == other.namespace && self.name == other.name
    }
}

impl Eq for ObjectKey {}

impl Hash for ObjectKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.kind.group, &self.kind.kind, &self.namespace, &self.name).hash(state);
    }
}

impl ObjectKey {
    /// Order within one kind: by namespace, then by name.
    pub fn cmp_within_kind(&self, namespace: &str, name: &str) -> Ordering {
        (*self.namespace).cmp(namespace).then_with(|| (*self.name).cmp(name))
    }
}

/// `Deployment shop/web`, as `drift-exporter hash` and the log write it.
impl fmt::Display for ObjectKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ", self.kind.kind)?;
        if !self.namespace.is_empty() {
            write!(formatter, "{}/", self.namespace)?;
        }
        formatter.write_str(&self.name)
    }
}
