//! The conditions of a rule.

use std::cell::OnceCell;

use super::{MatchSpec, ObjectView, change_kind::change_kind, problem::Reporter};
use crate::types::{
    Actor, ChangeKind, FieldClass, FieldPath, Finding, Glob, Kind, PathError, PathPattern, Source,
    ValueDigest,
};

/// The conditions of a rule, understood. An empty list asks for nothing.
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

/// What conditions are held against. What is costly to know is found out once, when the first rule asks.
#[derive(Debug)]
pub(super) struct Subject<'a> {
    object: &'a ObjectView<'a>,
    finding: &'a Finding,
    actor: Actor,
    path: OnceCell<Option<FieldPath>>,
    value: OnceCell<ValueDigest>,
    change: OnceCell<Option<ChangeKind>>,
}

impl Condition {
    /// Reads what was written.
    pub(super) fn read(spec: &MatchSpec, report: &mut Reporter<'_>) -> Self {
        let kinds = each(&spec.kinds, "match.kinds", report, |text| {
            KindPattern::parse(text).map_err(|message| format!("`{text}`: {message}"))
        });
        let paths = each(&spec.paths, "match.paths", report, |text| {
            text.parse::<PathPattern>().map_err(|error: PathError| format!("`{text}`: {error}"))
        });
        let values = each(&spec.values, "match.values", report, |value| match ValueDigest::parse(&value.0) {
            None => Ok(ValueDigest::of(&value.0)),
            Some(digest) => digest.map_err(str::to_owned),
        });
        for name in spec.labels.keys().filter(|name| name.is_empty() || name.contains('*')) {
            report
                .problem("match.labels", format!("`{name}` is no label's name; only values may have stars"));
        }
        let globs = |texts: &[String]| texts.iter().map(|text| Glob::new(text)).collect();
        Self {
            kinds,
            namespaces: globs(&spec.namespaces),
            names: globs(&spec.names),
            labels: spec.labels.iter().map(|(name, value)| ((**name).into(), Glob::new(value))).collect(),
            sources: report.words("match.sources", &spec.sources),
            paths,
            fields: report.words("match.fields", &spec.fields),
            actors: report.words("match.actors", &spec.actors),
            values,
            changes: report.words("match.changes", &spec.changes),
        }
    }

    /// The same for one namespace only.
    pub(super) fn within(self, namespace: &str) -> Self {
        Self { namespaces: vec![Glob::new(namespace)], ..self }
    }

    /// Whether a difference is one that the rule is about. What is cheap to ask is asked first.
    pub(super) fn matches(&self, subject: &Subject<'_>) -> bool {
        let (object, finding) = (subject.object, subject.finding);
        allows(&self.fields, &finding.class)
            && allows(&self.actors, &subject.actor)
            && allows(&self.sources, &object.source)
            && any(&self.namespaces, |own| own.matches(&object.key.namespace))
            && any(&self.kinds, |own| own.matches(&object.key.kind))
            && any(&self.names, |own| own.matches(&object.key.name))
            && self
                .labels
                .iter()
                .all(|(name, value)| object.labels.iter().any(|(own, is)| own == name && value.matches(is)))
            && any(&self.changes, |own| subject.change() == Some(*own))
            && any(&self.paths, |own| subject.path().is_some_and(|path| own.matches(path)))
            && any(&self.values, |own| *own == subject.value())
    }

    /// The namespaces it can match in, if they are known by name.
    pub(super) fn namespaces(&self) -> Option<Vec<&str>> {
        exact(&self.namespaces)
    }

    /// The objects it can match on, if they are known by name.
    pub(super) fn names(&self) -> Option<Vec<&str>> {
        exact(&self.names)
    }

    /// The names of the labels that it asks for.
    pub(super) fn label_names(&self) -> impl Iterator<Item = &str> {
        self.labels.iter().map(|(name, _)| &**name)
    }

    /// Whether it matches every difference.
    pub(super) fn is_anything(&self) -> bool {
        let names_anything = |globs: &[Glob]| globs.is_empty() || globs.iter().any(Glob::is_anything);
        (self.kinds.is_empty() || self.kinds.iter().any(KindPattern::is_anything))
            && names_anything(&self.namespaces)
            && names_anything(&self.names)
            && self.labels.is_empty()
            && self.sources.is_empty()
            && (self.paths.is_empty() || self.paths.contains(&PathPattern::anything()))
            && self.fields.is_empty()
            && self.actors.is_empty()
            && self.values.is_empty()
            && self.changes.is_empty()
    }
}

impl<'a> Subject<'a> {
    pub(super) fn new(object: &'a ObjectView<'a>, finding: &'a Finding, actor: Actor) -> Self {
        let (path, value, change) = Default::default();
        Self { object, finding, actor, path, value, change }
    }

    fn path(&self) -> Option<&FieldPath> {
        self.path.get_or_init(|| self.finding.path.parse().ok()).as_ref()
    }

    fn value(&self) -> ValueDigest {
        *self.value.get_or_init(|| ValueDigest::of(&self.finding.actual))
    }

    fn change(&self) -> Option<ChangeKind> {
        *self.change.get_or_init(|| change_kind(self.finding, self.path()))
    }
}

/// Reads each member of a list, reporting those that are wrong.
fn each<T, R>(
    list: &[T],
    key: &str,
    report: &mut Reporter<'_>,
    read: impl Fn(&T) -> Result<R, String>,
) -> Vec<R> {
    let mut members = Vec::new();
    for (at, written) in list.iter().enumerate() {
        match read(written) {
            Ok(member) => members.push(member),
            Err(message) => report.problem(&format!("{key}[{at}]"), message),
        }
    }
    members
}

/// The texts of a list that has some, and no stars.
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

/// A kind as people write it: `Deployment`, `Deployment.apps`, `deployments.apps`, `*.apps` or `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KindPattern {
    /// In lower case; none for any.
    kind: Option<Box<str>>,
    /// In lower case, empty for the group without a name; none for any.
    group: Option<Box<str>>,
}

impl KindPattern {
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.to_lowercase();
        let (kind, group) = match text.split_once('.') {
            Some((kind, group)) => (kind, Some(group)),
            None => (&*text, None),
        };
        if kind.is_empty() {
            return Err("a kind is missing");
        }
        if group == Some("") {
            return Err("a group is missing after the dot; the one without a name is called `core`");
        }
        let strange = |text: &str| text.contains(|c: char| c == '*' || c == '/' || c.is_whitespace());
        if (kind != "*" && strange(kind)) || group.is_some_and(strange) {
            return Err("write `Deployment`, `Deployment.apps`, `deployments.apps`, `*.apps` or `*`");
        }
        Ok(Self {
            kind: (kind != "*").then(|| kind.into()),
            group: group.map(|group| if group == "core" { "" } else { group }.into()),
        })
    }

    pub(super) fn matches(&self, kind: &Kind) -> bool {
        let is = |own: &str, other: &str| own.eq_ignore_ascii_case(other);
        self.kind.as_deref().is_none_or(|own| is(own, &kind.kind) || is(own, &kind.plural))
            && self.group.as_deref().is_none_or(|own| is(own, &kind.group))
    }

    pub(super) fn is_anything(&self) -> bool {
        self.kind.is_none() && self.group.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, KindPattern};

    #[test]
    fn a_kind_can_be_written_in_many_ways() {
        let matches = |text: &str, kind: &Kind| KindPattern::parse(text).unwrap().matches(kind);
        for text in
            ["Deployment", "deployment", "deployments", "Deployment.apps", "deployments.apps", "*.apps", "*"]
        {
            assert!(matches(text, &Kind::deployment()), "{text}");
            assert_eq!(matches(text, &Kind::service()), text == "*", "{text}");
        }
        assert!(matches("Service.core", &Kind::service()));
        assert!(!matches("Service.serving.knative.dev", &Kind::service()));
    }

    #[test]
    fn what_is_no_kind_is_refused() {
        for text in ["", ".apps", "Deployment.", "Deploy*", "apps/v1", "*.*"] {
            assert!(KindPattern::parse(text).is_err(), "{text}");
        }
    }
}
