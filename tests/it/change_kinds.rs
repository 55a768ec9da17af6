//! What sort of change a difference is, by its two values.

use drift_exporter::{
    rules::RuleSet,
    types::{ChangeKind, FieldClass, FieldValue, Finding, Kind, RedactionKey},
};

use crate::rules::{finding, rate_in, rules};

/// A rule for each kind of change.
fn rule_per_change() -> RuleSet {
    let rule = |change: &ChangeKind| {
        format!("{{name: is-{change}, match: {{changes: [{change}]}}, effect: ignore}}")
    };
    rules(&format!("[{}]", ChangeKind::ALL.iter().map(rule).collect::<Vec<_>>().join(", ")))
}

/// The kind of change that the rules match.
fn change_kind(finding: Finding) -> Option<ChangeKind> {
    let difference = rate_in(&rule_per_change(), "shop", &Kind::deployment(), finding);
    let mut changes =
        difference.matched.iter().filter_map(|rule| ChangeKind::parse(rule.as_str().strip_prefix("is-")?));
    let change = changes.next();
    assert_eq!(changes.next(), None, "{difference:?}");
    change
}

#[track_caller]
fn check(path: &str, expected: &str, actual: &str, change: Option<ChangeKind>) {
    let class = if path.ends_with("image") { FieldClass::Image } else { FieldClass::Other };
    assert_eq!(
        change_kind(finding(path, class, "x", expected, actual)),
        change,
        "{path}: {expected} → {actual}"
    );
}

#[test]
fn change_is_derived_from_both_values() {
    check("spec.a", "", "x", Some(ChangeKind::Added));
    check("spec.a", "x", "", Some(ChangeKind::Removed));
    check("spec.a", "[1,{\"a\":2}]", "[{\"a\":2},1]", Some(ChangeKind::Reordered));
    let text = Finding::new("spec.a".parse().unwrap(), FieldClass::Other, "[1,2]".into(), "[2,1]".into());
    assert_eq!(change_kind(text), None, "strings are no lists");
    check("spec.a", "[1,1,2]", "[1,2,2]", None);
    check("spec.a", "[1]", "[1", None);
    let image = "spec.containers[name=db].image";
    check(image, "postgres:15", "postgres:15.2", Some(ChangeKind::PatchVersion));
    check("spec.engineVersion", "15", "16", Some(ChangeKind::MajorVersion));
}

#[test]
fn empty_string_is_not_absent_and_redacted_value_is_present() {
    let change = |expected: FieldValue, actual: FieldValue| {
        change_kind(Finding::new("spec.image".parse().unwrap(), FieldClass::Image, expected, actual))
    };
    let empty = || FieldValue::Text("".into());
    let redacted = || FieldValue::Redacted(RedactionKey::new([1; 32]).digest(b"a"));
    assert_eq!(change(FieldValue::Absent, empty()), Some(ChangeKind::Added));
    assert_eq!(change(redacted(), FieldValue::Absent), Some(ChangeKind::Removed));
    assert_eq!(change(redacted(), empty()), None);
    assert_eq!(change(FieldValue::Absent, FieldValue::Absent), None);
    let omitted = FieldValue::Omitted { count: 1, redacted: false };
    assert_eq!(change(FieldValue::Absent, omitted), None, "not an added field");
}

#[test]
fn null_sets_nothing_and_a_list_with_digests_may_be_reordered() {
    let change = |expected: FieldValue, actual: FieldValue| {
        change_kind(Finding::new("spec.args".parse().unwrap(), FieldClass::Other, expected, actual))
    };
    let (x, null) = (|| FieldValue::Text("x".into()), || FieldValue::Null);
    assert_eq!(change(x(), null()), Some(ChangeKind::Removed));
    assert_eq!(change(null(), x()), Some(ChangeKind::Added));
    assert_eq!(change(FieldValue::Absent, null()), None);
    let list = |text: &str| FieldValue::PartlyRedacted(text.into());
    assert_eq!(change(list(r#"["a","b"]"#), list(r#"["b","a"]"#)), Some(ChangeKind::Reordered));
    assert_eq!(change(list(r#"["a"]"#), list(r#"["b"]"#)), None);
    assert_eq!(change(list(r#"["a","b"]"#), FieldValue::Json(r#"["b","a"]"#.into())), None);
}

#[test]
fn other_numbers_are_not_versions() {
    check("spec.replicas", "3", "5", None);
    check("spec.resources.limits.cpu", "1", "1.5", None);
}

#[track_caller]
fn check_version(expected: &str, actual: &str, change: Option<ChangeKind>) {
    check("spec.image", expected, actual, change);
}

#[test]
fn newer_patch_level_is_distinguished_from_other_changes() {
    for (expected, actual) in [
        ("15", "15.2"),
        ("postgres:15", "postgres:15.2"),
        ("nginx:1.27.1", "nginx:1.27.4"),
        ("nginx:1.27", "nginx:1.27.3"),
        ("registry:5000/nginx:v1.2.3-alpine", "registry:5000/nginx:v1.2.10-alpine"),
    ] {
        check_version(expected, actual, Some(ChangeKind::PatchVersion));
    }
    for (expected, actual) in [
        ("nginx:1.26", "nginx:1.27"),
        ("nginx:1.27.4", "nginx:1.27.1"),
        ("nginx:1.27.1", "nginx:1.27"),
        ("nginx:1.27.1", "nginx:1.27.4-hotfix"),
        ("nginx:1.27.1", "evil/nginx:1.27.4"),
        ("nginx:1.27.1", "nginx:1.27.4@sha256:00"),
        ("nginx:1", "nginx:latest"),
        ("nginx", "nginx:1.2"),
        ("registry:5000/nginx", "registry:5000/nginx:1.2"),
        ("nginx:1.", "nginx:1.2"),
    ] {
        check_version(expected, actual, None);
    }
}

#[test]
fn another_first_number_is_a_major_version() {
    check_version("postgres:15.2", "postgres:16", Some(ChangeKind::MajorVersion));
    check_version("postgres:16", "postgres:15-alpine", Some(ChangeKind::MajorVersion));
    check_version("v1.2", "v2.0", Some(ChangeKind::MajorVersion));
    check_version("postgres:15", "mysql:16", None);
}
