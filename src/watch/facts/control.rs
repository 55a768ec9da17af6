//! Kinds by which the cluster itself is run: autoscalers, definitions, served APIs, namespaces, budgets.

use serde::Deserialize;

use super::{
    Parts,
    wellness::{Conditions, Wellness, read},
};
use crate::{
    diff::Text,
    types::{Health, Phase},
};

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
            let message = why.map(super::wellness::Condition::words).unwrap_or_default();
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

    use super::super::check_of;
    use crate::types::{Health, Phase};

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
