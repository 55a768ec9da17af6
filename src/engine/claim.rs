//! One object with what a source claims about it.

use std::sync::Arc;

use jiff::Timestamp;

use super::rating::Rater;
use crate::types::{
    Cause, DriftKind, FieldPath, HashBaseline, Judgement, LiveObject, ObservedState, Source, Verdict,
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
