//! `GET /v1/rules`: all rules, and how many differences each one matches.

use std::{borrow::Cow, sync::Arc};

use axum::{extract::State, response::Response};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    params::{NoParams, Params},
    response::json,
};
use crate::{
    rules::{EffectsSpec, MatchSpec, Rule, RuleOrigin},
    server::{Exposed, auth::Caller},
};

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
    /// Hides the match expressions of the settings if `sees_everything` is false: they may name objects that the caller may
    /// not see.
    pub(super) fn new(rule: &'a Rule, count: u64, now: Timestamp, sees_everything: bool) -> Self {
        let spec = rule.spec();
        let is_hidden = !sees_everything && *rule.origin() == RuleOrigin::Settings;
        let (from, namespace) = match rule.origin() {
            RuleOrigin::BuiltIn => ("built_in", None),
            RuleOrigin::Settings => ("settings", None),
            RuleOrigin::Team { namespace } => ("team", Some(&**namespace)),
        };
        Self {
            name: rule.name(),
            from,
            namespace,
            matches: if is_hidden { Cow::default() } else { Cow::Borrowed(&spec.matches) },
            effect: &spec.effect,
            owner: spec.owner.as_deref(),
            reason: spec.reason.as_deref(),
            expires: rule.expires(),
            applies: rule.applies(now),
            count,
        }
    }
}

pub(in crate::server) async fn rules(
    State(exposed): State<Arc<Exposed>>,
    caller: Caller,
    _: Params<NoParams>,
) -> Response {
    let (snapshot, now) = (caller.snapshot().await, exposed.clock.now());
    let problems = exposed.team_problems();
    let respond = move || {
        let rules: Vec<_> =
            snapshot.rules.matches().map(|(rule, count)| RuleView::new(rule, count, now, true)).collect();
        json(&RulesView { total: rules.len(), rules, problems: &problems })
    };
    exposed.blocking.run(respond).await
}
