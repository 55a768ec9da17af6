//! Facts of kinds that workloads depend on: Services, Ingresses, volumes, autoscalers, Namespaces, API extensions.

use std::borrow::Cow;

use serde::{Deserialize, de::IgnoredAny};

use super::{Conditions, FactParts, HealthStatus, parse, workloads::sum_units};
use crate::{
    diff::{JsonPart, ServiceView, Text},
    types::{Health, LabelSet, ObjectFacts, Phase},
};

pub(super) fn service_facts(spec: &ServiceView<'_>, parts: FactParts<'_>) -> ObjectFacts {
    let address = load_balancer_address(parts.status);
    let has_load_balancer = spec.service_type.0 == "LoadBalancer";
    let endpoint = match &*spec.service_type.0 {
        "ExternalName" => Some(spec.external_name.0.as_ref().into()),
        _ => address.clone(),
    };
    ObjectFacts {
        endpoint,
        load_balancer: has_load_balancer,
        port: spec.first_port().and_then(|port| u16::try_from(port).ok()),
        labels: LabelSet::new(spec.selector()),
        ..load_balancer_health(has_load_balancer && address.is_none()).into_facts()
    }
}

/// The endpoint is the first host, else the address of the load balancer.
pub(super) fn ingress_facts(parts: FactParts<'_>) -> ObjectFacts {
    #[derive(Default, Deserialize)]
    struct Spec<'a> {
        #[serde(borrow)]
        rules: Option<Vec<Rule<'a>>>,
        tls: Option<Vec<IgnoredAny>>,
    }
    #[derive(Deserialize)]
    struct Rule<'a> {
        #[serde(borrow, default)]
        host: Text<'a>,
    }
    let spec = parse::<Spec<'_>>(parts.spec).unwrap_or_default();
    let address = load_balancer_address(parts.status);
    let health = load_balancer_health(address.is_none());
    let host = spec.rules.iter().flatten().map(|rule| &rule.host.0).find(|host| !host.is_empty());
    let has_tls = spec.tls.is_some_and(|tls| !tls.is_empty());
    ObjectFacts {
        endpoint: host.map(|host| host.as_ref().into()).or(address),
        port: Some(if has_tls { 443 } else { 80 }),
        ..health.into_facts()
    }
}

fn load_balancer_health(is_waiting: bool) -> HealthStatus {
    if is_waiting {
        HealthStatus::progressing(Health::Degraded, "waiting for the load balancer's address")
    } else {
        HealthStatus::healthy()
    }
}

fn load_balancer_address(status: Option<JsonPart<'_>>) -> Option<Box<str>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Status<'a> {
        #[serde(borrow)]
        load_balancer: Option<LoadBalancer<'a>>,
    }
    #[derive(Deserialize)]
    struct LoadBalancer<'a> {
        #[serde(borrow, default)]
        ingress: Vec<Ingress<'a>>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Ingress<'a> {
        #[serde(borrow)]
        hostname: Text<'a>,
        ip: Text<'a>,
    }
    let first = parse::<Status<'_>>(status)?.load_balancer?.ingress.into_iter().next()?;
    let address = if first.hostname.0.is_empty() { first.ip } else { first.hostname };
    Some(address.0.into())
}

#[derive(Default, Deserialize)]
pub(super) struct VolumeClaimSpec<'a> {
    #[serde(borrow)]
    resources: Option<Resources<'a>>,
}

#[derive(Deserialize)]
struct Resources<'a> {
    #[serde(borrow)]
    requests: Option<Requests<'a>>,
}

#[derive(Deserialize)]
struct Requests<'a> {
    #[serde(borrow, default)]
    storage: Text<'a>,
}

impl<'a> VolumeClaimSpec<'a> {
    pub(super) fn storage_request(&self) -> Option<Cow<'a, str>> {
        let requests = self.resources.as_ref()?.requests.as_ref()?;
        Some(requests.storage.0.clone()).filter(|amount| !amount.is_empty())
    }
}

pub(super) fn volume_claim_facts(parts: FactParts<'_>) -> ObjectFacts {
    let spec = parse::<VolumeClaimSpec<'_>>(parts.spec).unwrap_or_default();
    let health = match &*phase(parts) {
        "Bound" => HealthStatus::healthy(),
        "Pending" => HealthStatus::progressing(Health::Degraded, "it waits for a volume"),
        "Lost" => HealthStatus::new(Health::Unhealthy, "its volume is lost"),
        "" => HealthStatus::no_status(),
        other => HealthStatus::new(Health::Unknown, other),
    };
    ObjectFacts { storage_request: sum_units(spec.storage_request().into_iter()), ..health.into_facts() }
}

pub(super) fn volume_health(parts: FactParts<'_>) -> HealthStatus {
    match &*phase(parts) {
        "Bound" | "Available" => HealthStatus::healthy(),
        "Pending" => HealthStatus::progressing(Health::Degraded, "it is not available yet"),
        "Released" => HealthStatus::new(Health::Degraded, "its claim is gone, and it was not reclaimed"),
        "Failed" => HealthStatus::new(Health::Unhealthy, "it could not be reclaimed"),
        "" => HealthStatus::no_status(),
        other => HealthStatus::new(Health::Unknown, other),
    }
}

fn phase(parts: FactParts<'_>) -> Cow<'_, str> {
    #[derive(Default, Deserialize)]
    struct Status<'a> {
        #[serde(borrow, default)]
        phase: Text<'a>,
    }
    parse::<Status<'_>>(parts.status).unwrap_or_default().phase.0
}

/// The status fields of autoscalers, CRDs, API services, Namespaces and disruption budgets.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ControlStatus<'a> {
    #[serde(borrow)]
    phase: Text<'a>,
    conditions: Conditions<'a>,
    current_healthy: Option<i32>,
    desired_healthy: Option<i32>,
    desired_replicas: Option<i32>,
    last_scale_time: Text<'a>,
}

/// An autoscaler that does not work is degraded, not unhealthy: its target still runs.
pub(super) fn autoscaler_health(parts: FactParts<'_>) -> HealthStatus {
    let status = parse::<ControlStatus<'_>>(parts.status).unwrap_or_default();
    let conditions = &status.conditions;
    // autoscaling/v1 has no conditions: these fields show that the controller has evaluated it.
    let is_evaluated =
        status.desired_replicas.is_some_and(|desired| desired > 0) || !status.last_scale_time.0.is_empty();
    let failed = |name| conditions.with_status(name, "False");
    if let Some(failed) = failed("AbleToScale") {
        return failed.as_health(Health::Degraded);
    }
    match failed("ScalingActive") {
        Some(off) if off.reason.0 == "ScalingDisabled" => HealthStatus::suspended(off.message_or_reason()),
        Some(failed) => failed.as_health(Health::Degraded),
        None if conditions.is_empty() && !is_evaluated => {
            HealthStatus::progressing(Health::Unknown, "it has not looked yet")
        }
        None => HealthStatus::healthy(),
    }
}

pub(super) fn crd_health(parts: FactParts<'_>) -> HealthStatus {
    let conditions = parse::<ControlStatus<'_>>(parts.status).unwrap_or_default().conditions;
    if let Some(terminating) = conditions.with_status("Terminating", "True") {
        return HealthStatus { phase: Some(Phase::Terminating), ..terminating.as_health(Health::Degraded) };
    }
    if let Some(conflict) = conditions.with_status("NamesAccepted", "False") {
        return conflict.as_health(Health::Unhealthy);
    }
    if conditions.with_status("Established", "True").is_none() {
        return HealthStatus::progressing(Health::Degraded, "it is not established yet");
    }
    match conditions.with_status("NonStructuralSchema", "True") {
        Some(violation) => violation.as_health(Health::Degraded),
        None => HealthStatus::healthy(),
    }
}

pub(super) fn api_service_health(parts: FactParts<'_>) -> HealthStatus {
    let conditions = parse::<ControlStatus<'_>>(parts.status).unwrap_or_default().conditions;
    match conditions.get("Available") {
        Some(available) if available.status.0 == "True" => HealthStatus::healthy(),
        Some(available) => available.as_health(Health::Unhealthy),
        None => HealthStatus::progressing(Health::Unknown, "nobody has asked it yet"),
    }
}

pub(super) fn namespace_health(parts: FactParts<'_>) -> HealthStatus {
    let status = parse::<ControlStatus<'_>>(parts.status).unwrap_or_default();
    let blocking =
        ["NamespaceDeletionContentFailure", "NamespaceContentRemaining", "NamespaceFinalizersRemaining"];
    match &*status.phase.0 {
        "Terminating" => {
            let condition = blocking.iter().find_map(|name| status.conditions.with_status(name, "True"));
            let message = condition.map(super::Condition::message_or_reason).unwrap_or_default();
            HealthStatus { phase: Some(Phase::Terminating), ..HealthStatus::new(Health::Degraded, message) }
        }
        _ => HealthStatus::healthy(),
    }
}

pub(super) fn disruption_budget_health(parts: FactParts<'_>) -> HealthStatus {
    let Some(status) = parse::<ControlStatus<'_>>(parts.status) else { return HealthStatus::no_status() };
    let (healthy, desired) = (status.current_healthy.unwrap_or(0), status.desired_healthy.unwrap_or(0));
    if healthy < desired {
        return HealthStatus::new(
            Health::Degraded,
            format!("{healthy} of {desired} pods that it needs are healthy"),
        );
    }
    HealthStatus::healthy()
}
