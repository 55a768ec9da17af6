//! What differs, side by side: declared on the left, actual on the right, and above each field who set it and when.

use std::borrow::Cow;

use jiff::Timestamp;
use maud::{Markup, html};

use super::{
    aligned::{Pair, SHOWN, Side, aligned},
    words::{severity, since, tool, value},
};
use crate::{
    server::values::{Shown, Values},
    types::{Difference, RedactionKey},
};

/// A table of differences, one group of rows for each field.
pub(super) fn side_by_side<'a>(
    differences: impl Iterator<Item = &'a Difference>,
    values: &Values,
    now: Timestamp,
) -> Markup {
    html! {
        div.scroll {
            table.diff {
                thead { tr { th scope="col" { "Declared" } th scope="col" { "Actual" } } }
                @for difference in differences { (field(difference, values, now)) }
            }
        }
    }
}

fn field(difference: &Difference, values: &Values, now: Timestamp) -> Markup {
    let Shown { expected, actual } = values.of_finding(&difference.finding);
    html! {
        tbody {
            tr.field { th colspan="2" scope="rowgroup" { (head(difference, now)) } }
            @if is_short(&expected) || is_short(&actual) {
                tr { td.old data-label="Declared" { (shown(&expected)) } td.new data-label="Actual" { (shown(&actual)) } }
            } @else {
                @for pair in aligned(&readable(&expected), &readable(&actual)) { (row(&pair)) }
            }
        }
    }
}

fn head(difference: &Difference, now: Timestamp) -> Markup {
    html! {
        code.path { (difference.finding.path) }
        span.about {
            (severity(difference.severity)) " "
            @match &difference.ignored_by {
                Some(rule) => { span { "ignored by " (rule) } }
                None => { span { (difference.expectation) " " (difference.finding.class) } }
            }
            " " span { "by " (tool(difference.actor, difference.manager())) }
            @let is_told = difference.finding.writer.as_ref().is_some_and(|writer| writer.time.is_some());
            " " span { @if !is_told { "first seen " } (since(difference.onset, now)) }
        }
    }
}

fn row(pair: &Pair<'_>) -> Markup {
    html! {
        @match pair {
            Pair::Same(line) => { tr.same { td data-label="Declared" { code { (line) } } td data-label="Actual" { code { (line) } } } }
            Pair::Left(number) => { tr.left-out { td colspan="2" { (number) " lines are as declared" } } }
            Pair::LineEnds => { tr.left-out { td colspan="2" { "the lines are the same and end differently" } } }
            Pair::More(number) => { tr.left-out { td colspan="2" { "and " (number) " lines more" } } }
            Pair::Changed(old, new) => {
                tr {
                    td.old data-label="Declared" { @if let Some(side) = old { code { (side.before) del { (side.differs) } (side.after) } } }
                    td.new data-label="Actual" { @if let Some(Side { before, differs, after }) = new { code { (before) ins { (differs) } (after) } } }
                }
            }
        }
    }
}

/// A value that is no text to look into: nothing, a hash, or a digest of what is not shown.
fn is_short(text: &str) -> bool {
    let is_hash = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    text.is_empty() || is_hash || RedactionKey::is_digest(text)
}

fn shown(text: &str) -> Markup {
    html! {
        @if text.is_empty() { span.none { "not there" } }
        @else if is_short(text) { (value(text)) }
        @else {
            @let text = readable(text);
            @let more = text.lines().count().saturating_sub(SHOWN);
            @for line in text.lines().take(SHOWN) { code { (line) } }
            @if more > 0 { span.none { "and " (more) " lines more" } }
        }
    }
}

/// Compact JSON with a line for each part of it. Text that only looks like it stays as it is: `1.10` is not `1.1`.
fn readable(text: &str) -> Cow<'_, str> {
    if !text.starts_with(['{', '[']) {
        return text.into();
    }
    let parsed: Option<serde_json::Value> = serde_json::from_str(text).ok();
    let exact = parsed.filter(|own| serde_json::to_string(own).is_ok_and(|own| own == text));
    exact.and_then(|own| serde_json::to_string_pretty(&own).ok()).map_or_else(|| text.into(), Into::into)
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn only_what_is_json_to_the_letter_is_set_out_in_lines() {
        assert_eq!(readable(r#"{"a":[1]}"#), "{\n  \"a\": [\n    1\n  ]\n}");
        for text in [r#"{"v":1.10}"#, "{{ .Values.x }}", "[a]", "3", r#"{ "a":1}"#] {
            assert_eq!(readable(text), text);
        }
    }
}
