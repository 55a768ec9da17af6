//! Keeps the rules as the settings and the teams say.

use std::{collections::BTreeSet, sync::Arc};

use tokio::sync::watch;
use tracing::warn;

use super::team_rules::Teams;
use crate::{
    rules::{RuleInput, RuleSet, TeamRules},
    settings::Settings,
    watch::Reading,
};

/// Puts rules together whenever settings or teams change theirs.
#[derive(Debug)]
pub(super) struct RuleKeeper {
    pub(super) settings: watch::Receiver<Arc<Settings>>,
    pub(super) teams: watch::Receiver<Arc<Teams>>,
    /// The rules that hold.
    pub(super) rules: watch::Sender<Arc<RuleSet>>,
    /// What has to be read of objects for these rules.
    pub(super) readings: watch::Sender<Arc<Reading>>,
    /// What is wrong with what teams wrote.
    pub(super) problems: watch::Sender<Arc<[String]>>,
}

impl RuleKeeper {
    /// Follows settings and teams for ever.
    pub(super) async fn run(mut self) {
        loop {
            tokio::select! {
                Ok(()) = self.settings.changed() => {}
                Ok(()) = self.teams.changed() => {}
                // Nobody will change anything any more.
                else => return std::future::pending().await,
            }
            self.renew();
        }
    }

    fn renew(&mut self) {
        let settings = self.settings.borrow_and_update().clone();
        let teams = self.teams.borrow_and_update().clone();
        let (rules, problems) = with_teams(&settings, &teams);
        let reading = reading(&settings, &rules);
        // More is read before it is asked for: a rule about labels never finds an object without the labels it has.
        self.readings.send_if_modified(|own| {
            let news = **own != reading;
            *own = Arc::new(reading);
            news
        });
        self.rules.send_replace(rules);
        self.problems.send_if_modified(|own| {
            let news = **own != *problems;
            if news {
                problems.iter().for_each(|problem| warn!("{problem}"));
                *own = problems.into();
            }
            news
        });
    }
}

/// What has to be read of objects for these rules and for the series.
pub(super) fn reading(settings: &Settings, rules: &RuleSet) -> Reading {
    let shown = settings.shown_labels.iter().map(|label| label.key.clone());
    let label_names: BTreeSet<Box<str>> = rules.label_names().iter().cloned().chain(shown).collect();
    Reading {
        annotation_prefix: settings.annotation_prefix.clone(),
        label_names: label_names.into_iter().collect(),
        mutes: settings.mute_by_annotation,
    }
}

/// The rules of the settings with those of every team that can be used. A team's mistakes are its own: the others' rules
/// hold all the same.
fn with_teams(settings: &Settings, teams: &Teams) -> (Arc<RuleSet>, Vec<String>) {
    let mut problems = teams.problems.clone();
    let mut input = RuleInput::clone(&settings.rule_input);
    let mut rules = settings.rules.clone();
    for team in &teams.rules {
        input.teams.push(TeamRules::clone(team));
        match RuleSet::compile(&input) {
            Ok(more) => rules = Arc::new(more),
            Err(found) => {
                problems.extend(found.iter().map(ToString::to_string));
                input.teams.pop();
            }
        }
    }
    (rules, problems)
}
