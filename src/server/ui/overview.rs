//! The overview at `/`: how many are off, which, since when and by what tool.
//! How many objects have which verdict. Each tile is a filter.
//! What the overview tells beside the verdicts: how bad it is, since when, and how much of everything is seen.
//! The objects that a filter leaves, and how many there are of each sort.
//! Which objects the overview shows, and in which order. All of it lives in the URL.
//! In which order the table shows its rows. It lives in the URL, as the filter does.
//! The objects, a row each, and the form that says which.
//! What the overview says where the table has no row.

use std::{
    cmp::{Ordering, Reverse},
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
        badge, bar, baseline_word, count, encode, object_url, reason_word, severity, shape, since, tool,
        until_now, verdict_word,
    },
    history::{Subject, fields, item},
    layout::{Place, complaint, page},
    sources::{Sight, StreamCounts, banner, settings_banner, sight, state_banner},
};
use crate::{
    config::Settings,
    engine::Snapshot,
    server::{Exposed, auth::Caller, query::Found},
    types::{ClosedSet, Episode, Health, ObjectKey, Severity, Source, UnknownReason, VerdictKind, Worst},
};

/// Transitions under "Lately".
const LATELY: usize = 10;
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
            div role="status" { h1 #headline data-live { (headline) } }
            (tiles(&overview, &filter))
            (glance(&overview, &filter, &snapshot, now))
            div.columns {
                div {
                    (form(&overview, &filter))
                    (results(&overview, &filter, &exposed.settings(), now))
                }
                (lately(&snapshot, now))
            }
        }
    };
    page(StatusCode::OK, &headline, Some(Place::Objects), now, &main)
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

fn lately(snapshot: &Snapshot, now: Timestamp) -> Markup {
    html! {
        aside #lately .lately data-live data-keyed {
            h2 #lately-head { "Lately" }
            @if snapshot.history.newest_first().next().is_none() {
                p #lately-none .detail { "No verdict has changed while we watched." }
            } @else {
                ol #transitions .transitions data-keyed {
                    @for transition in snapshot.history.newest_first().take(LATELY) { (item(transition, Subject::Many, now)) }
                }
            }
        }
    }
}

/// Verdicts in the order in which they need attention.
pub(super) const BY_URGENCY: [VerdictKind; 8] = [
    VerdictKind::Drifted,
    VerdictKind::Missing,
    VerdictKind::Replaced,
    VerdictKind::Unknown,
    VerdictKind::InFlight,
    VerdictKind::NoBaseline,
    VerdictKind::Ignored,
    VerdictKind::InSync,
];

/// A tile for each verdict that there is, and for those that people look for.
pub(super) fn tiles(overview: &Overview<'_>, filter: &Filter) -> Markup {
    let usual = |verdict| {
        matches!(
            verdict,
            VerdictKind::Drifted | VerdictKind::Unknown | VerdictKind::NoBaseline | VerdictKind::InSync
        )
    };
    html! {
        nav #tiles .tiles aria-label="Objects by verdict" data-live data-keyed {
            @for verdict in BY_URGENCY {
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

/// How many claims there are by verdict.
pub(super) type Counts = BTreeMap<VerdictKind, usize>;

/// One claim as the table shows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    pub(super) found: Found<'a>,
    pub(super) verdict: VerdictKind,
    pub(super) reason: Option<UnknownReason>,
    /// What differs, or differed when we could last see it.
    pub(super) episode: Option<&'a Episode>,
}

/// What the overview counts and lists.
#[derive(Debug)]
pub(super) struct Overview<'a> {
    /// Those that the whole filter leaves.
    pub(super) rows: Vec<Row<'a>>,
    /// Those that the filter leaves, whatever verdict it asks for, by verdict.
    pub(super) counts: Counts,
    /// Those of them that are off, whatever severity it asks for, by severity.
    pub(super) severities: BTreeMap<Severity, usize>,
    /// All there are, by verdict.
    pub(super) totals: Counts,
    /// All there are, by source and verdict.
    pub(super) sources: BTreeMap<Source, Counts>,
    /// The one that has been off for longest, whatever the filter.
    pub(super) oldest: Option<Row<'a>>,
    /// Every namespace that has an object.
    pub(super) namespaces: BTreeSet<&'a str>,
    /// The kinds that are watched.
    pub(super) kinds: BTreeSet<String>,
    /// Those that cannot be judged now, and had drifted when they last could.
    pub(super) had_drifted: usize,
    /// Whether there may be more than that.
    pub(super) sight: Sight,
}

impl<'a> Overview<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, filter: &Filter) -> Self {
        let words = filter.words();
        let mut overview = Self {
            rows: Vec::new(),
            counts: Counts::new(),
            severities: BTreeMap::new(),
            totals: Counts::new(),
            sources: BTreeMap::new(),
            oldest: None,
            namespaces: BTreeSet::new(),
            kinds: snapshot.kinds.iter().map(|state| state.kind.to_string()).collect(),
            had_drifted: 0,
            sight: sight(snapshot),
        };
        for state in &snapshot.kinds {
            for entry in state.blocks.entries() {
                let row = Row::new((state, entry));
                overview.count(row);
                if filter.takes(&row, &words) {
                    overview.take(row, filter);
                }
            }
        }
        overview.rows.sort_unstable_by(|a, b| filter.sort.compare(a, b));
        overview
    }

    /// Counts a row of all there are.
    fn count(&mut self, row: Row<'a>) {
        let entry = row.found.1;
        self.namespaces.insert(&entry.object.key.namespace);
        *self.totals.entry(row.verdict).or_default() += 1;
        *self.sources.entry(entry.claim.source).or_default().entry(row.verdict).or_default() += 1;
        self.had_drifted += usize::from(row.had_drifted());
        let is_older = |other: Row<'a>| row.onset() < other.onset();
        if row.is_off() && self.oldest.is_none_or(is_older) {
            self.oldest = Some(row);
        }
    }

    /// Counts a row of those that the filter leaves, and lists it where it asks for its verdict and severity, too.
    fn take(&mut self, row: Row<'a>, filter: &Filter) {
        let has_verdict = filter.verdict.is_none_or(|verdict| verdict == row.verdict);
        if filter.takes_severity(&row) {
            *self.counts.entry(row.verdict).or_default() += 1;
            if has_verdict {
                self.rows.push(row);
            }
        }
        if let Some(worst) = row.worst().filter(|_| has_verdict && row.is_off()) {
            *self.severities.entry(worst.severity).or_default() += 1;
        }
    }

    /// How many claims each source has, by verdict.
    pub(super) fn by_source(snapshot: &Snapshot) -> BTreeMap<Source, Counts> {
        let mut sources: BTreeMap<Source, Counts> = BTreeMap::new();
        for state in &snapshot.kinds {
            for entry in state.blocks.entries() {
                let (verdict, _) = state.shown_verdict(entry);
                *sources.entry(entry.claim.source).or_default().entry(verdict).or_default() += 1;
            }
        }
        sources
    }

    /// How many objects there are, whatever the filter.
    pub(super) fn known(&self) -> usize {
        self.totals.values().sum()
    }

    /// How many have this verdict, whatever the filter.
    pub(super) fn total(&self, verdict: VerdictKind) -> usize {
        self.totals.get(&verdict).copied().unwrap_or(0)
    }
}

impl<'a> Row<'a> {
    pub(super) fn new(found: Found<'a>) -> Self {
        let (state, entry) = found;
        let (verdict, reason) = state.shown_verdict(entry);
        Self { found, verdict, reason, episode: entry.claim.verdict.episode() }
    }

    /// Whether it drifted when it could last be judged, which is not now.
    pub(super) fn had_drifted(&self) -> bool {
        matches!(self.verdict, VerdictKind::Unknown | VerdictKind::InFlight) && self.episode.is_some()
    }

    /// Whether it is not as declared, and that is known.
    pub(super) fn is_off(&self) -> bool {
        matches!(self.verdict, VerdictKind::Drifted | VerdictKind::Missing | VerdictKind::Replaced)
    }

    /// The worst of what differs, or differed when we could last see it.
    pub(super) fn worst(&self) -> Option<Worst<'a>> {
        self.episode.map(Episode::worst)
    }

    /// Since when it is off, as far as it is.
    pub(super) fn onset(&self) -> Option<Timestamp> {
        self.episode.map(|episode| episode.onset)
    }

    /// Off ones by severity and then the newest, then the others by what needs attention most.
    pub(super) fn urgency(&self) -> impl Ord + use<> {
        let urgency = match self.verdict {
            VerdictKind::Drifted | VerdictKind::Missing | VerdictKind::Replaced => 0,
            VerdictKind::Unknown => 1,
            VerdictKind::InFlight => 2,
            VerdictKind::NoBaseline => 3,
            VerdictKind::Ignored => 4,
            VerdictKind::InSync => 5,
        };
        (urgency, Reverse(self.worst().map(|worst| worst.severity)), Reverse(self.onset()))
    }

    /// What it is called, unlike all others.
    pub(super) fn name(&self) -> impl Ord + use<'a> {
        let (key, source) = (&self.found.1.object.key, self.found.1.claim.source);
        (&key.namespace, &key.name, &key.kind, source)
    }

    pub(super) fn has_all(&self, words: &[String]) -> bool {
        let key = &self.found.1.object.key;
        let mut text = format!("{} {} {}/{}", key.kind.kind, key.kind, key.namespace, key.name);
        for declared in self.found.1.claim.declared_by() {
            text.extend([" ", &declared.address, " ", &declared.baseline]);
        }
        // Those that rules ignore count too: people come here from the rule.
        for difference in self.found.1.claim.verdict.differences() {
            let rules = difference.matched.iter().map(|rule| &**rule);
            let parts = [
                difference.actor.as_str(),
                difference.manager().unwrap_or(""),
                difference.finding.class.as_str(),
                &difference.finding.path,
            ];
            text.extend(parts.into_iter().chain(rules).flat_map(|part| [" ", part]));
        }
        let text = text.to_lowercase();
        words.iter().all(|word| text.contains(word.as_str()))
    }
}

/// The object's health, which is as old as what we last heard of it.
pub(super) fn health_cell(row: &Row<'_>) -> Markup {
    let facts = &row.found.1.object.facts;
    html! {
        span class={ "health " (facts.health) } { (facts.health) }
        @if row.reason == Some(UnknownReason::Stale) { span.detail { "when last seen" } }
        @if !facts.message.is_empty() { span.detail { (facts.message) } }
    }
}

/// How many rows a page may have; the first is the usual.
pub(super) const ROWS: [usize; 3] = [100, 500, 2_000];

/// The query as it came.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FilterQuery {
    q: String,
    verdict: String,
    severity: String,
    source: String,
    namespace: String,
    sort: String,
    rows: String,
    page: String,
}

/// What to show.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    pub(super) text: String,
    pub(super) verdict: Option<VerdictKind>,
    pub(super) severity: Option<Severity>,
    pub(super) source: Option<Source>,
    /// Empty for all of them, `-` for objects that have none.
    pub(super) namespace: String,
    pub(super) sort: Sort,
    /// How many rows a page has: one of [`ROWS`].
    pub(super) rows: usize,
    /// Counts from 1.
    pub(super) page: usize,
}

impl Filter {
    /// Takes the query, or says what is wrong with it.
    pub(super) fn parse(query: FilterQuery) -> Result<Self, String> {
        let rows = match &*query.rows {
            "" => ROWS[0],
            number => {
                let known = number.parse().ok().filter(|rows| ROWS.contains(rows));
                known.ok_or_else(|| format!("A page has {ROWS:?} rows, not “{number}”."))?
            }
        };
        let page = match &*query.page {
            "" => 1,
            number => match number.parse() {
                Ok(page) if page > 0 => page,
                _ => return Err(format!("“{number}” is not the number of a page.")),
            },
        };
        let no_column = || format!("The table has no column “{}” to sort by.", query.sort);
        Ok(Self {
            text: query.q.trim().to_owned(),
            verdict: member("verdict", &query.verdict)?,
            severity: member("severity", &query.severity)?,
            source: member("source", &query.source)?,
            sort: Sort::parse(&query.sort).ok_or_else(no_column)?,
            namespace: query.namespace,
            rows,
            page,
        })
    }

    /// The overview with this filter.
    pub(super) fn url(&self) -> String {
        let number =
            |number: usize, usual: usize| if number == usual { String::new() } else { number.to_string() };
        let parts = [
            ("q", &*self.text),
            ("verdict", self.verdict.map_or("", VerdictKind::as_str)),
            ("severity", self.severity.map_or("", Severity::as_str)),
            ("source", self.source.map_or("", Source::as_str)),
            ("namespace", &*self.namespace),
            ("sort", &*self.sort.to_string()),
            ("rows", &*number(self.rows, ROWS[0])),
            ("page", &*number(self.page, 1)),
        ]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name}={}", encode(value)))
        .collect::<Vec<String>>();
        if parts.is_empty() { "/".to_owned() } else { format!("/?{}", parts.join("&")) }
    }

    /// The same with another verdict, from the first page on.
    pub(super) fn with_verdict(&self, verdict: Option<VerdictKind>) -> Self {
        Self { verdict, page: 1, ..self.clone() }
    }

    /// The same with another severity, from the first page on.
    pub(super) fn with_severity(&self, severity: Option<Severity>) -> Self {
        Self { severity, page: 1, ..self.clone() }
    }

    /// The same with another source, from the first page on.
    pub(super) fn with_source(&self, source: Option<Source>) -> Self {
        Self { source, page: 1, ..self.clone() }
    }

    /// The same in another order, from the first page on.
    pub(super) fn with_sort(&self, sort: Sort) -> Self {
        Self { sort, page: 1, ..self.clone() }
    }

    /// The same with more or fewer rows, from the first page on.
    pub(super) fn with_rows(&self, rows: usize) -> Self {
        Self { rows, page: 1, ..self.clone() }
    }

    /// The same on another page.
    pub(super) fn with_page(&self, page: usize) -> Self {
        Self { page, ..self.clone() }
    }

    /// The order alone, without what leaves anything out.
    pub(super) fn without_filter(&self) -> Self {
        let text = String::new();
        Self { text, verdict: None, severity: None, source: None, namespace: String::new(), page: 1, ..*self }
    }

    /// Whether it leaves anything out.
    pub(super) fn is_narrow(&self) -> bool {
        self.verdict.is_some()
            || self.severity.is_some()
            || self.source.is_some()
            || !self.namespace.is_empty()
            || !self.text.is_empty()
    }

    /// Whether a row is asked for, whatever its verdict and its severity, which are counted beside the rows.
    pub(super) fn takes(&self, row: &Row<'_>, words: &[String]) -> bool {
        let entry = row.found.1;
        self.takes_namespace(&entry.object.key)
            && self.source.is_none_or(|source| source == entry.claim.source)
            && (words.is_empty() || row.has_all(words))
    }

    /// Whether the row's severity is asked for: that of what is off now.
    pub(super) fn takes_severity(&self, row: &Row<'_>) -> bool {
        let has = |severity| row.is_off() && row.worst().is_some_and(|worst| worst.severity == severity);
        self.severity.is_none_or(has)
    }

    /// The words of the text, in lower case; every one of them has to be found.
    pub(super) fn words(&self) -> Vec<String> {
        self.text.split_whitespace().map(str::to_lowercase).collect()
    }

    /// Whether the object's namespace is asked for.
    fn takes_namespace(&self, key: &ObjectKey) -> bool {
        match &*self.namespace {
            "" => true,
            "-" => key.namespace.is_empty(),
            wanted => wanted == &*key.namespace,
        }
    }
}

/// The member of a closed set that a word of the query names; none for no word.
fn member<T: ClosedSet>(name: &str, word: &str) -> Result<Option<T>, String> {
    if word.is_empty() {
        return Ok(None);
    }
    let known = T::members().iter().copied();
    let found = known.clone().find(|own| own.word() == word);
    let words = || known.map(T::word).collect::<Vec<&str>>().join(", ");
    let unknown = || format!("There is no {name} “{word}”. There are {}.", words());
    found.map(Some).ok_or_else(unknown)
}

/// A column that rows can be ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    /// What needs attention most comes first.
    Verdict,
    Object,
    What,
    By,
    Severity,
    /// The oldest comes first.
    Since,
    Health,
}

/// A column, and from which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sort {
    pub(super) by: Column,
    pub(super) reversed: bool,
}

impl Column {
    /// As they stand in the table.
    pub(super) const ALL: [Self; 7] =
        [Self::Verdict, Self::Object, Self::What, Self::By, Self::Severity, Self::Since, Self::Health];

    /// How the URL calls it.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Verdict => "verdict",
            Self::Object => "object",
            Self::What => "what",
            Self::By => "by",
            Self::Severity => "severity",
            Self::Since => "since",
            Self::Health => "health",
        }
    }

    /// What stands above it.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Verdict => "Verdict",
            Self::Object => "Object",
            Self::What => "What",
            Self::By => "By",
            Self::Severity => "Severity",
            Self::Since => "Since",
            Self::Health => "Health",
        }
    }
}

impl Sort {
    /// What nobody has to ask for: the worst first.
    pub(super) const WORST_FIRST: Self = Self { by: Column::Verdict, reversed: false };

    /// Takes `since` or `-since`; none for what is no column.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::WORST_FIRST);
        }
        let (word, reversed) = text.strip_prefix('-').map_or((text, false), |word| (word, true));
        let by = Column::ALL.into_iter().find(|column| column.word() == word)?;
        Some(Self { by, reversed })
    }

    /// What a click on the head of a column asks for: that column, or the other way round.
    pub(super) fn clicked(self, column: Column) -> Self {
        Self { by: column, reversed: self.by == column && !self.reversed }
    }

    /// Which of two rows comes first. Rows that have nothing in the column come last, from whichever end.
    pub(super) fn compare(self, a: &Row<'_>, b: &Row<'_>) -> Ordering {
        let by_column = match self.by {
            Column::Verdict => self.turned(a.urgency().cmp(&b.urgency())),
            Column::Object => self.turned(name(a).cmp(&name(b))),
            Column::What => self.present(first_path(a), first_path(b)),
            Column::By => self.present(actor_rank(a), actor_rank(b)),
            Column::Severity => self.present(
                a.worst().map(|own| std::cmp::Reverse(own.severity)),
                b.worst().map(|own| std::cmp::Reverse(own.severity)),
            ),
            Column::Since => self.present(a.episode.map(|own| own.onset), b.episode.map(|own| own.onset)),
            Column::Health => self.turned(health_rank(a).cmp(&health_rank(b))),
        };
        by_column.then_with(|| a.urgency().cmp(&b.urgency())).then_with(|| a.name().cmp(&b.name()))
    }

    fn turned(self, order: Ordering) -> Ordering {
        if self.reversed { order.reverse() } else { order }
    }

    fn present<T: Ord>(self, a: Option<T>, b: Option<T>) -> Ordering {
        match (a, b) {
            (Some(a), Some(b)) => self.turned(a.cmp(&b)),
            (a, b) => a.is_none().cmp(&b.is_none()),
        }
    }
}

/// As the URL has it; nothing for what nobody has to ask for.
impl fmt::Display for Sort {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::WORST_FIRST {
            return Ok(());
        }
        write!(formatter, "{}{}", if self.reversed { "-" } else { "" }, self.by.word())
    }
}

fn first_path<'a>(row: &Row<'a>) -> Option<&'a str> {
    row.episode.and_then(|own| own.differences.first()).map(|own| &*own.finding.path)
}

fn actor_rank<'a>(row: &Row<'a>) -> Option<(&'static str, Option<&'a str>)> {
    row.worst().map(|own| (own.actor.as_str(), own.manager))
}

/// The name comes first, as it does in the table.
fn name<'a>(row: &Row<'a>) -> impl Ord + use<'a> {
    let key = &row.found.1.object.key;
    (&key.name, &key.namespace, &key.kind)
}

/// The worst first.
fn health_rank(row: &Row<'_>) -> u8 {
    match row.found.1.object.facts.health {
        Health::Unhealthy => 0,
        Health::Degraded => 1,
        Health::Unknown => 2,
        Health::Healthy => 3,
    }
}

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
            td role="cell" data-label="Health" { (health_cell(row)) }
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

/// Nothing to show: what to do about it.
pub(super) fn empty(overview: &Overview<'_>, filter: &Filter, settings: &Settings) -> Markup {
    let (known, prefix) = (overview.known(), &*settings.annotation_prefix);
    if filter.is_narrow() && known > 0 {
        return html! {
            h2 { "Nothing matches" }
            p { "None of the " (count(known, "object", "objects")) " matches this filter. " a href=(filter.without_filter().url()) { "Show all" } }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;

    use super::{Row, Sort};
    use crate::{
        engine::{Blocks, Claim, Entry, KindState},
        types::{
            Actor, Advice, Difference, DriftKind, Episode, Expectation, FieldClass, Finding, Ignored, Kind,
            LastKnown, LiveObject, ObjectKey, Severity, Source, UnknownReason, Verdict,
        },
    };

    fn episode(severity: Severity, onset: i64) -> Episode {
        let onset = Timestamp::from_second(onset).unwrap();
        let finding = Finding {
            path: "spec".into(),
            class: FieldClass::Hash,
            expected: "a".into(),
            actual: "b".into(),
            writer: None,
        };
        let (expectation, advice, actor) = (Expectation::Unexpected, Advice::AlertOnly, Actor::Nobody);
        let differences = vec![Difference {
            finding,
            severity,
            expectation,
            advice,
            actor,
            onset,
            ignored_by: None,
            matched: Arc::default(),
        }];
        Episode { trouble: DriftKind::Drifted, onset, differences, ignored: Vec::new() }
    }

    #[test]
    fn the_worst_stands_first_and_what_is_fine_last() {
        let unknown = |held| Verdict::Unknown(UnknownReason::BadHash, held);
        let wanted = [
            ("critical", Verdict::Off(Box::new(episode(Severity::Critical, 1)))),
            ("newer-warning", Verdict::Off(Box::new(episode(Severity::Warning, 9)))),
            ("older-warning", Verdict::Off(Box::new(episode(Severity::Warning, 5)))),
            ("info", Verdict::Off(Box::new(episode(Severity::Info, 10)))),
            ("was-drifted", unknown(LastKnown::Episode(Box::new(episode(Severity::Warning, 3))))),
            ("never-judged", unknown(LastKnown::Nothing)),
            ("in-flight", Verdict::InFlight(LastKnown::Clean)),
            ("no-baseline", Verdict::NoBaseline),
            (
                "ignored",
                Verdict::Ignored(Box::new(Ignored {
                    trouble: DriftKind::Drifted,
                    differences: Vec::new(),
                    onset: None,
                })),
            ),
            ("a", Verdict::InSync),
            ("b", Verdict::InSync),
        ];
        let kind = Arc::new(Kind::deployment());
        let state = KindState { kind: kind.clone(), streams: Vec::new(), blocks: Blocks::default() };
        let mut entries: Vec<Entry> = wanted
            .iter()
            .map(|(name, verdict)| Entry {
                object: Arc::new(LiveObject {
                    exists: true,
                    uid: "uid".into(),
                    resource_version: "1".into(),
                    ..LiveObject::absent(ObjectKey {
                        kind: kind.clone(),
                        namespace: "shop".into(),
                        name: (*name).into(),
                    })
                }),
                claim: Claim {
                    source: Source::Annotation,
                    verdict: verdict.clone(),
                    episodes: None,
                    details: None,
                },
            })
            .collect();
        entries.sort_by(|a, b| a.object.key.name.cmp(&b.object.key.name));
        let mut rows: Vec<Row<'_>> = entries.iter().map(|entry| Row::new((&state, entry))).collect();
        rows.sort_by(|a, b| Sort::WORST_FIRST.compare(a, b));
        let names: Vec<&str> = rows.iter().map(|row| &*row.found.1.object.key.name).collect();
        assert_eq!(names, wanted.map(|(name, _)| name));
    }
}
