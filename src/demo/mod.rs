//! A cluster in this process, for trying things out: the API server, a shop that runs on it, and what happens there.

mod cluster;
mod helm;
mod kubectl;
mod rollout;
mod shop;
mod stored;
mod story;
mod terraform;

pub use cluster::{Cluster, Refusal, router};
pub use rollout::roll_out;
pub use shop::Shop;
pub use story::{Scene, play};
