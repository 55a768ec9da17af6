//! Reads the rules that the owners of namespaces keep in ConfigMaps there.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, api::ListParams};
use tokio::{sync::watch, time::timeout};

use crate::{
    model::Scope,
    rules::{RuleSpec, TeamRules},
    settings::{Settings, TeamRulesFrom},
};

/// How often the ConfigMaps are read. They are few and small, and a list cannot stall unseen as a watch can.
const LOOK: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(20);
/// The key of a ConfigMap that holds rules.
const KEY: &str = "rules.yaml";

/// What teams say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Teams {
    /// The rules that could be read, of each namespace.
    pub(super) rules: Vec<TeamRules>,
    /// What could not.
    pub(super) problems: Vec<String>,
}

/// Follows what teams say.
pub(super) struct TeamReader {
    pub(super) client: Client,
    pub(super) settings: watch::Receiver<Arc<Settings>>,
    pub(super) teams: watch::Sender<Arc<Teams>>,
}

impl std::fmt::Debug for TeamReader {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TeamReader").finish_non_exhaustive()
    }
}

impl TeamReader {
    /// Reads again and again, as long as settings allow it; else waits until they do.
    pub(super) async fn run(mut self) {
        loop {
            let settings = self.settings.borrow_and_update().clone();
            let teams = match &settings.team_rules {
                Some(from) => self.read(&settings, from).await,
                None => Teams::default(),
            };
            self.teams.send_if_modified(|own| {
                let news = **own != teams;
                *own = Arc::new(teams);
                news
            });
            let next = async {
                match settings.team_rules {
                    Some(_) => tokio::time::sleep(LOOK).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = next => {}
                changed = self.settings.changed() => if changed.is_err() {
                    return std::future::pending().await;
                }
            }
        }
    }

    /// What all teams say. Where a namespace cannot be asked, what it said before goes on holding.
    async fn read(&self, settings: &Settings, from: &TeamRulesFrom) -> Teams {
        let mut teams = Teams::default();
        let selected = ListParams::default().labels(&from.selector.to_string());
        for namespace in places(&from.scope.within(&settings.scope())) {
            let maps: Api<ConfigMap> = match namespace {
                Some(name) => Api::namespaced(self.client.clone(), name),
                None => Api::all(self.client.clone()),
            };
            let why = match timeout(PATIENCE, maps.list(&selected)).await {
                Ok(Ok(list)) => {
                    take(list.items, from, settings, &mut teams);
                    continue;
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("the API server did not answer within {PATIENCE:?}"),
            };
            let place = namespace.unwrap_or("all namespaces");
            teams.problems.push(format!("the rules of {place} cannot be read, the last ones hold: {why}"));
            let before = self.teams.borrow().clone();
            let own = |rules: &&TeamRules| namespace.is_none_or(|name| *rules.namespace == *name);
            teams.rules.extend(before.rules.iter().filter(own).cloned());
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

/// Takes the rules of some ConfigMaps; those of one namespace stand together, by the names of its ConfigMaps.
fn take(mut maps: Vec<ConfigMap>, from: &TeamRulesFrom, settings: &Settings, teams: &mut Teams) {
    let place = |map: &ConfigMap| {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        (text(&map.metadata.namespace), text(&map.metadata.name))
    };
    maps.sort_by_key(place);
    for map in maps {
        let (namespace, name) = place(&map);
        if !from.scope.has(&namespace) || !settings.allows_namespace(&namespace) {
            continue;
        }
        let text = map.data.as_ref().and_then(|data| data.get(KEY));
        let rules = match text.map(|text| serde_saphyr::from_str::<Vec<RuleSpec>>(text)) {
            Some(Ok(rules)) => rules,
            Some(Err(error)) => {
                teams
                    .problems
                    .push(format!("ConfigMap {namespace}/{name}, {KEY}: {}", error.without_snippet()));
                continue;
            }
            None => {
                teams.problems.push(format!("ConfigMap {namespace}/{name} has no key {KEY}"));
                continue;
            }
        };
        match teams.rules.iter_mut().find(|own| *own.namespace == *namespace) {
            Some(own) => own.rules.extend(rules),
            None => teams.rules.push(TeamRules { namespace: namespace.into(), rules }),
        }
    }
}
