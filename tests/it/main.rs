//! The fast tests: no network, no cluster. One binary, so that it links once.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_precision_loss,
    reason = "helpers of tests fail by panicking"
)]

/// What the tests on real programs share.
#[path = "../support/mod.rs"]
mod programs;
mod support;

/// `/v1/…`: queries, shapes, problems.
mod api;
/// The module table, file lengths, no orphans.
mod architecture;
/// The program as people run it: `hash`, bad flags, bad files.
mod command_line;
/// Catalogue and flags are what the documents say.
mod contracts;
/// `drift-exporter demo`, as people run it.
mod demo;
/// What a careless client cannot do to the embedded cluster.
mod embedded;
/// What one engine makes of changes, without any stream.
mod engine;
/// A server that hangs, cuts, lies, forbids or forgets.
mod faults;
/// Hashes: others' bit for bit, and independent of spelling.
mod hashes;
/// Any order of lists and events ends as a fresh list would.
mod interleavings;
/// `/v1/events`: resuming, calm, ends.
mod live_events;
/// The `/metrics` page: golden, escapes, formats, limits.
mod metrics_page;
/// What people see in a browser.
mod page;
/// Slow clients, full servers, stopping.
mod server;
