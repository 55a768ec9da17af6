//! A claim: the verdict of one source on one object, the episodes of drift in it, and its rating by the
//! rules.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use jiff::Timestamp;

use super::{CounterKey, EpisodeChange, autoscalers::AutoscalerIndex, finding_counts::NamespaceFindings};
use crate::{
    rules::{RatedObject, RuleSet},
    types::{
        Advice, ClaimedObject, Difference, DriftKind, Episode, Expectation, FieldPath, FieldValue, Finding,
        GroupKind, HashBaseline, Ignored, Judgement, LastKnown, LiveObject, ObjectKey, ObservedState,
        OnsetSource, PathPattern, ResolutionCause, Severity, Source, Verdict,
    },
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimEntry {
    pub object: ClaimedObject,
    pub claim: Claim,
}

impl ClaimEntry {
    pub fn key(&self) -> &ObjectKey {
        self.object.key()
    }

    pub(super) fn claim_key(&self) -> ClaimKey {
        ClaimKey { object: self.key().clone(), source: self.claim.source }
    }

    pub(super) fn counter_key(&self) -> CounterKey {
        let key = self.key();
        CounterKey { kind: key.kind.clone(), namespace: key.namespace.clone(), source: self.claim.source }
    }
}

/// Identifies a claim, also one of an earlier run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ClaimKey {
    pub(super) object: ObjectKey,
    pub(super) source: Source,
}

impl ClaimKey {
    fn parts(&self) -> (GroupKind<&str>, &str, &str, Source) {
        (self.object.kind.group_kind(), &self.object.namespace, &self.object.name, self.source)
    }
}

impl PartialOrd for ClaimKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ClaimKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts().cmp(&other.parts())
    }
}

/// The unit of all verdicts, series and transitions: one object and one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub source: Source,
    pub verdict: Verdict,
    /// None if no episode started for a day, or none did while we watched.
    pub episodes: Option<EpisodeCount>,
    /// Only for sources that declare single fields.
    pub details: Option<Arc<ClaimDetails>>,
}

/// The results of comparing an object field by field, beside the verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimDetails {
    /// All declarations of the object; the one that the verdict comes from is first.
    pub declared_by: Vec<DeclaredBy>,
    /// Fields that are set on the object and that the source's tool never reads.
    pub blind_fields: Vec<FieldPath>,
    /// The digest of the object's content at the last comparison.
    pub(super) compared_content: Option<u64>,
    /// The findings of the last comparison that count in the limit of a namespace.
    pub(super) counted_findings: NamespaceFindings,
}

impl ClaimDetails {
    /// These details with the results of an earlier comparison, if there is one.
    pub(super) fn with_comparison_of(self, earlier: Option<&Self>) -> Self {
        match earlier {
            Some(earlier) => Self {
                compared_content: earlier.compared_content,
                blind_fields: earlier.blind_fields.clone(),
                counted_findings: earlier.counted_findings.clone(),
                ..self
            },
            None => self,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredBy {
    /// The name of the declaration in its tool, for example `kubernetes_deployment_v1.web`.
    pub address: Box<str>,
    pub baseline: Arc<str>,
}

/// How often a claim started to drift since the last day without an episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpisodeCount {
    pub count: u32,
    /// The start of the last one.
    pub last: Timestamp,
}

impl Claim {
    /// Empty for sources that store their baseline on the object.
    pub fn declared_by(&self) -> &[DeclaredBy] {
        self.details.as_ref().map_or(&[], |details| &details.declared_by)
    }
}

impl EpisodeCount {
    /// The count of a claim after a change of its episode.
    pub(super) fn after(before: Option<Self>, change: EpisodeChange, now: Timestamp) -> Option<Self> {
        match change {
            EpisodeChange::Started => {
                let count = before.map_or(0, |episodes| episodes.count) + 1;
                Some(Self { count, last: now })
            }
            EpisodeChange::Unchanged | EpisodeChange::Ended(_) => before,
        }
    }
}

/// One step of a claim: from the verdict so far and a new judgement to the next verdict.
///
/// A claim has an episode as long as its verdict holds differences that count, [`Verdict::episode`]. So this is where episodes
/// start and end:
///
/// | judgement | the claim has no episode | the claim has an episode |
/// |---|---|---|
/// | drifted, missing, replaced; a difference counts | starts | continues |
/// | drifted, missing, replaced; rules ignore every difference | | ends: `rule` |
/// | in sync | | ends: `absorbed` if `baseline_moved`, else `reverted` |
/// | no baseline: it was removed from the object | | ends: `rule` if `baseline_moved`: the settings name another annotation; else `deleted` |
/// | in flight, unknown | like [`rerate`] | like [`rerate`] |
/// | untrusted | | ends: `rule` |
///
/// An inconclusive judgement keeps the last conclusive result; only a new rating of its differences can then start or end an
/// episode. Findings that cannot be rated yet are in flight, see [`Rater::judgement_for_now`]. `baseline_moved` is true if the baseline changed and the
/// object did not. The engine ends the episode of a claim whose source no longer declares the object.
pub(super) fn step_episode(
    before: Verdict,
    judgement: Judgement,
    baseline_moved: bool,
    rater: &Rater<'_>,
) -> (Verdict, EpisodeChange) {
    let had_episode = before.episode().is_some();
    let (after, cause) = match judgement {
        Judgement::Drifted(findings) => {
            (rater.rate(DriftKind::Drifted, findings, &before), ResolutionCause::Rule)
        }
        Judgement::Missing(finding) => {
            (rater.rate(DriftKind::Missing, vec![finding], &before), ResolutionCause::Rule)
        }
        Judgement::Replaced(finding) => {
            (rater.rate(DriftKind::Replaced, vec![finding], &before), ResolutionCause::Rule)
        }
        Judgement::InSync if baseline_moved => (Verdict::InSync, ResolutionCause::Absorbed),
        Judgement::InSync => (Verdict::InSync, ResolutionCause::Reverted),
        Judgement::NoBaseline if baseline_moved => (Verdict::NoBaseline, ResolutionCause::Rule),
        Judgement::NoBaseline => (Verdict::NoBaseline, ResolutionCause::Deleted),
        Judgement::Untrusted(findings) => (rater.untrusted(findings, &before), ResolutionCause::Rule),
        // Rules may match by labels, which change even if the fields cannot be compared now.
        Judgement::InFlight => return rerate(Verdict::InFlight(before.into_last_known()), rater),
        Judgement::Unknown(reason) => {
            return rerate(Verdict::Unknown(reason, before.into_last_known()), rater);
        }
    };
    let change = episode_change(had_episode, &after, cause);
    (after, change)
}

/// Applies other rules, or the same rules at another time, to the known differences. An episode starts if a difference counts
/// that rules ignored so far, and ends with the cause `rule` if they ignore every difference now.
///
/// The rating stays as it is while the labels that rules need are not read.
pub(super) fn rerate(before: Verdict, rater: &Rater<'_>) -> (Verdict, EpisodeChange) {
    if !rater.has_labels {
        return (before, EpisodeChange::Unchanged);
    }
    let had_episode = before.episode().is_some();
    let after = rater.rerate(before);
    let change = episode_change(had_episode, &after, ResolutionCause::Rule);
    (after, change)
}

fn episode_change(had_episode: bool, after: &Verdict, cause: ResolutionCause) -> EpisodeChange {
    match (had_episode, after.episode().is_some()) {
        (false, true) => EpisodeChange::Started,
        (true, false) => EpisodeChange::Ended(cause),
        (true, true) | (false, false) => EpisodeChange::Unchanged,
    }
}

/// Whether an object that differed did not change itself: its baseline did, or the settings that say where to read it. `details`
/// are those of the new judgement.
pub(super) fn only_baseline_moved(
    before: &ClaimEntry,
    details: Option<&ClaimDetails>,
    object: &ClaimedObject,
) -> bool {
    let Some(object) = object.live() else { return false };
    match (details, &before.claim.details) {
        (Some(new), Some(old)) => {
            new.compared_content == old.compared_content
                || is_same_content_in_other_version(before, old, object)
        }
        (_, _) => {
            before.object.live().is_some_and(|before| is_same_stored_object(before, object))
                || is_hash_moved(&before.claim, object)
        }
    }
}

/// Whether both are one version of an object, which may have been read under different settings.
pub(super) fn is_same_stored_object(one: &LiveObject, other: &LiveObject) -> bool {
    !other.resource_version.is_empty()
        && (&one.uid, &one.resource_version) == (&other.uid, &other.resource_version)
}

/// Whether an object did not change since the last comparison, and was only read in another version of its
/// kind.
fn is_same_content_in_other_version(
    before: &ClaimEntry,
    compared: &ClaimDetails,
    object: &LiveObject,
) -> bool {
    let Some(before) = before.object.live() else { return false };
    compared.compared_content.is_some()
        && is_same_stored_object(before, object)
        && before.readable_document().map(|document| document.content) == compared.compared_content
}

/// Whether the recorded hash changed to that of the object.
fn is_hash_moved(before: &Claim, after: &LiveObject) -> bool {
    let hash_baseline = match (before.source, after.controller_status().map(|record| &record.observed_state))
    {
        // Generations only increase: the controller observed the newest one.
        (Source::StatusHash, Some(ObservedState::Generation { .. })) => return true,
        (Source::StatusHash, Some(ObservedState::Hash(hash_baseline))) => hash_baseline,
        (_, _) => &after.hash_baseline,
    };
    let (Some(episode), HashBaseline::Match(digest)) = (before.verdict.episode(), hash_baseline) else {
        return false;
    };
    let actual = FieldValue::Text(digest.to_string().into());
    episode.differences.first().is_some_and(|difference| difference.finding.actual == actual)
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Rater<'a> {
    pub(super) rules: &'a RuleSet,
    pub(super) object: RatedObject<'a>,
    /// Whether all labels of the object that the rules need were read, see [`super::ActiveRules::has_labels`].
    pub(super) has_labels: bool,
    /// The onsets that an earlier run observed, by path.
    pub(super) restored: Option<&'a BTreeMap<Box<str>, Timestamp>>,
    pub(super) now: Timestamp,
}

impl Rater<'_> {
    /// The judgement that can be rated now. Without the labels that rules need, findings would start or end an episode that the
    /// rules do not mean. The object is being listed again with these labels, so until then the findings are in flight.
    pub(super) fn judgement_for_now(&self, judgement: Judgement) -> Judgement {
        match judgement {
            Judgement::Drifted(_) | Judgement::Missing(_) | Judgement::Replaced(_) if !self.has_labels => {
                Judgement::InFlight
            }
            judgement => judgement,
        }
    }

    /// Rates findings. A known onset never moves later, whatever rules said about the difference in the
    /// meantime.
    fn rate(&self, kind: DriftKind, findings: Vec<Finding>, previous: &Verdict) -> Verdict {
        let previous_onset = previous_onset(previous);
        let differences = self.rate_findings(findings, previous.differences());
        self.split_ignored(kind, differences.collect(), previous_onset).into_verdict()
    }

    /// Lists findings that never count: no rule applies to them.
    fn untrusted(&self, findings: Vec<Finding>, previous: &Verdict) -> Verdict {
        let listed = self.rate_findings(findings, previous.untrusted_differences().iter());
        let unruled = |difference| Difference {
            severity: Severity::Info,
            expectation: Expectation::Unexpected,
            advice: Advice::AlertOnly,
            ignored_by: None,
            matched: Arc::default(),
            ..difference
        };
        Verdict::Untrusted(listed.map(unruled).collect())
    }

    /// Rates findings, with the onsets of the previous differences of the same fields.
    fn rate_findings<'b>(
        &self,
        findings: Vec<Finding>,
        previous: impl Iterator<Item = &'b Difference>,
    ) -> impl Iterator<Item = Difference> {
        let onsets: HashMap<&str, (Timestamp, OnsetSource)> = previous
            .map(|difference| (difference.finding.path.as_str(), (difference.onset, difference.onset_source)))
            .collect();
        findings.into_iter().map(move |finding| {
            let path = finding.path.as_str();
            let restored = || Some((*self.restored?.get(path)?, OnsetSource::History));
            let earlier = onsets.get(path).copied().or_else(restored);
            let mut difference = self.rules.rate(&self.object, finding, self.now);
            if let Some(earlier) = earlier.filter(|(onset, _)| *onset < difference.onset) {
                (difference.onset, difference.onset_source) = earlier;
            }
            difference
        })
    }

    /// Rates the differences of a verdict again, including those of the last known one.
    fn rerate(&self, previous: Verdict) -> Verdict {
        let rerate = |known| self.rules.rate_again(&self.object, known, self.now);
        let differences: Vec<Difference> = previous.differences().map(rerate).collect();
        if differences.is_empty() {
            return previous;
        }
        let of_ignored = previous.ignored().map(|ignored| ignored.drift_kind);
        let kind =
            previous.episode().map(|episode| episode.drift_kind).or(of_ignored).unwrap_or(DriftKind::Drifted);
        let rated = self.split_ignored(kind, differences, previous_onset(&previous));
        match previous {
            Verdict::InFlight(_) => Verdict::InFlight(rated),
            Verdict::Unknown(reason, _) => Verdict::Unknown(reason, rated),
            Verdict::Drifted(_)
            | Verdict::Ignored(_)
            | Verdict::InSync
            | Verdict::NoBaseline
            | Verdict::Untrusted(_) => rated.into_verdict(),
        }
    }

    /// Sorts the differences, the worst first, and separates the ignored ones. They are an episode if any of them counts.
    fn split_ignored(
        &self,
        kind: DriftKind,
        mut differences: Vec<Difference>,
        previous_onset: Option<Timestamp>,
    ) -> LastKnown {
        differences.sort_by(|a, b| {
            (b.severity, b.expectation, b.onset)
                .cmp(&(a.severity, a.expectation, a.onset))
                .then_with(|| a.finding.path.as_str().cmp(b.finding.path.as_str()))
        });
        let (mut ignored, mut differences): (Vec<_>, Vec<_>) =
            differences.into_iter().partition(|difference| difference.ignored_by.is_some());
        // They stay in memory for the whole episode, and most have one element in a vector with room for
        // four.
        ignored.shrink_to_fit();
        differences.shrink_to_fit();
        if differences.is_empty() && !ignored.is_empty() {
            let ignored = Ignored { drift_kind: kind, differences: ignored, onset: previous_onset };
            return LastKnown::Ignored(Box::new(ignored));
        }
        let onset = differences.iter().map(|difference| difference.onset).chain(previous_onset).min();
        let onset = onset.map_or(self.now, |onset| onset.min(self.now));
        LastKnown::Episode(Box::new(Episode { drift_kind: kind, onset, differences, ignored }))
    }
}

/// The onset of the current episode, or of one that a rule ended while the claim still differed.
fn previous_onset(verdict: &Verdict) -> Option<Timestamp> {
    let ended_by_rule = || verdict.ignored().and_then(|ignored| ignored.onset);
    verdict.episode().map(|episode| episode.onset).or_else(ended_by_rule)
}

/// Whether rules see the same object in two versions of it.
pub(super) fn has_same_rule_inputs(a: &LiveObject, b: &LiveObject) -> bool {
    Arc::ptr_eq(&a.rule_inputs, &b.rule_inputs) || a.rule_inputs == b.rule_inputs
}

/// `muted_paths` are those of the object's [`RuleInputs`](crate::types::RuleInputs), parsed once for all differences.
pub(super) fn object_view<'a>(
    object: &'a ClaimedObject,
    muted_paths: &'a [PathPattern],
    source: Source,
    autoscalers: &AutoscalerIndex,
) -> RatedObject<'a> {
    let (key, rule_inputs) = (object.key(), object.rule_inputs());
    let autoscaled = autoscalers.is_autoscaled(key);
    RatedObject { key, labels: &rule_inputs.labels, muted_paths, source, autoscaled }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Mutex};

    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::{Claim, EpisodeChange, EpisodeCount, Rater, rerate, step_episode};
    use crate::{
        rules::{RatedObject, RuleConfig, RuleSet},
        types::{
            FieldClass, FieldManager, Finding, Judgement, Kind, ObjectKey, ResolutionCause, Source,
            UnknownReason, Verdict, VerdictKind,
        },
    };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn finding(path: &str, written: Option<i64>) -> Finding {
        let owner = written.map(|second| FieldManager::new("kubectl-edit", Some(at(second))));
        Finding { owner, ..Finding::new(path.parse().unwrap(), FieldClass::Hash, "a".into(), "b".into()) }
    }

    fn drifted(written: Option<i64>) -> Judgement {
        Judgement::Drifted(vec![finding("spec", written)])
    }

    fn with_rater<T>(rules: &RuleSet, now: Timestamp, then: impl FnOnce(&Rater<'_>) -> T) -> T {
        let key = ObjectKey::new(Kind::deployment(), "shop", "web");
        let object = RatedObject {
            key: &key,
            labels: &[],
            muted_paths: &[],
            source: Source::Annotation,
            autoscaled: false,
        };
        then(&Rater { rules, object, has_labels: true, restored: None, now })
    }

    /// A claim that was never judged.
    fn empty() -> Claim {
        Claim { source: Source::Annotation, verdict: Verdict::NoBaseline, episodes: None, details: None }
    }

    fn new(judgement: Judgement, now: Timestamp) -> Claim {
        judge(empty(), judgement, false, now).0
    }

    fn judge(
        claim: Claim,
        judgement: Judgement,
        baseline_moved: bool,
        now: Timestamp,
    ) -> (Claim, EpisodeChange) {
        with_rater(&RuleSet::built_in(), now, |rater| {
            let (verdict, change) = step_episode(claim.verdict, judgement, baseline_moved, rater);
            let episodes = EpisodeCount::after(claim.episodes, change, now);
            (Claim { verdict, episodes, ..claim }, change)
        })
    }

    fn onset(claim: &Claim) -> i64 {
        claim.verdict.episode().unwrap().onset.as_second()
    }

    #[test]
    fn onset_is_the_time_of_the_write_and_never_in_the_future() {
        assert_eq!(onset(&new(drifted(Some(50)), at(100))), 50);
        assert_eq!(onset(&new(drifted(Some(500)), at(100))), 100);
        assert_eq!(onset(&new(drifted(None), at(100))), 100);
    }

    #[test]
    fn onset_never_moves_later_within_an_episode() {
        let claim = new(drifted(Some(50)), at(100));
        let (claim, change) = judge(claim, drifted(Some(90)), false, at(110));
        assert_eq!((onset(&claim), change), (50, EpisodeChange::Unchanged));
        let (claim, _) = judge(claim, drifted(Some(40)), false, at(120));
        assert_eq!(onset(&claim), 40);
    }

    #[test]
    fn unknown_claim_keeps_last_value() {
        let claim = new(drifted(Some(50)), at(100));
        let (claim, change) = judge(claim, Judgement::Unknown(UnknownReason::BadHash), false, at(110));
        assert_eq!(
            (claim.verdict.kind(), claim.verdict.drifted_value(), change),
            (VerdictKind::Unknown, Some(true), EpisodeChange::Unchanged)
        );
        let (claim, change) = judge(claim, drifted(Some(60)), false, at(120));
        assert_eq!((onset(&claim), change), (50, EpisodeChange::Unchanged));
        let (claim, change) = judge(claim, Judgement::InSync, false, at(130));
        assert_eq!(change, EpisodeChange::Ended(ResolutionCause::Reverted));
        let (claim, _) = judge(claim, Judgement::Unknown(UnknownReason::BadHash), false, at(140));
        assert_eq!(claim.verdict.drifted_value(), Some(false));
        let never_judged = new(Judgement::Unknown(UnknownReason::BadHash), at(1));
        assert_eq!(never_judged.verdict.drifted_value(), None);
    }

    #[test]
    fn episodes_are_counted_and_end_with_a_cause() {
        let claim = new(Judgement::InSync, at(1));
        let (claim, change) = judge(claim, drifted(None), false, at(2));
        assert_eq!(change, EpisodeChange::Started);
        let (claim, change) = judge(claim, Judgement::InSync, true, at(3));
        assert_eq!(change, EpisodeChange::Ended(ResolutionCause::Absorbed));
        let (claim, _) = judge(claim, drifted(None), false, at(4));
        assert_eq!(claim.episodes.unwrap().count, 2);
        let (_, change) = judge(claim, Judgement::NoBaseline, false, at(5));
        assert_eq!(change, EpisodeChange::Ended(ResolutionCause::Deleted));
    }

    #[derive(Clone, Debug)]
    enum Input {
        /// These fields differ, each written at this second.
        Differ(Vec<(usize, i64)>),
        Unknown,
        InSync,
        /// The rules change: these fields are ignored.
        Ignore(Vec<usize>),
    }

    const PATHS: [&str; 3] = ["spec.a", "spec.b", "spec.c"];

    fn input() -> impl Strategy<Value = Input> {
        prop_oneof![
            6 => prop::collection::btree_map(0..3_usize, 0..500_i64, 1..=3)
                .prop_map(|fields| Input::Differ(fields.into_iter().collect())),
            1 => Just(Input::Unknown),
            1 => Just(Input::InSync),
            4 => prop::sample::subsequence(vec![0, 1, 2], 0..=3).prop_map(Input::Ignore),
        ]
    }

    /// Compiling rules is slow, so each set is compiled once.
    fn ignoring(fields: &[usize]) -> RuleSet {
        static SETS: Mutex<BTreeMap<Vec<usize>, RuleSet>> = Mutex::new(BTreeMap::new());
        let mut sets = SETS.lock().unwrap();
        sets.entry(fields.to_vec()).or_insert_with(|| compile_ignoring(fields)).clone()
    }

    fn compile_ignoring(fields: &[usize]) -> RuleSet {
        let rules = fields
            .iter()
            .map(|at| format!("{{name: r{at}, match: {{paths: [{}]}}, effect: ignore}}", PATHS[*at]));
        let rules = format!("[{}]", rules.collect::<Vec<_>>().join(","));
        let rules = serde_saphyr::from_str(&rules).unwrap();
        RuleSet::compile(&RuleConfig { rules, ..RuleConfig::default() }).unwrap()
    }

    fn judgement(input: &Input) -> Option<Judgement> {
        let finding = |(at, second): &(usize, i64)| Finding {
            class: FieldClass::Other,
            ..finding(PATHS[*at], Some(*second))
        };
        match input {
            Input::Differ(fields) => Some(Judgement::Drifted(fields.iter().map(finding).collect())),
            Input::Unknown => Some(Judgement::Unknown(UnknownReason::BadHash)),
            Input::InSync => Some(Judgement::InSync),
            Input::Ignore(_) => None,
        }
    }

    /// The verdict after each input. With `fixed` rules, changes of the rules are skipped.
    fn replay(inputs: &[Input], fixed: Option<&RuleSet>) -> Vec<Verdict> {
        let mut rules = fixed.cloned().unwrap_or_default();
        let mut verdict = Verdict::InSync;
        let mut verdicts = Vec::new();
        for (second, input) in (1_000..).zip(inputs) {
            if let (Input::Ignore(fields), None) = (input, fixed) {
                rules = ignoring(fields);
            }
            verdict = with_rater(&rules, at(second), |rater| match judgement(input) {
                Some(judgement) => step_episode(verdict, judgement, false, rater).0,
                None => rerate(verdict, rater).0,
            });
            verdicts.push(verdict.clone());
        }
        verdicts
    }

    proptest! {
        #[test]
        fn verdict_and_onsets_do_not_depend_on_former_rules(
            inputs in prop::collection::vec(input(), 1..20),
        ) {
            let last_rules = inputs.iter().rev().find_map(|input| match input {
                Input::Ignore(fields) => Some(ignoring(fields)),
                Input::Differ(_) | Input::Unknown | Input::InSync => None,
            });
            let changed = replay(&inputs, None).pop().unwrap();
            let fixed = replay(&inputs, Some(&last_rules.unwrap_or_default())).pop().unwrap();
            prop_assert_eq!(changed.kind(), fixed.kind());
            prop_assert_eq!(changed.drifted_value(), fixed.drifted_value());
            let (changed, fixed): (Vec<_>, Vec<_>) =
                (changed.differences().collect(), fixed.differences().collect());
            prop_assert_eq!(changed, fixed);
        }

        #[test]
        fn onset_never_moves_later_until_the_object_is_in_sync(
            inputs in prop::collection::vec(input(), 1..20),
        ) {
            let (verdicts, unruled) = (replay(&inputs, None), replay(&inputs, Some(&RuleSet::built_in())));
            let mut earliest: Option<Timestamp> = None;
            for (verdict, unruled) in verdicts.iter().zip(&unruled) {
                if *verdict == Verdict::InSync {
                    earliest = None;
                }
                let Some(episode) = verdict.episode() else { continue };
                prop_assert!(earliest.is_none_or(|earliest| episode.onset <= earliest));
                earliest = Some(episode.onset);
                prop_assert!(episode.differences.iter().all(|difference| episode.onset <= difference.onset));
                // Rules hide differences and restore their onsets; they never invent one.
                prop_assert!(unruled.episode().is_some_and(|unruled| unruled.onset <= episode.onset));
            }
        }
    }
}
