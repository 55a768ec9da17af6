//! What the API server says that it has.

use std::sync::Arc;

use super::Kind;

/// The kinds that the API server has. Of several versions of a kind, the preferred one comes first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Every version of every kind.
    pub kinds: Vec<ServedKind>,
}

/// One version of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedKind {
    /// The kind.
    pub kind: Arc<Kind>,
    /// Whether it can be listed and watched.
    pub watchable: bool,
}

impl Served {
    /// Whether some version of this kind is there.
    pub fn has(&self, kind: &Kind) -> bool {
        self.kinds.iter().any(|own| own.kind.is_same_type(kind))
    }
}
