//! Rules that accept the live value of a field.

use std::collections::BTreeSet;

use super::{EffectSpec, EffectsSpec, MatchSpec, RuleSpec, ValueSpec};
use crate::types::{RedactionKey, ValueDigest};

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

/// One field of one object that is accepted.
#[derive(Clone, Copy, Debug)]
pub struct Accepted<'a> {
    /// API group of the object; empty for the core group.
    pub group: &'a str,
    /// Its kind.
    pub kind: &'a str,
    /// Its namespace; empty for objects without one.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// The path of the field.
    pub path: &'a str,
    /// The value that it has now, of which the digest is written down. None accepts whatever it has, where nothing may be written down that
    /// the value could be guessed from.
    pub value: Option<&'a str>,
}

/// Rules that accept these fields. Two sources may declare the same one, which one rule accepts.
pub fn accepting<'a>(fields: impl Iterator<Item = Accepted<'a>>, why: &Why<'_>) -> Vec<RuleSpec> {
    let mut names = BTreeSet::new();
    fields.map(|field| rule(field, why)).filter(|rule| names.insert(rule.name.clone())).collect()
}

/// The rules as a list that the settings take.
///
/// # Panics
///
/// Never: all keys of a rule are texts.
pub fn rules_as_yaml(rules: &[RuleSpec]) -> String {
    serde_saphyr::to_string(&rules).expect("a rule has only text keys")
}

fn rule(accepted: Accepted<'_>, why: &Why<'_>) -> RuleSpec {
    // A digest of what may not be told holds until the next restart only.
    let value = accepted.value.filter(|value| !RedactionKey::is_digest(value));
    let accepted = Accepted { value, ..accepted };
    let Accepted { group, kind, namespace, name, path, .. } = accepted;
    let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
    RuleSpec {
        name: rule_name(&accepted),
        matches: MatchSpec {
            kinds: vec![qualified],
            namespaces: vec![namespace.to_owned()],
            names: vec![name.to_owned()],
            paths: vec![path.to_owned()],
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
fn rule_name(Accepted { group, kind, namespace, name, path, value }: &Accepted<'_>) -> String {
    let identity = [*group, namespace, name, path, value.unwrap_or("")].join("\0");
    let digest: String =
        ValueDigest::of(&identity).to_string().chars().skip("sha256:".len()).take(12).collect();
    let parts = ["accepted", &kind.to_lowercase(), namespace, name];
    let words = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-");
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let slug: String = words.chars().map(|c| if allowed(c) { c } else { '-' }).take(LONGEST_SLUG).collect();
    format!("{slug}-{digest}")
}

/// What is left of a rule's 100 characters beside the digest, and a little air.
const LONGEST_SLUG: usize = 80;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Accepted, Why, accepting, rules_as_yaml};
    use crate::{
        rules::{RuleInput, RuleSet, RuleSpec},
        types::RedactionKey,
    };

    fn web<'a>(name: &'a str, path: &'a str, value: &'a str) -> Accepted<'a> {
        Accepted { group: "apps", kind: "Deployment", namespace: "shop", name, path, value: Some(value) }
    }

    #[test]
    fn a_field_is_accepted_once_and_no_digest_is_pinned() {
        let why = Why { owner: "me", reason: "load test", expires: "2027-01-01" };
        let digest = RedactionKey::new([3; 32]).digest(b"hidden");
        let fields = [("spec.a", "7"), ("spec.a", "7"), ("spec.b", &*digest)];
        let rules = accepting(fields.into_iter().map(|(path, value)| web("web", path, value)), &why);
        let pinned: Vec<(&str, usize)> =
            rules.iter().map(|rule| (&*rule.matches.paths[0], rule.matches.values.len())).collect();
        assert_eq!(pinned, [("spec.a", 1), ("spec.b", 0)]);
    }

    #[test]
    fn rules_for_any_object_can_be_used_and_none_takes_the_place_of_another() {
        let long = "x".repeat(253);
        let objects =
            ["web", "system:node-proxier", "system.node-proxier", "Größe", &long, &format!("{long}y")];
        let changes = [("spec.replicas", "7"), ("spec.replicas", "8"), ("spec.minReplicas", "7")];
        let why = Why { owner: "me", reason: "load test", expires: "2027-01-01" };
        let fields = objects.into_iter().flat_map(|name| changes.map(|(path, value)| web(name, path, value)));
        let rules = accepting(fields, &why);
        let names: BTreeSet<&str> = rules.iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!(names.len(), objects.len() * changes.len(), "{names:#?}");
        assert!(rules[0].name.starts_with("accepted-deployment-shop-web-"), "{}", rules[0].name);
        let read: Vec<RuleSpec> = serde_saphyr::from_str(&rules_as_yaml(&rules)).unwrap();
        assert_eq!(read, rules, "what is printed is what is meant");
        let compiled = RuleSet::compile(&RuleInput { rules, ..RuleInput::default() });
        assert!(compiled.is_ok(), "{:#?}", compiled.err());
    }
}
