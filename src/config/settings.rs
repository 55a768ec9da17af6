//! The settings of a running exporter.

use std::{path::PathBuf, sync::Arc};

use jiff::{SignedDuration, Timestamp};

use super::{
    Problem, ShownValues,
    file::{LogLevel, PricesEntry, ShownResources},
    load::wrong,
};
use crate::{
    rules::{RuleInput, RuleSet},
    types::{Algorithm, JobSpec, Kind, RecordAlgorithm, RecordSpec, Scope, Selector, Source, WantedKind},
};

/// The settings of a running exporter.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Namespaces to watch; empty for all of them.
    pub namespaces: Vec<Box<str>>,
    /// Namespaces not to watch, whatever else is said.
    pub excluded_namespaces: Vec<Box<str>>,
    /// What to watch; empty for Deployments and Services with the opt-in label, if hashes in annotations count.
    pub kinds: Vec<WantedKind>,
    /// The sources that are switched on.
    pub sources: Vec<Source>,
    /// The prefix of the opt-in label and of the hash annotation.
    pub annotation_prefix: Box<str>,
    /// Where Terraform states are, if that source is switched on.
    pub terraform: TerraformFrom,
    /// Where Helm releases are, if that source is switched on.
    pub helm: HelmFrom,
    /// Where manifests are, if that source is switched on.
    pub manifest: ManifestFrom,
    /// Kinds whose controllers record what they have applied, if that source is switched on.
    pub records: Vec<RecordSpec>,
    /// Jobs that run Terraform; none for those of the operators above.
    pub jobs: Option<JobSpec>,
    /// What to think of differences, without what teams say.
    pub rules: Arc<RuleSet>,
    /// What those rules were made from.
    pub rule_input: Arc<RuleInput>,
    /// Whose rules are read beside these.
    pub team_rules: Option<TeamRulesFrom>,
    /// Whether objects may ask for differences of theirs to be ignored.
    pub mute_by_annotation: bool,
    /// At most this many series of single claims are exposed.
    pub max_series: usize,
    /// Whether only objects that drift have series of their own.
    pub only_drifted: bool,
    /// Labels of objects that their series have too.
    pub shown_labels: Arc<[ShownLabel]>,
    /// Whether `drift_resource_health` is exposed.
    pub health_series: bool,
    /// Which values of fields API and page show.
    pub shown_values: ShownValues,
    /// What things cost, where somebody says so.
    pub prices: Option<Prices>,
    /// Where Grafana is, without a slash at its end.
    pub grafana_url: Option<Box<str>>,
    /// The least severe messages that are logged.
    pub log_level: LogLevel,
}

/// Where Terraform states are read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerraformFrom {
    /// Namespaces that have states or published baselines.
    pub scope: Scope,
    /// State files, and directories of them.
    pub files: Vec<PathBuf>,
    /// How long a lock may be held until differences count again.
    pub lock_max_age: SignedDuration,
    /// Whether all states declare objects of this cluster.
    pub this_cluster: bool,
}

impl Default for TerraformFrom {
    fn default() -> Self {
        Self {
            scope: Scope::default(),
            files: Vec::new(),
            lock_max_age: SignedDuration::from_mins(30),
            this_cluster: false,
        }
    }
}

/// Where Helm releases are read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelmFrom {
    /// Namespaces that have releases.
    pub scope: Scope,
    /// How long an install, upgrade or rollback may be under way until differences count again.
    pub pending_max_age: SignedDuration,
}

impl Default for HelmFrom {
    fn default() -> Self {
        Self { scope: Scope::default(), pending_max_age: SignedDuration::from_mins(30) }
    }
}

/// Where manifests are read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestFrom {
    /// Files and directories.
    pub paths: Vec<PathBuf>,
    /// The namespace of objects that do not say theirs.
    pub namespace: Box<str>,
}

impl Default for ManifestFrom {
    fn default() -> Self {
        Self { paths: Vec::new(), namespace: "default".into() }
    }
}

/// Where rules of teams are read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TeamRulesFrom {
    /// Namespaces whose owners may write rules.
    pub scope: Scope,
    /// The ConfigMaps that hold them.
    pub selector: Selector,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespaces: Vec::new(),
            excluded_namespaces: Vec::new(),
            kinds: Vec::new(),
            sources: vec![Source::Annotation],
            annotation_prefix: "tfdrift.jin.dev".into(),
            terraform: TerraformFrom::default(),
            helm: HelmFrom::default(),
            manifest: ManifestFrom::default(),
            records: vec![RecordSpec::simple_resource()],
            jobs: None,
            rules: Arc::new(RuleSet::built_in()),
            rule_input: Arc::default(),
            team_rules: None,
            mute_by_annotation: false,
            max_series: 200_000,
            only_drifted: false,
            shown_labels: Arc::default(),
            health_series: false,
            shown_values: ShownValues::Digest,
            prices: None,
            grafana_url: None,
            log_level: LogLevel::Info,
        }
    }
}

/// What people apply, by version and kind, and whether it is in a namespace. Secrets are never asked what was applied to them.
const APPLIED: &[(&str, &str, bool)] = &[
    ("v1", "ConfigMap", true),
    ("v1", "LimitRange", true),
    ("v1", "Namespace", false),
    ("v1", "PersistentVolumeClaim", true),
    ("v1", "ResourceQuota", true),
    ("v1", "Service", true),
    ("v1", "ServiceAccount", true),
    ("apps/v1", "DaemonSet", true),
    ("apps/v1", "Deployment", true),
    ("apps/v1", "StatefulSet", true),
    ("autoscaling/v2", "HorizontalPodAutoscaler", true),
    ("batch/v1", "CronJob", true),
    ("batch/v1", "Job", true),
    ("networking.k8s.io/v1", "Ingress", true),
    ("networking.k8s.io/v1", "NetworkPolicy", true),
    ("policy/v1", "PodDisruptionBudget", true),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", false),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", false),
    ("rbac.authorization.k8s.io/v1", "Role", true),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", true),
];

impl Settings {
    /// What to watch, within the namespaces that may be watched at all.
    pub fn wanted_kinds(&self) -> Vec<WantedKind> {
        let allowed = self.scope();
        let mut wanted = self.kinds.clone();
        if wanted.is_empty() && self.sources.contains(&Source::Annotation) {
            wanted.extend(self.usual_kinds());
        }
        if self.kinds.is_empty() && self.sources.contains(&Source::LastApplied) {
            // Who names namespaces has rights in those, and did not ask for anything else.
            let asked = APPLIED.iter().filter(|(.., namespaced)| *namespaced || self.namespaces.is_empty());
            wanted.extend(asked.filter_map(|(version, kind, _)| WantedKind::parse(version, kind).ok()));
        }
        wanted.extend(self.records_in_use().iter().map(|spec| spec.objects.clone()));
        wanted.extend(self.jobs_in_use().map(|spec| spec.objects));
        for kind in &mut wanted {
            kind.scope = kind.scope.within(&allowed);
        }
        wanted
    }

    /// Kinds whose controllers record what they have applied.
    pub fn records_in_use(&self) -> &[RecordSpec] {
        if self.sources.contains(&Source::StatusHash) { &self.records } else { &[] }
    }

    /// Jobs that run Terraform: those that settings name, else those of opr8r where it is asked for.
    pub fn jobs_in_use(&self) -> Option<JobSpec> {
        let is_opr8r = |spec: &RecordSpec| spec.algorithm == RecordAlgorithm::Hash(Algorithm::Opr8rV1);
        let usual = || self.records_in_use().iter().any(is_opr8r).then(JobSpec::default);
        self.jobs.clone().or_else(usual)
    }

    /// Whether a caller may ask for this namespace.
    pub fn allows_namespace(&self, namespace: &str) -> bool {
        self.scope().has(namespace)
    }

    /// The namespaces that may be watched at all.
    pub fn scope(&self) -> Scope {
        Scope::new(&self.namespaces, &self.excluded_namespaces)
    }

    fn usual_kinds(&self) -> Vec<WantedKind> {
        let opted_in = Selector::has(&format!("{}/enabled", self.annotation_prefix), "true");
        let usual = [Kind::deployment(), Kind::service()];
        usual
            .iter()
            .map(|kind| WantedKind { selector: Some(opted_in.clone()), ..WantedKind::exactly(kind) })
            .collect()
    }
}

/// Settings that are not to be taken from the file. What is none here is.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Namespaces to watch.
    pub namespaces: Option<Vec<Box<str>>>,
    /// The sources that are switched on.
    pub sources: Option<Vec<Source>>,
    /// Objects that have series of their own.
    pub resources: Option<ShownResources>,
    /// Most series of single objects.
    pub max_series: Option<usize>,
    /// Whether `drift_resource_health` is exposed.
    pub health: Option<bool>,
    /// The least severe messages that are logged.
    pub log_level: Option<LogLevel>,
}

/// A label of objects, and how the series call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownLabel {
    /// The label's name on the object.
    pub key: Box<str>,
    /// The label's name on the series.
    pub name: Box<str>,
}

/// Names that the series have themselves, or that Prometheus gives them.
const TAKEN: [&str; 14] = [
    "group",
    "kind",
    "namespace",
    "name",
    "source",
    "severity",
    "expectation",
    "actor",
    "field",
    "address",
    "state",
    "health",
    "job",
    "instance",
];

impl ShownLabel {
    /// Reads the name of a label, `team` or `example.com/team`. The error says what is wrong.
    pub(super) fn parse(key: &str) -> Result<Self, String> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
        if key.is_empty() || key.len() > 317 || !key.chars().all(allowed) {
            return Err(format!("`{key}` is no name of a label"));
        }
        let name: String = key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        if name.starts_with("__") || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(format!("`{key}` would be called `{name}`, which no label of a series can be"));
        }
        if TAKEN.contains(&name.as_str()) {
            return Err(format!(
                "`{key}` would be called `{name}`, and that is what another label of the series is called"
            ));
        }
        Ok(Self { key: key.into(), name: name.into() })
    }
}

/// What things cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prices {
    /// What the prices are in.
    pub currency: Box<str>,
    /// One CPU core for an hour.
    pub cpu_core_hour: f64,
    /// One GiB of memory for an hour.
    pub memory_gib_hour: f64,
    /// One GiB of storage for a month.
    pub storage_gib_month: f64,
    /// One load balancer for an hour.
    pub load_balancer_hour: f64,
}

/// Checks a sheet of prices. What has none counts nothing.
pub(super) fn prices(entry: &PricesEntry, problems: &mut Vec<Problem>) -> Prices {
    let currency = entry.currency.as_str();
    if !(1..=8).contains(&currency.len()) || !currency.chars().all(|c| c.is_ascii_alphabetic()) {
        let message = format!("`{currency}` is no currency; want letters such as EUR");
        problems.push(wrong("api.prices.currency", message));
    }
    let given =
        [entry.cpu_core_hour, entry.memory_gib_hour, entry.storage_gib_month, entry.load_balancer_hour];
    if given.iter().all(Option::is_none) {
        let message = "there is no price; want at least one, such as cpu_core_hour".to_owned();
        problems.push(wrong("api.prices", message));
    }
    let mut price = |key: &str, given: Option<f64>| {
        if let Some(price) = given.filter(|price| !price.is_finite() || *price < 0.0) {
            let message = format!("`{price}` is no price; want a number that is not negative");
            problems.push(wrong(&format!("api.prices.{key}"), message));
        }
        given.unwrap_or(0.0)
    };
    Prices {
        currency: currency.into(),
        cpu_core_hour: price("cpu_core_hour", entry.cpu_core_hour),
        memory_gib_hour: price("memory_gib_hour", entry.memory_gib_hour),
        storage_gib_month: price("storage_gib_month", entry.storage_gib_month),
        load_balancer_hour: price("load_balancer_hour", entry.load_balancer_hour),
    }
}

/// What is known about the settings in use.
#[derive(Clone, Debug)]
pub struct ReloadStatus {
    /// The file they come from; none where there is none.
    pub file: Option<PathBuf>,
    /// When settings were last taken over.
    pub last_success: Timestamp,
    /// What is wrong with the file as it is now: while there is anything, the last good settings are in use.
    pub problems: Vec<Problem>,
    /// What looks wrong in the settings in use.
    pub warnings: Vec<Problem>,
}

impl ReloadStatus {
    /// Whether the file as it is now is what is in use.
    pub fn is_successful(&self) -> bool {
        self.problems.is_empty()
    }
}
