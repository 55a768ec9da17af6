//! One object with what a source claims about it.

use std::sync::Arc;

use jiff::Timestamp;

use crate::{
    model::{
        Cause, Difference, Episode, Finding, Held, Judgement, LiveObject, Source, Stamp, Trouble, Verdict,
    },
    rules,
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
}

/// How often a claim began to drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Episodes {
    /// How often.
    pub count: u32,
    /// When last.
    pub last: Timestamp,
}

/// What a new judgement did to a claim.
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
    /// The claim on an object that was not known before. `counted`: an episode that shows now began while we watched.
    pub(super) fn new(source: Source, judgement: Judgement, counted: bool, now: Timestamp) -> (Self, Step) {
        let verdict = match judgement {
            Judgement::InSync => Verdict::InSync,
            Judgement::NoBaseline => Verdict::NoBaseline,
            Judgement::Drifted(findings) => Verdict::Off(episode(findings, None, now)),
            Judgement::Unknown(reason) => Verdict::Unknown(reason, Held::Nothing),
        };
        if counted && verdict.episode().is_some() {
            (Self { source, verdict, episodes: Some(Episodes { count: 1, last: now }) }, Step::Began)
        } else {
            (Self { source, verdict, episodes: None }, Step::Nothing)
        }
    }

    /// Folds a new judgement into what was known. What could not be judged keeps its last settled value.
    pub(super) fn judged(self, judgement: Judgement, baseline_moved: bool, now: Timestamp) -> (Self, Step) {
        let before = self.verdict.episode().is_some();
        let verdict = match judgement {
            Judgement::InSync => Verdict::InSync,
            Judgement::NoBaseline => Verdict::NoBaseline,
            Judgement::Drifted(findings) => Verdict::Off(episode(findings, self.verdict.episode(), now)),
            Judgement::Unknown(reason) => Verdict::Unknown(reason, self.verdict.into_held()),
        };
        let after = verdict.episode().is_some();
        let step = match (before, after) {
            (false, true) => Step::Began,
            (true, false) if verdict == Verdict::NoBaseline => Step::Ended(Cause::Deleted),
            (true, false) if baseline_moved => Step::Ended(Cause::Absorbed),
            (true, false) => Step::Ended(Cause::Reverted),
            (true, true) | (false, false) => Step::Nothing,
        };
        let mut episodes = self.episodes;
        if step == Step::Began {
            episodes = Some(Episodes { count: episodes.map_or(0, |episodes| episodes.count) + 1, last: now });
        }
        (Self { source: self.source, verdict, episodes }, step)
    }
}

/// Whether an object that differed now matches because its baseline moved, and not the object.
pub(super) fn only_baseline_moved(before: &Verdict, after: &Stamp) -> bool {
    let (Some(episode), Stamp::Match(digest)) = (before.episode(), after) else { return false };
    episode.differences.first().is_some_and(|difference| *difference.finding.actual == *digest.to_string())
}

/// An episode with the worst difference first, going on from an earlier one.
fn episode(findings: Vec<Finding>, earlier: Option<&Episode>, now: Timestamp) -> Episode {
    let mut differences: Vec<Difference> =
        findings.into_iter().map(|finding| rules::rate(finding, now)).collect();
    for difference in &mut differences {
        let before = earlier.and_then(|episode| {
            episode.differences.iter().find(|before| before.finding.path == difference.finding.path)
        });
        if let Some(before) = before {
            difference.onset = difference.onset.min(before.onset);
        }
    }
    differences.sort_by(|a, b| {
        (b.severity, b.expectation, b.onset)
            .cmp(&(a.severity, a.expectation, a.onset))
            .then_with(|| a.finding.path.cmp(&b.finding.path))
    });
    let onset = differences
        .iter()
        .map(|difference| difference.onset)
        .chain(earlier.map(|episode| episode.onset))
        .min();
    Episode { trouble: Trouble::Drifted, onset: onset.unwrap_or(now), differences }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::{Claim, Step};
    use crate::model::{Cause, FieldClass, Finding, Judgement, Source, UnknownReason, VerdictKind, Writer};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn drifted(written: Option<i64>) -> Judgement {
        Judgement::Drifted(vec![Finding {
            path: "spec".into(),
            class: FieldClass::Hash,
            expected: "a".into(),
            actual: "b".into(),
            writer: written.map(|second| Writer {
                manager: "kubectl-edit".into(),
                subresource: "".into(),
                time: Some(at(second)),
            }),
        }])
    }

    fn new(judgement: Judgement, now: Timestamp) -> Claim {
        Claim::new(Source::Annotation, judgement, false, now).0
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
        let (claim, step) = claim.judged(drifted(Some(90)), false, at(110));
        assert_eq!((onset(&claim), step), (50, Step::Nothing));
        let (claim, _) = claim.judged(drifted(Some(40)), false, at(120));
        assert_eq!(onset(&claim), 40);
    }

    #[test]
    fn what_cannot_be_judged_holds_its_last_settled_value() {
        let claim = new(drifted(Some(50)), at(100));
        let (claim, step) = claim.judged(Judgement::Unknown(UnknownReason::BadHash), false, at(110));
        assert_eq!(
            (claim.verdict.kind(), claim.verdict.drifted(), step),
            (VerdictKind::Unknown, Some(true), Step::Nothing)
        );
        let (claim, step) = claim.judged(drifted(Some(60)), false, at(120));
        assert_eq!((onset(&claim), step), (50, Step::Nothing));
        let (claim, step) = claim.judged(Judgement::InSync, false, at(130));
        assert_eq!(step, Step::Ended(Cause::Reverted));
        let (claim, _) = claim.judged(Judgement::Unknown(UnknownReason::BadHash), false, at(140));
        assert_eq!(claim.verdict.drifted(), Some(false));
        let never = new(Judgement::Unknown(UnknownReason::BadHash), at(1));
        assert_eq!(never.verdict.drifted(), None);
    }

    #[test]
    fn episodes_end_with_a_cause_and_are_counted() {
        let claim = new(Judgement::InSync, at(1));
        let (claim, step) = claim.judged(drifted(None), false, at(2));
        assert_eq!(step, Step::Began);
        let (claim, step) = claim.judged(Judgement::InSync, true, at(3));
        assert_eq!(step, Step::Ended(Cause::Absorbed));
        let (claim, _) = claim.judged(drifted(None), false, at(4));
        assert_eq!(claim.episodes.unwrap().count, 2);
        let (_, step) = claim.judged(Judgement::NoBaseline, false, at(5));
        assert_eq!(step, Step::Ended(Cause::Deleted));
    }
}
