//! The fast tests: no network, no cluster. One binary, which links once.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_precision_loss,
    reason = "test helpers fail by panicking"
)]

/// Helpers shared with the tests that run real programs.
#[path = "../support/mod.rs"]
mod programs;
mod support;

/// Authentication, authorization, and which values each caller sees.
mod access;
/// Alerting rules, runbooks and rule tests match.
mod alerts;
/// `/v1/…`: queries, response fields, problem details.
mod api;
/// The module table, file lengths, no orphans.
mod architecture;
/// Autoscalers as actors of replica drift.
mod autoscalers;
/// How the built-in rules rate common drift.
mod built_in_rules;
/// The command line: `hash`, invalid flags, invalid files.
mod command_line;
/// The documentation matches metrics, rules, settings and flags.
mod contracts;
/// Dashboards, their descriptions and their metrics.
mod dashboards;
/// Diffs of declared and live objects.
mod declared;
/// Diffs of declared and live custom resources.
mod declared_customs;
/// The command `demo`.
mod demo;
/// The Terraform state of the demo.
mod demo_terraform;
/// Chart, image and workflows match the repository.
mod deploy;
/// The API server of the demo.
mod embedded;
/// Drift episodes over time: counters, onsets, resolution causes, series.
mod engine;
/// The command `explain`.
mod explain;
/// Watches on an API server that stalls, disconnects or rejects requests.
mod faults;
/// Spec hashes: equal to those of other operators, independent of formatting.
mod hashes;
/// Invalid and forbidden Helm releases.
mod helm_bad;
/// Watching Helm releases in a cluster.
mod helm_follow;
/// Reading many Helm releases.
mod helm_looks;
/// Any order of lists and events converges to the state of a fresh list.
mod interleavings;
/// Kinds that are added, removed or changed; changed settings.
mod kinds;
/// Last-applied-configuration compared with live objects.
mod last_applied;
/// `/v1/events`: resume, batching, limits.
mod live_events;
/// `get`, `diff` and `explain`, with and without an exporter.
mod look;
/// Closed pipes and exit codes of `get`, `diff` and `explain`.
mod look_ends;
/// `get`, `diff` and `explain` with responses of an exporter.
mod look_server;
/// `get`, `diff` and `explain` on a terminal.
mod look_terminal;
/// Which server `get`, `diff` and `explain` use.
mod look_whom;
/// Watching directories of manifests.
mod manifest_follow;
/// The `/metrics` page: golden, escapes, formats, limits.
mod metrics_page;
/// Custom resources and their OpenAPI schemas.
mod own_kinds;
/// The HTML pages.
mod page;
/// The watches that a plan opens for the wanted kinds.
mod plan;
/// The kubectl plugin, shell completions and manual pages.
mod plugin;
/// Settings that reload while the program runs.
mod reload;
/// Rules that change while objects change.
mod rule_changes;
/// Rules: matching, precedence, errors.
mod rules;
/// Properties that hold for any rules.
mod rules_properties;
/// Slow clients, connection limits, shutdown.
mod server;
/// The settings file: errors with positions, all-or-nothing reload.
mod settings;
/// The settings reference matches the schema.
mod settings_reference;
/// Hashes in the status of objects, and Jobs that run Terraform.
mod status_hash;
/// Settings of status hashes and Terraform Jobs.
mod status_hash_settings;
/// Terraform states compared with live objects.
mod terraform_claims;
mod terraform_compare;
/// Watching Terraform states in a cluster and in files.
mod terraform_follow;
/// Cached live objects while their redacted fields change.
mod terraform_kept;
/// Objects with sensitive fields in an exporter, and the relists that they cause.
mod terraform_marked;
/// Sensitive fields compare like other fields.
mod terraform_marks;
/// The command `baseline`, and reading its output.
mod terraform_published;
/// Repeated reads of Terraform states.
mod terraform_reread;
/// Redacted values are compared and never exposed.
mod terraform_sealed;
/// Decoding Terraform states.
mod terraform_state;
/// Objects declared in different versions of one kind.
mod versions;
