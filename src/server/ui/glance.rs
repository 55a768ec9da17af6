//! What the overview tells beside the verdicts: how bad it is, since when, and how much of everything is seen.

use jiff::Timestamp;
use maud::{Markup, html};

use super::{
    bar::bar,
    filter::Filter,
    links::object_url,
    rows::{Counts, Overview},
    streams::StreamCounts,
    words::{count, severity, until_now},
};
use crate::{
    engine::Snapshot,
    types::{Severity, Source, VerdictKind},
};

/// Severities, the oldest drift, sources and streams.
pub(super) fn glance(
    overview: &Overview<'_>,
    filter: &Filter,
    snapshot: &Snapshot,
    now: Timestamp,
) -> Markup {
    html! {
        section #glance .glance aria-label="At a glance" data-live data-keyed {
            div #glance-severity { h2 { "By severity" } (severities(overview, filter)) }
            div #glance-oldest { h2 { "Oldest drift" } (oldest(overview, now)) }
            div #glance-sources .wide { h2 { "Coverage by source" } (sources(overview, filter)) }
            div #glance-streams { h2 { "Streams" } (streams(snapshot)) }
        }
    }
}

fn severities(overview: &Overview<'_>, filter: &Filter) -> Markup {
    html! {
        ul.severities {
            @for own in Severity::ALL.iter().rev() {
                @let chosen = filter.severity == Some(*own);
                @let target = filter.with_severity((!chosen).then_some(*own));
                li {
                    a href=(target.url()) aria-current=[chosen.then_some("true")] {
                        (severity(*own)) " " strong { (overview.severities.get(own).copied().unwrap_or(0)) }
                    }
                }
            }
        }
    }
}

fn oldest(overview: &Overview<'_>, now: Timestamp) -> Markup {
    let Some((row, onset)) = overview.oldest.as_ref().and_then(|row| Some((row, row.onset()?))) else {
        return html! { p.none { "none" } };
    };
    let key = &row.found.1.object.key;
    html! {
        p { strong { (until_now(onset, now)) } }
        p.detail { a href=(object_url(key)) { (key.name) } @if !key.namespace.is_empty() { " in " (key.namespace) } }
    }
}

/// How much of what each source claims could be compared.
fn sources(overview: &Overview<'_>, filter: &Filter) -> Markup {
    html! {
        @if overview.sources.is_empty() { p.none { "nothing is declared yet" } } @else {
            dl.coverage {
                @for (source, counts) in &overview.sources {
                    @let chosen = filter.source == Some(*source);
                    @let target = filter.with_source((!chosen).then_some(*source));
                    dt { a href=(target.url()) aria-current=[chosen.then_some("true")] { (source_word(*source)) } }
                    dd { (bar(counts)) span.detail { (coverage(counts)) } }
                }
            }
        }
    }
}

fn source_word(source: Source) -> &'static str {
    if source == Source::Nothing { "no source" } else { source.as_str() }
}

/// `17 of 18 compared`.
pub(super) fn coverage(counts: &Counts) -> String {
    let all: usize = counts.values().sum();
    let open = [VerdictKind::Unknown, VerdictKind::NoBaseline, VerdictKind::InFlight];
    let open: usize = open.iter().filter_map(|verdict| counts.get(verdict)).sum();
    if open == 0 { format!("all {all} compared") } else { format!("{} of {all} compared", all - open) }
}

fn streams(snapshot: &Snapshot) -> Markup {
    let StreamCounts { up, waiting, down } = StreamCounts::of(snapshot);
    html! {
        p { a href="/sources#streams" {
            strong { (up) " up" }
            @if waiting > 0 { ", " (waiting) " waiting" }
            @if down > 0 { ", " strong.off { (down) " down" } }
        } }
        p.detail { "of " (count(up + waiting + down, "watch", "watches")) }
    }
}
