//! From a field manager's name to the class of tool behind it.

use regex::Regex;

use crate::types::{Actor, FieldClass, FieldManager, Finding};

/// Tells tools by the names of their field managers.
#[derive(Clone, Debug, Default)]
pub(super) struct Actors {
    /// What the settings say; asked first, in order.
    pub(super) settings: Vec<(Regex, Actor)>,
}

impl Actors {
    /// The class of tool that last set a field. It names a tool, never a person. `autoscaled`: an autoscaler sets the replicas of
    /// the object.
    pub(super) fn classify(&self, finding: &Finding, autoscaled: bool) -> Actor {
        let writer = finding.writer.as_ref();
        let own = |writer: &FieldManager| {
            self.settings.iter().find(|(manager, _)| manager.is_match(&writer.manager))
        };
        if let Some((_, told)) = writer.and_then(own) {
            return *told;
        }
        let actor = writer.map_or(Actor::Nobody, |writer| built_in(writer, finding.class));
        let scales = autoscaled && finding.class == FieldClass::Replicas && !is_switched_off(finding);
        if scales && may_scale_for_others(actor) { Actor::Autoscaler } else { actor }
    }
}

/// Nobody owns a number of zero, and an autoscaler that finds one leaves its object alone: somebody has switched both off.
fn is_switched_off(finding: &Finding) -> bool {
    matches!(&*finding.actual, "0" | "")
}

/// Whether nothing is known of a tool that speaks against it setting replicas because an autoscaler wants it to.
fn may_scale_for_others(actor: Actor) -> bool {
    match actor {
        Actor::Other | Actor::Controller | Actor::Nobody => true,
        Actor::Terraform
        | Actor::Kubectl
        | Actor::Helm
        | Actor::Gitops
        | Actor::Autoscaler
        | Actor::Console => false,
    }
}

fn built_in(writer: &FieldManager, field: FieldClass) -> Actor {
    let manager = writer.manager.to_ascii_lowercase();
    // The horizontal autoscaler is part of this controller, and the only part that scales what people declare, through `scale`
    // or, where an old API server does not tell, anyhow.
    let scales = &*writer.subresource == "scale" || field == FieldClass::Replicas;
    if manager == "kube-controller-manager" && scales {
        return Actor::Autoscaler;
    }
    MANAGERS.iter().find(|(pattern, _)| pattern.matches(&manager)).map_or(Actor::Other, |(_, actor)| *actor)
}

enum Pattern {
    Is(&'static str),
    StartsWith(&'static str),
    Contains(&'static str),
}

impl Pattern {
    fn matches(&self, manager: &str) -> bool {
        match self {
            Self::Is(name) => manager == *name,
            Self::StartsWith(start) => manager.starts_with(start),
            Self::Contains(part) => manager.contains(part),
        }
    }
}

/// The first that matches wins. Names are those that the tools send as field manager or user agent.
const MANAGERS: &[(Pattern, Actor)] = &[
    (Pattern::Is("hashicorp"), Actor::Terraform),
    (Pattern::StartsWith("terraform"), Actor::Terraform),
    (Pattern::StartsWith("opentofu"), Actor::Terraform),
    (Pattern::StartsWith("kubectl"), Actor::Kubectl),
    (Pattern::StartsWith("k9s"), Actor::Kubectl),
    (Pattern::Is("helm"), Actor::Helm),
    (Pattern::StartsWith("helm-controller"), Actor::Gitops),
    (Pattern::StartsWith("kustomize-controller"), Actor::Gitops),
    (Pattern::StartsWith("argocd"), Actor::Gitops),
    (Pattern::StartsWith("argo-cd"), Actor::Gitops),
    (Pattern::StartsWith("flux"), Actor::Gitops),
    (Pattern::StartsWith("rancher-fleet"), Actor::Gitops),
    (Pattern::Contains("keda"), Actor::Autoscaler),
    (Pattern::Contains("autoscaler"), Actor::Autoscaler),
    (Pattern::StartsWith("vpa-"), Actor::Autoscaler),
    (Pattern::Contains("dashboard"), Actor::Console),
    (Pattern::Contains("console"), Actor::Console),
    (Pattern::StartsWith("mozilla"), Actor::Console),
    (Pattern::StartsWith("openlens"), Actor::Console),
    (Pattern::StartsWith("node-fetch"), Actor::Console),
    (Pattern::StartsWith("kube-"), Actor::Controller),
    (Pattern::StartsWith("cloud-controller-manager"), Actor::Controller),
    (Pattern::Contains("controller"), Actor::Controller),
    (Pattern::Contains("operator"), Actor::Controller),
    (Pattern::Is("manager"), Actor::Controller),
];

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::{Actor, Actors, FieldClass, FieldManager, Finding};

    fn finding(manager: Option<&str>, subresource: &str, class: FieldClass, actual: &str) -> Finding {
        let writer = |manager: &str| FieldManager {
            manager: manager.into(),
            subresource: subresource.into(),
            time: None,
        };
        Finding {
            path: "spec".into(),
            class,
            expected: "3".into(),
            actual: actual.into(),
            writer: manager.map(writer),
        }
    }

    #[track_caller]
    fn check(manager: &str, subresource: &str, actor: Actor) {
        let finding = finding(Some(manager), subresource, FieldClass::Hash, "7");
        assert_eq!(Actors::default().classify(&finding, false), actor, "{manager} {subresource}");
    }

    #[test]
    fn managers_are_classed_by_the_tool_behind_them() {
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
        let nobodys = finding(None, "", FieldClass::Image, "x");
        assert_eq!(Actors::default().classify(&nobodys, false), Actor::Nobody);
    }

    #[test]
    fn settings_are_asked_before_the_built_in_table() {
        let told = [("^kubectl-ci$", Actor::Gitops), ("^our-", Actor::Other)];
        let settings = told.map(|(manager, actor)| (Regex::new(manager).unwrap(), actor));
        let actors = Actors { settings: settings.into() };
        let check = |manager: &str, autoscaled: bool, actor: Actor| {
            let finding = finding(Some(manager), "", FieldClass::Replicas, "7");
            assert_eq!(actors.classify(&finding, autoscaled), actor, "{manager}");
        };
        check("kubectl-ci", false, Actor::Gitops);
        check("kubectl-edit", false, Actor::Kubectl);
        check("our-scripts", true, Actor::Other);
    }

    #[test]
    fn what_no_person_or_deployment_set_on_an_autoscaled_object_is_the_autoscalers() {
        let check = |manager: Option<&str>, field: FieldClass, actual: &str, actor: Actor| {
            let finding = finding(manager, "", field, actual);
            assert_eq!(Actors::default().classify(&finding, true), actor, "{finding:?}");
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
        check(None, FieldClass::Resources, "7", Actor::Nobody);
        check(None, FieldClass::Replicas, "0", Actor::Nobody);
        check(Some("my-scaler"), FieldClass::Replicas, "0", Actor::Other);
    }

    #[test]
    fn the_autoscaler_is_told_from_a_person_who_scales() {
        check("kube-controller-manager", "scale", Actor::Autoscaler);
        check("kubectl", "scale", Actor::Kubectl);
        check("kube-controller-manager", "", Actor::Controller);
        let controller = finding(Some("kube-controller-manager"), "", FieldClass::Replicas, "7");
        let replicas = Actors::default().classify(&controller, false);
        assert_eq!(replicas, Actor::Autoscaler, "nothing else in it sets replicas");
    }
}
