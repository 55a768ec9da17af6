//! The JSON shapes. Every field is always there; null where it does not apply.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    expose::{
        runs::{Run, Runs},
        values::Values,
    },
    model::{
        Difference, Facts, FieldClass, Finding, Health, JobOutcome, Kind, LiveObject, Source, Stamp,
        Standing, UnknownReason, VerdictKind,
    },
    state::{Entry, KindState, Transition, Turn},
};

/// One claim, in the shape of the resource state contract.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourceView<'a> {
    pub(super) deployment_id: &'a str,
    pub(super) api_version: String,
    pub(super) kind: &'a str,
    pub(super) resource_type: String,
    pub(super) resource_name: &'a str,
    pub(super) namespace: &'a str,
    /// How its own controller calls it, where that is asked for; else what its health amounts to.
    pub(super) phase: &'a str,
    pub(super) health_status: &'static str,
    pub(super) message: &'a str,
    pub(super) last_checked: Option<Timestamp>,
    pub(super) endpoint: Option<String>,
    pub(super) port: Option<u16>,
    pub(super) connection_secret: Option<&'a str>,
    pub(super) actual_spec: Value,
    pub(super) desired_spec: Value,
    pub(super) drift_detected: bool,
    pub(super) drift_details: Vec<String>,
    pub(super) resource_usage: Option<UsageView>,
    pub(super) estimated_monthly_cost: Option<f64>,
    pub(super) verdict: &'static str,
    pub(super) reason: Option<&'static str>,
    pub(super) source: &'static str,
    /// How the tool that declares it calls it.
    pub(super) address: Option<&'a str>,
    /// The baseline that declares it.
    pub(super) state: Option<&'a str>,
    /// Everything that declares it.
    pub(super) declared_by: Vec<DeclaredByView<'a>>,
    /// Fields that others have set and the tool that declares it never reads.
    pub(super) blind_fields: Vec<String>,
    /// The names of what its controller made; never the values.
    pub(super) outputs: &'a [Box<str>],
    /// The newest Job that ran Terraform for it.
    pub(super) job: Option<JobView<'a>>,
    pub(super) differences: Vec<DifferenceView<'a>>,
    /// Differences that a rule keeps from counting.
    pub(super) ignored: Vec<DifferenceView<'a>>,
    pub(super) onset: Option<Timestamp>,
    pub(super) actor: Option<&'static str>,
    pub(super) manager: Option<&'a str>,
    pub(super) severity: Option<&'static str>,
    pub(super) expectation: Option<&'static str>,
    pub(super) advice: Option<&'static str>,
}

/// One declaration of an object.
#[derive(Debug, Serialize)]
pub(super) struct DeclaredByView<'a> {
    address: &'a str,
    state: &'a str,
}

/// How a Job ran.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct JobView<'a> {
    name: &'a str,
    /// `succeeded`, `failed`, or `running`.
    result: &'static str,
    reason: Option<&'a str>,
    message: Option<&'a str>,
    started: Option<Timestamp>,
    ended: Option<Timestamp>,
    duration_seconds: Option<i64>,
}

/// The answer to a question for many.
#[derive(Debug, Serialize)]
pub(super) struct ListView<'a, T> {
    pub(super) resources: Vec<T>,
    pub(super) total: usize,
    pub(super) namespace: &'a str,
}

/// What an object asks for.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UsageView {
    cpu_usage: Option<String>,
    memory_usage: Option<String>,
    storage_usage: Option<String>,
    replicas: Option<i32>,
    /// `requests`: what all replicas request together, not what they use.
    basis: &'static str,
}

/// One difference.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DifferenceView<'a> {
    path: &'a str,
    field: &'static str,
    expected: Cow<'a, str>,
    actual: Cow<'a, str>,
    severity: &'static str,
    expectation: &'static str,
    advice: &'static str,
    actor: &'static str,
    manager: Option<&'a str>,
    onset: Timestamp,
    /// The rules that have something to say about it.
    rules: Vec<&'a str>,
    /// The rule because of which it does not count.
    ignored_by: Option<&'a str>,
}

/// One transition of the history.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TransitionView<'a> {
    sequence: u64,
    time: Timestamp,
    group: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    source: &'static str,
    from: Option<&'static str>,
    to: Option<&'static str>,
    reason: Option<&'static str>,
    cause: Option<&'static str>,
    onset: Option<Timestamp>,
    severity: Option<&'static str>,
    actor: Option<&'static str>,
    manager: Option<&'a str>,
    field: Option<&'static str>,
    paths: &'a [Box<str>],
}

impl<'a> ResourceView<'a> {
    pub(super) fn new(
        state: &KindState,
        entry: &'a Entry,
        runs: &Runs<'a>,
        values: &Values,
        now: Timestamp,
    ) -> Self {
        let (object, claim) = (&entry.object, &entry.claim);
        let (key, facts) = (&object.key, &object.facts);
        let (verdict, reason) = state.shown_verdict(entry);
        let episode = claim.verdict.episode();
        let differences = episode.map_or(&[][..], |episode| &episode.differences);
        let worst = differences.first();
        let (desired_spec, actual_spec) = specs(entry, values);
        let declared_by = claim.declared_by().iter();
        let declared_by =
            declared_by.map(|own| DeclaredByView { address: &own.address, state: &own.baseline });
        let first = claim.declared_by().first();
        let blind = claim.details.iter().flat_map(|details| &details.blind);
        Self {
            deployment_id: deployment_id(entry),
            api_version: key.kind.api_version(),
            kind: &key.kind.kind,
            resource_type: key.kind.kind.to_lowercase(),
            resource_name: &key.name,
            namespace: &key.namespace,
            phase: phase(object),
            health_status: facts.health.as_str(),
            message: &facts.message,
            last_checked: (!state.is_stale(&key.namespace, &key.name)).then_some(now),
            endpoint: endpoint(&key.kind, &key.namespace, &key.name, facts),
            port: facts.port,
            connection_secret: None,
            actual_spec,
            desired_spec,
            drift_detected: claim.verdict.drifted() == Some(true),
            drift_details: differences.iter().map(|own| sentence(own, values)).collect(),
            resource_usage: usage(facts),
            estimated_monthly_cost: None,
            verdict: verdict.as_str(),
            reason: reason.map(UnknownReason::as_str),
            source: claim.source.as_str(),
            address: first.map(|own| &*own.address),
            state: first.map(|own| &*own.baseline),
            declared_by: declared_by.collect(),
            blind_fields: blind.map(ToString::to_string).collect(),
            outputs: object.record().map_or(&[], |record| &record.outputs),
            job: runs.belonging_to(object).map(JobView::new),
            differences: differences.iter().map(|own| DifferenceView::new(own, values)).collect(),
            ignored: claim
                .verdict
                .ignored_differences()
                .map(|own| DifferenceView::new(own, values))
                .collect(),
            onset: episode.map(|episode| episode.onset),
            actor: worst.map(|worst| worst.actor.as_str()),
            manager: worst.and_then(Difference::manager),
            severity: worst.map(|worst| worst.severity.as_str()),
            expectation: worst.map(|worst| worst.expectation.as_str()),
            advice: worst.map(|worst| worst.advice.as_str()),
        }
    }
}

impl<'a> JobView<'a> {
    fn new(Run { job, run }: Run<'a>) -> Self {
        let outcome = run.outcome.as_ref();
        let said = |text: &'a str| Some(text).filter(|text| !text.is_empty());
        Self {
            name: &job.name,
            result: match outcome {
                Some(JobOutcome { succeeded: true, .. }) => "succeeded",
                Some(JobOutcome { succeeded: false, .. }) => "failed",
                None => "running",
            },
            reason: outcome.and_then(|outcome| said(&outcome.reason)),
            message: outcome.and_then(|outcome| said(&outcome.message)),
            started: run.started,
            ended: outcome.and_then(|outcome| outcome.ended),
            duration_seconds: run.lasted().map(|lasted| lasted.as_secs()),
        }
    }
}

impl<'a> DifferenceView<'a> {
    fn new(difference: &'a Difference, values: &Values) -> Self {
        Self {
            path: &difference.finding.path,
            field: difference.finding.class.as_str(),
            expected: values.expected(&difference.finding),
            actual: values.actual(&difference.finding),
            severity: difference.severity.as_str(),
            expectation: difference.expectation.as_str(),
            advice: difference.advice.as_str(),
            actor: difference.actor.as_str(),
            manager: difference.manager(),
            onset: difference.onset,
            rules: difference.matched.iter().map(|rule| &**rule).collect(),
            ignored_by: difference.ignored_by.as_deref(),
        }
    }
}

impl<'a> TransitionView<'a> {
    pub(super) fn new(transition: &'a Transition) -> Self {
        let episode = transition.episode.as_ref();
        Self {
            sequence: transition.sequence,
            time: transition.time,
            group: &transition.key.kind.group,
            kind: &transition.key.kind.kind,
            namespace: &transition.key.namespace,
            name: &transition.key.name,
            source: transition.source.as_str(),
            from: transition.from.map(VerdictKind::as_str),
            to: transition.to.map(VerdictKind::as_str),
            reason: transition.reason.map(UnknownReason::as_str),
            cause: episode.and_then(|episode| match episode.turn {
                Turn::Ended(cause) => Some(cause.as_str()),
                Turn::Began | Turn::GoesOn => None,
            }),
            onset: episode.map(|episode| episode.onset),
            severity: episode.map(|episode| episode.severity.as_str()),
            actor: episode.map(|episode| episode.actor.as_str()),
            manager: episode.and_then(|episode| episode.manager.as_deref()),
            field: episode.map(|episode| episode.field.as_str()),
            paths: episode.map_or(&[], |episode| &episode.paths),
        }
    }
}

/// What people group objects by: how Terraform calls them, their Helm release, else what they are an instance of, else their uid.
pub(super) fn deployment_id(entry: &Entry) -> &str {
    let of_helm = entry.claim.source == Source::Helm;
    let declared = entry.claim.declared_by().first();
    let own = declared.map(|own| if of_helm { &*own.baseline } else { &*own.address });
    own.or(entry.object.facts.instance.as_deref()).unwrap_or(&entry.object.uid)
}

fn sentence(difference: &Difference, values: &Values) -> String {
    let Finding { path, class, .. } = &difference.finding;
    let (expected, actual) = (values.expected(&difference.finding), values.actual(&difference.finding));
    match class {
        FieldClass::Hash => format!("Hash of {path} mismatch: desired={expected}, actual={actual}"),
        _ => format!("{path}: desired={expected}, actual={actual}"),
    }
}

/// Desired and actual, as far as they are known: the hashes, or the fields that differ.
fn specs(entry: &Entry, values: &Values) -> (Value, Value) {
    match (entry.claim.source, entry.object.record().map(|record| &record.standing)) {
        (Source::Annotation, _) => return hashes(&entry.object.stamp),
        (Source::StatusHash, Some(Standing::Hash(stamp))) => return hashes(stamp),
        (Source::StatusHash, Some(Standing::Generation { observed, current, .. })) => {
            let seen = observed.map_or(Value::Null, |observed| json!({"generation": observed}));
            return (seen, json!({"generation": current}));
        }
        (_, _) => {}
    }
    let Some(episode) = entry.claim.verdict.episode() else { return (Value::Null, Value::Null) };
    let findings = episode.differences.iter().map(|own| &own.finding);
    let desired: Map<String, Value> =
        findings.clone().map(|own| (own.path.to_string(), values.expected(own).into())).collect();
    let actual: Map<String, Value> =
        findings.map(|own| (own.path.to_string(), values.actual(own).into())).collect();
    (desired.into(), actual.into())
}

/// Desired and actual, as far as a hash tells.
fn hashes(stamp: &Stamp) -> (Value, Value) {
    match stamp {
        Stamp::Match(digest) => (json!({"hash": digest.to_string()}), json!({"hash": digest.to_string()})),
        Stamp::Mismatch(mismatch) => {
            (json!({"hash": mismatch.expected.to_string()}), json!({"hash": mismatch.actual.to_string()}))
        }
        Stamp::Unasked | Stamp::Absent | Stamp::Unusable(_) => (Value::Null, Value::Null),
    }
}

fn phase(object: &LiveObject) -> &str {
    if let Some(record) = object.record().filter(|record| !record.phase.is_empty()) {
        return &record.phase;
    }
    match object.facts.health {
        Health::Healthy => "Ready",
        Health::Degraded => "Degraded",
        Health::Unhealthy => "Failed",
        Health::Unknown => "Unknown",
    }
}

/// Services are reached under the name that the cluster's DNS gives them, unless they say otherwise.
fn endpoint(kind: &Kind, namespace: &str, name: &str, facts: &Facts) -> Option<String> {
    let by_name = || (&*kind.kind == "Service").then(|| format!("{name}.{namespace}.svc.cluster.local"));
    facts.endpoint.as_deref().map(str::to_owned).or_else(by_name)
}

fn usage(facts: &Facts) -> Option<UsageView> {
    let replicas = facts.replicas?;
    let all = u64::try_from(replicas).unwrap_or(0);
    Some(UsageView {
        cpu_usage: facts.cpu_request.map(|millis| format!("{}m", millis.saturating_mul(all))),
        memory_usage: facts.memory_request.map(|bytes| bytes_text(bytes.saturating_mul(all))),
        storage_usage: None,
        replicas: Some(replicas),
        basis: "requests",
    })
}

fn bytes_text(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
    let unit = UNITS.iter().find(|(_, size)| bytes >= *size && bytes.is_multiple_of(*size));
    unit.map_or_else(|| bytes.to_string(), |(suffix, size)| format!("{}{suffix}", bytes / size))
}
