//! The places that declare objects: Terraform states and Helm releases, how old they are, and who writes them.

use jiff::Timestamp;
use maud::{Markup, html};

use super::words::{ago, baseline_word, count};
use crate::{
    model::{BaselineTrouble, Lock, Source, StreamHealth},
    state::{BaselineState, Belonging, Snapshot},
};

/// What is wrong with sources and states, for people to see first.
pub(super) fn state_banner(snapshot: &Snapshot) -> Markup {
    html! {
        div #state-trouble data-live {
            @for (source, health) in &snapshot.sources {
                @match health {
                    StreamHealth::Down { message, .. } => {
                        div.banner.down role="alert" {
                            strong { "Not all baselines of " (source) " can be found." } " " code { (message) }
                        }
                    }
                    StreamHealth::Starting => {
                        div.banner.waiting { "Waiting for the baselines of " strong { (source) } "." }
                    }
                    StreamHealth::Up => {}
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

/// All states and releases, where there are any.
pub(super) fn states(snapshot: &Snapshot, now: Timestamp) -> Markup {
    let of = |source| snapshot.baselines.iter().filter(move |own| own.baseline.source == source);
    html! {
        section #states data-live {
            (table("Terraform states", ["State", "Objects", "Serial", "Written", "Lock"], of(Source::Terraform), now))
            (table("Helm releases", ["Release", "Objects", "Revision", "Deployed", "Status"], of(Source::Helm), now))
        }
    }
}

fn table<'a>(
    title: &str,
    heads: [&str; 5],
    states: impl Iterator<Item = &'a BaselineState>,
    now: Timestamp,
) -> Markup {
    let mut states = states.peekable();
    html! {
        @if states.peek().is_some() {
            h2 { (title) }
            div.scroll {
                table.cards {
                    thead { tr { @for head in heads { th scope="col" { (head) } } } }
                    tbody { @for state in states { (row(state, heads, now)) } }
                }
            }
        }
    }
}

fn row(state: &BaselineState, [name, objects, serial, written, lock]: [&str; 5], now: Timestamp) -> Markup {
    let own = &state.baseline;
    let version = own.version.as_ref();
    html! {
        tr {
            td data-label=(name) {
                code { (own.name) }
                @if let Some(chart) = version.and_then(|version| version.chart.as_ref()) { span.detail { (chart) } }
                @match state.belonging {
                    Belonging::Here => {}
                    Belonging::Undecided => { span.detail { "being looked for" } }
                    Belonging::Elsewhere => { span.detail { "none of its objects is in this cluster" } }
                }
            }
            td data-label=(objects) {
                (own.objects.len())
                @if !own.skipped.is_empty() { span.detail { (count(own.skipped.len(), "is not compared", "are not compared")) } }
            }
            td data-label=(serial) { @if let Some(version) = version { (version.serial) } @else { "–" } }
            td data-label=(written) {
                @if let Some(written) = version.and_then(|version| version.written) { (ago(written, now)) } @else { "–" }
            }
            td data-label=(lock) {
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
    }
}
