//! The small facts about an object that the API shows.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    compare::{DeploymentView, Quantity, ServiceView, Text},
    model::{Facts, Health, Kind, ObjectKey, is_within},
};

/// Facts about a Deployment.
pub(super) fn of_deployment(
    spec: &DeploymentView<'_>,
    status: Option<&RawValue>,
    generation: Option<i64>,
) -> Facts {
    let replicas = spec.replicas.unwrap_or(1);
    let (health, message) = deployment_health(status, replicas, generation);
    let requested = |name| {
        let amounts: Vec<_> =
            spec.requests(name).filter_map(|amount| Quantity::parse(&amount).ok()).collect();
        (!amounts.is_empty()).then_some(amounts)
    };
    Facts {
        health,
        message: message.into(),
        replicas: Some(replicas),
        cpu_request: requested("cpu")
            .map(|amounts| amounts.iter().map(Quantity::millis).fold(0, u64::saturating_add)),
        memory_request: requested("memory")
            .map(|amounts| amounts.iter().map(Quantity::units).fold(0, u64::saturating_add)),
        port: spec.first_port().and_then(|port| u16::try_from(port).ok()),
        ..Facts::default()
    }
}

/// Facts about a Service.
pub(super) fn of_service(spec: &ServiceView<'_>, status: Option<&RawValue>) -> Facts {
    let external =
        read::<ServiceStatus<'_>>(status).and_then(|status| status.load_balancer?.ingress.into_iter().next());
    let address =
        external.map(|ingress| if ingress.hostname.0.is_empty() { ingress.ip } else { ingress.hostname });
    let (health, message) = match &*spec.service_type.0 {
        "LoadBalancer" if address.is_none() => (Health::Degraded, "waiting for the load balancer's address"),
        _ => (Health::Healthy, ""),
    };
    let endpoint = match &*spec.service_type.0 {
        "ExternalName" => Some(spec.external_name.0.as_ref().into()),
        _ => address.map(|address| address.0.into()),
    };
    Facts {
        health,
        message: message.into(),
        endpoint,
        port: spec.first_port().and_then(|port| u16::try_from(port).ok()),
        ..Facts::default()
    }
}

/// Facts about an object of any kind, as far as it follows the conventions.
pub(super) fn of_any(spec: Option<&RawValue>, status: Option<&RawValue>, generation: Option<i64>) -> Facts {
    #[derive(Deserialize)]
    struct Spec {
        replicas: Option<i32>,
    }
    let (health, message) = health_by_conditions(status, generation);
    let replicas = read::<Spec>(spec).and_then(|spec| spec.replicas);
    Facts { health, message: message.into(), replicas, ..Facts::default() }
}

/// Facts without those that tell something about fields whose values may not be told.
pub(super) fn without_sealed(mut facts: Facts, sealed: &[&str]) -> Facts {
    let is_sealed = |field: &str| sealed.iter().any(|own| is_within(field, own) || is_within(own, field));
    if is_sealed("spec.replicas") {
        (facts.replicas, facts.message) = (None, Box::default());
    }
    if is_sealed("spec.template.spec.containers.resources.requests") {
        (facts.cpu_request, facts.memory_request) = (None, None);
    }
    if is_sealed("spec.ports") || is_sealed("spec.template.spec.containers.ports") {
        facts.port = None;
    }
    if is_sealed("spec.externalName") || is_sealed("spec.loadBalancerIP") {
        facts.endpoint = None;
    }
    if is_sealed("metadata.labels") {
        facts.instance = None;
    }
    facts
}

/// The object whose replicas an autoscaler sets: it is in the same namespace.
pub(super) fn scaled_by(autoscaler: &ObjectKey, spec: Option<&RawValue>) -> Option<Box<ObjectKey>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec<'a> {
        #[serde(borrow)]
        scale_target_ref: Target<'a>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Target<'a> {
        #[serde(borrow, default)]
        api_version: Text<'a>,
        #[serde(borrow)]
        kind: Text<'a>,
        #[serde(borrow)]
        name: Text<'a>,
    }
    if !autoscaler.kind.is_autoscaler() {
        return None;
    }
    let Target { api_version, kind, name } = read::<Spec<'_>>(spec)?.scale_target_ref;
    let (group, version) = api_version.0.split_once('/').unwrap_or(("", &api_version.0));
    let kind = Arc::new(Kind::unseen(group, version, &kind.0));
    Some(Box::new(ObjectKey { kind, namespace: autoscaler.namespace.clone(), name: name.0.into() }))
}

/// `Ready` says whether an object works, where there is none `Available`.
fn health_by_conditions(status: Option<&RawValue>, generation: Option<i64>) -> (Health, String) {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Status<'a> {
        observed_generation: Option<i64>,
        #[serde(borrow)]
        conditions: Option<Vec<Condition<'a>>>,
    }
    let Some(status) = read::<Status<'_>>(status) else {
        return (Health::Unknown, "no status".to_owned());
    };
    if status.observed_generation.zip(generation).is_some_and(|(observed, own)| observed < own) {
        return (Health::Unknown, "its controller has not seen this version yet".to_owned());
    }
    let conditions = status.conditions.unwrap_or_default();
    let named = |name: &str| conditions.iter().find(|condition| condition.r#type.0 == name);
    let Some(condition) = named("Ready").or_else(|| named("Available")) else {
        return (Health::Unknown, "its status has no condition Ready or Available".to_owned());
    };
    let message = || condition.message.0.chars().take(256).collect();
    match &*condition.status.0 {
        "True" => (Health::Healthy, String::new()),
        "False" => (Health::Unhealthy, message()),
        _ => (Health::Unknown, message()),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeploymentStatus<'a> {
    observed_generation: Option<i64>,
    available_replicas: Option<i32>,
    #[serde(borrow)]
    conditions: Option<Vec<Condition<'a>>>,
}

#[derive(Deserialize)]
struct Condition<'a> {
    #[serde(borrow, default)]
    r#type: Text<'a>,
    #[serde(borrow, default)]
    status: Text<'a>,
    #[serde(borrow, default)]
    message: Text<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServiceStatus<'a> {
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

/// A status that does not look as it should tells nothing; it must not hide the object.
fn read<'a, T: Deserialize<'a>>(part: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(part?.get()).ok()
}

fn deployment_health(status: Option<&RawValue>, replicas: i32, generation: Option<i64>) -> (Health, String) {
    let Some(status) = read::<DeploymentStatus<'_>>(status) else {
        return (Health::Unknown, "no status".to_owned());
    };
    if status.observed_generation.is_none_or(|observed| generation.is_some_and(|own| observed < own)) {
        return (Health::Unknown, "its controller has not seen this version yet".to_owned());
    }
    let failed = status
        .conditions
        .into_iter()
        .flatten()
        .find(|condition| condition.r#type.0 == "Progressing" && condition.status.0 == "False");
    let available = status.available_replicas.unwrap_or(0);
    if available >= replicas && failed.is_none() {
        return (Health::Healthy, String::new());
    }
    let message = failed.map_or_else(
        || format!("{available} of {replicas} replicas are available"),
        |condition| condition.message.0.chars().take(256).collect(),
    );
    (if available == 0 && replicas > 0 { Health::Unhealthy } else { Health::Degraded }, message)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json, value::to_raw_value};

    use std::sync::Arc;

    use super::{Kind, ObjectKey, of_any, scaled_by, without_sealed};
    use crate::model::{Facts, Health};

    #[track_caller]
    fn check(status: &Value, health: Health, message: &str) {
        let (spec, status) = (to_raw_value(&json!({"replicas": 3})).unwrap(), to_raw_value(status).unwrap());
        let facts = of_any(Some(&spec), Some(&status), Some(2));
        assert_eq!((facts.health, &*facts.message, facts.replicas), (health, message, Some(3)));
    }

    #[test]
    fn nothing_is_told_of_what_is_sealed() {
        let facts = Facts {
            replicas: Some(3),
            message: "1 of 3 replicas are available".into(),
            cpu_request: Some(100),
            memory_request: Some(100),
            endpoint: Some("db.example.com".into()),
            port: Some(80),
            instance: Some("shop".into()),
            ..Facts::default()
        };
        assert_eq!(without_sealed(facts.clone(), &["data", "spec.template.spec.containers.env"]), facts);
        assert_eq!(without_sealed(facts.clone(), &[""]), Facts::default());
        let endpoint = Facts { endpoint: None, ..facts.clone() };
        assert_eq!(without_sealed(facts.clone(), &["spec.externalName"]), endpoint);
        let requests = "spec.template.spec.containers.resources.requests.cpu";
        assert_eq!(without_sealed(facts, &[requests]).memory_request, None, "no index tells which it is");
    }

    #[test]
    fn any_kind_is_as_well_as_its_conditions_say() {
        let condition = |name: &str, status: &str| json!({"type": name, "status": status, "message": "why"});
        let available = condition("Available", "True");
        check(&json!({"conditions": [available]}), Health::Healthy, "");
        check(&json!({"conditions": [available, condition("Ready", "False")]}), Health::Unhealthy, "why");
        check(&json!({"conditions": [condition("Ready", "Unknown")]}), Health::Unknown, "why");
        check(&json!({"phase": "Bound"}), Health::Unknown, "its status has no condition Ready or Available");
        check(
            &json!({"observedGeneration": 1, "conditions": [available]}),
            Health::Unknown,
            "its controller has not seen this version yet",
        );
        check(&json!([]), Health::Unknown, "no status");
        assert_eq!(of_any(None, None, None).replicas, None);
    }

    #[track_caller]
    fn check_target(kind: Kind, spec: &Value, target: Option<(&str, &str)>) {
        let key = ObjectKey { kind: Arc::new(kind), namespace: "shop".into(), name: "web-scaler".into() };
        let scaled = scaled_by(&key, Some(&to_raw_value(spec).unwrap()));
        let told = scaled.as_ref().map(|own| (&*own.kind.group, own.to_string()));
        assert_eq!(told, target.map(|(group, object)| (group, object.to_owned())), "{spec}");
    }

    #[test]
    fn an_autoscaler_tells_what_it_scales_in_whatever_version() {
        let spec = json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}});
        let web = Some(("apps", "Deployment shop/web"));
        check_target(Kind::autoscaler(), &spec, web);
        check_target(Kind { version: "v1".into(), ..Kind::autoscaler() }, &spec, web);
        check_target(Kind::deployment(), &spec, None);
        let core =
            json!({"scaleTargetRef": {"apiVersion": "v1", "kind": "ReplicationController", "name": "old"}});
        check_target(Kind::autoscaler(), &core, Some(("", "ReplicationController shop/old")));
        check_target(Kind::autoscaler(), &json!({"scaleTargetRef": {"name": "web"}}), None);
        check_target(Kind::autoscaler(), &json!({"scaleTargetRef": 7}), None);
    }
}
