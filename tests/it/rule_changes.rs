//! Rule changes in an engine with live objects.

use std::{sync::Arc, time::Duration};

use drift_exporter::{
    config::read_yaml,
    engine::{Claim, EpisodeChange},
    event::Event,
    rules::{RuleConfig, RuleSet, TeamRules},
    types::{
        Algorithm, Digest, FieldManager, HashBaseline, HashMismatch, Kind, LiveObject, ResolutionCause,
        RuleInputs, Source, UnknownReason, ValueDigest, VerdictKind,
    },
};
use jiff::Timestamp;
use proptest::prelude::*;

use crate::{
    rules::rules,
    support::{
        api_server::ApiServer,
        engine::EngineFixture,
        exporter_fixture::{BEGIN, ExporterFixture},
        live_objects::{deployment, edited},
    },
};

const IGNORE_ALL: &str = "[{name: ignore, match: {fields: [hash]}, effect: ignore}]";

impl EngineFixture {
    fn with_hashes() -> Self {
        Self::not_synced(Kind::deployment(), &[Source::Annotation])
    }

    fn set_rules(&mut self, yaml: &str) -> &mut Self {
        self.apply_rules(Arc::new(rules(yaml)));
        self
    }

    fn observe_hash(&mut self, name: &str, hash_baseline: HashBaseline, team: &str) -> &mut Self {
        self.version += 1;
        let object = LiveObject {
            uid: name.into(),
            resource_version: self.version.to_string().into(),
            rule_inputs: Arc::new(RuleInputs {
                label_names: Some(Arc::new(["team".into()])),
                labels: Box::new([("team".into(), team.into())]),
                muted_paths: None,
            }),
            hash_baseline,
            ..LiveObject::named(self.key(name))
        };
        self.engine.apply(Event::Applied(self.stream.id, Arc::new(object)));
        self
    }

    fn first_claim(&self, name: &str) -> Option<Claim> {
        self.claims(name).into_iter().next()
    }

    fn web_verdict(&self) -> VerdictKind {
        self.first_claim("web").unwrap().verdict.kind()
    }

    fn web_onset(&self) -> i64 {
        self.first_claim("web").unwrap().verdict.episode().unwrap().onset.as_second()
    }

    fn rule_matches(&self, name: &str) -> u64 {
        let snapshot = self.engine.snapshot();
        snapshot.rules.matches().find(|(rule, _)| &**rule.name() == name).unwrap().1
    }

    fn block_version(&self) -> u64 {
        self.engine.snapshot().kinds[0].blocks.blocks()[0].version()
    }
}

/// A mismatch between live and recorded hash, written at this second.
fn mismatch(content: &str, second: i64) -> HashBaseline {
    HashBaseline::Mismatch(Box::new(HashMismatch {
        algorithm: Algorithm::TfdriftV1,
        expected: Digest::of(b"declared"),
        actual: Digest::of(content.as_bytes()),
        owner: Some(FieldManager {
            manager: "kubectl-edit".into(),
            subresource: "".into(),
            time: Timestamp::from_second(second).ok(),
        }),
        recorded_by: None,
    }))
}

#[test]
fn removed_ignore_rule_restores_onset() {
    let mut fixture = EngineFixture::with_hashes();
    fixture.observe_hash("web", HashBaseline::Match(Digest::of(b"declared")), "").observe_hash(
        "web",
        mismatch("a", 900),
        "",
    );
    assert_eq!((fixture.web_verdict(), fixture.web_onset()), (VerdictKind::Drifted, 900));
    fixture.set_time(2_000).set_rules(IGNORE_ALL);
    assert_eq!(
        (fixture.web_verdict(), fixture.last_episode_change()),
        (VerdictKind::Ignored, Some(EpisodeChange::Ended(ResolutionCause::Rule)))
    );
    assert_eq!(fixture.rule_matches("ignore"), 1);
    fixture.set_time(3_000).observe_hash("web", mismatch("b", 2_900), "");
    assert_eq!(fixture.web_verdict(), VerdictKind::Ignored);
    fixture.set_time(4_000).set_rules("[]");
    assert_eq!(
        (fixture.web_verdict(), fixture.web_onset(), fixture.last_episode_change()),
        (VerdictKind::Drifted, 900, Some(EpisodeChange::Started))
    );
    let counters = fixture.engine.snapshot().counters;
    assert_eq!(counters.detections().map(|(_, count)| count).sum::<u64>(), 2);
    assert_eq!(counters.resolutions().find(|(_, cause, _)| *cause == ResolutionCause::Rule).unwrap().2, 1);
}

#[test]
fn reverted_ignored_drift_records_no_episode() {
    let mut fixture = EngineFixture::with_hashes();
    fixture.set_rules(IGNORE_ALL).observe_hash("web", mismatch("a", 900), "");
    assert_eq!(fixture.web_verdict(), VerdictKind::Ignored);
    fixture.observe_hash("web", HashBaseline::Match(Digest::of(b"declared")), "");
    assert_eq!(fixture.web_verdict(), VerdictKind::InSync);
    let snapshot = fixture.engine.snapshot();
    assert_eq!(snapshot.counters.detections().map(|(_, count)| count).sum::<u64>(), 0);
    assert_eq!(snapshot.counters.resolutions().map(|(.., count)| count).sum::<u64>(), 0);
    assert!(snapshot.history.newest_first().all(|transition| transition.episode.is_none()));
    assert_eq!(fixture.rule_matches("ignore"), 0);
}

#[test]
fn tick_only_expires_rules() {
    let mut fixture = EngineFixture::with_hashes();
    fixture.set_rules(
        "[{name: ignore, match: {fields: [hash]}, effect: ignore, expires: '1970-01-01T00:30:00Z'}]",
    );
    fixture.observe_hash("web", mismatch("a", 900), "");
    let sequence = fixture.engine.snapshot().sequence;
    assert!(!fixture.set_time(1_799).tick(), "no rule has expired");
    assert_eq!((fixture.web_verdict(), fixture.engine.snapshot().sequence), (VerdictKind::Ignored, sequence));
    assert!(fixture.set_time(1_800).tick());
    assert_eq!(
        (fixture.web_verdict(), fixture.web_onset(), fixture.rule_matches("ignore")),
        (VerdictKind::Drifted, 900, 0)
    );
    assert!(!fixture.set_time(1_900).tick());
}

#[test]
fn clock_that_goes_back_restores_rules_and_leaves_no_onset_in_the_future() {
    let mut fixture = EngineFixture::with_hashes();
    fixture.set_rules(
        "[{name: ignore, match: {fields: [hash]}, effect: ignore, expires: '1970-01-01T00:30:00Z'}]",
    );
    fixture.set_time(2_000).observe_hash("web", mismatch("a", 1_950), "");
    assert_eq!((fixture.web_verdict(), fixture.web_onset()), (VerdictKind::Drifted, 1_950));
    assert!(fixture.set_time(1_900).tick());
    assert_eq!((fixture.web_onset(), fixture.web_verdict()), (1_900, VerdictKind::Drifted));
    assert!(fixture.set_time(1_700).tick());
    assert_eq!(fixture.web_verdict(), VerdictKind::Ignored, "the rule has not expired yet");
    assert!(!fixture.tick());
}

#[test]
fn rules_without_effect_keep_block_version() {
    let mut fixture = EngineFixture::with_hashes();
    fixture.observe_hash("web", mismatch("a", 900), "").set_rules("[]");
    let version = fixture.block_version();
    fixture.set_rules("[{name: other, match: {fields: [image]}, effect: ignore}]");
    assert_eq!(fixture.block_version(), version);
    fixture.set_rules("[{name: worse, match: {fields: [hash]}, effect: {severity: critical}}]");
    assert!(fixture.block_version() > version);
}

#[test]
fn rule_change_rerates_unknown_claim() {
    let mut fixture = EngineFixture::with_hashes();
    fixture.observe_hash("web", mismatch("a", 900), "").observe_hash(
        "web",
        HashBaseline::Unusable(UnknownReason::BadHash),
        "",
    );
    let drifted = |fixture: &EngineFixture| fixture.first_claim("web").unwrap().verdict.drifted_value();
    assert_eq!(drifted(&fixture), Some(true));
    fixture.set_rules(IGNORE_ALL);
    assert_eq!((fixture.web_verdict(), drifted(&fixture)), (VerdictKind::Unknown, Some(false)));
    assert_eq!(fixture.last_episode_change(), Some(EpisodeChange::Ended(ResolutionCause::Rule)));
    fixture.set_rules("[]");
    assert_eq!(
        (fixture.web_verdict(), drifted(&fixture), fixture.web_onset()),
        (VerdictKind::Unknown, Some(true), 900)
    );
}

#[test]
fn label_change_reevaluates_rules() {
    let mut fixture = EngineFixture::with_hashes();
    fixture.set_rules("[{name: quiet, match: {labels: {team: checkout}}, effect: ignore}]");
    fixture.observe_hash("web", mismatch("a", 900), "search");
    assert_eq!(fixture.web_verdict(), VerdictKind::Drifted);
    fixture.observe_hash("web", mismatch("a", 900), "checkout");
    assert_eq!(fixture.web_verdict(), VerdictKind::Ignored);
}

const IGNORE_TIER: &str = "[{name: batch, match: {labels: {tier: batch}}, effect: ignore}]";

impl EngineFixture {
    /// Applies an object whose labels `team` and `tier` were read.
    fn observe_tier(&mut self, name: &str, hash_baseline: HashBaseline, tier: &str) -> &mut Self {
        self.version += 1;
        let object = LiveObject {
            uid: name.into(),
            resource_version: self.version.to_string().into(),
            rule_inputs: Arc::new(RuleInputs {
                label_names: Some(Arc::new(["team".into(), "tier".into()])),
                labels: Box::new([("tier".into(), tier.into())]),
                muted_paths: None,
            }),
            hash_baseline,
            ..LiveObject::named(self.key(name))
        };
        self.engine.apply(Event::Applied(self.stream.id, Arc::new(object)));
        self
    }
}

#[test]
fn claim_keeps_its_rating_until_the_labels_of_new_rules_are_read() {
    let mut fixture = EngineFixture::with_hashes();
    fixture.observe_hash("web", HashBaseline::Match(Digest::of(b"declared")), "a");
    fixture.observe_hash("web", mismatch("a", 900), "a");
    fixture.set_rules("[{name: quiet, match: {fields: [hash]}, effect: ignore}]");
    assert_eq!((fixture.web_verdict(), fixture.detections()), (VerdictKind::Ignored, 1));
    // The object is in tier `batch`, but that label was not read.
    fixture.set_rules(IGNORE_TIER);
    assert_eq!(fixture.web_verdict(), VerdictKind::Ignored);
    for hash_baseline in [mismatch("b", 950), HashBaseline::Unusable(UnknownReason::BadHash)] {
        fixture.observe_hash("web", hash_baseline, "a");
        let verdict = fixture.first_claim("web").unwrap().verdict;
        assert!(verdict.kind().is_undecided() && verdict.drifted_value() == Some(false), "{verdict:?}");
    }
    fixture.observe_tier("web", mismatch("b", 950), "batch");
    assert_eq!((fixture.web_verdict(), fixture.detections()), (VerdictKind::Ignored, 1), "no false start");
    fixture.observe_tier("web", mismatch("b", 950), "front");
    assert_eq!(
        (fixture.web_verdict(), fixture.web_onset(), fixture.detections()),
        (VerdictKind::Drifted, 900, 2)
    );
}

#[test]
fn claim_is_in_flight_until_the_labels_of_the_rules_are_read() {
    let mut fixture = EngineFixture::with_hashes();
    fixture.set_rules(IGNORE_TIER).observe_hash("web", mismatch("a", 900), "a");
    assert_eq!((fixture.web_verdict(), fixture.detections()), (VerdictKind::InFlight, 0));
    fixture.observe_hash("web", HashBaseline::Match(Digest::of(b"declared")), "a");
    assert_eq!(fixture.web_verdict(), VerdictKind::InSync, "nothing has to be rated");
    fixture.observe_hash("web", mismatch("a", 900), "a").observe_tier("web", mismatch("a", 900), "front");
    assert_eq!((fixture.web_verdict(), fixture.detections()), (VerdictKind::Drifted, 1));
}

#[test]
fn rules_of_a_team_wait_for_labels_in_its_namespace_only() {
    let team = |namespace: &str| {
        let rules = read_yaml(IGNORE_TIER).unwrap();
        let teams = vec![TeamRules { namespace: namespace.into(), rules }];
        Arc::new(RuleSet::compile(&RuleConfig { teams, ..RuleConfig::default() }).unwrap())
    };
    for (namespace, verdict) in [("shop", VerdictKind::InFlight), ("attic", VerdictKind::Drifted)] {
        let mut fixture = EngineFixture::with_hashes();
        fixture.apply_rules(team(namespace));
        fixture.observe_hash("web", mismatch("a", 900), "a");
        assert_eq!(fixture.web_verdict(), verdict, "{namespace}");
    }
}

#[test]
fn same_rules_change_nothing() {
    let mut fixture = EngineFixture::with_hashes();
    fixture.observe_hash("web", mismatch("a", 900), "");
    let same = Arc::new(rules(IGNORE_ALL));
    assert!(fixture.apply_rules(same.clone()));
    let before = fixture.engine.snapshot();
    assert!(!fixture.apply_rules(same));
    let after = fixture.engine.snapshot();
    assert!(Arc::ptr_eq(&before.rules, &after.rules) && before.sequence == after.sequence);
}

#[tokio::test(start_paused = true)]
async fn rule_series_report_matches_and_expiry() {
    let api = ApiServer::default();
    api.put("deployments", edited(deployment("web"), 1));
    let exporter = ExporterFixture::ready(&api).await;
    let onset = "drift_resource_drifted_timestamp_seconds{";
    let before = exporter.sample(onset).await;
    assert!(before.is_some());
    let expiring =
        "[{name: brief, match: {fields: [hash]}, effect: ignore, expires: '2026-02-01T13:00:00Z'}]";
    exporter.rules(rules(expiring)).await;
    assert_eq!(exporter.sample(onset).await, None);
    assert_eq!(exporter.sample("drift_resource_drifted{").await, Some(0.0));
    assert_eq!(exporter.sample("drift_rule_matches{rule=\"brief\"}").await, Some(1.0));
    let expiry = exporter.sample("drift_rule_expiry_timestamp_seconds{rule=\"brief\"}").await;
    assert_eq!(expiry, Some((BEGIN + 3_600) as f64));
    tokio::time::sleep(Duration::from_secs(3_602)).await;
    assert_eq!(exporter.sample(onset).await, before);
    assert_eq!(exporter.sample("drift_rule_matches{rule=\"brief\"}").await, Some(0.0));
}

#[derive(Clone, Debug)]
enum Step {
    Observe(u8, u8, bool),
    Delete(u8),
    Rules(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3_u8, 0..5_u8, any::<bool>()).prop_map(|(object, hash_baseline, team)| Step::Observe(object, hash_baseline, team)),
        1 => (0..3_u8).prop_map(Step::Delete),
        4 => (0..5_usize).prop_map(Step::Rules),
    ]
}

fn some_rules(at: usize) -> RuleSet {
    let pinned = ValueDigest::of(&Digest::of(b"a").to_string());
    rules(&match at {
        0 => "[]".to_owned(),
        1 => IGNORE_ALL.to_owned(),
        2 => format!("[{{name: pinned, match: {{values: ['{pinned}']}}, effect: ignore}}]"),
        3 => "[{name: quiet, match: {labels: {team: checkout}}, effect: ignore}]".to_owned(),
        _ => "[{name: worse, match: {names: [o1]}, effect: {severity: critical}}]".to_owned(),
    })
}

/// Applies the steps. With `fixed` rules, skips the steps that change rules.
fn replay(steps: &[Step], fixed: Option<RuleSet>) -> EngineFixture {
    let mut fixture = EngineFixture::with_hashes();
    let changes = fixed.is_none();
    if let Some(rules) = fixed {
        fixture.apply_rules(Arc::new(rules));
    }
    for (second, step) in (2_000..).step_by(10).zip(steps) {
        fixture.set_time(second);
        match step {
            Step::Observe(object, hash_baseline, team) => {
                let hash_baseline = match hash_baseline {
                    0 => HashBaseline::Match(Digest::of(b"declared")),
                    1 => HashBaseline::Absent,
                    2 => HashBaseline::Unusable(UnknownReason::BadHash),
                    3 => mismatch("a", second - 5),
                    _ => mismatch("b", second - 5),
                };
                fixture.observe_hash(
                    &format!("o{object}"),
                    hash_baseline,
                    if *team { "checkout" } else { "search" },
                );
            }
            Step::Delete(object) => {
                fixture.delete(&format!("o{object}"));
            }
            Step::Rules(at) if changes => {
                fixture.apply_rules(Arc::new(some_rules(*at)));
            }
            Step::Rules(_) => {}
        }
    }
    fixture
}

proptest! {
    #[test]
    fn final_state_depends_only_on_the_last_rules(steps in prop::collection::vec(step(), 1..30)) {
        let last = steps.iter().rev().find_map(|step| match step {
            Step::Rules(at) => Some(*at),
            Step::Observe(..) | Step::Delete(_) => None,
        });
        let (changed, same) = (replay(&steps, None), replay(&steps, Some(some_rules(last.unwrap_or(0)))));
        for name in ["o0", "o1", "o2"] {
            let (Some(changed), Some(same)) = (changed.first_claim(name), same.first_claim(name)) else {
                prop_assert_eq!(changed.first_claim(name), same.first_claim(name));
                continue;
            };
            let (changed, same) = (changed.verdict, same.verdict);
            prop_assert_eq!((changed.kind(), changed.drifted_value()), (same.kind(), same.drifted_value()));
            prop_assert_eq!(changed.differences().collect::<Vec<_>>(), same.differences().collect::<Vec<_>>());
            let onset = |verdict: &drift_exporter::types::Verdict| verdict.episode().map(|episode| episode.onset);
            prop_assert_eq!(onset(&changed), onset(&same));
        }
        let counts = |fixture: &EngineFixture| -> Vec<u64> {
            fixture.engine.snapshot().rules.matches().map(|(_, count)| count).collect()
        };
        prop_assert_eq!(counts(&changed), counts(&same));
    }
}
