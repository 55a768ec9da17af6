//! Helpers of all test binaries: fixtures for the engine, a source and an exporter, API servers, and real programs.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::panic,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "each test binary uses a part of it, fails by panicking, and changes clusters"
)]

pub mod alertmanager;
pub mod api_server;
pub mod autoscalers;
pub mod browser;
pub mod chart;
pub mod cluster;
pub mod cpu;
pub mod dashboards;
pub mod demo;
pub mod diff;
pub mod embedded;
pub mod engine;
pub mod exporter;
pub mod exporter_fixture;
pub mod gzip;
pub mod helm;
pub mod http_client;
pub mod kubectl;
pub mod live_objects;
pub mod memory;
pub mod objects;
pub mod parts;
pub mod process;
pub mod prometheus;
pub mod receiver;
pub mod routes;
pub mod source;
pub mod stack;
pub mod stored;
pub mod terraform;
pub mod wait;
