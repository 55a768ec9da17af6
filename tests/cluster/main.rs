//! Tests on a real kube-apiserver with a real etcd. Each test starts its own cluster.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::too_many_lines,
    reason = "tests change the cluster, which the exporter must not, print what they measured, fail by panicking, and cover one scenario each"
)]

#[path = "../support/mod.rs"]
mod support;

/// Authentication and authorization by the API server.
mod auth;
/// Attribution of a scaled object to an autoscaler or a user.
mod autoscalers;
/// Redaction of secrets in states and live objects.
mod canaries;
/// Commands on the live cluster.
mod cli;
/// Commands without an installed exporter.
mod cli_direct;
/// Commands with partial read permissions.
mod cli_direct_permissions;
/// Custom resources, compared by their schemas.
mod custom_resources;
/// Redaction of secrets in manifests and last-applied annotations.
mod declared_canaries;
/// Requests that both API servers deny.
mod denied_requests;
/// The embedded API server compared with kube-apiserver.
mod embedded;
/// API server outages, compaction, denied requests and stalled watches.
mod faults;
/// A fixture: a cluster with an exporter.
mod fixture;
/// Health by the status of objects.
mod health;
/// Redaction of secrets in Helm releases.
mod helm_canaries;
/// CRDs are installed, removed and moved to another version.
mod kinds;
/// The demo's API server with the real kubectl.
mod kubectl;
/// Objects are labelled, annotated, edited, reverted, deleted and recreated.
mod lifecycle;
/// Packed documents in the memory of a process.
mod memory;
/// An operator that records the applied hash, and its Jobs.
mod operators;
/// Requests for kinds other than Deployments and Services.
mod other_kinds;
/// Many objects, and our watcher compared with the one of kube-runtime.
mod scale;
/// The script of requests for both API servers.
mod script;
/// Settings, rules and permissions.
mod settings;
/// A tenant with permission to write Secrets in one namespace.
mod tenants;
/// States and published baselines.
mod terraform_states;
