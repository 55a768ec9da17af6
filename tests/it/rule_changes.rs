//! Rules that change while objects do: what an engine makes of both.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use drift_exporter::{
    engine::{Claim, Engine, EngineMetrics, EpisodeChange, History},
    rules::RuleSet,
    types::{
        Algorithm, Clock, Digest, Event, FieldManager, HashBaseline, HashMismatch, Kind, LiveObject,
        ObjectKey, ResolutionCause, RuleInputs, Source, UnknownReason, ValueDigest, VerdictKind, WatchPlan,
        WatchSpec,
    },
};
use jiff::Timestamp;
use prometheus_client::registry::Registry;
use proptest::prelude::*;

use crate::{
    rules::rules,
    support::{
        api_server::ApiServer,
        objects::{deployment, edited},
        world::{BEGIN, World},
    },
};

const IGNORE_ALL: &str = "[{name: ignore, match: {fields: [hash]}, effect: ignore}]";

struct Bench {
    engine: Engine,
    stream: Arc<WatchSpec>,
    second: Arc<AtomicI64>,
    version: u64,
}

impl Bench {
    fn new() -> Self {
        let second = Arc::new(AtomicI64::new(1_000));
        let time = second.clone();
        let clock = Clock::new(move || Timestamp::from_second(time.load(Ordering::Relaxed)).unwrap());
        let kind = Arc::new(Kind::deployment());
        let stream = Arc::new(WatchSpec::all(kind));
        let metrics = EngineMetrics::register(&mut Registry::default());
        let engine = Engine::new(
            &WatchPlan { streams: vec![stream.clone()], ..WatchPlan::default() },
            Arc::default(),
            &[Source::Annotation],
            History::default(),
            metrics,
            clock,
        );
        Self { engine, stream, second, version: 0 }
    }

    fn at(&mut self, second: i64) -> &mut Self {
        self.second.store(second, Ordering::Relaxed);
        self
    }

    fn rules(&mut self, yaml: &str) -> &mut Self {
        self.engine.set_rules(Arc::new(rules(yaml)));
        self
    }

    fn tick(&mut self) -> bool {
        self.engine.apply(Event::Tick)
    }

    fn see(&mut self, name: &str, hash_baseline: HashBaseline, team: &str) -> &mut Self {
        self.version += 1;
        let key = ObjectKey { kind: self.stream.kind.clone(), namespace: "shop".into(), name: name.into() };
        let object = LiveObject {
            exists: true,
            uid: name.into(),
            resource_version: self.version.to_string().into(),
            rule_inputs: Arc::new(RuleInputs {
                label_names: Arc::new(["team".into()]),
                labels: Box::new([("team".into(), team.into())]),
                muted_paths: Box::default(),
            }),
            hash_baseline,
            ..LiveObject::absent(key)
        };
        self.engine.apply(Event::Applied(self.stream.clone(), Arc::new(object)));
        self
    }

    fn gone(&mut self, name: &str) {
        let (stream, namespace, name) = (self.stream.clone(), "shop".into(), name.into());
        self.engine.apply(Event::Deleted { stream, namespace, name });
    }

    fn claim(&self, name: &str) -> Option<Claim> {
        let snapshot = self.engine.snapshot();
        snapshot.kinds[0].blocks.get("shop", name).first().map(|entry| entry.claim.clone())
    }

    fn verdict(&self) -> VerdictKind {
        self.claim("web").unwrap().verdict.kind()
    }

    fn onset(&self) -> i64 {
        self.claim("web").unwrap().verdict.episode().unwrap().onset.as_second()
    }

    fn matches(&self, rule: &str) -> u64 {
        let snapshot = self.engine.snapshot();
        snapshot.rules.matches().find(|(own, _)| &**own.name() == rule).unwrap().1
    }

    fn block_version(&self) -> u64 {
        self.engine.snapshot().kinds[0].blocks.blocks()[0].version()
    }

    /// How the last episode of the history turned.
    fn last_episode_change(&self) -> EpisodeChange {
        let history = self.engine.snapshot().history;
        history.newest_first().find_map(|own| own.episode.as_ref()).unwrap().change
    }
}

/// Another hash than the recorded one, written at this second.
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
fn the_onset_returns_when_the_rule_goes() {
    let mut bench = Bench::new();
    bench.see("web", HashBaseline::Match(Digest::of(b"declared")), "").see("web", mismatch("a", 900), "");
    assert_eq!((bench.verdict(), bench.onset()), (VerdictKind::Drifted, 900));
    bench.at(2_000).rules(IGNORE_ALL);
    assert_eq!(
        (bench.verdict(), bench.last_episode_change()),
        (VerdictKind::Ignored, EpisodeChange::Ended(ResolutionCause::Rule))
    );
    assert_eq!(bench.matches("ignore"), 1);
    bench.at(3_000).see("web", mismatch("b", 2_900), "");
    assert_eq!(bench.verdict(), VerdictKind::Ignored);
    bench.at(4_000).rules("[]");
    assert_eq!(
        (bench.verdict(), bench.onset(), bench.last_episode_change()),
        (VerdictKind::Drifted, 900, EpisodeChange::Started)
    );
    let counters = bench.engine.snapshot().counters;
    assert_eq!(counters.detections.values().sum::<u64>(), 2);
    assert_eq!(
        counters.resolutions.iter().find(|((_, cause), _)| *cause == ResolutionCause::Rule).unwrap().1,
        &1
    );
}

#[test]
fn what_was_ignored_and_goes_back_in_sync_ends_quietly() {
    let mut bench = Bench::new();
    bench.rules(IGNORE_ALL).see("web", mismatch("a", 900), "");
    assert_eq!(bench.verdict(), VerdictKind::Ignored);
    bench.see("web", HashBaseline::Match(Digest::of(b"declared")), "");
    assert_eq!(bench.verdict(), VerdictKind::InSync);
    let snapshot = bench.engine.snapshot();
    assert_eq!(snapshot.counters.detections.values().sum::<u64>(), 0);
    assert_eq!(snapshot.counters.resolutions.values().sum::<u64>(), 0);
    assert!(snapshot.history.newest_first().all(|own| own.episode.is_none()));
    assert_eq!(bench.matches("ignore"), 0);
}

#[test]
fn a_tick_lets_rules_expire_and_does_nothing_else() {
    let mut bench = Bench::new();
    bench.rules("[{name: ignore, match: {fields: [hash]}, effect: ignore, expires: '1970-01-01T00:30:00Z'}]");
    bench.see("web", mismatch("a", 900), "");
    let sequence = bench.engine.snapshot().sequence;
    assert!(!bench.at(1_799).tick(), "nothing has expired yet");
    assert_eq!((bench.verdict(), bench.engine.snapshot().sequence), (VerdictKind::Ignored, sequence));
    assert!(bench.at(1_800).tick());
    assert_eq!((bench.verdict(), bench.onset(), bench.matches("ignore")), (VerdictKind::Drifted, 900, 0));
    assert!(!bench.at(1_900).tick());
}

#[test]
fn rules_that_change_nothing_leave_the_blocks_alone() {
    let mut bench = Bench::new();
    bench.see("web", mismatch("a", 900), "").rules("[]");
    let version = bench.block_version();
    bench.rules("[{name: other, match: {fields: [image]}, effect: ignore}]");
    assert_eq!(bench.block_version(), version);
    bench.rules("[{name: worse, match: {fields: [hash]}, effect: {severity: critical}}]");
    assert!(bench.block_version() > version);
}

#[test]
fn what_cannot_be_judged_is_rated_again_as_well() {
    let mut bench = Bench::new();
    bench.see("web", mismatch("a", 900), "").see("web", HashBaseline::Unusable(UnknownReason::BadHash), "");
    let drifted = |bench: &Bench| bench.claim("web").unwrap().verdict.drifted();
    assert_eq!(drifted(&bench), Some(true));
    bench.rules(IGNORE_ALL);
    assert_eq!((bench.verdict(), drifted(&bench)), (VerdictKind::Unknown, Some(false)));
    assert_eq!(bench.last_episode_change(), EpisodeChange::Ended(ResolutionCause::Rule));
    bench.rules("[]");
    assert_eq!((bench.verdict(), drifted(&bench), bench.onset()), (VerdictKind::Unknown, Some(true), 900));
}

#[test]
fn a_label_that_changes_is_held_against_the_rules_again() {
    let mut bench = Bench::new();
    bench.rules("[{name: quiet, match: {labels: {team: checkout}}, effect: ignore}]");
    bench.see("web", mismatch("a", 900), "search");
    assert_eq!(bench.verdict(), VerdictKind::Drifted);
    bench.see("web", mismatch("a", 900), "checkout");
    assert_eq!(bench.verdict(), VerdictKind::Ignored);
}

#[tokio::test(start_paused = true)]
async fn a_rule_is_seen_on_the_page_with_what_it_matches_and_takes_away() {
    let api = ApiServer::default();
    api.put("deployments", edited(deployment("web"), 1));
    let world = World::ready(&api).await;
    let onset = "drift_resource_drifted_timestamp_seconds{";
    let before = world.sample(onset).await;
    assert!(before.is_some());
    let expiring =
        "[{name: brief, match: {fields: [hash]}, effect: ignore, expires: '2026-02-01T13:00:00Z'}]";
    world.rules(rules(expiring)).await;
    assert_eq!(world.sample(onset).await, None);
    assert_eq!(world.sample("drift_resource_drifted{").await, Some(0.0));
    assert_eq!(world.sample("drift_rule_matches{rule=\"brief\"}").await, Some(1.0));
    let expiry = world.sample("drift_rule_expiry_timestamp_seconds{rule=\"brief\"}").await;
    assert_eq!(expiry, Some((BEGIN + 3_600) as f64));
    tokio::time::sleep(Duration::from_secs(3_602)).await;
    assert_eq!(world.sample(onset).await, before);
    assert_eq!(world.sample("drift_rule_matches{rule=\"brief\"}").await, Some(0.0));
}

#[derive(Clone, Debug)]
enum Step {
    See(u8, u8, bool),
    Gone(u8),
    Rules(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3_u8, 0..5_u8, any::<bool>()).prop_map(|(object, hash_baseline, team)| Step::See(object, hash_baseline, team)),
        1 => (0..3_u8).prop_map(Step::Gone),
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

/// Plays the steps; with rules that were fixed from the start, those of the steps are left out.
fn play(steps: &[Step], fixed: Option<RuleSet>) -> Bench {
    let mut bench = Bench::new();
    let changes = fixed.is_none();
    if let Some(rules) = fixed {
        bench.engine.set_rules(Arc::new(rules));
    }
    for (second, step) in (2_000..).step_by(10).zip(steps) {
        bench.at(second);
        match step {
            Step::See(object, hash_baseline, team) => {
                let hash_baseline = match hash_baseline {
                    0 => HashBaseline::Match(Digest::of(b"declared")),
                    1 => HashBaseline::Absent,
                    2 => HashBaseline::Unusable(UnknownReason::BadHash),
                    3 => mismatch("a", second - 5),
                    _ => mismatch("b", second - 5),
                };
                bench.see(&format!("o{object}"), hash_baseline, if *team { "checkout" } else { "search" });
            }
            Step::Gone(object) => bench.gone(&format!("o{object}")),
            Step::Rules(at) if changes => {
                bench.engine.set_rules(Arc::new(some_rules(*at)));
            }
            Step::Rules(_) => {}
        }
    }
    bench
}

proptest! {
    #[test]
    fn the_end_is_as_if_the_last_rules_had_always_held(steps in prop::collection::vec(step(), 1..30)) {
        let last = steps.iter().rev().find_map(|step| match step {
            Step::Rules(at) => Some(*at),
            Step::See(..) | Step::Gone(_) => None,
        });
        let (changed, same) = (play(&steps, None), play(&steps, Some(some_rules(last.unwrap_or(0)))));
        for name in ["o0", "o1", "o2"] {
            let (Some(changed), Some(same)) = (changed.claim(name), same.claim(name)) else {
                prop_assert_eq!(changed.claim(name), same.claim(name));
                continue;
            };
            let (changed, same) = (changed.verdict, same.verdict);
            prop_assert_eq!((changed.kind(), changed.drifted()), (same.kind(), same.drifted()));
            prop_assert_eq!(changed.differences().collect::<Vec<_>>(), same.differences().collect::<Vec<_>>());
            let onset = |verdict: &drift_exporter::types::Verdict| verdict.episode().map(|own| own.onset);
            prop_assert_eq!(onset(&changed), onset(&same));
        }
        let counts = |bench: &Bench| -> Vec<u64> {
            bench.engine.snapshot().rules.matches().map(|(_, count)| count).collect()
        };
        prop_assert_eq!(counts(&changed), counts(&same));
    }
}
