//! The places that declare objects: Terraform states, Helm releases, directories of manifests; how old they are, and who
//! writes them.

use jiff::Timestamp;
use maud::{Markup, html};

use super::words::{ago, baseline_word, count};
use crate::{
    engine::{BaselineState, ClusterMatch, Snapshot},
    types::{Baseline, BaselineTrouble, Lock, Source, WatchHealth},
};

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
