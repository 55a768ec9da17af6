//! A set of compiled rules, and how it rates a difference.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, LazyLock},
};

use jiff::Timestamp;

use super::{
    RuleConfig, RuleProblem, RuleSpec,
    actors::Actors,
    compile::compile,
    condition::{Condition, MatchInput},
    spec::Effects,
};
use crate::types::{
    Advice, Difference, Expectation, FieldClass, Finding, MatchedBy, ObjectKey, OnsetSource, PathPattern,
    Severity, Source,
};

/// Compiled rules.
///
/// Any matching `ignore` wins. Severity, expectation and advice each come from the last matching rule that sets them: built-in
/// rules first, then the rules of the settings in order, then the rules of the teams.
#[derive(Clone, Debug)]
pub struct RuleSet {
    rules: Vec<Rule>,
    severities: HashMap<FieldClass, Severity>,
    actors: Actors,
    by_name: HashMap<Arc<str>, usize>,
    index: RuleIndex,
}

/// An object whose differences are rated: the parts of it that rules read.
#[derive(Clone, Copy, Debug)]
pub struct RatedObject<'a> {
    pub key: &'a ObjectKey,
    /// At least the labels of [`RuleSet::label_names`] that the object has.
    pub labels: &'a [(Box<str>, Box<str>)],
    /// The patterns in the annotation `<prefix>/ignore`.
    pub muted_paths: &'a [PathPattern],
    pub source: Source,
    /// Whether an autoscaler targets the object.
    pub autoscaled: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleOrigin {
    BuiltIn,
    Settings,
    /// A ConfigMap in this namespace. The rule applies in this namespace only, and cannot mute critical differences.
    Team {
        namespace: Box<str>,
    },
}

#[derive(Clone, Debug)]
pub struct Rule {
    pub(super) name: Arc<str>,
    pub(super) origin: RuleOrigin,
    pub(super) spec: RuleSpec,
    pub(super) expires: Option<Timestamp>,
    pub(super) condition: Condition,
    pub(super) effects: Effects,
    /// A built-in rule, or a rule of the settings that replaces one.
    pub(super) is_base: bool,
    /// Why it is probably a mistake.
    pub(super) warning: Option<RuleProblem>,
}

impl Rule {
    /// Unique; `<namespace>/<name>` for the rule of a team.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub fn origin(&self) -> &RuleOrigin {
        &self.origin
    }

    pub fn spec(&self) -> &RuleSpec {
        &self.spec
    }

    pub fn expires(&self) -> Option<Timestamp> {
        self.expires
    }

    pub fn is_off(&self) -> bool {
        self.effects.off
    }

    /// Whether it is neither off nor expired.
    pub fn applies(&self, now: Timestamp) -> bool {
        !self.is_off() && !self.has_expired(now)
    }

    fn has_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}

impl RuleSet {
    /// Compiles the built-in rules and these. Returns every problem if any rule is invalid.
    pub fn compile(config: &RuleConfig) -> Result<Self, Vec<RuleProblem>> {
        compile(config)
    }

    pub fn built_in() -> Self {
        static BUILT_IN: LazyLock<RuleSet> = LazyLock::new(|| {
            RuleSet::compile(&RuleConfig::default()).expect("a test compiles the built-in rules")
        });
        BUILT_IN.clone()
    }

    pub(super) fn new(rules: Vec<Rule>, severities: HashMap<FieldClass, Severity>, actors: Actors) -> Self {
        let by_name = rules.iter().enumerate().map(|(at, rule)| (rule.name.clone(), at)).collect();
        let index = RuleIndex::new(&rules);
        Self { rules, severities, actors, by_name, index }
    }

    /// All rules, in order of evaluation.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The index of a rule in [`Self::rules`].
    pub fn position(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Rules that are valid and probably mistakes, except those that have expired.
    pub fn warnings(&self, now: Timestamp) -> impl Iterator<Item = &RuleProblem> {
        self.rules.iter().filter(move |rule| !rule.has_expired(now)).filter_map(|rule| rule.warning.as_ref())
    }

    /// The labels that rules match, sorted. The watch keeps these labels of every object.
    pub fn label_names(&self) -> Arc<[Box<str>]> {
        let names =
            self.rules.iter().filter(|rule| !rule.is_off()).flat_map(|rule| rule.condition.label_names());
        names.collect::<BTreeSet<_>>().into_iter().map(Into::into).collect()
    }

    pub fn any_expires_between(&self, before: Timestamp, now: Timestamp) -> bool {
        self.rules.iter().any(|rule| rule.applies(before) != rule.applies(now))
    }

    /// Rates a finding that was first observed at `now`.
    ///
    /// The onset is the time at which the owner wrote the field, so it survives restarts without stored state. The clock of the API
    /// server may be ahead, so the onset is never later than `now`.
    pub fn rate(&self, object: &RatedObject<'_>, finding: Finding, now: Timestamp) -> Difference {
        let written = finding.owner.as_ref().and_then(|owner| owner.time);
        let onset = match written {
            Some(time) => (time.min(now), OnsetSource::FieldManager),
            None => (now, OnsetSource::Observed),
        };
        self.difference(object, finding, onset, now)
    }

    /// Rates a difference again, after the rules or the time changed. The onset stays, unless the clock went back behind it.
    pub fn rate_again(
        &self,
        object: &RatedObject<'_>,
        difference: &Difference,
        now: Timestamp,
    ) -> Difference {
        let onset = (difference.onset.min(now), difference.onset_source);
        self.difference(object, difference.finding.clone(), onset, now)
    }

    fn difference(
        &self,
        object: &RatedObject<'_>,
        finding: Finding,
        (onset, onset_source): (Timestamp, OnsetSource),
        now: Timestamp,
    ) -> Difference {
        let actor = self.actors.classify(&finding, object.autoscaled);
        let input = MatchInput::new(object, &finding, actor);
        let mut matched = Vec::new();
        let [mut base, mut settings, mut team] = std::array::from_fn(|_| LayerEffects::default());
        for at in self.index.candidates(&object.key.namespace, &object.key.name) {
            let rule = &self.rules[at];
            // Who marks a field as sensitive must not lower the severity of its drift.
            let is_critical = rule.effects.severity == Some(Severity::Critical);
            if !rule.applies(now) || !rule.condition.matches(&input, is_critical) {
                continue;
            }
            matched.push(MatchedBy::Rule(rule.name.clone()));
            match &rule.origin {
                RuleOrigin::BuiltIn | RuleOrigin::Settings if rule.is_base => base.add(rule),
                RuleOrigin::BuiltIn | RuleOrigin::Settings => settings.add(rule),
                RuleOrigin::Team { .. } => team.add(rule),
            }
        }
        let mut is_muted = object.muted_paths.iter().any(|pattern| pattern.matches(&finding.path));
        if is_muted {
            matched.push(MatchedBy::IgnoreAnnotation);
        }
        let by_class = self.severities.get(&finding.class).copied();
        let severity = settings.severity.or(by_class).or(base.severity).unwrap_or(Severity::Warning);
        // Teams may raise a difference to critical, but cannot mute or lower a critical one.
        let severity = if severity == Severity::Critical || team.sets_critical {
            Severity::Critical
        } else {
            team.severity.unwrap_or(severity)
        };
        if severity == Severity::Critical {
            (team.ignored_by, is_muted) = (None, false);
            team.expectation = team.expectation.filter(|expectation| *expectation == Expectation::Unexpected);
        }
        let expectation = team.expectation.or(settings.expectation).or(base.expectation);
        // The minimum does not depend on the order of the rules.
        let ignoring_rule = [base.ignored_by, settings.ignored_by].into_iter().flatten().min();
        let ignoring_rule = ignoring_rule.or(team.ignored_by).map(MatchedBy::Rule);
        Difference {
            finding,
            onset,
            onset_source,
            severity,
            expectation: expectation.unwrap_or(Expectation::Unexpected),
            // Without a rule, a person has to review the difference.
            advice: team.advice.or(settings.advice).or(base.advice).unwrap_or(Advice::AlertOnly),
            actor,
            ignored_by: ignoring_rule.or(is_muted.then_some(MatchedBy::IgnoreAnnotation)),
            matched: matched.into(),
        }
    }
}

impl Default for RuleSet {
    fn default() -> Self {
        Self::built_in()
    }
}

/// The combined effects of the matching rules of one origin. A later rule overrides an earlier one.
#[derive(Default)]
struct LayerEffects {
    severity: Option<Severity>,
    sets_critical: bool,
    expectation: Option<Expectation>,
    advice: Option<Advice>,
    ignored_by: Option<Arc<str>>,
}

impl LayerEffects {
    fn add(&mut self, rule: &Rule) {
        let effects = rule.effects;
        self.severity = effects.severity.or(self.severity);
        self.sets_critical |= effects.severity == Some(Severity::Critical);
        self.expectation = effects.expectation.or(self.expectation);
        self.advice = effects.advice.or(self.advice);
        if effects.ignore && self.ignored_by.as_ref().is_none_or(|other| rule.name < *other) {
            self.ignored_by = Some(rule.name.clone());
        }
    }
}

/// Rules by namespace and object name. Many rules accept one field of one object, or belong to one team: they cost nothing for
/// other objects. Each list is in the order of the rules.
#[derive(Clone, Debug, Default)]
struct RuleIndex {
    /// Rules that can match in any namespace.
    all_namespaces: Vec<usize>,
    namespaces: HashMap<Box<str>, NamespaceRules>,
}

#[derive(Clone, Debug, Default)]
struct NamespaceRules {
    /// Rules that can match any object of the namespace.
    all_objects: Vec<usize>,
    objects: HashMap<Box<str>, Vec<usize>>,
}

impl RuleIndex {
    fn new(rules: &[Rule]) -> Self {
        let mut index = Self::default();
        for (at, rule) in rules.iter().enumerate() {
            let Some(namespaces) = rule.condition.exact_namespaces() else {
                index.all_namespaces.push(at);
                continue;
            };
            for namespace in namespaces.into_iter().collect::<BTreeSet<_>>() {
                let namespace = index.namespaces.entry(namespace.into()).or_default();
                match rule.condition.exact_names() {
                    None => namespace.all_objects.push(at),
                    Some(names) => {
                        for name in names.into_iter().collect::<BTreeSet<_>>() {
                            namespace.objects.entry(name.into()).or_default().push(at);
                        }
                    }
                }
            }
        }
        index
    }

    /// The indices of all rules that can match this object, in ascending order.
    fn candidates(&self, namespace: &str, name: &str) -> impl Iterator<Item = usize> {
        let namespace = self.namespaces.get(namespace);
        let object = namespace.and_then(|namespace| namespace.objects.get(name));
        let mut lists = [
            &self.all_namespaces[..],
            namespace.map_or(&[][..], |namespace| &namespace.all_objects),
            object.map_or(&[][..], |object| object),
        ];
        std::iter::from_fn(move || {
            let next = lists.iter_mut().filter(|list| !list.is_empty()).min_by_key(|list| list[0])?;
            let (first, rest) = next.split_first()?;
            *next = rest;
            Some(*first)
        })
    }
}
