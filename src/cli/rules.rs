//! `drift-exporter rules`.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use jiff::Timestamp;
use serde::Deserialize;

use super::{
    Outcome,
    args::{RulesCommand, RulesTestArgs},
    error::CliError,
    output::{Console, load_settings, read_error},
};
use crate::{
    config::{ConfigProblem, Overrides, read_yaml},
    diff::class_of,
    rules::{RatedObject, Rule, RuleOrigin, RuleSet, ValueSpec},
    types::{
        Actor, Advice, Clock, Difference, Expectation, FieldClass, FieldManager, FieldPath, FieldValue,
        Finding, Kind, KindError, ObjectKey, PathError, Severity, Source, WantedKind,
    },
};

pub(super) fn run(command: &RulesCommand, console: &mut Console) -> Result<Outcome, CliError> {
    let (RulesCommand::List(config) | RulesCommand::Test(RulesTestArgs { config, .. })) = command;
    let settings = load_settings(config.config_file.as_deref(), &Overrides::default(), console)?;
    match command {
        RulesCommand::List(_) => print_rules(&settings.rules, console).map(|()| Outcome::Success),
        RulesCommand::Test(test) => run_test_cases(test, &settings.rules, console),
    }
}

fn print_rules(rules: &RuleSet, console: &mut Console) -> Result<(), CliError> {
    let rows: Vec<[String; 5]> = rules.rules().iter().map(rule_row).collect();
    let head = ["NAME", "FROM", "EFFECT", "EXPIRES", "OWNER"].map(str::to_owned);
    let lines = || std::iter::once(&head).chain(&rows);
    let widths: [usize; 5] =
        std::array::from_fn(|column| lines().map(|row| row[column].chars().count()).max().unwrap_or(0));
    for row in lines() {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        console.print(format_args!("{}\n", cells.join("  ").trim_end()))?;
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
    console: &mut Console,
) -> Result<Outcome, CliError> {
    let now = Clock::system().now();
    let (mut passed, mut failed) = (0, 0);
    for file in &arguments.files {
        for case in read_cases(file)?.cases {
            let failures = case.check(rules, now).map_err(|source| TestFileError::Case {
                file: file.clone(),
                case: case.name.clone(),
                source,
            })?;
            let line = if failures.is_empty() {
                passed += 1;
                format!("ok      {}\n", case.name)
            } else {
                failed += 1;
                format!("FAILED  {}: {}\n", case.name, failures.join("; "))
            };
            console.print(line)?;
        }
    }
    console.print(format_args!("{passed} passed, {failed} failed\n"))?;
    Ok(if failed == 0 { Outcome::Success } else { Outcome::Negative })
}

fn read_cases(path: &Path) -> Result<TestFile, CliError> {
    let text = fs::read_to_string(path).map_err(|source| read_error(path, source))?;
    let file = path.to_owned();
    match read_yaml::<TestFile>(&text) {
        Err(problem) => Err(TestFileError::Malformed { file, problem: Box::new(problem) }.into()),
        // A CI job must not pass because its cases were lost.
        Ok(cases) if cases.cases.is_empty() => Err(TestFileError::NoCases(file).into()),
        Ok(cases) => Ok(cases),
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum TestFileError {
    #[error("{file}: {problem}")]
    Malformed { file: PathBuf, problem: Box<ConfigProblem> },
    #[error("{0} has no cases")]
    NoCases(PathBuf),
    #[error("{file}: case {case}: {source}")]
    Case { file: PathBuf, case: String, source: CaseError },
}

#[derive(Debug, thiserror::Error)]
pub(super) enum CaseError {
    #[error(transparent)]
    Kind(#[from] KindError),
    #[error("invalid path `{path}`: {source}")]
    Path { path: String, source: PathError },
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
    labels: BTreeMap<Box<str>, Box<str>>,
    #[serde(default)]
    autoscaled: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TestDifference {
    path: String,
    source: Option<Source>,
    field: Option<FieldClass>,
    #[serde(default)]
    expected: CaseValue,
    #[serde(default)]
    actual: CaseValue,
    manager: Option<Box<str>>,
    #[serde(default)]
    subresource: Box<str>,
}

/// A text as in `match.values`, which may be JSON of a list or an object, or null. Without the key, the field is absent.
#[derive(Debug, Default, Deserialize)]
#[serde(from = "Option<ValueSpec>")]
struct CaseValue(FieldValue);

impl From<Option<ValueSpec>> for CaseValue {
    fn from(value: Option<ValueSpec>) -> Self {
        Self(match value {
            None => FieldValue::Null,
            Some(ValueSpec(text)) if text.is_empty() => FieldValue::Absent,
            Some(ValueSpec(text)) if text == FieldValue::EMPTY => FieldValue::Text(Box::default()),
            Some(ValueSpec(text)) if text.starts_with(['[', '{']) => FieldValue::Json(text.into()),
            Some(ValueSpec(text)) => FieldValue::Text(text.into()),
        })
    }
}

/// Fields that are not set are not checked.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ExpectedRating {
    ignored: Option<bool>,
    severity: Option<Severity>,
    expectation: Option<Expectation>,
    advice: Option<Advice>,
    actor: Option<Actor>,
    /// A subset of the rules that match.
    rules: Vec<String>,
}

impl TestCase {
    /// The failed expectations. An error is an invalid case.
    fn check(&self, rules: &RuleSet, now: Timestamp) -> Result<Vec<String>, CaseError> {
        let expected = &self.want;
        let difference = self.rate(rules, self.at.unwrap_or(now))?;
        let mut failures = Vec::new();
        for (field, expected, actual) in [
            ("severity", expected.severity.map(Severity::as_str), difference.severity.as_str()),
            ("expectation", expected.expectation.map(Expectation::as_str), difference.expectation.as_str()),
            ("advice", expected.advice.map(Advice::as_str), difference.advice.as_str()),
            ("actor", expected.actor.map(Actor::as_str), difference.actor.as_str()),
        ] {
            if let Some(expected) = expected.filter(|expected| *expected != actual) {
                failures.push(format!("{field} is {actual}, not {expected}"));
            }
        }
        match (expected.ignored, &difference.ignored_by) {
            (Some(true), None) => failures.push("it is not ignored".to_owned()),
            (Some(false), Some(rule)) => failures.push(format!("it is ignored by {rule}")),
            _ => {}
        }
        let unmatched = expected
            .rules
            .iter()
            .filter(|rule| !difference.matched.iter().any(|matched| matched.as_str() == **rule));
        failures.extend(unmatched.map(|rule| format!("{rule} does not match it")));
        Ok(failures)
    }

    fn rate(&self, rules: &RuleSet, now: Timestamp) -> Result<Difference, CaseError> {
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
        let invalid = |source| CaseError::Path { path: difference.path.clone(), source };
        let path: FieldPath = difference.path.parse().map_err(invalid)?;
        let class = match difference.field {
            Some(class) => class,
            // Only hashes differ in the whole spec.
            None if difference.path == "spec" => FieldClass::Hash,
            None => class_of(&path),
        };
        let owner = difference.manager.clone().map(|manager| FieldManager {
            manager,
            subresource: difference.subresource.clone(),
            time: None,
        });
        let [expected, actual] = [&difference.expected, &difference.actual].map(|value| value.0.clone());
        let finding = Finding { path, class, expected, actual, owner };
        let labels: Vec<(Box<str>, Box<str>)> = labels.clone().into_iter().collect();
        let source = difference.source.unwrap_or(Source::Annotation);
        let object =
            RatedObject { key: &key, labels: &labels, muted_paths: &[], source, autoscaled: *autoscaled };
        Ok(rules.rate(&object, finding, now))
    }
}
