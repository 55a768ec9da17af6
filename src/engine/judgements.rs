//! The pure part of reconciliation: whether an object exists, and the judgement of each source on it. Of the claims so far, only
//! their sources matter.

use std::{collections::HashSet, sync::Arc};

use jiff::Timestamp;

use super::{
    BaselineState, ClaimDetails, ClaimEntry, ClusterMatch, DeclaredBy, KindState, WatchState,
    baselines::Baselines,
    finding_counts::{FindingBudget, NamespaceFindings},
    snapshot::is_refused,
    trust::Corroborations,
};
use crate::{
    diff::{
        Comparison, LiveContent, MAX_FINDINGS, ReportLimits, ReportedFields, compare, creator, is_secret,
        judge, judge_record, manifest::ClusterSchemas, omitted_findings, redact_findings,
    },
    types::{
        DeclaredBody, DeclaredObject, Document, FieldClass, FieldPath, FieldValue, Finding, HashBaseline,
        Judgement, Kind, LiveObject, ObjectKey, Source, UnknownReason,
    },
};

/// Whether an object exists, as far as the watches of its kind show.
#[derive(Clone, Debug)]
pub(super) enum Presence {
    Exists(Arc<LiveObject>),
    Absent,
    /// The API server refuses to list its kind.
    Unwatched,
    /// No watch that selects it is synced yet, or no watch selects it.
    NotSynced,
}

pub(super) fn presence(kinds: &[Arc<KindState>], key: &ObjectKey) -> Presence {
    match (find_object(kinds, key), find_kind(kinds, &key.kind)) {
        (Some(object), _) => Presence::Exists(object.clone()),
        (None, Some(kind)) => absence(kind, key),
        (None, None) => Presence::NotSynced,
    }
}

/// The presence of an object that is not in the cache.
pub(super) fn absence(kind: &KindState, key: &ObjectKey) -> Presence {
    let is_authoritative = |watch: &&WatchState| watch.spec.is_authoritative_for(&key.namespace, &key.name);
    let mut watches = kind.watches.iter().filter(is_authoritative);
    if watches.clone().any(|watch| watch.synced) {
        return Presence::Absent;
    }
    let refused = |watch: &WatchState| is_refused(&watch.health);
    let unwatchable = kind.watches.iter().any(|watch| watch.spec.matches_nothing() && refused(watch));
    if watches.any(refused) || unwatchable { Presence::Unwatched } else { Presence::NotSynced }
}

pub(super) fn find_object<'a>(kinds: &'a [Arc<KindState>], key: &ObjectKey) -> Option<&'a Arc<LiveObject>> {
    find_kind(kinds, &key.kind)?.blocks.object(&key.namespace, &key.name)
}

/// The kind of this group and name, in whatever version.
pub(super) fn find_kind<'a>(kinds: &'a [Arc<KindState>], kind: &Kind) -> Option<&'a Arc<KindState>> {
    kinds.iter().find(|state| state.kind.is_same_type(kind))
}

/// An object as all sources judge it.
struct JudgedObject<'a> {
    key: &'a ObjectKey,
    presence: &'a Presence,
    /// None if the object does not exist, or its content is not cached or not readable.
    content: Option<LiveContent<'a>>,
}

impl<'a> JudgedObject<'a> {
    fn new(key: &'a ObjectKey, presence: &'a Presence) -> Self {
        let document = match presence {
            Presence::Exists(object) => object.readable_document(),
            Presence::Absent | Presence::Unwatched | Presence::NotSynced => None,
        };
        Self { key, presence, content: document.map(LiveContent::new) }
    }

    fn document(&self) -> Option<&'a Document> {
        self.content.as_ref().map(LiveContent::document)
    }
}

#[derive(Debug)]
pub(super) struct SourceJudgement {
    pub(super) source: Source,
    pub(super) judgement: Judgement,
    pub(super) details: Option<ClaimDetails>,
}

impl SourceJudgement {
    fn plain(source: Source, judgement: Judgement) -> Self {
        Self { source, judgement, details: None }
    }
}

/// The judgements of all sources on an object, in the order of the sources. An object that exists has at least
/// one. `before` are the claims so far, and `budget` limits the findings of the new ones.
#[expect(clippy::too_many_arguments, reason = "all of them are inputs of one judgement")]
pub(super) fn source_judgements(
    key: &ObjectKey,
    presence: &Presence,
    before: &[Arc<ClaimEntry>],
    baselines: &Baselines,
    corroborations: &Corroborations,
    schemas: &ClusterSchemas,
    budget: FindingBudget<'_>,
    now: Timestamp,
) -> Vec<SourceJudgement> {
    let judged = JudgedObject::new(key, presence);
    let with_baselines = Source::ALL.iter().filter(|source| !source.is_on_object());
    let mut judgements: Vec<SourceJudgement> = with_baselines
        .filter_map(|source| {
            baseline_judgement(*source, &judged, before, baselines, corroborations, schemas, budget)
        })
        .collect();
    if let Presence::Exists(object) = presence {
        // An untrusted claim replaces no other claim.
        let is_unclaimed = |judgements: &[SourceJudgement]| {
            judgements.iter().all(|judged| matches!(judged.judgement, Judgement::Untrusted(_)))
        };
        judgements.extend(last_applied_judgement(object, judged.content.as_ref(), schemas, budget));
        if let Some(record) = object.controller_status() {
            let judgement = judge_record(record, record.in_grace_period(now));
            judgements.push(SourceJudgement::plain(Source::StatusHash, judgement));
        }
        let is_job = object.report.as_ref().is_some_and(|report| report.run.is_some());
        let has_hash_claim = match &object.hash_baseline {
            HashBaseline::NotRequested => false,
            // A Job is watched for its runs, not for a hash.
            HashBaseline::Absent => is_unclaimed(&judgements) && !is_job,
            HashBaseline::Unusable(_) | HashBaseline::Match(_) | HashBaseline::Mismatch(_) => true,
        };
        if has_hash_claim {
            judgements.push(SourceJudgement::plain(Source::Annotation, judge(object)));
        } else if is_unclaimed(&judgements) {
            judgements.push(SourceJudgement::plain(Source::Unclaimed, Judgement::NoBaseline));
        }
    }
    // A field that one trusted baseline marks as sensitive is redacted in the findings of all sources.
    for (fields, redaction_key) in baselines.sensitive_fields_of(key, corroborations) {
        for judgement in &mut judgements {
            if let Judgement::Drifted(findings) | Judgement::Untrusted(findings) = &mut judgement.judgement {
                redact_findings(findings, &fields, redaction_key);
            }
        }
    }
    for judgement in &mut judgements {
        if let Judgement::Untrusted(findings) = &mut judgement.judgement {
            findings.retain(is_listed_untrusted);
        }
    }
    judgements.sort_by_key(|judgement| judgement.source);
    judgements
}

/// A listed finding must not show whether the author of an untrusted baseline guessed a value correctly.
fn is_listed_untrusted(finding: &Finding) -> bool {
    finding.class.is_public() && !has_redacted_value(finding)
}

fn has_redacted_value(finding: &Finding) -> bool {
    finding.expected.is_redacted() || finding.actual.is_redacted()
}

/// The merged judgement of all baselines of one source that declare an object. Untrusted baselines count only if no trusted
/// baseline declares the object. Their findings are untrusted.
fn baseline_judgement(
    source: Source,
    judged: &JudgedObject<'_>,
    before: &[Arc<ClaimEntry>],
    baselines: &Baselines,
    corroborations: &Corroborations,
    schemas: &ClusterSchemas,
    budget: FindingBudget<'_>,
) -> Option<SourceJudgement> {
    let JudgedObject { key, presence, .. } = judged;
    let is_known = |entry: &Arc<ClaimEntry>| entry.claim.source == source;
    match presence {
        Presence::NotSynced => return None,
        // The object was read before a baseline needed its fields, and is being listed again. A new claim waits for that;
        // a claim that is known, for example on a missing object, is in flight.
        Presence::Exists(object) if object.document.is_none() && !before.iter().any(is_known) => return None,
        Presence::Exists(_) | Presence::Absent | Presence::Unwatched => {}
    }
    let mut details = ClaimDetails::default();
    let (mut judgements, mut declared_by) = (Vec::new(), Vec::new());
    let (mut untrusted, mut untrusted_by) = (MergedFindings::default(), Vec::new());
    let mut untrusted_findings = NamespaceFindings::default();
    for (state, declared) in baselines.declared(source, key) {
        // The cluster of a baseline is decided before its objects are judged, unless they cannot be watched
        // at all.
        if state.cluster_match == ClusterMatch::Undecided && !matches!(presence, Presence::Unwatched) {
            continue;
        }
        let (address, baseline) = (declared.address.clone(), state.baseline.name.clone());
        let by = DeclaredBy { address, baseline };
        if corroborations.trust(&state.baseline, key) {
            let namespace = state.baseline.authority.namespace();
            let max_findings = budget.room(source, namespace, &details.counted_findings);
            let limits = ReportLimits { fields: ReportedFields::All, max_findings };
            let judgement = judge_declared(state, declared, judged, schemas, limits, &mut details);
            details.counted_findings.add(namespace, finding_count(&judgement));
            declared_by.push((precedence(&judgement), by));
            judgements.push(judgement);
        } else if matches!(presence, Presence::Exists(_)) && !is_secret(key.kind.group_kind()) {
            // A correct guess must look like a wrong one, and an invented object is not listed.
            let namespace = state.baseline.authority.namespace();
            let max_findings = budget.room(source, namespace, &untrusted_findings);
            let limits = ReportLimits { fields: ReportedFields::Public, max_findings };
            let judgement =
                judge_declared(state, declared, judged, schemas, limits, &mut ClaimDetails::default());
            untrusted_findings.add(namespace, finding_count(&judgement));
            match judgement {
                Judgement::Drifted(findings) => untrusted.add(findings),
                Judgement::Replaced(finding) => untrusted.add(vec![finding]),
                _ => {}
            }
            untrusted_by.push(by);
        }
    }
    if judgements.is_empty() && !untrusted_by.is_empty() {
        let details = ClaimDetails {
            declared_by: untrusted_by,
            counted_findings: untrusted_findings,
            ..ClaimDetails::default()
        };
        return Some(SourceJudgement {
            source,
            judgement: Judgement::Untrusted(untrusted.finish()),
            details: Some(details),
        });
    }
    declared_by.sort_by_key(|(rank, _)| *rank);
    details.declared_by = declared_by.into_iter().map(|(_, declared_by)| declared_by).collect();
    let judgement = merge_judgements(judgements)?;
    details.compared_content = judged.document().map(|document| document.content);
    Some(SourceJudgement { source, judgement, details: Some(details) })
}

fn finding_count(judgement: &Judgement) -> usize {
    if let Judgement::Drifted(findings) = judgement { findings.len() } else { 0 }
}

/// The findings of several declarations of one object.
#[derive(Default)]
struct MergedFindings {
    findings: Vec<Finding>,
    /// The paths of the findings; empty as long as they are of one declaration.
    paths: HashSet<Box<str>>,
    omitted: usize,
    /// Whether any omitted finding has redacted values.
    redacted: bool,
}

impl MergedFindings {
    /// Adds the findings of the next declaration, except those at paths of earlier ones. One declaration may report a path twice: the
    /// element that was removed from a list, and the element that was added.
    fn add(&mut self, mut findings: Vec<Finding>) {
        if self.findings.is_empty() {
            self.findings = findings;
            return;
        }
        if self.paths.is_empty() {
            self.paths.extend(self.findings.iter().map(|finding| finding.path.as_str().into()));
        }
        findings.retain(|finding| !self.paths.contains(finding.path.as_str()));
        // Together not more than one comparison may have.
        let room = (2 * MAX_FINDINGS).saturating_sub(self.findings.len());
        for finding in findings.drain(room.min(findings.len())..) {
            self.omitted += if let FieldValue::Omitted { count, .. } = finding.actual { count } else { 1 };
            self.redacted |= has_redacted_value(&finding);
        }
        self.paths.extend(findings.iter().map(|finding| finding.path.as_str().into()));
        self.findings.extend(findings);
    }

    fn finish(mut self) -> Vec<Finding> {
        if self.omitted > 0 {
            self.findings.push(omitted_findings(self.omitted, self.redacted));
        }
        self.findings
    }
}

fn last_applied_judgement(
    object: &LiveObject,
    content: Option<&LiveContent<'_>>,
    schemas: &ClusterSchemas,
    budget: FindingBudget<'_>,
) -> Option<SourceJudgement> {
    let declared = object.applied.declared()?;
    let mut counted_findings = NamespaceFindings::default();
    let namespace = Some(&*object.key.namespace).filter(|namespace| !namespace.is_empty());
    let max_findings = budget.room(Source::LastApplied, namespace, &counted_findings);
    let limits = ReportLimits { fields: ReportedFields::All, max_findings };
    let judgement = match (&declared.body, content) {
        (DeclaredBody::Opaque(reason), _) => Judgement::Unknown(*reason),
        (_, None) => Judgement::Unknown(UnknownReason::Unreadable),
        (_, Some(_)) if declared.object.version != object.key.kind.version => {
            Judgement::Unknown(UnknownReason::OtherVersion)
        }
        (_, Some(content)) => match compare_if_known(declared, content, schemas, limits) {
            Some(comparison) => judge_comparison(comparison),
            None => Judgement::InFlight,
        },
    };
    let compared_content = content.map(|content| content.document().content_beside_last_applied);
    counted_findings.add(namespace, finding_count(&judgement));
    let details = ClaimDetails { compared_content, counted_findings, ..ClaimDetails::default() };
    Some(SourceJudgement { source: Source::LastApplied, judgement, details: Some(details) })
}

/// Judges an object by one declaration. Adds the blind fields to `details`.
fn judge_declared(
    state: &BaselineState,
    declared: &DeclaredObject,
    judged: &JudgedObject<'_>,
    schemas: &ClusterSchemas,
    limits: ReportLimits,
    details: &mut ClaimDetails,
) -> Judgement {
    let JudgedObject { presence, content, .. } = judged;
    if state.in_flight {
        return Judgement::InFlight;
    }
    if let Some(error) = &state.baseline.fault {
        return Judgement::Unknown(error.fault.unknown_reason());
    }
    let is_elsewhere = state.cluster_match == ClusterMatch::Elsewhere;
    let object = match presence {
        Presence::Unwatched | Presence::NotSynced => return Judgement::Unknown(UnknownReason::Unwatched),
        _ if is_elsewhere => return Judgement::Unknown(UnknownReason::OtherCluster),
        Presence::Exists(object) => object,
        Presence::Absent => return Judgement::Missing(missing(declared)),
    };
    if let Some(uid) = declared.uid.as_ref().filter(|uid| **uid != object.uid) {
        return Judgement::Replaced(replaced(uid, object, content.as_ref()));
    }
    if let DeclaredBody::Opaque(reason) = &declared.body {
        return Judgement::Unknown(*reason);
    }
    if declared.object.version != object.key.kind.version {
        return Judgement::Unknown(UnknownReason::OtherVersion);
    }
    let content = match content {
        _ if object.document.is_none() => return Judgement::InFlight,
        None => return Judgement::Unknown(UnknownReason::Unreadable),
        Some(content) => content,
    };
    let Some(comparison) = compare_if_known(declared, content, schemas, limits) else {
        return Judgement::InFlight;
    };
    for path in &comparison.blind {
        if !details.blind_fields.contains(path) {
            details.blind_fields.push(path.clone());
        }
    }
    judge_comparison(comparison)
}

/// None while the schema of the kind is being read.
fn compare_if_known(
    declared: &DeclaredObject,
    content: &LiveContent<'_>,
    schemas: &ClusterSchemas,
    limits: ReportLimits,
) -> Option<Comparison> {
    let schemas = schemas.of(&declared.object.api_version(), &declared.object.kind)?;
    Some(compare(declared, content.get(), schemas, limits))
}

fn judge_comparison(comparison: Comparison) -> Judgement {
    match comparison.findings {
        // The baseline is new and has its own redaction key; the object is being listed again to redact it
        // with that key.
        _ if comparison.unknown_key => Judgement::InFlight,
        findings if findings.is_empty() => Judgement::InSync,
        findings => Judgement::Drifted(findings),
    }
}

/// Merges the judgements by several declarations of one object, which are one claim. The judgement with the lowest number wins:
///
/// | precedence | judgement | because |
/// |---|---|---|
/// | 0 | missing, replaced | the declared object does not exist, whatever the fields of the live one |
/// | 1 | drifted | at least one declaration is violated now; the findings of all of them count |
/// | 2 | in flight | one declaration may change soon; until then the claim keeps its last value |
/// | 3 | in sync | the object matches every declaration that can be compared |
/// | 4 | unknown, no baseline | no declaration can be compared |
///
/// Untrusted declarations are not merged: see [`baseline_judgement`]. Within a row the first declaration wins.
/// [`super::claim::step_episode`] has the table of where an episode starts and ends.
fn merge_judgements(judgements: Vec<Judgement>) -> Option<Judgement> {
    let first = judgements.iter().map(precedence).min()?;
    let mut drifted = MergedFindings::default();
    for judgement in judgements.into_iter().filter(|judgement| precedence(judgement) == first) {
        match judgement {
            Judgement::Drifted(findings) => drifted.add(findings),
            judgement => return Some(judgement),
        }
    }
    Some(Judgement::Drifted(drifted.finish()))
}

/// The row of a judgement in the table of [`merge_judgements`].
fn precedence(judgement: &Judgement) -> u8 {
    match judgement {
        Judgement::Missing(_) | Judgement::Replaced(_) => 0,
        Judgement::Drifted(_) => 1,
        Judgement::InFlight => 2,
        Judgement::InSync => 3,
        Judgement::Unknown(_) | Judgement::NoBaseline | Judgement::Untrusted(_) => 4,
    }
}

fn missing(declared: &DeclaredObject) -> Finding {
    let path = FieldPath::of_fields(["metadata", "name"]);
    Finding::new(path, FieldClass::Existence, (&*declared.object.name).into(), FieldValue::Absent)
}

fn replaced(uid: &str, object: &LiveObject, content: Option<&LiveContent<'_>>) -> Finding {
    let owner = content.and_then(|content| creator(content.get()));
    let path = FieldPath::of_fields(["metadata", "uid"]);
    Finding { owner, ..Finding::new(path, FieldClass::Existence, uid.into(), (&*object.uid).into()) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use serde_json::json;

    use super::super::finding_counts::FindingCounts;
    use crate::{
        diff::{manifest::declared_object, pack_live_object, parsed_bytes, unpack},
        types::{
            Authority, Baseline, BaselineOrigin, LastApplied, LiveDocument, ObjectRef, RedactionKey,
            RedactionPolicy, SkippedResources,
        },
    };

    use super::{
        Baselines, ClusterSchemas, Corroborations, FieldClass, FieldValue, Finding, FindingBudget, Judgement,
        Kind, LiveObject, MAX_FINDINGS, MergedFindings, ObjectKey, Presence, Source, UnknownReason,
        is_listed_untrusted, merge_judgements, omitted_findings, source_judgements,
    };

    #[test]
    fn live_object_is_unpacked_once_for_all_declarations() {
        let key = ObjectKey::new(Kind::undiscovered("", "v1", "ConfigMap"), "shop", "web");
        let config_map = |value: &str| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": value},
                "metadata": {"name": "web", "namespace": "shop"}})
        };
        let redaction = RedactionKey::new([1; 32]);
        let declared = |value: &str| {
            declared_object(
                ObjectRef::new("", "v1", "ConfigMap", "shop", "web"),
                config_map(value),
                &redaction,
            )
        };
        let live = pack_live_object(config_map("live"), &key.kind, &RedactionPolicy::new(redaction.clone()));
        let (applied, installed, managed) = (declared("applied"), declared("installed"), declared("managed"));
        let declarations = [&applied, &installed, &managed].map(|declared| declared.body.packed().unwrap());
        let unpacked: usize = declarations
            .into_iter()
            .chain([&live.packed])
            .map(|packed| unpack(packed).to_string().len())
            .sum();
        let mut baselines = Baselines::default();
        for (source, declared) in [(Source::Helm, installed), (Source::Manifest, managed)] {
            let baseline = Baseline {
                source,
                name: "shop".into(),
                origin: BaselineOrigin::Manifests,
                version: None,
                objects: vec![Arc::new(declared)],
                skipped: SkippedResources::default(),
                fault: None,
                lock: None,
                this_cluster: true,
                authority: Authority::Cluster,
            };
            baselines.upsert(&Arc::new(baseline), Timestamp::UNIX_EPOCH);
        }
        let presence = Presence::Exists(Arc::new(LiveObject {
            document: Some(Box::new(LiveDocument::Readable(live))),
            applied: LastApplied::Declared(Box::new(applied)),
            ..LiveObject::named(key.clone())
        }));
        let (corroborations, schemas) = (Corroborations::default(), ClusterSchemas::default());
        parsed_bytes::take();
        let judgements = source_judgements(
            &key,
            &presence,
            &[],
            &baselines,
            &corroborations,
            &schemas,
            FindingBudget::unlimited(&FindingCounts::default()),
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(parsed_bytes::take(), unpacked);
        let drifted = judgements.iter().filter(|found| matches!(found.judgement, Judgement::Drifted(_)));
        assert_eq!(drifted.count(), 3, "{judgements:?}");
    }

    fn drifted(values: &[(&str, &str, &str)]) -> Judgement {
        let value = |text: &str| if text.is_empty() { FieldValue::Absent } else { text.into() };
        let finding = |(path, expected, actual): &(&str, &str, &str)| {
            Finding::new(path.parse().unwrap(), FieldClass::Other, value(expected), value(actual))
        };
        Judgement::Drifted(values.iter().map(finding).collect())
    }

    #[test]
    fn merged_judgement_of_many_declarations_is_limited_and_counts_the_others() {
        let declaration = |release: usize| {
            let finding = |field| {
                let path = format!("data.r{release}k{field}").parse().unwrap();
                Finding::new(path, FieldClass::Data, "a".into(), "b".into())
            };
            Judgement::Drifted((0..MAX_FINDINGS).map(finding).collect())
        };
        let merged = merge_judgements((0..5).map(declaration).collect());
        let Some(Judgement::Drifted(findings)) = merged else { panic!("{merged:?}") };
        assert_eq!(findings.len(), 2 * MAX_FINDINGS + 1);
        let last = findings.last().unwrap();
        assert_eq!(
            (last.class, &*last.actual.text()),
            (FieldClass::Existence, "and 3000 more fields differ")
        );
        assert_eq!(last.actual, FieldValue::Omitted { count: 3000, redacted: false });
    }

    #[test]
    fn omitted_redacted_fields_are_not_counted_for_an_untrusted_baseline() {
        assert!(is_listed_untrusted(&omitted_findings(1, false)));
        assert!(!is_listed_untrusted(&omitted_findings(1, true)));
        let redacted = Finding {
            actual: FieldValue::PartlyRedacted("[]".into()),
            ..Finding::new("data.z".parse().unwrap(), FieldClass::Data, "a".into(), FieldValue::Absent)
        };
        let plain = |declaration: usize| {
            let finding = move |field| {
                let path = format!("data.r{declaration}k{field}").parse().unwrap();
                Finding::new(path, FieldClass::Data, "a".into(), "b".into())
            };
            (0..2 * MAX_FINDINGS).map(finding).collect::<Vec<_>>()
        };
        let mut merged = MergedFindings::default();
        [plain(0), plain(1), vec![redacted, omitted_findings(7, false)]]
            .into_iter()
            .for_each(|findings| merged.add(findings));
        let omitted = FieldValue::Omitted { count: 2 * MAX_FINDINGS + 1 + 7, redacted: true };
        assert_eq!(merged.finish().last().unwrap().actual, omitted);
    }

    #[test]
    fn merged_judgement_keeps_all_findings_of_the_first_declaration_of_a_path() {
        let replaced = [("spec.tags[0]", "a", ""), ("spec.tags[0]", "", "c")];
        let other = [("spec.size", "1", "2")];
        for (one, another) in [(&replaced[..], &other[..]), (&other, &replaced)] {
            let all = [one, another].concat();
            assert_eq!(merge_judgements(vec![drifted(one), drifted(another)]), Some(drifted(&all)));
        }
        assert_eq!(merge_judgements(vec![drifted(&replaced), drifted(&replaced)]), Some(drifted(&replaced)));
    }
    fn existence() -> Finding {
        Finding::new("metadata.uid".parse().unwrap(), FieldClass::Existence, "a".into(), "b".into())
    }

    /// All judgements, those that win first.
    fn by_precedence() -> [Judgement; 7] {
        [
            Judgement::Missing(existence()),
            Judgement::Replaced(existence()),
            drifted(&[("spec.size", "1", "2")]),
            Judgement::InFlight,
            Judgement::InSync,
            Judgement::Unknown(UnknownReason::Encrypted),
            Judgement::NoBaseline,
        ]
    }

    #[test]
    fn merged_judgement_of_every_pair_is_the_first_by_precedence() {
        let all = by_precedence();
        for (at, first) in all.iter().enumerate() {
            for other in &all[at..] {
                // Between two of these the order of the declarations decides.
                let is_tie = matches!(
                    (first, other),
                    (Judgement::Missing(_), Judgement::Replaced(_))
                        | (Judgement::Unknown(_), Judgement::NoBaseline)
                );
                let merge = |one: &Judgement, another: &Judgement| {
                    merge_judgements(vec![one.clone(), another.clone()])
                };
                assert_eq!(merge(first, other).as_ref(), Some(first), "{first:?}, {other:?}");
                let last = if is_tie { other } else { first };
                assert_eq!(merge(other, first).as_ref(), Some(last), "{other:?}, {first:?}");
            }
        }
        assert_eq!(merge_judgements(Vec::new()), None);
    }
}
