//! Flags. Each can also be given as `DRIFT_` and its name in upper case, with `_` for `.` and `-`.

use std::{net::SocketAddr, path::PathBuf};

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum, builder::PossibleValue};

use crate::{
    app::telemetry::{LogFormat, LogLevel},
    compare::Algorithm,
    model::Source,
    watch::Connection,
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
  drift-exporter run                           watch the current context's cluster, serve :10374/metrics
  drift-exporter hash deployment/web -n shop   the hash to record in the annotation of a live object
  drift-exporter hash -f web.yaml              the hash of what is in a file

Exit codes: 0 fine, 1 a negative answer (a bad object), 2 could not run.";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Watch a cluster and serve /metrics; also what runs in a pod.
    Run(RunArgs),
    /// See it at work: a small shop in a cluster inside this process, where things drift. Needs nothing else.
    ///
    /// Prints where the page is, and the path of a kubeconfig with which kubectl can change things in that cluster.
    Demo(DemoArgs),
    /// Print the hash of objects, as it is recorded in the annotation tfdrift.jin.dev/spec-hash.
    ///
    /// Record the hash of the live object: a manifest's is another one wherever the API server fills in defaults.
    Hash(HashArgs),
}

/// Where the cluster is.
#[derive(Debug, Args)]
pub(super) struct ClusterArgs {
    /// Kubeconfig to use [default: $KUBECONFIG, ~/.kube/config, or the pod's own account].
    #[arg(long, value_name = "FILE", env = "DRIFT_KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig to use [default: the current one].
    #[arg(long, value_name = "NAME", env = "DRIFT_CONTEXT")]
    context: Option<String>,
}

impl ClusterArgs {
    pub(super) fn connection(&self) -> Connection {
        Connection { kubeconfig: self.kubeconfig.clone(), context: self.context.clone() }
    }
}

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    /// Address to serve on; without a host: every address of this machine.
    #[arg(
        long = "web.listen-address", value_name = "[HOST]:PORT", env = "DRIFT_WEB_LISTEN_ADDRESS",
        default_value = ":10374", value_parser = ListenAddress::parse
    )]
    pub(super) listen: ListenAddress,
    /// Namespaces to watch [default: all of them].
    #[arg(long, value_name = "NAME,…", env = "DRIFT_NAMESPACES", value_delimiter = ',', value_parser = namespace)]
    pub(super) namespaces: Vec<String>,
    /// Where baselines are read from.
    #[arg(
        long,
        value_name = "NAME,…",
        env = "DRIFT_SOURCES",
        value_delimiter = ',',
        default_value = "annotation"
    )]
    pub(super) sources: Vec<Source>,
    /// Objects that have series of their own: all that take part, or only those that drift.
    #[arg(long = "metrics.resources", env = "DRIFT_METRICS_RESOURCES", default_value = "tracked")]
    pub(super) resources: Resources,
    /// Most series of single objects; those of drifted objects come first.
    #[arg(
        long = "metrics.max-series",
        value_name = "N",
        env = "DRIFT_METRICS_MAX_SERIES",
        default_value_t = 200_000
    )]
    pub(super) max_series: usize,
    /// Expose `drift_resource_health`.
    #[arg(long = "metrics.health", env = "DRIFT_METRICS_HEALTH", value_parser = switch)]
    pub(super) health: bool,
    /// Write a Kubernetes Warning Event when an object begins to drift. Needs the right to create events.
    #[arg(long, env = "DRIFT_EVENTS", value_parser = switch)]
    pub(super) events: bool,
    /// Keep the history of verdicts in this file across restarts.
    #[arg(long = "history.file", value_name = "FILE", env = "DRIFT_HISTORY_FILE")]
    pub(super) history_file: Option<PathBuf>,
    #[command(flatten)]
    pub(super) log: LogArgs,
}

/// What is logged, and how.
#[derive(Debug, Args)]
pub(super) struct LogArgs {
    /// Least severe messages to log: error, warn, info, debug or trace.
    #[arg(
        long = "log.level",
        value_name = "LEVEL",
        env = "DRIFT_LOG_LEVEL",
        default_value = "info",
        hide_possible_values = true
    )]
    pub(super) level: LogLevel,
    /// How log lines look.
    #[arg(long = "log.format", env = "DRIFT_LOG_FORMAT", default_value = "text")]
    pub(super) format: LogFormat,
}

#[derive(Debug, Args)]
#[command(mut_arg("level", |level| level.default_value("warn")))]
pub(super) struct DemoArgs {
    /// Address to serve the page and /metrics on.
    #[arg(
        long = "web.listen-address", value_name = "[HOST]:PORT", env = "DRIFT_WEB_LISTEN_ADDRESS",
        default_value = "127.0.0.1:10374", value_parser = ListenAddress::parse
    )]
    pub(super) listen: ListenAddress,
    /// Nothing happens in the shop but what you do yourself.
    #[arg(long, env = "DRIFT_NO_STORY", value_parser = switch)]
    pub(super) no_story: bool,
    /// Play the story so many times as fast, from 0.1 to 100.
    #[arg(long, value_name = "FACTOR", env = "DRIFT_SPEED", default_value = "1", value_parser = speed)]
    pub(super) speed: f32,
    #[command(flatten)]
    pub(super) log: LogArgs,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).multiple(true).args(["objects", "files"]))]
pub(super) struct HashArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    /// Live objects to read from the cluster, such as deployment/web.
    #[arg(value_name = "KIND/NAME", value_parser = ObjectName::parse)]
    pub(super) objects: Vec<ObjectName>,
    /// Read objects from this file, YAML or JSON, several documents and Lists included; - is standard input.
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// Namespace of the live objects [default: the context's].
    #[arg(short, long, value_name = "NAME", env = "DRIFT_NAMESPACE", value_parser = namespace)]
    pub(super) namespace: Option<String>,
    /// How to hash [default: tfdrift-v1 for Deployments and Services, jcs-v1 for other kinds].
    #[arg(short, long, value_name = "NAME")]
    pub(super) algorithm: Option<Algorithm>,
}

/// Which objects have series of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Resources {
    /// All that take part.
    Tracked,
    /// Only those that drift.
    Drifted,
}

impl ValueEnum for Source {
    fn value_variants<'a>() -> &'a [Self] {
        Self::ALL
    }
    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.as_str()))
    }
}

impl ValueEnum for Algorithm {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::TfdriftV1, Self::JcsV1]
    }
    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()))
    }
}

/// A namespace that can exist. Empty is none: that is what templates leave behind.
fn namespace(text: &str) -> Result<String, String> {
    let name = text.trim();
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name == "*" {
        return Err("leave the flag out to watch all namespaces".to_owned());
    }
    if name.len() > 63 || !name.chars().all(allowed) || name.starts_with('-') || name.ends_with('-') {
        return Err("a namespace has lower-case letters, digits and `-` only".to_owned());
    }
    Ok(name.to_owned())
}

/// Reads a switch from the environment. Empty is off: that is what templates leave behind.
fn switch(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "" | "0" | "false" | "no" | "off" => Ok(false),
        "1" | "true" | "yes" | "on" => Ok(true),
        _ => Err("want true or false".to_owned()),
    }
}

fn speed(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(speed) if (0.1..=100.0).contains(&speed) => Ok(speed),
        Ok(_) | Err(_) => Err("want a number from 0.1 to 100".to_owned()),
    }
}

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListenAddress {
    /// Tried in order; a machine may have no IPv6.
    pub(super) candidates: Vec<SocketAddr>,
}

impl ListenAddress {
    fn parse(text: &str) -> Result<Self, String> {
        if let Some(port) = text.strip_prefix(':') {
            let port: u16 = port.parse().map_err(|_| format!("`{port}` is no port number"))?;
            return Ok(Self { candidates: vec![([0_u16; 8], port).into(), ([0_u8; 4], port).into()] });
        }
        let resolved: Vec<SocketAddr> = std::net::ToSocketAddrs::to_socket_addrs(text)
            .map_err(|error| format!("want HOST:PORT or :PORT ({error})"))?
            .collect();
        Ok(Self { candidates: resolved })
    }
}

/// `KIND/NAME` or `KIND.GROUP/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectName {
    pub(super) kind: String,
    pub(super) name: String,
}

impl ObjectName {
    fn parse(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((kind, name)) if !kind.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self { kind: kind.to_owned(), name: name.to_owned() })
            }
            _ => Err("want KIND/NAME, such as deployment/web".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::{Arguments, ListenAddress};

    #[test]
    fn the_flags_fit_together() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_flag_that_can_be_set_in_the_environment_is_named_after_itself() {
        let command = Arguments::command();
        let run = command.find_subcommand("run").unwrap();
        for argument in
            run.get_arguments().filter(|argument| !["help", "version"].contains(&argument.get_id().as_str()))
        {
            let flag = argument.get_long().unwrap();
            let variable = format!("DRIFT_{}", flag.to_uppercase().replace(['.', '-'], "_"));
            assert_eq!(
                argument.get_env().and_then(|name| name.to_str()),
                Some(variable.as_str()),
                "--{flag}"
            );
        }
    }

    #[test]
    fn a_port_alone_means_every_address() {
        let address = ListenAddress::parse(":10374").unwrap();
        assert_eq!(address.candidates[0].to_string(), "[::]:10374");
        assert_eq!(ListenAddress::parse("127.0.0.1:0").unwrap().candidates[0].to_string(), "127.0.0.1:0");
        assert!(ListenAddress::parse(":http").is_err());
        assert!(ListenAddress::parse("nonsense").is_err());
    }
}
