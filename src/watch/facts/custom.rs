//! Facts of custom resources that follow the conventions for conditions, phases and references.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};

use super::{Condition, Conditions, FactParts, HealthStatus, Lenient, is_stale, parse};
use crate::{
    diff::Text,
    types::{Health, ObjectFacts},
};

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status<'a> {
    observed_generation: Lenient<i64>,
    #[serde(borrow)]
    conditions: Conditions<'a>,
    health: Lenient<ReportedHealth<'a>>,
    phase: Lenient<Text<'a>>,
    state: Lenient<Text<'a>>,
    binding: Lenient<NameReference<'a>>,
}

/// `status.health`: a text, or an object as in an Application of Argo CD.
#[derive(Default)]
struct ReportedHealth<'a> {
    status: Text<'a>,
    message: Text<'a>,
}

impl<'de: 'a, 'a> Deserialize<'de> for ReportedHealth<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct ArgoHealth<'a> {
            #[serde(borrow)]
            status: Lenient<Text<'a>>,
            message: Lenient<Text<'a>>,
        }
        struct TextOrObject;
        impl<'de> Visitor<'de> for TextOrObject {
            type Value = ReportedHealth<'de>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a text or an object")
            }
            fn visit_borrowed_str<E>(self, status: &'de str) -> Result<Self::Value, E> {
                Ok(ReportedHealth { status: Text(status.into()), ..ReportedHealth::default() })
            }
            fn visit_str<E>(self, status: &str) -> Result<Self::Value, E> {
                Ok(ReportedHealth { status: Text(status.to_owned().into()), ..ReportedHealth::default() })
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                let ArgoHealth { status, message } =
                    ArgoHealth::deserialize(MapAccessDeserializer::new(map))?;
                let (status, message) = (status.0.unwrap_or_default(), message.0.unwrap_or_default());
                Ok(ReportedHealth { status, message })
            }
        }
        deserializer.deserialize_any(TextOrObject)
    }
}

#[derive(Deserialize)]
struct NameReference<'a> {
    #[serde(borrow, default)]
    name: Lenient<Text<'a>>,
}

pub(super) fn custom_resource_facts(parts: FactParts<'_>) -> ObjectFacts {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Spec<'a> {
        replicas: Lenient<i32>,
        #[serde(borrow)]
        write_connection_secret_to_ref: Lenient<NameReference<'a>>,
        secret_name: Lenient<Text<'a>>,
    }
    let spec = parse::<Spec<'_>>(parts.spec).unwrap_or_default();
    // serde would read a list as the fields in their order.
    let status = parse::<Status<'_>>(parts.status.filter(|status| status.is_object()));
    let written = spec.write_connection_secret_to_ref.0.and_then(|reference| reference.name.0);
    let bound = status.as_ref().and_then(|status| status.binding.0.as_ref()?.name.0.clone());
    let names = [written, bound, spec.secret_name.0].into_iter().flatten();
    let connection_secret = names.map(|name| name.0).find(|name| !name.is_empty()).map(Into::into);
    let health = match &status {
        None => HealthStatus::no_status(),
        Some(status) if is_stale(status.observed_generation.0, parts.generation) => {
            HealthStatus::not_observed()
        }
        Some(status) => health_of(status),
    };
    ObjectFacts { replicas: spec.replicas.0, connection_secret, ..health.into_facts() }
}

fn health_of(status: &Status<'_>) -> HealthStatus {
    let conditions = &status.conditions;
    // Stalled outranks every other condition.
    if let Some(stalled) = conditions.with_status("Stalled", "True") {
        return stalled.as_health(Health::Unhealthy);
    }
    let named = ["Ready", "Available", "Healthy", "Succeeded"].iter().find_map(|name| conditions.get(name));
    let busy = ["Reconciling", "Issuing", "Progressing"]
        .iter()
        .find_map(|name| conditions.with_status(name, "True"));
    let ready = match named {
        None => return health_from_phases(status, busy.map(Condition::message_or_reason)),
        Some(condition) => match &*condition.status.0 {
            "True" => HealthStatus::healthy(),
            "False" => condition.as_health(Health::Unhealthy),
            _ => condition.as_health(Health::Unknown),
        },
    };
    // It works, but the declared state could not be applied, or its controller reports a problem.
    let problem =
        conditions.with_status("Synced", "False").or_else(|| conditions.with_status("Degraded", "True"));
    match (ready.health, problem, busy) {
        (Health::Healthy, Some(problem), _) => problem.as_health(Health::Degraded),
        (Health::Healthy, None, Some(busy)) if busy.r#type.0 != "Progressing" => {
            HealthStatus::progressing(Health::Healthy, busy.message_or_reason())
        }
        (Health::Unhealthy | Health::Unknown, _, Some(_)) => {
            HealthStatus::progressing(ready.health, ready.message)
        }
        // It is progressing until its controller reports a failure.
        (Health::Unhealthy, None, None) if conditions.with_status("Ready", "False").is_some() => {
            HealthStatus::progressing(ready.health, ready.message)
        }
        (_, _, _) => ready,
    }
}

/// Without a known condition, `health`, `phase` or `state` may say how the object is.
fn health_from_phases(status: &Status<'_>, busy: Option<String>) -> HealthStatus {
    let text =
        |value: &Lenient<Text<'_>>| value.0.as_ref().map_or_else(String::new, |text| text.0.to_string());
    let health = status.health.0.as_ref();
    let reported = health.map_or_else(String::new, |health| health.status.0.to_string());
    let phases = [reported, text(&status.phase), text(&status.state)];
    let phases = || phases.iter().filter(|phase| !phase.is_empty());
    let message = health.map_or("", |health| &*health.message.0);
    if let Some(health) = phases().find_map(|phase| health_from_phase(phase, message)) {
        return health;
    }
    match (phases().next(), busy) {
        (Some(phase), _) => {
            HealthStatus::new(Health::Unknown, format!("nobody knows what its phase {phase} means"))
        }
        (None, Some(message)) => HealthStatus::progressing(Health::Unknown, message),
        (None, None) => HealthStatus::new(Health::Unknown, "its status has no condition Ready or Available"),
    }
}

/// `None` if the phase is not a common one.
fn health_from_phase(phase: &str, message: &str) -> Option<HealthStatus> {
    Some(match phase.to_ascii_lowercase().as_str() {
        "healthy" | "ready" | "available" | "active" | "running" | "bound" | "established" | "green" => {
            HealthStatus::healthy()
        }
        "succeeded" | "completed" | "complete" => HealthStatus::completed(),
        "progressing" | "pending" | "creating" | "provisioning" | "updating" | "reconciling"
        | "inprogress" => HealthStatus::progressing(Health::Degraded, message),
        "suspended" | "paused" => HealthStatus::suspended(message),
        "degraded" | "yellow" => HealthStatus::new(Health::Degraded, message),
        "failed" | "error" | "failure" | "lost" | "unhealthy" | "red" => {
            HealthStatus::new(Health::Unhealthy, message)
        }
        _ => return None,
    })
}
