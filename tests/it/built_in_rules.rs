//! How the built-in rules rate common drift.

use drift_exporter::{
    rules::{RuleSet, built_in_rules},
    types::{Advice, Difference, Expectation, FieldClass, Kind, Severity},
};
use jiff::Timestamp;

use crate::rules::{finding, rate_in};

fn kind(group: &str, kind: &str) -> Kind {
    Kind {
        group: group.into(),
        version: "v1".into(),
        kind: kind.into(),
        plural: format!("{}s", kind.to_lowercase()).into(),
        namespaced: true,
    }
}

fn rate(kind: &Kind, path: &str, class: FieldClass, manager: &str, values: [&str; 2]) -> Difference {
    let finding = finding(path, class, manager, values[0], values[1]);
    rate_in(&RuleSet::built_in(), "shop", kind, finding)
}

fn deployment(path: &str, class: FieldClass, manager: &str, values: [&str; 2]) -> Difference {
    rate(&Kind::deployment(), path, class, manager, values)
}

#[track_caller]
fn check(difference: &Difference, severity: Severity, expectation: Expectation, advice: Advice) {
    let rating = (difference.severity, difference.expectation, difference.advice);
    assert_eq!(rating, (severity, expectation, advice), "{difference:?}");
}

#[test]
fn automatic_changes_are_expected() {
    let image = "spec.template.spec.containers[name=web].image";
    let restarted = "spec.template.metadata.annotations[\"kubectl.kubernetes.io/restartedAt\"]";
    for difference in [
        deployment("spec.replicas", FieldClass::Replicas, "keda-operator", ["2", "5"]),
        deployment("spec.replicas", FieldClass::Replicas, "keda-operator", ["2", "0"]),
        deployment(restarted, FieldClass::Annotations, "kubectl-rollout", ["", "2026-02-01T12:00:00Z"]),
        deployment(image, FieldClass::Image, "kubectl-set", ["postgres:15", "postgres:15.2"]),
        deployment("spec.a", FieldClass::Other, "x", ["[1,2]", "[2,1]"]),
        deployment(
            "metadata.annotations[\"deployment.kubernetes.io/revision\"]",
            FieldClass::Annotations,
            "kube-controller-manager",
            ["1", "2"],
        ),
    ] {
        assert_eq!(difference.expectation, Expectation::Expected, "{difference:?}");
        assert_eq!(difference.severity, Severity::Warning, "{difference:?}");
    }
}

#[test]
fn security_exposure_and_outage_are_critical() {
    let template = "spec.template.spec";
    let role = kind("rbac.authorization.k8s.io", "Role");
    for difference in [
        rate(&role, "rules[0].verbs", FieldClass::Other, "kubectl", ["get", "*"]),
        deployment("subjects", FieldClass::Rbac, "kubectl", ["a", "b"]),
        deployment(
            &format!("{template}.containers[name=web].securityContext.privileged"),
            FieldClass::Other,
            "x",
            ["", "true"],
        ),
        deployment(&format!("{template}.hostNetwork"), FieldClass::Other, "x", ["", "true"]),
        deployment(&format!("{template}.volumes[name=a].hostPath.path"), FieldClass::Volumes, "x", ["", "/"]),
        rate(&Kind::service(), "spec.type", FieldClass::Other, "x", ["ClusterIP", "LoadBalancer"]),
        rate(&Kind::service(), "spec.externalIPs", FieldClass::Other, "x", ["", "[\"1.2.3.4\"]"]),
        rate(
            &kind("networking.k8s.io", "NetworkPolicy"),
            "metadata.name",
            FieldClass::Existence,
            "x",
            ["present", ""],
        ),
        deployment("spec.replicas", FieldClass::Replicas, "kubectl", ["2", "0"]),
        deployment("spec.a", FieldClass::Security, "kubectl", ["2", "0"]),
    ] {
        assert_eq!(difference.severity, Severity::Critical, "{difference:?}");
        assert_eq!(difference.expectation, Expectation::Unexpected, "{difference:?}");
    }
    let back = rate(&Kind::service(), "spec.type", FieldClass::Other, "x", ["LoadBalancer", "ClusterIP"]);
    assert_eq!(back.severity, Severity::Warning);
}

#[test]
fn only_safe_reverts_are_advised_to_remediate() {
    let (warning, unexpected) = (Severity::Warning, Expectation::Unexpected);
    let (auto_remediate, alert_only) = (Advice::AutoRemediate, Advice::AlertOnly);
    let env = deployment("spec.a.env[name=A].value", FieldClass::Env, "kubectl-edit", ["1", "2"]);
    check(&env, warning, unexpected, auto_remediate);
    let scaled = deployment("spec.replicas", FieldClass::Replicas, "kubectl", ["2", "5"]);
    check(&scaled, warning, unexpected, auto_remediate);
    let missing = deployment("metadata.name", FieldClass::Existence, "x", ["present", ""]);
    check(&missing, Severity::Critical, unexpected, auto_remediate);
    let major = deployment("a.image", FieldClass::Image, "kubectl", ["postgres:15", "postgres:16"]);
    check(&major, warning, unexpected, alert_only);
    let size = deployment("a.resources.limits.cpu", FieldClass::Resources, "kubectl", ["1", "2"]);
    check(&size, warning, unexpected, alert_only);
    let claim = kind("", "PersistentVolumeClaim");
    let deleted = rate(&claim, "metadata.name", FieldClass::Existence, "x", ["present", ""]);
    check(&deleted, Severity::Critical, unexpected, alert_only);
}

#[test]
fn hash_rating_ignores_the_last_field_manager() {
    for manager in ["kubectl-edit", "keda-operator"] {
        let difference = deployment("spec", FieldClass::Hash, manager, ["a", "b"]);
        check(&difference, Severity::Warning, Expectation::Unexpected, Advice::AlertOnly);
    }
}

#[test]
fn built_in_rules_have_reasons_and_no_warnings() {
    for rule in built_in_rules() {
        assert!(rule.reason.is_some() && rule.expires.is_none(), "{}", rule.name);
    }
    assert_eq!(RuleSet::built_in().warnings(Timestamp::UNIX_EPOCH).next(), None);
    assert!(RuleSet::built_in().label_names().is_empty());
}
