//! The flags of the commands that help with settings, hashes and states.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use jiff::SignedDuration;

use super::{
    common::{ClusterArgs, ConfigArgs, ReachArgs},
    look::{AskArgs, ObjectArgs},
};
use crate::{
    cli::values::{ObjectRef, baseline_name, namespace, period, place, prefix, words},
    diff::Algorithm,
};

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).multiple(true).args(["objects", "files"]))]
pub(in crate::cli) struct HashArgs {
    #[command(flatten)]
    pub(in crate::cli) cluster: ClusterArgs,
    /// Live objects to read from the cluster, such as deployment/web.
    #[arg(value_name = "KIND/NAME", value_parser = ObjectRef::parse)]
    pub(in crate::cli) objects: Vec<ObjectRef>,
    /// Read objects from this file, YAML or JSON, several documents and Lists included; - is standard input.
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub(in crate::cli) files: Vec<PathBuf>,
    /// Namespace of the live objects [default: the context's].
    #[arg(short, long, value_name = "NAME", env = "DRIFT_NAMESPACE", value_parser = namespace)]
    pub(in crate::cli) namespace: Option<String>,
    /// How to hash [default: tfdrift-v1 for Deployments and Services, jcs-v1 for other kinds].
    #[arg(short, long, value_name = "NAME")]
    pub(in crate::cli) algorithm: Option<Algorithm>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct BaselineArgs {
    /// What the baseline is called: the label `state` of metrics, and a part of the names of the Secrets.
    #[arg(long, value_name = "NAME", value_parser = baseline_name)]
    pub(in crate::cli) name: String,
    /// Read the state from this file; - is standard input [default: standard input].
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub(in crate::cli) file: Option<PathBuf>,
    /// Namespace to write into the Secrets [default: none, which leaves it to kubectl].
    #[arg(short, long, value_name = "NAME", value_parser = namespace)]
    pub(in crate::cli) namespace: Option<String>,
    /// How the Secrets are written.
    #[arg(short, long, value_name = "FORMAT", default_value = "yaml")]
    pub(in crate::cli) output: Written,
    /// What the labels begin with; the same as the exporter's setting sources.annotation.prefix.
    #[arg(long, value_name = "HOST", default_value = "tfdrift.jin.dev", value_parser = prefix)]
    pub(in crate::cli) prefix: String,
}

/// How objects are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Written {
    Yaml,
    Json,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct CheckArgs {
    #[command(flatten)]
    pub(in crate::cli) cluster: ClusterArgs,
    #[command(flatten)]
    pub(in crate::cli) reach: ReachArgs,
    #[command(flatten)]
    pub(in crate::cli) config: ConfigArgs,
    /// Check the file alone; no cluster is asked.
    #[arg(long)]
    pub(in crate::cli) pre: bool,
    /// Print the JSON Schema of the settings file, for editors.
    #[arg(long, conflicts_with = "pre")]
    pub(in crate::cli) schema: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct AcceptArgs {
    #[command(flatten)]
    pub(in crate::cli) object: ObjectArgs,
    /// Namespace of the object; - for objects without one [default: the context's].
    #[arg(short, long, value_name = "NAME", env = "DRIFT_NAMESPACE", value_parser = place)]
    pub(in crate::cli) namespace: Option<String>,
    /// For how long, such as 14d or 12h.
    #[arg(long = "for", value_name = "TIME", value_parser = period)]
    pub(in crate::cli) period: SignedDuration,
    /// Who answers for it.
    #[arg(long, value_name = "NAME", value_parser = words)]
    pub(in crate::cli) owner: String,
    /// Why it is accepted.
    #[arg(long, value_name = "TEXT", value_parser = words)]
    pub(in crate::cli) reason: String,
    #[command(flatten)]
    pub(in crate::cli) ask: AskArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RulesArgs {
    #[command(subcommand)]
    pub(in crate::cli) command: RulesCommand,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum RulesCommand {
    /// List the rules that hold with these settings, built-in ones first.
    List(RulesListArgs),
    /// Try the rules on cases and say which come out as wanted; made for CI.
    Test(RulesTestArgs),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RulesListArgs {
    #[command(flatten)]
    pub(in crate::cli) config: ConfigArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RulesTestArgs {
    #[command(flatten)]
    pub(in crate::cli) config: ConfigArgs,
    /// Files with cases, YAML.
    #[arg(value_name = "FILE", required = true)]
    pub(in crate::cli) files: Vec<PathBuf>,
}
