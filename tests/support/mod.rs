//! Helpers for tests with real programs: a real cluster, a running exporter, HTTP requests.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "each test binary uses a part of it, fails by panicking, and changes clusters"
)]

pub mod alertmanager;
pub mod browser;
pub mod chart;
pub mod cluster;
pub mod cpu;
pub mod dashboards;
pub mod demo;
pub mod embedded;
pub mod exporter;
pub mod helm;
pub mod inside;
pub mod kubectl;
pub mod objects;
pub mod page;
pub mod parts;
pub mod process;
pub mod prometheus;
pub mod receiver;
pub mod routes;
pub mod stack;
pub mod terraform;
pub mod wait;
