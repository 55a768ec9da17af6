//! Differences side by side: declared on the left, live on the right, and the owner of each field above it.

use std::{borrow::Cow, time::Duration};

use jiff::Timestamp;
use maud::{Markup, html};
use similar::{DiffOp, TextDiff};

use super::format::{severity, since, tool};
use crate::{
    server::redaction::{DisplayedValues, ValueRedactor},
    types::{Difference, FieldValue, ValueForm},
};

/// Unchanged lines before and after a change.
const CONTEXT_LINES: usize = 3;
/// The most lines of one field.
const MAX_LINES: usize = 400;
/// After this time, the remaining lines are aligned approximately.
const DIFF_TIMEOUT: Duration = Duration::from_millis(50);

pub(super) fn diff_table<'a>(
    differences: impl Iterator<Item = &'a Difference>,
    namespace: &str,
    values: &ValueRedactor,
    now: Timestamp,
) -> Markup {
    html! {
        div.scroll {
            table.diff {
                thead { tr { th scope="col" { "Declared" } th scope="col" { "Actual" } } }
                @for difference in differences { (field_rows(difference, namespace, values, now)) }
            }
        }
    }
}

fn field_rows(difference: &Difference, namespace: &str, values: &ValueRedactor, now: Timestamp) -> Markup {
    let DisplayedValues { expected, actual } = values.redact(&difference.finding, namespace);
    html! {
        tbody {
            tr.field { th colspan="2" scope="rowgroup" { (field_header(difference, now)) } }
            @if is_opaque(&expected) || is_opaque(&actual) {
                tr { td.old data-label="Declared" { (whole_value(&expected)) } td.new data-label="Actual" { (whole_value(&actual)) } }
            } @else {
                @for line in diff_lines(&value_lines(&expected), &value_lines(&actual)) { (line_row(&line)) }
            }
        }
    }
}

fn field_header(difference: &Difference, now: Timestamp) -> Markup {
    html! {
        code.path { (difference.finding.path) }
        span.about {
            (severity(difference.severity)) " "
            @match &difference.ignored_by {
                Some(rule) => { span { "ignored by " (rule) } }
                None => { span { (difference.expectation) " " (difference.finding.class) } }
            }
            " " span { "by " (tool(difference.actor, difference.manager())) }
            // Without a time in the managed fields, the onset is when the exporter first observed the difference.
            @let has_time = difference.finding.owner.as_ref().is_some_and(|owner| owner.time.is_some());
            " " span { @if !has_time { "first seen " } (since(difference.onset, now)) }
        }
    }
}

fn line_row(line: &DiffLine<'_>) -> Markup {
    html! {
        @match line {
            DiffLine::Unchanged(line) => { tr.same { td data-label="Declared" { code { (line) } } td data-label="Actual" { code { (line) } } } }
            DiffLine::SkippedResource(number) => { tr.left-out { td colspan="2" { (number) " lines are as declared" } } }
            DiffLine::OnlyLineEndings => { tr.left-out { td colspan="2" { "the lines are the same and end differently" } } }
            DiffLine::Truncated(number) => { tr.left-out { td colspan="2" { "and " (number) " lines more" } } }
            DiffLine::Changed(old, new) => {
                tr {
                    td.old data-label="Declared" { @if let Some(ChangedLine { prefix, changed, suffix }) = old { code { (prefix) del { (changed) } (suffix) } } }
                    td.new data-label="Actual" { @if let Some(ChangedLine { prefix, changed, suffix }) = new { code { (prefix) ins { (changed) } (suffix) } } }
                }
            }
        }
    }
}

fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a line diff of the value is useless: an absent value, null, a hash, the digest of a redacted value, or no value.
fn is_opaque(value: &FieldValue) -> bool {
    match value {
        FieldValue::Absent | FieldValue::Null | FieldValue::Redacted(_) | FieldValue::Omitted { .. } => true,
        FieldValue::Text(text) => is_hash(text),
        FieldValue::Json(_) | FieldValue::PartlyRedacted(_) => false,
    }
}

/// Hashes and digests of redacted values are shortened.
fn whole_value(value: &FieldValue) -> Markup {
    let text = value.text();
    html! {
        @match value {
            FieldValue::Absent => { span.none { "absent" } }
            FieldValue::Null | FieldValue::Omitted { .. } => { span.none { (text) } }
            FieldValue::Redacted(_) => {
                span.hidden title={ "The value is not shown. Digest: " (text) } { "hidden " code { "…" (text[text.len() - 6..]) } }
            }
            FieldValue::Text(hash) if is_hash(hash) => { code title=(text) { (text[..12]) "…" } }
            FieldValue::Text(_) | FieldValue::Json(_) | FieldValue::PartlyRedacted(_) => {
                @let text = value_lines(value);
                @let more = text.lines().count().saturating_sub(MAX_LINES);
                @for line in text.lines().take(MAX_LINES) { code { (line) } }
                @if more > 0 { span.none { "and " (more) " lines more" } }
            }
        }
    }
}

/// The lines of a value. Different values have different lines: a string of several lines is indented below a `|`, as in YAML,
/// and JSON is pretty-printed.
fn value_lines(value: &FieldValue) -> Cow<'_, str> {
    match value {
        FieldValue::Text(text) if text.contains('\n') => {
            format!("|\n  {}", text.replace('\n', "\n  ")).into()
        }
        // The page shows a string of several lines and a digest like this.
        FieldValue::Text(text) if **text == *"|" || text.starts_with("hidden …") => {
            format!("{text:?}").into()
        }
        FieldValue::Json(json) => ValueForm::Json.notation(&pretty_json(json)).into_owned().into(),
        FieldValue::PartlyRedacted(json) => pretty_json(json),
        other => other.notation(),
    }
}

/// Pretty-prints JSON that serde writes back unchanged. Other text stays as it is, because `1.10` is not `1.1`.
fn pretty_json(text: &str) -> Cow<'_, str> {
    let parsed: Option<serde_json::Value> = serde_json::from_str(text).ok();
    let exact = parsed.filter(|json| serde_json::to_string(json).is_ok_and(|written| written == text));
    exact.and_then(|json| serde_json::to_string_pretty(&json).ok()).map_or_else(|| text.into(), Into::into)
}

#[derive(Debug, PartialEq, Eq)]
enum DiffLine<'a> {
    Unchanged(&'a str),
    /// A number of unchanged lines far from any change.
    SkippedResource(usize),
    /// A line on one side, or a different line on each side.
    Changed(Option<ChangedLine<'a>>, Option<ChangedLine<'a>>),
    /// A number of rows beyond [`MAX_LINES`].
    Truncated(usize),
    /// All lines are equal, but their line endings are not.
    OnlyLineEndings,
}

/// One side of a changed line. Both sides have the same prefix and suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChangedLine<'a> {
    prefix: &'a str,
    changed: &'a str,
    suffix: &'a str,
}

/// Diffs two texts. Time and length of the result are bounded, however long the texts are.
fn diff_lines<'a>(old: &'a str, new: &'a str) -> Vec<DiffLine<'a>> {
    if old != new && old.lines().eq(new.lines()) {
        return vec![DiffLine::OnlyLineEndings];
    }
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let diff = TextDiff::configure().timeout(DIFF_TIMEOUT).diff_slices(&old, &new);
    let mut rows = Vec::new();
    let last = diff.ops().len().saturating_sub(1);
    for (at, op) in diff.ops().iter().enumerate() {
        if let DiffOp::Equal { old_index, len, .. } = *op {
            push_unchanged(&old[old_index..old_index + len], at == 0, at == last, &mut rows);
        } else {
            push_changed(&old[op.old_range()], &new[op.new_range()], &mut rows);
        }
    }
    if rows.len() > MAX_LINES {
        let more = rows.len() - MAX_LINES;
        rows.truncate(MAX_LINES);
        rows.push(DiffLine::Truncated(more));
    }
    rows
}

/// Pushes the lines next to a change, and the number of lines between them.
fn push_unchanged<'a>(lines: &[&'a str], is_first: bool, is_last: bool, rows: &mut Vec<DiffLine<'a>>) {
    let head = if is_first { 0 } else { CONTEXT_LINES.min(lines.len()) };
    let tail = if is_last { 0 } else { CONTEXT_LINES.min(lines.len() - head) };
    rows.extend(lines[..head].iter().map(|line| DiffLine::Unchanged(line)));
    match lines.len() - head - tail {
        0 => {}
        // The line takes as much space as a note that it was skipped.
        1 => rows.push(DiffLine::Unchanged(lines[head])),
        skipped => rows.push(DiffLine::SkippedResource(skipped)),
    }
    rows.extend(lines[lines.len() - tail..].iter().map(|line| DiffLine::Unchanged(line)));
}

fn push_changed<'a>(old: &[&'a str], new: &[&'a str], rows: &mut Vec<DiffLine<'a>>) {
    let whole = |line: &&'a str| ChangedLine { prefix: "", changed: line, suffix: "" };
    for at in 0..old.len().max(new.len()) {
        rows.push(match (old.get(at), new.get(at)) {
            (Some(old), Some(new)) => {
                let (old, new) = split_common(old, new);
                DiffLine::Changed(Some(old), Some(new))
            }
            (old, new) => DiffLine::Changed(old.map(whole), new.map(whole)),
        });
    }
}

fn split_common<'a>(old: &'a str, new: &'a str) -> (ChangedLine<'a>, ChangedLine<'a>) {
    let prefix: usize =
        old.chars().zip(new.chars()).take_while(|(old, new)| old == new).map(|(old, _)| old.len_utf8()).sum();
    let suffix: usize = old[prefix..]
        .chars()
        .rev()
        .zip(new[prefix..].chars().rev())
        .take_while(|(old, new)| old == new)
        .map(|(old, _)| old.len_utf8())
        .sum();
    let split = |line: &'a str| ChangedLine {
        prefix: &line[..prefix],
        changed: &line[prefix..line.len() - suffix],
        suffix: &line[line.len() - suffix..],
    };
    (split(old), split(new))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{ChangedLine, DiffLine, MAX_LINES, diff_lines, pretty_json, whole_value};
    use crate::types::any_value;

    /// The text that a browser shows.
    fn visible_text(html: &str) -> String {
        html.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text)).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

        #[test]
        fn values_of_different_forms_look_different(one in any_value(), other in any_value()) {
            let shown = [&one, &other].map(|value| visible_text(&whole_value(value).into_string()));
            prop_assert!(one.form() == other.form() || shown[0] != shown[1], "{shown:?}");
        }
    }

    #[test]
    fn only_exact_json_is_pretty_printed() {
        assert_eq!(pretty_json(r#"{"a":[1]}"#), "{\n  \"a\": [\n    1\n  ]\n}");
        for text in [r#"{"v":1.10}"#, "{{ .Values.x }}", "[a]", "3", r#"{ "a":1}"#] {
            assert_eq!(pretty_json(text), text);
        }
    }

    fn changed<'a>(old: [&'a str; 3], new: [&'a str; 3]) -> DiffLine<'a> {
        let line = |[prefix, changed, suffix]: [&'a str; 3]| Some(ChangedLine { prefix, changed, suffix });
        DiffLine::Changed(line(old), line(new))
    }

    #[test]
    fn changed_lines_are_aligned_and_split_at_their_common_parts() {
        assert_eq!(diff_lines("3", "5"), [changed(["", "3", ""], ["", "5", ""])]);
        assert_eq!(
            diff_lines("a\nport=80\nz", "a\nport=8080\nmore\nz"),
            [
                DiffLine::Unchanged("a"),
                changed(["port=80", "", ""], ["port=80", "80", ""]),
                DiffLine::Changed(None, Some(ChangedLine { prefix: "", changed: "more", suffix: "" })),
                DiffLine::Unchanged("z"),
            ]
        );
        assert_eq!(diff_lines("grün", "grau"), [changed(["gr", "ün", ""], ["gr", "au", ""])]);
    }

    #[test]
    fn unchanged_lines_far_from_a_change_are_counted() {
        let old: Vec<String> = (0..20).map(|number| format!("line {number}")).collect();
        let mut new = old.clone();
        new[10] = "other".to_owned();
        let (old, new) = (old.join("\n"), new.join("\n"));
        let rows = diff_lines(&old, &new);
        assert_eq!((&rows[0], rows.len()), (&DiffLine::SkippedResource(7), 9));
        assert_eq!(rows[8], DiffLine::SkippedResource(6));
    }

    #[test]
    fn different_line_endings_are_a_difference() {
        for (old, new) in [("a\nb\n", "a\nb"), ("a\nb", "a\r\nb")] {
            assert_eq!(diff_lines(old, new), [DiffLine::OnlyLineEndings]);
        }
    }

    #[test]
    fn long_texts_are_truncated() {
        let old: Vec<String> = (0..50_000).map(|number| format!("{number}")).collect();
        let new: Vec<String> = (0..50_000).map(|number| format!("{}", number * 7 % 50_001)).collect();
        let (old, new) = (old.join("\n"), new.join("\n"));
        // CPU time does not depend on the load of the machine.
        let cpu_time = || {
            let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
            std::time::Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
        };
        let start = cpu_time();
        let rows = diff_lines(&old, &new);
        assert_eq!(rows.len(), MAX_LINES + 1);
        assert!(matches!(rows[MAX_LINES], DiffLine::Truncated(_)));
        let elapsed = cpu_time().saturating_sub(start);
        assert!(elapsed.as_secs() < 5, "{elapsed:?}");
    }
}
