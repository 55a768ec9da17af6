//! What people think of a difference: who made it, how bad it is, whether it was to be expected, whether it counts at all.
//! Pure.

mod accepted;
mod actors;
mod built_in;
mod change_kind;
mod compile;
mod condition;
mod effect;
mod expiry;
mod index;
mod kind_pattern;
mod problem;
mod rule;
mod set;
mod spec;
mod version;

pub use accepted::{Accepted, Why, accepting, rules_as_yaml};
pub use built_in::built_in_rules;
pub use effect::{EffectSpec, EffectsSpec};
pub use problem::RuleProblem;
pub(crate) use problem::nearest;
pub use rule::{Origin, Rule};
pub use set::{ObjectView, RuleSet};
pub use spec::{ActorSpec, MatchSpec, RuleInput, RuleSpec, SeveritySpec, TeamRules, ValueSpec};
