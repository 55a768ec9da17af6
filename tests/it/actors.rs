//! The class of the tool behind each field manager.

use drift_exporter::{
    rules::{RatedObject, RuleConfig, RuleSet},
    types::{Actor, FieldClass, FieldManager, FieldPath, Finding, Kind, ObjectKey, Source},
};

use crate::rules::{compile, now};

fn finding(manager: Option<&str>, subresource: &str, class: FieldClass, actual: &str) -> Finding {
    let owner =
        |manager: &str| FieldManager { subresource: subresource.into(), ..FieldManager::new(manager, None) };
    Finding {
        owner: manager.map(owner),
        ..Finding::new(FieldPath::of_fields(["spec"]), class, "3".into(), actual.into())
    }
}

fn classify(rules: &RuleSet, finding: &Finding, autoscaled: bool) -> Actor {
    let key = ObjectKey::new(Kind::deployment(), "shop", "web");
    let source = Source::Annotation;
    let object = RatedObject { key: &key, labels: &[], muted_paths: &[], source, autoscaled };
    rules.rate(&object, finding.clone(), now()).actor
}

#[track_caller]
fn check(manager: &str, subresource: &str, actor: Actor) {
    let finding = finding(Some(manager), subresource, FieldClass::Hash, "7");
    assert_eq!(classify(&RuleSet::built_in(), &finding, false), actor, "{manager} {subresource}");
}

#[test]
fn managers_are_classified_by_tool() {
    check("HashiCorp", "", Actor::Terraform);
    check("Terraform", "", Actor::Terraform);
    check("kubectl-edit", "", Actor::Kubectl);
    check("kubectl-client-side-apply", "", Actor::Kubectl);
    check("helm", "", Actor::Helm);
    check("helm-controller", "", Actor::Gitops);
    check("argocd-controller", "", Actor::Gitops);
    check("keda-operator", "", Actor::Autoscaler);
    check("openshift-console", "", Actor::Console);
    check("my-operator", "", Actor::Controller);
    check("curl", "", Actor::Other);
    let unowned = finding(None, "", FieldClass::Image, "x");
    assert_eq!(classify(&RuleSet::built_in(), &unowned, false), Actor::Unknown);
}

#[test]
fn settings_precede_the_built_in_table() {
    let actors = "[{actor: gitops, manager: ^kubectl-ci$}, {actor: other, manager: ^our-}]";
    let actors = serde_saphyr::from_str(actors).unwrap();
    let rules = compile(&RuleConfig { actors, ..RuleConfig::default() });
    let check = |manager: &str, autoscaled: bool, actor: Actor| {
        let finding = finding(Some(manager), "", FieldClass::Replicas, "7");
        assert_eq!(classify(&rules, &finding, autoscaled), actor, "{manager}");
    };
    check("kubectl-ci", false, Actor::Gitops);
    check("kubectl-edit", false, Actor::Kubectl);
    check("our-scripts", true, Actor::Other);
}

#[test]
fn unclassified_managers_scale_for_the_autoscaler() {
    let check = |manager: Option<&str>, field: FieldClass, actual: &str, actor: Actor| {
        let finding = finding(manager, "", field, actual);
        assert_eq!(classify(&RuleSet::built_in(), &finding, true), actor, "{finding:?}");
    };
    for scaler in [Some("my-scaler"), Some("my-operator"), Some("kube-controller-manager"), None] {
        check(scaler, FieldClass::Replicas, "7", Actor::Autoscaler);
    }
    for (manager, actor) in [
        ("kubectl", Actor::Kubectl),
        ("Terraform", Actor::Terraform),
        ("helm", Actor::Helm),
        ("argocd-controller", Actor::Gitops),
        ("openshift-console", Actor::Console),
    ] {
        check(Some(manager), FieldClass::Replicas, "7", actor);
    }
    check(Some("my-scaler"), FieldClass::Image, "7", Actor::Other);
    check(Some("my-operator"), FieldClass::Hash, "7", Actor::Controller);
    check(None, FieldClass::Resources, "7", Actor::Unknown);
    check(None, FieldClass::Replicas, "0", Actor::Unknown);
    check(Some("my-scaler"), FieldClass::Replicas, "0", Actor::Other);
}

#[test]
fn autoscaler_is_distinguished_from_kubectl_scale() {
    check("kube-controller-manager", "scale", Actor::Autoscaler);
    check("kubectl", "scale", Actor::Kubectl);
    check("kube-controller-manager", "", Actor::Controller);
    let controller = finding(Some("kube-controller-manager"), "", FieldClass::Replicas, "7");
    let replicas = classify(&RuleSet::built_in(), &controller, false);
    assert_eq!(replicas, Actor::Autoscaler, "no other controller in it sets replicas");
}
