//! What sort of change made a field differ.

use serde_json::Value;

use super::version::version_change;
use crate::types::{ChangeKind, FieldClass, FieldPath, Finding};

/// What the two values of a finding tell about the change. Two hashes tell nothing.
pub(super) fn change_kind(finding: &Finding, path: Option<&FieldPath>) -> Option<ChangeKind> {
    if finding.class == FieldClass::Hash {
        return None;
    }
    match (finding.expected.is_empty(), finding.actual.is_empty()) {
        (true, false) => Some(ChangeKind::Added),
        (false, true) => Some(ChangeKind::Removed),
        (false, false) if is_reordered(&finding.expected, &finding.actual) => Some(ChangeKind::Reordered),
        (false, false) if holds_a_version(finding, path) => {
            version_change(&finding.expected, &finding.actual)
        }
        (true, true) | (false, false) => None,
    }
}

/// Numbers look like versions too: three replicas are no major version, and 1.5 CPUs no patch of one.
fn holds_a_version(finding: &Finding, path: Option<&FieldPath>) -> bool {
    finding.class == FieldClass::Image
        || path.and_then(FieldPath::last_field).is_some_and(|name| {
            let name = name.to_lowercase();
            ["image", "tag", "version"].iter().any(|end| name.ends_with(end))
        })
}

fn is_reordered(expected: &str, actual: &str) -> bool {
    // Both have the same elements, so they differ in length by white space at most, and are not worth reading otherwise.
    if !(expected.starts_with('[') && actual.starts_with('[')) {
        return false;
    }
    let elements = |text: &str| {
        let list: Vec<Value> = serde_json::from_str(text).ok()?;
        let mut list: Vec<String> = list.iter().map(Value::to_string).collect();
        list.sort_unstable();
        Some(list)
    };
    let expected = elements(expected);
    expected.is_some() && expected == elements(actual)
}

#[cfg(test)]
mod tests {
    use super::{ChangeKind, FieldClass, Finding, change_kind};

    #[track_caller]
    fn check(path: &str, expected: &str, actual: &str, change: Option<ChangeKind>) {
        let class = if path.ends_with("image") { FieldClass::Image } else { FieldClass::Other };
        let finding = Finding {
            path: path.into(),
            class,
            expected: expected.into(),
            actual: actual.into(),
            writer: None,
        };
        assert_eq!(
            change_kind(&finding, path.parse().ok().as_ref()),
            change,
            "{path}: {expected} → {actual}"
        );
    }

    #[test]
    fn the_values_tell_what_was_done() {
        check("spec.a", "", "x", Some(ChangeKind::Added));
        check("spec.a", "x", "", Some(ChangeKind::Removed));
        check("spec.a", "[1,{\"a\":2}]", "[{\"a\":2},1]", Some(ChangeKind::Reordered));
        check("spec.a", "[1,1,2]", "[1,2,2]", None);
        check("spec.a", "[1]", "[1", None);
        check(
            "spec.containers[name=db].image",
            "postgres:15",
            "postgres:15.2",
            Some(ChangeKind::PatchVersion),
        );
        check("spec.engineVersion", "15", "16", Some(ChangeKind::MajorVersion));
    }

    #[test]
    fn numbers_that_are_no_versions_are_not_taken_for_any() {
        check("spec.replicas", "3", "5", None);
        check("spec.resources.limits.cpu", "1", "1.5", None);
    }
}
