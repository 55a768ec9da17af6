//! Classifies field managers by the tool behind them.

use regex::Regex;

use ManagerPattern::{Contains, Is, StartsWith};

use crate::types::{Actor, FieldClass, FieldManager, FieldValue, Finding};

#[derive(Clone, Debug, Default)]
pub(super) struct Actors {
    /// The classes of the settings, which precede the built-in table. The first match wins.
    pub(super) settings: Vec<(Regex, Actor)>,
}

impl Actors {
    /// The class of the tool that last set a field. `autoscaled`: an autoscaler targets the object.
    pub(super) fn classify(&self, finding: &Finding, autoscaled: bool) -> Actor {
        let owner = finding.owner.as_ref();
        let from_settings =
            |owner: &FieldManager| self.settings.iter().find(|(manager, _)| manager.is_match(&owner.manager));
        if let Some((_, actor)) = owner.and_then(from_settings) {
            return *actor;
        }
        let actor = owner.map_or(Actor::Unknown, |owner| built_in(owner, finding.class));
        let scales = autoscaled && finding.class == FieldClass::Replicas && !is_scaled_to_zero(finding);
        if scales && may_act_for_autoscaler(actor) { Actor::Autoscaler } else { actor }
    }
}

/// An autoscaler does not scale an object with 0 replicas: somebody else switched it off. No manager owns a value of 0.
fn is_scaled_to_zero(finding: &Finding) -> bool {
    match &finding.actual {
        FieldValue::Absent | FieldValue::Null => true,
        FieldValue::Text(replicas) | FieldValue::Json(replicas) => **replicas == *"0",
        FieldValue::Redacted(_) | FieldValue::PartlyRedacted(_) | FieldValue::Omitted { .. } => false,
    }
}

/// Whether a tool of this class may set replicas on behalf of an autoscaler.
fn may_act_for_autoscaler(actor: Actor) -> bool {
    match actor {
        Actor::Other | Actor::Controller | Actor::Unknown => true,
        Actor::Terraform
        | Actor::Kubectl
        | Actor::Helm
        | Actor::Gitops
        | Actor::Autoscaler
        | Actor::Console => false,
    }
}

fn built_in(owner: &FieldManager, field: FieldClass) -> Actor {
    let manager = owner.manager.to_ascii_lowercase();
    // Of all controllers in kube-controller-manager only the horizontal autoscaler scales workloads that people declare. It uses
    // the subresource `scale`, which old API servers do not record.
    let scales = &*owner.subresource == "scale" || field == FieldClass::Replicas;
    if manager == "kube-controller-manager" && scales {
        return Actor::Autoscaler;
    }
    MANAGERS.iter().find(|(pattern, _)| pattern.matches(&manager)).map_or(Actor::Other, |(_, actor)| *actor)
}

enum ManagerPattern {
    Is(&'static str),
    StartsWith(&'static str),
    Contains(&'static str),
}

impl ManagerPattern {
    fn matches(&self, manager: &str) -> bool {
        match self {
            Self::Is(name) => manager == *name,
            Self::StartsWith(start) => manager.starts_with(start),
            Self::Contains(part) => manager.contains(part),
        }
    }
}

/// Lower-case names that tools send as field manager or user agent. The first match wins.
const MANAGERS: &[(ManagerPattern, Actor)] = &[
    (Is("hashicorp"), Actor::Terraform),
    (StartsWith("terraform"), Actor::Terraform),
    (StartsWith("opentofu"), Actor::Terraform),
    (StartsWith("kubectl"), Actor::Kubectl),
    (StartsWith("k9s"), Actor::Kubectl),
    (Is("helm"), Actor::Helm),
    (StartsWith("helm-controller"), Actor::Gitops),
    (StartsWith("kustomize-controller"), Actor::Gitops),
    (StartsWith("argocd"), Actor::Gitops),
    (StartsWith("argo-cd"), Actor::Gitops),
    (StartsWith("flux"), Actor::Gitops),
    (StartsWith("rancher-fleet"), Actor::Gitops),
    (Contains("keda"), Actor::Autoscaler),
    (Contains("autoscaler"), Actor::Autoscaler),
    (StartsWith("vpa-"), Actor::Autoscaler),
    (Contains("dashboard"), Actor::Console),
    (Contains("console"), Actor::Console),
    (StartsWith("mozilla"), Actor::Console),
    (StartsWith("openlens"), Actor::Console),
    (StartsWith("node-fetch"), Actor::Console),
    (StartsWith("kube-"), Actor::Controller),
    (StartsWith("cloud-controller-manager"), Actor::Controller),
    (Contains("controller"), Actor::Controller),
    (Contains("operator"), Actor::Controller),
    (Is("manager"), Actor::Controller),
];
