//! What everyone else reads: an immutable picture of one moment.

use std::sync::Arc;

use crate::model::{Kind, StreamHealth, StreamSpec, UnknownReason, VerdictKind};

use super::{Blocks, Entry, History, Ledger, RuleBook};

/// Everything that is known at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Counts up with each change of what the series show; other facts may change without it.
    pub sequence: u64,
    /// The watched kinds, in order.
    pub kinds: Vec<Arc<KindState>>,
    /// What happened since the start.
    pub ledger: Arc<Ledger>,
    /// The last transitions.
    pub history: History,
    /// The rules that hold, and what they match.
    pub rules: Arc<RuleBook>,
}

/// One watched kind.
#[derive(Clone, Debug)]
pub struct KindState {
    /// The kind.
    pub kind: Arc<Kind>,
    /// Its streams, one per namespace scope.
    pub streams: Vec<StreamState>,
    /// Its objects.
    pub blocks: Blocks,
}

/// One stream.
#[derive(Clone, Debug)]
pub struct StreamState {
    /// What it watches.
    pub spec: Arc<StreamSpec>,
    /// How it fares.
    pub health: StreamHealth,
    /// Whether it was ever listed completely.
    pub listed: bool,
    /// Whether the first list was ever answered: with a list, or with a plain no.
    pub answered: bool,
}

impl Snapshot {
    /// All streams of all kinds.
    pub fn streams(&self) -> impl Iterator<Item = &StreamState> {
        self.kinds.iter().flat_map(|kind| &kind.streams)
    }
}

impl KindState {
    /// The verdict and reason to show for an entry: a claim whose stream is down is `unknown`, whatever it was.
    pub fn shown_verdict(&self, entry: &Entry) -> (VerdictKind, Option<UnknownReason>) {
        if self.is_stale(&entry.object.key.namespace) {
            (VerdictKind::Unknown, Some(UnknownReason::Stale))
        } else {
            (entry.claim.verdict.kind(), entry.claim.verdict.reason())
        }
    }

    /// Whether changes in this namespace do not reach us.
    pub fn is_stale(&self, namespace: &str) -> bool {
        self.streams
            .iter()
            .any(|stream| stream.spec.covers(namespace) && matches!(stream.health, StreamHealth::Down { .. }))
    }
}
