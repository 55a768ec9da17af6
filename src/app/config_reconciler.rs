//! Keeps what follows from the settings, from what teams say and from what states declare: the rules, what is read, and where.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, io,
    sync::Arc,
    time::Duration,
};

use futures_util::future::select_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, api::ListParams};
use prometheus_client::{metrics::gauge::Gauge, registry::Registry};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch::{self, error::RecvError},
    time::{Instant, MissedTickBehavior, interval, sleep_until, timeout},
};
use tracing::{info, warn};

use super::telemetry::LogHandle;
use crate::{
    config::{FileWatch, Loaded, Overrides, Problem, ReloadStatus, Settings, TeamRulesFrom, load, read_yaml},
    rules::{RuleInput, RuleSet, RuleSpec, TeamRules},
    sources::{Declares, Wanted, helm::ReleaseSources, manifest::ManifestSources, terraform::StateSources},
    types::{Clock, RedactionKey, RedactionPolicy, Scope, Source, WantedKind},
    watch::DecodeConfig,
};

/// Changes the settings of a running exporter. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SettingsHandle(watch::Sender<Arc<Settings>>);

impl SettingsHandle {
    pub(super) fn new(first: Settings) -> (Self, watch::Receiver<Arc<Settings>>) {
        let (sender, receiver) = watch::channel(Arc::new(first));
        (Self(sender), receiver)
    }

    /// What the exporter is told to do now.
    pub fn current(&self) -> Arc<Settings> {
        self.0.borrow().clone()
    }

    /// Replaces all settings at once: kinds, namespaces and rules hold from now on, what is served from settings with the
    /// next request.
    pub fn replace(&self, settings: Settings) {
        self.0.send_replace(Arc::new(settings));
    }
}

/// How often the file is looked at. A change is taken over at the second look that finds it the same.
const LOOK: Duration = Duration::from_millis(400);

/// A settings file that is in use.
#[derive(Debug)]
pub struct SettingsSource {
    /// The file.
    pub file: FileWatch,
    /// What stands above it.
    pub overrides: Overrides,
    /// What looked wrong in it at the start.
    pub warnings: Vec<Problem>,
}

/// Where is told how the reading of settings went.
#[derive(Debug)]
pub struct Reloads {
    status: watch::Sender<Arc<ReloadStatus>>,
    metrics: ReloadMetrics,
}

impl Reloads {
    pub(super) fn new(source: Option<&SettingsSource>, registry: &mut Registry, clock: &Clock) -> Self {
        let status = ReloadStatus {
            file: source.map(|source| source.file.path().to_owned()),
            last_success: clock.now(),
            problems: Vec::new(),
            warnings: source.map(|source| source.warnings.clone()).unwrap_or_default(),
        };
        let metrics = ReloadMetrics::register(registry);
        metrics.show(&status);
        Self { status: watch::Sender::new(Arc::new(status)), metrics }
    }

    pub(super) fn status(&self) -> watch::Receiver<Arc<ReloadStatus>> {
        self.status.subscribe()
    }

    fn tell(&self, status: ReloadStatus) {
        self.metrics.show(&status);
        self.status.send_replace(Arc::new(status));
    }
}

/// Keeps the settings of a running exporter as its file says.
#[derive(Debug)]
pub(super) struct Reloader {
    pub(super) source: SettingsSource,
    pub(super) settings: SettingsHandle,
    pub(super) reloads: Reloads,
    pub(super) log: LogHandle,
    pub(super) clock: Clock,
}

impl Reloader {
    /// Follows the file and SIGHUP for ever.
    pub(super) async fn run(mut self) {
        let mut hangup = match signal(SignalKind::hangup()) {
            Ok(hangup) => hangup,
            Err(error) => {
                warn!(%error, "Cannot listen for SIGHUP; settings are not followed.");
                return;
            }
        };
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let content = tokio::select! {
                _ = looks.tick() => self.source.file.look(),
                _ = hangup.recv() => self.source.file.read_now(),
            };
            if let Some(content) = content {
                self.take_over(content);
            }
        }
    }

    fn take_over(&mut self, content: io::Result<String>) {
        let path = self.source.file.path().display().to_string();
        let loaded = content
            .map_err(|error| vec![Problem::whole(format!("cannot be read: {error}"))])
            .and_then(|text| load(&text, &self.source.overrides));
        let mut status = ReloadStatus::clone(&self.reloads.status.borrow());
        match loaded {
            Ok(Loaded { settings, warnings }) => {
                for warning in &warnings {
                    warn!(file = path, "{warning}");
                }
                info!(file = path, "Settings taken over.");
                status.last_success = self.clock.now();
                status.problems.clear();
                status.warnings = warnings;
                self.log.set_level(settings.log_level);
                self.settings.replace(settings);
            }
            Err(problems) => {
                for problem in &problems {
                    warn!(file = path, "Settings not taken over, the last good ones stay: {problem}");
                }
                status.problems = problems;
            }
        }
        self.reloads.tell(status);
    }
}

/// How the last reading of the settings went.
#[derive(Clone, Debug, Default)]
pub(super) struct ReloadMetrics {
    successful: Gauge,
    success_time: Gauge,
}

impl ReloadMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "drift_config_last_reload_successful",
            "Whether the settings file as it is now is in use; 0: it is wrong, and the last good one is",
            metrics.successful.clone(),
        );
        registry.register(
            "drift_config_last_reload_success_timestamp_seconds",
            "When settings were last taken over",
            metrics.success_time.clone(),
        );
        metrics
    }

    pub(super) fn show(&self, status: &ReloadStatus) {
        self.successful.set(i64::from(status.is_successful()));
        self.success_time.set(status.last_success.as_second());
    }
}

/// How often the ConfigMaps are read. They are few and small, and a list cannot stall unseen as a watch can.
const READ_INTERVAL: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(20);
const FIRST_PATIENCE: Duration = Duration::from_secs(5);
/// The key of a ConfigMap that holds rules.
const KEY: &str = "rules.yaml";

/// What teams say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Teams {
    /// The rules of each ConfigMap, as it last was when it could be read.
    pub(super) maps: Vec<TeamMap>,
    /// What could not be read.
    pub(super) problems: Vec<String>,
}

/// The rules of one ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TeamMap {
    pub(super) name: MapName,
    pub(super) rules: Vec<RuleSpec>,
}

/// The name of a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MapName {
    pub(super) namespace: Box<str>,
    name: Box<str>,
}

impl fmt::Display for MapName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ConfigMap {}/{}", self.namespace, self.name)
    }
}

/// Follows what teams say.
pub(super) struct TeamReader {
    pub(super) client: Client,
    pub(super) settings: watch::Receiver<Arc<Settings>>,
    pub(super) teams: watch::Sender<Arc<Teams>>,
}

impl fmt::Debug for TeamReader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TeamReader").finish_non_exhaustive()
    }
}

impl TeamReader {
    /// Reads once, before anything is judged: what a team hides does not show up at each start. A server that does not
    /// answer is not waited for.
    pub(super) async fn first(&self) {
        let settings = self.settings.borrow().clone();
        if let Some(from) = &settings.team_rules
            && let Ok(teams) = timeout(FIRST_PATIENCE, self.read(&settings, from)).await
        {
            self.tell(teams);
        }
    }

    /// Reads again and again, as long as settings allow it; else waits until they do.
    pub(super) async fn run(self) {
        let mut newest = self.settings.clone();
        loop {
            let settings = newest.borrow_and_update().clone();
            let reads = async {
                let Some(from) = &settings.team_rules else {
                    self.tell(Teams::default());
                    return std::future::pending().await;
                };
                self.tell(self.read(&settings, from).await);
                tokio::time::sleep(READ_INTERVAL).await;
            };
            // Other settings count at once, whatever is being waited for.
            tokio::select! {
                () = reads => {}
                changed = newest.changed() => if changed.is_err() {
                    return std::future::pending().await;
                }
            }
        }
    }

    fn tell(&self, teams: Teams) {
        self.teams.send_if_modified(|own| {
            let news = **own != teams;
            *own = Arc::new(teams);
            news
        });
    }

    /// What all teams say. Where a namespace cannot be asked, what it said before goes on holding.
    async fn read(&self, settings: &Settings, from: &TeamRulesFrom) -> Teams {
        let before = self.teams.borrow().clone();
        let mut teams = Teams::default();
        let selected = ListParams::default().labels(&from.selector.to_string());
        for namespace in places(&from.scope.within(&settings.scope())) {
            let maps: Api<ConfigMap> = match namespace {
                Some(name) => Api::namespaced(self.client.clone(), name),
                None => Api::all(self.client.clone()),
            };
            let why = match timeout(PATIENCE, maps.list(&selected)).await {
                Ok(Ok(list)) => {
                    take(list.items, &before, &mut teams);
                    continue;
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("the API server did not answer within {PATIENCE:?}"),
            };
            let place = namespace.unwrap_or("all namespaces");
            teams.problems.push(format!("the rules of {place} cannot be read, the last ones hold: {why}"));
            let own = |map: &&TeamMap| namespace.is_none_or(|name| *map.name.namespace == *name);
            teams.maps.extend(before.maps.iter().filter(own).cloned());
        }
        teams
    }
}

/// Where to list: everywhere at once, or in each namespace.
fn places(scope: &Scope) -> Vec<Option<&str>> {
    match scope {
        Scope::AllBut(_) => vec![None],
        Scope::In(names) => names.iter().map(|name| Some(&**name)).collect(),
    }
}

/// Takes the rules of some ConfigMaps, by their names. One that cannot be read goes on saying what it said before.
fn take(maps: Vec<ConfigMap>, before: &Teams, teams: &mut Teams) {
    let mut found: Vec<TeamMap> = Vec::new();
    for map in maps {
        let text = |value: Option<String>| value.unwrap_or_default().into();
        let name = MapName { namespace: text(map.metadata.namespace), name: text(map.metadata.name) };
        let rules = match map.data.as_ref().and_then(|data| data.get(KEY)) {
            Some(text) => read_yaml(text).map_err(|problem| format!("{KEY}: {problem}")),
            None => Err(format!("it has no key {KEY}")),
        };
        match rules {
            Ok(rules) => found.push(TeamMap { name, rules }),
            Err(why) => {
                teams.problems.push(format!("{name}: {why}"));
                found.extend(before.maps.iter().find(|map| map.name == name).cloned());
            }
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    teams.maps.extend(found);
}

/// Rules that hold in one namespace by its owners' wish, at most: each costs a series, and time for every difference.
const MOST_RULES: usize = 200;
/// A team that asks for one more label makes everything be listed again. That may not happen more often than this.
const REST: Duration = Duration::from_secs(30);

/// Puts rules together whenever settings or teams change theirs.
#[derive(Debug)]
pub(super) struct RuleKeeper {
    settings: watch::Receiver<Arc<Settings>>,
    teams: watch::Receiver<Arc<Teams>>,
    /// What each source declares.
    declared: Vec<watch::Receiver<Arc<Declares>>>,
    /// The key of this process.
    key: RedactionKey,
    outputs: Outputs,
    /// What each ConfigMap last said that could be used.
    good: BTreeMap<MapName, TeamRules>,
    /// When teams may have more read of objects.
    rests_until: Instant,
    /// Whether they wait for that.
    waits: bool,
}

/// Where the rules go.
#[derive(Debug)]
pub(super) struct Outputs {
    /// The rules that hold.
    pub(super) rules: watch::Sender<Arc<RuleSet>>,
    /// What has to be read of objects for these rules.
    pub(super) readings: watch::Sender<Arc<DecodeConfig>>,
    /// What is to be watched.
    pub(super) kinds: watch::Sender<Arc<Vec<WantedKind>>>,
    /// Where states are looked for.
    pub(super) states: watch::Sender<Arc<StateSources>>,
    /// Where releases are looked for.
    pub(super) releases: watch::Sender<Arc<ReleaseSources>>,
    /// Where manifests are looked for.
    pub(super) manifests: watch::Sender<Arc<ManifestSources>>,
    /// What is wrong with what teams wrote.
    pub(super) problems: watch::Sender<Arc<[String]>>,
}

impl RuleKeeper {
    pub(super) fn new(
        settings: watch::Receiver<Arc<Settings>>,
        teams: watch::Receiver<Arc<Teams>>,
        declared: Vec<watch::Receiver<Arc<Declares>>>,
        key: RedactionKey,
        outputs: Outputs,
    ) -> Self {
        let rests_until = Instant::now();
        Self { settings, teams, declared, key, outputs, good: BTreeMap::new(), rests_until, waits: false }
    }

    /// Follows settings, teams and states for ever.
    pub(super) async fn run(mut self) {
        loop {
            tokio::select! {
                Ok(()) = self.settings.changed() => {}
                Ok(()) = self.teams.changed() => {}
                Ok(()) = any_changed(&mut self.declared) => {}
                () = sleep_until(self.rests_until), if self.waits => {}
                // Nobody will change anything any more.
                else => return std::future::pending().await,
            }
            self.renew();
        }
    }

    /// Puts the rules together anew.
    pub(super) fn renew(&mut self) {
        let settings = self.settings.borrow_and_update().clone();
        let teams = self.teams.borrow_and_update().clone();
        let declared: Vec<Arc<Declares>> =
            self.declared.iter_mut().map(|own| own.borrow_and_update().clone()).collect();
        let declared = Wanted::of(&self.key, declared.iter().map(|own| &**own));
        let (rules, problems) = self.with_teams(&settings, &teams);
        // Whoever opens a stream has to know what is read of its objects.
        self.read_more(&settings, &rules, &declared);
        let kinds = wanted_kinds(&settings, &declared);
        self.outputs.kinds.send_if_modified(|own| replace_other(own, kinds));
        self.outputs.states.send_if_modified(|own| replace_other(own, state_sources(&settings)));
        self.outputs.releases.send_if_modified(|own| replace_other(own, release_sources(&settings)));
        self.outputs.manifests.send_if_modified(|own| replace_other(own, manifest_sources(&settings)));
        self.outputs.rules.send_if_modified(|own| {
            let news = !Arc::ptr_eq(own, &rules);
            *own = rules;
            news
        });
        self.outputs.problems.send_if_modified(|own| {
            let news = **own != *problems;
            if news {
                problems.iter().for_each(|problem| warn!("{problem}"));
                *own = problems.into();
            }
            news
        });
    }

    /// Has more read of objects if the rules ask for it. What is read already and nobody asks for goes on being read: streams
    /// are not opened anew to read less.
    fn read_more(&mut self, settings: &Settings, rules: &RuleSet, declared: &Wanted) {
        let current = self.outputs.readings.borrow().clone();
        let wanted = reading(settings, rules, declared, &self.key);
        let own = reading(settings, &settings.rules, declared, &self.key);
        self.waits = false;
        if reads(&current, &wanted) {
            return;
        }
        let now = Instant::now();
        if reads(&current, &own) {
            // Only teams ask for more.
            if now < self.rests_until {
                self.waits = true;
                return;
            }
            self.rests_until = now + REST;
        }
        self.outputs.readings.send_replace(Arc::new(wanted));
    }

    /// The rules of the settings with those of every team that can be used. A team's mistakes are its own: the others' rules
    /// hold all the same, and so does what its ConfigMap said before.
    fn with_teams(&mut self, settings: &Settings, teams: &Teams) -> (Arc<RuleSet>, Vec<String>) {
        let Some(from) = &settings.team_rules else {
            self.good.clear();
            return (settings.rules.clone(), Vec::new());
        };
        let mut problems = teams.problems.clone();
        let mut input = RuleInput::clone(&settings.rule_input);
        let mut good = BTreeMap::new();
        for map in teams.maps.iter().filter(|map| allows(settings, from, &map.name.namespace)) {
            let namespace = &map.name.namespace;
            let others: Vec<TeamRules> =
                input.teams.iter().filter(|team| team.namespace == *namespace).cloned().collect();
            let new = TeamRules { namespace: namespace.clone(), rules: map.rules.clone() };
            let usable = match check(&others, &new) {
                Ok(()) => Some(new),
                Err(wrong) => {
                    problems.extend(wrong.into_iter().map(|wrong| format!("{}: {wrong}", map.name)));
                    self.good.remove(&map.name).filter(|last| check(&others, last).is_ok())
                }
            };
            if let Some(usable) = usable {
                good.insert(map.name.clone(), usable.clone());
                input.teams.push(usable);
            }
        }
        self.good = good;
        if input.teams.is_empty() {
            return (settings.rules.clone(), problems);
        }
        match RuleSet::compile(&input) {
            Ok(rules) => (Arc::new(rules), problems),
            Err(found) => {
                problems.extend(found.iter().map(ToString::to_string));
                (settings.rules.clone(), problems)
            }
        }
    }
}

/// Waits until any of these has another value; an error when nobody can change them any more.
async fn any_changed(all: &mut [watch::Receiver<Arc<Declares>>]) -> Result<(), RecvError> {
    select_all(all.iter_mut().map(|own| Box::pin(own.changed()))).await.0
}

/// Puts something in the place of something else; says whether it is another one.
fn replace_other<T: PartialEq>(own: &mut Arc<T>, new: T) -> bool {
    let news = **own != new;
    if news {
        *own = Arc::new(new);
    }
    news
}

/// What is to be watched: what settings say, and what states name, in the namespaces that may be watched at all.
pub(super) fn wanted_kinds(settings: &Settings, declared: &Wanted) -> Vec<WantedKind> {
    let allowed = settings.scope();
    let declared =
        declared.kinds.iter().map(|kind| WantedKind { scope: kind.scope.within(&allowed), ..kind.clone() });
    settings.wanted_kinds().into_iter().chain(declared.filter(|kind| !kind.scope.is_empty())).collect()
}

/// Where states are looked for.
pub(super) fn state_sources(settings: &Settings) -> StateSources {
    let from = &settings.terraform;
    StateSources {
        enabled: settings.sources.contains(&Source::Terraform),
        scope: from.scope.clone(),
        files: from.files.clone(),
        lock_max_age: from.lock_max_age,
        here: from.this_cluster,
        prefix: settings.annotation_prefix.clone(),
    }
}

/// Where releases are looked for.
pub(super) fn release_sources(settings: &Settings) -> ReleaseSources {
    ReleaseSources {
        enabled: settings.sources.contains(&Source::Helm),
        scope: settings.helm.scope.clone(),
        pending_max_age: settings.helm.pending_max_age,
    }
}

/// Where manifests are looked for.
pub(super) fn manifest_sources(settings: &Settings) -> ManifestSources {
    ManifestSources {
        enabled: settings.sources.contains(&Source::Manifest),
        paths: settings.manifest.paths.clone(),
        namespace: settings.manifest.namespace.clone(),
    }
}

/// What has to be read of objects for these rules, for the series and for what states declare.
pub(super) fn reading(
    settings: &Settings,
    rules: &RuleSet,
    declared: &Wanted,
    key: &RedactionKey,
) -> DecodeConfig {
    let shown = settings.shown_labels.iter().map(|label| label.key.clone());
    let label_names: BTreeSet<Box<str>> = rules.label_names().iter().cloned().chain(shown).collect();
    DecodeConfig {
        annotation_prefix: settings.annotation_prefix.clone(),
        label_names: label_names.into_iter().collect(),
        mutes: settings.mute_by_annotation,
        ignores_stamps: !settings.sources.contains(&Source::Annotation),
        documents: declared.documents.clone(),
        applied: settings
            .sources
            .contains(&Source::LastApplied)
            .then(|| Arc::new(RedactionPolicy::new(key.clone()))),
        records: settings.records_in_use().into(),
        jobs: settings.jobs_in_use(),
    }
}

/// Whether whoever reads like this reads all that is wanted.
fn reads(current: &DecodeConfig, wanted: &DecodeConfig) -> bool {
    current.annotation_prefix == wanted.annotation_prefix
        && current.mutes == wanted.mutes
        && current.ignores_stamps == wanted.ignores_stamps
        && wanted.documents.iter().all(|(kind, sealing)| current.documents.get(kind) == Some(sealing))
        && current.applied == wanted.applied
        && current.records == wanted.records
        && current.jobs == wanted.jobs
        && wanted.label_names.iter().all(|name| current.label_names.binary_search(name).is_ok())
}

fn allows(settings: &Settings, from: &TeamRulesFrom, namespace: &str) -> bool {
    from.scope.has(namespace) && settings.allows_namespace(namespace)
}

/// Whether a team's rules can be used beside the others of its namespace. A team is tried alone: nothing that it writes
/// can touch another one's.
fn check(others: &[TeamRules], new: &TeamRules) -> Result<(), Vec<String>> {
    let count: usize = others.iter().map(|team| team.rules.len()).sum::<usize>() + new.rules.len();
    if count > MOST_RULES {
        return Err(vec![format!(
            "{count} rules in one namespace are too many; at most {MOST_RULES} can hold"
        )]);
    }
    let teams = others.iter().chain([new]).cloned().collect();
    match RuleSet::compile(&RuleInput { teams, ..RuleInput::default() }) {
        Ok(_) => Ok(()),
        Err(found) => Err(found.iter().map(ToString::to_string).collect()),
    }
}
