//! `GET /sources`: sources, baselines and watches. Also the banners that warn about them on several pages.

use std::{collections::BTreeMap, sync::Arc};

use axum::{extract::State, response::Response};
use http::StatusCode;
use jiff::Timestamp;
use maud::{Markup, html};

use super::{
    format::{ago, baseline_word, card_table, count, coverage_bar},
    layout::{NavPage, page},
};
use crate::{
    config::ReloadStatus,
    engine::{BaselineState, ClusterMatch, KindState, Snapshot, WatchState},
    server::{
        Exposed,
        auth::Caller,
        query::{Filter, count_by_source},
    },
    types::{Baseline, BaselineError, DownReason, Lock, Source, SyncHealth},
};

/// At most this many skipped resources of a baseline are listed.
const MAX_SKIPPED: usize = 50;

pub(crate) async fn sources(State(exposed): State<Arc<Exposed>>, caller: Caller) -> Response {
    caller.read(move |caller, snapshot| sources_page(&exposed, caller, snapshot)).await
}

fn sources_page(exposed: &Exposed, caller: &Caller, snapshot: &Snapshot) -> Response {
    let now = exposed.clock.now();
    let main = html! {
        main.sources {
            @if caller.sees_everything() {
                (settings_banner(&exposed.reload_status.borrow(), &exposed.team_problems(), now))
            }
            (watch_banners(snapshot))
            (source_banners(snapshot))
            h1 { "Sources" }
            (source_table(&exposed.settings().sources, snapshot))
            (baseline_tables(snapshot, now))
            (watch_table(snapshot))
        }
    };
    page(StatusCode::OK, "Sources", Some(NavPage::Sources), now, &main)
}

/// Warns that the settings file or rules of teams are invalid.
pub(super) fn settings_banner(status: &ReloadStatus, team_problems: &[String], now: Timestamp) -> Markup {
    html! {
        div #settings data-live {
            @if !status.is_successful() {
                div.banner.down role="alert" {
                    strong { "The settings file cannot be used." }
                    " What holds was taken over " (ago(status.last_success, now)) ". "
                    @for problem in &status.problems { code { (problem) } }
                }
            }
            @if !team_problems.is_empty() {
                div.banner.waiting {
                    "Some rules of teams do not hold: "
                    @for problem in team_problems { code { (problem) } }
                }
            }
        }
    }
}

/// Warns about watches that are down or not synced.
pub(super) fn watch_banners(snapshot: &Snapshot) -> Markup {
    html! {
        div #banner data-live {
            @for state in &snapshot.kinds {
                @for watch in &*state.watches {
                    @match &watch.health {
                        SyncHealth::Down { reason, message } => {
                            @let objects = state.blocks.entries()
                                .filter(|entry| watch.spec.delivers(&entry.key().namespace, &entry.key().name))
                                .count();
                            div.banner.down role="alert" {
                                strong { "Blind: " (watch.spec) "." }
                                " " (down_reason(*reason)) " "
                                @if objects > 0 {
                                    (count(objects, "object is", "objects are")) " unknown until it is back. "
                                } @else {
                                    "None of its objects is known. "
                                }
                                code { (message) }
                            }
                        }
                        SyncHealth::Starting => {
                            div.banner.waiting { "Waiting for the first list of " strong { (watch.spec) } "." }
                        }
                        SyncHealth::Up => {}
                    }
                }
            }
        }
    }
}

fn down_reason(reason: DownReason) -> &'static str {
    match reason {
        DownReason::Forbidden => "The API server forbids listing or watching it.",
        DownReason::NotFound => "The API server does not know the kind.",
        DownReason::Refused => "It is wanted and not asked for.",
        DownReason::Stalled => "The API server said nothing for too long.",
        DownReason::Error => "The API server cannot be reached, or answers with errors.",
    }
}

/// Warns about sources and baselines that cannot be read.
pub(super) fn source_banners(snapshot: &Snapshot) -> Markup {
    html! {
        div #state-trouble data-live {
            @for (source, health) in &*snapshot.sources {
                @match health {
                    SyncHealth::Down { message, .. } => {
                        div.banner.down role="alert" {
                            strong { "Not all baselines of " (source) " can be found." } " " code { (message) }
                        }
                    }
                    SyncHealth::Starting => {
                        div.banner.waiting { "Waiting for the baselines of " strong { (source) } "." }
                    }
                    SyncHealth::Up => {}
                }
            }
            @for BaselineState { baseline, .. } in snapshot.baselines.values() {
                @if let Some(BaselineError { message, .. }) = &baseline.fault {
                    div.banner.down role="alert" {
                        strong { "The " (baseline_word(baseline.source)) " " (baseline.name) " cannot be read." }
                        " The verdicts on its objects stand still. " code { (message) }
                    }
                }
            }
        }
    }
}

/// Whether the snapshot contains everything that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visibility {
    Complete,
    /// Some watch is not synced.
    Waiting,
    /// Some watch is down.
    Degraded,
}

impl Visibility {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        match WatchCounts::of(snapshot) {
            WatchCounts { down: 1.., .. } => Self::Degraded,
            WatchCounts { waiting: 1.., .. } => Self::Waiting,
            WatchCounts { .. } => Self::Complete,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WatchCounts {
    pub(super) up: usize,
    pub(super) waiting: usize,
    pub(super) down: usize,
}

impl WatchCounts {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let mut counts = Self::default();
        for watch in snapshot.watches() {
            match &watch.health {
                SyncHealth::Up => counts.up += 1,
                SyncHealth::Starting => counts.waiting += 1,
                SyncHealth::Down { .. } => counts.down += 1,
            }
        }
        counts
    }
}

pub(super) fn watch_health(watch: &WatchState) -> Markup {
    match &watch.health {
        SyncHealth::Up => html! { "up" },
        SyncHealth::Starting => html! { "waiting for its first list" },
        SyncHealth::Down { reason, message } => {
            html! { strong { "down" } " (" (reason) "): " (message) }
        }
    }
}

/// Every source that is enabled, and any other that still has claims.
fn source_table(enabled: &[Source], snapshot: &Snapshot) -> Markup {
    let claims = count_by_source(Filter::default().claims(snapshot));
    let mut baselines: BTreeMap<Source, usize> = BTreeMap::new();
    for state in snapshot.baselines.values() {
        *baselines.entry(state.baseline.source).or_default() += 1;
    }
    let shown = Source::ALL.iter().filter(|source| enabled.contains(source) || claims.contains_key(source));
    let rows = html! {
        @for source in shown {
            tr {
                th scope="row" data-label="Source" { a href={ "/?source=" (source) } { (source) } }
                td data-label="Reads" { (source_description(*source)) }
                td data-label="State" { (source_health(*source, snapshot)) }
                td data-label="Baselines" {
                    @match baselines.get(source) {
                        Some(number) => (number),
                        None => "–",
                    }
                }
                td data-label="Objects" {
                    @match claims.get(source) {
                        Some(counts) => (coverage_bar(counts)),
                        None => "none",
                    }
                }
            }
        }
    };
    let columns = ["Source", "Reads", "State", "Baselines", "Objects"];
    html! { section #switched-on data-live { (card_table(Some("Where baselines come from"), &columns, &rows)) } }
}

fn source_description(source: Source) -> &'static str {
    match source {
        Source::Annotation => "a hash in an annotation of the object",
        Source::Terraform => "Terraform and OpenTofu states",
        Source::Helm => "deployed Helm releases",
        Source::LastApplied => "what kubectl applied last",
        Source::Manifest => "directories of YAML",
        Source::StatusHash => "what controllers record in the status",
        Source::Unclaimed => "nothing: watched, and declared by no source",
    }
}

fn source_health(source: Source, snapshot: &Snapshot) -> Markup {
    html! {
        @match snapshot.sources.get(&source) {
            Some(SyncHealth::Up) => "found",
            Some(SyncHealth::Starting) => "being looked for",
            Some(SyncHealth::Down { reason, message }) => { strong.off { (reason) } span.detail { (message) } }
            None => "with the objects",
        }
    }
}

/// The column headers of the table of one source's baselines.
struct BaselineColumns {
    source: Source,
    title: &'static str,
    name: &'static str,
    /// `None` if baselines of this source have no version.
    serial: Option<&'static str>,
    written: &'static str,
    /// `None` if baselines of this source cannot be locked.
    lock: Option<&'static str>,
}

const BASELINE_TABLES: [BaselineColumns; 3] = [
    BaselineColumns {
        source: Source::Terraform,
        title: "Terraform states",
        name: "State",
        serial: Some("Serial"),
        written: "Written",
        lock: Some("Lock"),
    },
    BaselineColumns {
        source: Source::Helm,
        title: "Helm releases",
        name: "Release",
        serial: Some("Revision"),
        written: "Deployed",
        lock: Some("Status"),
    },
    BaselineColumns {
        source: Source::Manifest,
        title: "Manifests",
        name: "Directory",
        serial: None,
        written: "Changed",
        lock: None,
    },
];

fn baseline_tables(snapshot: &Snapshot, now: Timestamp) -> Markup {
    html! {
        section #states data-live {
            @for columns in &BASELINE_TABLES {
                @let states: Vec<_> = snapshot.baselines.values().filter(|state| state.baseline.source == columns.source).collect();
                @if !states.is_empty() { (baseline_table(columns, &states, now)) }
            }
        }
    }
}

fn baseline_table(columns: &BaselineColumns, states: &[&BaselineState], now: Timestamp) -> Markup {
    let BaselineColumns { title, name, serial, written, lock, .. } = *columns;
    let headers = [Some(name), Some("Objects"), serial, Some(written), lock, Some("Trouble")];
    let headers: Vec<&str> = headers.into_iter().flatten().collect();
    card_table(Some(title), &headers, &html! { @for state in states { (baseline_row(state, columns, now)) } })
}

fn baseline_row(state: &BaselineState, columns: &BaselineColumns, now: Timestamp) -> Markup {
    let baseline = &state.baseline;
    let version = baseline.version.as_ref();
    html! {
        tr {
            th scope="row" data-label=(columns.name) {
                code { (baseline.name) }
                @if let Some(chart) = version.and_then(|version| version.chart.as_ref()) { span.detail { (chart) } }
                @match state.cluster_match {
                    ClusterMatch::Here => {}
                    ClusterMatch::Undecided => { span.detail { "being looked for" } }
                    ClusterMatch::Elsewhere => { span.detail { "none of its objects is in this cluster" } }
                }
            }
            td data-label="Objects" { (baseline.objects.len()) }
            @if let Some(serial) = columns.serial {
                td data-label=(serial) { @if let Some(version) = version { (version.serial) } @else { "–" } }
            }
            td data-label=(columns.written) {
                @if let Some(written) = version.and_then(|version| version.written) { (ago(written, now)) } @else { "–" }
            }
            @if let Some(column) = columns.lock { td data-label=(column) { (lock(baseline, now)) } }
            td data-label="Trouble" { (trouble(baseline)) }
        }
    }
}

/// The lock of a Terraform state, or the status of a Helm release.
fn lock(baseline: &Baseline, now: Timestamp) -> Markup {
    html! {
        @match &baseline.lock {
            Some(Lock { operation: None, .. }) if baseline.source == Source::Helm => { "just deployed" }
            Some(Lock { operation: None, .. }) => { "just released" }
            Some(Lock { operation: Some(operation), created, .. }) if baseline.source == Source::Helm => {
                (operation)
                @if let Some(created) = *created { span.detail { (ago(created, now)) } }
            }
            None if baseline.source == Source::Helm => { @if baseline.fault.is_none() { "deployed" } @else { "–" } }
            Some(Lock { operation: Some(operation), who, created, .. }) => {
                @if who.is_empty() { "held" } @else { (who) }
                span.detail {
                    (operation)
                    @if let Some(created) = *created { ", " (ago(created, now)) }
                }
            }
            None => { "free" }
        }
    }
}

/// Why a baseline cannot be read, and its resources that cannot be compared.
fn trouble(baseline: &Baseline) -> Markup {
    let skipped = &baseline.skipped;
    let listed = skipped.listed().iter().take(MAX_SKIPPED);
    let more = skipped.len() - listed.len();
    html! {
        @match &baseline.fault {
            Some(BaselineError { fault, message }) => { strong.off { (fault) } span.detail { (message) } }
            None if skipped.is_empty() => "none",
            None => {}
        }
        @if !skipped.is_empty() {
            details {
                summary { (count(skipped.len(), "is not compared", "are not compared")) }
                ul {
                    @for resource in listed { li { code { (resource.address) } span.detail { (resource.reason) } } }
                    @if more > 0 { li { "and " (more) " more" } }
                }
            }
        }
    }
}

fn watch_table(snapshot: &Snapshot) -> Markup {
    let rows = html! {
        @for kind in &snapshot.kinds {
            @for (watch, objects) in kind.watches.iter().zip(objects_per_watch(kind)) {
                tr {
                    th scope="row" data-label="Stream" { (watch.spec) }
                    td data-label="Selector" {
                        @match &watch.spec.selector {
                            Some(selector) => code { (selector) },
                            None => "none",
                        }
                    }
                    td data-label="Objects" { (objects) }
                    td data-label="State" { (watch_health(watch)) }
                }
            }
        }
    };
    let columns = ["Stream", "Selector", "Objects", "State"];
    html! { section #streams data-live { (card_table(Some("Streams: the open watches"), &columns, &rows)) } }
}

/// How many objects each watch of a kind delivers. The search starts at the watch of the previous object, because objects
/// of one namespace mostly come from one watch.
fn objects_per_watch(kind: &KindState) -> Vec<usize> {
    let mut counts = vec![0; kind.watches.len()];
    let mut last = 0;
    for object in kind.blocks.objects() {
        let delivers = |at: &usize| kind.watches[*at].spec.delivers(&object.key.namespace, &object.key.name);
        let candidates = (last..kind.watches.len()).chain(0..last);
        if let Some(at) = candidates.into_iter().find(delivers) {
            (counts[at], last) = (counts[at] + 1, at);
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::settings_banner;
    use crate::config::{ConfigProblem, ReloadStatus};

    #[test]
    fn settings_banner_reads_as_a_sentence() {
        let then = Timestamp::UNIX_EPOCH;
        let problems = vec![ConfigProblem::whole("cannot be read")];
        let status = ReloadStatus { file: None, last_success: then, problems, warnings: Vec::new() };
        let banner = settings_banner(&status, &[], then + SignedDuration::from_secs(55)).into_string();
        // The text content, without tags.
        let text: String = banner.split('<').filter_map(|tag| tag.split('>').nth(1)).collect();
        let expected = "The settings file cannot be used. What holds was taken over 55 s ago. cannot be read";
        assert_eq!(text, expected);
    }
}
