//! Facts of custom resources that follow the conventions for conditions, phases and references.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Condition, Conditions, HealthStatus, Lenient, ObjectParts, is_stale, parse};
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
    health: ReportedHealth<'a>,
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
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct ArgoHealth<'a> {
            #[serde(borrow)]
            status: Lenient<Text<'a>>,
            message: Lenient<Text<'a>>,
        }
        let value = Some(<&RawValue>::deserialize(deserializer)?);
        let text = parse::<Text<'a>>(value).map(|status| Self { status, ..Self::default() });
        let argo = || {
            let ArgoHealth { status, message } = parse(value)?;
            Some(Self { status: status.0.unwrap_or_default(), message: message.0.unwrap_or_default() })
        };
        Ok(text.or_else(argo).unwrap_or_default())
    }
}

#[derive(Deserialize)]
struct NameReference<'a> {
    #[serde(borrow, default)]
    name: Text<'a>,
}

pub(super) fn custom_resource_facts(parts: ObjectParts<'_>) -> ObjectFacts {
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
    let status = parse::<Status<'_>>(parts.status.filter(|status| status.get().starts_with('{')));
    let written = spec.write_connection_secret_to_ref.0.map(|reference| reference.name);
    let bound =
        status.as_ref().and_then(|status| status.binding.0.as_ref()).map(|reference| reference.name.clone());
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
    let phases = [status.health.status.0.to_string(), text(&status.phase), text(&status.state)];
    let phases = || phases.iter().filter(|phase| !phase.is_empty());
    let message = &*status.health.message.0;
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::watch::facts::tests::{facts_of, health_check};

    fn condition(name: &str, status: &str) -> Value {
        json!({"type": name, "status": status, "message": format!("{name} is {status}")})
    }

    #[track_caller]
    fn check(conditions: &[(&str, &str)], expected: &str) {
        let conditions: Vec<Value> =
            conditions.iter().map(|(name, status)| condition(name, status)).collect();
        let status = json!({"observedGeneration": 2, "conditions": conditions});
        health_check("example.com", "Database")(&json!({}), &status, expected);
    }

    #[test]
    fn custom_resource_health_follows_its_conditions() {
        check(&[("Available", "True")], "Healthy");
        check(&[("Available", "True"), ("Ready", "False")], "Unhealthy Progressing: Ready is False");
        check(&[("Ready", "False"), ("Issuing", "True")], "Unhealthy Progressing: Ready is False");
        check(&[("Ready", "True"), ("Issuing", "True")], "Healthy Progressing: Issuing is True");
        // The controller reports a failure.
        check(&[("Ready", "False"), ("Stalled", "True")], "Unhealthy: Stalled is True");
        check(&[("Ready", "False"), ("Synced", "False")], "Unhealthy: Ready is False");
        check(&[("Ready", "False"), ("Degraded", "True")], "Unhealthy: Ready is False");
        check(&[("Available", "False")], "Unhealthy: Available is False");
        check(&[("Ready", "Unknown")], "Unknown: Ready is Unknown");
        check(&[("Ready", "True"), ("Synced", "False")], "Degraded: Synced is False");
        check(&[("Ready", "True"), ("Degraded", "True")], "Degraded: Degraded is True");
        check(&[("Ready", "True"), ("Stalled", "True")], "Unhealthy: Stalled is True");
        check(&[("Ready", "False"), ("Reconciling", "True")], "Unhealthy Progressing: Ready is False");
        check(&[("Ready", "True"), ("Reconciling", "True")], "Healthy Progressing: Reconciling is True");
        check(&[("Ready", "True"), ("Progressing", "True")], "Healthy");
        check(&[("Reconciling", "True")], "Unknown Progressing: Reconciling is True");
        check(&[("Ready", "True"), ("Stalled", "False"), ("Degraded", "False")], "Healthy");
    }

    #[test]
    fn custom_resource_without_conditions_uses_its_phase() {
        let check = health_check("example.com", "Database");
        let spec = json!({});
        check(&spec, &json!({"phase": "Ready"}), "Healthy");
        check(&spec, &json!({"state": "creating"}), "Degraded Progressing");
        check(&spec, &json!({"phase": "Succeeded"}), "Healthy Completed");
        check(&spec, &json!({"phase": "Blue"}), "Unknown: nobody knows what its phase Blue means");
        check(
            &spec,
            &json!({"state": {"web": {}}}),
            "Unknown: its status has no condition Ready or Available",
        );
        let argo = json!({"health": {"status": "Degraded", "message": "web is down"}, "phase": "Running"});
        check(&spec, &argo, "Degraded: web is down");
        check(
            &spec,
            &json!({"observedGeneration": 1, "phase": "Ready"}),
            "Unknown Progressing: its controller has not seen this version yet",
        );
        check(&spec, &json!([]), "Unknown: no status");
    }

    #[test]
    fn fields_of_unexpected_types_are_ignored() {
        let check = health_check("example.com", "Database");
        let spec = json!({});
        check(&spec, &json!({"health": "green", "phase": "Ready"}), "Healthy");
        check(&spec, &json!({"health": "yellow", "phase": "Ready"}), "Degraded");
        check(&spec, &json!({"health": "red", "phase": "Ready"}), "Unhealthy");
        check(&spec, &json!({"health": "unknown", "phase": "Ready"}), "Healthy");
        for odd in [json!(7), json!(null), json!("text"), json!([1]), json!({"name": [], "status": {}})] {
            let mut status = json!({"phase": "Ready"});
            for name in ["health", "binding", "conditions", "state", "observedGeneration"] {
                status[name] = odd.clone();
            }
            check(&spec, &status, "Healthy");
        }
        let ready = condition("Ready", "True");
        let odd = json!({"conditions": [7, {"type": "Ready", "status": true}, {"type": {}}, ready]});
        check(&spec, &odd, "Healthy");
        let odd = json!({"replicas": "three", "writeConnectionSecretToRef": "a", "secretName": "c"});
        let facts = facts_of("example.com", "Database", &odd, &json!({"health": "green"}));
        assert_eq!((facts.replicas, facts.connection_secret.as_deref()), (None, Some("c")));
    }

    #[test]
    fn connection_secret_is_found_by_convention() {
        let secret = |spec: Value, status: Value| {
            facts_of("example.com", "Database", &spec, &status).connection_secret.map(String::from)
        };
        let written = json!({"writeConnectionSecretToRef": {"name": "a"}, "secretName": "c"});
        assert_eq!(secret(written, json!({"binding": {"name": "b"}})).as_deref(), Some("a"));
        assert_eq!(
            secret(json!({"secretName": "c"}), json!({"binding": {"name": "b"}})).as_deref(),
            Some("b")
        );
        assert_eq!(secret(json!({"secretName": "c"}), json!({})).as_deref(), Some("c"));
        assert_eq!(secret(json!({"secretName": {"odd": true}}), json!({})), None);
    }
}
