//! The JSON shapes. Every field is always there; null where it does not apply.
//! One difference, and why it does not count where it does not.
//! Desired and actual, as far as they are known.
//! What is written as a text without being made one first.

use std::{borrow::Cow, collections::BTreeMap, fmt::Display, sync::Arc};

use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};

use super::{
    cost::{UsageView, drift_cost, monthly_cost, usage},
    drift_details::{Phrases, sentences},
    openapi::OneOf,
    service_endpoints::{Endpoint, Host, Reach},
};
use crate::{
    config::Prices,
    engine::{Entry, KindState, Snapshot},
    server::{
        query::{Run, Runs},
        values::{Shown, Values},
    },
    types::{
        Actor, Advice, ApiVersion, Difference, Digest, Expectation, FieldClass, FieldPath, HashBaseline,
        Health, JobOutcome, LiveObject, ObservedState, Phase, Severity, Source, UnknownReason, VerdictKind,
    },
};

/// One claim, in the shape of the resource state contract: an object, and what one source says about it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Resource")]
pub(super) struct ResourceView<'a> {
    /// The Terraform address, the Helm release, else the label `app.kubernetes.io/instance`, else the uid.
    deployment_id: &'a str,
    api_version: Text<ApiVersion<'a>>,
    kind: &'a str,
    /// The kind in lower case.
    resource_type: &'a str,
    resource_name: &'a str,
    /// Empty for objects without a namespace.
    namespace: &'a str,
    /// How its own controller calls it, where that is asked for; else what it is doing, or what its health amounts to.
    phase: &'a str,
    #[schemars(with = "OneOf<Health>")]
    health_status: &'static str,
    /// Why it is not healthy, or not done yet; empty when all is well.
    message: &'a str,
    /// Null while changes of the object do not reach us.
    #[schemars(with = "Option<Timestamp>")]
    last_checked: Option<&'a str>,
    /// A host name or an address: its own, or that of the Service in front of it.
    endpoint: Option<Text<Host<'a>>>,
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
    #[schemars(with = "OneOf<VerdictKind>")]
    verdict: &'static str,
    /// Why the verdict is `unknown`.
    #[schemars(with = "Option<OneOf<UnknownReason>>")]
    reason: Option<&'static str>,
    /// Where the baseline is written.
    #[schemars(with = "OneOf<Source>")]
    source: &'static str,
    /// How the tool that declares it calls it.
    address: Option<&'a str>,
    /// The baseline that declares it.
    state: Option<&'a str>,
    /// Everything that declares it.
    declared_by: Vec<DeclaredByView<'a>>,
    /// Fields that others have set and the tool that declares it never reads.
    blind_fields: Texts<'a, FieldPath>,
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
    #[schemars(with = "Option<OneOf<Actor>>")]
    actor: Option<&'static str>,
    /// The name of that tool's field manager.
    manager: Option<&'a str>,
    #[schemars(with = "Option<OneOf<Severity>>")]
    severity: Option<&'static str>,
    #[schemars(with = "Option<OneOf<Expectation>>")]
    expectation: Option<&'static str>,
    #[schemars(with = "Option<OneOf<Advice>>")]
    advice: Option<&'static str>,
}

/// One declaration of an object.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DeclaredBy")]
pub(super) struct DeclaredByView<'a> {
    /// How its tool calls it there.
    address: &'a str,
    /// The baseline that has it.
    state: &'a str,
}

/// How a Job ran.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Job")]
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
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ResourceList")]
pub(super) struct ListView<'a, T> {
    pub(super) resources: T,
    /// How many there are before paging.
    pub(super) total: usize,
    /// The namespace that was asked for; `*` for all.
    pub(super) namespace: &'a str,
}

/// All that a claim is shown in the light of.
#[derive(Debug)]
pub(super) struct Light<'a> {
    snapshot: &'a Snapshot,
    values: &'a Values,
    /// The time, in words.
    now: String,
    prices: Option<&'a Prices>,
    runs: Runs<'a>,
    reach: &'a Reach,
}

impl<'a> Light<'a> {
    pub(super) fn new(
        values: &'a Values,
        now: Timestamp,
        snapshot: &'a Snapshot,
        prices: Option<&'a Prices>,
        reach: &'a Reach,
    ) -> Self {
        Self { snapshot, values, now: now.to_string(), prices, runs: Runs::of(snapshot), reach }
    }
}

/// What all claims on objects of a kind have in common, in whatever version these were read.
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
        entry: &'a Entry,
        light: &'a Light<'_>,
        phrases: &mut Phrases,
    ) -> Self {
        let (object, claim, values, state) = (&entry.object, &entry.claim, light.values, kind.state);
        let (key, facts) = (&object.key, &object.facts);
        let (verdict, reason) = state.shown_verdict(entry);
        let episode = claim.verdict.episode();
        let worst = episode.and_then(|episode| episode.differences.first());
        let differing = episode.iter().flat_map(|episode| &episode.differences);
        let differences: Vec<_> = differing.map(|own| DifferenceView::new(own, values)).collect();
        let (desired_spec, actual_spec) = specs(entry, &differences);
        let (host, port) = match light.reach.endpoint(object) {
            Some(Endpoint { host, port }) => (Some(Text(host)), port),
            None => (None, facts.port),
        };
        let (first, declared_by) = (claim.declared_by().first(), claim.declared_by().iter());
        let declared_by =
            declared_by.map(|own| DeclaredByView { address: &own.address, state: &own.baseline });
        let prices = light.prices;
        Self {
            deployment_id: deployment_id(entry),
            api_version: Text(ApiVersion(&key.kind)),
            kind: &key.kind.kind,
            resource_type: &kind.resource_type,
            resource_name: &key.name,
            namespace: &key.namespace,
            phase: phase(object),
            health_status: facts.health.as_str(),
            message: &facts.message,
            last_checked: (!state.is_stale(&key.namespace, &key.name)).then_some(&light.now),
            endpoint: host,
            port,
            connection_secret: facts.connection_secret.as_deref(),
            actual_spec,
            desired_spec,
            drift_detected: claim.verdict.drifted() == Some(true),
            drift_details: sentences(&differences, light.snapshot.rules.set(), phrases),
            resource_usage: usage(facts),
            estimated_monthly_cost: prices.and_then(|prices| monthly_cost(facts, prices)),
            drift_monthly_cost: prices.and_then(|prices| drift_cost(entry, prices)),
            cost_currency: prices.map(|prices| &*prices.currency),
            verdict: verdict.as_str(),
            reason: reason.map(UnknownReason::as_str),
            source: claim.source.as_str(),
            address: first.map(|own| &*own.address),
            state: first.map(|own| &*own.baseline),
            declared_by: declared_by.collect(),
            blind_fields: Texts(claim.details.as_ref().map_or(&[], |details| &details.blind)),
            outputs: object.record().map_or(&[], |record| &record.outputs),
            job: light.runs.belonging_to(object).map(JobView::new),
            differences,
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

/// What people group objects by: how Terraform calls them, their Helm release, else what they are an instance of, else their uid.
pub(super) fn deployment_id(entry: &Entry) -> &str {
    let declared = entry.claim.declared_by().first();
    let own = declared.and_then(|own| match entry.claim.source {
        Source::Terraform => Some(&*own.address),
        Source::Helm => Some(&*own.baseline),
        _ => None,
    });
    own.or(entry.object.facts.instance.as_deref()).unwrap_or(&entry.object.uid)
}

fn phase(object: &LiveObject) -> &str {
    if !object.exists {
        return "Missing";
    }
    if let Some(record) = object.record().filter(|record| !record.phase.is_empty()) {
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

/// One field that is not as declared.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Difference")]
pub(super) struct DifferenceView<'a> {
    /// The field's path: `spec.template.spec.containers[name=web].image`.
    pub(super) path: &'a str,
    /// What kind of field it is.
    #[schemars(with = "OneOf<FieldClass>")]
    field: &'static str,
    /// What is declared; empty where nothing is.
    pub(super) expected: Cow<'a, str>,
    /// What is there; empty where nothing is.
    pub(super) actual: Cow<'a, str>,
    /// How bad it is.
    #[schemars(with = "OneOf<Severity>")]
    severity: &'static str,
    /// Whether it happens by itself.
    #[schemars(with = "OneOf<Expectation>")]
    expectation: &'static str,
    /// What to do about it.
    #[schemars(with = "OneOf<Advice>")]
    advice: &'static str,
    /// The class of tool that last set it.
    #[schemars(with = "OneOf<Actor>")]
    actor: &'static str,
    /// The name of the field manager that last set it.
    manager: Option<&'a str>,
    /// Since when it differs.
    onset: Timestamp,
    /// The rules that have something to say about it.
    rules: Texts<'a, Arc<str>>,
    /// The rule because of which it does not count.
    ignored_by: Option<&'a str>,
    /// What it is a view of.
    #[serde(skip)]
    pub(super) difference: &'a Difference,
}

impl<'a> DifferenceView<'a> {
    pub(super) fn new(difference: &'a Difference, values: &Values) -> Self {
        let Shown { expected, actual } = values.of_finding(&difference.finding);
        Self {
            path: &difference.finding.path,
            field: difference.finding.class.as_str(),
            expected,
            actual,
            severity: difference.severity.as_str(),
            expectation: difference.expectation.as_str(),
            advice: difference.advice.as_str(),
            actor: difference.actor.as_str(),
            manager: difference.manager(),
            onset: difference.onset,
            rules: Texts(&difference.matched),
            ignored_by: difference.ignored_by.as_deref(),
            difference,
        }
    }
}

/// What is declared, or what is there, as far as the source tells.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Spec")]
pub(super) enum SpecView<'a> {
    /// Nothing is known, or nothing differs.
    Unknown,
    /// Only a hash is known.
    Hash {
        /// The hash, in hex digits.
        hash: Text<&'a Digest>,
    },
    /// Only the generation is known that a controller has seen.
    Generation {
        /// The generation.
        generation: i64,
    },
    /// The fields that differ, by their paths.
    Fields(BTreeMap<&'a str, Cow<'a, str>>),
}

/// Desired and actual: the hashes, or the fields that differ.
pub(super) fn specs<'a>(
    entry: &'a Entry,
    differences: &[DifferenceView<'a>],
) -> (SpecView<'a>, SpecView<'a>) {
    match (entry.claim.source, entry.object.record().map(|record| &record.standing)) {
        (Source::Annotation, _) => return hashes(&entry.object.stamp),
        (Source::StatusHash, Some(ObservedState::Hash(stamp))) => return hashes(stamp),
        (Source::StatusHash, Some(ObservedState::Generation { observed, current, .. })) => {
            let seen = observed.map_or(SpecView::Unknown, |generation| SpecView::Generation { generation });
            return (seen, SpecView::Generation { generation: *current });
        }
        (_, _) => {}
    }
    if entry.claim.verdict.episode().is_none() {
        return (SpecView::Unknown, SpecView::Unknown);
    }
    let desired = differences.iter().map(|own| (own.path, own.expected.clone())).collect();
    let actual = differences.iter().map(|own| (own.path, own.actual.clone())).collect();
    (SpecView::Fields(desired), SpecView::Fields(actual))
}

fn hashes(stamp: &HashBaseline) -> (SpecView<'_>, SpecView<'_>) {
    let (desired, actual) = match stamp {
        HashBaseline::Match(digest) => (digest, digest),
        HashBaseline::Mismatch(mismatch) => (&mismatch.expected, &mismatch.actual),
        HashBaseline::Unasked | HashBaseline::Absent | HashBaseline::Unusable(_) => {
            return (SpecView::Unknown, SpecView::Unknown);
        }
    };
    (SpecView::Hash { hash: Text(desired) }, SpecView::Hash { hash: Text(actual) })
}

/// Something that knows its words. Lists have thousands of these, and a piece of memory for each would take longer than writing it.
#[derive(Debug)]
pub(super) struct Text<T>(pub(super) T);

/// The words of each.
#[derive(Debug)]
pub(super) struct Texts<'a, T>(pub(super) &'a [T]);

impl<T: Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<T: Display> Serialize for Texts<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(Text))
    }
}

impl<T> JsonSchema for Text<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        String::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

impl<T> JsonSchema for Texts<'_, T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        Vec::<String>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Vec::<String>::json_schema(generator)
    }
}
