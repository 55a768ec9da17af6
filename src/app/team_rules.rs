//! The rules that teams keep in ConfigMaps in their namespaces: reads them, and compiles them with those of
//! the settings.

use std::{collections::BTreeMap, future, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{ListParams, ObjectMeta},
};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use crate::{
    config::{
        ConfigProblem, LimitExceeded, NamespaceLimits, RuntimeConfig, Settings, TeamRulesSettings, read_yaml,
    },
    rules::{RuleConfig, RuleProblem, RuleSet, RuleSpec, TeamRules},
    types::{DownReason, NamespacedName, Scope},
    watch::{ApiError, config_changed, request_with_timeout},
};

/// The interval at which the ConfigMaps of teams are listed. They are few and small, and unlike a watch, a
/// list cannot stall unnoticed.
const LIST_INTERVAL: Duration = Duration::from_secs(5);
const LIST_TIMEOUT: Duration = Duration::from_secs(20);
const FIRST_LIST_TIMEOUT: Duration = Duration::from_secs(5);
const RULES_KEY: &str = "rules.yaml";
/// An object may have 256 KiB of metadata.
const PAGE_SIZE: u32 = 50;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TeamConfig {
    config_maps: BTreeMap<NamespacedName, TeamConfigMap>,
    /// The limits when they were read.
    limits: NamespaceLimits,
    /// Why some ConfigMaps could not be listed.
    problems: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct TeamConfigMap {
    resource_version: Box<str>,
    /// The last valid ones.
    rules: Vec<RuleSpec>,
    /// The length of their text.
    bytes: usize,
    /// Why newer rules are invalid.
    problem: Option<ConfigMapError>,
}

/// What the accepted ConfigMaps of one namespace take of its limits.
#[derive(Clone, Copy, Debug, Default)]
struct NamespaceShare {
    rules: usize,
    bytes: usize,
}

impl NamespaceShare {
    /// A ConfigMap counts as at least one rule, so that the number of ConfigMaps is limited, too.
    fn with(self, rules: usize, bytes: usize) -> Self {
        Self { rules: self.rules + rules.max(1), bytes: self.bytes + bytes }
    }

    fn check(self, limits: &NamespaceLimits) -> Result<(), LimitExceeded> {
        if self.rules > limits.rules {
            return Err(limits.rules_exceeded());
        }
        if self.bytes > limits.rule_bytes { Err(limits.rule_bytes_exceeded()) } else { Ok(()) }
    }
}

/// Why a ConfigMap has no rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum ConfigMapError {
    #[error("it has no key {RULES_KEY}")]
    NoRules,
    #[error("{RULES_KEY}: {0}")]
    Yaml(#[source] ConfigProblem),
    #[error("{RULES_KEY}: {0}")]
    TooLarge(#[from] LimitExceeded),
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
            && let Ok(teams) = timeout(FIRST_LIST_TIMEOUT, self.read(&settings, from)).await
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
                sleep(LIST_INTERVAL).await;
            };
            // Changed settings interrupt a read and the interval.
            tokio::select! {
                () = read => {}
                () = config_changed(&mut config, |config| !Arc::ptr_eq(&config.settings, &settings)) => {}
            }
        }
    }

    /// Lists the ConfigMaps of all teams. If the list of a namespace fails, its rules stay as they are.
    async fn read(&self, settings: &Settings, from: &TeamRulesSettings) -> TeamConfig {
        let previous = self.teams.borrow().clone();
        let limits = settings.limits.namespace;
        let mut teams = TeamConfig { limits, ..TeamConfig::default() };
        for namespace in list_namespaces(&from.scope.within(&settings.scope())) {
            let selector = from.selector.to_string();
            let list =
                TeamRuleList { client: &self.client, namespace, selector, previous: &previous, limits };
            match list.read().await {
                Ok((config_maps, excess)) => {
                    teams.config_maps.extend(config_maps);
                    teams.problems.extend(excess.into_iter().map(|(namespace, count)| {
                        let (max, setting) = (limits.rules, "limits.namespace.rules");
                        format!("namespace {namespace} has more than {max} ConfigMaps with team rules, and {count} of them are not read; delete some, or raise {setting}")
                    }));
                }
                Err(error) => {
                    teams.problems.push(list_problem(namespace, &error));
                    teams.config_maps.extend(list.previous());
                }
            }
        }
        teams
    }
}

/// The version of each ConfigMap, and how many others each namespace has.
#[derive(Debug, Default)]
struct ListedConfigMaps {
    versions: BTreeMap<NamespacedName, Box<str>>,
    excess: BTreeMap<Box<str>, usize>,
}

/// The ConfigMaps of one namespace, or of all namespaces.
struct TeamRuleList<'a> {
    client: &'a Client,
    namespace: Option<&'a str>,
    selector: String,
    previous: &'a TeamConfig,
    limits: NamespaceLimits,
}

impl TeamRuleList<'_> {
    /// Lists metadata, and reads the ConfigMaps that changed one at a time, so that only one text is in memory. If any
    /// changed, rejected ones are read again, because their namespace may have room for them now. Also returns how many
    /// ConfigMaps of each namespace are not read.
    async fn read(
        &self,
    ) -> Result<(BTreeMap<NamespacedName, TeamConfigMap>, BTreeMap<Box<str>, usize>), ApiError> {
        let previous: BTreeMap<NamespacedName, TeamConfigMap> = self.previous().collect();
        let ListedConfigMaps { versions: listed, excess } = self.list(&previous).await?;
        let same_limits = self.previous.limits == self.limits;
        let known = |name: &NamespacedName, version: &str| {
            previous.get(name).filter(|known| same_limits && *known.resource_version == *version)
        };
        let mut names = listed.iter();
        if listed.len() == previous.len() && names.all(|(name, version)| known(name, version).is_some()) {
            return Ok((previous, excess));
        }
        let (mut config_maps, mut changed) = (BTreeMap::new(), Vec::new());
        let mut turns: BTreeMap<Box<str>, usize> = BTreeMap::new();
        let mut shares: BTreeMap<Box<str>, NamespaceShare> = BTreeMap::new();
        for (name, version) in listed {
            let Some(known) = known(&name, &version).filter(|known| known.problem.is_none()) else {
                let turn = turns.entry(name.namespace.clone()).or_default();
                *turn += 1;
                changed.push((*turn, name, version));
                continue;
            };
            let share = shares.entry(name.namespace.clone()).or_default();
            *share = share.with(known.rules.len(), known.bytes);
            config_maps.insert(name, known.clone());
        }
        // Namespaces take turns.
        changed.sort_by_key(|(turn, ..)| *turn);
        for (_, name, version) in changed {
            let share = shares.entry(name.namespace.clone()).or_default();
            let known = previous.get(&name);
            if let Some(config_map) = self.read_changed(&name, version, known, share).await? {
                config_maps.insert(name, config_map);
            }
        }
        Ok((config_maps, excess))
    }

    /// Lists as many ConfigMaps of each namespace as it may have rules, and those with rules that are in use.
    async fn list(
        &self,
        previous: &BTreeMap<NamespacedName, TeamConfigMap>,
    ) -> Result<ListedConfigMaps, ApiError> {
        let mut listed = ListedConfigMaps::default();
        let mut counts: BTreeMap<Box<str>, usize> = BTreeMap::new();
        let mut params = ListParams::default().labels(&self.selector).limit(PAGE_SIZE);
        let api = self.api(self.namespace);
        loop {
            let page = request_with_timeout(LIST_TIMEOUT, api.list_metadata(&params)).await?;
            for (name, version) in page.items.into_iter().map(|object| name_and_version(object.metadata)) {
                let has_rules = previous.get(&name).is_some_and(|known| !known.rules.is_empty());
                let count = counts.entry(name.namespace.clone()).or_default();
                if *count < self.limits.rules || has_rules {
                    *count += 1;
                    listed.versions.insert(name, version);
                } else {
                    *listed.excess.entry(name.namespace).or_default() += 1;
                }
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(listed),
            }
        }
    }

    /// The ConfigMaps of an earlier list.
    fn previous(&self) -> impl Iterator<Item = (NamespacedName, TeamConfigMap)> {
        let previous = self.previous.config_maps.iter();
        let previous = previous.filter(|(name, _)| self.namespace.is_none_or(|own| *name.namespace == *own));
        previous.map(|(name, config_map)| (name.clone(), config_map.clone()))
    }

    /// `None` if the ConfigMap was deleted meanwhile. A rejected one keeps its last valid rules if they are within the limits.
    async fn read_changed(
        &self,
        name: &NamespacedName,
        version: Box<str>,
        known: Option<&TeamConfigMap>,
        share: &mut NamespaceShare,
    ) -> Result<Option<TeamConfigMap>, ApiError> {
        let mut new = TeamConfigMap { resource_version: version, ..TeamConfigMap::default() };
        // Without room for a single rule, the text is not read.
        let accepted = if let Err(exceeded) = share.with(0, 0).check(&self.limits) {
            Err(exceeded.into())
        } else {
            let Some(config_map) = self.get(name).await? else { return Ok(None) };
            new.resource_version = config_map.metadata.resource_version.unwrap_or_default().into();
            let text = config_map.data.as_ref().and_then(|data| data.get(RULES_KEY));
            text.ok_or(ConfigMapError::NoRules).and_then(|text| self.parse(text, *share))
        };
        match accepted {
            Ok((rules, bytes)) => (new.rules, new.bytes) = (rules, bytes),
            Err(error) => {
                new.problem = Some(error);
                let is_within = |known: &&TeamConfigMap| {
                    share.with(known.rules.len(), known.bytes).check(&self.limits).is_ok()
                };
                if let Some(known) = known.filter(is_within) {
                    (new.rules, new.bytes) = (known.rules.clone(), known.bytes);
                }
            }
        }
        *share = share.with(new.rules.len(), new.bytes);
        Ok(Some(new))
    }

    /// Parses rules that fit into the limits of their namespace.
    fn parse(&self, text: &str, share: NamespaceShare) -> Result<(Vec<RuleSpec>, usize), ConfigMapError> {
        share.with(0, text.len()).check(&self.limits)?;
        let rules: Vec<RuleSpec> = read_yaml(text).map_err(ConfigMapError::Yaml)?;
        share.with(rules.len(), text.len()).check(&self.limits)?;
        Ok((rules, text.len()))
    }

    /// One ConfigMap, by a list: the permission to list is enough.
    async fn get(&self, name: &NamespacedName) -> Result<Option<ConfigMap>, ApiError> {
        let field = format!("metadata.name={}", name.name);
        let params = ListParams::default().labels(&self.selector).fields(&field);
        let found = request_with_timeout(LIST_TIMEOUT, self.api(Some(&name.namespace)).list(&params)).await?;
        Ok(found.items.into_iter().next())
    }

    fn api(&self, namespace: Option<&str>) -> Api<ConfigMap> {
        match namespace {
            Some(name) => Api::namespaced(self.client.clone(), name),
            None => Api::all(self.client.clone()),
        }
    }
}

fn name_and_version(metadata: ObjectMeta) -> (NamespacedName, Box<str>) {
    let text = |value: Option<String>| value.unwrap_or_default().into();
    let name = NamespacedName { namespace: text(metadata.namespace), name: text(metadata.name) };
    (name, text(metadata.resource_version))
}

fn list_problem(namespace: Option<&str>, error: &ApiError) -> String {
    let place = namespace.unwrap_or("all namespaces");
    let hint = if error.down_reason() == DownReason::Forbidden {
        "; grant this permission (`drift-exporter check` lists all that are required)"
    } else {
        ""
    };
    format!("cannot read the rules of {place}, the last ones stay in use: {error}{hint}")
}

/// The namespaces to list one by one; none for one list of all namespaces.
fn list_namespaces(scope: &Scope) -> Vec<Option<&str>> {
    match scope {
        Scope::AllExcept(_) => vec![None],
        Scope::In(names) => names.iter().map(|name| Some(&**name)).collect(),
    }
}

/// Compiles the rules of the settings and of all teams.
#[derive(Debug)]
pub(super) struct RuleCompiler {
    /// The last valid rules of each ConfigMap.
    valid_teams: BTreeMap<NamespacedName, TeamRules>,
    last: CompiledRules,
}

/// A set of rules, and what it was compiled from.
#[derive(Debug)]
struct CompiledRules {
    settings: Arc<RuleSet>,
    teams: Vec<TeamRules>,
    rules: Arc<RuleSet>,
    problems: Vec<RuleProblem>,
}

impl RuleCompiler {
    /// The first rules are those of the settings.
    pub(super) fn new(settings: Arc<RuleSet>) -> Self {
        let (rules, teams, problems) = (settings.clone(), Vec::new(), Vec::new());
        let last = CompiledRules { settings, teams, rules, problems };
        Self { valid_teams: BTreeMap::new(), last }
    }

    /// Compiles the rules of the settings and of all teams. The same rules stay the same set: the engine rates
    /// everything again by another one.
    pub(super) fn compile(&mut self, settings: &Settings, teams: &TeamConfig) -> (Arc<RuleSet>, Vec<String>) {
        let (teams, mut problems) = self.valid_rules(settings, teams);
        if !Arc::ptr_eq(&self.last.settings, &settings.rules) || self.last.teams != teams {
            self.last = CompiledRules::new(settings, teams);
        }
        problems.extend(self.last.problems.iter().map(ToString::to_string));
        (self.last.rules.clone(), problems)
    }

    /// The rules of each team, and why some are missing. Invalid rules of one team do not affect others: the
    /// team keeps the last valid rules of its ConfigMap.
    fn valid_rules(&mut self, settings: &Settings, teams: &TeamConfig) -> (Vec<TeamRules>, Vec<String>) {
        let Some(from) = &settings.team_rules else {
            self.valid_teams.clear();
            return (Vec::new(), Vec::new());
        };
        let is_allowed = |namespace: &str| from.scope.has(namespace) && settings.allows_namespace(namespace);
        let invalid = teams.config_maps.iter().filter_map(|(name, config_map)| {
            config_map.problem.as_ref().map(|error| format!("ConfigMap {name}: {error}"))
        });
        let mut problems: Vec<String> = teams.problems.iter().cloned().chain(invalid).collect();
        let (mut rules, mut valid_teams): (Vec<TeamRules>, _) = (Vec::new(), BTreeMap::new());
        for (name, config_map) in teams.config_maps.iter().filter(|(name, _)| is_allowed(&name.namespace)) {
            let same_namespace: Vec<TeamRules> =
                rules.iter().filter(|team| team.namespace == name.namespace).cloned().collect();
            let new = TeamRules { namespace: name.namespace.clone(), rules: config_map.rules.clone() };
            let valid = match validate_team(&same_namespace, &new) {
                Ok(()) => Some(new),
                Err(errors) => {
                    problems.extend(errors.into_iter().map(|error| format!("ConfigMap {name}: {error}")));
                    let last = self.valid_teams.remove(name);
                    last.filter(|last| validate_team(&same_namespace, last).is_ok())
                }
            };
            if let Some(valid) = valid {
                valid_teams.insert(name.clone(), valid.clone());
                rules.push(valid);
            }
        }
        self.valid_teams = valid_teams;
        (rules, problems)
    }
}

impl CompiledRules {
    /// The rules of the settings alone if they do not go together with those of the teams.
    fn new(settings: &Settings, teams: Vec<TeamRules>) -> Self {
        let mut compiled = Self {
            settings: settings.rules.clone(),
            rules: settings.rules.clone(),
            teams,
            problems: Vec::new(),
        };
        if !compiled.teams.is_empty() {
            let teams = compiled.teams.clone();
            match RuleSet::compile(&RuleConfig { teams, ..RuleConfig::clone(&settings.rule_config) }) {
                Ok(rules) => compiled.rules = Arc::new(rules),
                Err(problems) => compiled.problems = problems,
            }
        }
        compiled
    }
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
fn validate_team(same_namespace: &[TeamRules], new: &TeamRules) -> Result<(), Vec<RuleProblem>> {
    let teams = same_namespace.iter().chain([new]).cloned().collect();
    RuleSet::compile(&RuleConfig { teams, ..RuleConfig::default() }).map(drop)
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::{ApiError, NamespacedName, TeamConfig, TeamConfigMap, list_problem, read_yaml};

    impl TeamConfig {
        /// One ConfigMap with these rules.
        pub(in crate::app) fn of_config_map(namespace: &str, name: &str, rules: &str) -> Self {
            let name = NamespacedName { namespace: namespace.into(), name: name.into() };
            let config_map = TeamConfigMap { rules: read_yaml(rules).unwrap(), ..TeamConfigMap::default() };
            Self { config_maps: [(name, config_map)].into(), ..Self::default() }
        }

        pub(in crate::app) fn with_problem(self, problem: &str) -> Self {
            Self { problems: vec![problem.to_owned()], ..self }
        }
    }

    #[test]
    fn forbidden_list_names_the_missing_permission() {
        let message =
            "configmaps is forbidden: User \"drift\" cannot list resource \"configmaps\"".to_owned();
        let error = ApiError::Status { status: StatusCode::FORBIDDEN, message, retry_after: None };
        assert_eq!(
            list_problem(Some("shop"), &error),
            "cannot read the rules of shop, the last ones stay in use: the server answered 403 Forbidden: \
             configmaps is forbidden: User \"drift\" cannot list resource \"configmaps\"; \
             grant this permission (`drift-exporter check` lists all that are required)"
        );
    }
}
