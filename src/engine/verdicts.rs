//! The pure part of reconciliation: whether an object exists, and the judgement of each source on it, without
//! regard to the claims so far.

use std::sync::Arc;

use jiff::Timestamp;

use super::{
    BaselineState, ClaimDetails, ClusterMatch, DeclaredBy, KindState, WatchState, baselines::Baselines,
    snapshot::is_refused,
};
use crate::{
    diff::{Comparison, compare, creator, judge, judge_record, manifest::ClusterSchemas, redact_findings},
    types::{
        DeclaredBody, DeclaredObject, Document, FieldClass, FieldPath, Finding, HashBaseline, Judgement,
        Kind, LiveObject, ObjectKey, ObjectRef, Source, UnknownReason,
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

#[derive(Debug)]
pub(super) struct SourceVerdict {
    pub(super) source: Source,
    pub(super) judgement: Judgement,
    pub(super) details: Option<ClaimDetails>,
}

impl SourceVerdict {
    fn plain(source: Source, judgement: Judgement) -> Self {
        Self { source, judgement, details: None }
    }
}

/// The verdicts of all sources on an object, in the order of the sources. An object that exists has at least
/// one.
pub(super) fn source_verdicts(
    key: &ObjectKey,
    presence: &Presence,
    baselines: &Baselines,
    schemas: &ClusterSchemas,
    now: Timestamp,
) -> Vec<SourceVerdict> {
    let with_baselines = Source::ALL.iter().filter(|source| !source.is_on_object());
    let mut verdicts: Vec<SourceVerdict> = with_baselines
        .filter_map(|source| baseline_verdict(*source, key, presence, baselines, schemas))
        .collect();
    if let Presence::Exists(object) = presence {
        verdicts.extend(last_applied_verdict(object, schemas));
        if let Some(record) = object.controller_status() {
            let judgement = judge_record(record, record.in_grace_period(now));
            verdicts.push(SourceVerdict::plain(Source::StatusHash, judgement));
        }
        let is_job = object.report.as_ref().is_some_and(|report| report.run.is_some());
        let has_hash_claim = match &object.hash_baseline {
            HashBaseline::NotRequested => false,
            // A Job is watched for its runs, not for a hash.
            HashBaseline::Absent => verdicts.is_empty() && !is_job,
            HashBaseline::Unusable(_) | HashBaseline::Match(_) | HashBaseline::Mismatch(_) => true,
        };
        if has_hash_claim {
            verdicts.push(SourceVerdict::plain(Source::Annotation, judge(object)));
        } else if verdicts.is_empty() {
            verdicts.push(SourceVerdict::plain(Source::Unclaimed, Judgement::NoBaseline));
        }
    }
    // A field that one baseline marks as sensitive is redacted in the findings of all sources.
    for (fields, redaction_key) in baselines.sensitive_fields_of(key) {
        for verdict in &mut verdicts {
            if let Judgement::Drifted(findings) = &mut verdict.judgement {
                redact_findings(findings, &fields, redaction_key);
            }
        }
    }
    verdicts.sort_by_key(|verdict| verdict.source);
    verdicts
}

/// The merged verdict of all baselines of one source that declare an object.
fn baseline_verdict(
    source: Source,
    key: &ObjectKey,
    presence: &Presence,
    baselines: &Baselines,
    schemas: &ClusterSchemas,
) -> Option<SourceVerdict> {
    match presence {
        Presence::NotSynced => return None,
        // The object was listed before a baseline needed its fields, and is being listed again.
        Presence::Exists(object) if object.document.is_none() => return None,
        Presence::Exists(_) | Presence::Absent | Presence::Unwatched => {}
    }
    let mut details = ClaimDetails::default();
    let (mut judgements, mut declared_by) = (Vec::new(), Vec::new());
    for (state, declared) in baselines.declared(source, key) {
        // The cluster of a baseline is decided before its objects are judged, unless they cannot be watched
        // at all.
        if state.cluster_match == ClusterMatch::Undecided && !matches!(presence, Presence::Unwatched) {
            continue;
        }
        let (address, baseline) = (declared.address.clone(), state.baseline.name.clone());
        let judgement = judge_declared(state, declared, presence, schemas, &mut details);
        declared_by.push((certainty_rank(&judgement), DeclaredBy { address, baseline }));
        judgements.push(judgement);
    }
    declared_by.sort_by_key(|(rank, _)| *rank);
    details.declared_by = declared_by.into_iter().map(|(_, declared_by)| declared_by).collect();
    let judgement = merge_judgements(judgements)?;
    if let Presence::Exists(object) = presence {
        details.compared_content = object.document.as_ref().map(|document| document.content);
    }
    Some(SourceVerdict { source, judgement, details: Some(details) })
}

fn last_applied_verdict(object: &LiveObject, schemas: &ClusterSchemas) -> Option<SourceVerdict> {
    let (declared, document) = (object.applied.as_ref()?, object.document.as_ref()?);
    let judgement = match &declared.body {
        DeclaredBody::Opaque(reason) => Judgement::Unknown(*reason),
        _ if declared.object.version != object.key.kind.version => {
            Judgement::Unknown(UnknownReason::OtherVersion)
        }
        _ => match compare_if_known(declared, document, schemas) {
            Some(comparison) => judge_comparison(comparison),
            None => Judgement::InFlight,
        },
    };
    let details = ClaimDetails {
        compared_content: Some(document.content_beside_last_applied),
        ..ClaimDetails::default()
    };
    Some(SourceVerdict { source: Source::LastApplied, judgement, details: Some(details) })
}

/// Orders judgements by how much they say: drift, in sync, unknown.
fn certainty_rank(judgement: &Judgement) -> u8 {
    match judgement {
        Judgement::Drifted(_) | Judgement::Missing(_) | Judgement::Replaced(_) => 0,
        Judgement::InSync => 1,
        Judgement::InFlight | Judgement::NoBaseline | Judgement::Unknown(_) => 2,
    }
}

/// Judges an object by one declaration. Adds the blind fields to `details`.
fn judge_declared(
    state: &BaselineState,
    declared: &DeclaredObject,
    presence: &Presence,
    schemas: &ClusterSchemas,
    details: &mut ClaimDetails,
) -> Judgement {
    if state.in_flight {
        return Judgement::InFlight;
    }
    if let Some(error) = &state.baseline.fault {
        return Judgement::Unknown(error.fault.unknown_reason());
    }
    if matches!(presence, Presence::Unwatched) {
        return Judgement::Unknown(UnknownReason::Unwatched);
    }
    if state.cluster_match == ClusterMatch::Elsewhere {
        return Judgement::Unknown(UnknownReason::OtherCluster);
    }
    let object = match presence {
        Presence::Exists(object) => object,
        Presence::Absent => return Judgement::Missing(missing(declared)),
        Presence::Unwatched | Presence::NotSynced => return Judgement::Unknown(UnknownReason::Unwatched),
    };
    if let Some(uid) = declared.uid.as_ref().filter(|uid| **uid != object.uid) {
        return Judgement::Replaced(replaced(uid, object));
    }
    if let DeclaredBody::Opaque(reason) = &declared.body {
        return Judgement::Unknown(*reason);
    }
    if declared.object.version != object.key.kind.version {
        return Judgement::Unknown(UnknownReason::OtherVersion);
    }
    let Some(document) = object.document.as_ref().filter(|document| !document.is_unreadable()) else {
        return Judgement::Unknown(UnknownReason::Unreadable);
    };
    let Some(comparison) = compare_if_known(declared, document, schemas) else {
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
    document: &Document,
    schemas: &ClusterSchemas,
) -> Option<Comparison> {
    let ObjectRef { group, version, kind, .. } = &declared.object;
    let api_version = format!("{group}/{version}");
    let schemas = schemas.of(api_version.trim_start_matches('/'), kind)?;
    Some(compare(declared, document, schemas))
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

/// Several declarations of one object are one claim, which is in sync if the object matches every declaration
/// that can be compared.
fn merge_judgements(judgements: Vec<Judgement>) -> Option<Judgement> {
    let mut findings: Vec<Finding> = Vec::new();
    let mut unknown = None;
    let mut in_sync = false;
    for judgement in judgements {
        match judgement {
            Judgement::InFlight | Judgement::Missing(_) | Judgement::Replaced(_) => return Some(judgement),
            Judgement::Drifted(mut more) => {
                // One declaration may report a path twice: the element that was removed from a list, and the
                // element that was added. Only paths of other declarations are duplicates.
                more.retain(|finding| !findings.iter().any(|known| known.path == finding.path));
                findings.extend(more);
            }
            Judgement::InSync => in_sync = true,
            Judgement::Unknown(_) | Judgement::NoBaseline => unknown = unknown.or(Some(judgement)),
        }
    }
    match (findings.is_empty(), in_sync) {
        (false, _) => Some(Judgement::Drifted(findings)),
        (true, true) => Some(Judgement::InSync),
        (true, false) => unknown,
    }
}

fn missing(declared: &DeclaredObject) -> Finding {
    Finding::new(FieldPath::of_fields(["metadata", "name"]), FieldClass::Existence, &declared.object.name, "")
}

fn replaced(uid: &str, object: &LiveObject) -> Finding {
    let owner = object.document.as_deref().and_then(creator);
    let path = FieldPath::of_fields(["metadata", "uid"]);
    Finding { owner, ..Finding::new(path, FieldClass::Existence, uid, &object.uid) }
}

#[cfg(test)]
mod tests {
    use super::{FieldClass, Finding, Judgement, merge_judgements};

    fn drifted(values: &[(&str, &str, &str)]) -> Judgement {
        let finding = |(path, expected, actual): &(&str, &str, &str)| {
            Finding::new(path.parse().unwrap(), FieldClass::Other, expected, actual)
        };
        Judgement::Drifted(values.iter().map(finding).collect())
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
}
