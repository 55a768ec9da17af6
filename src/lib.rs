//! A Prometheus-native drift exporter for Kubernetes.
//!
//! Data goes one way: [`watch`] turns what the API server says into [`event::Event`]s; one task in [`engine`] applies
//! them, with the pure functions of [`diff`] and [`rules`], and publishes an immutable snapshot; [`server`] only
//! reads that. [`app`] connects them, [`cli`] is what people type. `ARCHITECTURE.md` has the picture.

pub mod app;
pub mod cli;
pub mod config;
pub mod demo;
pub mod diff;
pub mod engine;
pub mod event;
pub mod rules;
pub mod server;
pub mod sources;
pub mod types;
pub mod watch;
