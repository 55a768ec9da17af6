//! Workloads that keep pods running: Deployments, `StatefulSets`, `DaemonSets`, `ReplicaSets`.

use serde::Deserialize;

use super::{
    Parts,
    pods::{of_template, sum_units},
    wellness::{Conditions, Wellness, is_behind, read},
};
use crate::{
    diff::{DeploymentView, TemplateView, Text},
    types::{Facts, Health, Phase},
};

/// How far pods are. What the API server leaves out is zero.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    observed_generation: Option<i64>,
    replicas: Option<i32>,
    updated_replicas: Option<i32>,
    ready_replicas: Option<i32>,
    available_replicas: Option<i32>,
    #[serde(borrow, default)]
    current_revision: Text<'a>,
    #[serde(borrow, default)]
    update_revision: Text<'a>,
    desired_number_scheduled: Option<i32>,
    updated_number_scheduled: Option<i32>,
    number_available: Option<i32>,
    #[serde(borrow, default)]
    conditions: Conditions<'a>,
}

impl<'a> Status<'a> {
    /// The status, if there is one and it is about this version of the object.
    fn of(parts: Parts<'a>) -> Result<Self, Wellness> {
        let Some(status) = read::<Status<'a>>(parts.status) else {
            return Err(Wellness::no_status());
        };
        if status.observed_generation.is_none() || is_behind(status.observed_generation, parts.generation) {
            return Err(Wellness::unseen());
        }
        Ok(status)
    }
}

/// Facts about a Deployment.
pub(in crate::watch) fn of_deployment(spec: &DeploymentView<'_>, parts: Parts<'_>) -> Facts {
    let wanted = spec.replicas.unwrap_or(1);
    let wellness = match Status::of(parts) {
        Ok(status) => deployment_wellness(&status, wanted, spec.paused),
        Err(wellness) => wellness,
    };
    of_template(Facts { replicas: Some(wanted), ..wellness.into_facts() }, spec.template.as_ref())
}

fn deployment_wellness(status: &Status<'_>, wanted: i32, paused: bool) -> Wellness {
    let (available, updated) = (status.available_replicas.unwrap_or(0), status.updated_replicas.unwrap_or(0));
    let old = status.replicas.unwrap_or(0) - updated;
    let works = availability(available, wanted, "replicas are available");
    let conditions = &status.conditions;
    // It has run out of time, or may not make pods at all.
    let failed =
        conditions.when("Progressing", "False").or_else(|| conditions.when("ReplicaFailure", "True"));
    if let Some(failed) = failed {
        return Wellness::new(works.health.max(Health::Degraded), failed.words());
    }
    if paused {
        let message = if works.message.is_empty() { "it is paused".to_owned() } else { works.message };
        return Wellness { phase: Some(Phase::Suspended), message, health: works.health };
    }
    if works.health != Health::Healthy {
        return works;
    }
    if updated < wanted {
        return Wellness::progressing(works.health, format!("{updated} of {wanted} replicas are updated"));
    }
    if old > 0 {
        return Wellness::progressing(
            works.health,
            format!("{old} replicas of an older version are still there"),
        );
    }
    works
}

/// Facts about a `StatefulSet`.
pub(super) fn of_stateful_set(parts: Parts<'_>) -> Facts {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec<'a> {
        replicas: Option<i32>,
        #[serde(borrow)]
        update_strategy: Option<Strategy<'a>>,
        #[serde(borrow)]
        template: Option<TemplateView<'a>>,
        #[serde(borrow)]
        volume_claim_templates: Option<Vec<ClaimTemplate<'a>>>,
    }
    #[derive(Deserialize)]
    struct ClaimTemplate<'a> {
        #[serde(borrow)]
        spec: super::storage::ClaimSpec<'a>,
    }
    let spec = read::<Spec<'_>>(parts.spec).unwrap_or_default();
    let wanted = spec.replicas.unwrap_or(1);
    let wellness = match Status::of(parts) {
        Ok(status) => stateful_wellness(&status, wanted, spec.update_strategy.as_ref()),
        Err(wellness) => wellness,
    };
    let claims = spec.volume_claim_templates.unwrap_or_default();
    let storage_request = sum_units(claims.iter().filter_map(|claim| claim.spec.storage()));
    let facts = Facts { replicas: Some(wanted), storage_request, ..wellness.into_facts() };
    of_template(facts, spec.template.as_ref())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Strategy<'a> {
    #[serde(borrow, default)]
    r#type: Text<'a>,
    rolling_update: Option<Rolling>,
}

#[derive(Deserialize)]
struct Rolling {
    partition: Option<i32>,
}

impl Strategy<'_> {
    /// Whether pods are replaced only when somebody deletes them.
    fn is_on_delete(&self) -> bool {
        self.r#type.0 == "OnDelete"
    }
}

fn stateful_wellness(status: &Status<'_>, wanted: i32, strategy: Option<&Strategy<'_>>) -> Wellness {
    let works = availability(status.ready_replicas.unwrap_or(0), wanted, "replicas are ready");
    if works.health != Health::Healthy || strategy.is_some_and(Strategy::is_on_delete) {
        return works;
    }
    let updated = status.updated_replicas.unwrap_or(0);
    if let Some(rolling) = strategy.and_then(|strategy| strategy.rolling_update.as_ref()) {
        // Replicas below the partition keep the old version, and are meant to.
        let wanted = wanted - rolling.partition.unwrap_or(0);
        if updated < wanted {
            return Wellness::progressing(
                works.health,
                format!("{updated} of {wanted} replicas are updated"),
            );
        }
    } else if status.update_revision != status.current_revision {
        return Wellness::progressing(works.health, format!("{updated} of {wanted} replicas are updated"));
    }
    works
}

/// Facts about a `DaemonSet`, whose replicas are as many as there are nodes for it.
pub(super) fn of_daemon_set(parts: Parts<'_>) -> Facts {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec<'a> {
        #[serde(borrow)]
        update_strategy: Option<Strategy<'a>>,
        #[serde(borrow)]
        template: Option<TemplateView<'a>>,
    }
    let spec = read::<Spec<'_>>(parts.spec).unwrap_or_default();
    let status = Status::of(parts);
    let replicas = status.as_ref().ok().map(|status| status.desired_number_scheduled.unwrap_or(0));
    let wellness = match status {
        Ok(status) => daemon_wellness(&status, spec.update_strategy.as_ref()),
        Err(wellness) => wellness,
    };
    of_template(Facts { replicas, ..wellness.into_facts() }, spec.template.as_ref())
}

fn daemon_wellness(status: &Status<'_>, strategy: Option<&Strategy<'_>>) -> Wellness {
    let wanted = status.desired_number_scheduled.unwrap_or(0);
    let updated = status.updated_number_scheduled.unwrap_or(0);
    let works = availability(status.number_available.unwrap_or(0), wanted, "nodes have one available");
    if works.health != Health::Healthy || strategy.is_some_and(Strategy::is_on_delete) || updated >= wanted {
        return works;
    }
    Wellness::progressing(works.health, format!("{updated} of {wanted} nodes have the new version"))
}

/// Facts about a `ReplicaSet`, or what came before them.
pub(super) fn of_replica_set(parts: Parts<'_>) -> Facts {
    #[derive(Default, Deserialize)]
    struct Spec<'a> {
        replicas: Option<i32>,
        #[serde(borrow)]
        template: Option<TemplateView<'a>>,
    }
    let spec = read::<Spec<'_>>(parts.spec).unwrap_or_default();
    let wanted = spec.replicas.unwrap_or(1);
    let wellness = match Status::of(parts) {
        Ok(status) => {
            let available = status.available_replicas.unwrap_or(0);
            let works = availability(available, wanted, "replicas are available");
            match status.conditions.when("ReplicaFailure", "True") {
                Some(failed) => Wellness::new(works.health.max(Health::Degraded), failed.words()),
                None => works,
            }
        }
        Err(wellness) => wellness,
    };
    of_template(Facts { replicas: Some(wanted), ..wellness.into_facts() }, spec.template.as_ref())
}

/// How well something works of which some parts do. What is not there yet is on its way, as far as anybody knows.
fn availability(available: i32, wanted: i32, are: &str) -> Wellness {
    if available >= wanted {
        return Wellness::healthy();
    }
    let health = if available == 0 { Health::Unhealthy } else { Health::Degraded };
    Wellness::progressing(health, format!("{available} of {wanted} {are}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::check_of;
    use crate::types::{Health, Phase};

    fn condition(name: &str, status: &str) -> Value {
        json!({"type": name, "status": status, "message": "why"})
    }

    #[test]
    fn a_deployment_is_as_well_as_its_replicas_are_available() {
        let check = check_of("apps", "Deployment");
        let spec = json!({"replicas": 3});
        let all =
            json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3});
        check(&spec, &all, Health::Healthy, None, "");
        let progressing = Some(Phase::Progressing);
        check(
            &spec,
            &json!({"observedGeneration": 1}),
            Health::Unknown,
            progressing,
            "its controller has not seen this version yet",
        );
        let of = |own: Value| {
            let mut status = all.clone();
            status.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
            status
        };
        check(
            &spec,
            &of(json!({"availableReplicas": 1})),
            Health::Degraded,
            progressing,
            "1 of 3 replicas are available",
        );
        check(
            &spec,
            &of(json!({"availableReplicas": null})),
            Health::Unhealthy,
            progressing,
            "0 of 3 replicas are available",
        );
        check(
            &spec,
            &of(json!({"updatedReplicas": 2})),
            Health::Healthy,
            progressing,
            "2 of 3 replicas are updated",
        );
        check(
            &spec,
            &of(json!({"replicas": 4})),
            Health::Healthy,
            progressing,
            "1 replicas of an older version are still there",
        );
        let late = of(json!({"availableReplicas": 2, "conditions": [condition("Progressing", "False")]}));
        check(&spec, &late, Health::Degraded, None, "why");
        let quota = of(json!({"conditions": [condition("ReplicaFailure", "True")]}));
        check(&spec, &quota, Health::Degraded, None, "why");
        let paused = json!({"replicas": 3, "paused": true});
        check(&paused, &all, Health::Healthy, Some(Phase::Suspended), "it is paused");
        check(&json!({"replicas": 0}), &json!({"observedGeneration": 2}), Health::Healthy, None, "");
    }

    #[test]
    fn a_stateful_set_may_keep_an_older_version_on_purpose() {
        let check = check_of("apps", "StatefulSet");
        let ready = |updated: i32| {
            json!({"observedGeneration": 2, "readyReplicas": 3, "updatedReplicas": updated,
                "currentRevision": "a", "updateRevision": "b"})
        };
        let spec = |strategy: Value| json!({"replicas": 3, "updateStrategy": strategy});
        let rolling = |partition: i32| {
            spec(json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}))
        };
        let progressing = Some(Phase::Progressing);
        check(&rolling(0), &ready(3), Health::Healthy, None, "");
        check(&rolling(0), &ready(1), Health::Healthy, progressing, "1 of 3 replicas are updated");
        check(&rolling(2), &ready(1), Health::Healthy, None, "");
        check(&rolling(1), &ready(1), Health::Healthy, progressing, "1 of 2 replicas are updated");
        check(&spec(json!({"type": "OnDelete"})), &ready(0), Health::Healthy, None, "");
        check(
            &spec(json!({"type": "RollingUpdate"})),
            &ready(1),
            Health::Healthy,
            progressing,
            "1 of 3 replicas are updated",
        );
        let unready = json!({"observedGeneration": 2, "readyReplicas": 2});
        check(
            &spec(json!({"type": "OnDelete"})),
            &unready,
            Health::Degraded,
            progressing,
            "2 of 3 replicas are ready",
        );
    }

    #[test]
    fn a_daemon_set_wants_one_on_every_node() {
        let check = check_of("apps", "DaemonSet");
        let status = |updated: i32, available: i32| json!({"observedGeneration": 2, "desiredNumberScheduled": 3, "updatedNumberScheduled": updated, "numberAvailable": available});
        let (rolling, on_delete) = (json!({}), json!({"updateStrategy": {"type": "OnDelete"}}));
        let progressing = Some(Phase::Progressing);
        check(&rolling, &status(3, 3), Health::Healthy, None, "");
        check(&rolling, &status(1, 3), Health::Healthy, progressing, "1 of 3 nodes have the new version");
        check(&on_delete, &status(1, 3), Health::Healthy, None, "");
        check(&rolling, &status(3, 2), Health::Degraded, progressing, "2 of 3 nodes have one available");
        check(&rolling, &json!(null), Health::Unknown, None, "no status");
    }

    #[test]
    fn a_replica_set_tells_why_it_makes_no_pods() {
        let check = check_of("apps", "ReplicaSet");
        let spec = json!({"replicas": 2});
        let failed = json!({"observedGeneration": 2, "conditions": [condition("ReplicaFailure", "True")]});
        check(&spec, &failed, Health::Unhealthy, None, "why");
        check(&spec, &json!({"observedGeneration": 2, "availableReplicas": 2}), Health::Healthy, None, "");
    }
}
