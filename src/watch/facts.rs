//! The small facts about an object that the API shows.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    compare::{DeploymentView, Quantity, ServiceView, Text},
    model::{Facts, Health},
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
fn read<'a, T: Deserialize<'a>>(status: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(status?.get()).ok()
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
