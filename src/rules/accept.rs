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
    /// The live value. The rule contains its digest. If it is redacted, the rule accepts every value: the value could be
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
    // Without a group, the rule would match kinds of this name in every group.
    let group = if group.is_empty() { "core" } else { *group };
    RuleSpec {
        name: rule_name(field),
        matches: MatchSpec {
            kinds: vec![format!("{kind}.{group}")],
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
    let text = value.text();
    let value = match value.value_digest() {
        None => "".into(),
        Some(digest) if digest == ValueDigest::of(&text) => text,
        // Another value has the same text.
        Some(digest) => digest.to_string().into(),
    };
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
