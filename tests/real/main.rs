//! Tests that need more real programs than a cluster.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "tests change the cluster, which the exporter must not, and print what they measured"
)]

#[path = "../support/mod.rs"]
mod support;

/// Alert rules, routes and messages, checked with promtool, amtool and Alertmanager.
mod alerts;
/// Five sources on one API server.
mod all_sources;
/// The web UI in a real Chromium.
mod browser;
/// Every dashboard query, evaluated by a real Prometheus.
mod dashboards;
/// Comparison of declared and live objects, checked with kubectl diff.
mod declared;
/// The demo's Helm release is current.
mod demo_release;
/// The demo's Terraform state is current.
mod demo_state;
/// The chart and its generated manifests.
mod deploy;
/// Releases of real Helm.
mod helm_source;
/// The container image.
mod image;
/// Comparison of states and live objects, checked with terraform refresh.
mod oracle;
/// A real Prometheus scrapes a real exporter on a real cluster.
mod prometheus;
/// From an edit to a page and its resolution, with all real programs.
mod stack;
/// States of real Terraform.
mod terraform_source;
/// The table of Terraform types is current.
mod terraform_table;
/// Web configuration files, checked with promtool.
mod web_config;
