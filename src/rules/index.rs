//! Which rules can be about an object, found without asking all of them.

use std::collections::{BTreeSet, HashMap};

use super::Rule;

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
