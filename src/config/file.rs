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

/// The settings of drift-exporter. Flags and environment variables stand above them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SettingsFile {
    /// What to watch. Without it: Deployments and Services with the opt-in label for `annotation`, and what people usually apply for
    /// `last_applied`.
    pub kinds: Vec<KindEntry>,
    /// The only namespaces to watch; none for all of them.
    #[schemars(inner(regex(pattern = NAMESPACE)))]
    pub namespaces: Vec<String>,
    /// Namespaces not to watch, whatever else is said.
    #[schemars(inner(regex(pattern = NAMESPACE)))]
    pub excluded_namespaces: Vec<String>,
    /// Where baselines are read from; a key that is there switches its source on. Without it: `annotation`.
    pub sources: Option<SourcesEntry>,
    /// Jobs that run Terraform. Without it: those of opr8r, where the source `status_hash` asks for its custom resource.
    pub terraform_jobs: Option<TerraformJobsEntry>,
    /// What to think of differences. They come after the built-in rules; one of the same name takes the place of a built-in.
    pub rules: Vec<RuleSpec>,
    /// Lets the owners of namespaces write rules of their own.
    pub team_rules: Option<TeamRulesEntry>,
    /// Whether the annotation `<prefix>/ignore` of an object may name paths whose differences are ignored, with commas between
    /// them. Whoever edits the object can then mute his own edit, but nothing that is critical. Without it: no.
    pub mute_by_annotation: bool,
    /// Which field managers are which class of tool, before the built-in table.
    pub actors: Vec<ActorSpec>,
    /// How bad differences in some classes of fields are.
    pub severities: Vec<SeveritySpec>,
    /// Limits on what inputs of tenants may cost.
    pub limits: Limits,
    /// What `/metrics` shows.
    pub metrics: MetricsEntry,
    /// What API and page show.
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
    /// The only namespaces to watch it in; none for all that may be watched.
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

/// The sources that are switched on.
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
    /// What kubectl wrote down on objects when it applied them; never on Secrets.
    pub last_applied: Option<LastAppliedEntry>,
    /// Directories of YAML: what git-sync brings, what a volume mounts, what kustomize wrote.
    pub manifest: Option<ManifestEntry>,
    /// What the controllers of custom resources record in their status. An empty list means opr8r's `SimpleResource`.
    pub status_hash: Option<Vec<StatusHashEntry>>,
}

/// The source `terraform`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TerraformEntry {
    /// The only namespaces in which states and published baselines are looked for; none for all of them.
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
    /// Whether all states declare objects of this cluster. Without it that is found out by the uids in a state, and a state
    /// none of whose objects is here is not compared.
    pub this_cluster: bool,
}

/// The source `helm`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HelmEntry {
    /// The only namespaces in which releases are looked for; none for all of them.
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
    /// Files, and directories of `*.yaml`, `*.yml` and `*.json`, with all that is below them.
    pub paths: Vec<String>,
    /// The namespace of objects that do not say theirs. Without it: `default`.
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
    /// How what is recorded was made: `opr8r-v1`, `sha256-jcs`, `jcs-v1`, `tfdrift-v1`, or `generation` for the newest generation that
    /// the controller has seen.
    pub algorithm: String,
    /// Where it is recorded, as `JSONPath`: `.status.lastAppliedHash`. Without it: there for `opr8r-v1`, `.status.observedGeneration` for
    /// `generation`.
    pub recorded: Option<String>,
    /// What `sha256-jcs` hashes. Without it: `.spec`.
    pub hashed: Option<String>,
    /// Where the controller says what it is doing. Without it: `.status.phase`.
    pub phase: Option<String>,
    /// Where it says more about that. Without it: `.status.message`.
    pub message: Option<String>,
    /// A map whose keys are the names of outputs; their values are never shown. Without it: `.status.outputs`.
    pub outputs: Option<String>,
    /// Phases in which it is at work. Without it: Pending, Applying and Destroying.
    pub in_flight_phases: Option<Vec<String>>,
    /// Phases that say that it failed. Without it: Error.
    pub error_phases: Option<Vec<String>>,
    /// How long it may be at work, or behind, until that counts, such as `5m` or `1h`. Without it: `5m`.
    pub grace: Option<String>,
    /// The only namespaces to watch it in; none for all that may be watched.
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
    /// The only namespaces to watch them in; none for all that may be watched.
    #[schemars(inner(regex(pattern = NAMESPACE)))]
    pub namespaces: Vec<String>,
}

/// The source `annotation`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AnnotationEntry {
    /// What stands before `/enabled` and `/spec-hash` in the names of label and annotation. Without it: `tfdrift.jin.dev`.
    pub prefix: Option<String>,
}

/// Whose rules are read beside these, from ConfigMaps in their own namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TeamRulesEntry {
    /// Namespaces whose owners may write rules; none for all that are watched. Their rules hold in their own namespace
    /// only, and never hide what is critical.
    #[schemars(inner(regex(pattern = NAMESPACE)))]
    pub namespaces: Vec<String>,
    /// The label selector of the ConfigMaps that hold rules. Without it: the annotation prefix and `/rules=true`.
    pub selector: Option<String>,
}

/// What `/metrics` shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsEntry {
    /// Objects that have series of their own: all that take part (`tracked`, the usual), or only those that drift.
    pub resources: Option<ShownResources>,
    /// Most series of single objects; critical drift comes first, then other drift, and namespaces share the limit equally. Without
    /// it: 200000.
    #[schemars(range(min = 1))]
    pub max_series: Option<usize>,
    /// Labels of objects that their series have too, for routing: `team`. Characters that a series' label cannot have become `_`.
    /// Each value is one more series for every object that has another one: keep to labels with few values.
    pub labels: Vec<String>,
    /// Whether `drift_resource_health` is exposed.
    pub health: Option<bool>,
}

closed_set! {
    /// Which objects have series of their own.
    #[derive(JsonSchema)]
    ShownResources {
        /// All that take part.
        Tracked = "tracked",
        /// Only those that drift.
        Drifted = "drifted",
    }
}

/// What API and page show.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApiEntry {
    /// The values of fields that differ: `digest` (the usual) shows those of fields that may hold secrets, such as environment
    /// variables, only as keyed digests; `full` shows them all. What Secrets hold, and what Terraform calls sensitive, is never
    /// shown.
    pub values: Option<ShownValues>,
    /// What things cost, for `estimatedMonthlyCost` and `driftMonthlyCost`. Without it these are null.
    pub prices: Option<Prices>,
    /// Where Grafana is, such as `https://grafana.example.com`: the page of an object links to its dashboard there.
    pub grafana_url: Option<String>,
}

/// What things cost. What has no price counts nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PricesEntry")]
pub struct Prices {
    /// What the prices are in: `EUR`.
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
        /// Those of fields that cannot hold secrets; the others as digests.
        Digest = "digest",
        /// All that may be told.
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
        /// What went wrong and will not heal by itself.
        Error = "error",
        /// What went wrong and is tried again.
        Warn = "warn",
        /// What an operator wants to know.
        #[default]
        Info = "info",
        /// What a developer wants to know.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}
