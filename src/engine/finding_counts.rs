//! How many findings of a namespace the claims store. A tenant may declare thousands of objects with any number of fields. Without a
//! limit, their differences would fill the memory.

use std::{collections::HashMap, sync::Arc};

use super::ClaimEntry;
use crate::{diff::MAX_FINDINGS, types::Source};

/// The findings of one comparison or of one claim, by the namespace that stores the baseline. Those of baselines that the settings trust
/// are not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NamespaceFindings(Vec<(Box<str>, usize)>);

impl NamespaceFindings {
    pub(super) fn add(&mut self, namespace: Option<&str>, findings: usize) {
        let Some(namespace) = namespace.filter(|_| findings > 0) else { return };
        match self.0.iter_mut().find(|(counted, _)| **counted == *namespace) {
            Some((_, count)) => *count += findings,
            None => self.0.push((namespace.into(), findings)),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn of(&self, namespace: &str) -> usize {
        self.0.iter().find(|(counted, _)| **counted == *namespace).map_or(0, |(_, count)| *count)
    }
}

/// The findings of all stored claims, for each source and namespace.
#[derive(Debug, Default)]
pub(super) struct FindingCounts(HashMap<(Source, Box<str>), usize>);

impl FindingCounts {
    /// Replaces the claims on an object.
    pub(super) fn replace(&mut self, before: &[Arc<ClaimEntry>], after: &[Arc<ClaimEntry>]) {
        for (source, namespace, findings) in counted(after) {
            *self.0.entry((source, namespace.clone())).or_default() += findings;
        }
        for (source, namespace, findings) in counted(before) {
            let key = (source, namespace.clone());
            let Some(count) = self.0.get_mut(&key) else { continue };
            *count = count.saturating_sub(findings);
            if *count == 0 {
                self.0.remove(&key);
            }
        }
    }
}

fn counted(entries: &[Arc<ClaimEntry>]) -> impl Iterator<Item = (Source, &Box<str>, usize)> {
    entries.iter().flat_map(|entry| {
        let details = entry.claim.details.iter();
        let findings = details.flat_map(|details| &details.counted_findings.0);
        findings.map(|(namespace, count)| (entry.claim.source, namespace, *count))
    })
}

/// How many findings a claim may get.
#[derive(Clone, Copy, Debug)]
pub(super) struct FindingBudget<'a> {
    counts: &'a FindingCounts,
    max: Option<usize>,
    /// The claims that the new ones replace.
    before: &'a [Arc<ClaimEntry>],
}

impl<'a> FindingBudget<'a> {
    pub(super) fn new(counts: &'a FindingCounts, max: Option<usize>, before: &'a [Arc<ClaimEntry>]) -> Self {
        Self { counts, max, before }
    }

    /// The most findings of the next comparison for a claim of this source, after `added`. The namespace is that of the baseline; `None` if
    /// the settings trust it.
    pub(super) fn room(&self, source: Source, namespace: Option<&str>, added: &NamespaceFindings) -> usize {
        let (Some(max), Some(namespace)) = (self.max, namespace) else { return MAX_FINDINGS };
        let stored = self.counts.0.get(&(source, namespace.into())).copied().unwrap_or_default();
        let replaced: usize = counted(self.before)
            .filter(|(counted, name, _)| *counted == source && ***name == *namespace)
            .map(|(_, _, findings)| findings)
            .sum();
        let used = stored.saturating_sub(replaced) + added.of(namespace);
        max.saturating_sub(used).min(MAX_FINDINGS)
    }
}

#[cfg(test)]
impl FindingBudget<'_> {
    pub(super) fn unlimited(counts: &FindingCounts) -> FindingBudget<'_> {
        FindingBudget { counts, max: None, before: &[] }
    }
}
