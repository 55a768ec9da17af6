//! Reads the rules that the owners of namespaces keep in ConfigMaps there.

use std::{fmt, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, api::ListParams};
use tokio::{sync::watch, time::timeout};

use crate::{
    config::{Settings, TeamRulesFrom, read_yaml},
    rules::RuleSpec,
    types::Scope,
};

/// How often the ConfigMaps are read. They are few and small, and a list cannot stall unseen as a watch can.
const LOOK: Duration = Duration::from_secs(5);
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
                tokio::time::sleep(LOOK).await;
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
