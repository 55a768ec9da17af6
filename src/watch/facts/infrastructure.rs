//! Facts of kinds that workloads depend on: Services, Ingresses, volumes, autoscalers, Namespaces, API extensions.

use std::borrow::Cow;

use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use super::{Conditions, HealthStatus, ObjectParts, parse, workloads::sum_units};
use crate::{
    diff::{ServiceView, Text},
    types::{Health, LabelSet, ObjectFacts, Phase},
};

pub(super) fn service_facts(spec: &ServiceView<'_>, parts: ObjectParts<'_>) -> ObjectFacts {
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
pub(super) fn ingress_facts(parts: ObjectParts<'_>) -> ObjectFacts {
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

fn load_balancer_address(status: Option<&RawValue>) -> Option<Box<str>> {
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

pub(super) fn volume_claim_facts(parts: ObjectParts<'_>) -> ObjectFacts {
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

pub(super) fn volume_health(parts: ObjectParts<'_>) -> HealthStatus {
    match &*phase(parts) {
        "Bound" | "Available" => HealthStatus::healthy(),
        "Pending" => HealthStatus::progressing(Health::Degraded, "it is not available yet"),
        "Released" => HealthStatus::new(Health::Degraded, "its claim is gone, and it was not reclaimed"),
        "Failed" => HealthStatus::new(Health::Unhealthy, "it could not be reclaimed"),
        "" => HealthStatus::no_status(),
        other => HealthStatus::new(Health::Unknown, other),
    }
}

fn phase(parts: ObjectParts<'_>) -> Cow<'_, str> {
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
pub(super) fn autoscaler_health(parts: ObjectParts<'_>) -> HealthStatus {
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

pub(super) fn crd_health(parts: ObjectParts<'_>) -> HealthStatus {
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

pub(super) fn api_service_health(parts: ObjectParts<'_>) -> HealthStatus {
    let conditions = parse::<ControlStatus<'_>>(parts.status).unwrap_or_default().conditions;
    match conditions.get("Available") {
        Some(available) if available.status.0 == "True" => HealthStatus::healthy(),
        Some(available) => available.as_health(Health::Unhealthy),
        None => HealthStatus::progressing(Health::Unknown, "nobody has asked it yet"),
    }
}

pub(super) fn namespace_health(parts: ObjectParts<'_>) -> HealthStatus {
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

pub(super) fn disruption_budget_health(parts: ObjectParts<'_>) -> HealthStatus {
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::{
        types::LabelSet,
        watch::facts::tests::{facts_of, health_check},
    };

    #[test]
    fn load_balancer_without_an_address_is_progressing() {
        let has = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}});
        let (balanced, inner) = (json!({"type": "LoadBalancer"}), json!({"type": "ClusterIP"}));
        let waiting = json!({"loadBalancer": {}});
        for (group, kind, spec) in [("", "Service", balanced), ("networking.k8s.io", "Ingress", json!({}))] {
            let check = health_check(group, kind);
            check(&spec, &waiting, "Degraded Progressing: waiting for the load balancer's address");
            check(&spec, &has, "Healthy");
        }
        health_check("", "Service")(&inner, &waiting, "Healthy");
    }

    #[test]
    fn endpoint_is_the_first_host_or_address() {
        let host = json!({"loadBalancer": {"ingress": [{"hostname": "lb.example.com", "ip": ""}]}});
        let ingress = |spec| facts_of("networking.k8s.io", "Ingress", &spec, &host);
        let shop = ingress(
            json!({"rules": [{}, {"host": "shop.example.com"}], "tls": [{"hosts": ["shop.example.com"]}]}),
        );
        assert_eq!((shop.endpoint.as_deref(), shop.port), (Some("shop.example.com"), Some(443)));
        let bare = ingress(json!({"rules": [{}]}));
        assert_eq!((bare.endpoint.as_deref(), bare.port), (Some("lb.example.com"), Some(80)));
        let spec = json!({"type": "LoadBalancer", "selector": {"app": "web"}, "ports": [{"port": 443}]});
        let service = facts_of("", "Service", &spec, &host);
        assert_eq!((service.endpoint.as_deref(), service.port), (Some("lb.example.com"), Some(443)));
        assert!(service.load_balancer && service.labels == LabelSet::new([("app", "web")]));
        let name = json!({"type": "ExternalName", "externalName": "db.example.com"});
        assert_eq!(facts_of("", "Service", &name, &json!({})).endpoint.as_deref(), Some("db.example.com"));
    }

    #[test]
    fn volume_claim_is_healthy_once_it_is_bound() {
        let check = health_check("", "PersistentVolumeClaim");
        let spec = json!({"resources": {"requests": {"storage": "5Gi"}}});
        check(&spec, &json!({"phase": "Bound"}), "Healthy");
        check(&spec, &json!({"phase": "Pending"}), "Degraded Progressing: it waits for a volume");
        check(&spec, &json!({"phase": "Lost"}), "Unhealthy: its volume is lost");
        check(&spec, &json!({}), "Unknown: no status");
        assert_eq!(facts_of("", "PersistentVolumeClaim", &spec, &json!({})).storage_request, Some(5 << 30));
        let check = health_check("", "PersistentVolume");
        check(&spec, &json!({"phase": "Failed"}), "Unhealthy: it could not be reclaimed");
    }

    #[test]
    fn stateful_set_requests_storage_for_each_replica() {
        let claim = |storage: &str| json!({"spec": {"resources": {"requests": {"storage": storage}}}});
        let spec = json!({"replicas": 3, "volumeClaimTemplates": [claim("1Gi"), claim("512Mi")]});
        let facts = facts_of("apps", "StatefulSet", &spec, &json!({}));
        assert_eq!((facts.replicas, facts.storage_request), (Some(3), Some(1536 << 20)));
    }

    fn conditions(conditions: &[(&str, &str, &str)]) -> Value {
        let condition = |(name, status, reason): &(&str, &str, &str)| json!({"type": name, "status": status, "reason": reason});
        json!({"conditions": conditions.iter().map(condition).collect::<Vec<_>>()})
    }

    #[test]
    fn autoscaler_needs_its_target_and_its_metrics() {
        let check = health_check("autoscaling", "HorizontalPodAutoscaler");
        let spec = json!({});
        let works = ("AbleToScale", "True", "ReadyForNewScale");
        check(&spec, &conditions(&[works, ("ScalingActive", "True", "ValidMetricFound")]), "Healthy");
        let no_metrics = ("ScalingActive", "False", "FailedGetResourceMetric");
        check(&spec, &conditions(&[works, no_metrics]), "Degraded: FailedGetResourceMetric");
        check(&spec, &conditions(&[("AbleToScale", "False", "FailedGetScale")]), "Degraded: FailedGetScale");
        let off = ("ScalingActive", "False", "ScalingDisabled");
        check(&spec, &conditions(&[works, off]), "Healthy Suspended: ScalingDisabled");
        let fresh = json!({"currentReplicas": 0, "desiredReplicas": 0});
        for status in [json!({}), fresh] {
            check(&spec, &status, "Unknown Progressing: it has not looked yet");
        }
        // autoscaling/v1
        check(&spec, &json!({"currentReplicas": 2, "desiredReplicas": 2}), "Healthy");
        let scaled = json!({"desiredReplicas": 0, "lastScaleTime": "2026-01-01T00:00:00Z"});
        check(&spec, &scaled, "Healthy");
    }

    #[test]
    fn crds_and_api_services_must_be_available() {
        let check = health_check("apiextensions.k8s.io", "CustomResourceDefinition");
        let spec = json!({});
        let accepted = ("NamesAccepted", "True", "NoConflicts");
        let established = ("Established", "True", "InitialNamesAccepted");
        check(&spec, &conditions(&[accepted, established]), "Healthy");
        check(&spec, &conditions(&[accepted]), "Degraded Progressing: it is not established yet");
        check(&spec, &conditions(&[("NamesAccepted", "False", "Conflict")]), "Unhealthy: Conflict");
        let violation = ("NonStructuralSchema", "True", "Violations");
        check(&spec, &conditions(&[accepted, established, violation]), "Degraded: Violations");
        let check = health_check("apiregistration.k8s.io", "APIService");
        check(&spec, &conditions(&[("Available", "True", "Local")]), "Healthy");
        check(&spec, &conditions(&[("Available", "False", "ServiceNotFound")]), "Unhealthy: ServiceNotFound");
    }

    #[test]
    fn terminating_namespaces_and_missed_budgets_are_degraded() {
        let check = health_check("", "Namespace");
        check(&json!({}), &json!({"phase": "Active"}), "Healthy");
        let mut terminating = conditions(&[("NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain")]);
        terminating["phase"] = json!("Terminating");
        check(&json!({}), &terminating, "Degraded Terminating: SomeFinalizersRemain");
        let check = health_check("policy", "PodDisruptionBudget");
        check(&json!({}), &json!({"currentHealthy": 2, "desiredHealthy": 2}), "Healthy");
        check(
            &json!({}),
            &json!({"currentHealthy": 1, "desiredHealthy": 2}),
            "Degraded: 1 of 2 pods that it needs are healthy",
        );
    }
}
