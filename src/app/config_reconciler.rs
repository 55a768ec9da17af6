//! Reconciles the settings, the rules of teams and the declared objects into the config of all other parts.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures_util::future::select_all;
use tokio::{
    sync::{
        mpsc,
        watch::{self, error::RecvError},
    },
    time::{Instant, sleep_until},
};
use tracing::warn;

use super::{
    declared_kinds::DeclaredKinds,
    team_rules::{RuleCompiler, TeamConfig},
};
use crate::{
    config::{RuntimeConfig, Settings},
    event::{EngineConfig, Event},
    rules::RuleSet,
    sources::{KindRequirements, SourceDeclarations},
    types::{DecodeConfig, RedactionKey, RedactionPolicy, Source, WantedKind, WatchConfig},
    watch::config_changed,
};

/// If a team's rules need another label, all objects are listed again. This is the shortest time between two
/// such relists.
const TEAM_RELIST_INTERVAL: Duration = Duration::from_secs(30);

/// Derives the config of all other parts from the settings, the rules of teams and the declared objects,
/// whenever one of these changes.
#[derive(Debug)]
pub(super) struct ConfigReconciler {
    inputs: ConfigInputs,
    /// The settings that were last reconciled.
    settings: Arc<Settings>,
    /// The config that the engine has.
    engine_config: Arc<EngineConfig>,
    rule_compiler: RuleCompiler,
    /// When team rules may cause the next relist.
    next_team_relist: Instant,
    declared: DeclaredKinds,
    /// When changes that wait may be applied.
    retry_at: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct ConfigInputs {
    /// Contains the settings, and receives the config that is derived from them.
    pub(super) config: watch::Sender<Arc<RuntimeConfig>>,
    pub(super) teams: watch::Receiver<Arc<TeamConfig>>,
    /// The objects that each source declares, once it has been read.
    pub(super) declared: Vec<watch::Receiver<Arc<SourceDeclarations>>>,
    pub(super) redaction_key: RedactionKey,
    /// Receives the config of the engine.
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
            engine_config: Arc::new(engine_config(&settings, settings.rules.clone())),
            rule_compiler: RuleCompiler::new(settings.rules.clone()),
            settings,
            inputs,
            next_team_relist: Instant::now(),
            declared: DeclaredKinds::default(),
            retry_at: None,
        }
    }

    /// The config with which the engine starts.
    pub(super) fn engine_config(&self) -> &Arc<EngineConfig> {
        &self.engine_config
    }

    pub(super) async fn run(mut self) {
        let mut config = self.inputs.config.subscribe();
        loop {
            let ConfigInputs { teams, declared, .. } = &mut self.inputs;
            let retry_at = self.retry_at.unwrap_or_else(Instant::now);
            tokio::select! {
                () = config_changed(&mut config, |config| !Arc::ptr_eq(&config.settings, &self.settings)) => {}
                Ok(()) = teams.changed() => {}
                Ok(()) = any_changed(declared) => {}
                () = sleep_until(retry_at), if self.retry_at.is_some() => {}
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
        let needed =
            KindRequirements::from_declarations(redaction_key, declared.iter().map(|declared| &**declared));
        let trusted =
            KindRequirements::from_trusted(redaction_key, declared.iter().map(|declared| &**declared));
        self.retry_at = self.declared.update(needed, trusted, Instant::now());
        let declared = self.declared.in_use();
        let (rules, problems) = self.rule_compiler.compile(&settings, &teams);
        // Before the runtime config: objects that are listed again because of it are rated by these rules, and claims that their new
        // versions end have the right cause.
        let engine_config = engine_config(&settings, rules.clone());
        if !self.engine_config.is_same(&engine_config) {
            self.engine_config = Arc::new(engine_config);
            // Fails only if the engine has stopped, and then everything ends.
            let _ = self.inputs.events.send(Event::Config(self.engine_config.clone())).await;
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
        if covers(&current, &needed) {
            return current;
        }
        let now = Instant::now();
        let only_teams_need_more = covers(&current, &without_teams);
        if only_teams_need_more {
            if now < self.next_team_relist {
                let at = self.next_team_relist;
                self.retry_at = Some(self.retry_at.map_or(at, |retry_at| retry_at.min(at)));
                return current;
            }
            self.next_team_relist = now + TEAM_RELIST_INTERVAL;
        }
        Arc::new(needed)
    }
}

fn engine_config(settings: &Settings, rules: Arc<RuleSet>) -> EngineConfig {
    let max_findings = Some(settings.limits.namespace.findings);
    EngineConfig { rules, sources: settings.sources.clone(), max_findings }
}

/// Waits until one of the values changes; an error if a sender is gone.
async fn any_changed(receivers: &mut [watch::Receiver<Arc<SourceDeclarations>>]) -> Result<(), RecvError> {
    select_all(receivers.iter_mut().map(|receiver| Box::pin(receiver.changed()))).await.0
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
        && needed
            .documents
            .iter()
            .all(|(kind, policy)| current.documents.get(kind).is_some_and(|current| current.covers(policy)))
        && current.last_applied == needed.last_applied
        && current.records == needed.records
        && current.jobs == needed.jobs
        && needed.label_names.iter().all(|name| current.label_names.binary_search(name).is_ok())
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::time::timeout;

    use super::{
        Arc, ConfigInputs, ConfigReconciler, Duration, Event, RedactionKey, RuleSet, RuntimeConfig, Settings,
        mpsc, watch,
    };
    use crate::{
        app::{SettingsHandle, team_rules::TeamConfig},
        config::{TeamRulesSettings, read_yaml},
        rules::RuleConfig,
        types::{Scope, Selector},
    };

    #[tokio::test(start_paused = true)]
    async fn engine_config_is_queued_before_the_config_that_lists_objects_again() {
        let (config, published) = watch::channel(Arc::new(RuntimeConfig::new(Settings::default())));
        let (events, mut queue) = mpsc::channel(1);
        let mut reconciler = ConfigReconciler::new(ConfigInputs {
            config: config.clone(),
            teams: watch::channel(Arc::default()).1,
            declared: Vec::new(),
            redaction_key: RedactionKey::of_process([1; 32]),
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
        assert!(reads_label() && matches!(queue.try_recv(), Ok(Event::Config(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn same_rules_of_teams_are_sent_once() {
        let selector = Selector::parse("drift=rules").unwrap();
        let team_rules = Some(TeamRulesSettings { scope: Scope::default(), selector });
        let settings = Settings { team_rules, ..Settings::default() };
        let (config, _published) = watch::channel(Arc::new(RuntimeConfig::new(settings)));
        let team = |rules: &str| TeamConfig::of_config_map("shop", "rules", rules);
        let image = "[{name: mine, match: {fields: [image]}, effect: ignore}]";
        let (teams, received) = watch::channel(Arc::new(team(image)));
        let (events, mut queue) = mpsc::channel(9);
        let mut reconciler = ConfigReconciler::new(ConfigInputs {
            config,
            teams: received,
            declared: Vec::new(),
            redaction_key: RedactionKey::of_process([1; 32]),
            events,
        });
        let mut sent = async |reconciler: &mut ConfigReconciler| {
            reconciler.reconcile().await;
            std::iter::from_fn(|| queue.try_recv().ok()).count()
        };
        assert_eq!(sent(&mut reconciler).await, 1);
        assert_eq!(sent(&mut reconciler).await, 0, "a state changed, the rules did not");
        teams.send_replace(Arc::new(team(image).with_problem("cannot read the rules of attic")));
        assert_eq!(sent(&mut reconciler).await, 0, "the rules of no team changed");
        teams.send_replace(Arc::new(team("[{name: mine, match: {fields: [env]}, effect: ignore}]")));
        assert_eq!(sent(&mut reconciler).await, 1);
        teams.send_replace(Arc::default());
        assert_eq!(sent(&mut reconciler).await, 1, "the rules of the settings alone");
        assert_eq!(sent(&mut reconciler).await, 0);
    }
}
