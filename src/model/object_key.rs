//! The identity of one object.

use std::{cmp::Ordering, fmt, sync::Arc};

use super::Kind;

/// Kind, namespace and name: what people call an object by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectKey {
    /// The resource type.
    pub kind: Arc<Kind>,
    /// Empty for cluster-scoped objects.
    pub namespace: Box<str>,
    /// The object's name.
    pub name: Box<str>,
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
