//! What controllers say about their objects, and how the Jobs ran that they made.

use jiff::Timestamp;
use maud::{Markup, html};

use super::{
    links::object_url,
    words::{ago, lasting},
};
use crate::{
    server::runs::Run,
    types::{JobOutcome, ObjectKey, Record},
};

/// What its controller says about an object, among its facts.
pub(super) fn record_facts(record: &Record) -> Markup {
    html! {
        @if !record.phase.is_empty() { dt { "Phase" } dd { (record.phase) } }
        @if !record.outputs.is_empty() { dt { "Outputs" } dd { (record.outputs.join(", ")) } }
    }
}

/// How the newest Job ran that belongs to an object, among its facts.
pub(super) fn run_facts(Run { job, run }: Run<'_>, own: &ObjectKey, now: Timestamp) -> Markup {
    html! {
        dt { "Terraform job" }
        dd {
            @if job == own { (run.subject) } @else { a href=(object_url(job)) { (job.name) } }
            span.detail {
                @match &run.outcome {
                    None => { "running" @if let Some(started) = run.started { ", began " (ago(started, now)) } }
                    Some(outcome) => {
                        (result_word(outcome))
                        @if let Some(ended) = outcome.ended { " " (ago(ended, now)) }
                        @if let Some(lasted) = run.lasted() { ", took " (lasting(lasted)) }
                    }
                }
            }
            @if let Some(failure) = run.outcome.as_ref().filter(|outcome| !outcome.succeeded) {
                span.detail { (failure.reason) @if !failure.message.is_empty() { ": " (failure.message) } }
            }
        }
    }
}

fn result_word(outcome: &JobOutcome) -> &'static str {
    if outcome.succeeded { "succeeded" } else { "failed" }
}
