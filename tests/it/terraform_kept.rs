//! Objects that are read again because other fields are sealed, or with other keys: that is no edit, and ends nothing.

use drift_exporter::{
    diff::{terraform::sensitive_fields, unpack},
    engine::EpisodeChange,
    types::{Baseline, Lock, RedactionKey, RedactionPolicy, ResolutionCause, VerdictKind},
};
use jiff::Timestamp;

use crate::support::claims::{World, key, marked, state};

type Map = (&'static str, &'static str, &'static str);

const A: Map = ("a", "u-a", "hunter1");
const EDITED: Map = ("a", "u-a", "hunter2");

/// What has to be sealed for what these declare.
fn sealing(baselines: &[&Baseline], keys: &[&RedactionKey]) -> RedactionPolicy {
    let mut sealing = RedactionPolicy::new(key(1));
    for declared in baselines.iter().flat_map(|baseline| &baseline.objects) {
        sealing.add_fields(&declared.object, sensitive_fields(declared));
    }
    keys.iter().for_each(|key| sealing.add_key(key));
    sealing
}

/// The same version of the object is listed once more, and sealed like this.
fn read_again(world: &mut World, map: Map, sealing: RedactionPolicy) {
    world.sealing = sealing;
    world.version -= 1;
    world.list(&[map]);
}

fn locked(baseline: &Baseline) -> Baseline {
    let lock = Lock {
        operation: "OperationTypeApply".into(),
        who: "ci".into(),
        created: Timestamp::from_second(1_000).ok(),
        in_flight_until: Timestamp::from_second(9_000).ok(),
    };
    Baseline { lock: Some(lock), ..baseline.clone() }
}

/// Whether the value is in what is kept of the object.
fn is_told(world: &World) -> bool {
    let snapshot = world.engine.snapshot();
    let entries = snapshot.kinds[0].blocks.get("shop", "a");
    let document = entries[0].object.document.as_ref().unwrap();
    unpack(&document.packed).to_string().contains("hunter")
}

fn history(world: &World) -> usize {
    world.engine.snapshot().history.newest_first().count()
}

#[test]
fn what_is_sealed_from_now_on_goes_on_as_it_was() {
    for map in [A, EDITED] {
        let (plain, marked) = (state("s", 1, &[A]), marked("s", 2, &[A], &key(1)));
        let mut world = World::new(&[plain], &[A]);
        world.see("a", "u-a", map.2);
        let verdict = world.verdict("a").0;
        world.baseline(marked.clone());
        let (before, noted) = (world.claims("a"), history(&world));
        assert!(is_told(&world), "it was read before anybody marked it");
        read_again(&mut world, map, sealing(&[&marked], &[]));
        assert!(!is_told(&world));
        world.check("a", verdict);
        assert_eq!(
            (world.claims("a"), history(&world)),
            (before, noted),
            "digests are what was shown before"
        );
        read_again(&mut world, map, RedactionPolicy::new(key(1)));
        assert!(is_told(&world));
        world.check("a", verdict);
        assert_eq!(
            (history(&world), world.detections()),
            (noted, u64::from(verdict == VerdictKind::Drifted))
        );
    }
}

#[test]
fn an_edit_of_what_is_sealed_is_drift_and_undone_when_it_is_undone() {
    let marked = marked("s", 1, &[A], &key(1));
    let mut world = World::new(std::slice::from_ref(&marked), &[A]);
    read_again(&mut world, A, sealing(&[&marked], &[]));
    world.see("a", "u-a", "hunter2");
    world.check("a", VerdictKind::Drifted);
    let claim = world.claims("a").remove(0);
    let finding = &claim.verdict.episode().unwrap().differences[0].finding;
    let digests = (&*key(1).digest(b"hunter1"), &*key(1).digest(b"hunter2"));
    assert_eq!((&*finding.path, (&*finding.expected, &*finding.actual)), ("data.key", digests));
    assert_eq!(finding.owner.as_ref().map(|owner| &*owner.manager), Some("kubectl-edit"));
    world.see("a", "u-a", "hunter1");
    assert_eq!(world.last_episode_change(), Some(EpisodeChange::Ended(ResolutionCause::Reverted)));
}

/// An apply takes over what was edited, or undoes it, and marks it: the object is read again while it goes on.
#[test]
fn what_is_sealed_during_an_apply_is_absorbed_or_reverted_by_what_happened_to_the_object() {
    for (declared, cause) in [(EDITED, ResolutionCause::Absorbed), (A, ResolutionCause::Reverted)] {
        for other_version in [false, true] {
            let after = marked("s", 2, &[declared], &key(1));
            let mut world = World::new(&[state("s", 1, &[A])], &[A]);
            world.see("a", "u-a", "hunter2").baseline(locked(&after));
            world.check("a", VerdictKind::InFlight);
            // The status changes at the same time, and makes another version of it.
            world.version += u64::from(other_version || cause == ResolutionCause::Reverted);
            read_again(&mut world, declared, sealing(&[&after], &[]));
            world.check("a", VerdictKind::InFlight);
            world.baseline(after);
            world.check("a", VerdictKind::InSync);
            assert_eq!(world.last_episode_change(), Some(EpisodeChange::Ended(cause)));
        }
    }
}

#[test]
fn a_baseline_with_a_key_of_its_own_waits_until_the_object_is_read_with_it() {
    for (declared, verdict) in [(A, VerdictKind::Drifted), (EDITED, VerdictKind::InSync)] {
        let first = marked("s", 1, &[A], &key(2));
        let mut world = World::new(std::slice::from_ref(&first), &[A]);
        read_again(&mut world, A, sealing(&[&first], &[&key(2)]));
        world.see("a", "u-a", "hunter2");
        world.check("a", VerdictKind::Drifted);
        let again = marked("s", 2, &[declared], &key(3));
        world.baseline(again.clone());
        world.check("a", VerdictKind::InFlight);
        read_again(&mut world, EDITED, sealing(&[&again], &[&key(3)]));
        world.check("a", verdict);
        let turn = if verdict == VerdictKind::InSync {
            EpisodeChange::Ended(ResolutionCause::Absorbed)
        } else {
            EpisodeChange::Started
        };
        assert_eq!((world.last_episode_change(), world.detections()), (Some(turn), 1));
    }
}

#[test]
fn baselines_with_different_keys_agree_about_one_object() {
    let (own, published) = (marked("own", 1, &[A], &key(1)), state_of_another_key());
    let mut world = World::new(&[own.clone(), published.clone()], &[A]);
    read_again(&mut world, A, sealing(&[&own, &published], &[&key(2)]));
    assert!(!is_told(&world));
    world.check("a", VerdictKind::InSync);
    world.see("a", "u-a", "hunter2");
    world.check("a", VerdictKind::Drifted);
    let claim = world.claims("a").remove(0);
    assert_eq!(claim.declared_by().len(), 2);
    let told = format!("{:?}", claim.verdict);
    assert!(!told.contains("hunter"), "{told}");
    // Whoever does not mark it says the same on its own.
    world.engine.apply(drift_exporter::types::Event::BaselineRemoved(own.source, own.name.clone()));
    world.check("a", VerdictKind::Drifted);
    let told = format!("{:?}", world.claims("a").remove(0).verdict);
    assert!(!told.contains("hunter"), "{told}");
}

/// One that marks nothing.
fn state_of_another_key() -> Baseline {
    let mut baseline = state("published", 1, &[A]);
    for object in &mut baseline.objects {
        std::sync::Arc::make_mut(object).key = key(2);
    }
    baseline
}
