//! The JSON types that several endpoints share. Every field is always present, and null if it does not apply.
//!
//! The documentation of types that derive `JsonSchema` becomes the descriptions in `/openapi.json`.

use std::{borrow::Cow, collections::BTreeMap, fmt::Display, sync::Arc};

use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use super::{
    cost::{UsageView, drift_cost, monthly_cost, usage},
    drift_details::{FieldLabelCache, drift_details},
    service_endpoints::{Endpoint, Host, ServiceEndpoints},
};
use crate::{
    config::Prices,
    engine::{ClaimEntry, DeclaredBy, KindState, Snapshot},
    server::{
        query::{TerraformJob, TerraformJobs, deployment_id},
        redaction::{DisplayedValues, ValueRedactor},
    },
    types::{
        Actor, Advice, ApiVersion, BaselineFault, ClaimedObject, Difference, Digest, Expectation, FieldClass,
        FieldPath, FieldValue, HashBaseline, Health, JobOutcome, ObservedState, Phase, ResolutionCause,
        Severity, Source, UnknownReason, VerdictKind,
    },
};

/// One claim, in the shape of the resource state contract: an object, and what one source says about it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Resource")]
pub(super) struct ResourceView<'a> {
    /// The Terraform address, the Helm release, else the label `app.kubernetes.io/instance`, else the uid.
    deployment_id: &'a str,
    api_version: AsString<ApiVersion<'a>>,
    kind: &'a str,
    /// The kind in lower case.
    resource_type: &'a str,
    resource_name: &'a str,
    /// Empty for objects without a namespace.
    namespace: &'a str,
    /// How its own controller calls it, where that is asked for; else what it is doing, or what its health amounts to.
    phase: &'a str,
    health_status: Health,
    /// Why it is not healthy, or not done yet; empty when all is well.
    message: &'a str,
    /// Null while changes of the object do not reach us.
    #[schemars(with = "Option<Timestamp>")]
    last_checked: Option<&'a str>,
    /// A host name or an address: its own, or that of the Service in front of it.
    endpoint: Option<AsString<Host<'a>>>,
    port: Option<u16>,
    /// The name of the Secret that tells how to connect; never what is in it.
    connection_secret: Option<&'a str>,
    actual_spec: SpecView<'a>,
    desired_spec: SpecView<'a>,
    drift_detected: bool,
    /// A sentence for each difference.
    drift_details: Vec<String>,
    resource_usage: Option<UsageView>,
    /// By the prices in the settings; null without them.
    estimated_monthly_cost: Option<f64>,
    /// How much more a month costs than what is declared; less than nothing where it costs less. Null where that is not known.
    drift_monthly_cost: Option<f64>,
    /// What the costs are in.
    cost_currency: Option<&'a str>,
    verdict: VerdictKind,
    /// Why the verdict is `unknown`.
    reason: Option<UnknownReason>,
    /// Where the baseline is written.
    source: Source,
    /// How the tool that declares it calls it.
    address: Option<&'a str>,
    /// The baseline that declares it.
    state: Option<&'a str>,
    /// Everything that declares it.
    declared_by: Vec<DeclaredByView<'a>>,
    /// Fields that others have set and the tool that declares it never reads.
    blind_fields: AsStrings<'a, FieldPath>,
    /// The names of what its controller made; never the values.
    #[schemars(with = "Vec<String>")]
    outputs: &'a [Box<str>],
    /// The newest Job that ran Terraform for it.
    job: Option<JobView<'a>>,
    /// The differences that count, the worst first.
    differences: Vec<DifferenceView<'a>>,
    /// Differences that a rule keeps from counting.
    ignored: Vec<DifferenceView<'a>>,
    /// Since when it drifts.
    onset: Option<Timestamp>,
    /// The class of tool that made the worst difference.
    actor: Option<Actor>,
    /// The name of that tool's field manager.
    manager: Option<&'a str>,
    severity: Option<Severity>,
    expectation: Option<Expectation>,
    advice: Option<Advice>,
}

/// One declaration of an object.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DeclaredBy")]
struct DeclaredByView<'a> {
    /// How its tool calls it there.
    address: &'a str,
    /// The baseline that has it.
    state: &'a str,
}

/// How a Job ran.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Job")]
struct JobView<'a> {
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
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ResourceList")]
pub(super) struct ListView<'a, T> {
    pub(super) resources: T,
    /// How many there are before paging.
    pub(super) total: usize,
    /// The namespace that was asked for; `*` for all.
    pub(super) namespace: &'a str,
}

/// One field that is not as declared.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Difference")]
pub(super) struct DifferenceView<'a> {
    /// The field's path: `spec.template.spec.containers[name=web].image`.
    pub(super) path: &'a str,
    /// What kind of field it is.
    field: FieldClass,
    /// What is declared; empty where nothing is.
    pub(super) expected: Cow<'a, str>,
    /// What is there; empty where nothing is.
    pub(super) actual: Cow<'a, str>,
    /// How bad it is.
    severity: Severity,
    /// Whether it happens by itself.
    expectation: Expectation,
    /// What to do about it.
    advice: Advice,
    /// The class of tool that last set it.
    actor: Actor,
    /// The name of the field manager that last set it.
    manager: Option<&'a str>,
    /// Since when it differs.
    onset: Timestamp,
    /// The rules that have something to say about it.
    rules: AsStrings<'a, Arc<str>>,
    /// The rule because of which it does not count.
    ignored_by: Option<&'a str>,
    #[serde(skip)]
    pub(super) difference: &'a Difference,
}

/// What is declared, or what is there, as far as the source tells.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Spec")]
enum SpecView<'a> {
    /// Nothing is known, or nothing differs.
    Unknown,
    /// Only a hash is known.
    Hash {
        /// The hash, in hex digits.
        hash: AsString<&'a Digest>,
    },
    /// Only the generation is known that a controller has seen.
    Generation {
        /// The generation.
        generation: i64,
    },
    /// The fields that differ, by their paths.
    Fields(BTreeMap<&'a str, Cow<'a, str>>),
}

/// What the views of all claims in a response have in common.
#[derive(Debug)]
pub(super) struct ViewContext<'a> {
    snapshot: &'a Snapshot,
    values: &'a ValueRedactor,
    /// RFC 3339, formatted once for all views.
    now: String,
    prices: Option<&'a Prices>,
    jobs: TerraformJobs<'a>,
    endpoints: &'a ServiceEndpoints,
}

impl<'a> ViewContext<'a> {
    pub(super) fn new(
        values: &'a ValueRedactor,
        now: Timestamp,
        snapshot: &'a Snapshot,
        prices: Option<&'a Prices>,
        endpoints: &'a ServiceEndpoints,
    ) -> Self {
        let jobs = TerraformJobs::from_snapshot(snapshot);
        Self { snapshot, values, now: now.to_string(), prices, jobs, endpoints }
    }
}

/// What the views of all claims on objects of one kind have in common.
#[derive(Debug)]
pub(super) struct KindView<'a> {
    state: &'a KindState,
    resource_type: String,
}

impl<'a> KindView<'a> {
    pub(super) fn new(state: &'a KindState) -> Self {
        Self { state, resource_type: state.kind.kind.to_lowercase() }
    }
}

impl<'a> ResourceView<'a> {
    pub(super) fn new(
        kind: &'a KindView<'_>,
        entry: &'a ClaimEntry,
        context: &'a ViewContext<'_>,
        labels: &mut FieldLabelCache,
    ) -> Self {
        let (object, claim, values, state) = (&entry.object, &entry.claim, context.values, kind.state);
        let (key, facts) = (object.key(), object.facts());
        let (verdict, reason) = state.reported_verdict(entry);
        let episode = claim.verdict.episode();
        let worst = episode.and_then(|episode| episode.differences.first());
        let difference_view = |difference| DifferenceView::new(difference, values);
        let differences = episode.iter().flat_map(|episode| &episode.differences);
        let differences: Vec<_> = differences.map(difference_view).collect();
        let (desired_spec, actual_spec) = specs(entry, &differences);
        let (endpoint, port) = match context.endpoints.endpoint(object) {
            Some(Endpoint { host, port }) => (Some(AsString(host)), port),
            None => (None, facts.port),
        };
        let (declared_by, prices) = (claim.declared_by(), context.prices);
        Self {
            deployment_id: deployment_id(entry),
            api_version: AsString(ApiVersion(&key.kind)),
            kind: &key.kind.kind,
            resource_type: &kind.resource_type,
            resource_name: &key.name,
            namespace: &key.namespace,
            phase: phase(object),
            health_status: facts.health,
            message: &facts.message,
            last_checked: (!state.is_stale(&key.namespace, &key.name)).then_some(&context.now),
            endpoint,
            port,
            connection_secret: facts.connection_secret.as_deref(),
            actual_spec,
            desired_spec,
            drift_detected: claim.verdict.drifted_value() == Some(true),
            drift_details: drift_details(&differences, context.snapshot.rules.set(), labels),
            resource_usage: usage(facts),
            estimated_monthly_cost: prices.and_then(|prices| monthly_cost(facts, prices)),
            drift_monthly_cost: prices.and_then(|prices| drift_cost(entry, prices)),
            cost_currency: prices.map(|prices| &*prices.currency),
            verdict,
            reason,
            source: claim.source,
            address: declared_by.first().map(|declared| &*declared.address),
            state: declared_by.first().map(|declared| &*declared.baseline),
            declared_by: declared_by
                .iter()
                .map(|DeclaredBy { address, baseline }| DeclaredByView { address, state: baseline })
                .collect(),
            blind_fields: AsStrings(claim.details.as_ref().map_or(&[], |details| &details.blind_fields)),
            outputs: object.controller_status().map_or(&[], |record| &record.outputs),
            job: object.live().and_then(|object| context.jobs.newest_for(object)).map(JobView::new),
            differences,
            ignored: claim.verdict.ignored_differences().map(difference_view).collect(),
            onset: episode.map(|episode| episode.onset),
            actor: worst.map(|worst| worst.actor),
            manager: worst.and_then(Difference::manager),
            severity: worst.map(|worst| worst.severity),
            expectation: worst.map(|worst| worst.expectation),
            advice: worst.map(|worst| worst.advice),
        }
    }
}

fn phase(object: &ClaimedObject) -> &str {
    let Some(object) = object.live() else { return "Missing" };
    if let Some(record) = object.controller_status().filter(|record| !record.phase.is_empty()) {
        return &record.phase;
    }
    let by_health = match object.facts.health {
        Health::Healthy => "Ready",
        Health::Degraded => "Degraded",
        Health::Unhealthy => "Failed",
        Health::Unknown => "Unknown",
    };
    object.facts.phase.map_or(by_health, Phase::as_str)
}

/// The desired and the actual spec: hashes, generations, or the fields that differ.
fn specs<'a>(entry: &'a ClaimEntry, differences: &[DifferenceView<'a>]) -> (SpecView<'a>, SpecView<'a>) {
    let observed_state = entry.object.controller_status().map(|record| &record.observed_state);
    match (entry.claim.source, observed_state) {
        (Source::Annotation, _) => {
            let hash =
                entry.object.live().map_or(&HashBaseline::NotRequested, |object| &object.hash_baseline);
            return hashes(hash);
        }
        (Source::StatusHash, Some(ObservedState::Hash(hash))) => return hashes(hash),
        (Source::StatusHash, Some(ObservedState::Generation { observed, current, .. })) => {
            let observed =
                observed.map_or(SpecView::Unknown, |generation| SpecView::Generation { generation });
            return (observed, SpecView::Generation { generation: *current });
        }
        (_, _) => {}
    }
    if entry.claim.verdict.episode().is_none() {
        return (SpecView::Unknown, SpecView::Unknown);
    }
    let desired = differences.iter().map(|difference| (difference.path, difference.expected.clone()));
    let actual = differences.iter().map(|difference| (difference.path, difference.actual.clone()));
    (SpecView::Fields(desired.collect()), SpecView::Fields(actual.collect()))
}

fn hashes(hash: &HashBaseline) -> (SpecView<'_>, SpecView<'_>) {
    let (desired, actual) = match hash {
        HashBaseline::Match(digest) => (digest, digest),
        HashBaseline::Mismatch(mismatch) => (&mismatch.expected, &mismatch.actual),
        HashBaseline::NotRequested | HashBaseline::Absent | HashBaseline::Unusable(_) => {
            return (SpecView::Unknown, SpecView::Unknown);
        }
    };
    (SpecView::Hash { hash: AsString(desired) }, SpecView::Hash { hash: AsString(actual) })
}

impl<'a> JobView<'a> {
    fn new(TerraformJob { key, run }: TerraformJob<'a>) -> Self {
        let outcome = run.outcome.as_ref();
        let non_empty = |text: &'a str| Some(text).filter(|text| !text.is_empty());
        Self {
            name: &key.name,
            result: match outcome {
                Some(JobOutcome { succeeded: true, .. }) => "succeeded",
                Some(JobOutcome { succeeded: false, .. }) => "failed",
                None => "running",
            },
            reason: outcome.and_then(|outcome| non_empty(&outcome.reason)),
            message: outcome.and_then(|outcome| non_empty(&outcome.message)),
            started: run.started,
            ended: outcome.and_then(|outcome| outcome.ended),
            duration_seconds: run.duration().map(|duration| duration.as_secs()),
        }
    }
}

impl<'a> DifferenceView<'a> {
    pub(super) fn new(difference: &'a Difference, values: &ValueRedactor) -> Self {
        let DisplayedValues { expected, actual } = values.redact(&difference.finding);
        Self {
            path: difference.finding.path.as_str(),
            field: difference.finding.class,
            expected: into_text(expected),
            actual: into_text(actual),
            severity: difference.severity,
            expectation: difference.expectation,
            advice: difference.advice,
            actor: difference.actor,
            manager: difference.manager(),
            onset: difference.onset,
            rules: AsStrings(&difference.matched),
            ignored_by: difference.ignored_by.as_deref(),
            difference,
        }
    }
}

fn into_text(value: Cow<'_, FieldValue>) -> Cow<'_, str> {
    match value {
        Cow::Borrowed(value) => value.text(),
        Cow::Owned(value) => value.text().into_owned().into(),
    }
}

/// The spellings of a closed set are the `enum` of its JSON Schema.
macro_rules! closed_set_schemas {
    ($($set:ident),+) => {
        $(impl JsonSchema for $set {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($set).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string", "enum": $set::ALL})
            }
        })+
    };
}

closed_set_schemas!(Actor, Advice, BaselineFault, Expectation, FieldClass, Health, ResolutionCause, Severity);
closed_set_schemas!(Source, UnknownReason, VerdictKind);

// Serializes with `Display`, without an allocation: a list has thousands of these. This is no doc comment because it
// would become a description in `/openapi.json`.
#[derive(Debug, JsonSchema)]
#[schemars(inline, bound = "", rename = "AsString")]
pub(super) struct AsString<T>(#[schemars(with = "String")] pub(super) T);

// Serializes each element with `Display`.
#[derive(Debug, JsonSchema)]
#[schemars(inline, bound = "", rename = "AsStrings")]
struct AsStrings<'a, T>(#[schemars(with = "Vec<String>")] &'a [T]);

impl<T: Display> Serialize for AsString<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<T: Display> Serialize for AsStrings<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(AsString))
    }
}
