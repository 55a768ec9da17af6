//! The state of the exporter: one task reconciles events and publishes an immutable snapshot.
//!
//! [`Engine::apply`] is the entry point. `reconcile` computes the verdict of each source on one object,
//! `claim` folds it into the claim of that source, and `store` holds the claims in blocks that snapshots
//! share.

mod baselines;
mod claim;
mod counters;
#[expect(clippy::module_inception, reason = "the file of `Engine`")]
mod engine;
mod history;
mod metrics;
mod reconcile;
mod run;
mod snapshot;
mod store;

pub use baselines::{BaselineState, ClusterMatch};
pub use claim::{Claim, ClaimDetails, ClaimEntry, DeclaredBy, EpisodeCount};
pub use counters::{AGE_BOUNDS, ActiveRules, AgeHistogram, CounterKey, DriftCounters};
pub use engine::Engine;
pub use history::{EpisodeChange, EpisodeSummary, History, Transition};
pub use metrics::EngineMetrics;
pub use run::{EVENT_QUEUE_CAPACITY, SnapshotPublisher, SnapshotReader, run, snapshot_channel};
pub use snapshot::{KindState, Snapshot, WatchState};
pub use store::{ClaimBlock, ClaimBlocks};
