//! Rules that accept what is there now.

use super::{EffectSpec, EffectsSpec, MatchSpec, RuleSpec, ValueSpec};
use crate::model::{Finding, Kind, ObjectKey, ValueDigest};

/// What people say about what they accept.
#[derive(Clone, Copy, Debug)]
pub struct Why<'a> {
    /// Who answers for it.
    pub owner: &'a str,
    /// Why it is fine.
    pub reason: &'a str,
    /// Until when: a date or a time.
    pub expires: &'a str,
}

/// How much of a difference is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pin {
    /// The value that the field has now, told by its digest.
    Value,
    /// Whatever the field has. Nothing that the value could be guessed from is written down.
    Field,
}

/// The rules as a list that the settings take.
///
/// # Panics
///
/// Never: all keys of a rule are texts.
pub fn rules_as_yaml(rules: &[RuleSpec]) -> String {
    serde_saphyr::to_string(&rules).expect("a rule has only text keys")
}

/// A rule that accepts one difference of one object.
pub fn accepting(key: &ObjectKey, finding: &Finding, pin: Pin, why: &Why<'_>) -> RuleSpec {
    let Kind { kind, group, .. } = &*key.kind;
    let qualified = if group.is_empty() { kind.to_string() } else { format!("{kind}.{group}") };
    let value = (pin == Pin::Value).then_some(&*finding.actual);
    RuleSpec {
        name: name(key, &finding.path, value),
        matches: MatchSpec {
            kinds: vec![qualified],
            namespaces: vec![key.namespace.to_string()],
            names: vec![key.name.to_string()],
            paths: vec![finding.path.to_string()],
            values: value.map(|own| ValueSpec(ValueDigest::of(own).to_string())).into_iter().collect(),
            ..MatchSpec::default()
        },
        effect: EffectsSpec(vec![EffectSpec::Word("ignore".to_owned())]),
        owner: Some(why.owner.to_owned()),
        reason: Some(why.reason.to_owned()),
        expires: Some(why.expires.to_owned()),
    }
}

/// A name that a rule can have, and no other: `accepted-deployment-shop-web-1f3a…`.
///
/// Object, path and value, where it is pinned, are part of it, so that what is accepted later stands beside this and not in its place. Names of objects
/// may be longer than those of rules, and have other signs in them.
fn name(key: &ObjectKey, path: &str, value: Option<&str>) -> String {
    let identity = [&*key.kind.group, &key.namespace, &key.name, path, value.unwrap_or("")].join("\0");
    let digest: String =
        ValueDigest::of(&identity).to_string().chars().skip("sha256:".len()).take(12).collect();
    let parts = ["accepted", &key.kind.kind.to_lowercase(), &key.namespace, &key.name];
    let words = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-");
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let slug: String = words.chars().map(|c| if allowed(c) { c } else { '-' }).take(LONGEST_SLUG).collect();
    format!("{slug}-{digest}")
}

/// What is left of a rule's 100 characters beside the digest, and a little air.
const LONGEST_SLUG: usize = 80;

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, sync::Arc};

    use super::{Finding, Kind, ObjectKey, Pin, Why, accepting, rules_as_yaml};
    use crate::{
        model::FieldClass,
        rules::{RuleInput, RuleSet, RuleSpec},
    };

    #[test]
    fn rules_for_any_object_can_be_used_and_none_takes_the_place_of_another() {
        let long = "x".repeat(253);
        let objects =
            ["web", "system:node-proxier", "system.node-proxier", "Größe", &long, &format!("{long}y")];
        let changes = [("spec.replicas", "7"), ("spec.replicas", "8"), ("spec.minReplicas", "7")];
        let why = Why { owner: "me", reason: "load test", expires: "2027-01-01" };
        let mut rules = Vec::new();
        for name in objects {
            let kind = Arc::new(Kind::deployment());
            let key = ObjectKey { kind, namespace: "shop".into(), name: name.into() };
            for (path, actual) in changes {
                let finding = Finding {
                    path: path.into(),
                    class: FieldClass::Replicas,
                    expected: "3".into(),
                    actual: actual.into(),
                    writer: None,
                };
                rules.push(accepting(&key, &finding, Pin::Value, &why));
            }
        }
        let names: BTreeSet<&str> = rules.iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!(names.len(), objects.len() * changes.len(), "{names:#?}");
        assert!(rules[0].name.starts_with("accepted-deployment-shop-web-"), "{}", rules[0].name);
        let read: Vec<RuleSpec> = serde_saphyr::from_str(&rules_as_yaml(&rules)).unwrap();
        assert_eq!(read, rules, "what is printed is what is meant");
        let compiled = RuleSet::compile(&RuleInput { rules, ..RuleInput::default() });
        assert!(compiled.is_ok(), "{:#?}", compiled.err());
    }
}
