//! Compiles rules from their specs, all of them or none.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use jiff::{Timestamp, ToSpan as _, civil::Date, tz::TimeZone};
use regex::RegexBuilder;

use super::{
    Origin, Rule, RuleInput, RuleProblem, RuleSet, RuleSpec, actors::Actors, condition::Condition,
    problem::Reporter, spec::Effects,
};
use crate::types::{Actor, FieldClass, Severity};

/// A regular expression may not grow larger than this when compiled.
const REGEX_BYTES: usize = 1 << 20;
const LONGEST_NAME: usize = 100;

/// Compiles the built-in rules, then those of the settings in order, then those of the teams.
pub(super) fn compile(input: &RuleInput) -> Result<RuleSet, Vec<RuleProblem>> {
    let mut compiler = Compiler::default();
    for (at, spec) in built_in_rules().iter().enumerate() {
        compiler.rule(spec, Origin::BuiltIn, at);
    }
    for (at, spec) in input.rules.iter().enumerate() {
        compiler.rule(spec, Origin::Settings, at);
    }
    for team in &input.teams {
        for (at, spec) in team.rules.iter().enumerate() {
            compiler.rule(spec, Origin::Team { namespace: team.namespace.clone() }, at);
        }
    }
    let severities = compiler.severities(input);
    let actors = compiler.actors(input);
    if !compiler.problems.is_empty() {
        return Err(compiler.problems);
    }
    Ok(RuleSet::new(compiler.rules, severities, actors, compiler.warnings))
}

#[derive(Default)]
struct Compiler {
    rules: Vec<Rule>,
    by_name: HashMap<Arc<str>, usize>,
    problems: Vec<RuleProblem>,
    warnings: Vec<RuleProblem>,
}

impl Compiler {
    fn rule(&mut self, spec: &RuleSpec, origin: Origin, at: usize) {
        let place = format!("rules[{at}]");
        let mut report = Reporter::new(&mut self.problems, origin.clone(), place.clone()).about(&spec.name);
        check_name(&spec.name, &mut report);
        let effects = Effects::read(&spec.effect, &mut report);
        let mut condition = Condition::read(&spec.matches, &mut report);
        let expires = spec.expires.as_deref().and_then(|text| {
            parse_expiry(text)
                .map_err(|message| report.problem("expires", format!("`{text}` is {message}")))
                .ok()
        });
        if let Origin::Team { namespace } = &origin {
            for (at, other) in
                spec.matches.namespaces.iter().enumerate().filter(|(_, own)| **own != **namespace)
            {
                let message = format!("`{other}` is not {namespace}, where alone this rule applies");
                report.problem(&format!("match.namespaces[{at}]"), message);
            }
            condition = condition.within(namespace);
        }
        let name: Arc<str> = match &origin {
            Origin::Team { namespace } => format!("{namespace}/{}", spec.name).into(),
            Origin::BuiltIn | Origin::Settings => spec.name.as_str().into(),
        };
        let is_base = origin == Origin::BuiltIn;
        let rule = Rule { name, origin, spec: spec.clone(), expires, condition, effects, is_base };
        self.warn(&rule, place.clone());
        self.place(rule, place);
    }

    /// Puts a rule behind the others, or in the place of a built-in one of its name.
    fn place(&mut self, rule: Rule, place: String) {
        let Some(&at) = self.by_name.get(&rule.name) else {
            self.by_name.insert(rule.name.clone(), self.rules.len());
            return self.rules.push(rule);
        };
        if self.rules[at].origin == Origin::BuiltIn && rule.origin == Origin::Settings {
            self.rules[at] = Rule { is_base: true, ..rule };
        } else {
            let mut report = Reporter::new(&mut self.problems, rule.origin, place).about(&rule.spec.name);
            report.problem("name", "another rule has this name already");
        }
    }

    /// Notes what is allowed and hardly meant.
    fn warn(&mut self, rule: &Rule, place: String) {
        let mut report = Reporter::new(&mut self.warnings, rule.origin.clone(), place).about(&rule.spec.name);
        if rule.effects.off {
            let names = || self.rules.iter().map(|rule| &*rule.name);
            if rule.origin != Origin::BuiltIn && !names().any(|name| *name == *rule.name) {
                let message = "it switches nothing off: no built-in rule has its name".to_owned();
                report.unknown("name", message, &rule.name, names());
            }
        } else if rule.condition.is_anything() {
            let message = if rule.effects.ignore {
                "it matches everything, so that nothing is ever reported as drifted"
            } else {
                "it matches everything"
            };
            report.problem("match", message);
        }
    }

    fn severities(&mut self, input: &RuleInput) -> HashMap<FieldClass, Severity> {
        let mut severities = HashMap::new();
        for (at, spec) in input.severities.iter().enumerate() {
            let place = format!("severities[{at}]");
            let mut report = Reporter::new(&mut self.problems, Origin::Settings, place);
            let severity = report.word::<Severity>("severity", &spec.severity);
            for (at, word) in spec.fields.iter().enumerate() {
                let key = format!("fields[{at}]");
                let field = report.word::<FieldClass>(&key, word);
                let (Some(field), Some(severity)) = (field, severity) else { continue };
                let before = *severities.entry(field).or_insert(severity);
                if before != severity {
                    report.problem(&key, format!("`{word}` is {before} already; a field has one severity"));
                }
            }
        }
        severities
    }

    fn actors(&mut self, input: &RuleInput) -> Actors {
        let mut actors = Actors::default();
        for (at, spec) in input.actors.iter().enumerate() {
            let mut report = Reporter::new(&mut self.problems, Origin::Settings, format!("actors[{at}]"));
            let actor = report.word::<Actor>("actor", &spec.actor);
            if spec.manager.is_empty() {
                let message =
                    "empty, it would match every manager; want a regular expression for some of them";
                report.problem("manager", message);
            }
            match RegexBuilder::new(&spec.manager).size_limit(REGEX_BYTES).build() {
                Ok(manager) => actors.settings.extend(actor.map(|actor| (manager, actor))),
                Err(error) => report.problem("manager", error.to_string()),
            }
        }
        actors
    }
}

/// Names become values of a label, and parts of names of teams' rules.
fn check_name(name: &str, report: &mut Reporter<'_>) {
    if name.is_empty() {
        report.problem("name", "a rule needs a name");
    } else if name.len() > LONGEST_NAME {
        report.problem("name", format!("a name has at most {LONGEST_NAME} characters"));
    } else if !name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.')) {
        report.problem(
            "name",
            format!("`{name}`: a name has letters, digits, dashes, dots and underscores only"),
        );
    }
}

/// The rules that are part of the program, in order, as they are written.
pub fn built_in_rules() -> &'static [RuleSpec] {
    &RULES
}

static RULES: LazyLock<Vec<RuleSpec>> = LazyLock::new(|| {
    serde_saphyr::from_str(include_str!("built_in.yaml")).expect("a test reads the built-in rules")
});

/// The first moment at which a rule no longer applies. A date counts until its day is over in UTC.
fn parse_expiry(text: &str) -> Result<Timestamp, &'static str> {
    const WRONG: &str = "neither a date (2027-01-31) nor an RFC 3339 time (2027-01-31T12:00:00Z)";
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    // Jiff would read the date out of a time without an offset, and so move it.
    if text.len() != "2027-01-31".len() {
        return Err(WRONG);
    }
    let day = text.parse::<Date>().map_err(|_| WRONG)?;
    let next = day.checked_add(1.day()).and_then(|next| next.to_zoned(TimeZone::UTC));
    next.map(|next| next.timestamp()).map_err(|_| WRONG)
}

#[cfg(test)]
mod tests {
    use super::parse_expiry;

    #[test]
    fn a_date_counts_until_its_day_is_over() {
        assert_eq!(parse_expiry("2027-01-01").unwrap().to_string(), "2027-01-02T00:00:00Z");
        assert_eq!(parse_expiry("2027-01-01T12:00:00+01:00").unwrap().to_string(), "2027-01-01T11:00:00Z");
        for text in ["", "soon", "2027-02-30", "2027-01-01T12:00:00", "9999-12-31T"] {
            assert!(parse_expiry(text).is_err(), "{text}");
        }
    }
}
