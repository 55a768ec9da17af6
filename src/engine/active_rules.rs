//! The rules in effect: the compiled set, and the number of differences that each rule matches now.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use crate::{
    rules::{Rule, RuleOrigin, RuleSet},
    types::{ClaimedObject, MatchedBy, Verdict},
};

/// The rules in effect, and the number of differences that each of them matches now.
#[derive(Clone, Debug)]
pub struct ActiveRules {
    set: Arc<RuleSet>,
    /// By the position of the rule in the set.
    matches: Vec<u64>,
    /// The positions of rules that the caller may not see.
    hidden: BTreeSet<usize>,
    labels: Arc<NeededLabels>,
}

/// The labels that rules match.
#[derive(Debug, Default)]
struct NeededLabels {
    everywhere: Vec<Box<str>>,
    /// By the namespace of the team whose rules match them.
    in_namespace: HashMap<Box<str>, Vec<Box<str>>>,
}

impl NeededLabels {
    fn of(rules: &[Rule]) -> Self {
        let mut needed = Self::default();
        for rule in rules.iter().filter(|rule| !rule.is_off() && !rule.spec().matches.labels.is_empty()) {
            let names = match rule.origin() {
                RuleOrigin::BuiltIn | RuleOrigin::Settings => &mut needed.everywhere,
                RuleOrigin::Team { namespace } => needed.in_namespace.entry(namespace.clone()).or_default(),
            };
            for name in rule.spec().matches.labels.keys() {
                if !names.iter().any(|known| **known == **name) {
                    names.push(name.as_str().into());
                }
            }
        }
        needed
    }
}

impl ActiveRules {
    pub(super) fn new(set: Arc<RuleSet>) -> Self {
        let matches = vec![0; set.rules().len()];
        let labels = Arc::new(NeededLabels::of(set.rules()));
        Self { set, matches, hidden: BTreeSet::new(), labels }
    }

    /// Only the matches in these verdicts, without the rules of teams in other namespaces.
    pub(super) fn scoped_to<'a>(
        &self,
        is_visible: impl Fn(&str) -> bool,
        verdicts: impl Iterator<Item = &'a Verdict>,
    ) -> Self {
        let is_hidden =
            |rule: &Rule| matches!(rule.origin(), RuleOrigin::Team { namespace } if !is_visible(namespace));
        let rules = self.set.rules().iter().enumerate();
        let hidden = rules.filter(|(_, rule)| is_hidden(rule)).map(|(at, _)| at).collect();
        let matches = vec![0; self.matches.len()];
        let mut scoped = Self { set: self.set.clone(), matches, hidden, labels: self.labels.clone() };
        verdicts.for_each(|verdict| scoped.add(verdict));
        scoped
    }

    pub(super) fn same_content(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.set, &other.set) && (&self.matches, &self.hidden) == (&other.matches, &other.hidden)
    }

    pub fn set(&self) -> &Arc<RuleSet> {
        &self.set
    }

    /// Whether all labels of an object that rules for it need were read. If not, the object is being listed again with them. An
    /// absent object needs no relist: its labels are final.
    pub(super) fn has_labels(&self, object: &ClaimedObject) -> bool {
        let Some(object) = object.live() else { return true };
        let of_team = self.labels.in_namespace.get(&*object.key.namespace);
        object.rule_inputs.covers_labels(&self.labels.everywhere)
            && of_team.is_none_or(|names| object.rule_inputs.covers_labels(names))
    }

    /// Every visible rule with the number of differences that it matches, ignored differences included.
    pub fn matches(&self) -> impl Iterator<Item = (&Rule, u64)> {
        let rules = self.set.rules().iter().zip(self.matches.iter().copied()).enumerate();
        rules.filter(|(at, _)| !self.hidden.contains(at)).map(|(_, rule)| rule)
    }

    pub(super) fn add(&mut self, verdict: &Verdict) {
        self.update(verdict, |count| count + 1);
    }

    fn update(&mut self, verdict: &Verdict, update: impl Fn(u64) -> u64) {
        let matched = verdict.differences().flat_map(|difference| &*difference.matched);
        for rule in matched.filter_map(MatchedBy::rule) {
            if let Some(at) = self.set.position(rule) {
                self.matches[at] = update(self.matches[at]);
            }
        }
    }
}

impl Default for ActiveRules {
    fn default() -> Self {
        Self::new(Arc::default())
    }
}

/// Updates the matches when a claim is added, changed or removed.
pub(super) fn update_rule_matches(
    rules: &mut Arc<ActiveRules>,
    before: Option<&Verdict>,
    after: Option<&Verdict>,
) {
    let has_matches = |verdict: Option<&Verdict>| {
        verdict.is_some_and(|verdict| verdict.differences().any(|difference| !difference.matched.is_empty()))
    };
    // Most claims match nothing; the published rules are not copied for them.
    if before == after || !(has_matches(before) || has_matches(after)) {
        return;
    }
    let rules = Arc::make_mut(rules);
    before.into_iter().for_each(|verdict| rules.update(verdict, |count| count.saturating_sub(1)));
    after.into_iter().for_each(|verdict| rules.add(verdict));
}
