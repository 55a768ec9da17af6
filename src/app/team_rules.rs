//! The rules that teams keep in ConfigMaps in their namespaces: reads them, and compiles them with those of
//! the settings.

use std::{collections::BTreeMap, fmt, future, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, api::ListParams};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use crate::{
    config::{
        ConfigProblem, LimitExceeded, NamespaceLimits, RuntimeConfig, Settings, TeamRulesSettings, read_yaml,
    },
    rules::{RuleConfig, RuleProblem, RuleSet, RuleSpec, TeamRules},
    types::{DownReason, Scope},
    watch::{ApiError, config_changed, request_with_timeout},
};

/// The interval at which the ConfigMaps of teams are listed. They are few and small, and unlike a watch, a
/// list cannot stall unnoticed.
const LIST_INTERVAL: Duration = Duration::from_secs(5);
const LIST_TIMEOUT: Duration = Duration::from_secs(20);
const FIRST_LIST_TIMEOUT: Duration = Duration::from_secs(5);
const RULES_KEY: &str = "rules.yaml";
/// A ConfigMap has up to 1 MiB, and is in memory as JSON and as a text.
const PAGE_SIZE: u32 = 3;

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

/// Why a ConfigMap has no rules.
#[derive(Debug, thiserror::Error)]
enum ConfigMapError {
    #[error("it has no key {RULES_KEY}")]
    NoRules,
    #[error("{RULES_KEY}: {0}")]
    Yaml(#[source] ConfigProblem),
    #[error("{RULES_KEY}: {0}")]
    TooLarge(#[source] LimitExceeded),
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
        let mut teams = TeamConfig::default();
        let selector = from.selector.to_string();
        for namespace in list_namespaces(&from.scope.within(&settings.scope())) {
            let api: Api<ConfigMap> = match namespace {
                Some(name) => Api::namespaced(self.client.clone(), name),
                None => Api::all(self.client.clone()),
            };
            let mut listed = TeamConfig::default();
            let Err(error) = listed.add_all(&api, &selector, &previous, &settings.limits.namespace).await
            else {
                teams.config_maps.append(&mut listed.config_maps);
                teams.problems.append(&mut listed.problems);
                continue;
            };
            teams.problems.push(list_problem(namespace, &error));
            let is_listed =
                |known: &&TeamConfigMap| namespace.is_none_or(|name| *known.name.namespace == *name);
            teams.config_maps.extend(previous.config_maps.iter().filter(is_listed).cloned());
        }
        teams
    }
}

impl TeamConfig {
    /// Lists ConfigMaps page by page, so that few texts are in memory at once.
    async fn add_all(
        &mut self,
        api: &Api<ConfigMap>,
        selector: &str,
        previous: &Self,
        limits: &NamespaceLimits,
    ) -> Result<(), ApiError> {
        let mut params = ListParams::default().labels(selector).limit(PAGE_SIZE);
        loop {
            let page = request_with_timeout(LIST_TIMEOUT, api.list(&params)).await?;
            self.add(page.items, previous, limits);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => break,
            }
        }
        self.config_maps.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(())
    }

    /// Adds ConfigMaps. An invalid one keeps its previous rules.
    fn add(&mut self, config_maps: Vec<ConfigMap>, previous: &Self, limits: &NamespaceLimits) {
        for config_map in config_maps {
            let text = |value: Option<String>| value.unwrap_or_default().into();
            let metadata = config_map.metadata;
            let name = ConfigMapName { namespace: text(metadata.namespace), name: text(metadata.name) };
            let rules = match config_map.data.as_ref().and_then(|data| data.get(RULES_KEY)) {
                Some(text) => read_rules(text, limits),
                None => Err(ConfigMapError::NoRules),
            };
            match rules {
                Ok(rules) => self.config_maps.push(TeamConfigMap { name, rules }),
                Err(error) => {
                    self.problems.push(format!("{name}: {error}"));
                    let known = previous.config_maps.iter().find(|known| known.name == name);
                    self.config_maps.extend(known.cloned());
                }
            }
        }
    }
}

fn read_rules(text: &str, limits: &NamespaceLimits) -> Result<Vec<RuleSpec>, ConfigMapError> {
    if text.len() > limits.rule_bytes {
        return Err(ConfigMapError::TooLarge(limits.rule_bytes_exceeded()));
    }
    let rules: Vec<RuleSpec> = read_yaml(text).map_err(ConfigMapError::Yaml)?;
    if rules.len() > limits.rules {
        return Err(ConfigMapError::TooLarge(limits.rules_exceeded()));
    }
    Ok(rules)
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
    valid_teams: BTreeMap<ConfigMapName, TeamRules>,
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
        let mut problems = teams.problems.clone();
        let (mut rules, mut valid_teams): (Vec<TeamRules>, _) = (Vec::new(), BTreeMap::new());
        for config_map in teams.config_maps.iter().filter(|known| is_allowed(&known.name.namespace)) {
            let namespace = &config_map.name.namespace;
            let same_namespace: Vec<TeamRules> =
                rules.iter().filter(|team| team.namespace == *namespace).cloned().collect();
            let new = TeamRules { namespace: namespace.clone(), rules: config_map.rules.clone() };
            let limits = &settings.limits.namespace;
            let valid = match validate_team(&same_namespace, &new, limits) {
                Ok(()) => Some(new),
                Err(errors) => {
                    problems.extend(errors.into_iter().map(|error| format!("{}: {error}", config_map.name)));
                    let last = self.valid_teams.remove(&config_map.name);
                    last.filter(|last| validate_team(&same_namespace, last, limits).is_ok())
                }
            };
            if let Some(valid) = valid {
                valid_teams.insert(config_map.name.clone(), valid.clone());
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

#[derive(Debug, thiserror::Error)]
enum TeamRulesError {
    #[error("{0}")]
    TooMany(#[source] LimitExceeded),
    #[error("{0}")]
    Rule(#[source] RuleProblem),
}

/// Validates the rules of one ConfigMap together with others of the same namespace. Rules of other namespaces
/// cannot conflict with them.
fn validate_team(
    same_namespace: &[TeamRules],
    new: &TeamRules,
    limits: &NamespaceLimits,
) -> Result<(), Vec<TeamRulesError>> {
    let count = same_namespace.iter().chain([new]).map(|team| team.rules.len()).sum::<usize>();
    if count > limits.rules {
        return Err(vec![TeamRulesError::TooMany(limits.rules_exceeded())]);
    }
    let teams = same_namespace.iter().chain([new]).cloned().collect();
    match RuleSet::compile(&RuleConfig { teams, ..RuleConfig::default() }) {
        Ok(_) => Ok(()),
        Err(problems) => Err(problems.into_iter().map(TeamRulesError::Rule).collect()),
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::{ApiError, ConfigMapName, TeamConfig, TeamConfigMap, list_problem, read_yaml};

    impl TeamConfig {
        /// One ConfigMap with these rules.
        pub(in crate::app) fn of_config_map(namespace: &str, name: &str, rules: &str) -> Self {
            let name = ConfigMapName { namespace: namespace.into(), name: name.into() };
            let config_map = TeamConfigMap { name, rules: read_yaml(rules).unwrap() };
            Self { config_maps: vec![config_map], problems: Vec::new() }
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
