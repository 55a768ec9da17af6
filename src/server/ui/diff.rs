//! What differs, side by side: declared on the left, actual on the right, and above each field who set it and when.
//! Two texts beside each other: the lines that belong together, and what in them differs.

use std::{borrow::Cow, time::Duration};

use jiff::Timestamp;
use maud::{Markup, html};
use similar::{DiffOp, TextDiff};

use super::format::{severity, since, tool, value};
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

/// Equal lines that are shown before and after those that differ.
const AROUND: usize = 3;
/// Lines of one field that are shown.
pub(super) const SHOWN: usize = 400;
/// After this long the rest is aligned roughly.
const PATIENCE: Duration = Duration::from_millis(50);

/// What stands beside each other.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pair<'a> {
    /// The same on both sides.
    Same(&'a str),
    /// Lines that are the same on both sides and not shown.
    Left(usize),
    /// A line that is on one side only, or another on each.
    Changed(Option<Side<'a>>, Option<Side<'a>>),
    /// Lines that are not shown because there are too many.
    More(usize),
    /// All lines are the same, but not how they end.
    LineEnds,
}

/// One line: what it has in common with the line beside it, and in the middle what it has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Side<'a> {
    pub(super) before: &'a str,
    pub(super) differs: &'a str,
    pub(super) after: &'a str,
}

/// Lines of two texts that belong together. It ends in bounded time and length, however long the texts are.
pub(super) fn aligned<'a>(old: &'a str, new: &'a str) -> Vec<Pair<'a>> {
    if old != new && old.lines().eq(new.lines()) {
        return vec![Pair::LineEnds];
    }
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let diff = TextDiff::configure().timeout(PATIENCE).diff_slices(&old, &new);
    let mut pairs = Vec::new();
    let last = diff.ops().len().saturating_sub(1);
    for (at, op) in diff.ops().iter().enumerate() {
        match *op {
            DiffOp::Equal { old_index, len, .. } => {
                same(&old[old_index..old_index + len], at == 0, at == last, &mut pairs);
            }
            DiffOp::Delete { old_index, old_len, .. } => {
                changed(&old[old_index..old_index + old_len], &[], &mut pairs);
            }
            DiffOp::Insert { new_index, new_len, .. } => {
                changed(&[], &new[new_index..new_index + new_len], &mut pairs);
            }
            DiffOp::Replace { old_index, old_len, new_index, new_len } => {
                changed(
                    &old[old_index..old_index + old_len],
                    &new[new_index..new_index + new_len],
                    &mut pairs,
                );
            }
        }
    }
    if pairs.len() > SHOWN {
        let more = pairs.len() - SHOWN;
        pairs.truncate(SHOWN);
        pairs.push(Pair::More(more));
    }
    pairs
}

/// Equal lines: those beside a change, and how many are between.
fn same<'a>(lines: &[&'a str], is_first: bool, is_last: bool, pairs: &mut Vec<Pair<'a>>) {
    let head = if is_first { 0 } else { AROUND.min(lines.len()) };
    let tail = if is_last { 0 } else { AROUND.min(lines.len() - head) };
    let left = lines.len() - head - tail;
    pairs.extend(lines[..head].iter().map(|line| Pair::Same(line)));
    match left {
        0 => {}
        // A line is no longer than what would be said of it.
        1 => pairs.push(Pair::Same(lines[head])),
        left => pairs.push(Pair::Left(left)),
    }
    pairs.extend(lines[lines.len() - tail..].iter().map(|line| Pair::Same(line)));
}

fn changed<'a>(old: &[&'a str], new: &[&'a str], pairs: &mut Vec<Pair<'a>>) {
    for at in 0..old.len().max(new.len()) {
        pairs.push(match (old.get(at), new.get(at)) {
            (Some(old), Some(new)) => {
                let (old, new) = apart(old, new);
                Pair::Changed(Some(old), Some(new))
            }
            (old, new) => Pair::Changed(old.map(|own| whole(own)), new.map(|own| whole(own))),
        });
    }
}

fn whole(line: &str) -> Side<'_> {
    Side { before: "", differs: line, after: "" }
}

/// What two lines have in common at their beginnings and ends, and what is left of each.
fn apart<'a>(old: &'a str, new: &'a str) -> (Side<'a>, Side<'a>) {
    let before: usize = old
        .chars()
        .zip(new.chars())
        .take_while(|(one, other)| one == other)
        .map(|(one, _)| one.len_utf8())
        .sum();
    let after: usize = old[before..]
        .chars()
        .rev()
        .zip(new[before..].chars().rev())
        .take_while(|(one, other)| one == other)
        .map(|(one, _)| one.len_utf8())
        .sum();
    let cut = |line: &'a str| Side {
        before: &line[..before],
        differs: &line[before..line.len() - after],
        after: &line[line.len() - after..],
    };
    (cut(old), cut(new))
}

#[cfg(test)]
mod tests {
    use super::{Pair, SHOWN, Side, aligned, readable};

    #[test]
    fn only_what_is_json_to_the_letter_is_set_out_in_lines() {
        assert_eq!(readable(r#"{"a":[1]}"#), "{\n  \"a\": [\n    1\n  ]\n}");
        for text in [r#"{"v":1.10}"#, "{{ .Values.x }}", "[a]", "3", r#"{ "a":1}"#] {
            assert_eq!(readable(text), text);
        }
    }

    fn changed<'a>(old: [&'a str; 3], new: [&'a str; 3]) -> Pair<'a> {
        let side = |[before, differs, after]: [&'a str; 3]| Some(Side { before, differs, after });
        Pair::Changed(side(old), side(new))
    }

    #[test]
    fn lines_that_belong_together_stand_beside_each_other() {
        assert_eq!(aligned("3", "5"), [changed(["", "3", ""], ["", "5", ""])]);
        assert_eq!(
            aligned("a\nport=80\nz", "a\nport=8080\nmore\nz"),
            [
                Pair::Same("a"),
                changed(["port=80", "", ""], ["port=80", "80", ""]),
                Pair::Changed(None, Some(Side { before: "", differs: "more", after: "" })),
                Pair::Same("z"),
            ]
        );
        assert_eq!(aligned("grün", "grau"), [changed(["gr", "ün", ""], ["gr", "au", ""])]);
    }

    #[test]
    fn what_is_the_same_far_from_a_change_is_counted_only() {
        let old: Vec<String> = (0..20).map(|number| format!("line {number}")).collect();
        let mut new = old.clone();
        new[10] = "other".to_owned();
        let (old, new) = (old.join("\n"), new.join("\n"));
        let pairs = aligned(&old, &new);
        assert_eq!((&pairs[0], pairs.len()), (&Pair::Left(7), 9));
        assert_eq!(pairs[8], Pair::Left(6));
    }

    #[test]
    fn lines_that_only_end_differently_are_no_sameness() {
        for (old, new) in [("a\nb\n", "a\nb"), ("a\nb", "a\r\nb")] {
            assert_eq!(aligned(old, new), [Pair::LineEnds]);
        }
    }

    #[test]
    fn long_texts_end() {
        let old: Vec<String> = (0..50_000).map(|number| format!("{number}")).collect();
        let new: Vec<String> = (0..50_000).map(|number| format!("{}", number * 7 % 50_001)).collect();
        let (old, new) = (old.join("\n"), new.join("\n"));
        // CPU time: a busy machine is no reason to fail.
        let cpu_time = || {
            let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
            std::time::Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
        };
        let begun = cpu_time();
        let pairs = aligned(&old, &new);
        assert_eq!(pairs.len(), SHOWN + 1);
        assert!(matches!(pairs[SHOWN], Pair::More(_)));
        let took = cpu_time().saturating_sub(begun);
        assert!(took.as_secs() < 5, "{took:?}");
    }
}
