//! Facts of workloads: Deployments, `StatefulSets`, `DaemonSets`, `ReplicaSets`, Jobs, `CronJobs` and Pods.

use std::borrow::Cow;

use serde::{Deserialize, de::IgnoredAny};

use super::{Conditions, FactParts, HealthStatus, infrastructure::VolumeClaimSpec, is_stale, parse};
use crate::{
    diff::{DeploymentView, PodView, Quantity, TemplateView, Text},
    types::{Health, LabelSet, ObjectFacts, Phase},
};

/// The status of the `apps` workloads. The API server omits numbers that are zero.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WorkloadStatus<'a> {
    observed_generation: Option<i64>,
    replicas: Option<i32>,
    updated_replicas: Option<i32>,
    ready_replicas: Option<i32>,
    available_replicas: Option<i32>,
    #[serde(borrow)]
    current_revision: Text<'a>,
    update_revision: Text<'a>,
    desired_number_scheduled: Option<i32>,
    updated_number_scheduled: Option<i32>,
    number_available: Option<i32>,
    conditions: Conditions<'a>,
}

impl<'a> WorkloadStatus<'a> {
    /// The health by a status, if the controller has observed this generation.
    fn health(parts: FactParts<'a>, health: impl FnOnce(&Self) -> HealthStatus) -> HealthStatus {
        match parse::<Self>(parts.status) {
            None => HealthStatus::no_status(),
            Some(Self { observed_generation: observed, .. })
                if observed.is_none() || is_stale(observed, parts.generation) =>
            {
                HealthStatus::not_observed()
            }
            Some(status) => health(&status),
        }
    }
}

/// The spec of the `apps` workloads other than Deployments.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WorkloadSpec<'a> {
    replicas: Option<i32>,
    #[serde(borrow)]
    update_strategy: Option<UpdateStrategy<'a>>,
    template: Option<TemplateView<'a>>,
    volume_claim_templates: Option<Vec<ClaimTemplate<'a>>>,
}

#[derive(Deserialize)]
struct ClaimTemplate<'a> {
    #[serde(borrow)]
    spec: VolumeClaimSpec<'a>,
}

pub(super) fn deployment_facts(spec: &DeploymentView<'_>, parts: FactParts<'_>) -> ObjectFacts {
    let desired = spec.replicas.unwrap_or(1);
    let health = WorkloadStatus::health(parts, |status| deployment_health(status, desired, spec.paused));
    with_template(ObjectFacts { replicas: Some(desired), ..health.into_facts() }, spec.template.as_ref())
}

fn deployment_health(status: &WorkloadStatus<'_>, desired: i32, paused: bool) -> HealthStatus {
    let (available, updated) = (status.available_replicas.unwrap_or(0), status.updated_replicas.unwrap_or(0));
    let old = status.replicas.unwrap_or(0) - updated;
    let availability = availability(available, desired, "replicas are available");
    let conditions = &status.conditions;
    // The progress deadline has passed, or pods cannot be created.
    let failed = conditions
        .with_status("Progressing", "False")
        .or_else(|| conditions.with_status("ReplicaFailure", "True"));
    if let Some(failed) = failed {
        return failed.as_health(availability.health.max(Health::Degraded));
    }
    if paused {
        let message =
            if availability.message.is_empty() { "it is paused".to_owned() } else { availability.message };
        return HealthStatus { phase: Some(Phase::Suspended), message, health: availability.health };
    }
    if availability.health != Health::Healthy {
        return availability;
    }
    if updated < desired {
        return HealthStatus::progressing(
            availability.health,
            format!("{updated} of {desired} replicas are updated"),
        );
    }
    if old > 0 {
        return HealthStatus::progressing(
            availability.health,
            format!("{old} replicas of an older version are still there"),
        );
    }
    availability
}

pub(super) fn stateful_set_facts(parts: FactParts<'_>) -> ObjectFacts {
    let spec = parse::<WorkloadSpec<'_>>(parts.spec).unwrap_or_default();
    let desired = spec.replicas.unwrap_or(1);
    let health = WorkloadStatus::health(parts, |status| {
        stateful_set_health(status, desired, spec.update_strategy.as_ref())
    });
    let claims = spec.volume_claim_templates.unwrap_or_default();
    let storage_request = sum_units(claims.iter().filter_map(|claim| claim.spec.storage_request()));
    let facts = ObjectFacts { replicas: Some(desired), storage_request, ..health.into_facts() };
    with_template(facts, spec.template.as_ref())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpdateStrategy<'a> {
    #[serde(borrow, default)]
    r#type: Text<'a>,
    rolling_update: Option<RollingUpdate>,
}

#[derive(Deserialize)]
struct RollingUpdate {
    partition: Option<i32>,
}

impl UpdateStrategy<'_> {
    fn is_on_delete(&self) -> bool {
        self.r#type.0 == "OnDelete"
    }
}

fn stateful_set_health(
    status: &WorkloadStatus<'_>,
    desired: i32,
    strategy: Option<&UpdateStrategy<'_>>,
) -> HealthStatus {
    let availability = availability(status.ready_replicas.unwrap_or(0), desired, "replicas are ready");
    if availability.health != Health::Healthy || strategy.is_some_and(UpdateStrategy::is_on_delete) {
        return availability;
    }
    let updated = status.updated_replicas.unwrap_or(0);
    let (desired, is_updated) = match strategy.and_then(|strategy| strategy.rolling_update.as_ref()) {
        Some(rolling) => {
            // Replicas below the partition keep the old revision on purpose.
            let desired = desired - rolling.partition.unwrap_or(0);
            (desired, updated >= desired)
        }
        None => (desired, status.update_revision == status.current_revision),
    };
    if is_updated {
        return availability;
    }
    HealthStatus::progressing(availability.health, format!("{updated} of {desired} replicas are updated"))
}

/// The replicas of a `DaemonSet` are the nodes that it runs on.
pub(super) fn daemon_set_facts(parts: FactParts<'_>) -> ObjectFacts {
    let spec = parse::<WorkloadSpec<'_>>(parts.spec).unwrap_or_default();
    let mut replicas = None;
    let health = WorkloadStatus::health(parts, |status| {
        replicas = Some(status.desired_number_scheduled.unwrap_or(0));
        daemon_set_health(status, spec.update_strategy.as_ref())
    });
    with_template(ObjectFacts { replicas, ..health.into_facts() }, spec.template.as_ref())
}

fn daemon_set_health(status: &WorkloadStatus<'_>, strategy: Option<&UpdateStrategy<'_>>) -> HealthStatus {
    let desired = status.desired_number_scheduled.unwrap_or(0);
    let updated = status.updated_number_scheduled.unwrap_or(0);
    let availability =
        availability(status.number_available.unwrap_or(0), desired, "nodes have one available");
    if availability.health != Health::Healthy
        || strategy.is_some_and(UpdateStrategy::is_on_delete)
        || updated >= desired
    {
        return availability;
    }
    HealthStatus::progressing(
        availability.health,
        format!("{updated} of {desired} nodes have the new version"),
    )
}

pub(super) fn replica_set_facts(parts: FactParts<'_>) -> ObjectFacts {
    let spec = parse::<WorkloadSpec<'_>>(parts.spec).unwrap_or_default();
    let desired = spec.replicas.unwrap_or(1);
    let health = WorkloadStatus::health(parts, |status| {
        let available = status.available_replicas.unwrap_or(0);
        let availability = availability(available, desired, "replicas are available");
        match status.conditions.with_status("ReplicaFailure", "True") {
            Some(failed) => failed.as_health(availability.health.max(Health::Degraded)),
            None => availability,
        }
    });
    with_template(ObjectFacts { replicas: Some(desired), ..health.into_facts() }, spec.template.as_ref())
}

/// Missing replicas count as progressing: the status does not say whether they will come.
fn availability(available: i32, desired: i32, are: &str) -> HealthStatus {
    if available >= desired {
        return HealthStatus::healthy();
    }
    let health = if available == 0 { Health::Unhealthy } else { Health::Degraded };
    HealthStatus::progressing(health, format!("{available} of {desired} {are}"))
}

#[derive(Default, Deserialize)]
struct JobSpec<'a> {
    parallelism: Option<i32>,
    #[serde(default)]
    suspend: Option<bool>,
    #[serde(borrow)]
    template: Option<TemplateView<'a>>,
}

/// A Job that has ended or is suspended has no replicas.
pub(super) fn job_facts(parts: FactParts<'_>) -> ObjectFacts {
    #[derive(Default, Deserialize)]
    struct Status<'a> {
        #[serde(borrow, default)]
        conditions: Conditions<'a>,
    }
    let spec = parse::<JobSpec<'_>>(parts.spec).unwrap_or_default();
    let conditions = parse::<Status<'_>>(parts.status).unwrap_or_default().conditions;
    let health = if let Some(failed) = conditions.with_status("Failed", "True") {
        failed.as_health(Health::Unhealthy)
    } else if conditions.with_status("Complete", "True").is_some() {
        HealthStatus::completed()
    } else if conditions.with_status("Suspended", "True").is_some() || spec.suspend == Some(true) {
        HealthStatus::suspended("it is suspended")
    } else {
        HealthStatus::progressing(Health::Healthy, "")
    };
    let runs = health.phase == Some(Phase::Progressing);
    let replicas = if runs { spec.parallelism.unwrap_or(1) } else { 0 };
    with_template(ObjectFacts { replicas: Some(replicas), ..health.into_facts() }, spec.template.as_ref())
}

/// The replicas of a `CronJob` are its active Jobs.
pub(super) fn cron_job_facts(parts: FactParts<'_>) -> ObjectFacts {
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
    #[serde(default, rename_all = "camelCase")]
    struct Status<'a> {
        active: Option<Vec<IgnoredAny>>,
        #[serde(borrow)]
        last_schedule_time: Text<'a>,
        last_successful_time: Text<'a>,
    }
    let spec = parse::<Spec<'_>>(parts.spec).unwrap_or_default();
    let status = parse::<Status<'_>>(parts.status).unwrap_or_default();
    let running = status.active.map_or(0, |active| active.len());
    // RFC 3339 times in UTC sort like their texts.
    let has_failed = status.last_schedule_time > status.last_successful_time;
    let health = if spec.suspend == Some(true) {
        HealthStatus::suspended("it is suspended")
    } else if running > 0 {
        HealthStatus::progressing(Health::Healthy, format!("{running} of its Jobs run"))
    } else if has_failed {
        HealthStatus::new(Health::Degraded, "its last run has not succeeded")
    } else {
        HealthStatus::healthy()
    };
    let replicas = i32::try_from(running).ok();
    let job = spec.job_template.and_then(|template| template.spec).unwrap_or_default();
    with_template(ObjectFacts { replicas, ..health.into_facts() }, job.template.as_ref())
}

/// Adds the facts of the pod template of a workload.
fn with_template(facts: ObjectFacts, template: Option<&TemplateView<'_>>) -> ObjectFacts {
    let Some(template) = template else { return facts };
    let facts = ObjectFacts { labels: LabelSet::new(template.labels()), ..facts };
    match &template.spec {
        Some(pod) => with_pod(facts, pod),
        None => facts,
    }
}

fn with_pod(facts: ObjectFacts, pod: &PodView<'_>) -> ObjectFacts {
    ObjectFacts {
        cpu_request: sum(pod.requests("cpu"), Quantity::millis),
        memory_request: sum_units(pod.requests("memory")),
        port: pod.first_port().and_then(|port| u16::try_from(port).ok()),
        connection_secret: pod.first_secret().map(Into::into),
        ..facts
    }
}

/// The sum of the quantities; `None` if none is valid.
pub(super) fn sum_units<'a>(amounts: impl Iterator<Item = Cow<'a, str>>) -> Option<u64> {
    sum(amounts, Quantity::units)
}

fn sum<'a>(amounts: impl Iterator<Item = Cow<'a, str>>, unit: fn(&Quantity) -> u64) -> Option<u64> {
    let amounts = amounts.filter_map(|amount| Quantity::parse(&amount).ok());
    amounts.map(|amount| unit(&amount)).reduce(u64::saturating_add)
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodStatus<'a> {
    #[serde(borrow)]
    phase: Text<'a>,
    message: Text<'a>,
    conditions: Conditions<'a>,
    container_statuses: Option<Vec<ContainerStatus<'a>>>,
    init_container_statuses: Option<Vec<ContainerStatus<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStatus<'a> {
    #[serde(borrow, default)]
    name: Text<'a>,
    state: Option<ContainerState<'a>>,
    last_state: Option<ContainerState<'a>>,
}

#[derive(Deserialize)]
struct ContainerState<'a> {
    #[serde(borrow)]
    waiting: Option<Waiting<'a>>,
    terminated: Option<Terminated<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Waiting<'a> {
    #[serde(borrow)]
    reason: Text<'a>,
    message: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Terminated<'a> {
    #[serde(borrow)]
    reason: Text<'a>,
    message: Text<'a>,
    exit_code: Option<i32>,
}

pub(super) fn pod_facts(parts: FactParts<'_>) -> ObjectFacts {
    let pod = parse::<PodView<'_>>(parts.spec);
    // The default is Always.
    let restarts_always =
        pod.as_ref().is_none_or(|pod| !matches!(&*pod.restart_policy.0, "OnFailure" | "Never"));
    let status = parse::<PodStatus<'_>>(parts.status);
    // A pod that has ended requests nothing any more.
    let has_ended = status.as_ref().is_some_and(|status| matches!(&*status.phase.0, "Succeeded" | "Failed"));
    let health = status.map_or_else(HealthStatus::no_status, |status| pod_health(&status, restarts_always));
    match pod.filter(|_| !has_ended) {
        Some(pod) => with_pod(health.into_facts(), &pod),
        None => health.into_facts(),
    }
}

fn pod_health(status: &PodStatus<'_>, restarts_always: bool) -> HealthStatus {
    let containers = status.container_statuses.as_deref().unwrap_or_default();
    let init_containers = status.init_container_statuses.as_deref().unwrap_or_default();
    let stuck = containers.iter().chain(init_containers).find_map(stuck_reason);
    if let Some(message) = stuck.filter(|_| restarts_always) {
        return HealthStatus::new(Health::Unhealthy, message);
    }
    let message = status.message.0.to_string();
    match &*status.phase.0 {
        "Succeeded" => HealthStatus::completed(),
        "Failed" => {
            let failure =
                || init_containers.iter().chain(containers).find_map(failure_reason).unwrap_or_default();
            HealthStatus::new(Health::Unhealthy, if message.is_empty() { failure() } else { message })
        }
        "Pending" => HealthStatus::progressing(Health::Degraded, if_empty(message, "it has not started yet")),
        "Running" if !restarts_always => HealthStatus::progressing(Health::Healthy, message),
        "Running" if status.conditions.with_status("Ready", "True").is_some() => HealthStatus::healthy(),
        "Running"
            if containers.iter().any(|container| terminated(container.last_state.as_ref()).is_some()) =>
        {
            let failure = containers.iter().find_map(failure_reason);
            HealthStatus::new(
                Health::Unhealthy,
                failure.unwrap_or_else(|| if_empty(message, "a container ended and was started again")),
            )
        }
        "Running" => HealthStatus::progressing(Health::Degraded, if_empty(message, "it is not ready yet")),
        _ => HealthStatus::new(Health::Unknown, message),
    }
}

fn if_empty(message: String, default: &str) -> String {
    if message.is_empty() { default.to_owned() } else { message }
}

/// Why a container waits, unless it only needs time.
fn stuck_reason(container: &ContainerStatus<'_>) -> Option<String> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = &*waiting.reason.0;
    let is_error = reason.starts_with("Err") || reason.ends_with("Error") || reason.ends_with("BackOff");
    is_error
        .then(|| if waiting.message.0.is_empty() { reason.to_owned() } else { waiting.message.0.to_string() })
}

fn terminated<'s, 'a>(state: Option<&'s ContainerState<'a>>) -> Option<&'s Terminated<'a>> {
    state?.terminated.as_ref()
}

fn failure_reason(container: &ContainerStatus<'_>) -> Option<String> {
    let terminated =
        terminated(container.state.as_ref()).or_else(|| terminated(container.last_state.as_ref()))?;
    let (reason, message) = (&terminated.reason.0, &terminated.message.0);
    match terminated.exit_code.unwrap_or(0) {
        _ if !message.is_empty() => Some(message.to_string()),
        _ if *reason == "OOMKilled" => Some(reason.to_string()),
        0 => None,
        code => Some(format!("container {} failed with exit code {code}", container.name.0)),
    }
}
