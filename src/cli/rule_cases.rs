//! Cases that say what rules should make of a difference.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde::Deserialize;

use crate::{
    diff::class_of,
    rules::{ObjectView, RuleSet},
    types::{
        Actor, Advice, Difference, Expectation, FieldClass, FieldManager, FieldPath, Finding, Kind,
        ObjectKey, PathError, Severity, Source, WantedKind,
    },
};

/// A file of cases.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cases {
    pub(super) cases: Vec<Case>,
}

/// One difference, and what the rules should say about it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub(super) name: String,
    object: Object,
    difference: Told,
    /// The time at which the rules are asked; now, where it is not said.
    at: Option<Timestamp>,
    want: Want,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Object {
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
struct Told {
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

/// What is wanted; what is not said may be anything.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct Want {
    ignored: Option<bool>,
    severity: Option<String>,
    expectation: Option<String>,
    advice: Option<String>,
    actor: Option<String>,
    /// Rules that have to be among those that match.
    rules: Vec<String>,
}

impl Case {
    /// What is not as wanted; nothing where all is. The error says what is wrong with the case itself.
    pub(super) fn check(&self, rules: &RuleSet, now: Timestamp) -> Result<Vec<String>, String> {
        let difference = self.rate(rules, self.at.unwrap_or(now))?;
        let want = &self.want;
        let mut wrong = Vec::new();
        let mut compare = |what: &str, wanted: Option<&str>, got: &str| {
            if let Some(wanted) = wanted.filter(|wanted| *wanted != got) {
                wrong.push(format!("{what} is {got}, not {wanted}"));
            }
        };
        for (word, known) in [
            (&want.severity, Severity::ALL.iter().map(|own| own.as_str()).collect::<Vec<_>>()),
            (&want.expectation, Expectation::ALL.iter().map(|own| own.as_str()).collect()),
            (&want.advice, Advice::ALL.iter().map(|own| own.as_str()).collect()),
            (&want.actor, Actor::ALL.iter().map(|own| own.as_str()).collect()),
        ] {
            if let Some(word) = word.as_deref().filter(|word| !known.contains(word)) {
                return Err(format!("`{word}` is not one of {}", known.join(", ")));
            }
        }
        compare("severity", want.severity.as_deref(), difference.severity.as_str());
        compare("expectation", want.expectation.as_deref(), difference.expectation.as_str());
        compare("advice", want.advice.as_deref(), difference.advice.as_str());
        compare("actor", want.actor.as_deref(), difference.actor.as_str());
        match (want.ignored, &difference.ignored_by) {
            (Some(true), None) => wrong.push("it is not ignored".to_owned()),
            (Some(false), Some(rule)) => wrong.push(format!("it is ignored by {rule}")),
            _ => {}
        }
        for rule in want.rules.iter().filter(|rule| !difference.matched.iter().any(|own| **own == ***rule)) {
            wrong.push(format!("{rule} does not match it"));
        }
        Ok(wrong)
    }

    fn rate(&self, rules: &RuleSet, now: Timestamp) -> Result<Difference, String> {
        let Object { api_version, kind, namespace, name, labels, autoscaled } = &self.object;
        let wanted = WantedKind::parse(api_version, kind)?;
        let kind = Kind {
            group: wanted.group,
            version: wanted.version.unwrap_or_default(),
            kind: kind.as_str().into(),
            // The cluster that would know is not asked; rules that say `deployments.apps` mean this.
            plural: format!("{}s", kind.to_lowercase()).into(),
            namespaced: !namespace.is_empty(),
        };
        let key = ObjectKey {
            kind: Arc::new(kind),
            namespace: namespace.as_str().into(),
            name: name.as_str().into(),
        };
        let told = &self.difference;
        let source = match &told.source {
            Some(word) => Source::parse(word).ok_or_else(|| format!("`{word}` is no source"))?,
            None => Source::Annotation,
        };
        let path: FieldPath =
            told.path.parse().map_err(|error: PathError| format!("`{}` is no path: {error}", told.path))?;
        let class = match &told.field {
            Some(word) => FieldClass::parse(word).ok_or_else(|| format!("`{word}` is no class of fields"))?,
            // A hash is of the whole spec; no other difference is.
            None if told.path == "spec" => FieldClass::Hash,
            None => class_of(&path),
        };
        let owner = told.manager.as_deref().map(|manager| FieldManager {
            manager: manager.into(),
            subresource: told.subresource.as_str().into(),
            time: None,
        });
        let finding = Finding {
            path: told.path.as_str().into(),
            class,
            expected: told.expected.as_str().into(),
            actual: told.actual.as_str().into(),
            owner,
        };
        let labels: Vec<(Box<str>, Box<str>)> =
            labels.iter().map(|(name, value)| (name.as_str().into(), value.as_str().into())).collect();
        let object =
            ObjectView { key: &key, labels: &labels, muted_paths: "", source, autoscaled: *autoscaled };
        Ok(rules.rate(&object, finding, now))
    }
}
