//! What each source says about one object, before what was known about it counts.

use std::sync::Arc;

use jiff::Timestamp;

use super::{
    ClusterMatch, Details, KindState, WatchState,
    baselines::{BaselineState, Baselines},
    claim::DeclaredBy,
    snapshot::is_answer,
};
use crate::{
    diff::{
        compare_kept, creator, declared::ClusterSchemas, judge, judge_record, seal_findings,
        terraform::Comparison,
    },
    types::{
        Cause, DeclaredBody, DeclaredObject, Document, FieldClass, Finding, HashBaseline, Judgement, Kind,
        LiveObject, ObjectKey, ObjectName, Source, UnknownReason,
    },
};

/// The circumstances in which something is found out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Whether an episode that shows now began while we watched.
    pub(super) counted: bool,
    /// Why claims end that are no longer made.
    pub(super) cause: Cause,
    /// The time.
    pub(super) now: Timestamp,
}

/// What is known about whether an object exists.
#[derive(Clone, Debug)]
pub(super) enum Presence {
    /// It does.
    Exists(Arc<LiveObject>),
    /// It does not.
    Absent,
    /// Its kind cannot be watched.
    Unwatched,
    /// Its kind was not listed yet, or nobody is to look for it.
    Unseen,
}

/// What one source says about an object.
#[derive(Debug)]
pub(super) struct Opinion {
    pub(super) source: Source,
    pub(super) judgement: Judgement,
    pub(super) details: Option<Details>,
}

/// What all sources say about an object, in the order of the sources. On an object that exists there is at least one opinion.
pub(super) fn opinions(
    key: &ObjectKey,
    presence: &Presence,
    baselines: &Baselines,
    shapes: &ClusterSchemas,
    now: Timestamp,
) -> Vec<Opinion> {
    let elsewhere = Source::ALL.iter().filter(|source| !source.is_on_object());
    let mut opinions: Vec<Opinion> =
        elsewhere.filter_map(|source| by_baselines(*source, key, presence, baselines, shapes)).collect();
    if let Presence::Exists(object) = presence {
        let plain = |source, judgement| Opinion { source, judgement, details: None };
        opinions.extend(by_kubectl(object, shapes));
        if let Some(record) = object.record() {
            opinions.push(plain(Source::StatusHash, judge_record(record, record.rests(now))));
        }
        // A Job is watched for how it runs, and nobody asks it for a hash.
        let is_only_watched = object.report.as_ref().is_some_and(|report| report.run.is_some());
        match (&object.stamp, opinions.is_empty()) {
            (HashBaseline::Unasked | HashBaseline::Absent, false) => {}
            (HashBaseline::Absent, true) if is_only_watched => {
                opinions.push(plain(Source::Nothing, Judgement::NoBaseline));
            }
            (HashBaseline::Unasked, true) => opinions.push(plain(Source::Nothing, Judgement::NoBaseline)),
            (_, _) => opinions.push(plain(Source::Annotation, judge(object))),
        }
    }
    for (fields, seal_key) in baselines.marked(key) {
        for opinion in &mut opinions {
            if let Judgement::Drifted(findings) = &mut opinion.judgement {
                seal_findings(findings, &fields, seal_key);
            }
        }
    }
    opinions.sort_by_key(|opinion| opinion.source);
    opinions
}

/// What the baselines of one source that declare an object say together.
fn by_baselines(
    source: Source,
    key: &ObjectKey,
    presence: &Presence,
    baselines: &Baselines,
    shapes: &ClusterSchemas,
) -> Option<Opinion> {
    match presence {
        Presence::Unseen => return None,
        // It was read before anybody asked for its fields, and is being read again.
        Presence::Exists(object) if object.document.is_none() => return None,
        Presence::Exists(_) | Presence::Absent | Presence::Unwatched => {}
    }
    let mut details = Details::default();
    let (mut judgements, mut declared_by) = (Vec::new(), Vec::new());
    for (state, declared) in baselines.declared(source, key) {
        // Nothing is said before it is known where it belongs, unless nobody will ever find out.
        if state.belonging == ClusterMatch::Undecided && !matches!(presence, Presence::Unwatched) {
            continue;
        }
        let (address, baseline) = (declared.address.clone(), state.baseline.name.clone());
        let judgement = judge_declared(state, declared, presence, shapes, &mut details);
        declared_by.push((rank(&judgement), DeclaredBy { address, baseline }));
        judgements.push(judgement);
    }
    // Whoever has something to say comes before those who have not.
    declared_by.sort_by_key(|(rank, _)| *rank);
    details.declared_by = declared_by.into_iter().map(|(_, own)| own).collect();
    let judgement = together(judgements)?;
    if let Presence::Exists(object) = presence {
        details.compared = object.document.as_ref().map(|document| document.content);
    }
    Some(Opinion { source, judgement, details: Some(details) })
}

/// What kubectl wrote down on an object says about it.
fn by_kubectl(object: &LiveObject, shapes: &ClusterSchemas) -> Option<Opinion> {
    let (applied, document) = (object.applied.as_ref()?, object.document.as_ref()?);
    let declared = &applied.declared;
    let judgement = match &declared.body {
        DeclaredBody::Opaque(reason) => Judgement::Unknown(*reason),
        _ if declared.object.version != object.key.kind.version => {
            Judgement::Unknown(UnknownReason::OtherVersion)
        }
        _ => match compare(declared, document, shapes) {
            Some(comparison) => judge_comparison(comparison),
            None => Judgement::InFlight,
        },
    };
    let details = Details { compared: Some(applied.rest), ..Details::default() };
    Some(Opinion { source: Source::LastApplied, judgement, details: Some(details) })
}

/// The smaller, the more it says.
fn rank(judgement: &Judgement) -> u8 {
    match judgement {
        Judgement::Drifted(_) | Judgement::Missing(_) | Judgement::Replaced(_) => 0,
        Judgement::InSync => 1,
        Judgement::InFlight | Judgement::NoBaseline | Judgement::Unknown(_) => 2,
    }
}

/// What one declaration says about an object.
fn judge_declared(
    state: &BaselineState,
    declared: &DeclaredObject,
    presence: &Presence,
    shapes: &ClusterSchemas,
    details: &mut Details,
) -> Judgement {
    if state.in_flight {
        return Judgement::InFlight;
    }
    if let Some(trouble) = &state.baseline.fault {
        return Judgement::Unknown(trouble.fault.unknown_reason());
    }
    if matches!(presence, Presence::Unwatched) {
        return Judgement::Unknown(UnknownReason::Unwatched);
    }
    if state.belonging == ClusterMatch::Elsewhere {
        return Judgement::Unknown(UnknownReason::OtherCluster);
    }
    let object = match presence {
        Presence::Exists(object) => object,
        Presence::Absent => return Judgement::Missing(missing(declared)),
        Presence::Unwatched | Presence::Unseen => return Judgement::Unknown(UnknownReason::Unwatched),
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
    let Some(comparison) = compare(declared, document, shapes) else {
        return Judgement::InFlight;
    };
    for path in &comparison.blind {
        if !details.blind.contains(path) {
            details.blind.push(path.clone());
        }
    }
    judge_comparison(comparison)
}

/// Compares an object with what is declared for it; none while it is being read how its kind is compared.
fn compare(declared: &DeclaredObject, document: &Document, shapes: &ClusterSchemas) -> Option<Comparison> {
    let ObjectName { group, version, kind, .. } = &declared.object;
    let api_version = format!("{group}/{version}");
    let shapes = shapes.of(api_version.trim_start_matches('/'), kind)?;
    Some(compare_kept(declared, document, shapes))
}

fn judge_comparison(comparison: Comparison) -> Judgement {
    match comparison.findings {
        // The baseline has just come with a key of its own, and the object is being read once more.
        _ if comparison.other_key => Judgement::InFlight,
        findings if findings.is_empty() => Judgement::InSync,
        findings => Judgement::Drifted(findings),
    }
}

/// Several declarations of one object are one claim: it is as declared if it is as each of them says that can be asked.
fn together(judgements: Vec<Judgement>) -> Option<Judgement> {
    let mut findings: Vec<Finding> = Vec::new();
    let mut unknown = None;
    let mut in_sync = false;
    for judgement in judgements {
        match judgement {
            Judgement::InFlight | Judgement::Missing(_) | Judgement::Replaced(_) => return Some(judgement),
            Judgement::Drifted(mut more) => {
                // One declaration may have two findings in one place of a list: what is gone, and what came.
                more.retain(|finding| !findings.iter().any(|own| own.path == finding.path));
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
    Finding {
        path: "metadata.name".into(),
        class: FieldClass::Existence,
        expected: declared.object.name.clone(),
        actual: Box::default(),
        writer: None,
    }
}

fn replaced(uid: &str, object: &LiveObject) -> Finding {
    Finding {
        path: "metadata.uid".into(),
        class: FieldClass::Existence,
        expected: uid.into(),
        actual: object.uid.clone(),
        writer: object.document.as_deref().and_then(creator),
    }
}

pub(super) fn presence(kinds: &[Arc<KindState>], key: &ObjectKey) -> Presence {
    match (object(kinds, key), of_type(kinds, &key.kind)) {
        (Some(object), _) => Presence::Exists(object.clone()),
        (None, Some(state)) => absence(state, key),
        (None, None) => Presence::Unseen,
    }
}

pub(super) fn object<'a>(kinds: &'a [Arc<KindState>], key: &ObjectKey) -> Option<&'a Arc<LiveObject>> {
    of_type(kinds, &key.kind)?.blocks.object(&key.namespace, &key.name)
}

pub(super) fn of_type<'a>(kinds: &'a [Arc<KindState>], kind: &Kind) -> Option<&'a Arc<KindState>> {
    kinds.iter().find(|state| state.kind.is_same_type(kind))
}

/// What it means that an object does not come.
pub(super) fn absence(state: &KindState, key: &ObjectKey) -> Presence {
    let would_bring = |stream: &&WatchState| stream.spec.misses_nothing(&key.namespace, &key.name);
    let mut streams = state.streams.iter().filter(would_bring);
    if streams.clone().any(|stream| stream.listed) {
        return Presence::Absent;
    }
    let refused = |stream: &WatchState| is_answer(&stream.health);
    let unwatchable = state.streams.iter().any(|stream| stream.spec.is_nothing() && refused(stream));
    if streams.any(refused) || unwatchable { Presence::Unwatched } else { Presence::Unseen }
}

#[cfg(test)]
mod tests {
    use super::{FieldClass, Finding, Judgement, together};

    fn drifted(values: &[(&str, &str, &str)]) -> Judgement {
        let finding = |(path, expected, actual): &(&str, &str, &str)| Finding {
            path: (*path).into(),
            class: FieldClass::Other,
            expected: (*expected).into(),
            actual: (*actual).into(),
            writer: None,
        };
        Judgement::Drifted(values.iter().map(finding).collect())
    }

    #[test]
    fn of_a_place_that_two_declare_the_first_is_told_with_all_that_it_says() {
        let replaced = [("spec.tags[0]", "a", ""), ("spec.tags[0]", "", "c")];
        let other = [("spec.size", "1", "2")];
        for (one, another) in [(&replaced[..], &other[..]), (&other, &replaced)] {
            let all = [one, another].concat();
            assert_eq!(together(vec![drifted(one), drifted(another)]), Some(drifted(&all)));
        }
        assert_eq!(together(vec![drifted(&replaced), drifted(&replaced)]), Some(drifted(&replaced)));
    }
}
