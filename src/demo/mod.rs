//! A cluster in this process, for trying things out: the API server, a shop that runs on it, and what happens there.

mod cluster;

pub use cluster::{Cluster, Refusal, router};
