//! Claims of Terraform states: what the engine makes of states, locks and objects that come and go.

use std::sync::Arc;

use drift_exporter::{
    engine::{ClusterMatch, Engine, EngineMetrics, EpisodeChange, History},
    types::{
        Baseline, BaselineError, BaselineFault, Clock, DownReason, Event, HashBaseline, Kind, Lock,
        RedactionPolicy, ResolutionCause, Source, UnknownReason, Unwatched, VerdictKind, WatchHealth,
        WatchPlan, WatchSpec,
    },
};
use jiff::Timestamp;
use prometheus_client::registry::Registry;

use crate::{
    rules::rules,
    support::claims::{World, config_maps, key, labelled, state},
};

const A: (&str, &str, &str) = ("a", "u-a", "1");
const B: (&str, &str, &str) = ("b", "u-b", "1");

fn locked(baseline: Baseline, until: Option<i64>) -> Baseline {
    let lock = Lock {
        operation: "OperationTypeApply".into(),
        who: "ci@runner".into(),
        created: Timestamp::from_second(1_000).ok(),
        in_flight_until: until.and_then(|until| Timestamp::from_second(until).ok()),
    };
    Baseline { lock: Some(lock), ..baseline }
}

#[test]
fn an_edit_is_drift_with_its_field_writer_onset_and_address() {
    let mut world = World::new(&[state("s", 1, &[A])], &[A, B]);
    world.check("a", VerdictKind::InSync);
    let claims = world.claims("b");
    assert_eq!((claims[0].source, claims[0].verdict.kind()), (Source::Unclaimed, VerdictKind::NoBaseline));
    world.see("a", "u-a", "2");
    world.check("a", VerdictKind::Drifted);
    let claim = world.claims("a").remove(0);
    let episode = claim.verdict.episode().unwrap();
    let finding = &episode.differences[0].finding;
    assert_eq!((&*finding.path, &*finding.expected, &*finding.actual), ("data.key", "1", "2"));
    assert_eq!(finding.owner.as_ref().map(|owner| &*owner.manager), Some("kubectl-edit"));
    assert_eq!(episode.onset.as_second(), 900);
    let declared = &claim.declared_by()[0];
    assert_eq!((&*declared.address, &*declared.baseline), ("kubernetes_config_map_v1.a", "s"));
    world.see("a", "u-a", "1");
    world.check("a", VerdictKind::InSync);
    assert_eq!(world.last_episode_change(), Some(EpisodeChange::Ended(ResolutionCause::Reverted)));
    assert_eq!(world.detections(), 1);
}

#[test]
fn what_is_deleted_is_missing_until_it_is_there_again_or_no_longer_declared() {
    let mut world = World::new(&[state("s", 1, &[A, B])], &[A, B]);
    world.gone("a");
    world.check("a", VerdictKind::Missing);
    let snapshot = world.engine.snapshot();
    assert_eq!(snapshot.kinds[0].blocks.count(), 1, "only one exists");
    assert!(!snapshot.kinds[0].blocks.get("shop", "a")[0].object.exists);
    world.see("a", "u-new", "1");
    world.check("a", VerdictKind::Replaced);
    let claim = world.claims("a").remove(0);
    assert_eq!(claim.verdict.episode().unwrap().onset.as_second(), 600, "when the other one was made");
    world.baseline(state("s", 2, &[("a", "u-new", "1"), B]));
    world.check("a", VerdictKind::InSync);
    assert_eq!(world.last_episode_change(), Some(EpisodeChange::Ended(ResolutionCause::Absorbed)));
    world.gone("b").baseline(state("s", 3, &[("a", "u-new", "1")]));
    assert!(world.claims("b").is_empty());
    assert_eq!(world.last_episode_change(), Some(EpisodeChange::Ended(ResolutionCause::Absorbed)));
    assert_eq!(world.detections(), 2);
}

#[test]
fn what_was_missing_or_differed_at_the_start_is_shown_and_not_counted() {
    let mut world = World::new(&[state("s", 1, &[A, B])], &[("a", "u-a", "2")]);
    world.check("a", VerdictKind::Drifted);
    world.check("b", VerdictKind::Missing);
    assert_eq!((world.detections(), world.last_episode_change()), (0, None));
    world.list(&[("a", "u-a", "2")]);
    assert_eq!((world.detections(), world.last_episode_change()), (0, None), "nor by a later list");
}

#[test]
fn an_apply_in_flight_holds_what_was_shown_and_then_reverts_or_absorbs() {
    let one = state("s", 1, &[A, B]);
    let mut world = World::new(std::slice::from_ref(&one), &[A, B]);
    world.see("a", "u-a", "2").see("b", "u-b", "3");
    world.baseline(locked(one.clone(), Some(2_000)));
    for name in ["a", "b"] {
        world.check(name, VerdictKind::InFlight);
        assert_eq!(world.claims(name)[0].verdict.drifted(), Some(true), "held");
    }
    // The apply puts `a` back and takes over what it finds at `b`.
    world.see("a", "u-a", "1");
    world.baseline(locked(state("s", 2, &[A, ("b", "u-b", "3")]), Some(2_000)));
    world.check("a", VerdictKind::InFlight);
    world.baseline(state("s", 2, &[A, ("b", "u-b", "3")]));
    world.check("a", VerdictKind::InSync);
    world.check("b", VerdictKind::InSync);
    let history = world.engine.snapshot().history;
    let ends: Vec<_> = history
        .newest_first()
        .filter_map(|own| match own.episode.as_ref()?.change {
            EpisodeChange::Ended(cause) => Some((own.key.name.to_string(), cause)),
            EpisodeChange::Started | EpisodeChange::Unchanged => None,
        })
        .collect();
    assert!(ends.contains(&("a".into(), ResolutionCause::Reverted)), "{ends:?}");
    assert!(ends.contains(&("b".into(), ResolutionCause::Absorbed)), "{ends:?}");
    assert_eq!(ends.len(), 2);
}

#[test]
fn a_lock_holds_for_some_time_at_most_and_a_plan_holds_nothing() {
    let one = state("s", 1, &[A]);
    let mut world = World::new(&[locked(one.clone(), Some(1_500))], &[A]);
    world.check("a", VerdictKind::InFlight);
    assert_eq!(world.claims("a")[0].verdict.drifted(), None, "never settled");
    world.see("a", "u-a", "2").check("a", VerdictKind::InFlight);
    world.at(1_499).check("a", VerdictKind::InFlight);
    world.at(1_500).check("a", VerdictKind::Drifted);
    world.baseline(locked(one, None));
    world.check("a", VerdictKind::Drifted);
}

#[test]
fn a_state_that_cannot_be_read_makes_unknown_and_holds_what_was_shown() {
    let one = state("s", 1, &[A, B]);
    let mut world = World::new(std::slice::from_ref(&one), &[A, B]);
    world.see("a", "u-a", "2");
    let fault = BaselineError { fault: BaselineFault::Encrypted, message: "encrypted".into() };
    world.baseline(Baseline { fault: Some(fault), ..one.clone() });
    world.check_unknown("a", UnknownReason::Encrypted);
    assert_eq!(world.claims("a")[0].verdict.drifted(), Some(true));
    assert_eq!(world.claims("b")[0].verdict.drifted(), Some(false));
    world.baseline(one);
    world.check("a", VerdictKind::Drifted);
    assert_eq!(world.detections(), 1, "it is the same episode");
}

#[test]
fn a_state_of_another_cluster_is_unknown_and_not_missing() {
    let elsewhere = state("s", 1, &[("a", "x-a", "1"), ("c", "x-c", "1")]);
    let mut world = World::new(std::slice::from_ref(&elsewhere), &[A]);
    world.check_unknown("a", UnknownReason::OtherCluster);
    world.check_unknown("c", UnknownReason::OtherCluster);
    assert_eq!(world.engine.snapshot().baselines[0].cluster_match, ClusterMatch::Elsewhere);
    world.baseline(Baseline { this_cluster: true, ..elsewhere.clone() });
    world.check("a", VerdictKind::Replaced);
    world.check("c", VerdictKind::Missing);
    // Once one of its objects turns up, it is of this cluster after all.
    let mut world = World::new(&[elsewhere], &[A]);
    world.see("c", "x-c", "1");
    world.check("c", VerdictKind::InSync);
    world.check("a", VerdictKind::Replaced);
}

#[test]
fn states_that_declare_the_same_object_are_one_claim() {
    let mut world = World::new(&[state("s", 1, &[A]), state("t", 1, &[("a", "u-a", "2")])], &[A]);
    world.check("a", VerdictKind::Drifted);
    let names: Vec<_> =
        world.claims("a")[0].declared_by().iter().map(|own| own.baseline.to_string()).collect();
    assert_eq!(names, ["t", "s"], "whoever sees the difference comes first");
    world.engine.apply(Event::BaselineRemoved(Source::Terraform, "t".into()));
    world.check("a", VerdictKind::InSync);
    world.engine.apply(Event::BaselineRemoved(Source::Terraform, "s".into()));
    assert_eq!(world.claims("a")[0].source, Source::Unclaimed);
}

#[test]
fn nothing_is_said_before_the_kind_was_listed_and_a_kind_that_cannot_be_listed_is_said() {
    let mut world = World::new(&[], &[]);
    let plan = |streams| Arc::new(WatchPlan { streams, ..WatchPlan::default() });
    world.engine.apply(Event::WatchPlan(plan(vec![])));
    world.baseline(Baseline { this_cluster: true, ..state("s", 1, &[A]) });
    assert!(world.engine.snapshot().kinds.is_empty());
    world.engine.apply(Event::WatchPlan(plan(vec![world.stream.clone()])));
    assert!(world.claims("a").is_empty());
    let health = WatchHealth::Down { reason: DownReason::Forbidden, message: "no".into() };
    world.engine.apply(Event::WatchHealth(world.stream.clone(), health));
    world.check_unknown("a", UnknownReason::Unwatched);
    world.list(&[A]);
    world.check("a", VerdictKind::InSync);
}

#[test]
fn an_object_read_in_another_version_is_not_compared() {
    let mut world = World::new(&[], &[]);
    let kind = Arc::new(Kind { version: "v2".into(), ..config_maps() });
    let stream = Arc::new(WatchSpec::all(kind));
    world.engine.apply(Event::WatchPlan(Arc::new(WatchPlan {
        streams: vec![stream.clone()],
        ..WatchPlan::default()
    })));
    world.stream = stream;
    world.baseline(state("s", 1, &[A]));
    world.list(&[A]);
    world.check_unknown("a", UnknownReason::OtherVersion);
}

#[test]
fn a_hash_on_the_object_is_a_claim_of_its_own() {
    let stream = Arc::new(WatchSpec::all(Arc::new(config_maps())));
    let plan = WatchPlan { streams: vec![stream.clone()], ..WatchPlan::default() };
    let metrics = EngineMetrics::register(&mut Registry::default());
    let clock = Clock::new(|| Timestamp::UNIX_EPOCH);
    let sources = [Source::Annotation, Source::Terraform];
    let engine = Engine::new(&plan, Arc::default(), &sources, History::default(), metrics, clock);
    let mut world =
        World { engine, stream, second: Arc::default(), version: 0, sealing: RedactionPolicy::new(key(1)) };
    world.baseline(state("s", 1, &[A]));
    world.list(&[]);
    let sources = |world: &World, name| -> Vec<_> {
        world.claims(name).iter().map(|claim| (claim.source, claim.verdict.kind())).collect()
    };
    let mut object = world.object(A);
    Arc::make_mut(&mut object).hash_baseline = HashBaseline::Unusable(UnknownReason::BadHash);
    world.engine.apply(Event::Applied(world.stream.clone(), object));
    let mut object = world.object(B);
    Arc::make_mut(&mut object).hash_baseline = HashBaseline::Absent;
    world.engine.apply(Event::Applied(world.stream.clone(), object));
    let both = [(Source::Annotation, VerdictKind::Unknown), (Source::Terraform, VerdictKind::InSync)];
    assert_eq!(sources(&world, "a"), both);
    assert_eq!(sources(&world, "b"), [(Source::Annotation, VerdictKind::NoBaseline)]);
    world.gone("a");
    assert_eq!(sources(&world, "a"), [(Source::Terraform, VerdictKind::Missing)]);
}

#[test]
fn a_state_that_comes_after_its_objects_is_of_this_cluster_all_the_same() {
    let mut world = World::new(&[state("s", 1, &[A])], &[A, ("b", "u-b", "2")]);
    world.baseline(state("t", 1, &[B]));
    world.check("b", VerdictKind::Drifted);
    assert_eq!(world.detections(), 0, "it stood before anybody said so");
    // Terraform writes an empty state first, of no lineage.
    world.baseline(Baseline { version: None, objects: Vec::new(), ..state("u", 1, &[]) });
    world.see("c", "u-c", "1").baseline(state("u", 2, &[("c", "u-c", "1")]));
    world.check("c", VerdictKind::InSync);
}

#[test]
fn another_version_under_the_same_address_is_the_same_object() {
    let one = state("s", 1, &[A]);
    let mut object = (*one.objects[0]).clone();
    object.object.version = "v2".into();
    let mut world = World::new(std::slice::from_ref(&one), &[A]);
    world.baseline(Baseline { objects: vec![Arc::new(object)], ..one });
    world.check_unknown("a", UnknownReason::OtherVersion);
}

#[test]
fn a_kind_that_is_taken_out_of_the_cluster_leaves_its_claims_unknown() {
    let mut world = World::new(&[state("s", 1, &[A])], &[A]);
    let health = WatchHealth::Down { reason: DownReason::NotFound, message: "no such kind".into() };
    let nothing = Arc::new(WatchSpec::none(world.stream.kind.clone()));
    let plan = WatchPlan { unwatched: vec![Unwatched { spec: nothing, health }], ..WatchPlan::default() };
    world.engine.apply(Event::WatchPlan(Arc::new(plan)));
    world.check_unknown("a", UnknownReason::Unwatched);
    assert_eq!(world.claims("a")[0].verdict.drifted(), Some(false), "it holds what was known");
}

#[test]
fn rules_hold_for_what_is_missing_too_and_it_stays_missing() {
    let mut world = World::new(&[state("s", 1, &[A])], &[A]);
    world.gone("a");
    world.check("a", VerdictKind::Missing);
    let rule = "[{name: r, match: {fields: [existence], labels: {team: x}}, effect: ignore}]";
    world.engine.set_rules(Arc::new(rules(rule)));
    world.check("a", VerdictKind::Missing);
    let rule = "[{name: r, match: {fields: [existence], names: [a]}, effect: ignore}]";
    world.engine.set_rules(Arc::new(rules(rule)));
    world.check("a", VerdictKind::Ignored);
    world.engine.set_rules(Arc::default());
    world.check("a", VerdictKind::Missing);
}

#[test]
fn what_is_missing_from_the_start_has_the_labels_that_are_declared_of_it() {
    let labels = serde_json::json!({"team": "front", "tier": "web"});
    let of_here = Baseline { this_cluster: true, ..labelled("s", "b", &labels) };
    let mut world = World::new(&[of_here], &[]);
    world.check("b", VerdictKind::Missing);
    let snapshot = world.engine.snapshot();
    let labels = &snapshot.kinds[0].blocks.get("shop", "b")[0].object.rule_inputs.labels;
    assert_eq!(
        **labels,
        [("team", "front"), ("tier", "web")].map(|(name, value)| (name.into(), value.into()))
    );
    let rule = "[{name: r, match: {fields: [existence], labels: {team: front}}, effect: ignore}]";
    world.engine.set_rules(Arc::new(rules(rule)));
    world.check("b", VerdictKind::Ignored);
    // It belongs to somebody else now.
    let labels = serde_json::json!({"team": "back"});
    world.baseline(Baseline { this_cluster: true, ..labelled("s", "b", &labels) });
    world.check("b", VerdictKind::Missing);
}

#[test]
fn a_source_that_is_switched_off_is_waited_for_no_longer() {
    let mut world = World::new(&[], &[]);
    world.engine.apply(Event::SourceRemoved(Source::Terraform));
    assert!(world.engine.snapshot().sources.is_empty());
}
