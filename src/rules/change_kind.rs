//! What sort of change a difference is, by its two values.

use serde_json::Value;

use crate::types::{ChangeKind, FieldClass, FieldValue, Finding};

/// The kind of change, if the two values show it. Hashes and omitted fields show nothing.
pub(super) fn change_kind(finding: &Finding) -> Option<ChangeKind> {
    if finding.class == FieldClass::Hash {
        return None;
    }
    // A null sets nothing.
    match (&finding.expected, &finding.actual) {
        (_, FieldValue::Omitted { .. })
        | (FieldValue::Absent | FieldValue::Null, FieldValue::Absent | FieldValue::Null) => None,
        (FieldValue::Absent | FieldValue::Null, _) => Some(ChangeKind::Added),
        (_, FieldValue::Absent | FieldValue::Null) => Some(ChangeKind::Removed),
        (FieldValue::Json(expected), FieldValue::Json(actual))
        | (FieldValue::PartlyRedacted(expected), FieldValue::PartlyRedacted(actual))
            if is_reordered(expected, actual) =>
        {
            Some(ChangeKind::Reordered)
        }
        (
            FieldValue::Text(expected) | FieldValue::Json(expected),
            FieldValue::Text(actual) | FieldValue::Json(actual),
        ) if is_version_field(finding) => version_change(expected, actual),
        _ => None,
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
