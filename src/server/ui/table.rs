//! The objects, a row each, and the form that says which.

use jiff::Timestamp;
use maud::{Markup, html};

use super::{
    empty::empty,
    filter::{Filter, ROWS},
    history::fields,
    links::object_url,
    rows::{Overview, Row, health},
    sort::{Column, Sort},
    tiles::BY_URGENCY,
    words::{badge, baseline_word, count, reason_word, severity, since, tool, verdict_word},
};
use crate::{
    config::Settings,
    types::{Severity, Source},
};

/// What the table shows.
pub(super) fn form(overview: &Overview<'_>, filter: &Filter) -> Markup {
    html! {
        form #filter .filter method="get" action="/" role="search" {
            input type="search" name="q" value=(filter.text) aria-label="Filter by text" autocomplete="off"
                spellcheck="false" placeholder="Filter by kind, namespace, name, tool, field or rule";
            select name="verdict" aria-label="Verdict" {
                option value="" { "Every verdict" }
                @for verdict in BY_URGENCY {
                    option value=(verdict) selected[filter.verdict == Some(verdict)] { (verdict_word(verdict)) }
                }
            }
            select name="severity" aria-label="Severity" {
                option value="" { "Every severity" }
                @for own in Severity::ALL {
                    option value=(own) selected[filter.severity == Some(*own)] { (own) }
                }
            }
            select name="source" aria-label="Source" {
                option value="" { "Every source" }
                @for own in Source::ALL {
                    @if overview.sources.contains_key(own) || filter.source == Some(*own) {
                        option value=(own) selected[filter.source == Some(*own)] { (own) }
                    }
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
            @if filter.sort != Sort::WORST_FIRST { input type="hidden" name="sort" value=(filter.sort); }
            @if filter.rows != ROWS[0] { input type="hidden" name="rows" value=(filter.rows); }
            button type="submit" { "Filter" }
        }
    }
}

/// The rows that the filter leaves, a page of them.
pub(super) fn results(
    overview: &Overview<'_>,
    filter: &Filter,
    settings: &Settings,
    now: Timestamp,
) -> Markup {
    let total = overview.rows.len();
    let pages = total.div_ceil(filter.rows).max(1);
    let current = filter.page.min(pages);
    html! {
        section #results aria-label="Objects" data-live data-keyed {
            @if total == 0 {
                div #empty .empty { (empty(overview, filter, settings)) }
            } @else {
                p #summary .summary { (summary(overview, filter)) }
                div #scroll .scroll data-keyed {
                    // It is laid out as no table is, so it says that it is one.
                    table #objects .cards.objects role="table" data-keyed {
                        (heads(filter))
                        tbody #rows role="rowgroup" data-keyed {
                            @let shown = overview.rows.iter().skip((current - 1) * filter.rows).take(filter.rows);
                            @for row in shown { (line(row, now)) }
                        }
                    }
                }
                (pager(filter, current, pages))
            }
        }
    }
}

fn summary(overview: &Overview<'_>, filter: &Filter) -> Markup {
    let known = count(overview.known(), "object", "objects");
    let order = html! {
        @if filter.sort == Sort::WORST_FIRST { ", the worst first" } @else {
            ", by " (filter.sort.by.word()) @if filter.sort.reversed { ", reversed" } ". "
            a href=(filter.with_sort(Sort::WORST_FIRST).url()) { "The worst first" }
        }
    };
    html! {
        @if filter.is_narrow() {
            (overview.rows.len()) " of " (known) (order) ". " a href=(filter.without_filter().url()) { "Show all" }
        } @else {
            (known) (order)
        }
    }
}

/// The heads of the columns. Each sorts by its column, and from the other end when it does so already.
fn heads(filter: &Filter) -> Markup {
    html! {
        thead #heads role="rowgroup" { tr role="row" {
            @for column in Column::ALL {
                @let is_sorted = filter.sort.by == column;
                @let order = if filter.sort.reversed { "descending" } else { "ascending" };
                th scope="col" role="columnheader" aria-sort=[is_sorted.then_some(order)] {
                    a href=(filter.with_sort(filter.sort.clicked(column)).url()) { (column.title()) }
                }
            }
        } }
    }
}

fn line(row: &Row<'_>, now: Timestamp) -> Markup {
    let entry = row.found.1;
    let key = &entry.object.key;
    let url = object_url(key);
    html! {
        tr id={ (url) ":" (entry.claim.source) } class={ "row " (row.verdict) } role="row" data-flash {
            td role="cell" data-label="Verdict" {
                (badge(row.verdict))
                @if let Some(reason) = row.reason { span.detail title=(reason.because()) { (reason_word(reason)) } }
                @if row.had_drifted() { span.detail { "had drifted" } }
            }
            td.object role="cell" data-label="Object" {
                a href=(url) { (key.name) }
                span.detail { (key.kind.kind) @if !key.namespace.is_empty() { " in " (key.namespace) } }
                @if let Some(declared) = entry.claim.declared_by().first() {
                    span.detail.address title={ "in " (baseline_word(entry.claim.source)) " " (declared.baseline) } { code { (declared.address) } }
                }
            }
            @match row.episode.zip(row.worst()) {
                Some((episode, worst)) => {
                    td role="cell" data-label="What" {
                        (fields(episode.differences.iter().map(|difference| &*difference.finding.path)))
                        span.detail { (worst.field) }
                    }
                    td role="cell" data-label="By" { (tool(worst.actor, worst.manager)) }
                    td role="cell" data-label="Severity" { (severity(worst.severity)) }
                    td role="cell" data-label="Since" { (since(episode.onset, now)) }
                }
                None => { @for _ in 0..4 { td.none role="cell" {} } }
            }
            td role="cell" data-label="Health" { (health(row)) }
        }
    }
}

fn pager(filter: &Filter, current: usize, pages: usize) -> Markup {
    html! {
        nav #pager .pager aria-label="Pages" {
            @if current > 1 { a rel="prev" href=(filter.with_page(current - 1).url()) { "← Previous" } }
            @if pages > 1 { span { "Page " (current) " of " (pages) } }
            @if current < pages { a rel="next" href=(filter.with_page(current + 1).url()) { "Next →" } }
            @if pages > 1 || filter.rows != ROWS[0] {
                span.rows-choice {
                    "Rows: "
                    @for rows in ROWS {
                        a href=(filter.with_rows(rows).url()) aria-current=[(rows == filter.rows).then_some("true")] { (rows) } " "
                    }
                }
            }
        }
    }
}
