//! How things are said: durations, times, tools, verdicts.
//! Addresses of pages.
//! Verdicts as one bar: how much of it is off is seen before it is read.

use std::fmt::Write as _;

use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

use super::overview::{BY_URGENCY, Counts};
use crate::types::{Actor, Cause, ObjectKey, RedactionKey, Severity, Source, UnknownReason, VerdictKind};

/// A length of time in its two largest units: `2 min 10 s`.
pub(super) fn lasting(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let two = |large: i64, unit: &str, small: i64, part: &str| match small {
        0 => format!("{large} {unit}"),
        _ => format!("{large} {unit} {small} {part}"),
    };
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => two(minutes, "min", seconds % 60, "s"),
        (0, ..) => two(hours, "h", minutes, "min"),
        _ => two(days, "d", hours, "h"),
    }
}

/// The length of time until now; scripts keep it running.
pub(super) fn until_now(since: Timestamp, now: Timestamp) -> Markup {
    let since = to_second(since);
    html! {
        time datetime=(since) title=(exact(since)) data-tick="for" { (lasting(now.duration_since(since))) }
    }
}

/// How long ago; scripts keep it running.
pub(super) fn ago(then: Timestamp, now: Timestamp) -> Markup {
    let then = to_second(then);
    html! {
        time datetime=(then) title=(exact(then)) data-tick="ago" { (lasting(now.duration_since(then))) " ago" }
    }
}

/// How long ago, and when exactly.
pub(super) fn since(then: Timestamp, now: Timestamp) -> Markup {
    html! { (ago(then, now)) span.exact { (exact(then)) } }
}

/// The moment itself.
pub(super) fn exact(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// Parts of a second are noise to people, and would make a page differ from itself.
fn to_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// The verdict for people.
pub(super) fn verdict_word(verdict: VerdictKind) -> &'static str {
    match verdict {
        VerdictKind::InSync => "In sync",
        VerdictKind::Drifted => "Drifted",
        VerdictKind::Missing => "Missing",
        VerdictKind::Replaced => "Replaced",
        VerdictKind::Ignored => "Ignored",
        VerdictKind::InFlight => "In flight",
        VerdictKind::NoBaseline => "No baseline",
        VerdictKind::Unknown => "Unknown",
    }
}

/// The verdict with its shape: colour alone does not reach everybody.
pub(super) fn badge(verdict: VerdictKind) -> Markup {
    html! { span class={ "verdict " (verdict) } { (shape(verdict)) (verdict_word(verdict)) } }
}

/// The shape of a verdict; the page has one drawing of each.
pub(super) fn shape(verdict: VerdictKind) -> Markup {
    html! { svg.shape aria-hidden="true" viewBox="0 0 16 16" { use href={ "#shape-" (verdict) } {} } }
}

/// The severity with its word.
pub(super) fn severity(severity: Severity) -> Markup {
    html! { span class={ "severity " (severity) } { (severity) } }
}

/// The tool in a table: its class, and the name it gave itself where that tells more.
pub(super) fn tool(actor: Actor, manager: Option<&str>) -> Markup {
    html! {
        @if actor == Actor::Nobody { "nobody" } @else { (actor) }
        @if let Some(manager) = manager.filter(|manager| *manager != actor.as_str()) {
            span.detail { (manager) }
        }
    }
}

/// The tool in a sentence.
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
        Actor::Nobody => "a tool that left no name",
    };
    html! {
        (class)
        @if let Some(manager) = manager { " (field manager " code { (manager) } ")" }
    }
}

/// Why an object could not be judged, in a word or two.
pub(super) fn reason_word(reason: UnknownReason) -> &'static str {
    match reason {
        UnknownReason::Unreadable => "unreadable",
        UnknownReason::BadHash => "no hash",
        UnknownReason::UnknownAlgorithm => "unknown algorithm",
        UnknownReason::Unhashable => "cannot be hashed",
        UnknownReason::NoStatus => "nothing recorded",
        UnknownReason::PhaseError => "could not be applied",
        UnknownReason::Stale => "stale",
        UnknownReason::Unwatched => "kind not watched",
        UnknownReason::OtherVersion => "read in another version",
        UnknownReason::OtherCluster => "of another cluster",
        UnknownReason::NewerSchema => "newer schema",
        UnknownReason::Encrypted => "encrypted",
        UnknownReason::Torn => "torn",
        UnknownReason::TooLarge => "too large",
        UnknownReason::UnsupportedVersion => "unsupported version",
        UnknownReason::UnreadableBaseline => "unreadable baseline",
    }
}

/// How an episode ended.
pub(super) fn ending(cause: Cause) -> &'static str {
    match cause {
        Cause::Reverted => "put back to what was declared",
        Cause::Absorbed => "declared as it was",
        Cause::Deleted => "object or baseline deleted",
        Cause::Rule => "ignored by a rule",
    }
}

/// A number with its noun.
pub(super) fn count(number: usize, one: &str, many: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {many}") }
}

/// The first digits of a hash are enough to tell two apart; everything else is shown as it is.
pub(super) fn value(text: &str) -> Markup {
    let is_hash = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match text.get(..12) {
        Some(start) if is_hash => html! { code title=(text) { (start) "…" } },
        Some(_) if RedactionKey::is_digest(text) => {
            let end: String = text.chars().rev().take(6).collect::<Vec<char>>().into_iter().rev().collect();
            html! { span.hidden title={ "The value is not shown. Digest: " (text) } { "hidden " code { "…" (end) } } }
        }
        _ => html! { code { (text) } },
    }
}

/// What a place is called that a source declares objects in.
pub(super) fn baseline_word(source: Source) -> &'static str {
    match source {
        Source::Helm => "release",
        Source::Terraform
        | Source::Annotation
        | Source::LastApplied
        | Source::Manifest
        | Source::StatusHash
        | Source::Nothing => "state",
    }
}

/// The page of an object: `/objects/deployments.apps/shop/web`.
pub(super) fn object_url(key: &ObjectKey) -> String {
    let namespace = if key.namespace.is_empty() { "-" } else { &key.namespace };
    format!("/objects/{}/{}/{}", encode(&key.kind.to_string()), encode(namespace), encode(&key.name))
}

/// The dashboard of an object in Grafana, which comes with this program under that name.
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

/// Text as a part of a path or of a query. Names come from the cluster and may hold anything.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").expect("writing to a string cannot fail");
        }
    }
    encoded
}

/// How wide the drawing is in its own units; it is stretched to the room that there is.
const WIDTH: usize = 1_000;
/// The least width of what is there at all.
const LEAST: usize = 12;

/// A bar of the verdicts, with their numbers as its words.
pub(super) fn bar(counts: &Counts) -> Markup {
    let present = || BY_URGENCY.into_iter().filter_map(|verdict| Some((verdict, *counts.get(&verdict)?)));
    let all = counts.values().sum::<usize>().max(1);
    let words: Vec<String> = present()
        .map(|(verdict, number)| format!("{number} {}", verdict_word(verdict).to_lowercase()))
        .collect();
    let widths: Vec<usize> = present().map(|(_, number)| (number * WIDTH / all).max(LEAST)).collect();
    let drawn = widths.iter().sum::<usize>();
    let starts = widths.iter().scan(0, |end, width| Some(std::mem::replace(end, *end + width)));
    html! {
        svg.bar role="img" aria-label=(words.join(", ")) viewBox={ "0 0 " (drawn) " 10" } preserveAspectRatio="none" {
            title { (words.join(", ")) }
            @for (((verdict, _), start), width) in present().zip(starts).zip(&widths) {
                rect class={ "fill-" (verdict) } x=(start) y="0" width=(width) height="10" {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::lasting;

    #[test]
    fn a_length_of_time_is_told_in_its_two_largest_units() {
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
            assert_eq!(lasting(SignedDuration::from_secs(seconds)), text);
        }
    }
}
