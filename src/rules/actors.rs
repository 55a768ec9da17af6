//! From a field manager's name to the class of tool behind it.

use regex::Regex;

use crate::model::{Actor, FieldClass, Writer};

/// Tells tools by the names of their field managers.
#[derive(Clone, Debug, Default)]
pub(super) struct Actors {
    /// What the settings say; asked first, in order.
    pub(super) settings: Vec<(Regex, Actor)>,
}

impl Actors {
    /// The class of tool that last set a field of this class. It names a tool, never a person.
    pub(super) fn classify(&self, writer: Option<&Writer>, field: FieldClass) -> Actor {
        let Some(writer) = writer else {
            return Actor::Nobody;
        };
        let told = self.settings.iter().find(|(manager, _)| manager.is_match(&writer.manager));
        told.map_or_else(|| built_in(writer, field), |(_, actor)| *actor)
    }
}

fn built_in(writer: &Writer, field: FieldClass) -> Actor {
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

    use super::{Actor, Actors, FieldClass, Writer};

    #[track_caller]
    fn check(manager: &str, subresource: &str, actor: Actor) {
        let writer = Writer { manager: manager.into(), subresource: subresource.into(), time: None };
        let class = Actors::default().classify(Some(&writer), FieldClass::Hash);
        assert_eq!(class, actor, "{manager} {subresource}");
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
        assert_eq!(Actors::default().classify(None, FieldClass::Image), Actor::Nobody);
    }

    #[test]
    fn settings_are_asked_before_the_built_in_table() {
        let actors = Actors { settings: vec![(Regex::new("^kubectl-ci$").unwrap(), Actor::Gitops)] };
        let writer = |manager: &str| Writer { manager: manager.into(), subresource: "".into(), time: None };
        assert_eq!(actors.classify(Some(&writer("kubectl-ci")), FieldClass::Image), Actor::Gitops);
        assert_eq!(actors.classify(Some(&writer("kubectl-edit")), FieldClass::Image), Actor::Kubectl);
    }

    #[test]
    fn the_autoscaler_is_told_from_a_person_who_scales() {
        check("kube-controller-manager", "scale", Actor::Autoscaler);
        check("kubectl", "scale", Actor::Kubectl);
        check("kube-controller-manager", "", Actor::Controller);
        let controller =
            Writer { manager: "kube-controller-manager".into(), subresource: "".into(), time: None };
        let replicas = Actors::default().classify(Some(&controller), FieldClass::Replicas);
        assert_eq!(replicas, Actor::Autoscaler, "nothing else in it sets replicas");
    }
}
