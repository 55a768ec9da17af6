//! How long a controller may take to apply a change.

use drift_exporter::types::{ControllerStatus, FieldManager, ObservedState, Progress, StatusReport};
use jiff::{SignedDuration, Timestamp};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn behind(current: i64, since: Option<i64>, owner: Option<i64>) -> ControllerStatus {
    let owner = owner.map(|second| FieldManager::new("kubectl-edit", Some(at(second))));
    ControllerStatus {
        observed_state: ObservedState::Generation { observed: Some(1), current, owner },
        phase: "".into(),
        progress: Progress::Done,
        message: "".into(),
        outputs: Box::default(),
        since: since.map(at),
        grace: SignedDuration::from_mins(5),
    }
}

/// The status when it is observed after another one.
fn after(status: ControllerStatus, before: Option<&ControllerStatus>, now: Timestamp) -> ControllerStatus {
    let report = |record: ControllerStatus| StatusReport { record: Some(record), run: None };
    report(status).after(before.cloned().map(report).as_ref(), now).record.unwrap()
}

fn owner(record: &ControllerStatus) -> Option<Timestamp> {
    match &record.observed_state {
        ObservedState::Generation { owner, .. } => owner.as_ref().and_then(|owner| owner.time),
        ObservedState::Hash(_) => None,
    }
}

#[test]
fn unchanged_phase_keeps_its_start() {
    let first = after(behind(2, Some(100), Some(100)), None, at(101));
    assert_eq!(first.grace_ends(), Some(at(400)));
    let again = after(behind(2, None, Some(100)), Some(&first), at(350));
    assert_eq!((again.grace_ends(), owner(&again)), (Some(at(400)), Some(at(100))));
    let edited = after(behind(3, Some(360), Some(360)), Some(&again), at(361));
    assert_eq!(edited.grace_ends(), Some(at(660)));
    let unreported = after(behind(2, None, None), None, at(50));
    assert_eq!(unreported.grace_ends(), Some(at(350)), "the time of the first observation");
    let future = after(behind(2, Some(9000), None), None, at(50));
    assert_eq!(future.grace_ends(), Some(at(350)), "a start in the future counts as now");
}

#[test]
fn owner_with_an_old_write_is_not_responsible() {
    let current = after(behind(1, None, Some(10)), None, at(1000));
    assert_eq!(current.grace_ends(), None);
    let removed = after(behind(2, None, Some(10)), Some(&current), at(1000));
    assert_eq!(owner(&removed), None);
    let first_observation = after(behind(2, None, Some(10)), None, at(1000));
    assert_eq!(owner(&first_observation), Some(at(10)), "no earlier state contradicts it");
}

#[test]
fn unlimited_grace_does_not_overflow_and_failure_has_no_grace() {
    let unlimited = ControllerStatus { grace: SignedDuration::MAX, ..behind(2, Some(1), None) };
    assert_eq!(unlimited.grace_ends(), Some(Timestamp::MAX));
    let failed = ControllerStatus { progress: Progress::Failed, ..behind(2, Some(1), None) };
    assert_eq!(failed.grace_ends(), None);
}
