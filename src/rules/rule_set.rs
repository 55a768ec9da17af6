//! A set of compiled rules and how it rates a difference.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, LazyLock},
};

use jiff::Timestamp;

use super::{
    RuleInput, RuleProblem, RuleSpec,
    actors::Actors,
    compile::compile,
    condition::{Condition, Subject},
    spec::Effects,
};
use crate::types::{
    Actor, Advice, Difference, Expectation, FieldClass, FieldPath, Finding, ObjectKey, PathPattern, Severity,
    Source,
};

/// Rules that were understood, ready to rate differences.
///
/// Any `ignore` wins. Else severity, expectation and advice each come from the last rule that says something about them:
/// built-in rules first, then those of the settings in order, then those of the teams.
#[derive(Clone, Debug)]
pub struct RuleSet {
    rules: Vec<Rule>,
    severities: HashMap<FieldClass, Severity>,
    actors: Actors,
    warnings: Vec<RuleProblem>,
    by_name: HashMap<Arc<str>, usize>,
    pub(super) index: Index,
}

/// What rules may ask about an object.
#[derive(Clone, Copy, Debug)]
pub struct ObjectView<'a> {
    /// Its identity.
    pub key: &'a ObjectKey,
    /// Its labels; at least those that [`RuleSet::label_names`] has.
    pub labels: &'a [(Box<str>, Box<str>)],
    /// Paths whose differences the object itself asks to ignore, with commas between them.
    pub mutes: &'a str,
    /// Where the baseline is written that it differs from.
    pub source: Source,
    /// Whether an autoscaler sets its replicas.
    pub autoscaled: bool,
}

impl RuleSet {
    /// Understands what was written, beside the built-in rules. Either all of it is right, or every problem is told.
    pub fn compile(input: &RuleInput) -> Result<Self, Vec<RuleProblem>> {
        compile(input)
    }

    /// The built-in rules alone.
    pub fn built_in() -> Self {
        static BUILT_IN: LazyLock<RuleSet> = LazyLock::new(|| {
            RuleSet::compile(&RuleInput::default()).expect("a test compiles the built-in rules")
        });
        BUILT_IN.clone()
    }

    pub(super) fn new(
        rules: Vec<Rule>,
        severities: HashMap<FieldClass, Severity>,
        actors: Actors,
        warnings: Vec<RuleProblem>,
    ) -> Self {
        let by_name = rules.iter().enumerate().map(|(at, rule)| (rule.name.clone(), at)).collect();
        let index = Index::new(&rules);
        Self { rules, severities, actors, warnings, by_name, index }
    }

    /// All rules, in order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The place of the rule of this name in [`Self::rules`].
    pub fn position(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// What is allowed and hardly meant.
    pub fn warnings(&self) -> &[RuleProblem] {
        &self.warnings
    }

    /// The names of all labels that rules ask for. Whoever reads objects has to keep these.
    pub fn label_names(&self) -> Arc<[Box<str>]> {
        let names =
            self.rules.iter().filter(|rule| !rule.is_off()).flat_map(|rule| rule.condition.label_names());
        names.collect::<BTreeSet<_>>().into_iter().map(Into::into).collect()
    }

    /// Whether a rule that applied at one time no longer does at another.
    pub fn expire_between(&self, before: Timestamp, now: Timestamp) -> bool {
        self.rules.iter().any(|rule| rule.applies(before) != rule.applies(now))
    }

    /// Rates a finding that was first seen at `now`.
    ///
    /// Its onset is when the newest owner of the field wrote it: that survives restarts with nothing stored anywhere.
    /// Another machine's clock may run ahead of ours, so an onset is never later than now.
    pub fn rate(&self, object: &ObjectView<'_>, finding: Finding, now: Timestamp) -> Difference {
        let onset = finding.writer.as_ref().and_then(|writer| writer.time).map_or(now, |time| time.min(now));
        self.opinion(object, &finding, now).on(finding, onset)
    }

    /// Rates a difference that was rated by other rules, or at another time. Its onset stays.
    pub fn rate_again(&self, object: &ObjectView<'_>, difference: &Difference, now: Timestamp) -> Difference {
        let finding = difference.finding.clone();
        self.opinion(object, &finding, now).on(finding, difference.onset)
    }

    fn opinion(&self, object: &ObjectView<'_>, finding: &Finding, now: Timestamp) -> Opinion {
        let actor = self.actors.classify(finding, object.autoscaled);
        let subject = Subject::new(object, finding, actor);
        let mut matched = Vec::new();
        let [mut base, mut settings, mut team] = std::array::from_fn(|_| Layer::default());
        for at in self.index.candidates(&object.key.namespace, &object.key.name) {
            let rule = &self.rules[at];
            if !rule.applies(now) || !rule.condition.matches(&subject) {
                continue;
            }
            matched.push(rule.name.clone());
            match &rule.origin {
                Origin::BuiltIn | Origin::Settings if rule.is_base => base.add(rule),
                Origin::BuiltIn | Origin::Settings => settings.add(rule),
                Origin::Team { .. } => team.add(rule),
            }
        }
        if mutes(object.mutes, &finding.path) {
            let name: Arc<str> = MUTED_BY_OBJECT.into();
            matched.push(name.clone());
            team.ignored_by.get_or_insert(name);
        }
        let by_class = self.severities.get(&finding.class).copied();
        let severity = settings.severity.or(by_class).or(base.severity).unwrap_or(Severity::Warning);
        // Teams may make things critical, and what is critical without them they cannot mute.
        let severity = if severity == Severity::Critical || team.says_critical {
            Severity::Critical
        } else {
            team.severity.unwrap_or(severity)
        };
        if severity == Severity::Critical {
            team.ignored_by = None;
            team.expectation = team.expectation.filter(|own| *own == Expectation::Unexpected);
        }
        let expectation = team.expectation.or(settings.expectation).or(base.expectation);
        Opinion {
            severity,
            expectation: expectation.unwrap_or(Expectation::Unexpected),
            // Where no rule knows better, a person has to look.
            advice: team.advice.or(settings.advice).or(base.advice).unwrap_or(Advice::AlertOnly),
            actor,
            // The same one whatever the order of the rules.
            ignored_by: [base.ignored_by, settings.ignored_by]
                .into_iter()
                .flatten()
                .min()
                .or(team.ignored_by),
            matched: matched.into(),
        }
    }
}

impl Default for RuleSet {
    fn default() -> Self {
        Self::built_in()
    }
}

/// What stands in place of a rule's name where the object itself asked for it. No rule can be called that.
const MUTED_BY_OBJECT: &str = "(annotation)";

/// Whether any of these patterns, with commas between them, matches a path. What is no pattern matches nothing.
fn mutes(patterns: &str, path: &str) -> bool {
    let mut patterns = patterns.split(',').map(str::trim).filter(|pattern| !pattern.is_empty()).peekable();
    if patterns.peek().is_none() {
        return false;
    }
    let Ok(path) = path.parse::<FieldPath>() else { return false };
    patterns.filter_map(|pattern| pattern.parse::<PathPattern>().ok()).any(|pattern| pattern.matches(&path))
}

/// What the rules of one origin say; where several speak, the last one counts.
#[derive(Default)]
struct Layer {
    severity: Option<Severity>,
    says_critical: bool,
    expectation: Option<Expectation>,
    advice: Option<Advice>,
    ignored_by: Option<Arc<str>>,
}

impl Layer {
    fn add(&mut self, rule: &Rule) {
        let effects = rule.effects;
        self.severity = effects.severity.or(self.severity);
        self.says_critical |= effects.severity == Some(Severity::Critical);
        self.expectation = effects.expectation.or(self.expectation);
        self.advice = effects.advice.or(self.advice);
        if effects.ignore && self.ignored_by.as_ref().is_none_or(|other| rule.name < *other) {
            self.ignored_by = Some(rule.name.clone());
        }
    }
}

/// What all rules together say.
struct Opinion {
    severity: Severity,
    expectation: Expectation,
    advice: Advice,
    actor: Actor,
    ignored_by: Option<Arc<str>>,
    matched: Arc<[Arc<str>]>,
}

impl Opinion {
    fn on(self, finding: Finding, onset: Timestamp) -> Difference {
        let Self { severity, expectation, advice, actor, ignored_by, matched } = self;
        Difference { finding, severity, expectation, advice, actor, onset, ignored_by, matched }
    }
}

/// Rules by where they can match, each list in the order of the rules.
///
/// Many rules accept one thing on one object, or belong to the owners of one namespace: these cost nothing elsewhere.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    /// Anywhere.
    anywhere: Vec<usize>,
    /// In single namespaces.
    namespaces: HashMap<Box<str>, Namespace>,
}

#[derive(Clone, Debug, Default)]
struct Namespace {
    /// On any object of the namespace.
    any: Vec<usize>,
    /// On single objects.
    names: HashMap<Box<str>, Vec<usize>>,
}

impl Index {
    pub(super) fn new(rules: &[Rule]) -> Self {
        let mut index = Self::default();
        for (at, rule) in rules.iter().enumerate() {
            let Some(namespaces) = rule.condition.namespaces() else {
                index.anywhere.push(at);
                continue;
            };
            for namespace in namespaces.into_iter().collect::<BTreeSet<_>>() {
                let namespace = index.namespaces.entry(namespace.into()).or_default();
                match rule.condition.names() {
                    None => namespace.any.push(at),
                    Some(names) => {
                        for name in names.into_iter().collect::<BTreeSet<_>>() {
                            namespace.names.entry(name.into()).or_default().push(at);
                        }
                    }
                }
            }
        }
        index
    }

    /// The places of all rules that can match on this object, in order.
    pub(super) fn candidates(&self, namespace: &str, name: &str) -> impl Iterator<Item = usize> {
        let own = self.namespaces.get(namespace);
        let named = own.and_then(|own| own.names.get(name));
        let mut lists =
            [&self.anywhere[..], own.map_or(&[][..], |own| &own.any), named.map_or(&[][..], |named| named)];
        std::iter::from_fn(move || {
            let next = lists.iter_mut().filter(|list| !list.is_empty()).min_by_key(|list| list[0])?;
            let (first, rest) = next.split_first()?;
            *next = rest;
            Some(*first)
        })
    }
}

/// Where a rule comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It is part of the program.
    BuiltIn,
    /// It stands in the settings.
    Settings,
    /// The owners of a namespace wrote it. It applies there only, and mutes nothing that is critical.
    Team {
        /// The namespace.
        namespace: Box<str>,
    },
}

/// One rule that can be applied.
#[derive(Clone, Debug)]
pub struct Rule {
    pub(super) name: Arc<str>,
    pub(super) origin: Origin,
    pub(super) spec: RuleSpec,
    pub(super) expires: Option<Timestamp>,
    pub(super) condition: Condition,
    pub(super) effects: Effects,
    /// Whether it stands among the built-in rules: it is one of them, or took the place of one.
    pub(super) is_base: bool,
}

impl Rule {
    /// Its name, unlike all others; that of a team's rule begins with the namespace and a slash.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Where it comes from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The rule as it was written.
    pub fn spec(&self) -> &RuleSpec {
        &self.spec
    }

    /// When it ceases to apply.
    pub fn expires(&self) -> Option<Timestamp> {
        self.expires
    }

    /// Whether it is switched off.
    pub fn is_off(&self) -> bool {
        self.effects.off
    }

    /// Whether it applies at this time.
    pub fn applies(&self, now: Timestamp) -> bool {
        !self.is_off() && self.expires.is_none_or(|expires| now < expires)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::{
        rules::{RuleInput, RuleSet, RuleSpec},
        types::Glob,
    };

    fn texts() -> impl Strategy<Value = Vec<String>> {
        prop::collection::vec(
            prop::sample::select(vec!["a", "b", "c", "a*", "*"]).prop_map(str::to_owned),
            0..3,
        )
    }

    proptest! {
        #[test]
        fn every_rule_that_can_match_is_found_once_and_in_order(
            written in prop::collection::vec((texts(), texts()), 0..12),
        ) {
            let rule = |(at, (namespaces, names)): (usize, (Vec<String>, Vec<String>))| {
                let mut rule: RuleSpec = serde_json::from_value(
                    serde_json::json!({"name": format!("r{at}"), "effect": "ignore"})).unwrap();
                (rule.matches.namespaces, rule.matches.names) = (namespaces, names);
                rule
            };
            let rules: Vec<RuleSpec> = written.into_iter().enumerate().map(rule).collect();
            let set = RuleSet::compile(&RuleInput { rules, ..RuleInput::default() }).unwrap();
            let any = |globs: &[String], text: &str| globs.is_empty() || globs.iter().any(|own| Glob::new(own).matches(text));
            for (namespace, name) in [("a", "a"), ("a", "b"), ("ab", "c"), ("d", "d")] {
                let found: Vec<usize> = set.index.candidates(namespace, name).collect();
                prop_assert!(found.is_sorted_by(|a, b| a < b));
                for (at, rule) in set.rules().iter().enumerate() {
                    let matches = &rule.spec().matches;
                    if any(&matches.namespaces, namespace) && any(&matches.names, name) {
                        prop_assert!(found.contains(&at), "{namespace}/{name}: {:?}", rule.spec());
                    }
                }
            }
        }
    }
}
