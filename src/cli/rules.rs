//! `drift-exporter rules`.

use std::{collections::BTreeMap, fs, io::Write, path::Path, sync::Arc};

use jiff::Timestamp;
use serde::Deserialize;

use super::{
    Outcome,
    args::{RulesArgs, RulesCommand, RulesTestArgs},
    output::{load_settings, write_error},
};
use crate::{
    config::{Overrides, read_yaml},
    diff::class_of,
    rules::{ObjectView, Rule, RuleOrigin, RuleSet},
    types::{
        Actor, Advice, Clock, Difference, Expectation, FieldClass, FieldManager, FieldPath, Finding, Kind,
        ObjectKey, PathError, Severity, Source, WantedKind,
    },
};

pub(super) fn run(
    arguments: &RulesArgs,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<Outcome, String> {
    let config = match &arguments.command {
        RulesCommand::List(list) => &list.config,
        RulesCommand::Test(test) => &test.config,
    };
    let settings = load_settings(config.config_file.as_deref(), &Overrides::default(), stderr)?;
    let Some(settings) = settings else { return Ok(Outcome::Negative) };
    match &arguments.command {
        RulesCommand::List(_) => print_rules(&settings.rules, stdout).map(|()| Outcome::Success),
        RulesCommand::Test(test) => run_test_cases(test, &settings.rules, stdout),
    }
}

fn print_rules(rules: &RuleSet, stdout: &mut dyn Write) -> Result<(), String> {
    let rows: Vec<[String; 5]> = rules.rules().iter().map(rule_row).collect();
    let head = ["NAME", "FROM", "EFFECT", "EXPIRES", "OWNER"].map(str::to_owned);
    let lines = || std::iter::once(&head).chain(&rows);
    let widths: [usize; 5] =
        std::array::from_fn(|column| lines().map(|row| row[column].chars().count()).max().unwrap_or(0));
    for row in lines() {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        writeln!(stdout, "{}", cells.join("  ").trim_end()).map_err(write_error)?;
    }
    Ok(())
}

fn rule_row(rule: &Rule) -> [String; 5] {
    let from = match rule.origin() {
        RuleOrigin::BuiltIn => "built-in".to_owned(),
        RuleOrigin::Settings => "settings".to_owned(),
        RuleOrigin::Team { namespace } => format!("namespace {namespace}"),
    };
    let expires = rule.expires().map(|expires| expires.to_string()).unwrap_or_default();
    let spec = rule.spec();
    [rule.name().to_string(), from, spec.effect.to_string(), expires, spec.owner.clone().unwrap_or_default()]
}

fn run_test_cases(
    arguments: &RulesTestArgs,
    rules: &RuleSet,
    stdout: &mut dyn Write,
) -> Result<Outcome, String> {
    let now = Clock::system().now();
    let (mut passed, mut failed) = (0, 0);
    for file in &arguments.files {
        for case in read_cases(file)?.cases {
            let failures = case
                .check(rules, now)
                .map_err(|why| format!("{}: case {}: {why}", file.display(), case.name))?;
            let line = if failures.is_empty() {
                passed += 1;
                format!("ok      {}", case.name)
            } else {
                failed += 1;
                format!("FAILED  {}: {}", case.name, failures.join("; "))
            };
            writeln!(stdout, "{line}").map_err(write_error)?;
        }
    }
    writeln!(stdout, "{passed} passed, {failed} failed").map_err(write_error)?;
    Ok(if failed == 0 { Outcome::Success } else { Outcome::Negative })
}

fn read_cases(file: &Path) -> Result<TestFile, String> {
    let text =
        fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let cases: TestFile = read_yaml(&text).map_err(|problem| format!("{}: {problem}", file.display()))?;
    if cases.cases.is_empty() {
        // A CI job must not pass because its cases were lost.
        return Err(format!("{} has no cases", file.display()));
    }
    Ok(cases)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TestFile {
    cases: Vec<TestCase>,
}

/// A difference, and how the rules should rate it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TestCase {
    name: String,
    object: TestObject,
    difference: TestDifference,
    /// The time at which the rules are evaluated; defaults to now.
    at: Option<Timestamp>,
    want: ExpectedRating,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TestObject {
    #[serde(rename = "apiVersion")]
    api_version: String,
    kind: String,
    #[serde(default)]
    namespace: String,
    name: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    autoscaled: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TestDifference {
    path: String,
    #[serde(default)]
    source: Option<String>,
    #[serde(default)]
    field: Option<String>,
    #[serde(default)]
    expected: String,
    #[serde(default)]
    actual: String,
    #[serde(default)]
    manager: Option<String>,
    #[serde(default)]
    subresource: String,
}

/// Fields that are not set are not checked.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ExpectedRating {
    ignored: Option<bool>,
    severity: Option<String>,
    expectation: Option<String>,
    advice: Option<String>,
    actor: Option<String>,
    /// A subset of the rules that match.
    rules: Vec<String>,
}

impl TestCase {
    /// The failed expectations. An error is an invalid case.
    fn check(&self, rules: &RuleSet, now: Timestamp) -> Result<Vec<String>, String> {
        let expected = &self.want;
        expected.validate()?;
        let difference = self.rate(rules, self.at.unwrap_or(now))?;
        let mut failures = Vec::new();
        for (field, expected, actual) in [
            ("severity", &expected.severity, difference.severity.as_str()),
            ("expectation", &expected.expectation, difference.expectation.as_str()),
            ("advice", &expected.advice, difference.advice.as_str()),
            ("actor", &expected.actor, difference.actor.as_str()),
        ] {
            if let Some(expected) = expected.as_deref().filter(|expected| *expected != actual) {
                failures.push(format!("{field} is {actual}, not {expected}"));
            }
        }
        match (expected.ignored, &difference.ignored_by) {
            (Some(true), None) => failures.push("it is not ignored".to_owned()),
            (Some(false), Some(rule)) => failures.push(format!("it is ignored by {rule}")),
            _ => {}
        }
        let unmatched =
            expected.rules.iter().filter(|rule| !difference.matched.iter().any(|name| **name == ***rule));
        failures.extend(unmatched.map(|rule| format!("{rule} does not match it")));
        Ok(failures)
    }

    fn rate(&self, rules: &RuleSet, now: Timestamp) -> Result<Difference, String> {
        let TestObject { api_version, kind, namespace, name, labels, autoscaled } = &self.object;
        let wanted = WantedKind::parse(api_version, kind)?;
        let kind = Kind {
            group: wanted.group,
            version: wanted.version.unwrap_or_default(),
            kind: kind.as_str().into(),
            // A guess without a cluster, for rules that select `deployments.apps`.
            plural: format!("{}s", kind.to_lowercase()).into(),
            namespaced: !namespace.is_empty(),
        };
        let key = ObjectKey {
            kind: Arc::new(kind),
            namespace: namespace.as_str().into(),
            name: name.as_str().into(),
        };
        let difference = &self.difference;
        let source = match &difference.source {
            Some(name) => Source::parse(name).ok_or_else(|| format!("unknown source `{name}`"))?,
            None => Source::Annotation,
        };
        let path: FieldPath = difference
            .path
            .parse()
            .map_err(|error: PathError| format!("invalid path `{}`: {error}", difference.path))?;
        let class = match &difference.field {
            Some(name) => FieldClass::parse(name).ok_or_else(|| format!("unknown field class `{name}`"))?,
            // Only hashes differ in the whole spec.
            None if difference.path == "spec" => FieldClass::Hash,
            None => class_of(&path),
        };
        let owner = difference.manager.as_deref().map(|manager| FieldManager {
            manager: manager.into(),
            subresource: difference.subresource.as_str().into(),
            time: None,
        });
        let finding = Finding {
            path: difference.path.as_str().into(),
            class,
            expected: difference.expected.as_str().into(),
            actual: difference.actual.as_str().into(),
            owner,
        };
        let labels: Vec<(Box<str>, Box<str>)> =
            labels.iter().map(|(name, value)| (name.as_str().into(), value.as_str().into())).collect();
        let object =
            ObjectView { key: &key, labels: &labels, muted_paths: "", source, autoscaled: *autoscaled };
        Ok(rules.rate(&object, finding, now))
    }
}

impl ExpectedRating {
    /// Rejects values that no rating has: such a case would fail for ever.
    fn validate(&self) -> Result<(), String> {
        for (value, valid) in [
            (&self.severity, Severity::ALL.iter().map(|severity| severity.as_str()).collect::<Vec<_>>()),
            (&self.expectation, Expectation::ALL.iter().map(|expectation| expectation.as_str()).collect()),
            (&self.advice, Advice::ALL.iter().map(|advice| advice.as_str()).collect()),
            (&self.actor, Actor::ALL.iter().map(|actor| actor.as_str()).collect()),
        ] {
            if let Some(value) = value.as_deref().filter(|value| !valid.contains(value)) {
                return Err(format!("unknown value `{value}`; valid values: {}", valid.join(", ")));
            }
        }
        Ok(())
    }
}
