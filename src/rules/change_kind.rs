//! What sort of change a difference is, by its two values.

use serde_json::Value;

use crate::types::{ChangeKind, FieldClass, FieldValue, Finding};

/// The kind of change, if the two values show it. Hashes show nothing.
pub(super) fn change_kind(finding: &Finding) -> Option<ChangeKind> {
    if finding.class == FieldClass::Hash {
        return None;
    }
    match (&finding.expected, &finding.actual) {
        (FieldValue::Absent, FieldValue::Absent) => None,
        (FieldValue::Absent, _) => Some(ChangeKind::Added),
        (_, FieldValue::Absent) => Some(ChangeKind::Removed),
        (FieldValue::Plain(expected), FieldValue::Plain(actual)) => {
            if is_reordered(expected, actual) {
                return Some(ChangeKind::Reordered);
            }
            is_version_field(finding).then(|| version_change(expected, actual)).flatten()
        }
        (FieldValue::Redacted(_), _) | (_, FieldValue::Redacted(_)) => None,
    }
}

/// Numbers look like versions too, so only certain fields count: 3 replicas are not a major version, 1.5 CPUs not a patch level.
fn is_version_field(finding: &Finding) -> bool {
    finding.class == FieldClass::Image
        || finding.path.field_names().next_back().is_some_and(|name| {
            let name = name.to_lowercase();
            ["image", "tag", "version"].iter().any(|end| name.ends_with(end))
        })
}

fn is_reordered(expected: &str, actual: &str) -> bool {
    if !(expected.starts_with('[') && actual.starts_with('[')) {
        return false;
    }
    let sorted_elements = |text: &str| {
        let list: Vec<Value> = serde_json::from_str(text).ok()?;
        let mut list: Vec<String> = list.iter().map(Value::to_string).collect();
        list.sort_unstable();
        Some(list)
    };
    let expected = sorted_elements(expected);
    expected.is_some() && expected == sorted_elements(actual)
}

/// Compares two versions, or two images of the same repository by their tags. Returns none for a change that is neither a newer
/// patch level nor another major version.
///
/// An image with a digest has no version, because the digest and not the tag selects its content.
fn version_change(expected: &str, actual: &str) -> Option<ChangeKind> {
    let (expected, actual) = (Version::parse(expected)?, Version::parse(actual)?);
    if expected.repository != actual.repository {
        return None;
    }
    if expected.numbers[0] != actual.numbers[0] {
        return Some(ChangeKind::MajorVersion);
    }
    let same_flavour = expected.suffix == actual.suffix && expected.has_v == actual.has_v;
    (same_flavour && is_newer_patch(&expected.numbers, &actual.numbers)).then_some(ChangeKind::PatchVersion)
}

/// More components after the same ones, or a higher third component.
fn is_newer_patch(expected: &[u64], actual: &[u64]) -> bool {
    const PATCH: usize = 2;
    if actual.len() > expected.len() {
        return actual.starts_with(expected);
    }
    expected.len() == actual.len()
        && expected.len() > PATCH
        && expected[..PATCH] == actual[..PATCH]
        && actual[PATCH..] > expected[PATCH..]
}

struct Version<'a> {
    /// Empty for a version that is not an image.
    repository: &'a str,
    has_v: bool,
    /// At least one.
    numbers: Vec<u64>,
    suffix: &'a str,
}

impl<'a> Version<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        if text.contains('@') {
            return None;
        }
        // A colon before the last slash belongs to a registry's port.
        let name_at = text.rfind('/').map_or(0, |at| at + 1);
        let (repository, tag) = match text[name_at..].find(':') {
            Some(at) => (&text[..name_at + at], &text[name_at + at + 1..]),
            None if name_at > 0 => return None,
            None => ("", text),
        };
        let (has_v, tag) = match tag.strip_prefix('v') {
            Some(rest) => (true, rest),
            None => (false, tag),
        };
        let end = tag.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(tag.len());
        let (numbers, suffix) = tag.split_at(end);
        let numbers: Vec<u64> =
            numbers.split('.').map(|number| number.parse().ok()).collect::<Option<_>>()?;
        let is_suffix = suffix.is_empty() || suffix.starts_with(['-', '+', '_']);
        is_suffix.then_some(Self { repository, has_v, numbers, suffix })
    }
}

#[cfg(test)]
mod tests {
    use super::{ChangeKind, FieldClass, FieldValue, Finding, change_kind, version_change};
    use crate::types::RedactionKey;

    #[track_caller]
    fn check(path: &str, expected: &str, actual: &str, change: Option<ChangeKind>) {
        let class = if path.ends_with("image") { FieldClass::Image } else { FieldClass::Other };
        let finding = Finding::new(path.parse().unwrap(), class, expected, actual);
        assert_eq!(change_kind(&finding), change, "{path}: {expected} → {actual}");
    }

    #[test]
    fn change_is_derived_from_both_values() {
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
    fn empty_string_is_not_absent_and_redacted_value_is_present() {
        let change = |expected: FieldValue, actual: FieldValue| {
            let finding = Finding::new("spec.image".parse().unwrap(), FieldClass::Image, "", "");
            change_kind(&Finding { expected, actual, ..finding })
        };
        let empty = || FieldValue::Plain("".into());
        let redacted = || FieldValue::Redacted(RedactionKey::new([1; 32]).digest(b"a"));
        assert_eq!(change(FieldValue::Absent, empty()), Some(ChangeKind::Added));
        assert_eq!(change(redacted(), FieldValue::Absent), Some(ChangeKind::Removed));
        assert_eq!(change(redacted(), empty()), None);
        assert_eq!(change(FieldValue::Absent, FieldValue::Absent), None);
    }

    #[test]
    fn other_numbers_are_not_versions() {
        check("spec.replicas", "3", "5", None);
        check("spec.resources.limits.cpu", "1", "1.5", None);
    }

    #[track_caller]
    fn check_version(expected: &str, actual: &str, change: Option<ChangeKind>) {
        assert_eq!(version_change(expected, actual), change, "{expected} → {actual}");
    }

    #[test]
    fn newer_patch_level_is_distinguished_from_other_changes() {
        for (expected, actual) in [
            ("15", "15.2"),
            ("postgres:15", "postgres:15.2"),
            ("nginx:1.27.1", "nginx:1.27.4"),
            ("nginx:1.27", "nginx:1.27.3"),
            ("registry:5000/nginx:v1.2.3-alpine", "registry:5000/nginx:v1.2.10-alpine"),
        ] {
            check_version(expected, actual, Some(ChangeKind::PatchVersion));
        }
        for (expected, actual) in [
            ("nginx:1.26", "nginx:1.27"),
            ("nginx:1.27.4", "nginx:1.27.1"),
            ("nginx:1.27.1", "nginx:1.27"),
            ("nginx:1.27.1", "nginx:1.27.4-hotfix"),
            ("nginx:1.27.1", "evil/nginx:1.27.4"),
            ("nginx:1.27.1", "nginx:1.27.4@sha256:00"),
            ("nginx:1", "nginx:latest"),
            ("nginx", "nginx:1.2"),
            ("registry:5000/nginx", "registry:5000/nginx:1.2"),
            ("nginx:1.", "nginx:1.2"),
        ] {
            check_version(expected, actual, None);
        }
    }

    #[test]
    fn another_first_number_is_a_major_version() {
        check_version("postgres:15.2", "postgres:16", Some(ChangeKind::MajorVersion));
        check_version("postgres:16", "postgres:15-alpine", Some(ChangeKind::MajorVersion));
        check_version("v1.2", "v2.0", Some(ChangeKind::MajorVersion));
        check_version("postgres:15", "mysql:16", None);
    }
}
