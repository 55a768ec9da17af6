//! The page of sources: where baselines come from, how old they are, who holds them, and what is wrong with them.
//! The places that declare objects: Terraform states, Helm releases, directories of manifests; how old they are, and who
//! writes them.
//! What we cannot see. Nothing may look fine where we are blind.
//! What people have to know about the settings in use.

use std::{collections::BTreeMap, sync::Arc};

use axum::{extract::State, response::Response};
use http::StatusCode;
use jiff::Timestamp;
use maud::{Markup, html};

use super::{
    format::{ago, bar, baseline_word, count},
    layout::{Place, page},
    overview::{Counts, Overview, coverage},
};
use crate::{
    config::ReloadStatus,
    engine::{BaselineState, ClusterMatch, KindState, Snapshot, WatchState},
    server::{Exposed, auth::Caller},
    types::{Baseline, BaselineTrouble, DownReason, Lock, Source, WatchHealth},
};

/// `GET /sources`.
pub(crate) async fn sources(State(exposed): State<Arc<Exposed>>, caller: Caller) -> Response {
    let now = exposed.clock.now();
    let snapshot = caller.snapshot();
    let main = html! {
        main.sources {
            @if caller.sees_everything() {
                (settings_banner(&exposed.reload_status.borrow(), &exposed.team_problems.borrow(), now))
            }
            (banner(&snapshot))
            (state_banner(&snapshot))
            h1 { "Sources" }
            (switched_on(&exposed.settings().sources, &snapshot))
            (states(&snapshot, now))
            (streams(&snapshot))
        }
    };
    page(StatusCode::OK, "Sources", Some(Place::Sources), now, &main)
}

/// Every source that is switched on, and any that still claims something.
fn switched_on(wanted: &[Source], snapshot: &Snapshot) -> Markup {
    let counts = Overview::by_source(snapshot);
    let shown = Source::ALL.iter().filter(|own| wanted.contains(own) || counts.contains_key(own));
    let places = snapshot.baselines.iter().fold(BTreeMap::<Source, usize>::new(), |mut places, own| {
        *places.entry(own.baseline.source).or_default() += 1;
        places
    });
    html! {
        section #switched-on data-live {
            div.scroll {
                table.cards {
                    caption { "Where baselines come from" }
                    thead { tr { @for head in ["Source", "Reads", "State", "Baselines", "Objects"] { th scope="col" { (head) } } } }
                    tbody {
                        @for source in shown {
                            tr {
                                th scope="row" data-label="Source" { a href={ "/?source=" (source) } { (source) } }
                                td data-label="Reads" { (reads(*source)) }
                                td data-label="State" { (health_of(*source, snapshot)) }
                                td data-label="Baselines" {
                                    @match places.get(source) {
                                        Some(number) => (number),
                                        None => "–",
                                    }
                                }
                                td data-label="Objects" { (objects(counts.get(source))) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn objects(counts: Option<&Counts>) -> Markup {
    html! {
        @match counts {
            Some(counts) => { (bar(counts)) span.detail { (coverage(counts)) } }
            None => { "none" }
        }
    }
}

fn health_of(source: Source, snapshot: &Snapshot) -> Markup {
    html! {
        @match snapshot.sources.get(&source) {
            Some(WatchHealth::Up) => "found",
            Some(WatchHealth::Starting) => "being looked for",
            Some(WatchHealth::Down { reason, message }) => { strong.off { (reason) } span.detail { (message) } }
            None => "with the objects",
        }
    }
}

fn reads(source: Source) -> &'static str {
    match source {
        Source::Annotation => "a hash in an annotation of the object",
        Source::Terraform => "Terraform and OpenTofu states",
        Source::Helm => "deployed Helm releases",
        Source::LastApplied => "what kubectl applied last",
        Source::Manifest => "directories of YAML",
        Source::StatusHash => "what controllers record in the status",
        Source::Nothing => "nothing: watched, and declared by no source",
    }
}

/// Every open watch.
fn streams(snapshot: &Snapshot) -> Markup {
    html! {
        section #streams data-live {
            div.scroll {
                table.cards {
                    caption { "Streams: the open watches" }
                    thead { tr { @for head in ["Stream", "Selector", "Objects", "State"] { th scope="col" { (head) } } } }
                    tbody {
                        @for kind in &snapshot.kinds {
                            @for (stream, objects) in kind.streams.iter().zip(brought(kind)) {
                                tr {
                                    th scope="row" data-label="Stream" { (stream.spec) }
                                    td data-label="Selector" {
                                        @match &stream.spec.selector {
                                            Some(selector) => code { (selector) },
                                            None => "none",
                                        }
                                    }
                                    td data-label="Objects" { (objects) }
                                    td data-label="State" { (state_of(stream)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// How many objects each stream of a kind brings. Neighbours mostly come through the same one.
fn brought(kind: &KindState) -> Vec<usize> {
    let mut counts = vec![0; kind.streams.len()];
    let mut last = 0;
    for object in kind.blocks.objects() {
        let brings = |at: &usize| kind.streams[*at].spec.brings(&object.key.namespace, &object.key.name);
        let candidates = (last..kind.streams.len()).chain(0..last);
        if let Some(at) = candidates.into_iter().find(brings) {
            (counts[at], last) = (counts[at] + 1, at);
        }
    }
    counts
}

/// What is wrong with sources and states, for people to see first.
pub(super) fn state_banner(snapshot: &Snapshot) -> Markup {
    html! {
        div #state-trouble data-live {
            @for (source, health) in &snapshot.sources {
                @match health {
                    WatchHealth::Down { message, .. } => {
                        div.banner.down role="alert" {
                            strong { "Not all baselines of " (source) " can be found." } " " code { (message) }
                        }
                    }
                    WatchHealth::Starting => {
                        div.banner.waiting { "Waiting for the baselines of " strong { (source) } "." }
                    }
                    WatchHealth::Up => {}
                }
            }
            @for state in snapshot.baselines.iter() {
                @if let Some(BaselineTrouble { message, .. }) = &state.baseline.fault {
                    div.banner.down role="alert" {
                        strong { "The " (baseline_word(state.baseline.source)) " " (state.baseline.name) " cannot be read." }
                        " The verdicts on its objects stand still. " code { (message) }
                    }
                }
            }
        }
    }
}

/// How one source's baselines are told.
struct Heads {
    source: Source,
    title: &'static str,
    name: &'static str,
    /// None where there is no such thing.
    serial: Option<&'static str>,
    written: &'static str,
    /// None where nobody holds anything.
    lock: Option<&'static str>,
}

const TABLES: [Heads; 3] = [
    Heads {
        source: Source::Terraform,
        title: "Terraform states",
        name: "State",
        serial: Some("Serial"),
        written: "Written",
        lock: Some("Lock"),
    },
    Heads {
        source: Source::Helm,
        title: "Helm releases",
        name: "Release",
        serial: Some("Revision"),
        written: "Deployed",
        lock: Some("Status"),
    },
    Heads {
        source: Source::Manifest,
        title: "Manifests",
        name: "Directory",
        serial: None,
        written: "Changed",
        lock: None,
    },
];
/// So many of what cannot be compared are named.
const NAMED: usize = 50;

/// All states, releases and directories, where there are any.
pub(super) fn states(snapshot: &Snapshot, now: Timestamp) -> Markup {
    html! {
        section #states data-live {
            @for heads in TABLES {
                @let own: Vec<_> = snapshot.baselines.iter().filter(|own| own.baseline.source == heads.source).collect();
                @if !own.is_empty() { (table(&heads, &own, now)) }
            }
        }
    }
}

fn table(heads: &Heads, states: &[&BaselineState], now: Timestamp) -> Markup {
    let all =
        [Some(heads.name), Some("Objects"), heads.serial, Some(heads.written), heads.lock, Some("Trouble")];
    html! {
        div.scroll {
            table.cards {
                caption { (heads.title) }
                thead { tr { @for head in all.into_iter().flatten() { th scope="col" { (head) } } } }
                tbody { @for state in states { (row(state, heads, now)) } }
            }
        }
    }
}

fn row(state: &BaselineState, heads: &Heads, now: Timestamp) -> Markup {
    let own = &state.baseline;
    let version = own.version.as_ref();
    html! {
        tr {
            th scope="row" data-label=(heads.name) {
                code { (own.name) }
                @if let Some(chart) = version.and_then(|version| version.chart.as_ref()) { span.detail { (chart) } }
                @match state.belonging {
                    ClusterMatch::Here => {}
                    ClusterMatch::Undecided => { span.detail { "being looked for" } }
                    ClusterMatch::Elsewhere => { span.detail { "none of its objects is in this cluster" } }
                }
            }
            td data-label="Objects" { (own.objects.len()) }
            @if let Some(serial) = heads.serial {
                td data-label=(serial) { @if let Some(version) = version { (version.serial) } @else { "–" } }
            }
            td data-label=(heads.written) {
                @if let Some(written) = version.and_then(|version| version.written) { (ago(written, now)) } @else { "–" }
            }
            @if let Some(head) = heads.lock { td data-label=(head) { (lock(own, now)) } }
            td data-label="Trouble" { (trouble(own)) }
        }
    }
}

/// Who holds a state; what is being done to a release.
fn lock(own: &Baseline, now: Timestamp) -> Markup {
    html! {
        @match &own.lock {
            Some(lock) if own.source == Source::Helm && *lock.operation != *Lock::RELEASED => {
                (lock.operation)
                @if let Some(created) = lock.created { span.detail { (ago(created, now)) } }
            }
            None if own.source == Source::Helm => { @if own.fault.is_none() { "deployed" } @else { "–" } }
            Some(_) if own.source == Source::Helm => { "just deployed" }
            Some(lock) if *lock.operation == *Lock::RELEASED => { "just released" }
            Some(lock) => {
                @if lock.who.is_empty() { "held" } @else { (lock.who) }
                span.detail {
                    (lock.operation)
                    @if let Some(created) = lock.created { ", " (ago(created, now)) }
                }
            }
            None => { "free" }
        }
    }
}

/// Why it cannot be read, and what in it cannot be compared.
fn trouble(own: &Baseline) -> Markup {
    let (skipped, more) = (&own.skipped, own.skipped.len().saturating_sub(NAMED));
    html! {
        @match &own.fault {
            Some(BaselineTrouble { fault, message }) => { strong.off { (fault) } span.detail { (message) } }
            None if skipped.is_empty() => "none",
            None => {}
        }
        @if !skipped.is_empty() {
            details {
                summary { (count(skipped.len(), "is not compared", "are not compared")) }
                ul {
                    @for own in skipped.iter().take(NAMED) { li { code { (own.address) } span.detail { (own.reason) } } }
                    @if more > 0 { li { "and " (more) " more" } }
                }
            }
        }
    }
}

/// How far we can see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// Everything that is watched was listed, and changes arrive.
    Clear,
    /// Some stream still waits for its first list.
    Waiting,
    /// Some stream is down.
    Blind,
}

pub(super) fn sight(snapshot: &Snapshot) -> Sight {
    match StreamCounts::of(snapshot) {
        StreamCounts { down: 1.., .. } => Sight::Blind,
        StreamCounts { waiting: 1.., .. } => Sight::Waiting,
        StreamCounts { .. } => Sight::Clear,
    }
}

/// How many streams fare how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StreamCounts {
    pub(super) up: usize,
    pub(super) waiting: usize,
    pub(super) down: usize,
}

impl StreamCounts {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let mut counts = Self::default();
        for stream in snapshot.streams() {
            match &stream.health {
                WatchHealth::Up => counts.up += 1,
                WatchHealth::Starting => counts.waiting += 1,
                WatchHealth::Down { .. } => counts.down += 1,
            }
        }
        counts
    }
}

/// The streams that are down or still waiting, each with its reason.
pub(super) fn banner(snapshot: &Snapshot) -> Markup {
    html! {
        div #banner data-live {
            @for state in &snapshot.kinds {
                @for stream in &state.streams {
                    @match &stream.health {
                        WatchHealth::Down { reason, message } => {
                            @let objects = state.blocks.entries()
                                .filter(|entry| stream.spec.brings(&entry.object.key.namespace, &entry.object.key.name))
                                .count();
                            div.banner.down role="alert" {
                                strong { "Blind: " (stream.spec) "." }
                                " " (explain(*reason)) " "
                                @if objects > 0 {
                                    (count(objects, "object is", "objects are")) " unknown until it is back. "
                                } @else {
                                    "None of its objects is known. "
                                }
                                code { (message) }
                            }
                        }
                        WatchHealth::Starting => {
                            div.banner.waiting { "Waiting for the first list of " strong { (stream.spec) } "." }
                        }
                        WatchHealth::Up => {}
                    }
                }
            }
        }
    }
}

/// A stream's state in one word or sentence.
pub(super) fn state_of(stream: &WatchState) -> Markup {
    match &stream.health {
        WatchHealth::Up => html! { "up" },
        WatchHealth::Starting => html! { "waiting for its first list" },
        WatchHealth::Down { reason, message } => {
            html! { strong { "down" } " (" (reason) "): " (message) }
        }
    }
}

fn explain(reason: DownReason) -> &'static str {
    match reason {
        DownReason::Forbidden => "The API server forbids listing or watching it.",
        DownReason::NotFound => "The API server does not know the kind.",
        DownReason::Refused => "It is wanted and not asked for.",
        DownReason::Stalled => "The API server said nothing for too long.",
        DownReason::Error => "The API server cannot be reached, or answers with errors.",
    }
}

/// Says that the settings file cannot be used, or that a team's rules cannot.
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

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::settings_banner;
    use crate::config::{Problem, ReloadStatus};

    #[test]
    fn the_banner_is_a_sentence() {
        let then = Timestamp::UNIX_EPOCH;
        let problems = vec![Problem::whole("cannot be read")];
        let status = ReloadStatus { file: None, last_success: then, problems, warnings: Vec::new() };
        let banner = settings_banner(&status, &[], then + SignedDuration::from_secs(55)).into_string();
        // Words between tags, as a browser without the page's styles shows them.
        let text: String = banner.split('<').filter_map(|part| part.split('>').nth(1)).collect();
        let wanted = "The settings file cannot be used. What holds was taken over 55 s ago. cannot be read";
        assert_eq!(text, wanted);
    }
}
