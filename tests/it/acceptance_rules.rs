//! The rules that accept live values.

use std::collections::BTreeSet;

use drift_exporter::{
    rules::{AcceptedField, Justification, RuleConfig, RuleSet, RuleSpec, acceptance_rules, rules_to_yaml},
    types::{FieldValue, RedactionKey},
};

fn web<'a>(name: &'a str, path: &'a str, value: FieldValue) -> AcceptedField<'a> {
    AcceptedField { group: "apps", kind: "Deployment", namespace: "shop", name, path, value }
}

#[test]
fn field_is_accepted_once_and_redacted_value_is_not_pinned() {
    let justification = Justification { owner: "me", reason: "load test", expires: "2027-01-01" };
    let seven = || FieldValue::Json("7".into());
    let redacted = FieldValue::Redacted(RedactionKey::new([3; 32]).digest(b"hidden"));
    let plain = FieldValue::Text(redacted.text().into());
    let partly = FieldValue::PartlyRedacted(format!("[\"{}\"]", redacted.text()).into());
    let fields = [
        ("spec.a", seven()),
        ("spec.a", seven()),
        ("spec.b", redacted),
        ("spec.c", plain),
        ("spec.d", partly),
        ("spec.e", FieldValue::Null),
        ("spec.e", FieldValue::Text("null".into())),
    ];
    let rules =
        acceptance_rules(fields.into_iter().map(|(path, value)| web("web", path, value)), &justification);
    let pinned: Vec<(&str, usize)> =
        rules.iter().map(|rule| (&*rule.matches.paths[0], rule.matches.values.len())).collect();
    assert_eq!(
        pinned,
        [("spec.a", 1), ("spec.b", 0), ("spec.c", 1), ("spec.d", 0), ("spec.e", 1), ("spec.e", 1)]
    );
    assert_ne!(rules[4].matches.values, rules[5].matches.values);
}

#[test]
fn rule_for_a_core_kind_has_its_group() {
    let justification = Justification { owner: "me", reason: "test", expires: "2027-01-01" };
    for (group, written) in [("", "Service.core"), ("serving.knative.dev", "Service.serving.knative.dev")] {
        let field = AcceptedField { group, kind: "Service", ..web("web", "spec.a", FieldValue::Null) };
        let rules = acceptance_rules([field].into_iter(), &justification);
        assert_eq!(rules[0].matches.kinds, [written]);
    }
}

#[test]
fn generated_rules_compile_and_have_unique_names() {
    let long = "x".repeat(253);
    let objects = ["web", "system:node-proxier", "system.node-proxier", "Größe", &long, &format!("{long}y")];
    let changes = [("spec.replicas", "7"), ("spec.replicas", "8"), ("spec.minReplicas", "7")];
    let justification = Justification { owner: "me", reason: "load test", expires: "2027-01-01" };
    let fields = objects
        .into_iter()
        .flat_map(|name| changes.map(|(path, value)| web(name, path, FieldValue::Json(value.into()))));
    let rules = acceptance_rules(fields, &justification);
    let names: BTreeSet<&str> = rules.iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!(names.len(), objects.len() * changes.len(), "{names:#?}");
    assert!(rules[0].name.starts_with("accepted-deployment-shop-web-"), "{}", rules[0].name);
    let parsed: Vec<RuleSpec> = serde_saphyr::from_str(&rules_to_yaml(&rules)).unwrap();
    assert_eq!(parsed, rules, "YAML round-trips");
    let compiled = RuleSet::compile(&RuleConfig { rules, ..RuleConfig::default() });
    assert!(compiled.is_ok(), "{:#?}", compiled.err());
}
