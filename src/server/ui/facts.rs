//! What is known about an object beside its verdict.

use jiff::Timestamp;
use maud::{Markup, html};

use super::{
    reports::{record_facts, run_facts},
    rows::{Row, health},
    streams::state_of,
    words::baseline_word,
};
use crate::server::runs::Runs;

/// Kind, health, what controllers say, what declares it, and how its streams fare.
pub(super) fn facts<'a>(rows: &[Row<'a>], runs: &Runs<'a>, now: Timestamp) -> Markup {
    let Some(row) = rows.first() else { return html! {} };
    let (state, entry) = row.found;
    let (object, facts) = (&entry.object, &entry.object.facts);
    let key = &object.key;
    html! {
        dl.facts {
            dt { "Kind" } dd { (key.kind.kind) span.detail { (key.kind.api_version()) } }
            @if !key.namespace.is_empty() { dt { "Namespace" } dd { (key.namespace) } }
            @if object.exists { dt { "Health" } dd { (health(row)) } }
            @if let Some(replicas) = facts.replicas { dt { "Replicas" } dd { (replicas) " wanted" } }
            @if let Some(record) = object.record() { (record_facts(record)) }
            @if let Some(run) = runs.belonging_to(object) { (run_facts(run, key, now)) }
            @if let Some(instance) = &facts.instance { dt { "Instance" } dd { (instance) } }
            @for claim in rows.iter().map(|row| &row.found.1.claim) {
                dt { "Source" } dd { (claim.source) }
                @for declared in claim.declared_by() {
                    dt { "Address" } dd { code { (declared.address) } span.detail { "in " (baseline_word(claim.source)) " " (declared.baseline) } }
                }
                @if let Some(episodes) = claim.episodes { dt { "Episodes in a day" } dd { (episodes.count) } }
            }
            @if object.exists { dt { "Uid" } dd { code { (object.uid) } } }
            @for stream in state.streams.iter().filter(|stream| stream.spec.brings(&key.namespace, &key.name)) {
                dt { "Stream" } dd { (stream.spec) span.detail { (state_of(stream)) } }
            }
        }
    }
}
