//! The overview at `/`: how many are off, which, since when and by what tool.

use std::sync::Arc;

use axum::{
    extract::{Query, State, rejection::QueryRejection},
    response::Response,
};
use http::StatusCode;
use jiff::Timestamp;
use maud::{Markup, html};

use super::{
    filter::{Filter, FilterQuery},
    history::{Subject, fields, item},
    layout::{complaint, page},
    links::object_url,
    rows::{Overview, Row, health},
    settings::settings_banner,
    states::{state_banner, states},
    streams::{Sight, banner},
    words::{badge, baseline_word, because, count, reason_word, severity, shape, since, tool, verdict_word},
};
use crate::{
    expose::{Exposed, access::Caller},
    model::VerdictKind,
    settings::Settings,
    state::Snapshot,
};

/// Rows on a page.
const PAGE: usize = 100;
/// Transitions under "Lately".
const LATELY: usize = 10;
/// Tiles in the order in which they need attention.
const TILES: [VerdictKind; 8] = [
    VerdictKind::Drifted,
    VerdictKind::Missing,
    VerdictKind::Replaced,
    VerdictKind::Unknown,
    VerdictKind::InFlight,
    VerdictKind::NoBaseline,
    VerdictKind::Ignored,
    VerdictKind::InSync,
];

/// `GET /`.
pub(crate) async fn overview(
    State(exposed): State<Arc<Exposed>>,
    caller: Caller,
    query: Result<Query<FilterQuery>, QueryRejection>,
) -> Response {
    let now = exposed.clock.now();
    let filter =
        query.map_err(|rejection| rejection.body_text()).and_then(|Query(query)| Filter::parse(query));
    let filter = match filter {
        Ok(filter) => filter,
        Err(wrong) => {
            let words = html! { (wrong) };
            return complaint(StatusCode::BAD_REQUEST, "That cannot be shown", now, &words);
        }
    };
    let snapshot = caller.snapshot();
    let overview = Overview::new(&snapshot, &filter);
    let headline = headline(&overview);
    let main = html! {
        main.overview {
            @if caller.sees_everything() {
                (settings_banner(&exposed.reload_status.borrow(), &exposed.team_problems.borrow(), now))
            }
            (banner(&snapshot))
            (state_banner(&snapshot))
            h1 #headline data-live { (headline) }
            (tiles(&overview, &filter))
            div.columns {
                div {
                    (form(&overview, &filter))
                    (results(&overview, &filter, &exposed.settings(), now))
                }
                (lately(&snapshot, now))
            }
            (states(&snapshot, now))
        }
    };
    page(StatusCode::OK, &headline, now, &main)
}

/// The state of everything in one sentence, whatever the filter leaves out.
fn headline(overview: &Overview<'_>) -> String {
    let off: usize = [VerdictKind::Drifted, VerdictKind::Missing, VerdictKind::Replaced]
        .into_iter()
        .map(|verdict| overview.total(verdict))
        .sum();
    let unknown = overview.total(VerdictKind::Unknown);
    let known = overview.known();
    let only_drifted = overview.total(VerdictKind::Drifted) == off;
    let trouble = match (off, only_drifted) {
        (0, _) => None,
        (_, true) => Some(count(off, "object has drifted", "objects have drifted")),
        (_, false) => Some(count(off, "object is not as declared", "objects are not as declared")),
    };
    match (trouble, overview.sight) {
        (Some(trouble), Sight::Clear) => trouble,
        (Some(trouble), Sight::Waiting | Sight::Blind) => {
            format!("{trouble}, and not everything can be seen")
        }
        (None, Sight::Blind) => match overview.had_drifted {
            0 => "Not everything can be seen".to_owned(),
            before => {
                let before = count(before, "object had drifted", "objects had drifted");
                format!("Not everything can be seen; {before} when last seen")
            }
        },
        (None, Sight::Waiting) => "Waiting for the first list".to_owned(),
        (None, Sight::Clear) if known == 0 => "No object takes part yet".to_owned(),
        (None, Sight::Clear) if unknown > 0 => {
            format!(
                "No drift is known, but {}",
                count(unknown, "object cannot be judged", "objects cannot be judged")
            )
        }
        (None, Sight::Clear) if overview.total(VerdictKind::NoBaseline) == known => {
            "Nothing is declared for any object".to_owned()
        }
        (None, Sight::Clear) => "Everything is as declared".to_owned(),
    }
}

fn tiles(overview: &Overview<'_>, filter: &Filter) -> Markup {
    let usual = |verdict| {
        matches!(
            verdict,
            VerdictKind::Drifted | VerdictKind::Unknown | VerdictKind::NoBaseline | VerdictKind::InSync
        )
    };
    html! {
        nav #tiles .tiles aria-label="Objects by verdict" data-live data-keyed {
            @for verdict in TILES {
                @let number = overview.counts.get(&verdict).copied().unwrap_or(0);
                @let total = overview.total(verdict);
                @let chosen = filter.verdict == Some(verdict);
                @if number > 0 || usual(verdict) || chosen {
                    @let target = filter.with_verdict((!chosen).then_some(verdict));
                    a id={ "tile-" (verdict) } class={ "tile " (verdict) @if number == 0 { " none" } }
                        href=(target.url()) aria-current=[chosen.then_some("true")] data-flash {
                        // Where something cannot be seen, none is not known to be none.
                        span.number {
                            @if number == 0 && overview.sight != Sight::Clear { "–" } @else { (number) }
                            // The headline tells about everything; a filter must not seem to contradict it.
                            @if number != total { span.of { " of " (total) } }
                        }
                        span.word { (shape(verdict)) (verdict_word(verdict)) }
                    }
                }
            }
        }
    }
}

fn form(overview: &Overview<'_>, filter: &Filter) -> Markup {
    html! {
        form #filter .filter method="get" action="/" role="search" {
            input type="search" name="q" value=(filter.text) aria-label="Filter by text" autocomplete="off"
                spellcheck="false" placeholder="Filter by kind, namespace, name, tool or field";
            select name="verdict" aria-label="Verdict" {
                option value="" { "Every verdict" }
                @for verdict in TILES {
                    option value=(verdict) selected[filter.verdict == Some(verdict)] { (verdict_word(verdict)) }
                }
            }
            select #namespaces name="namespace" aria-label="Namespace" data-live {
                option value="" { "Every namespace" }
                // One that is asked for and has no objects stays chosen, or the form would say something else than the URL.
                @if !filter.namespace.is_empty() && !overview.namespaces.contains(&*filter.namespace) {
                    option value=(filter.namespace) selected { (filter.namespace) }
                }
                @for namespace in overview.namespaces.iter().filter(|namespace| !namespace.is_empty()) {
                    option value=(namespace) selected[filter.namespace == **namespace] { (namespace) }
                }
            }
            button type="submit" { "Filter" }
        }
    }
}

fn results(overview: &Overview<'_>, filter: &Filter, settings: &Settings, now: Timestamp) -> Markup {
    let total = overview.rows.len();
    let pages = total.div_ceil(PAGE).max(1);
    let current = filter.page.min(pages);
    let known = overview.known();
    html! {
        section #results aria-label="Objects" data-live data-keyed {
            @if total == 0 {
                div #empty .empty { (empty(overview, filter, settings)) }
            } @else {
                p #summary .summary {
                    @if filter.is_narrow() {
                        (total) " of " (count(known, "object", "objects")) ". " a href="/" { "Show all" }
                    } @else {
                        (count(known, "object", "objects")) ", the worst first"
                    }
                }
                div #scroll .scroll data-keyed {
                    table #objects .cards.objects data-keyed {
                        thead #heads { tr {
                            @for head in ["Verdict", "Object", "What", "By", "Severity", "Since", "Health"] { th scope="col" { (head) } }
                        } }
                        tbody #rows data-keyed {
                            @for row in overview.rows.iter().skip((current - 1) * PAGE).take(PAGE) { (line(row, now)) }
                        }
                    }
                }
                (pager(filter, current, pages))
            }
        }
    }
}

fn line(row: &Row<'_>, now: Timestamp) -> Markup {
    let entry = row.found.1;
    let key = &entry.object.key;
    let url = object_url(key);
    let worst = row.episode.map(|episode| episode.worst());
    html! {
        tr id={ (url) ":" (entry.claim.source) } class={ "row " (row.verdict) } data-flash {
            td data-label="Verdict" {
                (badge(row.verdict))
                @if let Some(reason) = row.reason { span.detail title=(because(reason)) { (reason_word(reason)) } }
                @if row.had_drifted() { span.detail { "had drifted" } }
            }
            td.object data-label="Object" {
                a href=(url) { (key.name) }
                span.detail { (key.kind.kind) @if !key.namespace.is_empty() { " in " (key.namespace) } }
                @if let Some(declared) = entry.claim.declared_by().first() {
                    span.detail.address title={ "in " (baseline_word(entry.claim.source)) " " (declared.baseline) } { code { (declared.address) } }
                }
            }
            @match row.episode.zip(worst) {
                Some((episode, worst)) => {
                    td data-label="What" {
                        (fields(episode.differences.iter().map(|difference| &*difference.finding.path)))
                        span.detail { (worst.field) }
                    }
                    td data-label="By" { (tool(worst.actor, worst.manager)) }
                    td data-label="Severity" { (severity(worst.severity)) }
                    td data-label="Since" { (since(episode.onset, now)) }
                }
                None => { td.none {} td.none {} td.none {} td.none {} }
            }
            td data-label="Health" { (health(row)) }
        }
    }
}

fn pager(filter: &Filter, current: usize, pages: usize) -> Markup {
    html! {
        nav #pager .pager aria-label="Pages" hidden[pages == 1] {
            @if current > 1 { a rel="prev" href=(filter.with_page(current - 1).url()) { "← Previous" } }
            span { "Page " (current) " of " (pages) }
            @if current < pages { a rel="next" href=(filter.with_page(current + 1).url()) { "Next →" } }
        }
    }
}

/// Nothing to show: what to do about it.
fn empty(overview: &Overview<'_>, filter: &Filter, settings: &Settings) -> Markup {
    let (known, prefix) = (overview.known(), &*settings.annotation_prefix);
    if filter.is_narrow() && known > 0 {
        return html! {
            h2 { "Nothing matches" }
            p { "None of the " (count(known, "object", "objects")) " matches this filter. " a href="/" { "Show all" } }
        };
    }
    let kinds = overview.kinds.iter().map(String::as_str).collect::<Vec<_>>().join(" and ");
    match overview.sight {
        Sight::Clear if !settings.kinds.is_empty() => html! {
            h2 { "No object is there" }
            p { "Watched are " (kinds) ", where the settings want them, and there is none." }
        },
        Sight::Clear => html! {
            h2 { "Let objects take part" }
            p { "Watched are " (kinds) " with the label " code { (prefix) "/enabled=true" } ", and none has it." }
            p { "Label one, and record its hash in the annotation " code { (prefix) "/spec-hash" } ":" }
            pre { code {
                "kubectl -n NAMESPACE label deployment NAME " (prefix) "/enabled=true\n"
                "hash=$(drift-exporter hash -n NAMESPACE deployment/NAME) && "
                "kubectl -n NAMESPACE annotate deployment NAME " (prefix) "/spec-hash=\"${hash%% *}\""
            } }
            p { "It shows up here within a second." }
        },
        Sight::Waiting => html! {
            h2 { "Nothing is known yet" }
            p { "The API server has not answered every first list. " a href="/readyz" { "What is missing" } }
        },
        Sight::Blind => html! {
            h2 { "Nothing is known" }
            p { "What is said above keeps objects from being seen. It heals by itself once the cause is gone." }
        },
    }
}

fn lately(snapshot: &Snapshot, now: Timestamp) -> Markup {
    html! {
        aside #lately .lately data-live data-keyed {
            h2 #lately-head { "Lately" }
            @if snapshot.history.last_sequence() == 0 {
                p #lately-none .detail { "No verdict has changed while we watched." }
            } @else {
                ol #transitions .transitions data-keyed {
                    @for transition in snapshot.history.newest_first().take(LATELY) { (item(transition, Subject::Many, now)) }
                }
            }
        }
    }
}
