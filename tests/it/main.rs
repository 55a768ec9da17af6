//! The fast tests: no network, no cluster. One binary, which links once.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_precision_loss,
    reason = "test helpers fail by panicking"
)]

#[path = "../support/mod.rs"]
mod support;

/// The rules that accept live values.
mod acceptance_rules;
/// The class of the tool behind each field manager.
mod actors;
/// Alerting rules, runbooks and rule tests match.
mod alerts;
/// `/v1/…`: queries, response fields, problem details.
mod api;
/// The module table, file lengths, no orphans.
mod architecture;
/// Authentication, authorization, and which values each caller sees.
mod auth;
/// Autoscalers as actors of replica drift.
mod autoscalers;
/// How the built-in rules rate common drift.
mod built_in_rules;
/// What sort of change a difference is.
mod change_kinds;
/// `get`, `diff` and `explain`, with and without an exporter.
mod cli_commands;
/// Which server `get`, `diff` and `explain` use.
mod cli_connect;
/// The YAML that `diff` compares.
mod cli_diff;
/// The command `explain`.
mod cli_explain;
/// The command line: `hash`, invalid flags, invalid files.
mod cli_flags;
/// `get`, `diff` and `explain` on a terminal.
mod cli_output;
/// The kubectl plugin, shell completions and manual pages.
mod cli_plugin;
/// `get`, `diff` and `explain` with responses of an exporter.
mod cli_server;
/// The documentation matches metrics, rules, settings and flags.
mod contracts;
/// Custom resources and their OpenAPI schemas.
mod custom_resources;
/// Dashboards, their descriptions and their metrics.
mod dashboards;
/// Diffs of declared and live objects.
mod declared;
/// Diffs of declared and live custom resources.
mod declared_custom_resources;
/// The settings of a command without a settings file.
mod default_settings;
/// The command `demo`.
mod demo;
/// The Terraform state of the demo.
mod demo_terraform;
/// Chart, image and workflows match the repository.
mod deploy;
/// Quantities, fields and their managers, last-applied annotations.
mod diff;
/// The API server of the demo.
mod embedded;
/// Drift episodes over time: counters, onsets, resolution causes, series.
mod engine;
/// Any order of lists and events converges to the state of a fresh list.
mod event_order;
/// Watches on an API server that stalls, disconnects or rejects requests.
mod faults;
/// Files that change while a program polls them.
mod file_watch;
/// Spec hashes: equal to those of other operators, independent of formatting.
mod hashes;
/// Watching Helm releases in a cluster.
mod helm_source;
/// The format of the history file.
mod history;
/// Inputs that exceed a limit.
mod hostile_inputs;
/// Kinds that are added, removed or changed; changed settings.
mod kinds;
/// Last-applied-configuration compared with live objects.
mod last_applied;
/// Memory while a long list is read.
mod list_memory;
/// `/v1/events`: resume, batching, limits.
mod live_events;
/// Watching directories of manifests.
mod manifest_source;
/// The `/metrics` page: golden, escapes, formats, limits.
mod metrics_page;
/// The watches that a plan opens for the wanted kinds.
mod plan;
/// Settings that reload while the program runs.
mod reload;
mod renderings;
/// Rules that change while objects change.
mod rule_changes;
/// Rules: matching, precedence, errors.
mod rules;
/// Properties that hold for any rules.
mod rules_properties;
/// Plain values of Secrets in the memory of the process.
mod secrets_in_memory;
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
/// The command `baseline`, and reading its output.
mod terraform_published;
/// Redacted values are compared and never exposed.
mod terraform_redaction;
/// Cached live objects while their redacted fields change.
mod terraform_redaction_relist;
/// Repeated reads of Terraform states.
mod terraform_reread;
/// Sensitive fields compare like other fields.
mod terraform_sensitive_paths;
/// Objects with sensitive fields in an exporter, and the relists that they cause.
mod terraform_sensitive_values;
/// Watching Terraform states in a cluster and in files.
mod terraform_source;
/// Decoding Terraform states.
mod terraform_state;
/// Control characters in the text log of the program.
mod text_log;
/// The objects that a baseline has authority over.
mod trust;
/// Field paths, selectors, digests and other domain types.
mod types;
/// The HTML pages.
mod ui;
/// The forms of values, from the diff to the commands.
mod value_forms;
/// Objects declared in different versions of one kind.
mod versions;
/// Items of lists, and decoded live objects.
mod watch;
