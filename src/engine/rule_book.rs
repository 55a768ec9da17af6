//! The rules that hold, and how many differences each of them matches.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    rules::{Origin, Rule, RuleSet},
    types::Verdict,
};

/// The rules that hold, and how many differences each of them matches now.
#[derive(Clone, Debug)]
pub struct RuleBook {
    set: Arc<RuleSet>,
    /// By the place of the rule.
    matches: Vec<u64>,
    /// The places of rules that are not told of.
    hidden: BTreeSet<usize>,
}

impl RuleBook {
    /// These rules, which have matched nothing yet.
    pub(super) fn new(set: Arc<RuleSet>) -> Self {
        let matches = vec![0; set.rules().len()];
        Self { set, matches, hidden: BTreeSet::new() }
    }

    /// What is left where only some namespaces may be seen, and these verdicts in them: rules of other teams are not told of.
    pub(super) fn only<'a>(
        &self,
        sees: impl Fn(&str) -> bool,
        verdicts: impl Iterator<Item = &'a Verdict>,
    ) -> Self {
        let is_hidden = |rule: &Rule| matches!(rule.origin(), Origin::Team { namespace } if !sees(namespace));
        let rules = self.set.rules().iter().enumerate();
        let hidden = rules.filter(|(_, rule)| is_hidden(rule)).map(|(at, _)| at).collect();
        let mut left = Self { hidden, ..Self::new(self.set.clone()) };
        verdicts.for_each(|verdict| left.add(verdict));
        left
    }

    /// Whether both have the same rules, which match as much.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.set, &other.set) && (&self.matches, &self.hidden) == (&other.matches, &other.hidden)
    }

    /// The rules.
    pub fn set(&self) -> &Arc<RuleSet> {
        &self.set
    }

    /// Every rule with the number of differences that it matches, ignored ones included.
    pub fn matches(&self) -> impl Iterator<Item = (&Rule, u64)> {
        let rules = self.set.rules().iter().zip(self.matches.iter().copied()).enumerate();
        rules.filter(|(at, _)| !self.hidden.contains(at)).map(|(_, own)| own)
    }

    /// Counts what a claim has.
    pub(super) fn add(&mut self, verdict: &Verdict) {
        self.change(verdict, |count| count + 1);
    }

    /// No longer counts what a claim had.
    pub(super) fn take(&mut self, verdict: &Verdict) {
        self.change(verdict, |count| count.saturating_sub(1));
    }

    fn change(&mut self, verdict: &Verdict, change: impl Fn(u64) -> u64) {
        for rule in verdict.differences().flat_map(|difference| &*difference.matched) {
            if let Some(at) = self.set.position(rule) {
                self.matches[at] = change(self.matches[at]);
            }
        }
    }
}

impl Default for RuleBook {
    fn default() -> Self {
        Self::new(Arc::default())
    }
}
