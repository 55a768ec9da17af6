//! Workloads: those that keep pods running, Pods, and what runs until it is done.

use std::borrow::Cow;

use serde::{Deserialize, de::IgnoredAny};

use super::{Conditions, Parts, Wellness, is_behind, read};
use crate::{
    diff::{DeploymentView, PodView, Quantity, TemplateView, Text},
    types::{Facts, Health, LabelSet, Phase},
};

/// How far pods are. What the API server leaves out is zero.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WorkloadStatus<'a> {
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

impl<'a> WorkloadStatus<'a> {
    /// The status, if there is one and it is about this version of the object.
    fn of(parts: Parts<'a>) -> Result<Self, Wellness> {
        let Some(status) = read::<WorkloadStatus<'a>>(parts.status) else {
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
    let wellness = match WorkloadStatus::of(parts) {
        Ok(status) => deployment_wellness(&status, wanted, spec.paused),
        Err(wellness) => wellness,
    };
    of_template(Facts { replicas: Some(wanted), ..wellness.into_facts() }, spec.template.as_ref())
}

fn deployment_wellness(status: &WorkloadStatus<'_>, wanted: i32, paused: bool) -> Wellness {
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
        spec: super::infrastructure::ClaimSpec<'a>,
    }
    let spec = read::<Spec<'_>>(parts.spec).unwrap_or_default();
    let wanted = spec.replicas.unwrap_or(1);
    let wellness = match WorkloadStatus::of(parts) {
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

fn stateful_wellness(status: &WorkloadStatus<'_>, wanted: i32, strategy: Option<&Strategy<'_>>) -> Wellness {
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
    let status = WorkloadStatus::of(parts);
    let replicas = status.as_ref().ok().map(|status| status.desired_number_scheduled.unwrap_or(0));
    let wellness = match status {
        Ok(status) => daemon_wellness(&status, spec.update_strategy.as_ref()),
        Err(wellness) => wellness,
    };
    of_template(Facts { replicas, ..wellness.into_facts() }, spec.template.as_ref())
}

fn daemon_wellness(status: &WorkloadStatus<'_>, strategy: Option<&Strategy<'_>>) -> Wellness {
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
    let wellness = match WorkloadStatus::of(parts) {
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

#[derive(Default, Deserialize)]
struct JobSpec<'a> {
    parallelism: Option<i32>,
    #[serde(default)]
    suspend: Option<bool>,
    #[serde(borrow)]
    template: Option<TemplateView<'a>>,
}

/// Facts about a Job. What has ended, or waits, runs nothing.
pub(super) fn of_job(parts: Parts<'_>) -> Facts {
    #[derive(Default, Deserialize)]
    struct Status<'a> {
        #[serde(borrow, default)]
        conditions: Conditions<'a>,
    }
    let spec = read::<JobSpec<'_>>(parts.spec).unwrap_or_default();
    let conditions = read::<Status<'_>>(parts.status).unwrap_or_default().conditions;
    let wellness = if let Some(failed) = conditions.when("Failed", "True") {
        Wellness::new(Health::Unhealthy, failed.words())
    } else if conditions.when("Complete", "True").is_some() {
        Wellness::completed()
    } else if conditions.when("Suspended", "True").is_some() || spec.suspend == Some(true) {
        Wellness::suspended("it is suspended")
    } else {
        Wellness::progressing(Health::Healthy, "")
    };
    let runs = wellness.phase == Some(Phase::Progressing);
    let replicas = if runs { spec.parallelism.unwrap_or(1) } else { 0 };
    of_template(Facts { replicas: Some(replicas), ..wellness.into_facts() }, spec.template.as_ref())
}

/// Facts about a `CronJob`, whose replicas are the Jobs that run now.
pub(super) fn of_cron_job(parts: Parts<'_>) -> Facts {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec<'a> {
        suspend: Option<bool>,
        #[serde(borrow)]
        job_template: Option<JobTemplate<'a>>,
    }
    #[derive(Deserialize)]
    struct JobTemplate<'a> {
        #[serde(borrow)]
        spec: Option<JobSpec<'a>>,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Status<'a> {
        active: Option<Vec<IgnoredAny>>,
        #[serde(borrow, default)]
        last_schedule_time: Text<'a>,
        #[serde(borrow, default)]
        last_successful_time: Text<'a>,
    }
    let spec = read::<Spec<'_>>(parts.spec).unwrap_or_default();
    let status = read::<Status<'_>>(parts.status).unwrap_or_default();
    let running = status.active.map_or(0, |active| active.len());
    // Times of this form are in order as their texts are.
    let failed = status.last_schedule_time > status.last_successful_time;
    let wellness = if spec.suspend == Some(true) {
        Wellness::suspended("it is suspended")
    } else if running > 0 {
        Wellness::progressing(Health::Healthy, format!("{running} of its Jobs run"))
    } else if failed {
        Wellness::new(Health::Degraded, "its last run has not succeeded")
    } else {
        Wellness::healthy()
    };
    let replicas = i32::try_from(running).ok();
    let job = spec.job_template.and_then(|template| template.spec).unwrap_or_default();
    of_template(Facts { replicas, ..wellness.into_facts() }, job.template.as_ref())
}

/// The same facts, with what the template of a workload tells.
pub(super) fn of_template(facts: Facts, template: Option<&TemplateView<'_>>) -> Facts {
    let Some(template) = template else { return facts };
    let facts = Facts { labels: LabelSet::new(template.labels()), ..facts };
    match &template.spec {
        Some(pod) => with_pod(facts, pod),
        None => facts,
    }
}

fn with_pod(facts: Facts, pod: &PodView<'_>) -> Facts {
    Facts {
        cpu_request: sum(pod.requests("cpu"), Quantity::millis),
        memory_request: sum_units(pod.requests("memory")),
        port: pod.first_port().and_then(|port| u16::try_from(port).ok()),
        connection_secret: pod.first_secret().map(Into::into),
        ..facts
    }
}

/// The sum of quantities; none where none can be read.
pub(super) fn sum_units<'a>(amounts: impl Iterator<Item = Cow<'a, str>>) -> Option<u64> {
    sum(amounts, Quantity::units)
}

fn sum<'a>(amounts: impl Iterator<Item = Cow<'a, str>>, unit: fn(&Quantity) -> u64) -> Option<u64> {
    let amounts = amounts.filter_map(|amount| Quantity::parse(&amount).ok());
    amounts.map(|amount| unit(&amount)).reduce(u64::saturating_add)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodStatus<'a> {
    #[serde(borrow, default)]
    phase: Text<'a>,
    #[serde(borrow, default)]
    message: Text<'a>,
    #[serde(borrow, default)]
    conditions: Conditions<'a>,
    #[serde(borrow)]
    container_statuses: Option<Vec<ContainerStatus<'a>>>,
    #[serde(borrow)]
    init_container_statuses: Option<Vec<ContainerStatus<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStatus<'a> {
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow)]
    state: Option<State<'a>>,
    #[serde(borrow)]
    last_state: Option<State<'a>>,
}

#[derive(Deserialize)]
struct State<'a> {
    #[serde(borrow)]
    waiting: Option<Waiting<'a>>,
    #[serde(borrow)]
    terminated: Option<Terminated<'a>>,
}

#[derive(Deserialize)]
struct Waiting<'a> {
    #[serde(borrow, default)]
    reason: Text<'a>,
    #[serde(borrow, default)]
    message: Text<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Terminated<'a> {
    #[serde(borrow, default)]
    reason: Text<'a>,
    #[serde(borrow, default)]
    message: Text<'a>,
    exit_code: Option<i32>,
}

/// Facts about a Pod.
pub(super) fn of_pod(parts: Parts<'_>) -> Facts {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec<'a> {
        #[serde(borrow, default)]
        restart_policy: Text<'a>,
    }
    // Without a word about it, pods are restarted always.
    let forever = read::<Spec<'_>>(parts.spec)
        .is_none_or(|spec| !matches!(&*spec.restart_policy.0, "OnFailure" | "Never"));
    let status = read::<PodStatus<'_>>(parts.status);
    // What has ended, well or not, holds nothing any more.
    let ended = status.as_ref().is_some_and(|own| matches!(&*own.phase.0, "Succeeded" | "Failed"));
    let wellness = status.map_or_else(Wellness::no_status, |status| pod_wellness(&status, forever));
    match read::<PodView<'_>>(parts.spec).filter(|_| !ended) {
        Some(pod) => with_pod(wellness.into_facts(), &pod),
        None => wellness.into_facts(),
    }
}

fn pod_wellness(status: &PodStatus<'_>, forever: bool) -> Wellness {
    let containers = status.container_statuses.as_deref().unwrap_or_default();
    let beginning = status.init_container_statuses.as_deref().unwrap_or_default();
    let stuck = containers.iter().chain(beginning).find_map(|own| stuck(own).filter(|_| forever));
    if let Some(message) = stuck {
        return Wellness::new(Health::Unhealthy, message);
    }
    let message = status.message.0.to_string();
    match &*status.phase.0 {
        "Succeeded" => Wellness::completed(),
        "Failed" => {
            let why = || beginning.iter().chain(containers).find_map(failure).unwrap_or_default();
            Wellness::new(Health::Unhealthy, if message.is_empty() { why() } else { message })
        }
        "Pending" => Wellness::progressing(Health::Degraded, or(message, "it has not started yet")),
        "Running" if !forever => Wellness::progressing(Health::Healthy, message),
        "Running" if status.conditions.when("Ready", "True").is_some() => Wellness::healthy(),
        "Running" if containers.iter().any(|own| terminated(own.last_state.as_ref()).is_some()) => {
            let why = containers.iter().find_map(failure);
            Wellness::new(
                Health::Unhealthy,
                why.unwrap_or_else(|| or(message, "a container ended and was started again")),
            )
        }
        "Running" => Wellness::progressing(Health::Degraded, or(message, "it is not ready yet")),
        _ => Wellness::new(Health::Unknown, message),
    }
}

fn or(message: String, usual: &str) -> String {
    if message.is_empty() { usual.to_owned() } else { message }
}

/// Why a container does not start, where that is not only a matter of time.
fn stuck(container: &ContainerStatus<'_>) -> Option<String> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = &*waiting.reason.0;
    let hopeless = reason.starts_with("Err") || reason.ends_with("Error") || reason.ends_with("BackOff");
    hopeless
        .then(|| if waiting.message.0.is_empty() { reason.to_owned() } else { waiting.message.0.to_string() })
}

fn terminated<'s, 'a>(state: Option<&'s State<'a>>) -> Option<&'s Terminated<'a>> {
    state?.terminated.as_ref()
}

/// How a container failed, if it did.
fn failure(container: &ContainerStatus<'_>) -> Option<String> {
    let ended = terminated(container.state.as_ref()).or_else(|| terminated(container.last_state.as_ref()))?;
    let (reason, message) = (&ended.reason.0, &ended.message.0);
    match ended.exit_code.unwrap_or(0) {
        _ if !message.is_empty() => Some(message.to_string()),
        _ if *reason == "OOMKilled" => Some(reason.to_string()),
        0 => None,
        code => Some(format!("container {} failed with exit code {code}", container.name.0)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::{
        types::{Health, Phase},
        watch::facts::{check_of, facts_of},
    };

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

    #[test]
    fn a_job_runs_waits_fails_or_is_done() {
        let check = check_of("batch", "Job");
        let status = |name: &str, status: &str| json!({"conditions": [{"type": name, "status": status, "message": "why"}]});
        let spec = json!({"parallelism": 2});
        check(&spec, &json!({"active": 2}), Health::Healthy, Some(Phase::Progressing), "");
        check(&spec, &json!(null), Health::Healthy, Some(Phase::Progressing), "");
        check(&spec, &status("Failed", "True"), Health::Unhealthy, None, "why");
        check(&spec, &status("Failed", "False"), Health::Healthy, Some(Phase::Progressing), "");
        check(&spec, &status("Complete", "True"), Health::Healthy, Some(Phase::Completed), "");
        check(
            &spec,
            &status("Suspended", "True"),
            Health::Healthy,
            Some(Phase::Suspended),
            "it is suspended",
        );
        check(&spec, &status("Suspended", "False"), Health::Healthy, Some(Phase::Progressing), "");
    }

    #[test]
    fn a_cron_job_is_as_well_as_its_last_run() {
        let check = check_of("batch", "CronJob");
        let (on, off) = (json!({"schedule": "@daily"}), json!({"suspend": true}));
        let ran = |scheduled: &str, succeeded: Value| json!({"lastScheduleTime": scheduled, "lastSuccessfulTime": succeeded});
        check(&on, &json!({}), Health::Healthy, None, "");
        check(&on, &ran("2026-01-02T00:00:00Z", json!("2026-01-02T00:01:00Z")), Health::Healthy, None, "");
        let failed = "its last run has not succeeded";
        check(
            &on,
            &ran("2026-01-02T00:00:00Z", json!("2026-01-01T00:01:00Z")),
            Health::Degraded,
            None,
            failed,
        );
        check(&on, &ran("2026-01-02T00:00:00Z", json!(null)), Health::Degraded, None, failed);
        let runs = json!({"active": [{}, {}], "lastScheduleTime": "2026-01-02T00:00:00Z"});
        check(&on, &runs, Health::Healthy, Some(Phase::Progressing), "2 of its Jobs run");
        check(&off, &runs, Health::Healthy, Some(Phase::Suspended), "it is suspended");
    }

    #[test]
    fn a_pod_that_has_ended_asks_for_nothing() {
        let spec = json!({"containers": [{"name": "web", "resources": {"requests": {"cpu": "1"}}}]});
        for (phase, cpu) in [("Running", Some(1000)), ("Succeeded", None), ("Failed", None)] {
            let status = json!({"phase": phase, "reason": "Evicted"});
            assert_eq!(facts_of("", "Pod", &spec, &status).cpu_request, cpu, "{phase}");
        }
    }

    #[test]
    fn a_pod_is_as_well_as_its_containers() {
        let check = check_of("", "Pod");
        let (always, once) = (json!({"restartPolicy": "Always"}), json!({"restartPolicy": "Never"}));
        let progressing = Some(Phase::Progressing);
        let running = |containers: Value, ready: &str| json!({"phase": "Running", "containerStatuses": containers, "conditions": [{"type": "Ready", "status": ready}]});
        check(&always, &running(json!([]), "True"), Health::Healthy, None, "");
        check(&always, &running(json!([]), "False"), Health::Degraded, progressing, "it is not ready yet");
        let crashed = json!([{"name": "web", "lastState": {"terminated": {"exitCode": 3}}}]);
        check(
            &always,
            &running(crashed, "False"),
            Health::Unhealthy,
            None,
            "container web failed with exit code 3",
        );
        check(&once, &running(json!([]), "True"), Health::Healthy, progressing, "");
        let pulling = json!({"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]});
        check(&always, &pulling, Health::Unhealthy, None, "no such image");
        check(&once, &pulling, Health::Degraded, progressing, "it has not started yet");
        check(&once, &json!({"phase": "Succeeded"}), Health::Healthy, Some(Phase::Completed), "");
        let killed = json!({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}]});
        check(&once, &killed, Health::Unhealthy, None, "OOMKilled");
        check(&always, &json!({"phase": "Unknown", "message": "lost"}), Health::Unknown, None, "lost");
    }
}
