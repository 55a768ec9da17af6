//! Tests on a real kube-apiserver with a real etcd. Each has a cluster of its own.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::too_many_lines,
    reason = "tests change the cluster, which the exporter must not, print what they measured, fail by panicking, and tell one story each"
)]

#[path = "../support/mod.rs"]
mod support;

/// Who may ask for what, as the API server says.
mod access;
/// Who scaled an object: an autoscaler, or a person.
mod autoscalers;
/// A thousand secrets in states and objects.
mod canaries;
/// What people do at the command line.
mod commands;
/// A thousand secrets in manifests, and in what kubectl wrote down.
mod declared_canaries;
/// A look at a cluster in which nothing is installed.
mod direct;
/// The same by those who may see parts of it.
mod direct_rights;
/// The embedded cluster beside the real one.
mod embedded;
/// The API server restarts, forgets, forbids and falls silent.
mod faults;
/// Health by the statuses that the server keeps.
mod health;
/// A thousand secrets in Helm releases.
mod helm_canaries;
/// Kinds are installed, removed and moved to another version.
mod kinds;
/// The demo's cluster under the real kubectl.
mod kubectl;
/// Label and annotation come and go; objects are edited, reverted, deleted, made anew.
mod lifecycle;
/// What a program keeps in its memory.
mod memory;
/// An operator that records what it has applied, and its Jobs.
mod operators;
/// Requests for kinds that are neither Deployments nor Services.
mod other_kinds;
/// Kinds of the cluster's own, compared as their schemas say.
mod own_kinds;
/// Requests that both refuse.
mod refusals;
/// Many objects; our loop beside kube's own.
mod scale;
/// Requests for both.
mod script;
/// Settings, rules and rights.
mod settings;
/// A cluster with an exporter in it.
mod shop;
/// States and published baselines.
mod states;
