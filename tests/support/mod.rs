//! What the tests on real programs share: a real cluster, a running exporter, a look at its page.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "each test binary uses a part of it, fails by panicking, and changes clusters"
)]

pub mod browser;
pub mod cluster;
pub mod dashboards;
pub mod demo;
pub mod embedded;
pub mod exporter;
pub mod helm;
pub mod inside;
pub mod objects;
pub mod page;
pub mod parts;
pub mod process;
pub mod prometheus;
pub mod routes;
pub mod terraform;
