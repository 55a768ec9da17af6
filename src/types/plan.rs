//! Which streams are to be open.

use std::sync::Arc;

use super::{Kind, Served, WatchHealth, WatchSpec};

/// Which streams are to be open, and what is wanted and cannot be watched. The streams of one kind never overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The streams, in the order of their kinds' names.
    pub streams: Vec<Arc<WatchSpec>>,
    /// What is wanted and cannot be watched now.
    pub unwatched: Vec<Unwatched>,
    /// What the API server has, once it was asked.
    pub served: Option<Arc<Served>>,
}

/// Something that is wanted and cannot be watched now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwatched {
    /// The kind, as far as it is known; its stream has no objects.
    pub spec: Arc<WatchSpec>,
    /// Why it cannot be watched.
    pub health: WatchHealth,
}

impl Plan {
    /// Whether the API server is known not to have this kind.
    pub fn lacks(&self, kind: &Kind) -> bool {
        self.served.as_ref().is_some_and(|served| !served.has(kind))
    }

    /// Whether some stream of this kind is to be open, in whatever version.
    pub fn watches(&self, kind: &Kind) -> bool {
        self.streams.iter().any(|spec| spec.kind.is_same_type(kind))
    }
}
