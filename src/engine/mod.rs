//! The state of the exporter: one task reconciles events and publishes an immutable snapshot.
//!
//! [`Engine::apply`] is the entry point, and `Engine::reconcile` the centre: `verdicts` diffs one object for each source, `claim`
//! steps the claim of that source, and `store` holds the claims in blocks that snapshots share.

mod baselines;
mod claim;
mod counters;
#[expect(clippy::module_inception, reason = "the file of `Engine`")]
mod engine;
mod history;
mod metrics;
mod run;
mod shared_map;
mod snapshot;
mod store;
mod verdicts;

pub use baselines::{BaselineState, ClusterMatch};
pub use claim::{Claim, ClaimDetails, ClaimEntry, DeclaredBy, EpisodeCount};
pub use counters::{AGE_BOUNDS, ActiveRules, AgeHistogram, CounterKey, DriftCounters};
pub use engine::Engine;
pub use history::{EpisodeChange, EpisodeSummary, History, Transition};
pub use metrics::EngineMetrics;
pub use run::{EVENT_QUEUE_CAPACITY, SnapshotPublisher, SnapshotReader, run, snapshot_channel};
pub use snapshot::{KindState, Snapshot, WatchState};
pub use store::{ClaimBlock, ClaimBlocks};
