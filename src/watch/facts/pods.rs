//! Pods, and what the template of a workload tells about them.

use std::borrow::Cow;

use serde::Deserialize;

use super::{
    Parts,
    wellness::{Conditions, Wellness, read},
};
use crate::{
    diff::{PodView, Quantity, TemplateView, Text},
    types::{Facts, Health, LabelSet},
};

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
struct Status<'a> {
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
    let status = read::<Status<'_>>(parts.status);
    // What has ended, well or not, holds nothing any more.
    let ended = status.as_ref().is_some_and(|own| matches!(&*own.phase.0, "Succeeded" | "Failed"));
    let wellness = status.map_or_else(Wellness::no_status, |status| pod_wellness(&status, forever));
    match read::<PodView<'_>>(parts.spec).filter(|_| !ended) {
        Some(pod) => with_pod(wellness.into_facts(), &pod),
        None => wellness.into_facts(),
    }
}

fn pod_wellness(status: &Status<'_>, forever: bool) -> Wellness {
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

    use super::super::{check_of, facts_of};
    use crate::types::{Health, Phase};

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
