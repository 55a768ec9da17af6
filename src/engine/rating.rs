//! From findings to an episode, or to what rules make of one.

use std::collections::HashMap;

use jiff::Timestamp;

use crate::{
    rules::{ObjectView, RuleSet},
    types::{Difference, DriftKind, Episode, Finding, Ignored, LastKnown, Verdict},
};

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

#[cfg(test)]
mod tests {
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
