//! Flags. Each can also be given as `DRIFT_` and its name in upper case, with `_` for `.` and `-`.

use std::{collections::BTreeSet, path::PathBuf};

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use jiff::SignedDuration;

use super::values::{
    ListenAddress, ObjectName, Switch, baseline_name, namespace, period, place, prefix, speed, switch, words,
};
use super::web_args::WebArgs;
use crate::{
    app::telemetry::LogFormat,
    compare::Algorithm,
    model::Source,
    settings::{LogLevel, Overrides, ShownResources},
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
  terraform state pull | drift-exporter baseline --name shop | kubectl apply -n terraform -f -
                                               tell the exporter of a state that is not kept in the cluster
  drift-exporter check --config.file s.yaml    whether settings are right, and what the cluster lets us see
  drift-exporter accept deployment/web -n shop --for 14d --owner me --reason load-test
                                               a rule that lets the object be as it is now, and nothing else
  drift-exporter explain deployment/web -n shop
                                               which source says what about an object, and who changed it

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
    /// Say what each source declares for an object and what is off, as a running exporter knows it.
    ///
    /// Ends with 1 where something drifted.
    Explain(ExplainArgs),
    /// List the rules that hold, or try them on cases.
    Rules(RulesArgs),
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

/// What decides which rights the exporter needs, beside the settings file.
#[derive(Debug, Args)]
pub(super) struct ReachArgs {
    /// Namespaces to watch [default: all of them].
    #[arg(long, value_name = "NAME,…", env = "DRIFT_NAMESPACES", value_delimiter = ',', value_parser = namespace)]
    namespaces: Vec<String>,
    /// Write a Kubernetes Warning Event when an object begins to drift. Needs the right to create events.
    #[arg(long, env = "DRIFT_EVENTS", value_parser = switch)]
    pub(super) events: bool,
    #[command(flatten)]
    pub(super) web: WebArgs,
}

impl ReachArgs {
    /// The namespaces that were named, where any was: each once. Empty names, which templates leave behind, are none.
    pub(super) fn namespaces(&self) -> Option<Vec<Box<str>>> {
        let names = self.namespaces.iter().map(String::as_str).filter(|name| !name.is_empty());
        let names: BTreeSet<&str> = names.collect();
        (!names.is_empty()).then(|| names.into_iter().map(Into::into).collect())
    }
}

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    #[command(flatten)]
    pub(super) reach: ReachArgs,
    /// Settings file: kinds, rules and more. Followed while running; flags and environment stand above it.
    #[arg(long = "config.file", value_name = "FILE", env = "DRIFT_CONFIG_FILE")]
    pub(super) config_file: Option<PathBuf>,
    /// Address to serve on; without a host: every address of this machine.
    #[arg(
        long = "web.listen-address", value_name = "[HOST]:PORT", env = "DRIFT_WEB_LISTEN_ADDRESS",
        default_value = ":10374", value_parser = ListenAddress::parse
    )]
    pub(super) listen: ListenAddress,
    /// Where baselines are read from [default: annotation].
    #[arg(long, value_name = "NAME,…", env = "DRIFT_SOURCES", value_delimiter = ',')]
    pub(super) sources: Option<Vec<Source>>,
    /// Objects that have series of their own: all that take part, or only those that drift [default: tracked].
    #[arg(long = "metrics.resources", env = "DRIFT_METRICS_RESOURCES")]
    pub(super) resources: Option<ShownResources>,
    /// Most series of single objects; those of drifted objects come first [default: 200000].
    #[arg(long = "metrics.max-series", value_name = "N", env = "DRIFT_METRICS_MAX_SERIES")]
    pub(super) max_series: Option<usize>,
    /// Expose `drift_resource_health`; `=false` where the settings file says true and is not to be heard.
    #[arg(
        long = "metrics.health", value_name = "BOOL", env = "DRIFT_METRICS_HEALTH", value_parser = Switch::parse,
        num_args = 0..=1, require_equals = true, default_missing_value = "true"
    )]
    health: Option<Switch>,
    /// Keep the history of verdicts in this file across restarts.
    #[arg(long = "history.file", value_name = "FILE", env = "DRIFT_HISTORY_FILE")]
    pub(super) history_file: Option<PathBuf>,
    #[command(flatten)]
    pub(super) log: LogArgs,
}

impl RunArgs {
    /// What was said at the command line or in the environment, which stands above the settings file.
    pub(super) fn overrides(&self) -> Overrides {
        Overrides {
            namespaces: self.reach.namespaces(),
            sources: self.sources.clone(),
            resources: self.resources,
            max_series: self.max_series,
            health: self.health.and_then(|switch| switch.0),
            log_level: self.log.level,
        }
    }
}

/// What is logged, and how.
#[derive(Debug, Args)]
pub(super) struct LogArgs {
    /// Least severe messages to log: error, warn, info, debug or trace [default: info, in the demo warn].
    #[arg(long = "log.level", value_name = "LEVEL", env = "DRIFT_LOG_LEVEL", hide_possible_values = true)]
    pub(super) level: Option<LogLevel>,
    /// How log lines look.
    #[arg(long = "log.format", env = "DRIFT_LOG_FORMAT", default_value = "text")]
    pub(super) format: LogFormat,
}

#[derive(Debug, Args)]
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

#[derive(Debug, Args)]
pub(super) struct BaselineArgs {
    /// What the baseline is called: the label `state` of metrics, and a part of the names of the Secrets.
    #[arg(long, value_name = "NAME", value_parser = baseline_name)]
    pub(super) name: String,
    /// Read the state from this file; - is standard input [default: standard input].
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub(super) file: Option<PathBuf>,
    /// Namespace to write into the Secrets [default: none, which leaves it to kubectl].
    #[arg(short, long, value_name = "NAME", value_parser = namespace)]
    pub(super) namespace: Option<String>,
    /// How the Secrets are written.
    #[arg(short, long, value_name = "FORMAT", default_value = "yaml")]
    pub(super) output: Written,
    /// What the labels begin with; the same as the exporter's setting sources.annotation.prefix.
    #[arg(long, value_name = "HOST", default_value = "tfdrift.jin.dev", value_parser = prefix)]
    pub(super) prefix: String,
}

/// How objects are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Written {
    Yaml,
    Json,
}

#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    #[command(flatten)]
    pub(super) reach: ReachArgs,
    /// Settings file to check [default: none, which watches Deployments and Services].
    #[arg(long = "config.file", value_name = "FILE", env = "DRIFT_CONFIG_FILE")]
    pub(super) config_file: Option<PathBuf>,
    /// Check the file alone; no cluster is asked.
    #[arg(long)]
    pub(super) pre: bool,
    /// Print the JSON Schema of the settings file, for editors.
    #[arg(long, conflicts_with = "pre")]
    pub(super) schema: bool,
}

#[derive(Debug, Args)]
pub(super) struct AcceptArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    /// The object, such as deployment/web.
    #[arg(value_name = "KIND/NAME", value_parser = ObjectName::parse)]
    pub(super) object: ObjectName,
    /// Namespace of the object [default: the context's].
    #[arg(short, long, value_name = "NAME", env = "DRIFT_NAMESPACE", value_parser = namespace)]
    pub(super) namespace: Option<String>,
    /// For how long, such as 14d or 12h.
    #[arg(long = "for", value_name = "TIME", value_parser = period)]
    pub(super) period: SignedDuration,
    /// Who answers for it.
    #[arg(long, value_name = "NAME", value_parser = words)]
    pub(super) owner: String,
    /// Why it is accepted.
    #[arg(long, value_name = "TEXT", value_parser = words)]
    pub(super) reason: String,
    /// Settings file that says where hashes are recorded.
    #[arg(long = "config.file", value_name = "FILE", env = "DRIFT_CONFIG_FILE")]
    pub(super) config_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    /// The object, such as deployment/web; kind.group/name where two groups have the kind.
    #[arg(value_name = "KIND/NAME", value_parser = ObjectName::parse)]
    pub(super) object: ObjectName,
    /// Namespace of the object; - for objects without one.
    #[arg(short, long, value_name = "NAME", env = "DRIFT_NAMESPACE", default_value = "default", value_parser = place)]
    pub(super) namespace: String,
    /// Address of a running exporter.
    #[arg(long, value_name = "URL", env = "DRIFT_SERVER", default_value = "http://127.0.0.1:10374")]
    pub(super) server: String,
    /// How it is told: for people, or as the API says it.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(super) output: Told,
}

/// How an answer is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Told {
    Text,
    Json,
}

#[derive(Debug, Args)]
pub(super) struct RulesArgs {
    #[command(subcommand)]
    pub(super) command: RulesCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum RulesCommand {
    /// List the rules that hold with these settings, built-in ones first.
    List(RulesListArgs),
    /// Try the rules on cases and say which come out as wanted; made for CI.
    Test(RulesTestArgs),
}

#[derive(Debug, Args)]
pub(super) struct RulesListArgs {
    /// Settings file with rules [default: none, which leaves the built-in ones].
    #[arg(long = "config.file", value_name = "FILE", env = "DRIFT_CONFIG_FILE")]
    pub(super) config_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct RulesTestArgs {
    /// Settings file with rules [default: none, which leaves the built-in ones].
    #[arg(long = "config.file", value_name = "FILE", env = "DRIFT_CONFIG_FILE")]
    pub(super) config_file: Option<PathBuf>,
    /// Files with cases, YAML.
    #[arg(value_name = "FILE", required = true)]
    pub(super) files: Vec<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::{Arguments, Command, Overrides};
    use crate::settings::load;

    fn overrides(flags: &[&str]) -> Overrides {
        match Arguments::try_parse_from([&["drift-exporter", "run"], flags].concat()).unwrap().command {
            Command::Run(run) => run.overrides(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_flag_that_says_no_beats_a_file_that_says_yes() {
        for (flags, in_file, wanted) in [
            (&[][..], true, true),
            (&[], false, false),
            (&["--metrics.health"], false, true),
            (&["--metrics.health=true"], false, true),
            (&["--metrics.health=false"], true, false),
            (&["--metrics.health="], true, true),
        ] {
            let file = format!("metrics: {{health: {in_file}}}\n");
            let settings = load(&file, &overrides(flags)).unwrap().settings;
            assert_eq!(settings.health_series, wanted, "{flags:?} {in_file}");
        }
    }

    #[test]
    fn each_namespace_is_watched_once_and_an_empty_name_is_none() {
        let named = |names| overrides(&["--namespaces", names]).namespaces;
        assert_eq!(named("shop,ops,,shop"), Some(vec!["ops".into(), "shop".into()]));
        assert_eq!(named(""), None);
    }

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
}
