//! The manager that is responsible for a hash mismatch.

use drift_exporter::types::{Algorithm, Digest, FieldManager, HashBaseline, HashMismatch};
use jiff::Timestamp;

const LATER: Timestamp = Timestamp::constant(1000, 0);

fn manager(manager: &str, second: Option<i64>) -> FieldManager {
    let time = second.map(|second| Timestamp::from_second(second).unwrap());
    FieldManager::new(manager, time)
}

fn mismatch(actual: &str, owner: Option<FieldManager>) -> HashBaseline {
    let (expected, actual) = (Digest::of(b"declared"), Digest::of(actual.as_bytes()));
    let (algorithm, recorded_by) = (Algorithm::TfdriftV1, Some(manager("terraform", Some(10))));
    HashBaseline::Mismatch(Box::new(HashMismatch { algorithm, expected, actual, owner, recorded_by }))
}

#[track_caller]
fn check(before: &HashBaseline, now: HashBaseline, expected: Option<&str>) {
    let HashBaseline::Mismatch(mismatch) = now.after(before, LATER) else { panic!("it still differs") };
    assert_eq!(mismatch.responsible_manager().map(|owner| &*owner.manager), expected);
}

#[test]
fn manager_that_recorded_a_matching_hash_is_not_responsible() {
    let matched = HashBaseline::Match(Digest::of(b"declared"));
    check(&matched, mismatch("a", None), None);
    check(&matched, mismatch("a", Some(manager("edit", Some(20)))), Some("edit"));
    check(&matched, mismatch("a", Some(manager("scale", None))), Some("scale"));
    check(&HashBaseline::Absent, mismatch("a", None), Some("terraform"));
    check(&HashBaseline::Match(Digest::of(b"another")), mismatch("a", None), Some("terraform"));
}

#[test]
fn manager_that_recorded_the_hash_and_just_wrote_is_responsible() {
    let HashBaseline::Mismatch(mut again) = mismatch("a", None) else { panic!("it differs") };
    again.recorded_by = Some(manager("terraform", Some(LATER.as_second() - 5)));
    check(&HashBaseline::Match(Digest::of(b"declared")), HashBaseline::Mismatch(again), Some("terraform"));
}

#[test]
fn unknown_manager_stays_until_a_manager_writes() {
    let unowned = mismatch("a", None).after(&HashBaseline::Match(Digest::of(b"declared")), LATER);
    check(&unowned, mismatch("a", None), None);
    check(&unowned, mismatch("b", None), None);
    check(&unowned, mismatch("b", Some(manager("edit", Some(20)))), Some("edit"));
    check(&mismatch("a", None), mismatch("a", None), Some("terraform"));
    check(&mismatch("a", None), mismatch("b", None), None);
}
