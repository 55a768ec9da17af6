//! The fast tests: no network, no cluster.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

mod hashes;
