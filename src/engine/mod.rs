//! What we know: one task applies changes and publishes an immutable snapshot.

mod baselines;
mod claim;
mod counters;
#[expect(clippy::module_inception, reason = "the engine itself")]
mod engine;
mod history;
mod metrics;
mod reconcile;
mod run;
mod snapshot;
mod store;

pub use baselines::{BaselineState, ClusterMatch};
pub use claim::{Claim, DeclaredBy, Details, Entry, Episodes};
pub use counters::{AGE_BOUNDS, Ages, DriftCounters, Place, RuleBook};
pub use engine::Engine;
pub use history::{EpisodeNote, History, Transition, Turn};
pub use metrics::EngineMetrics;
pub use run::{QUEUE, StatePublisher, StateReader, run, state_channel};
pub use snapshot::{KindState, Snapshot, WatchState};
pub use store::{Block, Blocks};
