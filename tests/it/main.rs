//! The fast tests: no network, no cluster.

mod hashes;
