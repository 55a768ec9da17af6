//! What we know: one task applies changes and publishes an immutable snapshot.

mod autoscalers;
mod baselines;
mod blocks;
mod claim;
mod engine;
mod grace;
mod history;
mod ledger;
mod metrics;
mod only;
mod opinion;
mod rating;
mod relist;
mod replan;
mod rerate;
mod rule_book;
mod run;
mod settle;
mod shapes;
mod snapshot;
mod sources;

pub use baselines::{BaselineState, ClusterMatch};
pub use blocks::{Block, Blocks};
pub use claim::{Claim, DeclaredBy, Details, Entry, Episodes};
pub use engine::Engine;
pub use history::{EpisodeNote, History, Transition, Turn};
pub use ledger::{AGE_BOUNDS, Ages, DriftCounters, Place};
pub use metrics::EngineMetrics;
pub use rule_book::RuleBook;
pub use run::{QUEUE, StatePublisher, StateReader, run, state_channel};
pub use snapshot::{KindState, Snapshot, WatchState};
