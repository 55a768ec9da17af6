//! The flags of the commands that look at a cluster, through a running exporter or without one.

use std::path::PathBuf;

use clap::{Args, ColorChoice, ValueEnum};

use super::common::{ClusterArgs, ConfigArgs};
use crate::{
    cli::values::{Wish, place, selector},
    types::Selector,
};

/// Whom to ask.
#[derive(Debug, Args)]
pub(in crate::cli) struct AskArgs {
    /// Ask the running exporter at this address [default: none, which looks at the cluster itself].
    #[arg(long, value_name = "URL", env = "DRIFT_SERVER", help_heading = "Whom to ask")]
    pub(in crate::cli) server: Option<String>,
    /// Look at the cluster itself, once, with your own rights; also where `DRIFT_SERVER` names an exporter.
    #[arg(long, help_heading = "Whom to ask")]
    pub(in crate::cli) direct: bool,
    /// Token for the exporter. Others on this machine may see it here; a file or the environment keeps it.
    #[arg(
        long,
        value_name = "TOKEN",
        env = "DRIFT_TOKEN",
        hide_env_values = true,
        help_heading = "Whom to ask"
    )]
    pub(in crate::cli) token: Option<String>,
    /// File with the token for the exporter.
    #[arg(long, value_name = "FILE", env = "DRIFT_TOKEN_FILE", help_heading = "Whom to ask")]
    pub(in crate::cli) token_file: Option<PathBuf>,
    /// File with USER:PASSWORD for the exporter.
    #[arg(long, value_name = "FILE", env = "DRIFT_BASIC_AUTH_FILE", help_heading = "Whom to ask")]
    pub(in crate::cli) basic_auth_file: Option<PathBuf>,
    /// Certificates, PEM, that the exporter's own is signed by [default: those of the system].
    #[arg(long, value_name = "FILE", env = "DRIFT_CA_FILE", help_heading = "Whom to ask")]
    pub(in crate::cli) ca_file: Option<PathBuf>,
    /// Certificate, PEM, that we show to the exporter.
    #[arg(
        long,
        value_name = "FILE",
        env = "DRIFT_CERT_FILE",
        requires = "key_file",
        help_heading = "Whom to ask"
    )]
    pub(in crate::cli) cert_file: Option<PathBuf>,
    /// Its key, PEM.
    #[arg(
        long,
        value_name = "FILE",
        env = "DRIFT_KEY_FILE",
        requires = "cert_file",
        help_heading = "Whom to ask"
    )]
    pub(in crate::cli) key_file: Option<PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) cluster: ClusterArgs,
    #[command(flatten)]
    pub(in crate::cli) config: ConfigArgs,
}

/// Where to look.
#[derive(Debug, Args)]
pub(in crate::cli) struct PlaceArgs {
    /// Namespace to look in; - for objects without one [default: the context's].
    #[arg(short, long, value_name = "NAME", env = "DRIFT_NAMESPACE", value_parser = place)]
    pub(in crate::cli) namespace: Option<String>,
    /// Look in all namespaces, and at objects without one.
    #[arg(short = 'A', long)]
    pub(in crate::cli) all_namespaces: bool,
}

/// One object.
#[derive(Debug, Args)]
pub(in crate::cli) struct ObjectArgs {
    /// The object, such as deployment/web; kind.group/name where two groups have the kind.
    #[arg(value_name = "KIND/NAME", value_parser = Wish::parse)]
    object: Wish,
    /// Its name, where it stands apart, as kubectl takes it too: deployment web.
    #[arg(value_name = "NAME", hide = true)]
    name: Option<String>,
}

impl ObjectArgs {
    /// The object, by kind and name.
    pub(in crate::cli) fn wish(&self) -> Result<Wish, String> {
        let wish = self.object.followed_by(self.name.as_deref())?;
        if wish.name.is_some() {
            Ok(wish)
        } else {
            Err(format!("which one of {}? Want KIND/NAME, such as deployment/web", wish.kind))
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = GET_EXAMPLES)]
pub(in crate::cli) struct GetArgs {
    /// A kind, or one object of it: deployments, deploy/web, widget.example.com [default: all kinds].
    #[arg(value_name = "KIND[/NAME]", value_parser = Wish::parse)]
    wish: Option<Wish>,
    /// Its name, where it stands apart, as kubectl takes it too: deploy web.
    #[arg(value_name = "NAME", hide = true)]
    name: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) place: PlaceArgs,
    /// Only objects with these labels, as the cluster has them now: app=web, tier in (a,b).
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = selector)]
    pub(in crate::cli) selector: Option<Selector>,
    /// What is in sync, too. Without it only what drifted, is missing, was replaced or is unknown.
    #[arg(long)]
    pub(in crate::cli) all: bool,
    /// How it is told.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) output: Output,
    /// Go on, and tell what changes.
    #[arg(short, long)]
    pub(in crate::cli) watch: bool,
    #[command(flatten)]
    pub(in crate::cli) ask: AskArgs,
}

impl GetArgs {
    /// What is asked for; none for all kinds.
    pub(in crate::cli) fn wish(&self) -> Result<Option<Wish>, String> {
        self.wish.as_ref().map(|wish| wish.followed_by(self.name.as_deref())).transpose()
    }

    /// Whether one object is asked for.
    pub(in crate::cli) fn names_one(&self) -> bool {
        self.name.is_some() || self.wish.as_ref().is_some_and(|wish| wish.name.is_some())
    }
}

const GET_EXAMPLES: &str = "\
Examples:
  drift-exporter get                           what is off in the context's namespace
  drift-exporter get -A -o wide                what is off anywhere, with addresses, managers and advice
  drift-exporter get deploy/web -n shop        one object
  drift-exporter get -A --all -l app=web       everything that is declared and has this label
  drift-exporter get -A -w                     go on, and tell what changes
  drift-exporter get -A --server https://drift.example.com --token-file token

Exit codes: 0 nothing drifted, 1 something did or is not there, 2 could not look.";

/// How `get` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Output {
    /// A line for each.
    Table,
    /// The same with more columns.
    Wide,
    /// As the API says it.
    Json,
    /// The same as YAML.
    Yaml,
    /// Names, as kubectl takes them.
    Name,
}

#[derive(Debug, Args)]
#[command(after_help = DIFF_EXAMPLES)]
pub(in crate::cli) struct DiffArgs {
    /// Kinds, or objects: deploy/web svc [default: all that drifted].
    #[arg(value_name = "KIND[/NAME]", value_parser = Wish::parse)]
    pub(in crate::cli) wishes: Vec<Wish>,
    #[command(flatten)]
    pub(in crate::cli) place: PlaceArgs,
    /// Only objects with these labels, as the cluster has them now.
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = selector)]
    pub(in crate::cli) selector: Option<Selector>,
    /// When to use colours; auto does on a terminal where `NO_COLOR` is not set.
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(in crate::cli) color: ColorChoice,
    #[command(flatten)]
    pub(in crate::cli) ask: AskArgs,
}

const DIFF_EXAMPLES: &str = "\
Examples:
  drift-exporter diff                          all that drifted in the context's namespace
  drift-exporter diff deploy/web svc -n shop   one object, and all Services
  KUBECTL_EXTERNAL_DIFF=\"colordiff -N -u\" drift-exporter diff -A
                                               by another program, as kubectl diff does it

Exit codes: 0 nothing drifted, 1 something did, 2 could not look; of another program: its own.";

#[derive(Debug, Args)]
#[command(after_help = EXPLAIN_EXAMPLES)]
pub(in crate::cli) struct ExplainArgs {
    #[command(flatten)]
    pub(in crate::cli) object: ObjectArgs,
    /// Namespace of the object; - for objects without one [default: the context's].
    #[arg(short, long, value_name = "NAME", env = "DRIFT_NAMESPACE", value_parser = place)]
    pub(in crate::cli) namespace: Option<String>,
    /// How it is told: for people, or as the API says it.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(in crate::cli) output: Told,
    #[command(flatten)]
    pub(in crate::cli) ask: AskArgs,
}

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  drift-exporter explain deploy/web -n shop    which source says what about it, and who changed it
  drift-exporter explain clusterrole/ops       an object without a namespace
  drift-exporter explain deploy/web --server http://127.0.0.1:10374

Exit codes: 0 nothing drifted, 1 something did or is not there, 2 could not look.";

/// How an answer is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Told {
    Text,
    Json,
}
