//! Who writes a state right now.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use crate::types::Lock;

/// What Terraform writes down about a lock.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Info {
    operation: Box<str>,
    who: Box<str>,
    created: Box<str>,
}

/// The lock that is held with this information, at the latest since `seen`.
///
/// Where nobody can read what it says, nobody knows that objects are being changed.
pub(super) fn read_lock(info: &str, seen: Option<Timestamp>, max_age: SignedDuration) -> Lock {
    let Info { operation, who, created } = serde_json::from_str(info).unwrap_or_default();
    // Nobody takes a lock after it was seen; clocks may differ, and texts may lie.
    let told: Option<Timestamp> = created.parse().ok();
    let created = told.map(|told| seen.map_or(told, |seen| told.min(seen))).or(seen);
    let until = created.and_then(|created: Timestamp| created.checked_add(max_age).ok());
    let holds_until = until.filter(|_| changes_objects(&operation));
    Lock { operation, who, created, holds_until }
}

/// Whether whoever holds a lock for this changes objects, and not only looks or writes the state.
pub(super) fn changes_objects(operation: &str) -> bool {
    ["OperationTypeApply", "OperationTypeDestroy", "apply", "destroy"].contains(&operation)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::read_lock;

    const HALF_AN_HOUR: SignedDuration = SignedDuration::from_mins(30);

    #[test]
    fn only_an_apply_holds_and_not_for_ever() {
        let info = |operation: &str| {
            format!(
                r#"{{"ID":"a","Operation":"{operation}","Info":"","Who":"ci@runner-7","Version":"1.11.4","Created":"2026-01-01T00:00:00.123456789Z","Path":""}}"#
            )
        };
        let lock = read_lock(&info("OperationTypeApply"), None, HALF_AN_HOUR);
        assert_eq!((&*lock.who, &*lock.operation), ("ci@runner-7", "OperationTypeApply"));
        assert_eq!(lock.holds_until, Some("2026-01-01T00:30:00.123456789Z".parse().unwrap()));
        for operation in ["OperationTypePlan", "init", "OperationTypeRefresh", ""] {
            assert_eq!(read_lock(&info(operation), None, HALF_AN_HOUR).holds_until, None, "{operation}");
        }
    }

    #[test]
    fn nobody_holds_a_lock_since_the_future() {
        let info = r#"{"Operation":"OperationTypeApply","Created":"2099-01-01T00:00:00Z"}"#;
        let seen = "2026-01-01T00:00:00Z".parse().ok();
        assert_eq!(read_lock(info, seen, HALF_AN_HOUR).holds_until, "2026-01-01T00:30:00Z".parse().ok());
    }

    #[test]
    fn what_cannot_be_read_is_a_lock_of_nobody() {
        for info in ["", "{", "[]", "7", r#"{"Operation":7}"#] {
            let lock = read_lock(info, None, HALF_AN_HOUR);
            assert_eq!((&*lock.who, lock.holds_until), ("", None), "{info}");
        }
    }
}
