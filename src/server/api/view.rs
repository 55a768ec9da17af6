//! The JSON types that several endpoints share. Every field is always present, and null if it does not apply.
//!
//! Commands read the same types. A command accepts the response of an exporter of another version: it skips the fields
//! that no command uses, and [`Word`] keeps words that it does not know.
//!
//! The documentation of types that derive `JsonSchema` becomes the descriptions in `/openapi.json`.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt::{self, Display},
};

use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};

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
        Actor, Advice, BaselineFault, ClaimedObject, ClosedSet, Difference, Digest, Episode, Expectation,
        FieldClass, FieldPath, FieldValue, HashBaseline, Health, JobOutcome, KeyedDigest, MatchedBy,
        ObjectKey, ObservedState, OnsetSource, Phase, ResolutionCause, Severity, Source, UnknownReason,
        ValueForm, VerdictKind,
    },
};

/// One claim, in the shape of the resource state contract: an object, and what one source says about it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Resource")]
pub(crate) struct ResourceView<'a> {
    /// The Terraform address, the Helm release, else the label `app.kubernetes.io/instance`, else the uid.
    #[serde(skip_deserializing)]
    deployment_id: &'a str,
    pub(crate) api_version: Cow<'a, str>,
    pub(crate) kind: Cow<'a, str>,
    /// The kind in lower case.
    #[serde(skip_deserializing)]
    resource_type: &'a str,
    pub(crate) resource_name: Cow<'a, str>,
    /// Empty for objects without a namespace.
    pub(crate) namespace: Cow<'a, str>,
    /// How its own controller calls it, where that is asked for; else what it is doing, or what its health amounts to.
    #[serde(default)]
    pub(crate) phase: Cow<'a, str>,
    #[serde(skip_deserializing)]
    health_status: Health,
    /// Why it is not healthy, or not done yet; empty when all is well.
    #[serde(default)]
    pub(crate) message: Cow<'a, str>,
    /// Null while changes of the object do not reach us.
    #[schemars(with = "Option<Timestamp>")]
    last_checked: Option<Cow<'a, str>>,
    /// A host name or an address: its own, or that of the Service in front of it.
    #[serde(skip_deserializing)]
    endpoint: Option<AsString<Host<'a>>>,
    port: Option<u16>,
    /// The name of the Secret that tells how to connect; never what is in it.
    connection_secret: Option<Cow<'a, str>>,
    #[serde(skip_deserializing)]
    actual_spec: ComparedSpecView<'a>,
    #[serde(skip_deserializing)]
    desired_spec: ComparedSpecView<'a>,
    /// How to read each value in `actualSpec`, by its path; empty if that has no fields.
    #[serde(skip_deserializing)]
    actual_forms: FormsView<'a>,
    /// How to read each value in `desiredSpec`.
    #[serde(skip_deserializing)]
    desired_forms: FormsView<'a>,
    pub(crate) drift_detected: bool,
    /// A sentence for each difference. It quotes a string that reads like another value, but never a digest.
    #[serde(skip_deserializing)]
    drift_details: Vec<String>,
    #[serde(skip_deserializing)]
    resource_usage: Option<UsageView>,
    /// By the prices in the settings; null without them.
    estimated_monthly_cost: Option<f64>,
    /// How much more a month costs than what is declared; less than nothing where it costs less. Null where that is not known.
    drift_monthly_cost: Option<f64>,
    /// What the costs are in.
    cost_currency: Option<Cow<'a, str>>,
    pub(crate) verdict: Word<VerdictKind>,
    /// Why the verdict is `unknown`.
    pub(crate) reason: Option<Word<UnknownReason>>,
    /// Where the baseline is written.
    pub(crate) source: Word<Source>,
    /// How the tool that declares it calls it.
    address: Option<Cow<'a, str>>,
    /// The baseline that declares it.
    state: Option<Cow<'a, str>>,
    /// Everything that declares it.
    pub(crate) declared_by: Vec<DeclaredByView<'a>>,
    /// Fields that others have set and the tool that declares it never reads.
    pub(crate) blind_fields: AsStrings<'a, FieldPath>,
    /// The names of what its controller made; never the values.
    #[schemars(with = "Vec<String>")]
    #[serde(skip_deserializing)]
    outputs: &'a [Box<str>],
    /// The newest Job that ran Terraform for it.
    #[serde(skip_deserializing)]
    job: Option<JobView<'a>>,
    /// The differences that count, the worst first.
    pub(crate) differences: Vec<DifferenceView<'a>>,
    /// Differences that a rule keeps from counting.
    pub(crate) ignored: Vec<DifferenceView<'a>>,
    /// Differences of public fields from baselines without authority over the object. They never count, and the verdict is
    /// `untrusted`.
    #[serde(default)]
    pub(crate) untrusted: Vec<DifferenceView<'a>>,
    /// Since when it drifts.
    pub(crate) onset: Option<Timestamp>,
    /// The source of the onset; null if the difference that the onset comes from has ended.
    onset_source: Option<Word<OnsetSource>>,
    /// The class of tool that made the worst difference.
    pub(crate) actor: Option<Word<Actor>>,
    /// The name of that tool's field manager.
    pub(crate) manager: Option<Cow<'a, str>>,
    pub(crate) severity: Option<Word<Severity>>,
    pub(crate) expectation: Option<Word<Expectation>>,
    pub(crate) advice: Option<Word<Advice>>,
}

/// One declaration of an object.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DeclaredBy")]
pub(crate) struct DeclaredByView<'a> {
    /// How its tool calls it there.
    pub(crate) address: Cow<'a, str>,
    /// The baseline that has it.
    pub(crate) state: Cow<'a, str>,
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
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ResourceList")]
pub(crate) struct ListView<'a, T> {
    pub(crate) resources: T,
    /// How many there are before paging.
    #[serde(skip_deserializing)]
    pub(crate) total: usize,
    /// The namespace that was asked for; `*` for all.
    #[serde(skip_deserializing)]
    pub(crate) namespace: &'a str,
}

/// One field that is not as declared.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Difference")]
pub(crate) struct DifferenceView<'a> {
    /// The field's path: `spec.template.spec.containers[name=web].image`.
    pub(crate) path: Cow<'a, str>,
    /// What kind of field it is.
    #[schemars(with = "FieldClass")]
    field: Option<Word<FieldClass>>,
    /// What is declared; empty where nothing is.
    pub(super) expected: Cow<'a, str>,
    /// What is there; empty where nothing is.
    pub(super) actual: Cow<'a, str>,
    /// How to read `expected`: `plain` is a string as it is, `empty` an empty string, `json` a number, a boolean, a list or an object,
    /// `redacted` a digest, or JSON in which each string that begins like a digest is one, and `omitted` the number of fields
    /// that differ and are not listed.
    #[schemars(with = "ValueForm")]
    expected_form: Option<Word<ValueForm>>,
    /// How to read `actual`.
    #[schemars(with = "ValueForm")]
    actual_form: Option<Word<ValueForm>>,
    /// How bad it is.
    #[schemars(with = "Severity")]
    severity: Option<Word<Severity>>,
    /// Whether it happens by itself.
    #[schemars(with = "Expectation")]
    expectation: Option<Word<Expectation>>,
    /// What to do about it.
    #[schemars(with = "Advice")]
    advice: Option<Word<Advice>>,
    /// The class of tool that last set it.
    pub(crate) actor: Word<Actor>,
    /// The name of the field manager that last set it.
    pub(crate) manager: Option<Cow<'a, str>>,
    /// Since when it differs.
    #[schemars(with = "Timestamp")]
    pub(crate) onset: Option<Timestamp>,
    /// The source of the onset: `field_manager` is exact, `observed` is the time at which the exporter first saw the difference.
    #[schemars(with = "OnsetSource")]
    onset_source: Option<Word<OnsetSource>>,
    /// The rules that have something to say about it.
    pub(crate) rules: AsStrings<'a, MatchedBy>,
    /// The rule because of which it does not count.
    pub(crate) ignored_by: Option<Cow<'a, str>>,
}

/// What is declared, or what is there, as far as the source tells.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Spec")]
enum ComparedSpecView<'a> {
    /// Nothing is known, or nothing differs.
    #[default]
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
    Fields(BTreeMap<Cow<'a, str>, Cow<'a, str>>),
}

/// The forms of values, by their paths.
type FormsView<'a> = BTreeMap<Cow<'a, str>, ValueForm>;

/// What the views of all claims in a response have in common.
#[derive(Debug)]
pub(super) struct ViewContext<'a> {
    snapshot: &'a Snapshot,
    values: &'a ValueRedactor,
    /// RFC 3339, formatted once for all views.
    now: String,
    prices: Option<&'a Prices>,
    endpoints: &'a ServiceEndpoints,
    jobs: &'a TerraformJobs,
}

impl<'a> ViewContext<'a> {
    pub(super) fn new(
        values: &'a ValueRedactor,
        now: Timestamp,
        snapshot: &'a Snapshot,
        prices: Option<&'a Prices>,
        endpoints: &'a ServiceEndpoints,
        jobs: &'a TerraformJobs,
    ) -> Self {
        Self { snapshot, values, now: now.to_string(), prices, endpoints, jobs }
    }
}

/// What the views of all claims on objects of one kind have in common.
#[derive(Debug)]
pub(super) struct KindView<'a> {
    state: &'a KindState,
    /// Of the version that most objects are read in.
    api_version: String,
    resource_type: String,
}

impl<'a> KindView<'a> {
    pub(super) fn new(state: &'a KindState) -> Self {
        let kind = &state.kind;
        Self { state, api_version: kind.api_version(), resource_type: kind.kind.to_lowercase() }
    }

    fn api_version_of(&self, key: &ObjectKey) -> Cow<'_, str> {
        let is_usual = key.kind.version == self.state.kind.version;
        if is_usual { (&*self.api_version).into() } else { key.kind.api_version().into() }
    }
}

impl<'a> DeclaredByView<'a> {
    fn new(DeclaredBy { address, baseline }: &'a DeclaredBy) -> Self {
        Self { address: (&**address).into(), state: (&**baseline).into() }
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
        let difference_view = |difference| DifferenceView::new(difference, &key.namespace, values);
        let counted = episode.map_or(&[][..], |episode| &episode.differences);
        let differences: Vec<_> = counted.iter().map(difference_view).collect();
        let [(desired_spec, desired_forms), (actual_spec, actual_forms)] = specs(entry, &differences);
        let (endpoint, port) = match context.endpoints.endpoint(object) {
            Some(Endpoint { host, port }) => (Some(AsString(host)), port),
            None => (None, facts.port),
        };
        let (declared_by, prices) = (claim.declared_by(), context.prices);
        Self {
            deployment_id: deployment_id(entry),
            api_version: kind.api_version_of(key),
            kind: (&*key.kind.kind).into(),
            resource_type: &kind.resource_type,
            resource_name: (&*key.name).into(),
            namespace: (&*key.namespace).into(),
            phase: phase(object).into(),
            health_status: facts.health,
            message: (&*facts.message).into(),
            last_checked: (!state.is_stale(&key.namespace, &key.name)).then_some((&*context.now).into()),
            endpoint,
            port,
            connection_secret: facts.connection_secret.as_deref().map(Cow::Borrowed),
            actual_spec,
            desired_spec,
            actual_forms,
            desired_forms,
            drift_detected: claim.verdict.drifted_value() == Some(true),
            drift_details: drift_details(counted, &differences, context.snapshot.rules.set(), labels),
            resource_usage: usage(facts),
            estimated_monthly_cost: prices.and_then(|prices| monthly_cost(facts, prices)),
            drift_monthly_cost: prices.and_then(|prices| drift_cost(entry, prices)),
            cost_currency: prices.map(|prices| (&*prices.currency).into()),
            verdict: Word::Known(verdict),
            reason: reason.map(Word::Known),
            source: Word::Known(claim.source),
            address: declared_by.first().map(|declared| (&*declared.address).into()),
            state: declared_by.first().map(|declared| (&*declared.baseline).into()),
            declared_by: declared_by.iter().map(DeclaredByView::new).collect(),
            blind_fields: AsStrings::Values(
                claim.details.as_ref().map_or(&[], |details| &details.blind_fields),
            ),
            outputs: object.controller_status().map_or(&[], |record| &record.outputs),
            job: object.live().and_then(|object| context.jobs.newest_for(object)).map(JobView::new),
            differences,
            ignored: claim.verdict.ignored_differences().map(difference_view).collect(),
            untrusted: claim.verdict.untrusted_differences().iter().map(difference_view).collect(),
            onset: episode.map(|episode| episode.onset),
            onset_source: episode.and_then(Episode::onset_source).map(Word::Known),
            actor: worst.map(|worst| Word::Known(worst.actor)),
            manager: worst.and_then(Difference::manager).map(Cow::Borrowed),
            severity: worst.map(|worst| Word::Known(worst.severity)),
            expectation: worst.map(|worst| Word::Known(worst.expectation)),
            advice: worst.map(|worst| Word::Known(worst.advice)),
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

/// The desired and the actual spec: hashes, generations, or the fields that differ, with their forms.
fn specs<'a>(
    entry: &'a ClaimEntry,
    differences: &[DifferenceView<'a>],
) -> [(ComparedSpecView<'a>, FormsView<'a>); 2] {
    let without_fields = |spec| (spec, FormsView::new());
    let observed_state = entry.object.controller_status().map(|record| &record.observed_state);
    match (entry.claim.source, observed_state) {
        (Source::Annotation, _) => {
            let hash =
                entry.object.live().map_or(&HashBaseline::NotRequested, |object| &object.hash_baseline);
            return hashes(hash).map(without_fields);
        }
        (Source::StatusHash, Some(ObservedState::Hash(hash))) => return hashes(hash).map(without_fields),
        (Source::StatusHash, Some(ObservedState::Generation { observed, current, .. })) => {
            let observed = observed
                .map_or(ComparedSpecView::Unknown, |generation| ComparedSpecView::Generation { generation });
            return [observed, ComparedSpecView::Generation { generation: *current }].map(without_fields);
        }
        (_, _) => {}
    }
    if entry.claim.verdict.episode().is_none() {
        return [ComparedSpecView::Unknown, ComparedSpecView::Unknown].map(without_fields);
    }
    let desired = differences.iter().map(|view| (&view.path, &view.expected, view.expected_form.as_ref()));
    let actual = differences.iter().map(|view| (&view.path, &view.actual, view.actual_form.as_ref()));
    [fields(desired), fields(actual)]
}

fn fields<'a: 'v, 'v>(
    values: impl Iterator<Item = (&'v Cow<'a, str>, &'v Cow<'a, str>, Option<&'v Word<ValueForm>>)>,
) -> (ComparedSpecView<'a>, FormsView<'a>) {
    let (mut fields, mut forms) = (BTreeMap::new(), FormsView::new());
    for (path, text, form) in values {
        let form = form.and_then(Word::known).unwrap_or(ValueForm::Absent);
        // A removed and an added element may have the same path. Keep the value that exists.
        if form != ValueForm::Absent || !fields.contains_key(path) {
            fields.insert(path.clone(), text.clone());
            forms.insert(path.clone(), form);
        }
    }
    (ComparedSpecView::Fields(fields), forms)
}

fn hashes(hash: &HashBaseline) -> [ComparedSpecView<'_>; 2] {
    let (desired, actual) = match hash {
        HashBaseline::Match(digest) => (digest, digest),
        HashBaseline::Mismatch(mismatch) => (&mismatch.expected, &mismatch.actual),
        HashBaseline::NotRequested | HashBaseline::Absent | HashBaseline::Unusable(_) => {
            return [ComparedSpecView::Unknown, ComparedSpecView::Unknown];
        }
    };
    [desired, actual].map(|hash| ComparedSpecView::Hash { hash: AsString(hash) })
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
    /// A difference of an object in this namespace.
    pub(super) fn new(difference: &'a Difference, namespace: &str, values: &ValueRedactor) -> Self {
        let DisplayedValues { expected, actual } = values.redact(&difference.finding, namespace);
        Self {
            path: difference.finding.path.as_str().into(),
            field: Some(Word::Known(difference.finding.class)),
            expected_form: Some(Word::Known(expected.form())),
            actual_form: Some(Word::Known(actual.form())),
            expected: into_text(expected),
            actual: into_text(actual),
            severity: Some(Word::Known(difference.severity)),
            expectation: Some(Word::Known(difference.expectation)),
            advice: Some(Word::Known(difference.advice)),
            actor: Word::Known(difference.actor),
            manager: difference.manager().map(Cow::Borrowed),
            onset: Some(difference.onset),
            onset_source: Some(Word::Known(difference.onset_source)),
            rules: AsStrings::Values(&difference.matched),
            ignored_by: difference.ignored_by.as_ref().map(|ignored_by| ignored_by.as_str().into()),
        }
    }
}

impl DifferenceView<'_> {
    pub(crate) fn expected_value(&self) -> FieldValue {
        read_value(self.expected_form.as_ref(), &self.expected)
    }

    pub(crate) fn actual_value(&self) -> FieldValue {
        read_value(self.actual_form.as_ref(), &self.actual)
    }

    /// The [notations](FieldValue::notation) of the declared and the live value, for sentences.
    pub(super) fn notations(&self) -> [Cow<'_, str>; 2] {
        let sides = [(&self.expected, &self.expected_form), (&self.actual, &self.actual_form)];
        sides.map(|(text, form)| match form.as_ref().and_then(Word::known) {
            Some(form) => form.notation(text),
            None => (&**text).into(),
        })
    }
}

fn read_value(form: Option<&Word<ValueForm>>, text: &str) -> FieldValue {
    match form {
        Some(Word::Known(form)) => FieldValue::read(*form, text),
        // A form of a newer exporter. No rule must pin the text.
        Some(Word::Other(_)) => FieldValue::PartlyRedacted(text.into()),
        // An older exporter does not send the form. Its digests and its plain texts look alike.
        None => match KeyedDigest::parse(text) {
            Some(digest) => FieldValue::Redacted(digest),
            None if text.is_empty() => FieldValue::Absent,
            None if text == FieldValue::EMPTY => FieldValue::Text(Box::default()),
            None if is_compact_json(text) => FieldValue::Json(text.into()),
            None => FieldValue::Text(text.into()),
        },
    }
}

/// Whether a text is JSON other than a string or null, in the notation of the API. `1.10` and `[ 1 ]` are not in that notation.
fn is_compact_json(text: &str) -> bool {
    use serde_json::Value;
    let json = serde_json::from_str(text).ok().filter(|json| !matches!(json, Value::String(_) | Value::Null));
    json.map(|json: Value| json.to_string()).as_deref() == Some(text)
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
closed_set_schemas!(OnsetSource, Source, UnknownReason, ValueForm, VerdictKind);

// A word of a closed set. A response of a newer exporter may have words that this program does not know. This is no doc
// comment because it would become a description in `/openapi.json`.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(with = "T")]
pub(crate) enum Word<T> {
    Known(T),
    Other(Box<str>),
}

impl<T: ClosedSet> Word<T> {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Known(member) => member.as_str(),
            Self::Other(text) => text,
        }
    }

    pub(crate) fn known(&self) -> Option<T> {
        if let Self::Known(member) = self { Some(*member) } else { None }
    }
}

impl<T: ClosedSet> Display for Word<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

// Serializes with `Display`, without an allocation: a list has thousands of these.
#[derive(Debug, JsonSchema)]
#[schemars(inline, bound = "", rename = "AsString")]
pub(super) struct AsString<T>(#[schemars(with = "String")] pub(super) T);

impl<T: Display> Serialize for AsString<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

// Serializes each element with `Display`, and deserializes texts.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, bound(serialize = "T: Display", deserialize = ""))]
#[schemars(with = "Vec<String>", bound = "")]
pub(crate) enum AsStrings<'a, T> {
    #[serde(skip_deserializing, serialize_with = "collect_strings")]
    Values(&'a [T]),
    Texts(Vec<String>),
}

fn collect_strings<T: Display, S: Serializer>(values: &&[T], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(AsString))
}

impl<T: Display> AsStrings<'_, T> {
    /// Separated by commas.
    pub(crate) fn join(&self) -> String {
        match self {
            Self::Values(values) => values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
            Self::Texts(texts) => texts.join(", "),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::{DifferenceView, FieldClass, FieldValue, ValueRedactor};
    use crate::{
        server::query::difference_fixture,
        types::{RedactionKey, any_value},
    };

    /// The JSON of a difference with these values, as a trusted caller gets it.
    fn json(expected: &FieldValue, actual: &FieldValue) -> Value {
        let difference = difference_fixture(FieldClass::Image, "spec.a", expected.clone(), actual.clone());
        let redactor = ValueRedactor::with_plain_values(RedactionKey::new([2; 32]));
        serde_json::to_value(DifferenceView::new(&difference, "shop", &redactor)).unwrap()
    }

    fn read(json: &Value) -> (FieldValue, FieldValue) {
        let view: DifferenceView<'_> = serde_json::from_str(&json.to_string()).unwrap();
        (view.expected_value(), view.actual_value())
    }

    proptest! {
        #[test]
        fn values_of_a_response_read_back_as_themselves(expected in any_value(), actual in any_value()) {
            let json = json(&expected, &actual);
            let are_plain = [&expected, &actual].iter().all(|value| matches!(value, FieldValue::Text(_) | FieldValue::Json(_)));
            if expected == actual || are_plain || expected.text() != actual.text() {
                prop_assert_eq!(read(&json), (expected, actual));
            } else {
                // Both are redacted where the texts do not tell them apart.
                prop_assert_ne!(&json["expected"], &json["actual"]);
                for (read, value) in [(read(&json).0, expected), (read(&json).1, actual)] {
                    prop_assert!(read == value || matches!(read, FieldValue::Redacted(_)), "{:?}", read);
                }
            }
        }

        #[test]
        fn response_without_forms_is_read_by_its_texts(value in any_value()) {
            let mut json = json(&value, &FieldValue::Absent);
            for name in ["expectedForm", "actualForm"] {
                assert!(json.as_object_mut().unwrap().remove(name).is_some());
            }
            let (read, absent) = read(&json);
            prop_assert_eq!(absent, FieldValue::Absent);
            prop_assert_eq!(read.text(), value.text());
            // The text of a digest is never taken for a value that a rule may pin.
            if let FieldValue::Redacted(_) = value {
                prop_assert_eq!(read, value);
            }
        }
    }

    #[test]
    fn value_of_an_unknown_form_is_shown_and_not_pinned() {
        let mut json = json(&FieldValue::Absent, &FieldValue::Text("x".into()));
        json["actualForm"] = "encrypted".into();
        let (_, actual) = read(&json);
        assert_eq!((&*actual.text(), actual.value_digest()), ("x", None));
    }
}
