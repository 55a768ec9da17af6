//! What the tests on real programs share: a real cluster, a running exporter, a look at its page.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::panic,
    reason = "each test binary uses a part of it, and fails by panicking"
)]

pub mod cluster;
pub mod embedded;
pub mod exporter;
pub mod inside;
pub mod objects;
pub mod page;
pub mod parts;
pub mod process;
