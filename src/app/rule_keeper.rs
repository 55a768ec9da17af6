//! Keeps what follows from the settings, from what teams say and from what states declare: the rules, what is read, and where.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures_util::future::select_all;
use tokio::{
    sync::watch::{self, error::RecvError},
    time::{Instant, sleep_until},
};
use tracing::warn;

use super::team_rules::{MapName, Teams};
use crate::{
    config::{Settings, TeamRulesFrom},
    rules::{RuleInput, RuleSet, TeamRules},
    sources::{Declares, Wanted, helm::ReleaseSources, manifest::ManifestSources, terraform::StateSources},
    types::{RedactionKey, RedactionPolicy, Source, WantedKind},
    watch::DecodeConfig,
};

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
