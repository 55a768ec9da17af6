//! A Prometheus-native drift exporter for Kubernetes.
//!
//! Data goes one way: [`watch`] turns what the API server says into [`model::Change`]s; one task in [`state`] applies
//! them, with the pure functions of [`compare`] and [`rules`], and publishes an immutable snapshot; [`expose`] only
//! reads that. [`app`] connects them, [`cli`] is what people type. `ARCHITECTURE.md` has the picture.

pub mod app;
pub mod baseline;
pub mod cli;
pub mod compare;
pub mod demo;
pub mod expose;
pub mod model;
pub mod rules;
pub mod settings;
pub mod split;
pub mod state;
pub mod watch;
