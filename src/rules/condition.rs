//! The conditions of a rule, compiled from `match`.

use std::{cell::OnceCell, error::Error, fmt::Display};

use super::{MatchSpec, RatedObject, change_kind::change_kind, problem::Reporter};
use crate::types::{Actor, ChangeKind, FieldClass, Finding, Glob, Kind, PathPattern, Source, ValueDigest};

/// The conditions of a rule. An empty list matches everything.
#[derive(Clone, Debug, Default)]
pub(super) struct Condition {
    kinds: Vec<KindPattern>,
    namespaces: Vec<Glob>,
    names: Vec<Glob>,
    labels: Vec<(Box<str>, Glob)>,
    sources: Vec<Source>,
    paths: Vec<PathPattern>,
    fields: Vec<FieldClass>,
    actors: Vec<Actor>,
    values: Vec<ValueDigest>,
    changes: Vec<ChangeKind>,
}

/// The input of conditions. Expensive parts are computed once, when the first rule needs them.
#[derive(Debug)]
pub(super) struct MatchInput<'a> {
    object: &'a RatedObject<'a>,
    finding: &'a Finding,
    actor: Actor,
    value: OnceCell<Option<ValueDigest>>,
    change: OnceCell<Option<ChangeKind>>,
}

impl Condition {
    pub(super) fn compile(spec: &MatchSpec, report: &mut Reporter<'_>) -> Self {
        let kinds = compile_each(&spec.kinds, "match.kinds", report, |text| {
            KindPattern::parse(text).map_err(|source| InvalidPattern { text, source })
        });
        let paths = compile_each(&spec.paths, "match.paths", report, |text| {
            text.parse::<PathPattern>().map_err(|source| InvalidPattern { text, source })
        });
        let values =
            compile_each(&spec.values, "match.values", report, |value| match ValueDigest::parse(&value.0) {
                None => Ok(ValueDigest::of(&value.0)),
                Some(digest) => digest,
            });
        for name in spec.labels.keys().filter(|name| name.is_empty() || name.contains('*')) {
            report
                .problem("match.labels", format!("invalid label name `{name}`; only values may have stars"));
        }
        let globs = |texts: &[String]| texts.iter().map(|text| Glob::new(text)).collect();
        Self {
            kinds,
            namespaces: globs(&spec.namespaces),
            names: globs(&spec.names),
            labels: spec.labels.iter().map(|(name, value)| ((**name).into(), Glob::new(value))).collect(),
            sources: report.members("match.sources", &spec.sources),
            paths,
            fields: report.members("match.fields", &spec.fields),
            actors: report.members("match.actors", &spec.actors),
            values,
            changes: report.members("match.changes", &spec.changes),
        }
    }

    pub(super) fn limited_to(self, namespace: &str) -> Self {
        Self { namespaces: vec![Glob::new(namespace)], ..self }
    }

    /// Evaluates cheap conditions first. `values` matches a redacted value, which cannot be known, only if `assumes_redacted`.
    pub(super) fn matches(&self, input: &MatchInput<'_>, assumes_redacted: bool) -> bool {
        let (object, finding) = (input.object, input.finding);
        let has_label = |(name, value): &(Box<str>, Glob)| {
            object.labels.iter().any(|(label, is)| label == name && value.matches(is))
        };
        allows(&self.fields, &finding.class)
            && allows(&self.actors, &input.actor)
            && allows(&self.sources, &object.source)
            && any(&self.namespaces, |glob| glob.matches(&object.key.namespace))
            && any(&self.kinds, |pattern| pattern.matches(&object.key.kind))
            && any(&self.names, |glob| glob.matches(&object.key.name))
            && self.labels.iter().all(has_label)
            && any(&self.changes, |change| input.change() == Some(*change))
            && any(&self.paths, |pattern| pattern.matches(&finding.path))
            && any(&self.values, |value| input.value().map_or(assumes_redacted, |actual| actual == *value))
    }

    /// The only namespaces in which it can match, if all are exact names.
    pub(super) fn exact_namespaces(&self) -> Option<Vec<&str>> {
        exact(&self.namespaces)
    }

    /// The only objects that it can match, if all are exact names.
    pub(super) fn exact_names(&self) -> Option<Vec<&str>> {
        exact(&self.names)
    }

    pub(super) fn label_names(&self) -> impl Iterator<Item = &str> {
        self.labels.iter().map(|(name, _)| &**name)
    }

    pub(super) fn matches_everything(&self) -> bool {
        let allows_everything =
            |globs: &[Glob]| globs.is_empty() || globs.iter().any(Glob::matches_everything);
        (self.kinds.is_empty() || self.kinds.iter().any(KindPattern::matches_everything))
            && allows_everything(&self.namespaces)
            && allows_everything(&self.names)
            && self.labels.is_empty()
            && self.sources.is_empty()
            && (self.paths.is_empty() || self.paths.contains(&PathPattern::anything()))
            && self.fields.is_empty()
            && self.actors.is_empty()
            && self.values.is_empty()
            && self.changes.is_empty()
    }
}

impl<'a> MatchInput<'a> {
    pub(super) fn new(object: &'a RatedObject<'a>, finding: &'a Finding, actor: Actor) -> Self {
        let (value, change) = Default::default();
        Self { object, finding, actor, value, change }
    }

    /// None if it is redacted.
    fn value(&self) -> Option<ValueDigest> {
        *self.value.get_or_init(|| self.finding.actual.value_digest())
    }

    fn change(&self) -> Option<ChangeKind> {
        *self.change.get_or_init(|| change_kind(self.finding))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("`{text}`: {source}")]
struct InvalidPattern<'a, E: Error + 'static> {
    text: &'a str,
    source: E,
}

/// Compiles each member of a list and reports the invalid ones.
fn compile_each<'a, T, R, E: Display>(
    list: &'a [T],
    key: &str,
    report: &mut Reporter<'_>,
    compile: impl Fn(&'a T) -> Result<R, E>,
) -> Vec<R> {
    let mut members = Vec::new();
    for (at, spec) in list.iter().enumerate() {
        match compile(spec) {
            Ok(member) => members.push(member),
            Err(error) => report.problem(&format!("{key}[{at}]"), error),
        }
    }
    members
}

/// None if the list is empty or any glob has a star.
fn exact(globs: &[Glob]) -> Option<Vec<&str>> {
    let texts: Option<Vec<&str>> = globs.iter().map(Glob::exact).collect();
    texts.filter(|texts| !texts.is_empty())
}

fn allows<T: PartialEq>(list: &[T], member: &T) -> bool {
    list.is_empty() || list.contains(member)
}

fn any<T>(list: &[T], matches: impl FnMut(&T) -> bool) -> bool {
    list.is_empty() || list.iter().any(matches)
}

/// `Deployment`, `Deployment.apps`, `deployments.apps`, `*.apps` or `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KindPattern {
    /// In lower case; none for any.
    kind: Option<Box<str>>,
    /// In lower case, empty for the core group; none for any.
    group: Option<Box<str>>,
}

#[derive(Clone, Copy, Debug, thiserror::Error)]
enum KindPatternError {
    #[error("the kind is missing")]
    NoKind,
    #[error("the group after the dot is missing; the core group is called `core`")]
    NoGroup,
    #[error("write `Deployment`, `Deployment.apps`, `deployments.apps`, `*.apps` or `*`")]
    Form,
}

impl KindPattern {
    fn parse(text: &str) -> Result<Self, KindPatternError> {
        let text = text.to_lowercase();
        let (kind, group) = match text.split_once('.') {
            Some((kind, group)) => (kind, Some(group)),
            None => (&*text, None),
        };
        if kind.is_empty() {
            return Err(KindPatternError::NoKind);
        }
        if group == Some("") {
            return Err(KindPatternError::NoGroup);
        }
        let invalid = |text: &str| text.contains(|c: char| c == '*' || c == '/' || c.is_whitespace());
        if (kind != "*" && invalid(kind)) || group.is_some_and(invalid) {
            return Err(KindPatternError::Form);
        }
        Ok(Self {
            kind: (kind != "*").then(|| kind.into()),
            group: group.map(|group| if group == "core" { "" } else { group }.into()),
        })
    }

    fn matches(&self, kind: &Kind) -> bool {
        let equals = |pattern: &str, name: &str| pattern.eq_ignore_ascii_case(name);
        self.kind.as_deref().is_none_or(|name| equals(name, &kind.kind) || equals(name, &kind.plural))
            && self.group.as_deref().is_none_or(|group| equals(group, &kind.group))
    }

    fn matches_everything(&self) -> bool {
        self.kind.is_none() && self.group.is_none()
    }
}
