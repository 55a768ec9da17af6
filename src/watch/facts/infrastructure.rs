//! What workloads stand on: networks, volumes, and the kinds by which the cluster itself is run.

use std::borrow::Cow;

use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use super::{Conditions, Parts, Wellness, read, workloads::sum_units};
use crate::{
    diff::{ServiceView, Text},
    types::{Facts, Health, LabelSet, Phase},
};

/// Facts about a Service.
pub(in crate::watch) fn of_service(spec: &ServiceView<'_>, parts: Parts<'_>) -> Facts {
    let address = load_balancer(parts.status);
    let is_balanced = spec.service_type.0 == "LoadBalancer";
    let endpoint = match &*spec.service_type.0 {
        "ExternalName" => Some(spec.external_name.0.as_ref().into()),
        _ => address.clone(),
    };
    Facts {
        endpoint,
        load_balancer: is_balanced,
        port: spec.first_port().and_then(|port| u16::try_from(port).ok()),
        labels: LabelSet::new(spec.selector()),
        ..balanced(is_balanced && address.is_none()).into_facts()
    }
}

/// Facts about an Ingress: the first host that it answers for, else the address of its load balancer.
pub(super) fn of_ingress(parts: Parts<'_>) -> Facts {
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
    let spec = read::<Spec<'_>>(parts.spec).unwrap_or_default();
    let address = load_balancer(parts.status);
    let wellness = balanced(address.is_none());
    let host = spec.rules.iter().flatten().map(|rule| &rule.host.0).find(|host| !host.is_empty());
    let is_encrypted = spec.tls.is_some_and(|tls| !tls.is_empty());
    Facts {
        endpoint: host.map(|host| host.as_ref().into()).or(address),
        port: Some(if is_encrypted { 443 } else { 80 }),
        ..wellness.into_facts()
    }
}

fn balanced(waits: bool) -> Wellness {
    if waits {
        Wellness::progressing(Health::Degraded, "waiting for the load balancer's address")
    } else {
        Wellness::healthy()
    }
}

/// The first address that a load balancer has.
fn load_balancer(status: Option<&RawValue>) -> Option<Box<str>> {
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
    #[derive(Deserialize)]
    struct Ingress<'a> {
        #[serde(borrow, default)]
        hostname: Text<'a>,
        #[serde(borrow, default)]
        ip: Text<'a>,
    }
    let first = read::<Status<'_>>(status)?.load_balancer?.ingress.into_iter().next()?;
    let address = if first.hostname.0.is_empty() { first.ip } else { first.hostname };
    Some(address.0.into())
}

/// What a claim asks for.
#[derive(Default, Deserialize)]
pub(super) struct ClaimSpec<'a> {
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

impl<'a> ClaimSpec<'a> {
    /// How much storage, as written.
    pub(super) fn storage(&self) -> Option<Cow<'a, str>> {
        let requests = self.resources.as_ref()?.requests.as_ref()?;
        Some(requests.storage.0.clone()).filter(|amount| !amount.is_empty())
    }
}

/// Facts about a claim on a volume.
pub(super) fn of_claim(parts: Parts<'_>) -> Facts {
    let spec = read::<ClaimSpec<'_>>(parts.spec).unwrap_or_default();
    let wellness = match &*phase(parts) {
        "Bound" => Wellness::healthy(),
        "Pending" => Wellness::progressing(Health::Degraded, "it waits for a volume"),
        "Lost" => Wellness::new(Health::Unhealthy, "its volume is lost"),
        "" => Wellness::no_status(),
        other => Wellness::new(Health::Unknown, other),
    };
    Facts { storage_request: sum_units(spec.storage().into_iter()), ..wellness.into_facts() }
}

/// Facts about a volume.
pub(super) fn of_volume(parts: Parts<'_>) -> Facts {
    let wellness = match &*phase(parts) {
        "Bound" | "Available" => Wellness::healthy(),
        "Pending" => Wellness::progressing(Health::Degraded, "it is not available yet"),
        "Released" => Wellness::new(Health::Degraded, "its claim is gone, and it was not reclaimed"),
        "Failed" => Wellness::new(Health::Unhealthy, "it could not be reclaimed"),
        "" => Wellness::no_status(),
        other => Wellness::new(Health::Unknown, other),
    };
    wellness.into_facts()
}

fn phase(parts: Parts<'_>) -> Cow<'_, str> {
    #[derive(Default, Deserialize)]
    struct Status<'a> {
        #[serde(borrow, default)]
        phase: Text<'a>,
    }
    read::<Status<'_>>(parts.status).unwrap_or_default().phase.0
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    #[serde(borrow, default)]
    phase: Text<'a>,
    #[serde(borrow, default)]
    conditions: Conditions<'a>,
    current_healthy: Option<i32>,
    desired_healthy: Option<i32>,
    desired_replicas: Option<i32>,
    #[serde(borrow, default)]
    last_scale_time: Text<'a>,
}

/// An autoscaler that finds neither its target nor its metrics is worth nothing; its target works on.
pub(super) fn of_autoscaler(parts: Parts<'_>) -> Wellness {
    let status = read::<Status<'_>>(parts.status).unwrap_or_default();
    let conditions = &status.conditions;
    // In autoscaling/v1 there are no conditions: what it wants tells that it has looked.
    let has_looked =
        status.desired_replicas.is_some_and(|wanted| wanted > 0) || !status.last_scale_time.0.is_empty();
    let failed = |name| conditions.when(name, "False");
    if let Some(failed) = failed("AbleToScale") {
        return Wellness::new(Health::Degraded, failed.words());
    }
    match failed("ScalingActive") {
        Some(off) if off.reason.0 == "ScalingDisabled" => Wellness::suspended(off.words()),
        Some(failed) => Wellness::new(Health::Degraded, failed.words()),
        None if conditions.is_empty() && !has_looked => {
            Wellness::progressing(Health::Unknown, "it has not looked yet")
        }
        None => Wellness::healthy(),
    }
}

/// A definition of a kind.
pub(super) fn of_definition(parts: Parts<'_>) -> Wellness {
    let conditions = read::<Status<'_>>(parts.status).unwrap_or_default().conditions;
    if let Some(going) = conditions.when("Terminating", "True") {
        return Wellness {
            phase: Some(Phase::Terminating),
            ..Wellness::new(Health::Degraded, going.words())
        };
    }
    if let Some(refused) = conditions.when("NamesAccepted", "False") {
        return Wellness::new(Health::Unhealthy, refused.words());
    }
    if conditions.when("Established", "True").is_none() {
        return Wellness::progressing(Health::Degraded, "it is not established yet");
    }
    match conditions.when("NonStructuralSchema", "True") {
        Some(odd) => Wellness::new(Health::Degraded, odd.words()),
        None => Wellness::healthy(),
    }
}

/// An API that another server serves.
pub(super) fn of_api_service(parts: Parts<'_>) -> Wellness {
    let conditions = read::<Status<'_>>(parts.status).unwrap_or_default().conditions;
    match conditions.get("Available") {
        Some(available) if available.status.0 == "True" => Wellness::healthy(),
        Some(available) => Wellness::new(Health::Unhealthy, available.words()),
        None => Wellness::progressing(Health::Unknown, "nobody has asked it yet"),
    }
}

pub(super) fn of_namespace(parts: Parts<'_>) -> Wellness {
    let status = read::<Status<'_>>(parts.status).unwrap_or_default();
    let stuck =
        ["NamespaceDeletionContentFailure", "NamespaceContentRemaining", "NamespaceFinalizersRemaining"];
    match &*status.phase.0 {
        "Terminating" => {
            let why = stuck.iter().find_map(|name| status.conditions.when(name, "True"));
            let message = why.map(super::Condition::words).unwrap_or_default();
            Wellness { phase: Some(Phase::Terminating), ..Wellness::new(Health::Degraded, message) }
        }
        _ => Wellness::healthy(),
    }
}

/// A budget of pods that may be missing.
pub(super) fn of_budget(parts: Parts<'_>) -> Wellness {
    let Some(status) = read::<Status<'_>>(parts.status) else { return Wellness::no_status() };
    let (healthy, wanted) = (status.current_healthy.unwrap_or(0), status.desired_healthy.unwrap_or(0));
    if healthy < wanted {
        return Wellness::new(
            Health::Degraded,
            format!("{healthy} of {wanted} pods that it needs are healthy"),
        );
    }
    Wellness::healthy()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::{
        types::{Health, LabelSet, Phase},
        watch::facts::{check_of, facts_of},
    };

    #[test]
    fn what_wants_a_load_balancer_waits_for_its_address() {
        let waiting = "waiting for the load balancer's address";
        let has = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}});
        let (balanced, inner) = (json!({"type": "LoadBalancer"}), json!({"type": "ClusterIP"}));
        let check = check_of("", "Service");
        check(&balanced, &json!({"loadBalancer": {}}), Health::Degraded, Some(Phase::Progressing), waiting);
        check(&balanced, &has, Health::Healthy, None, "");
        check(&inner, &json!({"loadBalancer": {}}), Health::Healthy, None, "");
        let check = check_of("networking.k8s.io", "Ingress");
        check(&json!({}), &json!({"loadBalancer": {}}), Health::Degraded, Some(Phase::Progressing), waiting);
        check(&json!({}), &has, Health::Healthy, None, "");
    }

    #[test]
    fn the_first_place_where_something_answers_is_told() {
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
    fn a_claim_is_well_once_it_has_a_volume() {
        let check = check_of("", "PersistentVolumeClaim");
        let spec = json!({"resources": {"requests": {"storage": "5Gi"}}});
        check(&spec, &json!({"phase": "Bound"}), Health::Healthy, None, "");
        check(
            &spec,
            &json!({"phase": "Pending"}),
            Health::Degraded,
            Some(Phase::Progressing),
            "it waits for a volume",
        );
        check(&spec, &json!({"phase": "Lost"}), Health::Unhealthy, None, "its volume is lost");
        check(&spec, &json!({}), Health::Unknown, None, "no status");
        assert_eq!(facts_of("", "PersistentVolumeClaim", &spec, &json!({})).storage_request, Some(5 << 30));
        check_of("", "PersistentVolume")(
            &json!({}),
            &json!({"phase": "Failed"}),
            Health::Unhealthy,
            None,
            "it could not be reclaimed",
        );
    }

    #[test]
    fn every_replica_of_a_stateful_set_has_its_own_storage() {
        let claim = |storage: &str| json!({"spec": {"resources": {"requests": {"storage": storage}}}});
        let spec = json!({"replicas": 3, "volumeClaimTemplates": [claim("1Gi"), claim("512Mi")]});
        let facts = facts_of("apps", "StatefulSet", &spec, &json!({}));
        assert_eq!((facts.replicas, facts.storage_request), (Some(3), Some(1536 << 20)));
    }

    fn conditions(own: &[(&str, &str, &str)]) -> Value {
        let condition = |(name, status, reason): &(&str, &str, &str)| json!({"type": name, "status": status, "reason": reason});
        json!({"conditions": own.iter().map(condition).collect::<Vec<_>>()})
    }

    #[test]
    fn an_autoscaler_has_to_find_its_target_and_its_metrics() {
        let check = check_of("autoscaling", "HorizontalPodAutoscaler");
        let spec = json!({});
        let works = ("AbleToScale", "True", "ReadyForNewScale");
        check(
            &spec,
            &conditions(&[works, ("ScalingActive", "True", "ValidMetricFound")]),
            Health::Healthy,
            None,
            "",
        );
        let blind = ("ScalingActive", "False", "FailedGetResourceMetric");
        check(&spec, &conditions(&[works, blind]), Health::Degraded, None, "FailedGetResourceMetric");
        check(
            &spec,
            &conditions(&[("AbleToScale", "False", "FailedGetScale")]),
            Health::Degraded,
            None,
            "FailedGetScale",
        );
        let off = ("ScalingActive", "False", "ScalingDisabled");
        check(&spec, &conditions(&[works, off]), Health::Healthy, Some(Phase::Suspended), "ScalingDisabled");
        let fresh = json!({"currentReplicas": 0, "desiredReplicas": 0});
        for status in [json!({}), fresh] {
            check(&spec, &status, Health::Unknown, Some(Phase::Progressing), "it has not looked yet");
        }
        // As autoscaling/v1 has it.
        check(&spec, &json!({"currentReplicas": 2, "desiredReplicas": 2}), Health::Healthy, None, "");
        let scaled = json!({"desiredReplicas": 0, "lastScaleTime": "2026-01-01T00:00:00Z"});
        check(&spec, &scaled, Health::Healthy, None, "");
    }

    #[test]
    fn definitions_and_served_apis_have_to_be_established() {
        let check = check_of("apiextensions.k8s.io", "CustomResourceDefinition");
        let spec = json!({});
        let accepted = ("NamesAccepted", "True", "NoConflicts");
        let established = ("Established", "True", "InitialNamesAccepted");
        check(&spec, &conditions(&[accepted, established]), Health::Healthy, None, "");
        check(
            &spec,
            &conditions(&[accepted]),
            Health::Degraded,
            Some(Phase::Progressing),
            "it is not established yet",
        );
        check(
            &spec,
            &conditions(&[("NamesAccepted", "False", "Conflict")]),
            Health::Unhealthy,
            None,
            "Conflict",
        );
        let odd = ("NonStructuralSchema", "True", "Violations");
        check(&spec, &conditions(&[accepted, established, odd]), Health::Degraded, None, "Violations");
        let check = check_of("apiregistration.k8s.io", "APIService");
        check(&spec, &conditions(&[("Available", "True", "Local")]), Health::Healthy, None, "");
        check(
            &spec,
            &conditions(&[("Available", "False", "ServiceNotFound")]),
            Health::Unhealthy,
            None,
            "ServiceNotFound",
        );
    }

    #[test]
    fn namespaces_end_and_budgets_are_kept() {
        let check = check_of("", "Namespace");
        check(&json!({}), &json!({"phase": "Active"}), Health::Healthy, None, "");
        let mut going = conditions(&[("NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain")]);
        going["phase"] = json!("Terminating");
        check(&json!({}), &going, Health::Degraded, Some(Phase::Terminating), "SomeFinalizersRemain");
        let check = check_of("policy", "PodDisruptionBudget");
        check(&json!({}), &json!({"currentHealthy": 2, "desiredHealthy": 2}), Health::Healthy, None, "");
        let short = "1 of 2 pods that it needs are healthy";
        check(&json!({}), &json!({"currentHealthy": 1, "desiredHealthy": 2}), Health::Degraded, None, short);
    }
}
