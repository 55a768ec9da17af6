//! Generates rules that accept the live value of a field.

use std::collections::BTreeSet;

use super::{EffectSpec, EffectsSpec, MatchSpec, RuleSpec, ValueSpec};
use crate::types::{FieldValue, ValueDigest};

/// Owner, reason and expiry of the generated rules.
#[derive(Clone, Copy, Debug)]
pub struct Justification<'a> {
    pub owner: &'a str,
    pub reason: &'a str,
    /// A date or an RFC 3339 time.
    pub expires: &'a str,
}

/// One field of one object whose live value is accepted.
#[derive(Clone, Debug)]
pub struct AcceptedField<'a> {
    /// API group; empty for the core group.
    pub group: &'a str,
    pub kind: &'a str,
    /// Empty for cluster-scoped objects.
    pub namespace: &'a str,
    pub name: &'a str,
    pub path: &'a str,
    /// The live value, of which the rule contains the digest. If it is redacted, the rule accepts every value: the value could be
    /// guessed from its digest, and its keyed digest is valid until the next restart only.
    pub value: FieldValue,
}

/// One rule for each field. Two sources may declare the same field; one rule accepts it for both.
pub fn acceptance_rules<'a>(
    fields: impl Iterator<Item = AcceptedField<'a>>,
    justification: &Justification<'_>,
) -> Vec<RuleSpec> {
    let mut names = BTreeSet::new();
    fields.map(|field| rule(&field, justification)).filter(|rule| names.insert(rule.name.clone())).collect()
}

/// Writes rules as the list `rules` of the settings.
///
/// # Panics
///
/// Never: all keys of a rule are strings.
pub fn rules_to_yaml(rules: &[RuleSpec]) -> String {
    serde_saphyr::to_string(&rules).expect("a rule has only string keys")
}

fn rule(field: &AcceptedField<'_>, justification: &Justification<'_>) -> RuleSpec {
    let AcceptedField { group, kind, namespace, name, path, value } = field;
    let qualified = if group.is_empty() { (*kind).to_owned() } else { format!("{kind}.{group}") };
    RuleSpec {
        name: rule_name(field),
        matches: MatchSpec {
            kinds: vec![qualified],
            namespaces: vec![(*namespace).to_owned()],
            names: vec![(*name).to_owned()],
            paths: vec![(*path).to_owned()],
            values: value.value_digest().map(|digest| ValueSpec(digest.to_string())).into_iter().collect(),
            ..MatchSpec::default()
        },
        effect: EffectsSpec(vec![EffectSpec::Word("ignore".to_owned())]),
        owner: Some(justification.owner.to_owned()),
        reason: Some(justification.reason.to_owned()),
        expires: Some(justification.expires.to_owned()),
    }
}

/// A unique, valid rule name: `accepted-deployment-shop-web-1f3a…`.
///
/// The digest covers object, path and value, so a later acceptance does not replace this rule. Names of objects may be longer than
/// names of rules, and may contain other characters.
fn rule_name(AcceptedField { group, kind, namespace, name, path, value }: &AcceptedField<'_>) -> String {
    let value = if let FieldValue::Redacted(_) = value { "".into() } else { value.text() };
    let identity = [*group, namespace, name, path, &value].join("\0");
    let digest: String =
        ValueDigest::of(&identity).to_string().chars().skip("sha256:".len()).take(12).collect();
    let parts = ["accepted", &kind.to_lowercase(), namespace, name];
    let words = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-");
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let slug: String = words.chars().map(|c| if allowed(c) { c } else { '-' }).take(MAX_SLUG).collect();
    format!("{slug}-{digest}")
}

/// A rule name has at most 100 characters, 13 of which are the digest.
const MAX_SLUG: usize = 80;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{AcceptedField, FieldValue, Justification, acceptance_rules, rules_to_yaml};
    use crate::{
        rules::{RuleConfig, RuleSet, RuleSpec},
        types::RedactionKey,
    };

    fn web<'a>(name: &'a str, path: &'a str, value: FieldValue) -> AcceptedField<'a> {
        AcceptedField { group: "apps", kind: "Deployment", namespace: "shop", name, path, value }
    }

    #[test]
    fn field_is_accepted_once_and_redacted_value_is_not_pinned() {
        let justification = Justification { owner: "me", reason: "load test", expires: "2027-01-01" };
        let seven = || FieldValue::non_empty("7");
        let redacted = FieldValue::Redacted(RedactionKey::new([3; 32]).digest(b"hidden"));
        let plain = FieldValue::non_empty(&*redacted.text());
        let fields = [("spec.a", seven()), ("spec.a", seven()), ("spec.b", redacted), ("spec.c", plain)];
        let rules =
            acceptance_rules(fields.into_iter().map(|(path, value)| web("web", path, value)), &justification);
        let pinned: Vec<(&str, usize)> =
            rules.iter().map(|rule| (&*rule.matches.paths[0], rule.matches.values.len())).collect();
        assert_eq!(pinned, [("spec.a", 1), ("spec.b", 0), ("spec.c", 1)]);
    }

    #[test]
    fn generated_rules_compile_and_have_unique_names() {
        let long = "x".repeat(253);
        let objects =
            ["web", "system:node-proxier", "system.node-proxier", "Größe", &long, &format!("{long}y")];
        let changes = [("spec.replicas", "7"), ("spec.replicas", "8"), ("spec.minReplicas", "7")];
        let justification = Justification { owner: "me", reason: "load test", expires: "2027-01-01" };
        let fields = objects
            .into_iter()
            .flat_map(|name| changes.map(|(path, value)| web(name, path, FieldValue::non_empty(value))));
        let rules = acceptance_rules(fields, &justification);
        let names: BTreeSet<&str> = rules.iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!(names.len(), objects.len() * changes.len(), "{names:#?}");
        assert!(rules[0].name.starts_with("accepted-deployment-shop-web-"), "{}", rules[0].name);
        let parsed: Vec<RuleSpec> = serde_saphyr::from_str(&rules_to_yaml(&rules)).unwrap();
        assert_eq!(parsed, rules, "YAML round-trips");
        let compiled = RuleSet::compile(&RuleConfig { rules, ..RuleConfig::default() });
        assert!(compiled.is_ok(), "{:#?}", compiled.err());
    }
}
