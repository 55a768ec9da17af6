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

/// Who may ask for what, and how much of it they are shown.
mod access;
/// Rules, runbooks and the tests of alerts fit together.
mod alerts;
/// `/v1/…`: queries, shapes, problems.
mod api;
/// The module table, file lengths, no orphans.
mod architecture;
/// Who scaled an object, as autoscalers tell.
mod autoscalers;
/// What the built-in rules say about the drift that everybody has.
mod built_in_rules;
/// The program as people run it: `hash`, bad flags, bad files.
mod command_line;
/// Catalogue and flags are what the documents say.
mod contracts;
/// Dashboards, what is written down of them, and the metrics that they show.
mod dashboards;
/// What somebody wrote down beside what is there.
mod declared;
mod declared_customs;
/// `drift-exporter demo`, as people run it.
mod demo;
/// What Terraform manages in the demo, at rest and in the story.
mod demo_terraform;
/// What the chart copies is current, and image and workflows fit the rest.
mod deploy;
/// What the embedded cluster serves, and what a careless client cannot do to it.
mod embedded;
/// What one engine makes of changes, without any stream.
mod engine;
mod explain;
/// A server that hangs, cuts, lies, forbids or forgets.
mod faults;
/// Hashes: others' bit for bit, and independent of spelling.
mod hashes;
/// Following Helm releases in a cluster.
mod helm_bad;
mod helm_follow;
mod helm_looks;
/// Any order of lists and events ends as a fresh list would.
mod interleavings;
/// Kinds that come, go and change; settings that change.
mod kinds;
/// What kubectl wrote down on objects beside what they are.
mod last_applied;
/// `/v1/events`: resuming, calm, ends.
mod live_events;
/// `get`, `diff` and `explain`, with an exporter and without one.
mod look;
/// How they end.
mod look_ends;
/// What they make of what a running exporter says.
mod look_server;
/// What they show on a terminal.
mod look_terminal;
/// Whom they ask.
mod look_whom;
/// The `/metrics` page: golden, escapes, formats, limits.
mod manifest_follow;
mod metrics_page;
/// Kinds of the cluster's own, and what its API server says about them.
mod own_kinds;
/// What people see in a browser.
mod page;
/// Which streams are open for what is wanted.
mod plan;
/// The program as a plugin of kubectl, completions and manual pages.
mod plugin;
/// Settings that change while the program runs.
mod reload;
/// Rules that change while objects do.
mod rule_changes;
/// Rules: what they match, which wins, what is wrong with them.
mod rules;
/// What no rules can do, whatever they are.
mod rules_properties;
/// Slow clients, full servers, stopping.
mod server;
/// The settings file: what is wrong is told with its place, and nothing is half taken.
mod settings;
/// The reference of settings beside their schema.
mod settings_reference;
/// What controllers record in the status of their objects, and Jobs that run Terraform.
mod status_hash;
/// Settings about both.
mod status_hash_settings;
/// States beside live objects.
mod terraform_claims;
mod terraform_compare;
/// Following states in a cluster and in files.
mod terraform_follow;
/// What is kept of live objects while what is sealed in them changes.
mod terraform_kept;
/// What a running exporter keeps of objects in which states mark something, and which kinds it lists again for that.
mod terraform_marked;
/// Whatever a state marks as sensitive compares as if it were not.
mod terraform_marks;
/// `drift-exporter baseline`, and what is read of it again.
mod terraform_published;
/// States that are read again and again.
mod terraform_reread;
/// Values that are compared and never told.
mod terraform_sealed;
/// What is kept of a Terraform state, and what is not.
mod terraform_state;
/// Objects that are declared in different versions of one kind.
mod versions;
