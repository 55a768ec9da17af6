//! Compiles rules from their specs: all of them, or none and every problem.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use jiff::{Timestamp, ToSpan as _, civil::Date, tz::TimeZone};
use regex::RegexBuilder;

use super::{
    Rule, RuleConfig, RuleOrigin, RuleProblem, RuleSet, RuleSpec, actors::Actors, condition::Condition,
    problem::Reporter, spec::Effects,
};
use crate::types::{Actor, FieldClass, Severity};

const MAX_REGEX_BYTES: usize = 1 << 20;
const MAX_NAME: usize = 100;

pub fn built_in_rules() -> &'static [RuleSpec] {
    static RULES: LazyLock<Vec<RuleSpec>> = LazyLock::new(|| {
        serde_saphyr::from_str(include_str!("built_in.yaml")).expect("a test parses the built-in rules")
    });
    &RULES
}

/// Compiles the built-in rules, then the rules of the settings, then the rules of the teams.
pub(super) fn compile(config: &RuleConfig) -> Result<RuleSet, Vec<RuleProblem>> {
    let mut compiler = Compiler::default();
    for (at, spec) in built_in_rules().iter().enumerate() {
        compiler.add_rule(spec, RuleOrigin::BuiltIn, at);
    }
    for (at, spec) in config.rules.iter().enumerate() {
        compiler.add_rule(spec, RuleOrigin::Settings, at);
    }
    for team in &config.teams {
        for (at, spec) in team.rules.iter().enumerate() {
            compiler.add_rule(spec, RuleOrigin::Team { namespace: team.namespace.clone() }, at);
        }
    }
    let severities = compiler.severities(config);
    let actors = compiler.actors(config);
    if !compiler.problems.is_empty() {
        return Err(compiler.problems);
    }
    Ok(RuleSet::new(compiler.rules, severities, actors))
}

#[derive(Default)]
struct Compiler {
    rules: Vec<Rule>,
    by_name: HashMap<Arc<str>, usize>,
    problems: Vec<RuleProblem>,
}

impl Compiler {
    fn add_rule(&mut self, spec: &RuleSpec, origin: RuleOrigin, at: usize) {
        let key = format!("rules[{at}]");
        let mut report = Reporter::new(&mut self.problems, origin.clone(), key.clone()).for_rule(&spec.name);
        check_name(&spec.name, &mut report);
        let effects = Effects::compile(&spec.effect, &mut report);
        let mut condition = Condition::compile(&spec.matches, &mut report);
        let expires = spec
            .expires
            .as_deref()
            .and_then(|text| parse_expiry(text).map_err(|error| report.problem("expires", error)).ok());
        if let RuleOrigin::Team { namespace } = &origin {
            let foreign =
                spec.matches.namespaces.iter().enumerate().filter(|(_, name)| ***name != **namespace);
            for (at, other) in foreign {
                let message = format!("`{other}` is not {namespace}, the only namespace of this rule");
                report.problem(&format!("match.namespaces[{at}]"), message);
            }
            condition = condition.limited_to(namespace);
        }
        let name: Arc<str> = match &origin {
            RuleOrigin::Team { namespace } => format!("{namespace}/{}", spec.name).into(),
            RuleOrigin::BuiltIn | RuleOrigin::Settings => spec.name.as_str().into(),
        };
        let is_base = origin == RuleOrigin::BuiltIn;
        let (spec, warning) = (spec.clone(), None);
        let rule = Rule { name, origin, spec, expires, condition, effects, is_base, warning };
        let warning = self.warning(&rule, key.clone());
        self.insert(Rule { warning, ..rule }, key);
    }

    /// Appends a rule, or replaces the built-in rule of the same name.
    fn insert(&mut self, rule: Rule, key: String) {
        let Some(&at) = self.by_name.get(&rule.name) else {
            self.by_name.insert(rule.name.clone(), self.rules.len());
            return self.rules.push(rule);
        };
        if self.rules[at].origin == RuleOrigin::BuiltIn && rule.origin == RuleOrigin::Settings {
            self.rules[at] = Rule { is_base: true, ..rule };
        } else {
            let mut report = Reporter::new(&mut self.problems, rule.origin, key).for_rule(&rule.spec.name);
            report.problem("name", "another rule has this name already");
        }
    }

    /// Why a rule is valid and probably a mistake.
    fn warning(&self, rule: &Rule, key: String) -> Option<RuleProblem> {
        let mut warnings = Vec::new();
        let mut report = Reporter::new(&mut warnings, rule.origin.clone(), key).for_rule(&rule.spec.name);
        if rule.effects.off {
            let names = || self.rules.iter().map(|rule| &*rule.name);
            if rule.origin != RuleOrigin::BuiltIn && !names().any(|name| *name == *rule.name) {
                let message = "it switches nothing off: no built-in rule has its name".to_owned();
                report.unknown("name", message, &rule.name, names());
            }
        } else if rule.condition.matches_everything() {
            let message = if rule.effects.ignore {
                "it matches everything, so that nothing is ever reported as drifted"
            } else {
                "it matches everything"
            };
            report.problem("match", message);
        }
        warnings.pop()
    }

    fn severities(&mut self, config: &RuleConfig) -> HashMap<FieldClass, Severity> {
        let mut severities = HashMap::new();
        for (at, spec) in config.severities.iter().enumerate() {
            let key = format!("severities[{at}]");
            let mut report = Reporter::new(&mut self.problems, RuleOrigin::Settings, key);
            let severity = report.member::<Severity>("severity", &spec.severity);
            for (at, word) in spec.fields.iter().enumerate() {
                let key = format!("fields[{at}]");
                let field = report.member::<FieldClass>(&key, word);
                let (Some(field), Some(severity)) = (field, severity) else { continue };
                let first = *severities.entry(field).or_insert(severity);
                if first != severity {
                    report.problem(&key, format!("`{word}` is {first} already; a field has one severity"));
                }
            }
        }
        severities
    }

    fn actors(&mut self, config: &RuleConfig) -> Actors {
        let mut actors = Actors::default();
        for (at, spec) in config.actors.iter().enumerate() {
            let mut report = Reporter::new(&mut self.problems, RuleOrigin::Settings, format!("actors[{at}]"));
            let actor = report.member::<Actor>("actor", &spec.actor);
            if spec.manager.is_empty() {
                let message = "an empty expression would match every manager; want a regular expression for some of them";
                report.problem("manager", message);
            }
            match RegexBuilder::new(&spec.manager).size_limit(MAX_REGEX_BYTES).build() {
                Ok(manager) => actors.settings.extend(actor.map(|actor| (manager, actor))),
                Err(error) => report.problem("manager", error.to_string()),
            }
        }
        actors
    }
}

/// Names are label values, and parts of the names of teams' rules.
fn check_name(name: &str, report: &mut Reporter<'_>) {
    if name.is_empty() {
        report.problem("name", "the name of the rule is missing");
    } else if name.len() > MAX_NAME {
        report.problem("name", format!("a name has at most {MAX_NAME} characters"));
    } else if !name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.')) {
        report.problem(
            "name",
            format!("invalid name `{name}`; want letters, digits, dashes, dots and underscores only"),
        );
    }
}

#[derive(Debug, thiserror::Error)]
#[error("`{text}` is neither a date (2027-01-31) nor an RFC 3339 time (2027-01-31T12:00:00Z)")]
struct InvalidExpiry {
    text: Box<str>,
    /// Why it is not a date; none if it is longer or shorter than one.
    source: Option<jiff::Error>,
}

/// The first moment at which a rule no longer applies. A date includes its whole day in UTC.
fn parse_expiry(text: &str) -> Result<Timestamp, InvalidExpiry> {
    let invalid = |source| InvalidExpiry { text: text.into(), source };
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    // Jiff parses the date of a time without an offset, which would extend the rule.
    if text.len() != "2027-01-31".len() {
        return Err(invalid(None));
    }
    let end_of = |day: Date| day.checked_add(1.day())?.to_zoned(TimeZone::UTC);
    let end = text.parse().and_then(end_of).map_err(|error| invalid(Some(error)))?;
    Ok(end.timestamp())
}
