//! Properties of all rule sets.

use drift_exporter::{
    rules::{RuleConfig, RuleSet, RuleSpec, TeamRules, built_in_rules},
    types::{Difference, FieldClass, Glob, Kind, MatchedBy, ObjectKey, Severity},
};
use proptest::prelude::*;

use crate::rules::{compile, finding, rate_in, rate_of, specs};

fn condition() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "{}",
        "{fields: [replicas]}",
        "{fields: [security, image]}",
        "{paths: [spec]}",
        "{paths: ['**.image']}",
        "{namespaces: [shop]}",
        "{namespaces: ['*op'], actors: [kubectl]}",
        "{values: [5]}",
        "{kinds: [Deployment], labels: {team: checkout}}",
    ])
}

fn effect() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "ignore",
        "expected",
        "unexpected",
        "{severity: info}",
        "{severity: critical}",
        "{advice: auto_remediate}",
        "[expected, {severity: warning}]",
        "[ignore, {severity: info}]",
    ])
}

fn rule() -> impl Strategy<Value = (&'static str, &'static str)> {
    (condition(), effect())
}

fn named(prefix: &str, rules: &[(&str, &str)]) -> Vec<RuleSpec> {
    let lines = rules.iter().enumerate();
    let lines = lines.map(|(at, (condition, effect))| {
        format!("{{name: {prefix}{at}, match: {condition}, effect: {effect}}}")
    });
    specs(&format!("[{}]", lines.collect::<Vec<_>>().join(",")))
}

fn settings(rules: Vec<RuleSpec>) -> RuleSet {
    compile(&RuleConfig { rules, ..RuleConfig::default() })
}

/// Some differences in this namespace, rated by these rules.
fn outcomes(rules: &RuleSet, namespace: &str) -> Vec<Difference> {
    let findings = [
        finding("spec.replicas", FieldClass::Replicas, "kubectl", "2", "5"),
        finding("spec.replicas", FieldClass::Replicas, "kubectl", "2", "0"),
        finding("spec.a.image", FieldClass::Image, "argocd", "nginx:1", "nginx:2"),
        finding("spec.b", FieldClass::Security, "kubectl", "", "5"),
        finding("spec", FieldClass::Hash, "kubectl", "a", "b"),
    ];
    findings.map(|finding| rate_in(rules, namespace, &Kind::deployment(), finding)).into()
}

/// The same differences with matched rules in a fixed order.
fn unordered(mut outcomes: Vec<Difference>) -> Vec<Difference> {
    for outcome in &mut outcomes {
        let mut matched = outcome.matched.to_vec();
        matched.sort();
        outcome.matched = matched.into();
    }
    outcomes
}

fn globs() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "a*", "*"]).prop_map(str::to_owned), 0..3)
}

proptest! {
    #[test]
    fn every_rule_of_an_object_matches_once_and_in_order(
        matches in prop::collection::vec((globs(), globs()), 0..12),
    ) {
        let rule = |(at, (namespaces, names)): (usize, &(Vec<String>, Vec<String>))| {
            let mut rule = specs(&format!("[{{name: r{at}, effect: ignore}}]")).remove(0);
            (rule.matches.namespaces, rule.matches.names) = (namespaces.clone(), names.clone());
            rule
        };
        let set = settings(matches.iter().enumerate().map(rule).collect());
        let any = |globs: &[String], text: &str| globs.is_empty() || globs.iter().any(|glob| Glob::new(glob).matches(text));
        for (namespace, name) in [("a", "a"), ("a", "b"), ("ab", "c"), ("d", "d")] {
            let key = ObjectKey::new(Kind::deployment(), namespace, name);
            let difference = rate_of(&set, &key, finding("spec.b", FieldClass::Other, "kubectl", "1", "2"));
            let built_in = difference.matched.iter().filter(|rule| set.position(rule.as_str()).is_some_and(|at| at < built_in_rules().len()));
            let found: Vec<&str> = difference.matched.iter().skip(built_in.count()).map(MatchedBy::as_str).collect();
            let selected = matches.iter().enumerate().filter(|(_, (namespaces, names))| any(namespaces, namespace) && any(names, name));
            let selected: Vec<String> = selected.map(|(at, _)| format!("r{at}")).collect();
            prop_assert_eq!(found, selected, "{}/{}", namespace, name);
        }
    }

    #[test]
    fn order_of_ignore_rules_has_no_effect(
        rules in prop::collection::vec(rule(), 0..5),
        ignore_rules in prop::collection::vec(condition(), 0..5),
        shuffled in Just(()).prop_perturb(|(), random| random),
    ) {
        let ignore_rules: Vec<_> = ignore_rules.into_iter().map(|condition| (condition, "ignore")).collect();
        let mut random = shuffled;
        let (others, ignore_rules) = (named("other-", &rules), named("ignoring-", &ignore_rules));
        let first = settings([others.clone(), ignore_rules.clone()].concat());
        // Insert each ignore rule at a random position; the others keep their order.
        let mut all = others;
        for rule in ignore_rules {
            let at = random.random_range(0..=all.len());
            all.insert(at, rule);
        }
        let second = settings(all);
        prop_assert_eq!(unordered(outcomes(&first, "shop")), unordered(outcomes(&second, "shop")));
    }

    #[test]
    fn disabled_or_expired_rule_has_no_effect(
        rules in prop::collection::vec(rule(), 0..5),
        (condition, effect) in rule(),
        at in any::<prop::sample::Index>(),
    ) {
        let rules = named("rule-", &rules);
        let at = at.index(rules.len() + 1);
        let without = outcomes(&settings(rules.clone()), "shop");
        for extra in [
            format!("[{{name: more, match: {condition}, effect: off}}]"),
            format!("[{{name: more, match: {condition}, effect: {effect}, expires: 2026-01-31}}]"),
        ] {
            let mut all = rules.clone();
            all.splice(at..at, specs(&extra));
            prop_assert_eq!(&outcomes(&settings(all), "shop"), &without);
        }
    }

    #[test]
    fn team_rules_affect_only_their_namespace_and_no_critical_drift(
        rules in prop::collection::vec(rule(), 0..4),
        // A condition on another namespace is invalid in team rules, so these conditions have none.
        team in prop::collection::vec(rule().prop_filter("no namespaces", |(condition, _)| !condition.contains("op")), 0..4),
    ) {
        let rules = named("rule-", &rules);
        let without = settings(rules.clone());
        let teams = vec![TeamRules { namespace: "shop".into(), rules: named("team-", &team) }];
        let with = compile(&RuleConfig { rules, teams, ..RuleConfig::default() });
        prop_assert_eq!(outcomes(&without, "other"), outcomes(&with, "other"));
        for (before, after) in outcomes(&without, "shop").into_iter().zip(outcomes(&with, "shop")) {
            if before.severity == Severity::Critical {
                prop_assert_eq!(after.severity, Severity::Critical);
                prop_assert_eq!(&after.ignored_by, &before.ignored_by);
                prop_assert!(after.expectation >= before.expectation);
            }
            if after.severity == Severity::Critical {
                prop_assert_eq!(&after.ignored_by, &before.ignored_by);
            }
        }
    }
}
