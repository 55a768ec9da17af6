//! Flags that several commands have.

use std::{collections::BTreeSet, path::PathBuf};

use clap::Args;

use crate::{
    app::telemetry::LogFormat,
    cli::{
        values::{namespace, switch},
        web_args::WebArgs,
    },
    config::LogLevel,
    watch::ClusterConnection,
};

/// Where the cluster is.
#[derive(Debug, Args)]
pub(in crate::cli) struct ClusterArgs {
    /// Kubeconfig to use [default: $KUBECONFIG, ~/.kube/config, or the pod's own account].
    #[arg(long, value_name = "FILE", env = "DRIFT_KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig to use [default: the current one].
    #[arg(long, value_name = "NAME", env = "DRIFT_CONTEXT")]
    context: Option<String>,
}

impl ClusterArgs {
    pub(in crate::cli) fn connection(&self) -> ClusterConnection {
        ClusterConnection { kubeconfig: self.kubeconfig.clone(), context: self.context.clone() }
    }
}

/// What decides which rights the exporter needs, beside the settings file.
#[derive(Debug, Args)]
pub(in crate::cli) struct ReachArgs {
    /// Namespaces to watch [default: all of them].
    #[arg(long, value_name = "NAME,…", env = "DRIFT_NAMESPACES", value_delimiter = ',', value_parser = namespace)]
    namespaces: Vec<String>,
    /// Write a Kubernetes Warning Event when an object begins to drift. Needs the right to create events.
    #[arg(long, env = "DRIFT_EVENTS", value_parser = switch)]
    pub(in crate::cli) events: bool,
    #[command(flatten)]
    pub(in crate::cli) web: WebArgs,
}

impl ReachArgs {
    /// The namespaces that were named, where any was: each once. Empty names, which templates leave behind, are none.
    pub(in crate::cli) fn namespaces(&self) -> Option<Vec<Box<str>>> {
        let names = self.namespaces.iter().map(String::as_str).filter(|name| !name.is_empty());
        let names: BTreeSet<&str> = names.collect();
        (!names.is_empty()).then(|| names.into_iter().map(Into::into).collect())
    }
}

/// What people have written down.
#[derive(Debug, Args)]
pub(in crate::cli) struct ConfigArgs {
    /// Settings file: kinds, sources, rules and more; flags and environment stand above it [default: none].
    #[arg(long = "config.file", value_name = "FILE", env = "DRIFT_CONFIG_FILE")]
    pub(in crate::cli) config_file: Option<PathBuf>,
}

/// What is logged, and how.
#[derive(Debug, Args)]
pub(in crate::cli) struct LogArgs {
    /// Least severe messages to log: error, warn, info, debug or trace [default: info, in the demo warn].
    #[arg(long = "log.level", value_name = "LEVEL", env = "DRIFT_LOG_LEVEL", hide_possible_values = true)]
    pub(in crate::cli) level: Option<LogLevel>,
    /// How log lines look.
    #[arg(long = "log.format", env = "DRIFT_LOG_FORMAT", default_value = "text")]
    pub(in crate::cli) format: LogFormat,
}
