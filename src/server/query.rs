//! Reads a snapshot: lookup by name, filter, sort and paging. The API, the gate and the pages share these, so that the
//! same question has the same answer everywhere.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use axum::extract::rejection::QueryRejection;
use jiff::Timestamp;

#[cfg(test)]
use crate::types::{Actor, Advice, Difference, Expectation, FieldClass, FieldValue, Finding, OnsetSource};
use crate::{
    engine::{ClaimEntry, KindState, Snapshot, Transition},
    rules::Rule,
    types::{
        ClosedSet, Episode, GroupKind, Health, JobOutcome, JobRun, Kind, LiveObject, MatchedBy,
        NamespacedName, ObjectKey, Severity, Source, UnknownReason, VerdictKind, WorstDifference,
    },
};

/// `deployment`, `deployments`, `deployment.apps` and `deployments.apps` name the same kind, in any case.
fn matches_kind(kind: &Kind, name: &str) -> bool {
    let (name, group) = name.split_once('.').map_or((name, None), |(name, group)| (name, Some(group)));
    (name.eq_ignore_ascii_case(&kind.kind) || name.eq_ignore_ascii_case(&kind.plural))
        && group.is_none_or(|group| group.eq_ignore_ascii_case(&kind.group))
}

/// Why a page does not understand its URL.
#[derive(Debug, thiserror::Error)]
pub(super) enum QueryError {
    #[error("{}", .0.body_text())]
    Malformed(#[from] QueryRejection),
    #[error("unknown {what} `{text}`; valid values: {}", .valid.join(", "))]
    UnknownWord { what: &'static str, text: String, valid: Vec<&'static str> },
    #[error("A page has {valid:?} rows, not “{text}”.")]
    Rows { text: String, valid: &'static [usize] },
    #[error("“{0}” is not the number of a page.")]
    Page(String),
    #[error("The table has no column “{0}” to sort by.")]
    Column(String),
}

/// The member of a closed set with this spelling; `None` if it is empty.
pub(super) fn parse_option<T: ClosedSet>(what: &'static str, text: &str) -> Result<Option<T>, QueryError> {
    let found = T::members().iter().copied().find(|member| member.as_str() == text);
    if found.is_some() || text.is_empty() {
        return Ok(found);
    }
    Err(QueryError::UnknownWord { what, text: text.to_owned(), valid: T::spellings() })
}

/// An object as a URL names it: kind with or without group, namespace, name. The namespace is empty for cluster-scoped
/// objects, which URLs write as `-`.
#[derive(Clone, Debug)]
pub(super) struct RequestedObject {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl RequestedObject {
    pub(super) fn new((kind, namespace, name): (String, String, String)) -> Self {
        let namespace = if namespace == "-" { String::new() } else { namespace };
        Self { kind, namespace, name }
    }

    /// All claims on the object. Empty if the snapshot has no such object.
    pub(super) fn find<'a>(&self, snapshot: &'a Snapshot) -> Vec<ClaimRow<'a>> {
        let kinds =
            snapshot.kinds.iter().enumerate().filter(|(_, state)| matches_kind(&state.kind, &self.kind));
        let mut claims = kinds.map(|(kind_index, state)| {
            let entries = state.blocks.get(&self.namespace, &self.name);
            entries.iter().map(|entry| ClaimRow::new(kind_index, state, entry)).collect::<Vec<_>>()
        });
        claims.find(|claims| !claims.is_empty()).unwrap_or_default()
    }

    /// The key of the object in the history, which also remembers deleted objects.
    pub(super) fn find_in_history<'a>(&self, snapshot: &'a Snapshot) -> Option<&'a ObjectKey> {
        let mut keys = snapshot.history.newest_first().map(|transition| &transition.key);
        keys.find(|key| {
            *key.name == self.name && *key.namespace == self.namespace && matches_kind(&key.kind, &self.kind)
        })
    }
}

/// Newest first.
pub(super) fn transitions_of<'a>(
    snapshot: &'a Snapshot,
    key: &'a ObjectKey,
) -> impl Iterator<Item = &'a Transition> {
    snapshot.history.newest_first().filter(move |transition| transition.key == *key).map(|found| &**found)
}

/// The rules that match any difference of these claims, in evaluation order, with the number of differences that each
/// rule matches in the whole snapshot.
pub(super) fn matching_rules<'a>(snapshot: &'a Snapshot, claims: &[ClaimRow<'_>]) -> Vec<(&'a Rule, u64)> {
    let differences = claims.iter().flat_map(|row| row.entry.claim.verdict.differences());
    let names: BTreeSet<&str> = differences
        .flat_map(|difference| &*difference.matched)
        .filter_map(MatchedBy::rule)
        .map(|name| &**name)
        .collect();
    snapshot.rules.matches().filter(|(rule, _)| names.contains(&**rule.name())).collect()
}

/// Claims are grouped by this ID: the Terraform address, the Helm release, else the label
/// `app.kubernetes.io/instance`, else the uid.
pub(super) fn deployment_id(entry: &ClaimEntry) -> &str {
    let declared = entry.claim.declared_by().first();
    let declared = declared.and_then(|declared| match entry.claim.source {
        Source::Terraform => Some(&*declared.address),
        Source::Helm => Some(&*declared.baseline),
        _ => None,
    });
    declared.or(entry.object.facts().instance.as_deref()).or(entry.object.uid()).unwrap_or_default()
}

/// One claim, the kind of its object, and its verdict as of now: `unknown` while the watch of the object is down.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClaimRow<'a> {
    /// The index of `state` in [`Snapshot::kinds`].
    pub(super) kind_index: usize,
    pub(super) state: &'a KindState,
    pub(super) entry: &'a Arc<ClaimEntry>,
    pub(super) verdict: VerdictKind,
    pub(super) reason: Option<UnknownReason>,
}

/// Identifies a claim within a snapshot, and orders claims as the snapshot does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ClaimId<'a> {
    namespace: &'a str,
    name: &'a str,
    kind: &'a Kind,
    source: Source,
}

impl<'a> ClaimRow<'a> {
    pub(super) fn new(kind_index: usize, state: &'a KindState, entry: &'a Arc<ClaimEntry>) -> Self {
        let (verdict, reason) = state.reported_verdict(entry);
        Self { kind_index, state, entry, verdict, reason }
    }

    /// The current episode. For an `unknown` verdict, the episode that was open when the claim was last judged.
    pub(super) fn episode(&self) -> Option<&'a Episode> {
        self.entry.claim.verdict.episode()
    }

    pub(super) fn worst(&self) -> Option<WorstDifference<'a>> {
        self.episode().map(Episode::worst)
    }

    pub(super) fn onset(&self) -> Option<Timestamp> {
        self.episode().map(|episode| episode.onset)
    }

    pub(super) fn is_drifted(&self) -> bool {
        self.verdict.is_drifted()
    }

    /// Whether the claim cannot be judged now, and had drifted when it was last judged.
    pub(super) fn had_drifted(&self) -> bool {
        self.verdict.is_undecided() && self.episode().is_some()
    }

    fn id(&self) -> ClaimId<'a> {
        let ObjectKey { kind, namespace, name } = self.entry.key();
        ClaimId { namespace, name, kind, source: self.entry.claim.source }
    }

    /// Drifted claims first, by severity and then the newest; the others by how much attention they need.
    fn urgency(&self) -> Urgency {
        let class = match self.verdict {
            VerdictKind::Drifted | VerdictKind::Missing | VerdictKind::Replaced => 0,
            VerdictKind::Unknown => 1,
            VerdictKind::InFlight => 2,
            VerdictKind::NoBaseline => 3,
            VerdictKind::Ignored => 4,
            VerdictKind::InSync => 5,
            VerdictKind::Untrusted => 6,
        };
        (class, Reverse(self.worst().map(|worst| worst.severity)), Reverse(self.onset()))
    }

    /// Whether every word occurs in the names, tools, paths or rules of the claim. Ignored differences count, because a
    /// rule's page links to the claims that it matches.
    fn contains_all(&self, words: &[String]) -> bool {
        let (key, claim) = (self.entry.key(), &self.entry.claim);
        let mut text = format!("{} {} {}/{}", key.kind.kind, key.kind, key.namespace, key.name);
        for declared in claim.declared_by() {
            text.extend([" ", &declared.address, " ", &declared.baseline]);
        }
        for difference in claim.verdict.differences() {
            let rules = difference.matched.iter().map(MatchedBy::as_str);
            let parts = [
                difference.actor.as_str(),
                difference.manager().unwrap_or(""),
                difference.finding.class.as_str(),
                difference.finding.path.as_str(),
            ];
            text.extend(parts.into_iter().chain(rules).flat_map(|part| [" ", part]));
        }
        let text = text.to_lowercase();
        words.iter().all(|word| text.contains(word.as_str()))
    }
}

/// Selects claims and transitions. A field that is `None` or empty selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Filter {
    /// As in [`matches_kind`].
    pub(super) kind: Option<String>,
    /// `Some("")` selects cluster-scoped objects.
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    pub(super) source: Option<Source>,
    pub(super) deployment_id: Option<String>,
    /// Lower-case words, which all have to occur in the claim.
    pub(super) words: Vec<String>,
}

impl Filter {
    pub(super) fn selects_kind(&self, kind: &Kind) -> bool {
        self.kind.as_deref().is_none_or(|name| matches_kind(kind, name))
    }

    /// Compares namespace, name and source. The kind is checked once per kind with [`Self::selects_kind`].
    pub(super) fn selects_object(&self, key: &ObjectKey, source: Source) -> bool {
        self.namespace.as_deref().is_none_or(|namespace| *namespace == *key.namespace)
            && self.name.as_deref().is_none_or(|name| *name == *key.name)
            && self.source.is_none_or(|selected| selected == source)
    }

    /// Compares everything but the kind.
    pub(super) fn selects(&self, row: &ClaimRow<'_>) -> bool {
        self.selects_object(row.entry.key(), row.entry.claim.source)
            && self.deployment_id.as_deref().is_none_or(|id| id == deployment_id(row.entry))
            && (self.words.is_empty() || row.contains_all(&self.words))
    }

    /// The kinds that this filter selects, with their indices.
    pub(super) fn kinds<'a>(&self, snapshot: &'a Snapshot) -> impl Iterator<Item = (usize, &'a KindState)> {
        let kinds = snapshot.kinds.iter().enumerate().filter(|(_, state)| self.selects_kind(&state.kind));
        kinds.map(|(index, state)| (index, &**state))
    }

    /// The claims that this filter selects, kind by kind, in the order of [`ClaimRow::id`] within each kind.
    pub(super) fn claims<'a>(&self, snapshot: &'a Snapshot) -> impl Iterator<Item = ClaimRow<'a>> {
        let rows = self.kinds(snapshot).flat_map(|(index, state)| {
            state.blocks.entries().map(move |entry| ClaimRow::new(index, state, entry))
        });
        rows.filter(|row| self.selects(row))
    }
}

pub(super) type VerdictCounts = BTreeMap<VerdictKind, usize>;

pub(super) fn count_by_source<'a>(
    rows: impl Iterator<Item = ClaimRow<'a>>,
) -> BTreeMap<Source, VerdictCounts> {
    let mut counts: BTreeMap<Source, VerdictCounts> = BTreeMap::new();
    for row in rows {
        *counts.entry(row.entry.claim.source).or_default().entry(row.verdict).or_default() += 1;
    }
    counts
}

/// A window into a sorted list.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Page {
    pub(super) offset: usize,
    /// Everything after `offset` if `None`.
    pub(super) limit: Option<usize>,
}

impl Page {
    pub(super) fn of<T>(self, rows: &[T]) -> impl Iterator<Item = &T> {
        rows.iter().skip(self.offset).take(self.limit.unwrap_or(usize::MAX))
    }
}

/// The property that claims are sorted by. Equal claims follow in the order of [`ClaimRow::id`], so that pages never
/// overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SortKey {
    /// Namespace, then name.
    Id,
    Kind,
    Verdict,
    /// As [`ClaimRow::urgency`]: the most urgent first.
    Urgency,
    /// Name, then namespace, as the table of objects shows them.
    Name,
    /// The path of the worst difference.
    FieldPath,
    Actor,
    Severity,
    Onset,
    /// The least healthy first.
    Health,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sort {
    pub(super) key: SortKey,
    pub(super) descending: bool,
}

type Urgency = (u8, Reverse<Option<Severity>>, Reverse<Option<Timestamp>>);

/// The value of a sort key. Values of different keys are never compared.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum SortValue<'a> {
    Id,
    Kind(&'a Kind),
    Verdict(VerdictKind, Option<UnknownReason>),
    Urgency(Urgency),
    Name(&'a str, &'a str, &'a Kind),
    FieldPath(&'a str),
    Actor(&'static str, Option<&'a str>),
    Severity(Severity),
    Onset(Timestamp),
    Health(u8),
}

impl SortKey {
    fn value<'a>(self, row: &ClaimRow<'a>) -> Option<SortValue<'a>> {
        let key = row.entry.key();
        match self {
            Self::Id => Some(SortValue::Id),
            Self::Kind => Some(SortValue::Kind(&row.state.kind)),
            Self::Verdict => Some(SortValue::Verdict(row.verdict, row.reason)),
            Self::Urgency => Some(SortValue::Urgency(row.urgency())),
            Self::Name => Some(SortValue::Name(&key.name, &key.namespace, &key.kind)),
            Self::FieldPath => {
                let first = row.episode().and_then(|episode| episode.differences.first());
                first.map(|difference| SortValue::FieldPath(difference.finding.path.as_str()))
            }
            Self::Actor => row.worst().map(|worst| SortValue::Actor(worst.actor.as_str(), worst.manager)),
            Self::Severity => row.worst().map(|worst| SortValue::Severity(worst.severity)),
            Self::Onset => row.onset().map(SortValue::Onset),
            Self::Health => Some(SortValue::Health(match row.entry.object.facts().health {
                Health::Unhealthy => 0,
                Health::Degraded => 1,
                Health::Unknown => 2,
                Health::Healthy => 3,
            })),
        }
    }
}

impl Sort {
    /// The order of the API: missing values come first, and `descending` reverses everything.
    pub(super) fn sort<'a>(self, rows: impl Iterator<Item = ClaimRow<'a>>) -> Vec<ClaimRow<'a>> {
        let rank = |row: &ClaimRow<'a>| (self.key.value(row), row.id());
        if self.descending { sort_by_rank(rows, |row| Reverse(rank(row))) } else { sort_by_rank(rows, rank) }
    }

    /// The order of the table of objects: missing values come last in both directions, and equal claims follow by
    /// urgency.
    pub(super) fn sort_table<'a>(self, rows: impl Iterator<Item = ClaimRow<'a>>) -> Vec<ClaimRow<'a>> {
        sort_by_rank(rows, |row| {
            let value = self.key.value(row);
            let is_missing = value.is_none();
            let (ascending, descending) = if self.descending { (None, value) } else { (value, None) };
            (is_missing, ascending, Reverse(descending), row.urgency(), row.id())
        })
    }
}

/// Ranks are computed once per row: computing them for every comparison takes longer than everything else. The sort is
/// stable because it is faster on the sorted runs that a snapshot consists of.
fn sort_by_rank<'a, R: Ord>(
    rows: impl Iterator<Item = ClaimRow<'a>>,
    rank: impl Fn(&ClaimRow<'a>) -> R,
) -> Vec<ClaimRow<'a>> {
    let mut ranked: Vec<(R, ClaimRow<'a>)> = rows.map(|row| (rank(&row), row)).collect();
    ranked.sort_by(|(a, _), (b, _)| a.cmp(b));
    ranked.into_iter().map(|(_, row)| row).collect()
}

/// The latest Jobs that run Terraform, sorted by the custom resource that they run for. Every run creates a Job with a new name, but
/// the custom resource stays the same. A list looks up each of its objects, so this shares the Jobs and is built once.
#[derive(Debug, Default)]
pub(super) struct TerraformJobs(Vec<LatestJobs>);

/// The latest Jobs that run for one custom resource.
#[derive(Debug)]
pub(super) struct LatestJobs {
    newest: Arc<LiveObject>,
    /// The newest Job that has ended.
    ended: Option<Arc<LiveObject>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct TerraformJob<'a> {
    pub(super) key: &'a ObjectKey,
    pub(super) run: &'a JobRun,
}

impl<'a> TerraformJob<'a> {
    /// `None` if the object is not a Job that runs Terraform.
    fn new(object: &'a LiveObject) -> Option<Self> {
        let run = object.report.as_ref()?.run.as_ref()?;
        Some(Self { key: &object.key, run })
    }

    /// The custom resource that it runs for.
    pub(super) fn resource(&self) -> NamespacedName<&'a str> {
        NamespacedName { namespace: &self.key.namespace, name: &self.run.subject }
    }

    /// Jobs that start at the same time are ordered by name, so that all replicas report the same one.
    fn order(&self) -> impl Ord + use<'a> {
        (self.run.start_time(), &self.key.name)
    }
}

impl LatestJobs {
    fn resource(&self) -> Option<NamespacedName<&str>> {
        Some(self.newest()?.resource())
    }

    pub(super) fn newest(&self) -> Option<TerraformJob<'_>> {
        TerraformJob::new(&self.newest)
    }

    /// The outcome of the newest Job that has ended.
    pub(super) fn outcome(&self) -> Option<&JobOutcome> {
        TerraformJob::new(self.ended.as_ref()?)?.run.outcome.as_ref()
    }
}

impl TerraformJobs {
    /// The Jobs of one namespace, or of all.
    pub(super) fn new(snapshot: &Snapshot, namespace: Option<&str>) -> Self {
        let kinds = snapshot.kinds.iter().filter(|state| state.kind.group_kind() == GroupKind::JOB);
        let objects = kinds.flat_map(|state| state.blocks.objects());
        objects
            .filter(|object| namespace.is_none_or(|namespace| *namespace == *object.key.namespace))
            .collect()
    }

    /// The latest Jobs of every custom resource that has one.
    pub(super) fn iter(&self) -> impl Iterator<Item = &LatestJobs> {
        self.0.iter()
    }

    /// The object itself if it is a Job, else the newest Job that runs for it.
    pub(super) fn newest_for<'a>(&'a self, object: &'a LiveObject) -> Option<TerraformJob<'a>> {
        TerraformJob::new(object).or_else(|| {
            object.controller_status()?;
            let resource = Some(object.key.namespaced_name());
            let at = self.0.binary_search_by_key(&resource, LatestJobs::resource).ok()?;
            self.0[at].newest()
        })
    }
}

impl<'a> FromIterator<&'a Arc<LiveObject>> for TerraformJobs {
    /// Skips objects that are not Jobs that run Terraform.
    fn from_iter<I: IntoIterator<Item = &'a Arc<LiveObject>>>(objects: I) -> Self {
        let objects = objects.into_iter();
        let mut jobs: Vec<(TerraformJob<'_>, &Arc<LiveObject>)> =
            objects.filter_map(|object| Some((TerraformJob::new(object)?, object))).collect();
        jobs.sort_unstable_by(|(a, _), (b, _)| (a.resource(), a.order()).cmp(&(b.resource(), b.order())));
        let of_resource = jobs.chunk_by(|(a, _), (b, _)| a.resource() == b.resource());
        let latest = of_resource.filter_map(|jobs| {
            let (_, newest) = jobs.last()?;
            let ended = jobs.iter().rfind(|(job, _)| job.run.outcome.is_some());
            Some(LatestJobs {
                newest: Arc::clone(newest),
                ended: ended.map(|(_, object)| Arc::clone(object)),
            })
        });
        Self(latest.collect())
    }
}

#[cfg(test)]
pub(super) fn difference_fixture(
    class: FieldClass,
    path: &str,
    expected: FieldValue,
    actual: FieldValue,
) -> Difference {
    Difference {
        finding: Finding::new(path.parse().unwrap(), class, expected, actual),
        severity: Severity::Warning,
        expectation: Expectation::Unexpected,
        advice: Advice::AlertOnly,
        actor: Actor::Kubectl,
        onset: Timestamp::UNIX_EPOCH,
        onset_source: OnsetSource::FieldManager,
        ignored_by: None,
        matched: Arc::default(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;

    use super::{ClaimRow, Sort, SortKey, difference_fixture};
    use crate::{
        engine::{Claim, ClaimBlocks, ClaimEntry, KindState},
        types::{
            ClaimedObject, Difference, DriftKind, Episode, FieldClass, Ignored, Kind, LastKnown, LiveObject,
            ObjectKey, Severity, Source, UnknownReason, Verdict,
        },
    };

    fn episode(severity: Severity, onset: i64) -> Episode {
        let onset = Timestamp::from_second(onset).unwrap();
        let difference = difference_fixture(FieldClass::Hash, "spec", "a".into(), "b".into());
        let differences = vec![Difference { severity, onset, ..difference }];
        Episode { drift_kind: DriftKind::Drifted, onset, differences, ignored: Vec::new() }
    }

    #[test]
    fn urgency_sorts_the_worst_first_and_in_sync_last() {
        let unknown = |last_known| Verdict::Unknown(UnknownReason::BadHash, last_known);
        let expected = [
            ("critical", Verdict::Drifted(Box::new(episode(Severity::Critical, 1)))),
            ("newer-warning", Verdict::Drifted(Box::new(episode(Severity::Warning, 9)))),
            ("older-warning", Verdict::Drifted(Box::new(episode(Severity::Warning, 5)))),
            ("info", Verdict::Drifted(Box::new(episode(Severity::Info, 10)))),
            ("was-drifted", unknown(LastKnown::Episode(Box::new(episode(Severity::Warning, 3))))),
            ("never-judged", unknown(LastKnown::NeverJudged)),
            ("in-flight", Verdict::InFlight(LastKnown::InSync)),
            ("no-baseline", Verdict::NoBaseline),
            (
                "ignored",
                Verdict::Ignored(Box::new(Ignored {
                    drift_kind: DriftKind::Drifted,
                    differences: Vec::new(),
                    onset: None,
                })),
            ),
            ("a", Verdict::InSync),
            ("b", Verdict::InSync),
        ];
        let kind = Arc::new(Kind::deployment());
        let state = KindState { kind: kind.clone(), watches: Arc::default(), blocks: ClaimBlocks::default() };
        let mut entries: Vec<Arc<ClaimEntry>> = expected
            .iter()
            .map(|(name, verdict)| {
                Arc::new(ClaimEntry {
                    object: ClaimedObject::Live(Arc::new(LiveObject {
                        uid: "uid".into(),
                        ..LiveObject::named(ObjectKey::new(kind.clone(), "shop", name))
                    })),
                    claim: Claim {
                        source: Source::Annotation,
                        verdict: verdict.clone(),
                        episodes: None,
                        details: None,
                    },
                })
            })
            .collect();
        entries.sort_by(|a, b| a.key().name.cmp(&b.key().name));
        let rows = entries.iter().map(|entry| ClaimRow::new(0, &state, entry));
        let sorted = Sort { key: SortKey::Urgency, descending: false }.sort_table(rows);
        let names: Vec<&str> = sorted.iter().map(|row| &*row.entry.key().name).collect();
        assert_eq!(names, expected.map(|(name, _)| name));
    }
}
