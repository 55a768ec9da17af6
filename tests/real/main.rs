//! Tests that need more real programs than a cluster.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "tests change the cluster, which the exporter must not, and print what they measured"
)]

#[path = "../support/mod.rs"]
mod support;

/// Alerts and who hears of them, by the word of promtool, amtool and Alertmanager.
mod alerts;
/// The live page in a real Chromium.
mod browser;
/// Every query of the dashboards, answered by a real Prometheus.
mod dashboards;
/// What is declared beside what is there, by the word of kubectl.
mod declared;
/// What Helm manages in the demo, made anew.
mod demo_release;
/// The demo's Terraform-managed shop, made anew.
mod demo_state;
/// The chart, and what is generated from it.
mod deploy;
/// Five sources on one API server.
mod five_sources;
/// Real Helm installs, upgrades and rolls back, and the exporter goes by its releases.
mod helm_source;
/// The image, built and run.
mod image;
/// What Terraform itself calls drift, beside what we do.
mod oracle;
/// A real Prometheus scrapes a real exporter on a real cluster.
mod prometheus;
/// From an edit to the pager and back, through every real part.
mod stack;
/// Real Terraform applies, and the exporter goes by its states.
mod terraform_source;
/// The table of Terraform types beside what it is derived from.
mod terraform_table;
/// Web configuration files, by the word of promtool.
mod web_config;
