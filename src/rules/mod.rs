//! Rules: who made a difference, how severe it is, whether it is expected, whether it counts. Pure.

mod accept;
mod actors;
mod change_kind;
mod compile;
mod condition;
mod problem;
mod rule_set;
mod spec;

pub use accept::{AcceptedField, Justification, acceptance_rules, rules_to_yaml};
pub use compile::built_in_rules;
pub use problem::RuleProblem;
pub(crate) use problem::nearest;
pub use rule_set::{RatedObject, Rule, RuleOrigin, RuleSet};
pub use spec::{
    ActorSpec, EffectSpec, EffectsSpec, MatchSpec, RuleConfig, RuleSpec, SeveritySpec, TeamRules, ValueSpec,
};
