//! `GET /`: the overview. A headline, a summary of verdicts, severities, sources and watches, and the table of objects.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use axum::{
    extract::{Query, State, rejection::QueryRejection},
    response::Response,
};
use http::StatusCode;
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    format::{
        badge, baseline_word, count, coverage_bar, encode, field_paths, health, object_url, reason_word,
        severity, shape, since, tool, until_now, verdict_word,
    },
    history::{Subject, transition_item},
    layout::{NavPage, error_page, page},
    sources::{Visibility, WatchCounts, settings_banner, source_banners, watch_banners},
};
use crate::{
    config::Settings,
    engine::Snapshot,
    server::{
        Exposed,
        auth::Caller,
        query::{
            ClaimRow, Filter, Page, QueryError, Sort, SortKey, VerdictCounts, count_by_source, parse_option,
        },
    },
    types::{Severity, Source, VerdictKind},
};

/// Transitions under "Lately".
const RECENT_TRANSITIONS: usize = 10;
/// How many rows a page may have. The first is the default.
const ROWS: [usize; 3] = [100, 500, 2_000];
/// Verdicts in the order in which they need attention.
pub(super) const BY_URGENCY: [VerdictKind; 9] = [
    VerdictKind::Drifted,
    VerdictKind::Missing,
    VerdictKind::Replaced,
    VerdictKind::Unknown,
    VerdictKind::InFlight,
    VerdictKind::NoBaseline,
    VerdictKind::Ignored,
    VerdictKind::InSync,
    VerdictKind::Untrusted,
];

pub(crate) async fn overview(
    State(exposed): State<Arc<Exposed>>,
    caller: Caller,
    params: Result<Query<OverviewParams>, QueryRejection>,
) -> Response {
    let now = exposed.clock.now();
    let params = params.map_err(QueryError::from);
    let query = match params.and_then(|Query(params)| OverviewQuery::parse(params)) {
        Ok(query) => query,
        Err(error) => {
            return error_page(StatusCode::BAD_REQUEST, "That cannot be shown", now, &html! { (error) });
        }
    };
    caller.read(move |caller, snapshot| overview_page(&exposed, caller, snapshot, &query)).await
}

fn overview_page(exposed: &Exposed, caller: &Caller, snapshot: &Snapshot, query: &OverviewQuery) -> Response {
    let now = exposed.clock.now();
    let overview = Overview::new(snapshot, query);
    let headline = headline(&overview);
    let main = html! {
        main.overview {
            @if caller.sees_everything() {
                (settings_banner(&exposed.reload_status.borrow(), &exposed.team_problems(), now))
            }
            (watch_banners(snapshot))
            (source_banners(snapshot))
            div role="status" { h1 #headline data-live { (headline) } }
            (verdict_summary(&overview, query))
            (summary(&overview, query, snapshot, now))
            div.columns {
                div {
                    (filter_form(&overview, query))
                    (results(&overview, query, &exposed.settings(), now))
                }
                (recent_transitions(snapshot, now))
            }
        }
    };
    page(StatusCode::OK, &headline, Some(NavPage::Objects), now, &main)
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct OverviewParams {
    q: String,
    verdict: String,
    severity: String,
    source: String,
    namespace: String,
    sort: String,
    rows: String,
    page: String,
}

/// What the overview shows. All of it is in the URL, so that a link shows the same.
#[derive(Clone, Debug)]
struct OverviewQuery {
    text: String,
    verdict: Option<VerdictKind>,
    severity: Option<Severity>,
    source: Option<Source>,
    /// Empty for all namespaces, `-` for cluster-scoped objects.
    namespace: String,
    sort: TableSort,
    /// Rows per page: one of [`ROWS`].
    rows: usize,
    /// Counts from 1.
    page: usize,
}

impl OverviewQuery {
    fn parse(params: OverviewParams) -> Result<Self, QueryError> {
        let rows = match &*params.rows {
            "" => ROWS[0],
            number => {
                let valid = number.parse().ok().filter(|rows| ROWS.contains(rows));
                valid.ok_or_else(|| QueryError::Rows { text: number.to_owned(), valid: &ROWS })?
            }
        };
        let page = match &*params.page {
            "" => 1,
            number => match number.parse() {
                Ok(page) if page > 0 => page,
                _ => return Err(QueryError::Page(number.to_owned())),
            },
        };
        let no_column = || QueryError::Column(params.sort.clone());
        Ok(Self {
            text: params.q.trim().to_owned(),
            verdict: parse_option("verdict", &params.verdict)?,
            severity: parse_option("severity", &params.severity)?,
            source: parse_option("source", &params.source)?,
            sort: TableSort::parse(&params.sort).ok_or_else(no_column)?,
            namespace: params.namespace,
            rows,
            page,
        })
    }

    fn url(&self) -> String {
        let unless_default = |number: usize, default: usize| {
            if number == default { String::new() } else { number.to_string() }
        };
        let params = [
            ("q", &*self.text),
            ("verdict", self.verdict.map_or("", VerdictKind::as_str)),
            ("severity", self.severity.map_or("", Severity::as_str)),
            ("source", self.source.map_or("", Source::as_str)),
            ("namespace", &*self.namespace),
            ("sort", &*self.sort.to_string()),
            ("rows", &*unless_default(self.rows, ROWS[0])),
            ("page", &*unless_default(self.page, 1)),
        ]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name}={}", encode(value)))
        .collect::<Vec<String>>();
        if params.is_empty() { "/".to_owned() } else { format!("/?{}", params.join("&")) }
    }

    /// The same query on its first page, changed by `change`.
    fn with(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut query = Self { page: 1, ..self.clone() };
        change(&mut query);
        query
    }

    fn without_filter(&self) -> Self {
        let (text, namespace) = (String::new(), String::new());
        Self { text, verdict: None, severity: None, source: None, namespace, page: 1, ..*self }
    }

    fn is_filtered(&self) -> bool {
        self.verdict.is_some() || self.severity.is_some() || self.filter() != Filter::default()
    }

    /// The filter without verdict and severity, which the summary counts.
    fn filter(&self) -> Filter {
        Filter {
            namespace: match &*self.namespace {
                "" => None,
                "-" => Some(String::new()),
                namespace => Some(namespace.to_owned()),
            },
            source: self.source,
            words: self.text.split_whitespace().map(str::to_lowercase).collect(),
            ..Filter::default()
        }
    }

    fn selects_verdict(&self, row: &ClaimRow<'_>) -> bool {
        self.verdict.is_none_or(|verdict| verdict == row.verdict)
    }

    fn selects_severity(&self, row: &ClaimRow<'_>) -> bool {
        self.severity.is_none_or(|severity| current_severity(row) == Some(severity))
    }
}

fn current_severity(row: &ClaimRow<'_>) -> Option<Severity> {
    row.worst().filter(|_| row.is_drifted()).map(|worst| worst.severity)
}

#[derive(Debug, PartialEq, Eq)]
struct Column {
    title: &'static str,
    key: SortKey,
    /// Whether the useful direction is descending: the worst, the oldest, or A first.
    descending: bool,
}

impl Column {
    /// The value of the URL parameter `sort`.
    fn param(&self) -> String {
        self.title.to_ascii_lowercase()
    }
}

const COLUMNS: &[Column] = &[
    Column { title: "Verdict", key: SortKey::Urgency, descending: false },
    Column { title: "Object", key: SortKey::Name, descending: false },
    Column { title: "What", key: SortKey::FieldPath, descending: false },
    Column { title: "By", key: SortKey::Actor, descending: false },
    Column { title: "Severity", key: SortKey::Severity, descending: true },
    Column { title: "Since", key: SortKey::Onset, descending: false },
    Column { title: "Health", key: SortKey::Health, descending: false },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TableSort {
    column: &'static Column,
    reversed: bool,
}

impl TableSort {
    const WORST_FIRST: Self = Self { column: &COLUMNS[0], reversed: false };

    /// Parses `since` or `-since`. An empty string is the default.
    fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::WORST_FIRST);
        }
        let (param, reversed) = text.strip_prefix('-').map_or((text, false), |param| (param, true));
        let column = COLUMNS.iter().find(|column| column.param() == param)?;
        Some(Self { column, reversed })
    }

    /// The sort after a click on the header of a column: a second click reverses it.
    fn clicked(self, column: &'static Column) -> Self {
        Self { column, reversed: self.column == column && !self.reversed }
    }

    fn sort(self) -> Sort {
        Sort { key: self.column.key, descending: self.column.descending != self.reversed }
    }
}

/// As in the URL. Empty for the default.
impl fmt::Display for TableSort {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::WORST_FIRST {
            return Ok(());
        }
        write!(formatter, "{}{}", if self.reversed { "-" } else { "" }, self.column.param())
    }
}

#[derive(Debug)]
struct Overview<'a> {
    /// The claims that the query selects, sorted.
    rows: Vec<ClaimRow<'a>>,
    /// The claims that the query selects with any verdict.
    verdicts: VerdictCounts,
    /// The drifted claims that the query selects with any severity.
    severities: BTreeMap<Severity, usize>,
    /// All claims by source and verdict, whatever the query.
    sources: BTreeMap<Source, VerdictCounts>,
    /// The claim that has been drifted for longest, whatever the query.
    oldest: Option<ClaimRow<'a>>,
    namespaces: BTreeSet<&'a str>,
    kinds: BTreeSet<String>,
    /// Claims that cannot be judged now, and had drifted when they were last judged.
    had_drifted: usize,
    visibility: Visibility,
}

impl<'a> Overview<'a> {
    fn new(snapshot: &'a Snapshot, query: &OverviewQuery) -> Self {
        let all: Vec<ClaimRow<'a>> = Filter::default().claims(snapshot).collect();
        let filter = query.filter();
        let selected: Vec<ClaimRow<'a>> = all.iter().copied().filter(|row| filter.selects(row)).collect();
        let with_severity = || selected.iter().copied().filter(|row| query.selects_severity(row));
        let mut verdicts = VerdictCounts::new();
        for row in with_severity() {
            *verdicts.entry(row.verdict).or_default() += 1;
        }
        let mut severities = BTreeMap::new();
        for severity in selected.iter().filter(|row| query.selects_verdict(row)).filter_map(current_severity)
        {
            *severities.entry(severity).or_default() += 1;
        }
        let drifted = all.iter().copied().filter(ClaimRow::is_drifted);
        Self {
            rows: query.sort.sort().sort_table(with_severity().filter(|row| query.selects_verdict(row))),
            verdicts,
            severities,
            sources: count_by_source(all.iter().copied()),
            oldest: drifted.min_by_key(ClaimRow::onset),
            namespaces: all.iter().map(|row| &*row.entry.key().namespace).collect(),
            kinds: snapshot.kinds.iter().map(|state| state.kind.to_string()).collect(),
            had_drifted: all.iter().filter(|row| row.had_drifted()).count(),
            visibility: Visibility::of(snapshot),
        }
    }

    /// The number of claims, whatever the query.
    fn total(&self) -> usize {
        self.sources.values().flat_map(BTreeMap::values).sum()
    }

    /// The number of claims with this verdict, whatever the query.
    fn total_with(&self, verdict: VerdictKind) -> usize {
        self.sources.values().filter_map(|counts| counts.get(&verdict)).sum()
    }
}

/// The state of all claims in one sentence, whatever the query.
fn headline(overview: &Overview<'_>) -> String {
    let drifted = VerdictKind::ALL.iter().filter(|verdict| verdict.is_drifted());
    let drifted: usize = drifted.map(|verdict| overview.total_with(*verdict)).sum();
    let unknown = overview.total_with(VerdictKind::Unknown);
    let undeclared =
        overview.total_with(VerdictKind::NoBaseline) + overview.total_with(VerdictKind::Untrusted);
    let total = overview.total();
    let only_drifted = overview.total_with(VerdictKind::Drifted) == drifted;
    let drift = match (drifted, only_drifted) {
        (0, _) => None,
        (_, true) => Some(count(drifted, "object has drifted", "objects have drifted")),
        (_, false) => Some(count(drifted, "object is not as declared", "objects are not as declared")),
    };
    match (drift, overview.visibility) {
        (Some(drift), Visibility::Complete) => drift,
        (Some(drift), Visibility::Waiting | Visibility::Degraded) => {
            format!("{drift}, and not everything can be seen")
        }
        (None, Visibility::Degraded) => match overview.had_drifted {
            0 => "Not everything can be seen".to_owned(),
            before => {
                let before = count(before, "object had drifted", "objects had drifted");
                format!("Not everything can be seen; {before} when last seen")
            }
        },
        (None, Visibility::Waiting) => "Waiting for the first list".to_owned(),
        (None, Visibility::Complete) if total == 0 => "No object takes part yet".to_owned(),
        (None, Visibility::Complete) if unknown > 0 => {
            let unknown = count(unknown, "object cannot be judged", "objects cannot be judged");
            format!("No drift is known, but {unknown}")
        }
        (None, Visibility::Complete) if undeclared == total => {
            "Nothing is declared for any object".to_owned()
        }
        (None, Visibility::Complete) => "Everything is as declared".to_owned(),
    }
}

/// One tile for each verdict. Each is a link that filters by its verdict.
fn verdict_summary(overview: &Overview<'_>, query: &OverviewQuery) -> Markup {
    let is_always_shown = |verdict| {
        matches!(
            verdict,
            VerdictKind::Drifted | VerdictKind::Unknown | VerdictKind::NoBaseline | VerdictKind::InSync
        )
    };
    html! {
        nav #tiles .tiles aria-label="Objects by verdict" data-live data-keyed {
            @for verdict in BY_URGENCY {
                @let number = overview.verdicts.get(&verdict).copied().unwrap_or(0);
                @let total = overview.total_with(verdict);
                @let chosen = query.verdict == Some(verdict);
                @if number > 0 || is_always_shown(verdict) || chosen {
                    @let target = query.with(|query| query.verdict = (!chosen).then_some(verdict));
                    a id={ "tile-" (verdict) } class={ "tile " (verdict) @if number == 0 { " none" } }
                        href=(target.url()) aria-current=[chosen.then_some("true")] data-flash {
                        // While a watch is down, zero is not known to be zero.
                        span.number {
                            @if number == 0 && overview.visibility != Visibility::Complete { "–" } @else { (number) }
                            // The headline counts all objects, so a filtered number names the total as well.
                            @if number != total { span.of { " of " (total) } }
                        }
                        span.word { (shape(verdict)) (verdict_word(verdict)) }
                    }
                }
            }
        }
    }
}

fn summary(overview: &Overview<'_>, query: &OverviewQuery, snapshot: &Snapshot, now: Timestamp) -> Markup {
    html! {
        section #glance .glance aria-label="At a glance" data-live data-keyed {
            div #glance-severity { h2 { "By severity" } (severity_summary(overview, query)) }
            div #glance-oldest { h2 { "Oldest drift" } (oldest_drift(overview, now)) }
            div #glance-sources .wide { h2 { "Coverage by source" } (source_summary(overview, query)) }
            div #glance-streams { h2 { "Streams" } (watch_summary(snapshot)) }
        }
    }
}

fn severity_summary(overview: &Overview<'_>, query: &OverviewQuery) -> Markup {
    html! {
        ul.severities {
            @for level in Severity::ALL.iter().rev() {
                @let chosen = query.severity == Some(*level);
                @let target = query.with(|query| query.severity = (!chosen).then_some(*level));
                li {
                    a href=(target.url()) aria-current=[chosen.then_some("true")] {
                        (severity(*level)) " " strong { (overview.severities.get(level).copied().unwrap_or(0)) }
                    }
                }
            }
        }
    }
}

fn oldest_drift(overview: &Overview<'_>, now: Timestamp) -> Markup {
    let Some((row, onset)) = overview.oldest.and_then(|row| Some((row, row.onset()?))) else {
        return html! { p.none { "none" } };
    };
    let key = row.entry.key();
    html! {
        p { strong { (until_now(onset, now)) } }
        p.detail { a href=(object_url(key)) { (key.name) } @if !key.namespace.is_empty() { " in " (key.namespace) } }
    }
}

fn source_summary(overview: &Overview<'_>, query: &OverviewQuery) -> Markup {
    html! {
        @if overview.sources.is_empty() { p.none { "nothing is declared yet" } } @else {
            dl.coverage {
                @for (source, counts) in &overview.sources {
                    @let chosen = query.source == Some(*source);
                    @let target = query.with(|query| query.source = (!chosen).then_some(*source));
                    @let name = if *source == Source::Unclaimed { "no source" } else { source.as_str() };
                    dt { a href=(target.url()) aria-current=[chosen.then_some("true")] { (name) } }
                    dd { (coverage_bar(counts)) }
                }
            }
        }
    }
}

fn watch_summary(snapshot: &Snapshot) -> Markup {
    let WatchCounts { up, waiting, down } = WatchCounts::of(snapshot);
    html! {
        p { a href="/sources#streams" {
            strong { (up) " up" }
            @if waiting > 0 { ", " (waiting) " waiting" }
            @if down > 0 { ", " strong.off { (down) " down" } }
        } }
        p.detail { "of " (count(up + waiting + down, "watch", "watches")) }
    }
}

fn filter_form(overview: &Overview<'_>, query: &OverviewQuery) -> Markup {
    html! {
        form #filter .filter method="get" action="/" role="search" {
            input type="search" name="q" value=(query.text) aria-label="Filter by text" autocomplete="off"
                spellcheck="false" placeholder="Filter by kind, namespace, name, tool, field or rule";
            select name="verdict" aria-label="Verdict" {
                option value="" { "Every verdict" }
                @for verdict in BY_URGENCY {
                    option value=(verdict) selected[query.verdict == Some(verdict)] { (verdict_word(verdict)) }
                }
            }
            select name="severity" aria-label="Severity" {
                option value="" { "Every severity" }
                @for level in Severity::ALL {
                    option value=(level) selected[query.severity == Some(*level)] { (level) }
                }
            }
            select name="source" aria-label="Source" {
                option value="" { "Every source" }
                @for source in Source::ALL {
                    @if overview.sources.contains_key(source) || query.source == Some(*source) {
                        option value=(source) selected[query.source == Some(*source)] { (source) }
                    }
                }
            }
            select #namespaces name="namespace" aria-label="Namespace" data-live {
                option value="" { "Every namespace" }
                // A namespace without objects stays an option while the URL names it.
                @if !query.namespace.is_empty() && !overview.namespaces.contains(&*query.namespace) {
                    option value=(query.namespace) selected { (query.namespace) }
                }
                @for namespace in overview.namespaces.iter().filter(|namespace| !namespace.is_empty()) {
                    option value=(namespace) selected[query.namespace == **namespace] { (namespace) }
                }
            }
            @if query.sort != TableSort::WORST_FIRST { input type="hidden" name="sort" value=(query.sort); }
            @if query.rows != ROWS[0] { input type="hidden" name="rows" value=(query.rows); }
            button type="submit" { "Filter" }
        }
    }
}

fn results(overview: &Overview<'_>, query: &OverviewQuery, settings: &Settings, now: Timestamp) -> Markup {
    let total = overview.rows.len();
    let pages = total.div_ceil(query.rows).max(1);
    let current = query.page.min(pages);
    let page = Page { offset: (current - 1) * query.rows, limit: Some(query.rows) };
    html! {
        section #results aria-label="Objects" data-live data-keyed {
            @if total == 0 {
                div #empty .empty { (no_results(overview, query, settings)) }
            } @else {
                p #summary .summary { (results_summary(overview, query)) }
                div #scroll .scroll data-keyed {
                    // The style sheet changes the display of table elements, which removes their implicit roles.
                    table #objects .cards.objects role="table" data-keyed {
                        (table_head(query))
                        tbody #rows role="rowgroup" data-keyed {
                            @for row in page.of(&overview.rows) { (table_row(row, now)) }
                        }
                    }
                }
                (pager(query, current, pages))
            }
        }
    }
}

fn results_summary(overview: &Overview<'_>, query: &OverviewQuery) -> Markup {
    let total = count(overview.total(), "object", "objects");
    let order = html! {
        @if query.sort == TableSort::WORST_FIRST { ", the worst first" } @else {
            ", by " (query.sort.column.param()) @if query.sort.reversed { ", reversed" } ". "
            a href=(query.with(|query| query.sort = TableSort::WORST_FIRST).url()) { "The worst first" }
        }
    };
    html! {
        @if query.is_filtered() {
            (overview.rows.len()) " of " (total) (order) ". " a href=(query.without_filter().url()) { "Show all" }
        } @else {
            (total) (order)
        }
    }
}

fn table_head(query: &OverviewQuery) -> Markup {
    html! {
        thead #heads role="rowgroup" { tr role="row" {
            @for column in COLUMNS {
                @let is_sorted = query.sort.column == column;
                @let order = if query.sort.reversed { "descending" } else { "ascending" };
                th scope="col" role="columnheader" aria-sort=[is_sorted.then_some(order)] {
                    a href=(query.with(|query| query.sort = query.sort.clicked(column)).url()) { (column.title) }
                }
            }
        } }
    }
}

fn table_row(row: &ClaimRow<'_>, now: Timestamp) -> Markup {
    let (key, claim) = (row.entry.key(), &row.entry.claim);
    let url = object_url(key);
    html! {
        tr id={ (url) ":" (claim.source) } class={ "row " (row.verdict) } role="row" data-flash {
            td role="cell" data-label="Verdict" {
                (badge(row.verdict))
                @if let Some(reason) = row.reason { span.detail title=(reason.description()) { (reason_word(reason)) } }
                @if row.had_drifted() { span.detail { "had drifted" } }
            }
            td.object role="cell" data-label="Object" {
                a href=(url) { (key.name) }
                span.detail { (key.kind.kind) @if !key.namespace.is_empty() { " in " (key.namespace) } }
                @if let Some(declared) = claim.declared_by().first() {
                    span.detail.address title={ "in " (baseline_word(claim.source)) " " (declared.baseline) } { code { (declared.address) } }
                }
            }
            @match row.episode().zip(row.worst()) {
                Some((episode, worst)) => {
                    td role="cell" data-label="What" {
                        (field_paths(episode.differences.iter().map(|difference| difference.finding.path.as_str())))
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

fn pager(query: &OverviewQuery, current: usize, pages: usize) -> Markup {
    let url = |page| query.with(|query| query.page = page).url();
    html! {
        nav #pager .pager aria-label="Pages" {
            @if current > 1 { a rel="prev" href=(url(current - 1)) { "← Previous" } }
            @if pages > 1 { span { "Page " (current) " of " (pages) } }
            @if current < pages { a rel="next" href=(url(current + 1)) { "Next →" } }
            @if pages > 1 || query.rows != ROWS[0] {
                span.rows-choice {
                    "Rows: "
                    @for rows in ROWS {
                        a href=(query.with(|query| query.rows = rows).url()) aria-current=[(rows == query.rows).then_some("true")] { (rows) } " "
                    }
                }
            }
        }
    }
}

/// The reason why the table is empty, and what to do about it.
fn no_results(overview: &Overview<'_>, query: &OverviewQuery, settings: &Settings) -> Markup {
    let (total, prefix) = (overview.total(), &*settings.annotation_prefix);
    if query.is_filtered() && total > 0 {
        return html! {
            h2 { "Nothing matches" }
            p { "None of the " (count(total, "object", "objects")) " matches this filter. " a href=(query.without_filter().url()) { "Show all" } }
        };
    }
    let kinds = overview.kinds.iter().map(String::as_str).collect::<Vec<_>>().join(" and ");
    match overview.visibility {
        Visibility::Complete if !settings.kinds.is_empty() => html! {
            h2 { "No object is there" }
            p { "Watched are " (kinds) ", where the settings want them, and there is none." }
        },
        Visibility::Complete => html! {
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
        Visibility::Waiting => html! {
            h2 { "Nothing is known yet" }
            p { "The API server has not answered every first list. " a href="/readyz" { "What is missing" } }
        },
        Visibility::Degraded => html! {
            h2 { "Nothing is known" }
            p { "What is said above keeps objects from being seen. It heals by itself once the cause is gone." }
        },
    }
}

fn recent_transitions(snapshot: &Snapshot, now: Timestamp) -> Markup {
    html! {
        aside #lately .lately data-live data-keyed {
            h2 #lately-head { "Lately" }
            @if snapshot.history.newest_first().next().is_none() {
                p #lately-none .detail { "No verdict has changed while we watched." }
            } @else {
                ol #transitions .transitions data-keyed {
                    @for transition in snapshot.history.newest_first().take(RECENT_TRANSITIONS) {
                        (transition_item(transition, Subject::Link, now))
                    }
                }
            }
        }
    }
}
