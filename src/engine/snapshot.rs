//! What everyone else reads: an immutable picture of one moment.

use std::{collections::BTreeMap, sync::Arc};

use crate::types::{Kind, Source, UnknownReason, VerdictKind, WatchHealth, WatchSpec};

use super::{BaselineState, Blocks, DriftCounters, Entry, History, RuleBook, engine::is_answer};

/// Everything that is known at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Counts up with each change of what the series show; other facts may change without it.
    pub sequence: u64,
    /// Counts up with each snapshot that is published: two of the same edition are the same in every way.
    pub edition: u64,
    /// The watched kinds, in order.
    pub kinds: Vec<Arc<KindState>>,
    /// What happened since the start.
    pub ledger: Arc<DriftCounters>,
    /// The last transitions.
    pub history: History,
    /// Whether at one moment every first list was answered and at least one could be listed. Streams that are opened
    /// later do not take that back: what was known goes on being shown.
    pub ready: bool,
    /// Whether the server is still being asked how objects of some kinds are compared; nothing is said about these yet.
    pub awaits_shapes: bool,
    /// The rules that hold, and what they match.
    pub rules: Arc<RuleBook>,
    /// Whether the baselines of each source can be found, for sources that have baselines of their own.
    pub sources: BTreeMap<Source, WatchHealth>,
    /// Those baselines, by source and name.
    pub baselines: Arc<[BaselineState]>,
}

/// One watched kind.
#[derive(Clone, Debug)]
pub struct KindState {
    /// The kind.
    pub kind: Arc<Kind>,
    /// Its streams, which never overlap, and what is wanted of it and cannot be watched.
    pub streams: Vec<WatchState>,
    /// Its objects.
    pub blocks: Blocks,
}

/// One stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchState {
    /// What it watches.
    pub spec: Arc<WatchSpec>,
    /// How it fares.
    pub health: WatchHealth,
    /// Whether it was ever listed completely.
    pub listed: bool,
    /// Whether the first list was ever answered: with a list, or with a plain no.
    pub answered: bool,
}

impl Snapshot {
    /// All streams of all kinds.
    pub fn streams(&self) -> impl Iterator<Item = &WatchState> {
        self.kinds.iter().flat_map(|kind| &kind.streams)
    }

    pub(super) fn note_readiness(&mut self) {
        let loaded = |health: &WatchHealth| *health == WatchHealth::Up || is_answer(health);
        let nothing_declared = self.baselines.iter().all(|own| own.baseline.objects.is_empty());
        let all_up = self.sources.values().all(|health| *health == WatchHealth::Up);
        let found_nothing = self.kinds.is_empty() && !self.sources.is_empty() && all_up && nothing_declared;
        self.ready = self.ready
            || (self.sources.values().all(loaded)
                && self.streams().all(|stream| stream.answered)
                && (found_nothing || self.streams().any(|stream| stream.listed)));
    }
}

impl KindState {
    /// Whether this is one of its streams.
    pub(super) fn has_stream(&self, stream: &WatchSpec) -> bool {
        self.kind.is_same_type(&stream.kind) && self.streams.iter().any(|own| *own.spec == *stream)
    }

    /// The verdict and reason to show for an entry: a claim whose stream is down is `unknown`, whatever it was.
    pub fn shown_verdict(&self, entry: &Entry) -> (VerdictKind, Option<UnknownReason>) {
        if self.is_stale(&entry.object.key.namespace, &entry.object.key.name) {
            (VerdictKind::Unknown, Some(UnknownReason::Stale))
        } else {
            (entry.claim.verdict.kind(), entry.claim.verdict.reason())
        }
    }

    /// Whether changes of this object do not reach us.
    pub fn is_stale(&self, namespace: &str, name: &str) -> bool {
        let is_down = |stream: &WatchState| matches!(stream.health, WatchHealth::Down { .. });
        self.streams.iter().any(|stream| is_down(stream) && stream.spec.brings(namespace, name))
    }
}
