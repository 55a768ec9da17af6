//! The state of the exporter: one task reconciles events and publishes an immutable snapshot.
//!
//! [`Engine::apply`] is the entry point, and `Engine::reconcile` the centre: `judgements` diffs one object for each source, `claim`
//! steps the claim of that source, and `store` holds the claims in blocks that snapshots share.

mod active_rules;
mod autoscalers;
mod baselines;
mod claim;
mod counters;
#[expect(clippy::module_inception, reason = "the file of `Engine`")]
mod engine;
mod finding_counts;
mod history;
mod judgements;
mod metrics;
mod run;
mod shared_map;
mod snapshot;
mod store;
mod trust;
mod watches;

pub use active_rules::ActiveRules;
pub use baselines::{BaselineState, BaselineStates, ClusterMatch};
pub use claim::{Claim, ClaimDetails, ClaimEntry, DeclaredBy, EpisodeCount};
pub use counters::{AGE_BOUNDS, ActorKey, AgeHistogram, AgeKey, CounterKey, DriftCounters};
pub use engine::Engine;
pub use history::{EpisodeChange, EpisodeSummary, History, Transition};
pub use metrics::EngineMetrics;
pub use run::{EVENT_QUEUE_CAPACITY, SnapshotPublisher, SnapshotReader, run, snapshot_channel};
pub use snapshot::{KindState, PlannedWatch, Snapshot, WatchState};
pub use store::{ClaimBlock, ClaimBlocks};
pub use trust::{Corroboration, Corroborations};
