//! Health and endpoints of everything that workloads use.

use drift_exporter::types::LabelSet;
use serde_json::{Value, json};

use super::{facts_of, health_check};

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
