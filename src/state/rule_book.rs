//! The rules that hold, and how many differences each of them matches.

use std::sync::Arc;

use crate::{
    model::Verdict,
    rules::{Rule, RuleSet},
};

/// The rules that hold, and how many differences each of them matches now.
#[derive(Clone, Debug)]
pub struct RuleBook {
    set: Arc<RuleSet>,
    /// By the place of the rule.
    matches: Vec<u64>,
}

impl RuleBook {
    /// These rules, which have matched nothing yet.
    pub(super) fn new(set: Arc<RuleSet>) -> Self {
        let matches = vec![0; set.rules().len()];
        Self { set, matches }
    }

    /// The rules.
    pub fn set(&self) -> &Arc<RuleSet> {
        &self.set
    }

    /// Every rule with the number of differences that it matches, ignored ones included.
    pub fn matches(&self) -> impl Iterator<Item = (&Rule, u64)> {
        self.set.rules().iter().zip(self.matches.iter().copied())
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
