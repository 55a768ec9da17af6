//! One object with what a source claims about it.

use std::{collections::HashMap, sync::Arc};

use jiff::Timestamp;

use super::store::Autoscalers;
use crate::{
    rules::{ObjectView, RuleSet},
    types::{
        Cause, Difference, DriftKind, Episode, FieldPath, Finding, HashBaseline, Ignored, Judgement,
        LastKnown, LiveObject, ObservedState, Source, Verdict,
    },
};

/// One live object and its claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The object as last read.
    pub object: Arc<LiveObject>,
    /// What its source says about it.
    pub claim: Claim,
}

/// One object and one source: the unit of everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Where the baseline is written.
    pub source: Source,
    /// What we think.
    pub verdict: Verdict,
    /// How often it began to drift while we watched, within the last day, and when last.
    pub episodes: Option<Episodes>,
    /// What a source that declares fields says beside its verdict.
    pub details: Option<Arc<Details>>,
}

/// What a source that declares fields says about an object beside its verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// Everything that declares the object; what declares all of it comes first.
    pub declared_by: Vec<DeclaredBy>,
    /// Fields that others have set and the source's tool never reads.
    pub blind: Vec<FieldPath>,
    /// The content of the object when it was last compared.
    pub(super) compared: Option<u64>,
}

/// One declaration of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredBy {
    /// How its tool calls it there.
    pub address: Box<str>,
    /// The baseline that has it.
    pub baseline: Arc<str>,
}

/// How often a claim began to drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Episodes {
    /// How often.
    pub count: u32,
    /// When last.
    pub last: Timestamp,
}

/// What a new judgement, or new rules, did to a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It is as it was, or only moved between verdicts that begin and end nothing.
    Nothing,
    /// An episode began.
    Began,
    /// An episode ended.
    Ended(Cause),
}

impl Claim {
    /// Everything that declares the object; empty for sources that write their baseline on it.
    pub fn declared_by(&self) -> &[DeclaredBy] {
        self.details.as_ref().map_or(&[], |details| &details.declared_by)
    }

    /// The claim on an object that was not known before. `counted`: an episode that shows now began while we watched.
    pub(super) fn new(judgement: Judgement, counted: bool, rater: &Rater<'_>) -> (Self, Step) {
        let (source, verdict) = (rater.object.source, Verdict::NoBaseline);
        let nothing = Self { source, verdict, episodes: None, details: None };
        let (claim, step) = nothing.judged(judgement, false, rater);
        if counted { (claim, step) } else { (Self { episodes: None, ..claim }, Step::Nothing) }
    }

    /// Folds a new judgement into what was known. What could not be judged keeps its last settled value.
    pub(super) fn judged(
        mut self,
        judgement: Judgement,
        baseline_moved: bool,
        rater: &Rater<'_>,
    ) -> (Self, Step) {
        let before = self.verdict.episode().is_some();
        let known = std::mem::replace(&mut self.verdict, Verdict::NoBaseline);
        // What is judged for the first time may have been so before anybody could tell.
        let is_first = self.details.is_some() && known.drifted().is_none();
        let verdict = match judgement {
            Judgement::InSync => Verdict::InSync,
            Judgement::NoBaseline => Verdict::NoBaseline,
            Judgement::Drifted(findings) => rater.rate(DriftKind::Drifted, findings, &known),
            Judgement::Missing(finding) => rater.rate(DriftKind::Missing, vec![finding], &known),
            Judgement::Replaced(finding) => rater.rate(DriftKind::Replaced, vec![finding], &known),
            Judgement::InFlight => rater.rate_again(Verdict::InFlight(known.into_held())),
            // Rules may ask for what has changed about the object, even if its fields cannot be judged now.
            Judgement::Unknown(reason) => rater.rate_again(Verdict::Unknown(reason, known.into_held())),
        };
        let cause = match &verdict {
            Verdict::NoBaseline => Cause::Deleted,
            Verdict::InSync if baseline_moved => Cause::Absorbed,
            Verdict::InSync => Cause::Reverted,
            // What goes on differing, or may, ceases to count by a rule only.
            Verdict::Off(_) | Verdict::Ignored(_) | Verdict::InFlight(_) | Verdict::Unknown(..) => {
                Cause::Rule
            }
        };
        let episodes = self.episodes;
        let (claim, step) = Self { verdict, ..self }.stepped(before, cause, rater.now);
        if is_first { (Self { episodes, ..claim }, Step::Nothing) } else { (claim, step) }
    }

    /// Looks at what is known with other rules, or at another time.
    pub(super) fn rated_again(mut self, rater: &Rater<'_>) -> (Self, Step) {
        let before = self.verdict.episode().is_some();
        self.verdict = rater.rate_again(std::mem::replace(&mut self.verdict, Verdict::NoBaseline));
        self.stepped(before, Cause::Rule, rater.now)
    }

    /// Says what has begun or ended, and counts what has begun.
    fn stepped(mut self, before: bool, cause: Cause, now: Timestamp) -> (Self, Step) {
        let step = match (before, self.verdict.episode().is_some()) {
            (false, true) => Step::Began,
            (true, false) => Step::Ended(cause),
            (true, true) | (false, false) => Step::Nothing,
        };
        if step == Step::Began {
            let count = self.episodes.map_or(0, |episodes| episodes.count) + 1;
            self.episodes = Some(Episodes { count, last: now });
        }
        (self, step)
    }
}

/// Whether an object that differed now matches because its baseline moved, and not the object.
pub(super) fn only_baseline_moved(before: &Claim, after: &LiveObject) -> bool {
    let stamp = match (before.source, after.record().map(|record| &record.standing)) {
        // Generations only go up: a controller that has seen the newest has moved there.
        (Source::StatusHash, Some(ObservedState::Generation { .. })) => return true,
        (Source::StatusHash, Some(ObservedState::Hash(stamp))) => stamp,
        (_, _) => &after.stamp,
    };
    let (Some(episode), HashBaseline::Match(digest)) = (before.verdict.episode(), stamp) else {
        return false;
    };
    episode.differences.first().is_some_and(|difference| *difference.finding.actual == *digest.to_string())
}

/// Rates the findings on one object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rater<'a> {
    /// The rules.
    pub(super) rules: &'a RuleSet,
    /// The object, and which of its claims.
    pub(super) object: ObjectView<'a>,
    /// The time.
    pub(super) now: Timestamp,
}

/// What a claim is that differs.
enum Settled {
    /// Some differences count.
    Episode(Episode),
    /// None does.
    Ignored(Ignored),
}

impl Rater<'_> {
    /// Rates what was found, going on from what was known. An onset that is known never moves later, whatever rules said
    /// about the difference in the meantime.
    pub(super) fn rate(&self, trouble: DriftKind, findings: Vec<Finding>, before: &Verdict) -> Verdict {
        let mut differences = Vec::with_capacity(findings.len());
        let known: HashMap<&str, Timestamp> =
            before.differences().map(|known| (&*known.finding.path, known.onset)).collect();
        for finding in findings {
            let known = known.get(&*finding.path).copied();
            let mut difference = self.rules.rate(&self.object, finding, self.now);
            if let Some(known) = known {
                difference.onset = difference.onset.min(known);
            }
            differences.push(difference);
        }
        self.settle(trouble, differences, earlier_onset(before)).into()
    }

    /// Rates what is known again, held or not.
    pub(super) fn rate_again(&self, before: Verdict) -> Verdict {
        let again = |known| self.rules.rate_again(&self.object, known, self.now);
        let differences: Vec<Difference> = before.differences().map(again).collect();
        if differences.is_empty() {
            return before;
        }
        let ignored = before.ignored().map(|ignored| ignored.trouble);
        let trouble =
            before.episode().map(|episode| episode.trouble).or(ignored).unwrap_or(DriftKind::Drifted);
        let settled = self.settle(trouble, differences, earlier_onset(&before));
        match before {
            Verdict::InFlight(_) => Verdict::InFlight(settled.into()),
            Verdict::Unknown(reason, _) => Verdict::Unknown(reason, settled.into()),
            Verdict::Off(_) | Verdict::Ignored(_) | Verdict::InSync | Verdict::NoBaseline => settled.into(),
        }
    }

    /// Puts the worst first, and apart what is ignored.
    fn settle(
        &self,
        trouble: DriftKind,
        mut differences: Vec<Difference>,
        earlier: Option<Timestamp>,
    ) -> Settled {
        differences.sort_by(|a, b| {
            (b.severity, b.expectation, b.onset)
                .cmp(&(a.severity, a.expectation, a.onset))
                .then_with(|| a.finding.path.cmp(&b.finding.path))
        });
        let (mut ignored, mut differences): (Vec<_>, Vec<_>) =
            differences.into_iter().partition(|difference| difference.ignored_by.is_some());
        // They are kept for as long as it drifts: most have one, and room was made for four.
        ignored.shrink_to_fit();
        differences.shrink_to_fit();
        if differences.is_empty() && !ignored.is_empty() {
            return Settled::Ignored(Ignored { trouble, differences: ignored, onset: earlier });
        }
        let onset = differences.iter().map(|difference| difference.onset).chain(earlier).min();
        Settled::Episode(Episode { trouble, onset: onset.unwrap_or(self.now), differences, ignored })
    }
}

impl From<Settled> for Verdict {
    fn from(settled: Settled) -> Self {
        match settled {
            Settled::Episode(episode) => Self::Off(Box::new(episode)),
            Settled::Ignored(ignored) => Self::Ignored(Box::new(ignored)),
        }
    }
}

impl From<Settled> for LastKnown {
    fn from(settled: Settled) -> Self {
        match settled {
            Settled::Episode(episode) => Self::Episode(Box::new(episode)),
            Settled::Ignored(ignored) => Self::Ignored(Box::new(ignored)),
        }
    }
}

/// Since when the episode lasts that shows, or that a rule has ended while the claim went on differing.
fn earlier_onset(before: &Verdict) -> Option<Timestamp> {
    let ended = || before.ignored().and_then(|ignored| ignored.onset);
    before.episode().map(|episode| episode.onset).or_else(ended)
}

/// Whether rules find the same in two versions of an object, but for its differences.
pub(super) fn rated_alike(a: &LiveObject, b: &LiveObject) -> bool {
    Arc::ptr_eq(&a.extras, &b.extras) || a.extras == b.extras
}

/// What rules may ask about an object.
pub(super) fn view<'a>(object: &'a LiveObject, source: Source, autoscalers: &Autoscalers) -> ObjectView<'a> {
    let LiveObject { key, extras, .. } = object;
    let autoscaled = autoscalers.scale(key);
    ObjectView { key, labels: &extras.labels, mutes: &extras.mutes, source, autoscaled }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use std::sync::Arc;

    use super::{Claim, Rater, Step};
    use crate::{
        rules::{ObjectView, RuleSet},
        types::{
            Cause, FieldClass, FieldManager, Finding, Judgement, Kind, ObjectKey, Source, UnknownReason,
            VerdictKind,
        },
    };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn drifted(written: Option<i64>) -> Judgement {
        Judgement::Drifted(vec![Finding {
            path: "spec".into(),
            class: FieldClass::Hash,
            expected: "a".into(),
            actual: "b".into(),
            writer: written.map(|second| FieldManager {
                manager: "kubectl-edit".into(),
                subresource: "".into(),
                time: Some(at(second)),
            }),
        }])
    }

    fn with_rater<T>(now: Timestamp, then: impl FnOnce(&Rater<'_>) -> T) -> T {
        let kind = Arc::new(Kind::deployment());
        let key = ObjectKey { kind, namespace: "shop".into(), name: "web".into() };
        let object =
            ObjectView { key: &key, labels: &[], mutes: "", source: Source::Annotation, autoscaled: false };
        then(&Rater { rules: &RuleSet::built_in(), object, now })
    }

    fn new(judgement: Judgement, now: Timestamp) -> Claim {
        with_rater(now, |rater| Claim::new(judgement, false, rater).0)
    }

    fn judged(claim: Claim, judgement: Judgement, moved: bool, now: Timestamp) -> (Claim, Step) {
        with_rater(now, |rater| claim.judged(judgement, moved, rater))
    }

    fn onset(claim: &Claim) -> i64 {
        claim.verdict.episode().unwrap().onset.as_second()
    }

    #[test]
    fn the_onset_is_when_the_owner_wrote_and_never_in_the_future() {
        assert_eq!(onset(&new(drifted(Some(50)), at(100))), 50);
        assert_eq!(onset(&new(drifted(Some(500)), at(100))), 100);
        assert_eq!(onset(&new(drifted(None), at(100))), 100);
    }

    #[test]
    fn within_an_episode_the_onset_never_moves_later() {
        let claim = new(drifted(Some(50)), at(100));
        let (claim, step) = judged(claim, drifted(Some(90)), false, at(110));
        assert_eq!((onset(&claim), step), (50, Step::Nothing));
        let (claim, _) = judged(claim, drifted(Some(40)), false, at(120));
        assert_eq!(onset(&claim), 40);
    }

    #[test]
    fn what_cannot_be_judged_holds_its_last_settled_value() {
        let claim = new(drifted(Some(50)), at(100));
        let (claim, step) = judged(claim, Judgement::Unknown(UnknownReason::BadHash), false, at(110));
        assert_eq!(
            (claim.verdict.kind(), claim.verdict.drifted(), step),
            (VerdictKind::Unknown, Some(true), Step::Nothing)
        );
        let (claim, step) = judged(claim, drifted(Some(60)), false, at(120));
        assert_eq!((onset(&claim), step), (50, Step::Nothing));
        let (claim, step) = judged(claim, Judgement::InSync, false, at(130));
        assert_eq!(step, Step::Ended(Cause::Reverted));
        let (claim, _) = judged(claim, Judgement::Unknown(UnknownReason::BadHash), false, at(140));
        assert_eq!(claim.verdict.drifted(), Some(false));
        let never = new(Judgement::Unknown(UnknownReason::BadHash), at(1));
        assert_eq!(never.verdict.drifted(), None);
    }

    #[test]
    fn episodes_end_with_a_cause_and_are_counted() {
        let claim = new(Judgement::InSync, at(1));
        let (claim, step) = judged(claim, drifted(None), false, at(2));
        assert_eq!(step, Step::Began);
        let (claim, step) = judged(claim, Judgement::InSync, true, at(3));
        assert_eq!(step, Step::Ended(Cause::Absorbed));
        let (claim, _) = judged(claim, drifted(None), false, at(4));
        assert_eq!(claim.episodes.unwrap().count, 2);
        let (_, step) = judged(claim, Judgement::NoBaseline, false, at(5));
        assert_eq!(step, Step::Ended(Cause::Deleted));
    }
}

#[cfg(test)]
mod rating_tests {
    use std::{
        collections::BTreeMap,
        sync::{Arc, Mutex},
    };

    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::Rater;
    use crate::{
        engine::Claim,
        rules::{ObjectView, RuleInput, RuleSet},
        types::{
            FieldClass, FieldManager, Finding, Judgement, Kind, ObjectKey, Source, UnknownReason, Verdict,
        },
    };

    #[derive(Clone, Debug)]
    enum Step {
        /// These fields differ, each written at this second.
        Differ(Vec<(usize, i64)>),
        Unknown,
        InSync,
        /// These fields are ignored from now on.
        Ignore(Vec<usize>),
    }

    const PATHS: [&str; 3] = ["spec.a", "spec.b", "spec.c"];

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => prop::collection::btree_map(0..3_usize, 0..500_i64, 1..=3).prop_map(|own| Step::Differ(own.into_iter().collect())),
            1 => Just(Step::Unknown),
            1 => Just(Step::InSync),
            4 => prop::sample::subsequence(vec![0, 1, 2], 0..=3).prop_map(Step::Ignore),
        ]
    }

    /// One set of rules for each choice of fields.
    fn ignoring(fields: &[usize]) -> RuleSet {
        static SETS: Mutex<BTreeMap<Vec<usize>, RuleSet>> = Mutex::new(BTreeMap::new());
        let mut sets = SETS.lock().unwrap();
        sets.entry(fields.to_vec()).or_insert_with(|| ignoring_anew(fields)).clone()
    }

    fn ignoring_anew(fields: &[usize]) -> RuleSet {
        let rules = fields
            .iter()
            .map(|at| format!("{{name: r{at}, match: {{paths: [{}]}}, effect: ignore}}", PATHS[*at]));
        let rules = format!("[{}]", rules.collect::<Vec<_>>().join(","));
        let rules = serde_saphyr::from_str(&rules).unwrap();
        RuleSet::compile(&RuleInput { rules, ..RuleInput::default() }).unwrap()
    }

    fn judgement(step: &Step) -> Option<Judgement> {
        let finding = |(at, second): &(usize, i64)| Finding {
            path: PATHS[*at].into(),
            class: FieldClass::Other,
            expected: "1".into(),
            actual: "2".into(),
            writer: Some(FieldManager {
                manager: "x".into(),
                subresource: "".into(),
                time: Timestamp::from_second(*second).ok(),
            }),
        };
        match step {
            Step::Differ(fields) => Some(Judgement::Drifted(fields.iter().map(finding).collect())),
            Step::Unknown => Some(Judgement::Unknown(UnknownReason::BadHash)),
            Step::InSync => Some(Judgement::InSync),
            Step::Ignore(_) => None,
        }
    }

    /// The claim after each step; none of the changes of rules are taken if they were fixed from the start.
    fn play(steps: &[Step], fixed: Option<&RuleSet>) -> Vec<Claim> {
        let key =
            ObjectKey { kind: Arc::new(Kind::deployment()), namespace: "shop".into(), name: "web".into() };
        let object =
            ObjectView { key: &key, labels: &[], mutes: "", source: Source::Annotation, autoscaled: false };
        let mut rules = fixed.cloned().unwrap_or_default();
        let mut claim =
            Claim { source: Source::Annotation, verdict: Verdict::InSync, episodes: None, details: None };
        let mut claims = Vec::new();
        for (second, step) in (1_000..).zip(steps) {
            if let (Step::Ignore(fields), None) = (step, fixed) {
                rules = ignoring(fields);
            }
            let now = Timestamp::from_second(second).unwrap();
            let rater = Rater { rules: &rules, object, now };
            claim = match judgement(step) {
                Some(judgement) => claim.judged(judgement, false, &rater).0,
                None => claim.rated_again(&rater).0,
            };
            claims.push(claim.clone());
        }
        claims
    }

    fn onset(claim: &Claim) -> Option<Timestamp> {
        claim.verdict.episode().map(|episode| episode.onset)
    }

    proptest! {
        #[test]
        fn what_counts_and_since_when_does_not_depend_on_the_rules_of_the_past(
            steps in prop::collection::vec(step(), 1..20),
        ) {
            let last = steps.iter().rev().find_map(|step| match step {
                Step::Ignore(fields) => Some(ignoring(fields)),
                Step::Differ(_) | Step::Unknown | Step::InSync => None,
            });
            let changed = play(&steps, None).pop().unwrap();
            let same = play(&steps, Some(&last.unwrap_or_default())).pop().unwrap();
            prop_assert_eq!(changed.verdict.kind(), same.verdict.kind());
            prop_assert_eq!(changed.verdict.drifted(), same.verdict.drifted());
            let (changed, same): (Vec<_>, Vec<_>) =
                (changed.verdict.differences().collect(), same.verdict.differences().collect());
            prop_assert_eq!(changed, same);
        }

        #[test]
        fn an_onset_never_moves_later_until_the_object_is_in_sync(steps in prop::collection::vec(step(), 1..20)) {
            let (claims, without) = (play(&steps, None), play(&steps, Some(&RuleSet::built_in())));
            let mut earliest: Option<Timestamp> = None;
            for (claim, without) in claims.iter().zip(&without) {
                if claim.verdict == Verdict::InSync {
                    earliest = None;
                }
                let Some(onset) = onset(claim) else { continue };
                prop_assert!(earliest.is_none_or(|earliest| onset <= earliest));
                earliest = Some(onset);
                let episode = claim.verdict.episode().unwrap();
                prop_assert!(episode.differences.iter().all(|difference| onset <= difference.onset));
                // Rules hide differences and bring back their onsets; they never make one up.
                prop_assert!(without.verdict.episode().is_some_and(|episode| episode.onset <= onset));
            }
        }
    }
}
