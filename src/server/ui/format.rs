//! Markup and text that several pages share: times, verdicts, tools, values, tables and URLs.

use std::borrow::Cow;

use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::overview::BY_URGENCY;
use crate::{
    server::query::{ClaimRow, VerdictCounts},
    types::{Actor, ObjectKey, ResolutionCause, Severity, Source, UnknownReason, VerdictKind},
};

/// The characters that RFC 3986 leaves unreserved are not encoded.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// `/objects/deployments.apps/shop/web`.
pub(super) fn object_url(key: &ObjectKey) -> String {
    let namespace = if key.namespace.is_empty() { "-" } else { &key.namespace };
    format!("/objects/{}/{}/{}", encode(&key.kind.to_string()), encode(namespace), encode(&key.name))
}

/// The object's page in the Grafana dashboard that comes with the exporter.
pub(super) fn dashboard_url(grafana: &str, key: &ObjectKey) -> String {
    let variables = [
        ("group", &*key.kind.group),
        ("kind", &*key.kind.kind),
        ("namespace", &*key.namespace),
        ("name", &*key.name),
    ];
    let variables = variables.map(|(name, value)| format!("var-{name}={}", encode(value)));
    format!("{grafana}/d/drift-exporter-object?{}", variables.join("&"))
}

/// Encodes a segment of a path or a value of a query.
pub(super) fn encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// A duration in its two largest units: `2 min 10 s`.
pub(super) fn duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let two_units = |large: i64, large_unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{large} {large_unit}"),
        _ => format!("{large} {large_unit} {small} {small_unit}"),
    };
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => two_units(minutes, "min", seconds % 60, "s"),
        (0, ..) => two_units(hours, "h", minutes, "min"),
        _ => two_units(days, "d", hours, "h"),
    }
}

/// The duration from `since` until now. The script keeps it up to date.
pub(super) fn until_now(since: Timestamp, now: Timestamp) -> Markup {
    let since = to_second(since);
    html! {
        time datetime=(since) title=(exact(since)) data-tick="for" { (duration(now.duration_since(since))) }
    }
}

/// `2 min 10 s ago`. The script keeps it up to date.
pub(super) fn ago(then: Timestamp, now: Timestamp) -> Markup {
    let then = to_second(then);
    html! {
        time datetime=(then) title=(exact(then)) data-tick="ago" { (duration(now.duration_since(then))) " ago" }
    }
}

pub(super) fn since(then: Timestamp, now: Timestamp) -> Markup {
    html! { (ago(then, now)) span.exact { (exact(then)) } }
}

pub(super) fn exact(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// Without fractions of a second, two renderings of a page differ only if something changed.
fn to_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// `In sync`.
pub(super) fn verdict_word(verdict: VerdictKind) -> String {
    let words = verdict.as_str().replace('_', " ");
    words[..1].to_uppercase() + &words[1..]
}

/// The verdict with its shape, for readers who cannot distinguish the colours.
pub(super) fn badge(verdict: VerdictKind) -> Markup {
    html! { span class={ "verdict " (verdict) } { (shape(verdict)) (verdict_word(verdict)) } }
}

/// Refers to the shape that the layout draws once.
pub(super) fn shape(verdict: VerdictKind) -> Markup {
    html! { svg.shape aria-hidden="true" viewBox="0 0 16 16" { use href={ "#shape-" (verdict) } {} } }
}

pub(super) fn severity(severity: Severity) -> Markup {
    html! { span class={ "severity " (severity) } { (severity) } }
}

/// The object's health, which is as old as the last event of its watch.
pub(super) fn health(row: &ClaimRow<'_>) -> Markup {
    let facts = row.entry.object.facts();
    html! {
        span class={ "health " (facts.health) } { (facts.health) }
        @if row.reason == Some(UnknownReason::Stale) { span.detail { "when last seen" } }
        @if !facts.message.is_empty() { span.detail { (facts.message) } }
    }
}

/// The class of a tool, and its field manager if that adds something.
pub(super) fn tool(actor: Actor, manager: Option<&str>) -> Markup {
    html! {
        (actor.in_prose())
        @if let Some(manager) = manager.filter(|manager| *manager != actor.as_str()) {
            span.detail { (manager) }
        }
    }
}

pub(super) fn by_tool(actor: Actor, manager: Option<&str>) -> Markup {
    let class = match actor {
        Actor::Terraform => "Terraform",
        Actor::Kubectl => "kubectl",
        Actor::Helm => "Helm",
        Actor::Gitops => "a GitOps tool",
        Actor::Autoscaler => "an autoscaler",
        Actor::Controller => "a controller",
        Actor::Console => "a web console",
        Actor::Other => "a tool that is not known here",
        Actor::Unknown => "a tool that left no name",
    };
    html! {
        (class)
        @if let Some(manager) = manager { " (field manager " code { (manager) } ")" }
    }
}

pub(super) fn reason_word(reason: UnknownReason) -> Cow<'static, str> {
    let words = match reason {
        UnknownReason::BadHash => "no hash",
        UnknownReason::Unhashable => "cannot be hashed",
        UnknownReason::NoStatus => "nothing recorded",
        UnknownReason::PhaseError => "could not be applied",
        UnknownReason::Unwatched => "kind not watched",
        UnknownReason::OtherVersion => "read in another version",
        UnknownReason::OtherCluster => "of another cluster",
        other => return other.as_str().replace('_', " ").into(),
    };
    words.into()
}

/// How an episode ended, after the name of the object. `to` is the verdict after it; none if the claim ended with it.
pub(super) fn end_phrase(cause: ResolutionCause, to: Option<VerdictKind>) -> &'static str {
    match (cause, to) {
        (ResolutionCause::Reverted, _) => "is as declared again",
        (ResolutionCause::Absorbed, Some(_)) => "is now declared as it is",
        (ResolutionCause::Absorbed, None) => "is no longer declared",
        (ResolutionCause::Deleted, Some(_)) => "lost its baseline",
        (ResolutionCause::Deleted, None) => "was deleted, or lost its label or baseline",
        (ResolutionCause::Rule, Some(VerdictKind::Untrusted)) => "is declared by untrusted baselines only",
        (ResolutionCause::Rule, Some(_)) => "is now ignored by a rule",
        (ResolutionCause::Rule, None) => "is no longer compared",
    }
}

pub(super) fn baseline_word(source: Source) -> &'static str {
    if source == Source::Helm { "release" } else { "state" }
}

pub(super) fn count(number: usize, one: &str, many: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {many}") }
}

/// The first paths, and how many more there are.
pub(super) fn field_paths<'a>(paths: impl ExactSizeIterator<Item = &'a str>) -> Markup {
    const SHOWN: usize = 3;
    let more = paths.len().saturating_sub(SHOWN);
    html! {
        @for path in paths.take(SHOWN) { code.path { (path) } " " }
        @if more > 0 { span.detail { "and " (more) " more" } }
    }
}

/// A table that the style sheet turns into cards on narrow screens. Each cell needs a `data-label` with its column.
pub(super) fn card_table(caption: Option<&str>, columns: &[&str], rows: &Markup) -> Markup {
    html! {
        div.scroll {
            table.cards {
                @if let Some(caption) = caption { caption { (caption) } }
                thead { tr { @for column in columns { th scope="col" { (column) } } } }
                tbody { (rows) }
            }
        }
    }
}

/// A bar of the verdicts, and how many claims could be compared: `17 of 18 compared`.
pub(super) fn coverage_bar(counts: &VerdictCounts) -> Markup {
    let all: usize = counts.values().sum();
    let open = [VerdictKind::Unknown, VerdictKind::NoBaseline, VerdictKind::InFlight, VerdictKind::Untrusted];
    let open: usize = open.iter().filter_map(|verdict| counts.get(verdict)).sum();
    html! {
        (verdict_bar(counts, all))
        span.detail { @if open == 0 { "all " (all) " compared" } @else { (all - open) " of " (all) " compared" } }
    }
}

fn verdict_bar(counts: &VerdictCounts, all: usize) -> Markup {
    /// The width in user units. The drawing is stretched to the available width.
    const WIDTH: usize = 1_000;
    const MIN_WIDTH: usize = 12;
    let present = || BY_URGENCY.into_iter().filter_map(|verdict| Some((verdict, *counts.get(&verdict)?)));
    let label = present()
        .map(|(verdict, number)| format!("{number} {}", verdict_word(verdict).to_lowercase()))
        .collect::<Vec<String>>()
        .join(", ");
    let widths: Vec<usize> =
        present().map(|(_, number)| (number * WIDTH / all.max(1)).max(MIN_WIDTH)).collect();
    let total = widths.iter().sum::<usize>();
    let starts = widths.iter().scan(0, |end, width| Some(std::mem::replace(end, *end + width)));
    html! {
        svg.bar role="img" aria-label=(label) viewBox={ "0 0 " (total) " 10" } preserveAspectRatio="none" {
            title { (label) }
            @for (((verdict, _), start), width) in present().zip(starts).zip(&widths) {
                rect class={ "fill-" (verdict) } x=(start) y="0" width=(width) height="10" {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::duration;

    #[test]
    fn duration_has_its_two_largest_units() {
        for (seconds, text) in [
            (-5, "0 s"),
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (130, "2 min 10 s"),
            (3600, "1 h"),
            (3661, "1 h 1 min"),
            (86_400, "1 d"),
            (86_400 * 3 + 7200, "3 d 2 h"),
        ] {
            assert_eq!(duration(SignedDuration::from_secs(seconds)), text);
        }
    }
}
