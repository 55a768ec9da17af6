//! The settings of a running exporter.

use std::{path::PathBuf, sync::Arc};

use jiff::{SignedDuration, Timestamp};

use super::{
    ConfigProblem, Prices, ShownValues,
    file::{LogLevel, ShownResources},
    limits::Limits,
};
use crate::{
    rules::{RuleConfig, RuleSet},
    types::{
        Algorithm, Kind, Scope, Selector, Source, StatusHashAlgorithm, StatusHashSpec, TerraformJobSpec,
        TrustedNamespaces, WantedKind, WatchConfig, is_label_name,
    },
};

/// The default of [`Settings::annotation_prefix`].
const DEFAULT_PREFIX: &str = "tfdrift.jin.dev";

#[derive(Clone, Debug)]
pub struct Settings {
    /// Namespaces to watch; empty for all.
    pub namespaces: Vec<Box<str>>,
    pub excluded_namespaces: Vec<Box<str>>,
    /// Kinds to watch; empty for the defaults of the enabled sources.
    pub kinds: Vec<WantedKind>,
    pub sources: Vec<Source>,
    /// The prefix of the opt-in label and of the hash annotation.
    pub annotation_prefix: Box<str>,
    pub terraform: StateLocations,
    pub helm: ReleaseLocations,
    pub manifest: ManifestLocations,
    pub status_hashes: Vec<StatusHashSpec>,
    /// None for the Jobs of opr8r, if `status_hash` reads its custom resource.
    pub terraform_jobs: Option<TerraformJobSpec>,
    /// The compiled rules, without the rules of teams.
    pub rules: Arc<RuleSet>,
    /// The input of `rules`, to compile it again with the rules of teams.
    pub rule_config: Arc<RuleConfig>,
    pub team_rules: Option<TeamRulesSettings>,
    /// Whether the annotation `<prefix>/ignore` of an object mutes its differences.
    pub mute_by_annotation: bool,
    /// The limit of series about single claims.
    pub max_series: usize,
    pub limits: Limits,
    /// Whether only drifted objects have series of their own.
    pub only_drifted: bool,
    pub shown_labels: Arc<[ShownLabel]>,
    /// Whether `drift_resource_health` is exposed.
    pub health_series: bool,
    /// Which values of fields the API and the UI show.
    pub shown_values: ShownValues,
    pub prices: Option<Prices>,
    /// Without a trailing slash.
    pub grafana_url: Option<Box<str>>,
    pub log_level: LogLevel,
}

/// The source `terraform`: where to find states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateLocations {
    /// The namespaces of state Secrets, their locks and published baselines.
    pub scope: Scope,
    /// State files, and directories with state files.
    pub files: Vec<PathBuf>,
    /// After this time a lock no longer explains differences.
    pub lock_max_age: SignedDuration,
    /// Whether all states belong to this cluster, so that no uid has to match.
    pub this_cluster: bool,
    /// Namespaces whose states and published baselines have authority over all objects.
    pub trusted_namespaces: TrustedNamespaces,
}

impl Default for StateLocations {
    fn default() -> Self {
        Self {
            scope: Scope::default(),
            files: Vec::new(),
            lock_max_age: SignedDuration::from_mins(30),
            this_cluster: false,
            trusted_namespaces: TrustedNamespaces::default(),
        }
    }
}

/// The source `helm`: where to find releases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseLocations {
    pub scope: Scope,
    /// After this time a pending install, upgrade or rollback no longer explains differences.
    pub pending_max_age: SignedDuration,
    /// Namespaces whose releases have authority over all objects.
    pub trusted_namespaces: TrustedNamespaces,
}

impl Default for ReleaseLocations {
    fn default() -> Self {
        Self {
            scope: Scope::default(),
            pending_max_age: SignedDuration::from_mins(30),
            trusted_namespaces: TrustedNamespaces::default(),
        }
    }
}

/// The source `manifest`: where to find manifests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestLocations {
    /// Files and directories. Each is a baseline.
    pub paths: Vec<PathBuf>,
    /// The namespace of objects that do not set one.
    pub namespace: Box<str>,
}

impl Default for ManifestLocations {
    fn default() -> Self {
        Self { paths: Vec::new(), namespace: "default".into() }
    }
}

/// Rules of teams, from ConfigMaps in their namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TeamRulesSettings {
    /// Namespaces whose ConfigMaps are read.
    pub scope: Scope,
    pub selector: Selector,
}

/// Values of flags and environment variables, which override the settings file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    pub namespaces: Option<Vec<Box<str>>>,
    pub sources: Option<Vec<Source>>,
    /// Of all sources.
    pub trusted_namespaces: Option<TrustedNamespaces>,
    pub resources: Option<ShownResources>,
    pub max_series: Option<usize>,
    pub health: Option<bool>,
    pub log_level: Option<LogLevel>,
}

/// The config in force: the settings, and what follows from them, the rules of teams and the declared objects.
#[derive(Clone, Debug)]
pub struct RuntimeConfig {
    pub settings: Arc<Settings>,
    pub watch: WatchConfig,
    /// Problems in the rules of teams.
    pub team_problems: Arc<[String]>,
}

impl RuntimeConfig {
    /// Without rules of teams and declared objects; nothing is watched yet.
    pub fn new(settings: Settings) -> Self {
        Self { settings: Arc::new(settings), watch: WatchConfig::default(), team_problems: Arc::default() }
    }
}

#[derive(Clone, Debug)]
pub struct ReloadStatus {
    /// None without a settings file.
    pub file: Option<PathBuf>,
    pub last_success: Timestamp,
    /// Problems of the current file. While there are any, the last valid settings stay in use.
    pub problems: Vec<ConfigProblem>,
    /// Warnings about the settings in use.
    pub warnings: Vec<ConfigProblem>,
}

impl ReloadStatus {
    pub fn is_successful(&self) -> bool {
        self.problems.is_empty()
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespaces: Vec::new(),
            excluded_namespaces: Vec::new(),
            kinds: Vec::new(),
            sources: vec![Source::Annotation],
            annotation_prefix: DEFAULT_PREFIX.into(),
            terraform: StateLocations::default(),
            helm: ReleaseLocations::default(),
            manifest: ManifestLocations::default(),
            status_hashes: vec![StatusHashSpec::simple_resource()],
            terraform_jobs: None,
            rules: Arc::new(RuleSet::built_in()),
            rule_config: Arc::default(),
            team_rules: None,
            mute_by_annotation: false,
            max_series: 200_000,
            limits: Limits::default(),
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

/// The default kinds of the source `last_applied`: apiVersion, kind, and whether the kind is namespaced. Secrets are never read.
const LAST_APPLIED_KINDS: &[(&str, &str, bool)] = &[
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
    /// Trusts the baselines of these namespaces, in all sources. Replaces the trusted namespaces of the settings.
    pub fn trust(&mut self, namespaces: &TrustedNamespaces) {
        self.terraform.trusted_namespaces.clone_from(namespaces);
        self.helm.trusted_namespaces.clone_from(namespaces);
    }

    /// The kinds to watch, limited to the namespaces of the settings.
    pub fn wanted_kinds(&self) -> Vec<WantedKind> {
        let allowed = self.scope();
        let mut wanted = self.kinds.clone();
        if wanted.is_empty() && self.sources.contains(&Source::Annotation) {
            wanted.extend(self.opt_in_kinds());
        }
        if self.kinds.is_empty() && self.sources.contains(&Source::LastApplied) {
            // With named namespaces the exporter may have no permission for cluster-scoped kinds.
            let kinds = LAST_APPLIED_KINDS
                .iter()
                .filter(|(.., namespaced)| *namespaced || self.namespaces.is_empty());
            wanted.extend(kinds.filter_map(|(version, kind, _)| WantedKind::parse(version, kind).ok()));
        }
        wanted.extend(self.enabled_status_hashes().iter().map(|spec| spec.objects.clone()));
        wanted.extend(self.enabled_terraform_jobs().map(|spec| spec.objects));
        for kind in &mut wanted {
            kind.scope = kind.scope.within(&allowed);
        }
        wanted
    }

    /// The entries of `status_hash`; empty if the source is disabled.
    pub fn enabled_status_hashes(&self) -> &[StatusHashSpec] {
        if self.sources.contains(&Source::StatusHash) { &self.status_hashes } else { &[] }
    }

    /// The configured Jobs, or the Jobs of opr8r if `status_hash` reads its custom resource.
    pub fn enabled_terraform_jobs(&self) -> Option<TerraformJobSpec> {
        let is_opr8r =
            |spec: &StatusHashSpec| spec.algorithm == StatusHashAlgorithm::Hash(Algorithm::Opr8rV1);
        let default = || self.enabled_status_hashes().iter().any(is_opr8r).then(TerraformJobSpec::default);
        self.terraform_jobs.clone().or_else(default)
    }

    pub fn allows_namespace(&self, namespace: &str) -> bool {
        self.scope().has(namespace)
    }

    /// The namespaces that may be watched.
    pub fn scope(&self) -> Scope {
        Scope::new(&self.namespaces, &self.excluded_namespaces)
    }

    /// Deployments and Services with the opt-in label.
    fn opt_in_kinds(&self) -> Vec<WantedKind> {
        let opted_in = Selector::equals(&format!("{}/enabled", self.annotation_prefix), "true");
        [Kind::deployment(), Kind::service()]
            .iter()
            .map(|kind| WantedKind { selector: Some(opted_in.clone()), ..WantedKind::exactly(kind) })
            .collect()
    }
}

/// A label of objects that is copied to their series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownLabel {
    /// The label of the object.
    pub key: Box<str>,
    /// The label of the series.
    pub name: Box<str>,
}

/// Labels that the series already have, or that Prometheus adds.
const RESERVED_LABELS: [&str; 14] = [
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

#[derive(Debug, thiserror::Error)]
pub(super) enum ShownLabelError {
    #[error("invalid label name `{0}`")]
    Key(String),
    #[error("`{key}` would become `{name}`, which is not a valid Prometheus label")]
    Name { key: String, name: String },
    #[error("`{key}` would become `{name}`, which the series already have")]
    Reserved { key: String, name: String },
}

impl ShownLabel {
    /// Parses `team` or `example.com/team`.
    pub(super) fn parse(key: &str) -> Result<Self, ShownLabelError> {
        if !is_label_name(key) {
            return Err(ShownLabelError::Key(key.into()));
        }
        let name: String = key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        if name.starts_with("__") || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(ShownLabelError::Name { key: key.into(), name });
        }
        if RESERVED_LABELS.contains(&name.as_str()) {
            return Err(ShownLabelError::Reserved { key: key.into(), name });
        }
        Ok(Self { key: key.into(), name: name.into() })
    }
}
