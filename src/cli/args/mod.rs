//! Flags. Each can also be given as `DRIFT_` and its name in upper case, with `_` for `.` and `-`.

mod common;
mod look;
mod run;
mod tools;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

pub(super) use self::{
    common::ClusterArgs,
    look::{AskArgs, DiffArgs, ExplainArgs, GetArgs, Output, PlaceArgs, Told},
    run::{DemoArgs, RunArgs},
    tools::{AcceptArgs, BaselineArgs, CheckArgs, HashArgs, RulesArgs, RulesCommand, RulesTestArgs, Written},
};

/// Tells Prometheus which Kubernetes objects differ from what was declared. Writes nothing to the cluster, unless
/// asked for Events.
#[derive(Debug, Parser)]
#[command(name = "drift-exporter", version, max_term_width = 110, after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  drift-exporter demo                          see it at work, without a cluster
  drift-exporter get -A                        what drifted in the current context's cluster, at one look
  drift-exporter diff deployment/web -n shop   what is declared beside what is there
  drift-exporter explain deployment/web -n shop
                                               which source says what about an object, and who changed it
  drift-exporter run                           watch the current context's cluster, serve :10374/metrics
  drift-exporter hash deployment/web -n shop   the hash to record in the annotation of a live object
  drift-exporter hash -f web.yaml              the hash of what is in a file
  terraform state pull | drift-exporter baseline --name shop | kubectl apply -n terraform -f -
                                               tell the exporter of a state that is not kept in the cluster
  drift-exporter check --config.file s.yaml    whether settings are right, and what the cluster lets us see
  drift-exporter accept deployment/web -n shop --for 14d --owner me --reason load-test
                                               a rule that lets the object be as it is now, and nothing else

Exit codes: 0 fine, 1 a negative answer (drift, a bad object), 2 could not run.";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Watch a cluster and serve /metrics; also what runs in a pod.
    Run(RunArgs),
    /// See it at work: a small shop in a cluster inside this process, where things drift. Needs nothing else.
    ///
    /// Prints where the page is, and the path of a kubeconfig with which kubectl can change things in that cluster.
    Demo(DemoArgs),
    /// List what drifted: which object, in which field, by what tool, since when, and who declares it.
    ///
    /// Asks a running exporter, or looks at the cluster itself where none is named: once, with your own rights, and nothing
    /// has to be installed. Then all is compared with what kubectl applied, with Helm's releases, with Terraform states that
    /// are kept in the cluster and with recorded hashes; a settings file says otherwise.
    Get(GetArgs),
    /// Show what is declared beside what is there, field by field, as a unified diff.
    ///
    /// Lines with - are declared, lines with + are there. Only fields that differ are shown, with what they stand in.
    Diff(DiffArgs),
    /// Say what each source declares for an object, what is off, who changed it, and which rules have a say.
    Explain(ExplainArgs),
    /// Print the hash of objects, as it is recorded in the annotation tfdrift.jin.dev/spec-hash.
    ///
    /// Record the hash of the live object: a manifest's is another one wherever the API server fills in defaults.
    Hash(HashArgs),
    /// Print Secrets that tell the exporter what a Terraform state declares, for states that are not kept in the cluster.
    ///
    /// Reads what `terraform state pull` or `terraform show -json` prints. Only resources of Kubernetes are taken from it;
    /// the data of Secrets and values that are marked sensitive are replaced by keyed digests. Apply the Secrets in a
    /// namespace in which the exporter looks for states, after each `terraform apply`:
    ///
    /// terraform state pull | drift-exporter baseline --name shop-prod | kubectl apply -n terraform -f -
    Baseline(BaselineArgs),
    /// Check a settings file, and what the cluster allows for it.
    ///
    /// Says for each kind whether it can be listed and watched, and prints the RBAC rule to add where it cannot.
    Check(CheckArgs),
    /// Print a rule that accepts an object as it is now, ready to be put under `rules:` in the settings.
    ///
    /// It is pinned to the object, the path and the value: another value is drift again.
    Accept(AcceptArgs),
    /// List the rules that hold, or try them on cases.
    Rules(RulesArgs),
    /// Print what a shell needs to complete commands and flags.
    ///
    /// For bash: source <(drift-exporter completions bash)
    Completions(CompletionsArgs),
    /// Print the manual page, or write the pages of all commands into a folder.
    Man(ManArgs),
}

#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell.
    pub(super) shell: Shell,
}

#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// The command whose page is printed [default: the one of all commands].
    #[arg(value_name = "COMMAND", conflicts_with = "dir")]
    pub(super) command: Option<String>,
    /// Write all pages into this folder.
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
}
