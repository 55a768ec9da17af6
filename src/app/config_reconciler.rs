//! Configuration at runtime: reloads the settings file, reads the rules of teams from ConfigMaps, and
//! reconciles both with the declared objects into the config of all other parts.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, future, io,
    sync::Arc,
    time::Duration,
};

use futures_util::future::select_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, api::ListParams};
use prometheus_client::{metrics::gauge::Gauge, registry::Registry};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{
        mpsc,
        watch::{self, error::RecvError},
    },
    time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout},
};
use tracing::{info, warn};

use super::telemetry::LogHandle;
use crate::{
    config::{
        FileWatch, LoadedSettings, Overrides, Problem, ReloadStatus, RuntimeConfig, Settings,
        TeamRulesSettings, load, read_yaml,
    },
    event::Event,
    rules::{RuleConfig, RuleSet, RuleSpec, TeamRules},
    sources::{KindRequirements, SourceDeclarations},
    types::{Clock, DecodeConfig, RedactionKey, RedactionPolicy, Scope, Source, WantedKind, WatchConfig},
};

/// The interval at which the settings file is checked. A change is loaded at the second check that finds the
/// same content, so that a file is not read while it is written.
const FILE_CHECK_INTERVAL: Duration = Duration::from_millis(400);
/// The interval at which the ConfigMaps of teams are listed. They are few and small, and unlike a watch, a
/// list cannot stall unnoticed.
const TEAM_LIST_INTERVAL: Duration = Duration::from_secs(5);
const TEAM_LIST_TIMEOUT: Duration = Duration::from_secs(20);
const FIRST_TEAM_LIST_TIMEOUT: Duration = Duration::from_secs(5);
const TEAM_RULES_KEY: &str = "rules.yaml";
/// The most team rules in one namespace: each costs a series, and time for every difference.
const MAX_TEAM_RULES: usize = 200;
/// If a team's rules need another label, all objects are listed again. This is the shortest time between two
/// such relists.
const TEAM_RELIST_INTERVAL: Duration = Duration::from_secs(30);

/// Changes the settings of a running exporter. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SettingsHandle(watch::Sender<Arc<RuntimeConfig>>);

impl SettingsHandle {
    pub(super) fn new(config: watch::Sender<Arc<RuntimeConfig>>) -> Self {
        Self(config)
    }

    pub fn current(&self) -> Arc<Settings> {
        self.0.borrow().settings.clone()
    }

    /// Replaces all settings at once. Kinds, namespaces and rules change now, responses with the next
    /// request.
    pub fn replace(&self, settings: Settings) {
        self.0.send_modify(|config| Arc::make_mut(config).settings = Arc::new(settings));
    }
}

/// Waits for other settings than these. Never resolves once the config cannot change any more.
async fn settings_changed(config: &mut watch::Receiver<Arc<RuntimeConfig>>, known: &Arc<Settings>) {
    if config.wait_for(|config| !Arc::ptr_eq(&config.settings, known)).await.is_err() {
        future::pending::<()>().await;
    }
}

#[derive(Debug)]
pub struct SettingsSource {
    pub file: FileWatch,
    /// Flags, which take precedence over the file.
    pub overrides: Overrides,
    /// The warnings of the first load.
    pub warnings: Vec<Problem>,
}

/// Publishes the result of the last reload, as a status and as metrics.
#[derive(Debug)]
pub struct ReloadReporter {
    status: watch::Sender<Arc<ReloadStatus>>,
    successful: Gauge,
    success_time: Gauge,
}

impl ReloadReporter {
    pub(super) fn new(source: Option<&SettingsSource>, registry: &mut Registry, clock: &Clock) -> Self {
        let status = ReloadStatus {
            file: source.map(|source| source.file.path().to_owned()),
            last_success: clock.now(),
            problems: Vec::new(),
            warnings: source.map(|source| source.warnings.clone()).unwrap_or_default(),
        };
        let (successful, success_time) = (Gauge::default(), Gauge::default());
        registry.register(
            "drift_config_last_reload_successful",
            "Whether the last reload of the settings file succeeded; 0: it is invalid, and the last valid settings are in use",
            successful.clone(),
        );
        registry.register(
            "drift_config_last_reload_success_timestamp_seconds",
            "Time of the last successful reload of the settings",
            success_time.clone(),
        );
        let reporter =
            Self { status: watch::Sender::new(Arc::new(status.clone())), successful, success_time };
        reporter.report(status);
        reporter
    }

    pub(super) fn status(&self) -> watch::Receiver<Arc<ReloadStatus>> {
        self.status.subscribe()
    }

    fn report(&self, status: ReloadStatus) {
        self.successful.set(i64::from(status.is_successful()));
        self.success_time.set(status.last_success.as_second());
        self.status.send_replace(Arc::new(status));
    }
}

/// Reloads the settings file when it changes or on SIGHUP. Invalid settings are reported, and the last valid
/// ones stay in use.
#[derive(Debug)]
pub(super) struct SettingsReloader {
    pub(super) source: SettingsSource,
    pub(super) settings: SettingsHandle,
    pub(super) reporter: ReloadReporter,
    pub(super) log: LogHandle,
    pub(super) clock: Clock,
}

impl SettingsReloader {
    pub(super) async fn run(mut self) {
        let mut hangup = match signal(SignalKind::hangup()) {
            Ok(hangup) => hangup,
            Err(error) => {
                warn!(%error, "Cannot listen for SIGHUP; settings are not reloaded.");
                return;
            }
        };
        let mut checks = interval(FILE_CHECK_INTERVAL);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let content = tokio::select! {
                _ = checks.tick() => self.source.file.poll(),
                _ = hangup.recv() => self.source.file.read_now(),
            };
            if let Some(content) = content {
                self.reload(content);
            }
        }
    }

    fn reload(&mut self, content: io::Result<String>) {
        let path = self.source.file.path().display().to_string();
        let loaded = content
            .map_err(|error| vec![Problem::whole(format!("cannot be read: {error}"))])
            .and_then(|text| load(&text, &self.source.overrides));
        let mut status = ReloadStatus::clone(&self.reporter.status.borrow());
        match loaded {
            Ok(LoadedSettings { settings, warnings }) => {
                for warning in &warnings {
                    warn!(file = path, "{warning}");
                }
                info!(file = path, "Settings reloaded.");
                status.last_success = self.clock.now();
                status.problems.clear();
                status.warnings = warnings;
                self.log.set_level(settings.log_level);
                self.settings.replace(settings);
            }
            Err(problems) => {
                for problem in &problems {
                    warn!(file = path, "Settings not reloaded, the last valid ones stay in use: {problem}");
                }
                status.problems = problems;
            }
        }
        self.reporter.report(status);
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TeamConfig {
    /// The last valid content of each ConfigMap.
    config_maps: Vec<TeamConfigMap>,
    problems: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct TeamConfigMap {
    name: ConfigMapName,
    rules: Vec<RuleSpec>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ConfigMapName {
    namespace: Box<str>,
    name: Box<str>,
}

impl fmt::Display for ConfigMapName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ConfigMap {}/{}", self.namespace, self.name)
    }
}

/// Reads the rules that teams keep in ConfigMaps in their namespaces.
pub(super) struct TeamRuleReader {
    client: Client,
    config: watch::Receiver<Arc<RuntimeConfig>>,
    teams: watch::Sender<Arc<TeamConfig>>,
}

impl TeamRuleReader {
    pub(super) fn new(
        client: Client,
        config: watch::Receiver<Arc<RuntimeConfig>>,
    ) -> (Self, watch::Receiver<Arc<TeamConfig>>) {
        let (teams, receiver) = watch::channel(Arc::default());
        (Self { client, config, teams }, receiver)
    }

    /// Reads once before the first object is judged, so that ignored drift is not reported at each start.
    /// Gives up after a short time if the API server does not answer.
    pub(super) async fn read_first(&self) {
        let settings = self.config.borrow().settings.clone();
        if let Some(from) = &settings.team_rules
            && let Ok(teams) = timeout(FIRST_TEAM_LIST_TIMEOUT, self.read(&settings, from)).await
        {
            send_if_changed(&self.teams, teams);
        }
    }

    /// Reads in an interval while the settings enable team rules.
    pub(super) async fn run(self) {
        let mut config = self.config.clone();
        loop {
            let settings = config.borrow_and_update().settings.clone();
            let read = async {
                let Some(from) = &settings.team_rules else {
                    send_if_changed(&self.teams, TeamConfig::default());
                    return future::pending().await;
                };
                send_if_changed(&self.teams, self.read(&settings, from).await);
                sleep(TEAM_LIST_INTERVAL).await;
            };
            // Changed settings interrupt a read and the interval.
            tokio::select! {
                () = read => {}
                () = settings_changed(&mut config, &settings) => {}
            }
        }
    }

    /// Lists the ConfigMaps of all teams. If the list of a namespace fails, its rules stay as they are.
    async fn read(&self, settings: &Settings, from: &TeamRulesSettings) -> TeamConfig {
        let previous = self.teams.borrow().clone();
        let mut teams = TeamConfig::default();
        let selector = ListParams::default().labels(&from.selector.to_string());
        for namespace in list_namespaces(&from.scope.within(&settings.scope())) {
            let api: Api<ConfigMap> = match namespace {
                Some(name) => Api::namespaced(self.client.clone(), name),
                None => Api::all(self.client.clone()),
            };
            let why = match timeout(TEAM_LIST_TIMEOUT, api.list(&selector)).await {
                Ok(Ok(list)) => {
                    teams.add(list.items, &previous);
                    continue;
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("the API server did not answer within {TEAM_LIST_TIMEOUT:?}"),
            };
            let place = namespace.unwrap_or("all namespaces");
            teams
                .problems
                .push(format!("cannot read the rules of {place}, the last ones stay in use: {why}"));
            let is_listed =
                |known: &&TeamConfigMap| namespace.is_none_or(|name| *known.name.namespace == *name);
            teams.config_maps.extend(previous.config_maps.iter().filter(is_listed).cloned());
        }
        teams
    }
}

impl TeamConfig {
    /// Adds ConfigMaps, ordered by name. An invalid one keeps its previous rules.
    fn add(&mut self, config_maps: Vec<ConfigMap>, previous: &Self) {
        let mut parsed: Vec<TeamConfigMap> = Vec::new();
        for config_map in config_maps {
            let text = |value: Option<String>| value.unwrap_or_default().into();
            let metadata = config_map.metadata;
            let name = ConfigMapName { namespace: text(metadata.namespace), name: text(metadata.name) };
            let rules = match config_map.data.as_ref().and_then(|data| data.get(TEAM_RULES_KEY)) {
                Some(text) => read_yaml(text).map_err(|problem| format!("{TEAM_RULES_KEY}: {problem}")),
                None => Err(format!("it has no key {TEAM_RULES_KEY}")),
            };
            match rules {
                Ok(rules) => parsed.push(TeamConfigMap { name, rules }),
                Err(why) => {
                    self.problems.push(format!("{name}: {why}"));
                    parsed.extend(previous.config_maps.iter().find(|known| known.name == name).cloned());
                }
            }
        }
        parsed.sort_by(|a, b| a.name.cmp(&b.name));
        self.config_maps.extend(parsed);
    }
}

/// The namespaces to list one by one; none for one list of all namespaces.
fn list_namespaces(scope: &Scope) -> Vec<Option<&str>> {
    match scope {
        Scope::AllExcept(_) => vec![None],
        Scope::In(names) => names.iter().map(|name| Some(&**name)).collect(),
    }
}

/// Derives the config of all other parts from the settings, the rules of teams and the declared objects,
/// whenever one of these changes.
#[derive(Debug)]
pub(super) struct ConfigReconciler {
    inputs: ConfigInputs,
    /// The settings that were last reconciled.
    settings: Arc<Settings>,
    /// The rules that the engine has.
    rules: Arc<RuleSet>,
    /// The last valid rules of each ConfigMap.
    valid_teams: BTreeMap<ConfigMapName, TeamRules>,
    /// When team rules may cause the next relist.
    next_team_relist: Instant,
    /// Whether team rules wait for that.
    relist_pending: bool,
}

#[derive(Debug)]
pub(super) struct ConfigInputs {
    /// Contains the settings, and receives the config that is derived from them.
    pub(super) config: watch::Sender<Arc<RuntimeConfig>>,
    pub(super) teams: watch::Receiver<Arc<TeamConfig>>,
    /// The objects that each source declares, once it has been read.
    pub(super) declared: Vec<watch::Receiver<Arc<SourceDeclarations>>>,
    pub(super) redaction_key: RedactionKey,
    /// Receives the rules.
    pub(super) events: mpsc::Sender<Event>,
}

impl ConfigReconciler {
    /// Derives the first config, without the rules of teams and declared objects.
    pub(super) fn new(inputs: ConfigInputs) -> Self {
        let settings = inputs.config.borrow().settings.clone();
        let declared = KindRequirements::default();
        let decode = Arc::new(decode_config(&settings, &settings.rules, &declared, &inputs.redaction_key));
        let watch = WatchConfig { kinds: wanted_kinds(&settings, &declared), decode };
        inputs.config.send_modify(|config| Arc::make_mut(config).watch = watch);
        Self {
            rules: settings.rules.clone(),
            settings,
            inputs,
            valid_teams: BTreeMap::new(),
            next_team_relist: Instant::now(),
            relist_pending: false,
        }
    }

    pub(super) async fn run(mut self) {
        let mut config = self.inputs.config.subscribe();
        loop {
            let ConfigInputs { teams, declared, .. } = &mut self.inputs;
            tokio::select! {
                () = settings_changed(&mut config, &self.settings) => {}
                Ok(()) = teams.changed() => {}
                Ok(()) = any_changed(declared) => {}
                () = sleep_until(self.next_team_relist), if self.relist_pending => {}
            }
            self.reconcile().await;
        }
    }

    pub(super) async fn reconcile(&mut self) {
        let ConfigInputs { config, teams, declared, redaction_key, .. } = &mut self.inputs;
        self.settings = config.borrow().settings.clone();
        let (settings, teams) = (self.settings.clone(), teams.borrow_and_update().clone());
        let declared: Vec<Arc<SourceDeclarations>> =
            declared.iter_mut().map(|declared| declared.borrow_and_update().clone()).collect();
        let declared =
            KindRequirements::from_declarations(redaction_key, declared.iter().map(|declared| &**declared));
        let (rules, problems) = self.compile_rules(&settings, &teams);
        // Before the config: objects that are listed again because of the rules are rated by them.
        if !Arc::ptr_eq(&self.rules, &rules) {
            self.rules = rules.clone();
            // Fails only if the engine has stopped, and then everything ends.
            let _ = self.inputs.events.send(Event::Rules(rules.clone())).await;
        }
        let decode = self.extended_decode_config(&settings, &rules, &declared);
        let watch = WatchConfig { kinds: wanted_kinds(&settings, &declared), decode };
        self.inputs.config.send_if_modified(|config| {
            let new_problems = *config.team_problems != *problems;
            if new_problems {
                problems.iter().for_each(|problem| warn!("{problem}"));
            }
            let changed = new_problems || config.watch != watch;
            if changed {
                let config = Arc::make_mut(config);
                (config.watch, config.team_problems) = (watch, problems.into());
            }
            changed
        });
    }

    /// The decode config in use, or another one if it lacks anything that is needed now. Another one causes a
    /// relist, so it is not replaced only to decode less.
    fn extended_decode_config(
        &mut self,
        settings: &Settings,
        rules: &RuleSet,
        declared: &KindRequirements,
    ) -> Arc<DecodeConfig> {
        let current = self.inputs.config.borrow().watch.decode.clone();
        let redaction_key = &self.inputs.redaction_key;
        let needed = decode_config(settings, rules, declared, redaction_key);
        let without_teams = decode_config(settings, &settings.rules, declared, redaction_key);
        self.relist_pending = false;
        if covers(&current, &needed) {
            return current;
        }
        let now = Instant::now();
        let only_teams_need_more = covers(&current, &without_teams);
        if only_teams_need_more {
            if now < self.next_team_relist {
                self.relist_pending = true;
                return current;
            }
            self.next_team_relist = now + TEAM_RELIST_INTERVAL;
        }
        Arc::new(needed)
    }

    /// Compiles the rules of the settings and of all teams. Invalid rules of one team do not affect others:
    /// the team keeps the last valid rules of its ConfigMap.
    fn compile_rules(&mut self, settings: &Settings, teams: &TeamConfig) -> (Arc<RuleSet>, Vec<String>) {
        let Some(from) = &settings.team_rules else {
            self.valid_teams.clear();
            return (settings.rules.clone(), Vec::new());
        };
        let is_allowed = |namespace: &str| from.scope.has(namespace) && settings.allows_namespace(namespace);
        let mut problems = teams.problems.clone();
        let mut input = RuleConfig::clone(&settings.rule_config);
        let mut valid_teams = BTreeMap::new();
        for config_map in teams.config_maps.iter().filter(|known| is_allowed(&known.name.namespace)) {
            let namespace = &config_map.name.namespace;
            let same_namespace: Vec<TeamRules> =
                input.teams.iter().filter(|team| team.namespace == *namespace).cloned().collect();
            let new = TeamRules { namespace: namespace.clone(), rules: config_map.rules.clone() };
            let valid = match validate_team(&same_namespace, &new) {
                Ok(()) => Some(new),
                Err(errors) => {
                    problems.extend(errors.into_iter().map(|error| format!("{}: {error}", config_map.name)));
                    let last = self.valid_teams.remove(&config_map.name);
                    last.filter(|last| validate_team(&same_namespace, last).is_ok())
                }
            };
            if let Some(valid) = valid {
                valid_teams.insert(config_map.name.clone(), valid.clone());
                input.teams.push(valid);
            }
        }
        self.valid_teams = valid_teams;
        if input.teams.is_empty() {
            return (settings.rules.clone(), problems);
        }
        match RuleSet::compile(&input) {
            Ok(rules) => (Arc::new(rules), problems),
            Err(errors) => {
                problems.extend(errors.iter().map(ToString::to_string));
                (settings.rules.clone(), problems)
            }
        }
    }
}

/// Waits until one of the values changes; an error if a sender is gone.
async fn any_changed(receivers: &mut [watch::Receiver<Arc<SourceDeclarations>>]) -> Result<(), RecvError> {
    select_all(receivers.iter_mut().map(|receiver| Box::pin(receiver.changed()))).await.0
}

fn send_if_changed<T: PartialEq>(output: &watch::Sender<Arc<T>>, value: T) {
    output.send_if_modified(|current| {
        let changed = **current != value;
        if changed {
            *current = Arc::new(value);
        }
        changed
    });
}

/// Validates the rules of one ConfigMap together with others of the same namespace. Rules of other namespaces
/// cannot conflict with them.
fn validate_team(same_namespace: &[TeamRules], new: &TeamRules) -> Result<(), Vec<String>> {
    let count = same_namespace.iter().chain([new]).map(|team| team.rules.len()).sum::<usize>();
    if count > MAX_TEAM_RULES {
        return Err(vec![format!(
            "{count} rules in one namespace are too many; at most {MAX_TEAM_RULES} are allowed"
        )]);
    }
    let teams = same_namespace.iter().chain([new]).cloned().collect();
    match RuleSet::compile(&RuleConfig { teams, ..RuleConfig::default() }) {
        Ok(_) => Ok(()),
        Err(errors) => Err(errors.iter().map(ToString::to_string).collect()),
    }
}

/// The kinds of the settings, and the kinds of declared objects in the namespaces that may be watched.
fn wanted_kinds(settings: &Settings, declared: &KindRequirements) -> Vec<WantedKind> {
    let allowed = settings.scope();
    let declared =
        declared.kinds.iter().map(|kind| WantedKind { scope: kind.scope.within(&allowed), ..kind.clone() });
    settings.wanted_kinds().into_iter().chain(declared.filter(|kind| !kind.scope.is_empty())).collect()
}

/// The parts of objects that rules, series and declared objects need.
fn decode_config(
    settings: &Settings,
    rules: &RuleSet,
    declared: &KindRequirements,
    redaction_key: &RedactionKey,
) -> DecodeConfig {
    let shown = settings.shown_labels.iter().map(|label| label.key.clone());
    let label_names: BTreeSet<Box<str>> = rules.label_names().iter().cloned().chain(shown).collect();
    let uses_last_applied = settings.sources.contains(&Source::LastApplied);
    DecodeConfig {
        annotation_prefix: settings.annotation_prefix.clone(),
        label_names: label_names.into_iter().collect(),
        honor_ignore_annotation: settings.mute_by_annotation,
        ignore_hash_annotations: !settings.sources.contains(&Source::Annotation),
        documents: declared.documents.clone(),
        last_applied: uses_last_applied.then(|| Arc::new(RedactionPolicy::new(redaction_key.clone()))),
        records: settings.enabled_status_hashes().into(),
        jobs: settings.enabled_terraform_jobs(),
    }
}

fn covers(current: &DecodeConfig, needed: &DecodeConfig) -> bool {
    current.annotation_prefix == needed.annotation_prefix
        && current.honor_ignore_annotation == needed.honor_ignore_annotation
        && current.ignore_hash_annotations == needed.ignore_hash_annotations
        && needed.documents.iter().all(|(kind, policy)| current.documents.get(kind) == Some(policy))
        && current.last_applied == needed.last_applied
        && current.records == needed.records
        && current.jobs == needed.jobs
        && needed.label_names.iter().all(|name| current.label_names.binary_search(name).is_ok())
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::{
        Arc, ConfigInputs, ConfigReconciler, Duration, Event, RedactionKey, RuleConfig, RuleSet,
        RuntimeConfig, Settings, SettingsHandle, mpsc, read_yaml, timeout, watch,
    };

    #[tokio::test(start_paused = true)]
    async fn rules_are_queued_before_the_config_that_lists_objects_again() {
        let (config, published) = watch::channel(Arc::new(RuntimeConfig::new(Settings::default())));
        let (events, mut queue) = mpsc::channel(1);
        let mut reconciler = ConfigReconciler::new(ConfigInputs {
            config: config.clone(),
            teams: watch::channel(Arc::default()).1,
            declared: Vec::new(),
            redaction_key: RedactionKey::new([1; 32]),
            events: events.clone(),
        });
        let reads_label = || published.borrow().watch.decode.label_names.iter().any(|name| &**name == "team");
        let rule = "[{name: mine, match: {labels: {team: a}}, effect: ignore}]";
        let rules = RuleConfig { rules: read_yaml(rule).unwrap(), ..RuleConfig::default() };
        let rules = Arc::new(RuleSet::compile(&rules).unwrap());
        SettingsHandle::new(config).replace(Settings { rules, ..Settings::default() });
        events.send(Event::Tick).await.unwrap();
        let mut reconcile = pin!(reconciler.reconcile());
        assert!(timeout(Duration::from_secs(60), reconcile.as_mut()).await.is_err(), "the queue is full");
        assert!(!reads_label() && matches!(queue.recv().await, Some(Event::Tick)));
        reconcile.await;
        assert!(reads_label() && matches!(queue.try_recv(), Ok(Event::Rules(_))));
    }
}
