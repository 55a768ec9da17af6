//! `GET /v1/rules`.

use std::{borrow::Cow, sync::Arc};

use axum::{extract::State, response::Response};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::{params::NoQuery, response::json};
use crate::{
    rules::{EffectsSpec, MatchSpec, Origin, Rule},
    server::{Exposed, auth::Caller},
};

/// Where rules of the settings file are from.
const SETTINGS: &str = "settings";

/// Every rule.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RuleList")]
pub(super) struct RulesView<'a> {
    rules: Vec<RuleView<'a>>,
    total: usize,
    /// What is wrong with rules of teams.
    #[schemars(with = "Vec<String>")]
    problems: &'a [String],
}

/// One rule, with what it says and how much it matches now.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Rule")]
pub(super) struct RuleView<'a> {
    /// That of a team's rule begins with the namespace and a slash.
    name: &'a str,
    /// `built_in`, `settings` or `team`.
    from: &'static str,
    /// Whose rule it is, for those of teams.
    namespace: Option<&'a str>,
    /// Which differences it is about.
    #[serde(rename = "match")]
    #[schemars(with = "MatchSpec")]
    matches: Cow<'a, MatchSpec>,
    /// What it says about them.
    effect: &'a EffectsSpec,
    /// Who answers for it.
    owner: Option<&'a str>,
    /// Why it is there.
    reason: Option<&'a str>,
    expires: Option<Timestamp>,
    /// Whether it applies now: it is not switched off, and has not expired.
    applies: bool,
    /// How many differences it matches now, ignored ones included.
    #[serde(rename = "matches")]
    count: u64,
}

impl<'a> RuleView<'a> {
    /// The same for those who may not see everything: what the settings say it is about may name what they do not see.
    pub(super) fn without_settings(self) -> Self {
        if self.from == SETTINGS { Self { matches: Cow::Owned(MatchSpec::default()), ..self } } else { self }
    }

    pub(super) fn new(rule: &'a Rule, count: u64, now: Timestamp) -> Self {
        let spec = rule.spec();
        let (from, namespace) = match rule.origin() {
            Origin::BuiltIn => ("built_in", None),
            Origin::Settings => (SETTINGS, None),
            Origin::Team { namespace } => ("team", Some(&**namespace)),
        };
        Self {
            name: rule.name(),
            from,
            namespace,
            matches: Cow::Borrowed(&spec.matches),
            effect: &spec.effect,
            owner: spec.owner.as_deref(),
            reason: spec.reason.as_deref(),
            expires: rule.expires(),
            applies: rule.applies(now),
            count,
        }
    }
}

pub(crate) async fn rules(State(exposed): State<Arc<Exposed>>, caller: Caller, _: NoQuery) -> Response {
    let snapshot = caller.snapshot();
    let now = exposed.clock.now();
    let matches = snapshot.rules.matches();
    let rules: Vec<_> = matches.map(|(rule, matches)| RuleView::new(rule, matches, now)).collect();
    let problems = exposed.team_problems.borrow().clone();
    json(&RulesView { total: rules.len(), rules, problems: &problems })
}
