//! The places that declare objects: Terraform states, how old they are, and who writes them.

use jiff::Timestamp;
use maud::{Markup, html};

use super::words::{ago, count};
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
                        strong { "State " (state.baseline.name) " cannot be read." }
                        " The verdicts on its objects stand still. " code { (message) }
                    }
                }
            }
        }
    }
}

/// All states, where there are any.
pub(super) fn states(snapshot: &Snapshot, now: Timestamp) -> Markup {
    let states: Vec<&BaselineState> =
        snapshot.baselines.iter().filter(|own| own.baseline.source == Source::Terraform).collect();
    html! {
        section #states data-live {
            @if !states.is_empty() {
                h2 { "Terraform states" }
                div.scroll {
                    table.cards {
                        thead { tr {
                            @for head in ["State", "Objects", "Serial", "Written", "Lock"] { th scope="col" { (head) } }
                        } }
                        tbody { @for state in states { (row(state, now)) } }
                    }
                }
            }
        }
    }
}

fn row(state: &BaselineState, now: Timestamp) -> Markup {
    let own = &state.baseline;
    let version = own.version.as_ref();
    html! {
        tr {
            td data-label="State" {
                code { (own.name) }
                @match state.belonging {
                    Belonging::Here => {}
                    Belonging::Undecided => { span.detail { "being looked for" } }
                    Belonging::Elsewhere => { span.detail { "none of its objects is in this cluster" } }
                }
            }
            td data-label="Objects" {
                (own.objects.len())
                @if !own.skipped.is_empty() { span.detail { (count(own.skipped.len(), "is not compared", "are not compared")) } }
            }
            td data-label="Serial" { @if let Some(version) = version { (version.serial) } @else { "–" } }
            td data-label="Written" {
                @if let Some(written) = version.and_then(|version| version.written) { (ago(written, now)) } @else { "–" }
            }
            td data-label="Lock" {
                @match &own.lock {
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
