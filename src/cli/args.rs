//! Command-line arguments. Most options can also be set as `DRIFT_` and the option's name in upper case, with `_` for
//! `.` and `-`.
//!
//! Doc comments of commands, options and their values are the text of `--help`.

use std::{collections::BTreeSet, fmt, net::SocketAddr, path::PathBuf};

use clap::{ArgGroup, Args, ColorChoice, Parser, Subcommand, ValueEnum, builder::PossibleValue};
use clap_complete::Shell;
use jiff::SignedDuration;
use kube::Client;

use super::error::CliError;
use crate::{
    app::telemetry::LogFormat,
    config::{LogLevel, Overrides, ShownResources},
    diff::Algorithm,
    server::{Auth, WebConfig},
    types::{Scope, Selector, SelectorError, Source, TrustedNamespaces, is_label_prefix, is_namespace},
    watch::{ClusterConnection, RequiredPermission},
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
    #[command(subcommand)]
    Rules(RulesCommand),
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
    pub(super) fn connection(&self) -> ClusterConnection {
        ClusterConnection { kubeconfig: self.kubeconfig.clone(), context: self.context.clone() }
    }
}

/// Options that, together with the settings file, determine the permissions that the exporter needs.
#[derive(Debug, Args)]
pub(super) struct PermissionArgs {
    /// Namespaces to watch [default: all of them].
    #[arg(long, value_name = "NAME,…", env = "DRIFT_NAMESPACES", value_delimiter = ',', value_parser = namespace)]
    namespaces: Vec<String>,
    /// Where baselines are read from [default: annotation].
    #[arg(long, value_name = "NAME,…", env = "DRIFT_SOURCES", value_delimiter = ',')]
    sources: Option<Vec<Source>>,
    #[command(flatten)]
    trust: TrustArgs,
    /// Write a Kubernetes Warning Event when an object begins to drift. Needs the right to create events.
    #[arg(long, env = "DRIFT_EVENTS", value_parser = switch)]
    pub(super) events: bool,
    #[command(flatten)]
    pub(super) web: WebArgs,
}

impl PermissionArgs {
    /// Options and environment variables take precedence over the settings file.
    pub(super) fn overrides(&self) -> Overrides {
        Overrides {
            namespaces: self.namespaces(),
            sources: self.sources.clone(),
            trusted_namespaces: self.trust.namespaces(),
            ..Overrides::default()
        }
    }

    /// Sorted, without duplicates and without the empty names that templates render. `None` if no name is left.
    fn namespaces(&self) -> Option<Vec<Box<str>>> {
        let names = self.namespaces.iter().map(String::as_str).filter(|name| !name.is_empty());
        let names: BTreeSet<&str> = names.collect();
        (!names.is_empty()).then(|| names.into_iter().map(Into::into).collect())
    }
}

#[derive(Debug, Args)]
pub(super) struct ConfigArgs {
    /// Settings file: kinds, sources, rules and more; flags and environment variables take precedence [default: none].
    #[arg(long = "config.file", value_name = "FILE", env = "DRIFT_CONFIG_FILE")]
    pub(super) config_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct TrustArgs {
    /// Namespaces whose states and releases may declare objects outside their own namespace; * for all [default: none].
    #[arg(
        long, value_name = "NAME,…", env = "DRIFT_TRUSTED_NAMESPACES", value_delimiter = ',',
        value_parser = trusted_namespace
    )]
    trusted_namespaces: Vec<String>,
}

impl TrustArgs {
    /// `None` if no name is given.
    pub(super) fn namespaces(&self) -> Option<TrustedNamespaces> {
        let names: Vec<&str> =
            self.trusted_namespaces.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
        (!names.is_empty()).then(|| TrustedNamespaces::new(names))
    }
}

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
pub(super) struct WebArgs {
    /// TLS, client certificates, users and headers, in the file format that Prometheus' exporters share. Followed while running.
    #[arg(long = "web.config.file", value_name = "FILE", env = "DRIFT_WEB_CONFIG_FILE")]
    web_config_file: Option<PathBuf>,
    /// Ask the cluster whose tokens are good and what their bearers may see [default: everybody may ask].
    #[arg(long = "web.auth", value_name = "HOW", env = "DRIFT_WEB_AUTH")]
    web_auth: Option<WebAuth>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WebAuth {
    /// The cluster, by `TokenReview` and `SubjectAccessReview`.
    Kubernetes,
}

/// The loaded `--web.config.file` and the value of `--web.auth`.
pub(super) struct WebOptions {
    config: Option<WebConfig>,
    auth: Option<WebAuth>,
}

impl WebOptions {
    /// `client` reviews tokens if `--web.auth` is `kubernetes`.
    pub(super) fn auth(self, client: &Client) -> Auth {
        Auth::new(self.config, self.auth.map(|WebAuth::Kubernetes| client.clone()))
    }
}

impl WebArgs {
    pub(super) fn open(&self) -> Result<WebOptions, CliError> {
        let auth = self.web_auth;
        let config = self.web_config_file.as_ref().map(|path| {
            let config = WebConfig::open(path, auth.is_some());
            config.map_err(|problems| CliError::InvalidFile { path: path.clone(), problems })
        });
        Ok(WebOptions { config: config.transpose()?, auth })
    }

    pub(super) fn required_permissions(&self) -> Vec<RequiredPermission> {
        let create =
            |group, resource| RequiredPermission::new(group, resource, &["create"], Scope::default());
        let reviews = |WebAuth::Kubernetes| {
            [
                create("authentication.k8s.io", "tokenreviews"),
                create("authorization.k8s.io", "subjectaccessreviews"),
            ]
        };
        self.web_auth.into_iter().flat_map(reviews).collect()
    }
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Whom to ask")]
pub(super) struct ExporterArgs {
    /// Ask the running exporter at this address [default: none, which looks at the cluster itself].
    #[arg(long, value_name = "URL", env = "DRIFT_SERVER")]
    pub(super) server: Option<String>,
    /// Look at the cluster itself, once, with your own rights; also where `DRIFT_SERVER` names an exporter.
    #[arg(long)]
    pub(super) direct: bool,
    /// Token for the exporter. Others on this machine may see it here; a file or the environment keeps it.
    #[arg(long, value_name = "TOKEN", env = "DRIFT_TOKEN", hide_env_values = true)]
    pub(super) token: Option<String>,
    /// File with the token for the exporter.
    #[arg(long, value_name = "FILE", env = "DRIFT_TOKEN_FILE")]
    pub(super) token_file: Option<PathBuf>,
    /// File with USER:PASSWORD for the exporter.
    #[arg(long, value_name = "FILE", env = "DRIFT_BASIC_AUTH_FILE")]
    pub(super) basic_auth_file: Option<PathBuf>,
    /// Certificates, PEM, that the exporter's own is signed by [default: those of the system].
    #[arg(long, value_name = "FILE", env = "DRIFT_CA_FILE")]
    pub(super) ca_file: Option<PathBuf>,
    /// Certificate, PEM, that we show to the exporter.
    #[arg(long, value_name = "FILE", env = "DRIFT_CERT_FILE", requires = "key_file")]
    pub(super) cert_file: Option<PathBuf>,
    /// Its key, PEM.
    #[arg(long, value_name = "FILE", env = "DRIFT_KEY_FILE", requires = "cert_file")]
    pub(super) key_file: Option<PathBuf>,
    #[command(flatten, next_help_heading = None::<&str>)]
    pub(super) cluster: ClusterArgs,
    #[command(flatten, next_help_heading = None::<&str>)]
    pub(super) config: ConfigArgs,
    #[command(flatten, next_help_heading = None::<&str>)]
    pub(super) trust: TrustArgs,
}

#[derive(Debug, Args)]
pub(super) struct ScopeArgs {
    /// Namespace to look in; - for objects without one [default: the context's].
    #[arg(short, long, value_name = "NAME", env = "DRIFT_NAMESPACE", value_parser = namespace_or_none)]
    pub(super) namespace: Option<String>,
    /// Look in all namespaces, and at objects without one.
    #[arg(short = 'A', long)]
    pub(super) all_namespaces: bool,
}

#[derive(Debug, Args)]
pub(super) struct ObjectArgs {
    /// The object, such as deployment/web; kind.group/name where two groups have the kind.
    #[arg(value_name = "KIND/NAME", value_parser = ResourceArg::parse)]
    object: ResourceArg,
    /// Its name, where it stands apart, as kubectl takes it too: deployment web.
    #[arg(value_name = "NAME", hide = true)]
    name: Option<String>,
    /// Namespace of the object; - for objects without one [default: the context's].
    #[arg(short, long, value_name = "NAME", env = "DRIFT_NAMESPACE", value_parser = namespace_or_none)]
    pub(super) namespace: Option<String>,
}

impl ObjectArgs {
    pub(super) fn resource(&self) -> Result<ResourceArg, ArgError> {
        let resource = self.object.with_name(self.name.as_deref())?;
        if resource.name.is_some() { Ok(resource) } else { Err(ArgError::NotAnObject(resource.kind)) }
    }
}

#[derive(Debug, Args)]
#[command(after_help = GET_EXAMPLES)]
pub(super) struct GetArgs {
    /// A kind, or one object of it: deployments, deploy/web, widget.example.com [default: all kinds].
    #[arg(value_name = "KIND[/NAME]", value_parser = ResourceArg::parse)]
    resource: Option<ResourceArg>,
    /// Its name, where it stands apart, as kubectl takes it too: deploy web.
    #[arg(value_name = "NAME", hide = true)]
    name: Option<String>,
    #[command(flatten)]
    pub(super) scope: ScopeArgs,
    /// Only objects with these labels, as the cluster has them now: app=web, tier in (a,b).
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = selector)]
    pub(super) selector: Option<Selector>,
    /// What is in sync, too. Without it only what drifted, is missing, was replaced or is unknown.
    #[arg(long)]
    pub(super) all: bool,
    /// How it is told.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(super) output: OutputFormat,
    /// Go on, and tell what changes.
    #[arg(short, long)]
    pub(super) watch: bool,
    #[command(flatten)]
    pub(super) exporter: ExporterArgs,
}

impl GetArgs {
    /// `None` selects all kinds.
    pub(super) fn resource(&self) -> Result<Option<ResourceArg>, ArgError> {
        self.resource.as_ref().map(|resource| resource.with_name(self.name.as_deref())).transpose()
    }

    pub(super) fn names_one_object(&self) -> bool {
        self.name.is_some() || self.resource.as_ref().is_some_and(|resource| resource.name.is_some())
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OutputFormat {
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
pub(super) struct DiffArgs {
    /// Kinds, or objects: deploy/web svc [default: all that drifted].
    #[arg(value_name = "KIND[/NAME]", value_parser = ResourceArg::parse)]
    pub(super) resources: Vec<ResourceArg>,
    #[command(flatten)]
    pub(super) scope: ScopeArgs,
    /// Only objects with these labels, as the cluster has them now.
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = selector)]
    pub(super) selector: Option<Selector>,
    /// When to use colours; auto does on a terminal where `NO_COLOR` is not set.
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(super) color: ColorChoice,
    #[command(flatten)]
    pub(super) exporter: ExporterArgs,
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
pub(super) struct ExplainArgs {
    #[command(flatten)]
    pub(super) object: ObjectArgs,
    /// How it is told: for people, or as the API says it.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(super) output: ExplainFormat,
    #[command(flatten)]
    pub(super) exporter: ExporterArgs,
}

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  drift-exporter explain deploy/web -n shop    which source says what about it, and who changed it
  drift-exporter explain clusterrole/ops       an object without a namespace
  drift-exporter explain deploy/web --server http://127.0.0.1:10374

Exit codes: 0 nothing drifted, 1 something did or is not there, 2 could not look.";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ExplainFormat {
    Text,
    Json,
}

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    #[command(flatten)]
    pub(super) permissions: PermissionArgs,
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    /// Address to serve on; without a host: every address of this machine.
    #[arg(
        long = "web.listen-address", value_name = "[HOST]:PORT", env = "DRIFT_WEB_LISTEN_ADDRESS",
        default_value = ":10374", value_parser = ListenAddress::parse
    )]
    pub(super) listen: ListenAddress,
    /// Address to serve only /livez and /readyz on, in plain HTTP, so that no other client can delay probes.
    #[arg(
        long = "web.health-address", value_name = "[HOST]:PORT", env = "DRIFT_WEB_HEALTH_ADDRESS",
        value_parser = ListenAddress::parse
    )]
    pub(super) health_address: Option<ListenAddress>,
    /// Objects that have series of their own: all that take part, or only those that drift [default: tracked].
    #[arg(long = "metrics.resources", env = "DRIFT_METRICS_RESOURCES")]
    pub(super) resources: Option<ShownResources>,
    /// Most series of single objects; those of drifted objects come first [default: 200000].
    #[arg(
        long = "metrics.max-series",
        value_name = "N",
        env = "DRIFT_METRICS_MAX_SERIES",
        value_parser = parse_max_series
    )]
    pub(super) max_series: Option<usize>,
    /// Expose `drift_resource_health`; `=false` where the settings file says true and is not to be heard.
    #[arg(
        long = "metrics.health", value_name = "BOOL", env = "DRIFT_METRICS_HEALTH", value_parser = OptionalSwitch::parse,
        num_args = 0..=1, require_equals = true, default_missing_value = "true"
    )]
    health: Option<OptionalSwitch>,
    /// Keep the history of verdicts in this file across restarts.
    #[arg(long = "history.file", value_name = "FILE", env = "DRIFT_HISTORY_FILE")]
    pub(super) history_file: Option<PathBuf>,
    #[command(flatten)]
    pub(super) log: LogArgs,
}

#[derive(Debug, thiserror::Error)]
enum MaxSeriesError {
    #[error("0 would hide every series; want at least 1")]
    Zero,
    #[error("want a whole number")]
    Number(#[source] std::num::ParseIntError),
}

fn parse_max_series(text: &str) -> Result<usize, MaxSeriesError> {
    match text.parse().map_err(MaxSeriesError::Number)? {
        0 => Err(MaxSeriesError::Zero),
        limit => Ok(limit),
    }
}

impl RunArgs {
    /// Includes those of [`PermissionArgs`].
    pub(super) fn overrides(&self) -> Overrides {
        Overrides {
            resources: self.resources,
            max_series: self.max_series,
            health: self.health.and_then(|switch| switch.0),
            log_level: self.log.level,
            ..self.permissions.overrides()
        }
    }
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
    #[arg(value_name = "KIND/NAME", value_parser = ResourceTuple::parse)]
    pub(super) objects: Vec<ResourceTuple>,
    /// Read objects from this file, YAML or JSON, several documents and Lists included; - is standard input.
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// Namespace of the live objects [default: the context's].
    #[arg(short, long, value_name = "NAME", env = "DRIFT_NAMESPACE", value_parser = namespace)]
    pub(super) namespace: Option<String>,
    /// How to hash [default: tfdrift-v1 for Deployments and Services, jcs-v1 for other kinds].
    #[arg(short, long, value_name = "NAME")]
    pub(super) algorithm: Option<Algorithm>,
    /// What annotations begin with that are not hashed; the same as the exporter's setting sources.annotation.prefix.
    #[arg(long, value_name = "HOST", default_value = "tfdrift.jin.dev", value_parser = label_prefix)]
    pub(super) prefix: String,
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
    pub(super) output: ManifestFormat,
    /// What the labels begin with; the same as the exporter's setting sources.annotation.prefix.
    #[arg(long, value_name = "HOST", default_value = "tfdrift.jin.dev", value_parser = label_prefix)]
    pub(super) prefix: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ManifestFormat {
    Yaml,
    Json,
}

#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    #[command(flatten)]
    pub(super) permissions: PermissionArgs,
    #[command(flatten)]
    pub(super) config: ConfigArgs,
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
    pub(super) object: ObjectArgs,
    /// For how long, such as 14d or 12h.
    #[arg(long = "for", value_name = "TIME", value_parser = period, allow_hyphen_values = true)]
    pub(super) period: SignedDuration,
    /// Who answers for it.
    #[arg(long, value_name = "NAME", value_parser = non_empty)]
    pub(super) owner: String,
    /// Why it is accepted.
    #[arg(long, value_name = "TEXT", value_parser = non_empty)]
    pub(super) reason: String,
    #[command(flatten)]
    pub(super) exporter: ExporterArgs,
}

#[derive(Debug, Subcommand)]
pub(super) enum RulesCommand {
    /// List the rules that hold with these settings, built-in ones first.
    List(ConfigArgs),
    /// Try the rules on cases and say which come out as wanted; made for CI.
    Test(RulesTestArgs),
}

#[derive(Debug, Args)]
pub(super) struct RulesTestArgs {
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    /// Files with cases, YAML.
    #[arg(value_name = "FILE", required = true)]
    pub(super) files: Vec<PathBuf>,
}

/// The words of closed sets as values of flags.
macro_rules! value_enum {
    ($($set:ty: $members:expr,)+) => {
        $(impl ValueEnum for $set {
            fn value_variants<'a>() -> &'a [Self] {
                $members
            }
            fn to_possible_value(&self) -> Option<PossibleValue> {
                Some(PossibleValue::new(self.as_str()))
            }
        })+
    };
}

value_enum! {
    ShownResources: Self::ALL,
    LogLevel: Self::ALL,
    Algorithm: Self::ALL,
    // Only the sources that can be enabled.
    Source: &[Self::Annotation, Self::Terraform, Self::Helm, Self::LastApplied, Self::Manifest, Self::StatusHash],
}

/// Why an argument cannot be used. clap names the argument.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ArgError {
    #[error("a namespace consists of lower-case letters, digits and `-`")]
    Namespace,
    #[error("leave the flag out to watch all namespaces")]
    AnyNamespace,
    #[error("use -A for all namespaces")]
    AllNamespaces,
    #[error(transparent)]
    Selector(#[from] SelectorError),
    #[error("expected a label selector, such as app=web")]
    LabelSelector,
    #[error("expected at most 63 lower-case letters, digits and `-`, without `-` at either end")]
    BaselineName,
    #[error("expected a DNS name, such as tfdrift.jin.dev")]
    LabelPrefix,
    #[error("expected true or false")]
    Switch,
    #[error("expected a text that is not empty")]
    Empty,
    #[error("expected at least one hour and at most ten years")]
    Period,
    #[error("expected a number from 0.1 to 100")]
    Speed,
    #[error("expected HOST:PORT or :PORT, with a host that resolves")]
    ListenAddress,
    #[error("expected KIND/NAME, such as deployment/web")]
    Object,
    #[error("expected KIND or KIND/NAME, such as deployments or deployment/web")]
    Resource,
    #[error("a name that ends in -part-NUMBER denotes a part of another baseline")]
    BaselinePart,
    #[error("invalid duration `{0}`; expected a number and a unit, such as 14d, 12h or 2w")]
    Duration(String),
    #[error("`{0}` names a kind, not an object; use KIND/NAME, such as deployment/web")]
    NotAnObject(String),
    #[error("unexpected argument `{name}`: {kind}/{first} already names an object")]
    SecondName { kind: String, first: String, name: String },
    #[error("invalid address: it contains credentials; use --basic-auth-file or --token-file")]
    AddressWithCredentials,
    #[error("invalid address `{0}`; expected a URL such as http://127.0.0.1:10374")]
    Address(String),
    #[error("{0} contains no token")]
    TokenFile(PathBuf),
    #[error("{0} does not contain USER:PASSWORD")]
    BasicAuthFile(PathBuf),
    /// The cause may quote a secret.
    #[error("cannot use these credentials")]
    Credentials,
}

/// Accepts an empty name, which templates render for an unset value.
fn namespace(text: &str) -> Result<String, ArgError> {
    let name = text.trim();
    if name == "*" {
        return Err(ArgError::AnyNamespace);
    }
    if !name.is_empty() && !is_namespace(name) {
        return Err(ArgError::Namespace);
    }
    Ok(name.to_owned())
}

/// Like `namespace`; `*` means all namespaces.
fn trusted_namespace(text: &str) -> Result<String, ArgError> {
    match text.trim() {
        TrustedNamespaces::ALL => Ok(TrustedNamespaces::ALL.to_owned()),
        name => namespace(name),
    }
}

/// Like `namespace`; `-` selects cluster-scoped objects.
fn namespace_or_none(text: &str) -> Result<String, ArgError> {
    match text {
        "-" => Ok(text.to_owned()),
        "*" => Err(ArgError::AllNamespaces),
        name => namespace(name),
    }
}

fn selector(text: &str) -> Result<Selector, ArgError> {
    let selector = Selector::parse(text)?;
    if selector.is_empty() { Err(ArgError::LabelSelector) } else { Ok(selector) }
}

/// A DNS label that cannot be confused with the Secret of a part of another baseline.
fn baseline_name(text: &str) -> Result<String, ArgError> {
    if !is_namespace(text) {
        return Err(ArgError::BaselineName);
    }
    if text.rsplit_once("-part-").is_some_and(|(_, number)| number.chars().all(|c| c.is_ascii_digit())) {
        return Err(ArgError::BaselinePart);
    }
    Ok(text.to_owned())
}

fn label_prefix(text: &str) -> Result<String, ArgError> {
    if is_label_prefix(text) { Ok(text.to_owned()) } else { Err(ArgError::LabelPrefix) }
}

/// Reads a boolean from the environment. An empty value, which templates render, is false.
fn switch(text: &str) -> Result<bool, ArgError> {
    match text.to_ascii_lowercase().as_str() {
        "" | "0" | "false" | "no" | "off" => Ok(false),
        "1" | "true" | "yes" | "on" => Ok(true),
        _ => Err(ArgError::Switch),
    }
}

/// A boolean that overrides the settings file unless it is empty.
#[derive(Clone, Copy, Debug)]
struct OptionalSwitch(Option<bool>);

impl OptionalSwitch {
    fn parse(text: &str) -> Result<Self, ArgError> {
        if text.is_empty() { Ok(Self(None)) } else { switch(text).map(|on| Self(Some(on))) }
    }
}

fn non_empty(text: &str) -> Result<String, ArgError> {
    let text = text.trim();
    if text.is_empty() { Err(ArgError::Empty) } else { Ok(text.to_owned()) }
}

/// `14d`, `12h`, `2w`.
fn period(text: &str) -> Result<SignedDuration, ArgError> {
    const MAX_HOURS: i64 = 24 * 366 * 10;
    let invalid = || ArgError::Duration(text.to_owned());
    let (digits, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(invalid)?;
    let number: i64 = digits.parse().map_err(|_| invalid())?;
    let hours = match unit {
        "h" => Some(number),
        "d" => number.checked_mul(24),
        "w" => number.checked_mul(24 * 7),
        _ => None,
    };
    match hours {
        Some(hours) if (1..=MAX_HOURS).contains(&hours) => Ok(SignedDuration::from_hours(hours)),
        Some(_) => Err(ArgError::Period),
        None => Err(invalid()),
    }
}

fn speed(text: &str) -> Result<f32, ArgError> {
    match text.parse::<f32>() {
        Ok(speed) if (0.1..=100.0).contains(&speed) => Ok(speed),
        Ok(_) | Err(_) => Err(ArgError::Speed),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListenAddress {
    /// Tried in order: a host without IPv6 cannot bind the first one of `:PORT`.
    pub(super) candidates: Vec<SocketAddr>,
}

impl ListenAddress {
    fn parse(text: &str) -> Result<Self, ArgError> {
        if let Some(port) = text.strip_prefix(':') {
            let port: u16 = port.parse().map_err(|_| ArgError::ListenAddress)?;
            return Ok(Self { candidates: vec![([0_u16; 8], port).into(), ([0_u8; 4], port).into()] });
        }
        let resolved: Vec<SocketAddr> =
            std::net::ToSocketAddrs::to_socket_addrs(text).map_err(|_| ArgError::ListenAddress)?.collect();
        Ok(Self { candidates: resolved })
    }
}

/// `KIND/NAME` or `KIND.GROUP/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResourceTuple {
    pub(super) kind: String,
    pub(super) name: String,
}

impl ResourceTuple {
    fn parse(text: &str) -> Result<Self, ArgError> {
        match text.split_once('/') {
            Some((kind, name)) if !kind.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self { kind: kind.to_owned(), name: name.to_owned() })
            }
            _ => Err(ArgError::Object),
        }
    }
}

impl fmt::Display for ResourceTuple {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.kind, self.name)
    }
}

/// A kind or one object: `KIND`, `KIND.GROUP` or `KIND/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResourceArg {
    pub(super) kind: String,
    pub(super) name: Option<String>,
}

impl ResourceArg {
    fn parse(text: &str) -> Result<Self, ArgError> {
        if text.contains('/') {
            return ResourceTuple::parse(text).map(Self::from);
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
        if text.is_empty() || !text.chars().all(allowed) {
            return Err(ArgError::Resource);
        }
        Ok(Self { kind: text.to_owned(), name: None })
    }

    /// Supports kubectl's form `KIND NAME`.
    fn with_name(&self, name: Option<&str>) -> Result<Self, ArgError> {
        match (&self.name, name) {
            (_, None) => Ok(self.clone()),
            (None, Some(name)) => ResourceTuple::parse(&format!("{}/{name}", self.kind)).map(Self::from),
            (Some(first), Some(name)) => {
                let (kind, first, name) = (self.kind.clone(), first.clone(), name.to_owned());
                Err(ArgError::SecondName { kind, first, name })
            }
        }
    }
}

impl From<ResourceTuple> for ResourceArg {
    fn from(ResourceTuple { kind, name }: ResourceTuple) -> Self {
        Self { kind, name: Some(name) }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::{Arguments, Command, ListenAddress, ResourceArg, period};
    use crate::config::{Overrides, load};

    fn overrides(flags: &[&str]) -> Overrides {
        match Arguments::try_parse_from([&["drift-exporter", "run"], flags].concat()).unwrap().command {
            Command::Run(run) => run.overrides(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn health_option_overrides_the_settings_file() {
        for (flags, in_file, expected) in [
            (&[][..], true, true),
            (&[], false, false),
            (&["--metrics.health"], false, true),
            (&["--metrics.health=true"], false, true),
            (&["--metrics.health=false"], true, false),
            (&["--metrics.health="], true, true),
        ] {
            let file = format!("metrics: {{health: {in_file}}}\n");
            let settings = load(&file, &overrides(flags), jiff::Timestamp::UNIX_EPOCH).unwrap().settings;
            assert_eq!(settings.health_series, expected, "{flags:?} {in_file}");
        }
    }

    #[test]
    fn namespaces_are_sorted_without_duplicates_and_empty_names() {
        let namespaces = |names| overrides(&["--namespaces", names]).namespaces;
        assert_eq!(namespaces("shop,ops,,shop"), Some(vec!["ops".into(), "shop".into()]));
        assert_eq!(namespaces(""), None);
    }

    #[test]
    fn command_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn environment_variables_of_run_are_named_after_their_options() {
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
    fn resource_argument_is_a_kind_or_an_object() {
        for (text, kind, name) in [
            ("deploy", "deploy", None),
            ("widgets.example.com", "widgets.example.com", None),
            ("svc/web", "svc", Some("web")),
        ] {
            let expected = ResourceArg { kind: kind.to_owned(), name: name.map(str::to_owned) };
            assert_eq!(ResourceArg::parse(text), Ok(expected));
        }
        for invalid in ["", "/", "deploy/", "/web", "a/b/c", "deploy web", "deploy,svc", "Dep\u{1b}"] {
            assert!(ResourceArg::parse(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn port_without_host_listens_on_all_addresses() {
        let address = ListenAddress::parse(":10374").unwrap();
        assert_eq!(address.candidates[0].to_string(), "[::]:10374");
        assert_eq!(ListenAddress::parse("127.0.0.1:0").unwrap().candidates[0].to_string(), "127.0.0.1:0");
        assert!(ListenAddress::parse(":http").is_err());
        assert!(ListenAddress::parse("nonsense").is_err());
    }

    #[test]
    fn period_is_a_number_and_a_unit() {
        assert_eq!(period("2w"), period("14d"));
        assert_eq!(period("1d"), period("24h"));
        for invalid in ["", "d", "14", "-1d", "0h", "1y", "9999w", "14 d", "1.5d", "14ü"] {
            assert!(period(invalid).is_err(), "{invalid}");
        }
    }
}
