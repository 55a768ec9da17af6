//! How the settings file is written. The comments on fields become the descriptions in its JSON Schema.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::limits::Limits;
use crate::{
    rules::{ActorSpec, RuleSpec, SeveritySpec},
    types::closed_set,
};

/// What namespaces may be called.
const NAMESPACE: &str = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$";
/// The pattern of a namespace, or `*`.
const TRUSTED_NAMESPACE: &str = "^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?|\\*)$";

/// The settings of drift-exporter. Flags and environment variables take precedence over them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SettingsFile {
    /// The kinds to watch. Without it: Deployments and Services with the opt-in label for `annotation`, and commonly applied
    /// kinds for `last_applied`.
    pub kinds: Vec<KindEntry>,
    /// The only namespaces to watch; if empty, all namespaces.
    #[schemars(inner(regex(pattern = NAMESPACE)))]
    pub namespaces: Vec<String>,
    /// Namespaces not to watch, even if other settings name them.
    #[schemars(inner(regex(pattern = NAMESPACE)))]
    pub excluded_namespaces: Vec<String>,
    /// The sources of baselines. Each key that is present enables its source. Without it: `annotation`.
    pub sources: Option<SourcesEntry>,
    /// Jobs that run Terraform. Without it: those of opr8r, if the source `status_hash` reads its custom resource.
    pub terraform_jobs: Option<TerraformJobsEntry>,
    /// The rules for differences. They come after the built-in rules; a rule with the name of a built-in rule replaces it.
    pub rules: Vec<RuleSpec>,
    /// Lets the owners of namespaces write rules of their own.
    pub team_rules: Option<TeamRulesEntry>,
    /// Whether the annotation `<prefix>/ignore` of an object may list paths whose differences are ignored, separated by commas. A
    /// user who edits the object can then mute their own edit, but no critical drift. Without it: false.
    pub mute_by_annotation: bool,
    /// The classes of field managers. These entries take precedence over the built-in table.
    pub actors: Vec<ActorSpec>,
    /// The severity of differences in some classes of fields.
    pub severities: Vec<SeveritySpec>,
    /// Limits on what inputs of tenants may cost.
    pub limits: Limits,
    /// What `/metrics` shows.
    pub metrics: MetricsEntry,
    /// What the API and the page show.
    pub api: ApiEntry,
    /// What is logged.
    pub log: LogEntry,
}

/// A kind, or all kinds of a group, to watch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KindEntry {
    /// `apps/v1`, `v1`; `example.com/*` for whichever version the cluster prefers.
    #[serde(rename = "apiVersion")]
    pub api_version: String,
    /// `Deployment`; `*` for every kind of the group that can be watched.
    pub kind: String,
    /// The only namespaces to watch it in; if empty, all that may be watched.
    #[schemars(inner(regex(pattern = NAMESPACE)))]
    #[serde(default)]
    pub namespaces: Vec<String>,
    /// Namespaces not to watch it in.
    #[schemars(inner(regex(pattern = NAMESPACE)))]
    #[serde(default)]
    pub excluded_namespaces: Vec<String>,
    /// A label selector, as kubectl takes it: `tfdrift.jin.dev/enabled=true`.
    pub selector: Option<String>,
}

/// The enabled sources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("minProperties" = 1))]
pub struct SourcesEntry {
    /// A hash in an annotation of the object itself.
    pub annotation: Option<AnnotationEntry>,
    /// Terraform and OpenTofu states, and baselines that were published from them.
    pub terraform: Option<TerraformEntry>,
    /// The deployed releases of Helm 3, in Secrets or ConfigMaps.
    pub helm: Option<HelmEntry>,
    /// What kubectl recorded on objects when it applied them; never on Secrets.
    pub last_applied: Option<LastAppliedEntry>,
    /// Directories of YAML, for example from git-sync, a volume or kustomize.
    pub manifest: Option<ManifestEntry>,
    /// What the controllers of custom resources record in their status. An empty list means opr8r's `SimpleResource`.
    pub status_hash: Option<Vec<StatusHashEntry>>,
}

/// The source `terraform`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TerraformEntry {
    /// The only namespaces from which states and published baselines are read; if empty, all namespaces.
    #[schemars(inner(regex(pattern = NAMESPACE)))]
    pub namespaces: Vec<String>,
    /// Namespaces whose states and published baselines may declare objects in other namespaces and cluster-scoped objects; `*` for
    /// all namespaces. List only namespaces in which no tenant may write Secrets or Leases.
    #[schemars(inner(regex(pattern = TRUSTED_NAMESPACE)))]
    pub trusted_namespaces: Vec<String>,
    /// State files, and directories of `*.tfstate` files.
    pub files: Vec<String>,
    /// How long the lock of an apply may be held until differences count again, such as `30m` or `1h`. Without it: `30m`.
    pub lock_max_age: Option<String>,
    /// Whether all states declare objects of this cluster. Without it, the exporter compares uids, and ignores a state if none of
    /// its objects is in this cluster.
    pub this_cluster: bool,
}

/// The source `helm`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HelmEntry {
    /// The only namespaces from which releases are read; if empty, all namespaces.
    #[schemars(inner(regex(pattern = NAMESPACE)))]
    pub namespaces: Vec<String>,
    /// Namespaces whose releases may declare objects in other namespaces and cluster-scoped objects, even without the annotations of
    /// the release; `*` for all namespaces. List only namespaces in which no tenant may write Secrets or ConfigMaps.
    #[schemars(inner(regex(pattern = TRUSTED_NAMESPACE)))]
    pub trusted_namespaces: Vec<String>,
    /// How long an install, upgrade or rollback may be under way until differences count again, such as `30m` or `1h`. Without
    /// it: `30m`.
    pub pending_max_age: Option<String>,
}

/// The source `last_applied`, which has no settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LastAppliedEntry {}

/// The source `manifest`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ManifestEntry {
    /// Files, and directories of `*.yaml`, `*.yml` and `*.json`, including subdirectories.
    pub paths: Vec<String>,
    /// The namespace of objects that do not set one. Without it: `default`.
    pub namespace: Option<String>,
}

/// One kind of the source `status_hash`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StatusHashEntry {
    /// `infra.opr8r/v1alpha1`. Hashes are compared in this version only.
    #[serde(rename = "apiVersion")]
    pub api_version: String,
    /// `SimpleResource`.
    pub kind: String,
    /// The algorithm of the recorded hash: `opr8r-v1`, `sha256-jcs`, `jcs-v1`, `tfdrift-v1`, or `generation` for the newest
    /// generation that the controller has observed.
    pub algorithm: String,
    /// The path of the recorded hash or generation, as `JSONPath`. Without it: `.status.lastAppliedHash` for `opr8r-v1`,
    /// `.status.observedGeneration` for `generation`.
    pub recorded: Option<String>,
    /// What `sha256-jcs` hashes. Without it: `.spec`.
    pub hashed: Option<String>,
    /// The path of the controller's phase. Without it: `.status.phase`.
    pub phase: Option<String>,
    /// The path of the controller's message. Without it: `.status.message`.
    pub message: Option<String>,
    /// A map whose keys are the names of outputs; their values are never shown. Without it: `.status.outputs`.
    pub outputs: Option<String>,
    /// Phases in which the controller is in progress. Without it: Pending, Applying and Destroying.
    pub in_flight_phases: Option<Vec<String>>,
    /// Phases in which the controller has failed. Without it: Error.
    pub error_phases: Option<Vec<String>>,
    /// How long the controller may be in progress or lag behind until the difference counts, such as `5m` or `1h`. Without it:
    /// `5m`.
    pub grace: Option<String>,
    /// The only namespaces to watch it in; if empty, all that may be watched.
    #[schemars(inner(regex(pattern = NAMESPACE)))]
    #[serde(default)]
    pub namespaces: Vec<String>,
    /// A label selector, as kubectl takes it.
    pub selector: Option<String>,
}

/// Jobs that run Terraform.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TerraformJobsEntry {
    /// The label whose value names what a Job runs for. Without it: `infra.opr8r/simpleresource`.
    pub label: Option<String>,
    /// A label selector of the Jobs, as kubectl takes it. Without it: those that have the label.
    pub selector: Option<String>,
    /// The only namespaces to watch them in; if empty, all that may be watched.
    #[schemars(inner(regex(pattern = NAMESPACE)))]
    pub namespaces: Vec<String>,
}

/// The source `annotation`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AnnotationEntry {
    /// The prefix of the label `<prefix>/enabled` and the annotation `<prefix>/spec-hash`. Without it: `tfdrift.jin.dev`.
    pub prefix: Option<String>,
}

/// The namespaces whose rules are read from ConfigMaps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TeamRulesEntry {
    /// Namespaces whose owners may write rules; if empty, all watched namespaces. Their rules apply to their own namespace only,
    /// and never hide critical drift.
    #[schemars(inner(regex(pattern = NAMESPACE)))]
    pub namespaces: Vec<String>,
    /// The label selector of the ConfigMaps that hold rules. Without it: the annotation prefix and `/rules=true`.
    pub selector: Option<String>,
}

/// What `/metrics` shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsEntry {
    /// Objects that have series of their own: all tracked objects (`tracked`, the default), or only drifted ones.
    pub resources: Option<ShownResources>,
    /// The maximum number of series about single objects. Critical drift comes first, then other drift, and namespaces share the
    /// limit equally. Without it: 200000.
    #[schemars(range(min = 1))]
    pub max_series: Option<usize>,
    /// Labels of objects to add to their series, for routing: `team`. Characters that are invalid in a label name become `_`.
    /// Each new value starts a new series: use only labels with few values.
    pub labels: Vec<String>,
    /// Whether `drift_resource_health` is exposed.
    pub health: Option<bool>,
}

closed_set! {
    /// Which objects have series of their own.
    #[derive(JsonSchema)]
    ShownResources {
        /// All tracked objects.
        Tracked = "tracked",
        /// Only drifted objects.
        Drifted = "drifted",
    }
}

/// What the API and the page show.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApiEntry {
    /// How values of fields that differ are shown. `digest` (the default) shows keyed digests for fields that may hold secrets,
    /// such as environment variables; `full` shows all values. Values of Secrets, and values that Terraform marks as sensitive,
    /// are never shown.
    pub values: Option<ShownValues>,
    /// Prices for `estimatedMonthlyCost` and `driftMonthlyCost`. Without it these are null.
    pub prices: Option<Prices>,
    /// The URL of Grafana, such as `https://grafana.example.com`. The page of an object links to its dashboard there.
    pub grafana_url: Option<String>,
}

/// Prices of resources. A resource without a price costs nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PricesEntry")]
pub struct Prices {
    /// The currency of the prices, such as `EUR`.
    pub currency: String,
    /// One CPU core for an hour.
    pub cpu_core_hour: Option<f64>,
    /// One GiB of memory for an hour.
    pub memory_gib_hour: Option<f64>,
    /// One GiB of storage for a month.
    pub storage_gib_month: Option<f64>,
    /// One load balancer for an hour.
    pub load_balancer_hour: Option<f64>,
}

closed_set! {
    /// Which values of fields are shown.
    #[derive(JsonSchema)]
    ShownValues {
        /// Values of fields that cannot hold secrets; the others as digests.
        Digest = "digest",
        /// All values, except those that are always redacted.
        Full = "full",
    }
}

/// What is logged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LogEntry {
    /// The least severe messages that are logged.
    pub level: Option<LogLevel>,
}

closed_set! {
    /// The least severe messages that are logged.
    #[derive(Default, JsonSchema)]
    LogLevel {
        /// Failures that need an administrator.
        Error = "error",
        /// Failures that are retried.
        Warn = "warn",
        /// Information for operators.
        #[default]
        Info = "info",
        /// Information for developers.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}
