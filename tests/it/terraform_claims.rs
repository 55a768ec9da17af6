//! Claims of the Terraform source in the engine: states, locks, and objects that change.

use std::sync::Arc;

use drift_exporter::{
    engine::{ClusterMatch, EpisodeChange},
    event::Event,
    types::{
        Baseline, BaselineError, BaselineFault, DownReason, HashBaseline, Kind, LiveObject, Lock,
        ResolutionCause, Source, SyncHealth, UnknownReason, Unwatched, VerdictKind, WatchPlan, WatchSpec,
    },
};
use jiff::Timestamp;

use crate::{
    rules::rules,
    support::engine::{EngineFixture, config_maps, state, state_with_labels},
};

const A: (&str, &str, &str) = ("a", "u-a", "1");
const B: (&str, &str, &str) = ("b", "u-b", "1");

fn locked(baseline: Baseline, until: Option<i64>) -> Baseline {
    let lock = Lock {
        operation: Some("OperationTypeApply".into()),
        who: "ci@runner".into(),
        created: Timestamp::from_second(1_000).ok(),
        in_flight_until: until.and_then(|until| Timestamp::from_second(until).ok()),
    };
    Baseline { lock: Some(lock), ..baseline }
}

#[test]
fn edit_is_drift_with_field_manager_onset_and_address() {
    let mut fixture = EngineFixture::new(&[state("s", 1, &[A])], &[A, B]);
    fixture.assert_verdict("a", VerdictKind::InSync);
    let claims = fixture.claims("b");
    assert_eq!((claims[0].source, claims[0].verdict.kind()), (Source::Unclaimed, VerdictKind::NoBaseline));
    fixture.observe("a", "u-a", "2");
    fixture.assert_verdict("a", VerdictKind::Drifted);
    let claim = fixture.claims("a").remove(0);
    let episode = claim.verdict.episode().unwrap();
    let finding = &episode.differences[0].finding;
    let values = (finding.path.as_str(), finding.expected.text(), finding.actual.text());
    assert_eq!(values, ("data.key", "1".into(), "2".into()));
    assert_eq!(finding.owner.as_ref().map(|owner| &*owner.manager), Some("kubectl-edit"));
    assert_eq!(episode.onset.as_second(), 900);
    let declared = &claim.declared_by()[0];
    assert_eq!((&*declared.address, &*declared.baseline), ("kubernetes_config_map_v1.a", "s"));
    fixture.observe("a", "u-a", "1");
    fixture.assert_verdict("a", VerdictKind::InSync);
    assert_eq!(fixture.last_episode_change(), Some(EpisodeChange::Ended(ResolutionCause::Reverted)));
    assert_eq!(fixture.detections(), 1);
}

#[test]
fn first_comparison_in_sync_is_no_transition() {
    let mut fixture = EngineFixture::not_synced(config_maps(), &[Source::Terraform]);
    let one = Baseline { this_cluster: true, ..state("s", 1, &[A]) };
    fixture.set_baseline(one);
    let health = SyncHealth::Down { reason: DownReason::NotFound, message: "no such kind".into() };
    fixture.engine.apply(Event::WatchHealth(fixture.stream.id, health));
    fixture.assert_unknown("a", UnknownReason::Unwatched);
    fixture.list(&[A]);
    fixture.assert_verdict("a", VerdictKind::InSync);
    let transitions = |fixture: &EngineFixture| -> Vec<_> {
        let history = fixture.engine.snapshot().history;
        history.newest_first().map(|transition| (transition.from, transition.to)).collect()
    };
    assert_eq!(transitions(&fixture), []);
    fixture.observe("a", "u-a", "2").observe("a", "u-a", "1");
    let drift = [
        (Some(VerdictKind::Drifted), Some(VerdictKind::InSync)),
        (Some(VerdictKind::InSync), Some(VerdictKind::Drifted)),
    ];
    assert_eq!(transitions(&fixture), drift);
}

#[test]
fn deleted_object_is_missing_until_recreated_or_undeclared() {
    let mut fixture = EngineFixture::new(&[state("s", 1, &[A, B])], &[A, B]);
    fixture.delete("a");
    fixture.assert_verdict("a", VerdictKind::Missing);
    let snapshot = fixture.engine.snapshot();
    assert_eq!(snapshot.kinds[0].blocks.count(), 1, "one object exists");
    assert!(snapshot.kinds[0].blocks.get("shop", "a")[0].object.live().is_none());
    fixture.observe("a", "u-new", "1");
    fixture.assert_verdict("a", VerdictKind::Replaced);
    let claim = fixture.claims("a").remove(0);
    assert_eq!(
        claim.verdict.episode().unwrap().onset.as_second(),
        600,
        "the creation time of the new object"
    );
    fixture.set_baseline(state("s", 2, &[("a", "u-new", "1"), B]));
    fixture.assert_verdict("a", VerdictKind::InSync);
    assert_eq!(fixture.last_episode_change(), Some(EpisodeChange::Ended(ResolutionCause::Absorbed)));
    fixture.delete("b").set_baseline(state("s", 3, &[("a", "u-new", "1")]));
    assert!(fixture.claims("b").is_empty());
    assert_eq!(fixture.last_episode_change(), Some(EpisodeChange::Ended(ResolutionCause::Absorbed)));
    assert_eq!(fixture.detections(), 2);
}

#[test]
fn drift_at_startup_is_exposed_and_not_counted() {
    let mut fixture = EngineFixture::new(&[state("s", 1, &[A, B])], &[("a", "u-a", "2")]);
    fixture.assert_verdict("a", VerdictKind::Drifted);
    fixture.assert_verdict("b", VerdictKind::Missing);
    assert_eq!((fixture.detections(), fixture.last_episode_change()), (0, None));
    fixture.list(&[("a", "u-a", "2")]);
    assert_eq!(
        (fixture.detections(), fixture.last_episode_change()),
        (0, None),
        "a relist counts nothing either"
    );
}

#[test]
fn apply_in_flight_keeps_last_value_then_reverts_or_absorbs() {
    let one = state("s", 1, &[A, B]);
    let mut fixture = EngineFixture::new(std::slice::from_ref(&one), &[A, B]);
    fixture.observe("a", "u-a", "2").observe("b", "u-b", "3");
    fixture.set_baseline(locked(one.clone(), Some(2_000)));
    for name in ["a", "b"] {
        fixture.assert_verdict(name, VerdictKind::InFlight);
        assert_eq!(fixture.claims(name)[0].verdict.drifted_value(), Some(true), "the last value is kept");
    }
    // The apply reverts `a` and absorbs the edit of `b`.
    fixture.observe("a", "u-a", "1");
    fixture.set_baseline(locked(state("s", 2, &[A, ("b", "u-b", "3")]), Some(2_000)));
    fixture.assert_verdict("a", VerdictKind::InFlight);
    fixture.set_baseline(state("s", 2, &[A, ("b", "u-b", "3")]));
    fixture.assert_verdict("a", VerdictKind::InSync);
    fixture.assert_verdict("b", VerdictKind::InSync);
    let history = fixture.engine.snapshot().history;
    let ends: Vec<_> = history
        .newest_first()
        .filter_map(|transition| match transition.episode.as_ref()?.change {
            EpisodeChange::Ended(cause) => Some((transition.key.name.to_string(), cause)),
            EpisodeChange::Started | EpisodeChange::Unchanged => None,
        })
        .collect();
    assert!(ends.contains(&("a".into(), ResolutionCause::Reverted)), "{ends:?}");
    assert!(ends.contains(&("b".into(), ResolutionCause::Absorbed)), "{ends:?}");
    assert_eq!(ends.len(), 2);
}

#[test]
fn lock_expires_and_plan_is_not_in_flight() {
    let one = state("s", 1, &[A]);
    let mut fixture = EngineFixture::new(&[locked(one.clone(), Some(1_500))], &[A]);
    fixture.assert_verdict("a", VerdictKind::InFlight);
    assert_eq!(fixture.claims("a")[0].verdict.drifted_value(), None, "no verdict yet");
    fixture.observe("a", "u-a", "2").assert_verdict("a", VerdictKind::InFlight);
    fixture.advance_to(1_499).assert_verdict("a", VerdictKind::InFlight);
    fixture.advance_to(1_500).assert_verdict("a", VerdictKind::Drifted);
    fixture.set_baseline(locked(one, None));
    fixture.assert_verdict("a", VerdictKind::Drifted);
}

#[test]
fn unreadable_state_is_unknown_and_keeps_last_value() {
    let one = state("s", 1, &[A, B]);
    let mut fixture = EngineFixture::new(std::slice::from_ref(&one), &[A, B]);
    fixture.observe("a", "u-a", "2");
    let fault = BaselineError { fault: BaselineFault::Encrypted, message: "encrypted".into() };
    fixture.set_baseline(Baseline { fault: Some(fault), ..one.clone() });
    fixture.assert_unknown("a", UnknownReason::Encrypted);
    assert_eq!(fixture.claims("a")[0].verdict.drifted_value(), Some(true));
    assert_eq!(fixture.claims("b")[0].verdict.drifted_value(), Some(false));
    fixture.set_baseline(one);
    fixture.assert_verdict("a", VerdictKind::Drifted);
    assert_eq!(fixture.detections(), 1, "the episode continues");
}

#[test]
fn state_of_another_cluster_is_unknown() {
    let other_cluster = state("s", 1, &[("a", "x-a", "1"), ("c", "x-c", "1")]);
    let mut fixture = EngineFixture::new(std::slice::from_ref(&other_cluster), &[A]);
    fixture.assert_unknown("a", UnknownReason::OtherCluster);
    fixture.assert_unknown("c", UnknownReason::OtherCluster);
    assert_eq!(
        fixture.engine.snapshot().baselines.values().next().unwrap().cluster_match,
        ClusterMatch::Elsewhere
    );
    fixture.set_baseline(Baseline { this_cluster: true, ..other_cluster.clone() });
    fixture.assert_verdict("a", VerdictKind::Replaced);
    fixture.assert_verdict("c", VerdictKind::Missing);
    // An object with a known uid proves that the state belongs to this cluster.
    let mut fixture = EngineFixture::new(&[other_cluster], &[A]);
    fixture.observe("c", "x-c", "1");
    fixture.assert_verdict("c", VerdictKind::InSync);
    fixture.assert_verdict("a", VerdictKind::Replaced);
}

#[test]
fn states_with_the_same_object_share_a_claim() {
    let mut fixture = EngineFixture::new(&[state("s", 1, &[A]), state("t", 1, &[("a", "u-a", "2")])], &[A]);
    fixture.assert_verdict("a", VerdictKind::Drifted);
    let names: Vec<_> =
        fixture.claims("a")[0].declared_by().iter().map(|declared| declared.baseline.to_string()).collect();
    assert_eq!(names, ["t", "s"], "the state with a difference is first");
    fixture.engine.apply(Event::BaselineRemoved(Source::Terraform, "t".into()));
    fixture.assert_verdict("a", VerdictKind::InSync);
    fixture.engine.apply(Event::BaselineRemoved(Source::Terraform, "s".into()));
    assert_eq!(fixture.claims("a")[0].source, Source::Unclaimed);
}

#[test]
fn state_that_cannot_be_judged_does_not_hide_drift_of_another_state() {
    let other = state("t", 1, &[A]);
    let fault = BaselineError { fault: BaselineFault::Encrypted, message: "encrypted".into() };
    let undecided = [locked(other.clone(), Some(2_000)), Baseline { fault: Some(fault), ..other.clone() }];
    for undecided in undecided {
        let mut fixture = EngineFixture::new(&[state("s", 1, &[A]), other.clone()], &[A]);
        fixture.observe("a", "u-a", "2");
        fixture.assert_verdict("a", VerdictKind::Drifted);
        let onset = fixture.claims("a")[0].verdict.episode().unwrap().onset;
        fixture.set_baseline(undecided.clone());
        fixture.assert_verdict("a", VerdictKind::Drifted);
        fixture.observe("a", "u-a", "3");
        fixture.assert_verdict("a", VerdictKind::Drifted);
        fixture.set_baseline(other.clone());
        assert_eq!(fixture.claims("a")[0].verdict.episode().unwrap().onset, onset, "the episode goes on");
        assert_eq!((fixture.detections(), fixture.last_episode_change()), (1, Some(EpisodeChange::Started)));

        // An object that is missing or replaced is drift, too.
        fixture.set_baseline(undecided).delete("a");
        fixture.assert_verdict("a", VerdictKind::Missing);
        fixture.observe("a", "u-new", "1");
        fixture.assert_verdict("a", VerdictKind::Replaced);
    }
}

#[test]
fn state_in_flight_is_first_of_the_states_in_sync() {
    let states = [state("s", 1, &[A]), locked(state("t", 1, &[A]), Some(2_000))];
    let fixture = EngineFixture::new(&states, &[A]);
    fixture.assert_verdict("a", VerdictKind::InFlight);
    assert_eq!(&*fixture.claims("a")[0].declared_by()[0].baseline, "t", "the verdict comes from it");
}

#[test]
fn lock_of_a_state_without_objects_expires() {
    let mut fixture = EngineFixture::new(&[locked(state("s", 1, &[]), Some(2_000))], &[]);
    let in_flight =
        |fixture: &EngineFixture| fixture.engine.snapshot().baselines.values().any(|state| state.in_flight);
    assert!(in_flight(&fixture));
    assert!(fixture.set_time(2_000).tick());
    assert!(!in_flight(&fixture));
    assert!(!fixture.set_time(2_001).tick());
}

#[test]
fn missing_object_that_is_created_without_a_document_is_in_flight() {
    let baseline = Baseline { this_cluster: true, ..state("s", 1, &[A]) };
    let mut fixture = EngineFixture::new(&[baseline], &[A]);
    fixture.delete("a");
    fixture.assert_verdict("a", VerdictKind::Missing);
    let created = fixture.object(A);
    let without_document = LiveObject { document: None, ..LiveObject::clone(&created) };
    fixture.engine.apply(Event::Applied(fixture.stream.id, Arc::new(without_document)));
    fixture.assert_verdict("a", VerdictKind::InFlight);
    assert_eq!(fixture.last_episode_change(), Some(EpisodeChange::Started), "the episode goes on");
    // The relist returns the same version of the object with its fields.
    fixture.engine.apply(Event::Applied(fixture.stream.id, created));
    fixture.assert_verdict("a", VerdictKind::InSync);
    assert_eq!(fixture.last_episode_change(), Some(EpisodeChange::Ended(ResolutionCause::Reverted)));
}

#[test]
fn claims_wait_for_sync_and_forbidden_kind_is_unwatched() {
    let mut fixture = EngineFixture::new(&[], &[]);
    let plan = |watches| Arc::new(WatchPlan { watches, ..WatchPlan::default() });
    fixture.engine.apply(Event::WatchPlan(plan(vec![])));
    fixture.set_baseline(Baseline { this_cluster: true, ..state("s", 1, &[A]) });
    assert!(fixture.engine.snapshot().kinds.is_empty());
    fixture.engine.apply(Event::WatchPlan(plan(vec![fixture.stream.clone()])));
    assert!(fixture.claims("a").is_empty());
    let health = SyncHealth::Down { reason: DownReason::Forbidden, message: "no".into() };
    fixture.engine.apply(Event::WatchHealth(fixture.stream.id, health));
    fixture.assert_unknown("a", UnknownReason::Unwatched);
    fixture.list(&[A]);
    fixture.assert_verdict("a", VerdictKind::InSync);
}

#[test]
fn object_in_another_version_is_not_compared() {
    let mut fixture = EngineFixture::new(&[], &[]);
    let kind = Arc::new(Kind { version: "v2".into(), ..config_maps() });
    let stream = fixture.ids.assign([Arc::new(WatchSpec::all(kind))]).remove(0);
    fixture.engine.apply(Event::WatchPlan(Arc::new(WatchPlan {
        watches: vec![stream.clone()],
        ..WatchPlan::default()
    })));
    fixture.stream = stream;
    fixture.set_baseline(state("s", 1, &[A]));
    fixture.list(&[A]);
    fixture.assert_unknown("a", UnknownReason::OtherVersion);
}

#[test]
fn annotation_hash_is_a_separate_claim() {
    let mut fixture = EngineFixture::not_synced(config_maps(), &[Source::Annotation, Source::Terraform]);
    fixture.set_baseline(state("s", 1, &[A]));
    fixture.list(&[]);
    let sources = |fixture: &EngineFixture, name| -> Vec<_> {
        fixture.claims(name).iter().map(|claim| (claim.source, claim.verdict.kind())).collect()
    };
    let mut object = fixture.object(A);
    Arc::make_mut(&mut object).hash_baseline = HashBaseline::Unusable(UnknownReason::BadHash);
    fixture.engine.apply(Event::Applied(fixture.stream.id, object));
    let mut object = fixture.object(B);
    Arc::make_mut(&mut object).hash_baseline = HashBaseline::Absent;
    fixture.engine.apply(Event::Applied(fixture.stream.id, object));
    let both = [(Source::Annotation, VerdictKind::Unknown), (Source::Terraform, VerdictKind::InSync)];
    assert_eq!(sources(&fixture, "a"), both);
    assert_eq!(sources(&fixture, "b"), [(Source::Annotation, VerdictKind::NoBaseline)]);
    fixture.delete("a");
    assert_eq!(sources(&fixture, "a"), [(Source::Terraform, VerdictKind::Missing)]);
}

#[test]
fn late_state_matches_this_cluster() {
    let mut fixture = EngineFixture::new(&[state("s", 1, &[A])], &[A, ("b", "u-b", "2")]);
    fixture.set_baseline(state("t", 1, &[B]));
    fixture.assert_verdict("b", VerdictKind::Drifted);
    assert_eq!(fixture.detections(), 0, "drift that predates the baseline is not counted");
    // Terraform first writes an empty state without lineage.
    fixture.set_baseline(Baseline { version: None, objects: Vec::new(), ..state("u", 1, &[]) });
    fixture.observe("c", "u-c", "1").set_baseline(state("u", 2, &[("c", "u-c", "1")]));
    fixture.assert_verdict("c", VerdictKind::InSync);
}

#[test]
fn version_change_keeps_the_object() {
    let one = state("s", 1, &[A]);
    let mut object = (*one.objects[0]).clone();
    object.object.version = "v2".into();
    let mut fixture = EngineFixture::new(std::slice::from_ref(&one), &[A]);
    fixture.set_baseline(Baseline { objects: vec![Arc::new(object)], ..one });
    fixture.assert_unknown("a", UnknownReason::OtherVersion);
}

#[test]
fn removed_kind_makes_claims_unknown() {
    let mut fixture = EngineFixture::new(&[state("s", 1, &[A])], &[A]);
    let health = SyncHealth::Down { reason: DownReason::NotFound, message: "no such kind".into() };
    let nothing = Arc::new(WatchSpec::none(fixture.stream.spec.kind.clone()));
    let plan = WatchPlan { unwatched: vec![Unwatched { spec: nothing, health }], ..WatchPlan::default() };
    fixture.engine.apply(Event::WatchPlan(Arc::new(plan)));
    fixture.assert_unknown("a", UnknownReason::Unwatched);
    assert_eq!(fixture.claims("a")[0].verdict.drifted_value(), Some(false), "the last value is kept");
}

#[test]
fn rules_apply_to_missing_objects() {
    let mut fixture = EngineFixture::new(&[state("s", 1, &[A])], &[A]);
    fixture.delete("a");
    fixture.assert_verdict("a", VerdictKind::Missing);
    let rule = "[{name: r, match: {fields: [existence], labels: {team: x}}, effect: ignore}]";
    fixture.apply_rules(Arc::new(rules(rule)));
    fixture.assert_verdict("a", VerdictKind::Missing);
    let rule = "[{name: r, match: {fields: [existence], names: [a]}, effect: ignore}]";
    fixture.apply_rules(Arc::new(rules(rule)));
    fixture.assert_verdict("a", VerdictKind::Ignored);
    fixture.apply_rules(Arc::default());
    fixture.assert_verdict("a", VerdictKind::Missing);
}

#[test]
fn missing_object_has_declared_labels() {
    let labels = serde_json::json!({"team": "front", "tier": "web"});
    let baseline = Baseline { this_cluster: true, ..state_with_labels("s", "b", &labels) };
    let mut fixture = EngineFixture::new(&[baseline], &[]);
    fixture.assert_verdict("b", VerdictKind::Missing);
    let snapshot = fixture.engine.snapshot();
    let labels = &snapshot.kinds[0].blocks.get("shop", "b")[0].object.rule_inputs().labels;
    assert_eq!(
        **labels,
        [("team", "front"), ("tier", "web")].map(|(name, value)| (name.into(), value.into()))
    );
    let rule = "[{name: r, match: {fields: [existence], labels: {team: front}}, effect: ignore}]";
    fixture.apply_rules(Arc::new(rules(rule)));
    fixture.assert_verdict("b", VerdictKind::Ignored);
    // The declared label changes.
    let labels = serde_json::json!({"team": "back"});
    fixture.set_baseline(Baseline { this_cluster: true, ..state_with_labels("s", "b", &labels) });
    fixture.assert_verdict("b", VerdictKind::Missing);
}

#[test]
fn removed_source_is_dropped() {
    let mut fixture = EngineFixture::new(&[], &[]);
    fixture.engine.apply(Event::SourceRemoved(Source::Terraform));
    assert!(fixture.engine.snapshot().sources.is_empty());
}
