//! `GET /objects/{kind[.group]}/{namespace or -}/{name}`: the page of one object.

use std::sync::Arc;

use axum::{
    extract::{Path, State, rejection::PathRejection},
    response::Response,
};
use http::StatusCode;
use jiff::Timestamp;
use maud::{Markup, html};

use super::{
    commands::commands,
    diff::diff_table,
    format::{ago, badge, baseline_word, by_tool, dashboard_url, duration, health, object_url, until_now},
    history::{history_sections, timeline},
    layout::{NavPage, error_page, page},
    rules::matching_rules_section,
    sources::watch_health,
};
use crate::{
    engine::{Snapshot, Transition, WatchState},
    server::{
        Exposed,
        auth::Caller,
        query::{ClaimRow, RequestedObject, TerraformJob, TerraformJobs, matching_rules, transitions_of},
        redaction::ValueRedactor,
    },
    types::{ControllerStatus, DriftKind, LastKnown, ObjectKey, Source, UnknownReason, Verdict},
};

pub(crate) async fn object(
    State(exposed): State<Arc<Exposed>>,
    caller: Caller,
    path: Result<Path<(String, String, String)>, PathRejection>,
) -> Response {
    let now = exposed.clock.now();
    let requested = match path {
        Ok(Path(path)) => RequestedObject::new(path),
        Err(rejection) => {
            let message = html! { (rejection.body_text()) };
            return error_page(StatusCode::BAD_REQUEST, "That is no object", now, &message);
        }
    };
    caller.read(move |caller, snapshot| object_page(requested, &exposed, caller, snapshot)).await
}

fn object_page(
    requested: RequestedObject,
    exposed: &Exposed,
    caller: &Caller,
    snapshot: &Snapshot,
) -> Response {
    let now = exposed.clock.now();
    let claims = requested.find(snapshot);
    if let Some(row) = claims.first() {
        let key = row.entry.key();
        let main = existing_object(&claims, key, snapshot, exposed, caller, now);
        return page(StatusCode::OK, &key.to_string(), Some(NavPage::Objects), now, &main);
    }
    if let Some(key) = requested.find_in_history(snapshot) {
        let main = deleted_object(key, snapshot, now);
        return page(StatusCode::NOT_FOUND, &key.to_string(), Some(NavPage::Objects), now, &main);
    }
    let RequestedObject { kind, namespace, name } = requested;
    let message = html! {
        "No object " code { (kind) " " (namespace) "/" (name) } " is known here, and nothing is remembered of one. "
        "Objects take part with the label " code { (exposed.settings().annotation_prefix) "/enabled=true" } "."
    };
    error_page(StatusCode::NOT_FOUND, "Not known here", now, &message)
}

fn existing_object(
    claims: &[ClaimRow<'_>],
    key: &ObjectKey,
    snapshot: &Snapshot,
    exposed: &Exposed,
    caller: &Caller,
    now: Timestamp,
) -> Markup {
    let settings = exposed.settings();
    let prefix = &*settings.annotation_prefix;
    let values = caller.values();
    let history: Vec<&Transition> = transitions_of(snapshot, key).collect();
    html! {
        main #object .object data-live data-keyed {
            (title(key))
            @if let Some(grafana) = settings.grafana_url.as_deref() {
                p #grafana { a href=(dashboard_url(grafana, key)) rel="noreferrer" { "Dashboard of this object in Grafana" } }
            }
            // Alerts link to this ID.
            div #differences data-keyed { @for row in claims { (claim_section(row, claims.len() > 1, prefix, &values, now)) } }
            (timeline(claims, &history, now))
            (matching_rules_section(&matching_rules(snapshot, claims), caller.sees_everything(), now))
            div #pair .pair data-keyed {
                section #facts { h2 { "Facts" } (facts(claims, &TerraformJobs::new(snapshot, Some(&key.namespace)), now)) }
                section #commands { h2 { "Commands" } (commands(claims, snapshot, prefix, &values, now)) }
            }
            (history_sections(claims.iter().find_map(ClaimRow::episode), &history, now))
        }
    }
}

/// An object that only the history remembers.
fn deleted_object(key: &ObjectKey, snapshot: &Snapshot, now: Timestamp) -> Markup {
    let history: Vec<&Transition> = transitions_of(snapshot, key).collect();
    html! {
        main #object .object data-live data-keyed {
            (title(key))
            p #headline .headline { "It is gone: deleted, or without its opt-in label. This is what is remembered of it." }
            (timeline(&[], &history, now))
            (history_sections(None, &history, now))
        }
    }
}

fn title(key: &ObjectKey) -> Markup {
    html! {
        p #crumbs .crumbs { a href="/" { "All objects" } }
        h1 #title { (key.name) span.detail { (key.kind.kind) @if !key.namespace.is_empty() { " in " (key.namespace) } } }
    }
}

/// The verdict and the differences of one source. `is_named` adds the name of the source.
fn claim_section(
    row: &ClaimRow<'_>,
    is_named: bool,
    prefix: &str,
    values: &ValueRedactor,
    now: Timestamp,
) -> Markup {
    let (claim, namespace) = (&row.entry.claim, &row.entry.key().namespace);
    html! {
        section id={ "claim-" (claim.source) } .claim {
            @if is_named { h2 { "By " (claim.source) } }
            p .headline data-flash id={ "headline-" (claim.source) } {
                // "Drifted for 2 min" is one sentence. Other verdicts end here.
                (badge(row.verdict)) @if !row.is_drifted() { "." } " " (headline(row, prefix, now))
            }
            @if let Some(episode) = row.episode() {
                div id={ "differences-" (claim.source) } { h2 { "Differences" } (diff_table(episode.differences.iter(), namespace, values, now)) }
            }
            @if claim.verdict.ignored_differences().next().is_some() {
                div id={ "ignored-" (claim.source) } {
                    h2 { "Ignored by rules" }
                    (diff_table(claim.verdict.ignored_differences(), namespace, values, now))
                }
            }
            @if !claim.verdict.untrusted_differences().is_empty() {
                div id={ "untrusted-" (claim.source) } {
                    h2 { "Untrusted differences" }
                    (diff_table(claim.verdict.untrusted_differences().iter(), namespace, values, now))
                }
            }
            @if let Some(details) = claim.details.as_ref().filter(|details| !details.blind_fields.is_empty()) {
                div id={ "blind-" (claim.source) } {
                    h2 { "Changed by others, and never read by Terraform" }
                    ul { @for path in &details.blind_fields { li { code.path { (path) } } } }
                }
            }
        }
    }
}

fn watches<'a>(row: &ClaimRow<'a>) -> impl Iterator<Item = &'a WatchState> {
    let key = row.entry.key();
    row.state.watches.iter().filter(move |watch| watch.spec.delivers(&key.namespace, &key.name))
}

fn headline(row: &ClaimRow<'_>, prefix: &str, now: Timestamp) -> Markup {
    let (object, claim) = (&row.entry.object, &row.entry.claim);
    let last_verdict = last_verdict(claim.verdict.drifted_value());
    if row.reason == Some(UnknownReason::Stale) {
        return html! {
            "Changes do not arrive. " (last_verdict)
            @if let Some(watch) = watches(row).next() { " The stream of " (watch.spec) " is " (watch_health(watch)) }
        };
    }
    match &claim.verdict {
        Verdict::Drifted(episode) => {
            let worst = episode.worst();
            html! {
                "for " (until_now(episode.onset, now)) ". "
                @match episode.drift_kind {
                    DriftKind::Missing => "It is declared, and not there.",
                    DriftKind::Replaced => "Another object has taken its name.",
                    DriftKind::Drifted => { "Last changed by " (by_tool(worst.actor, worst.manager)) "." }
                }
            }
        }
        Verdict::InSync => html! { "It is as declared." },
        Verdict::Untrusted(_) => html! {
            "Only baselines of other namespaces declare it, and the settings do not trust them. These differences do not count."
        },
        Verdict::Ignored(_) => html! { "It differs, and rules ignore all of it." },
        Verdict::InFlight(_) if claim.source == Source::StatusHash => {
            html! { "Its controller is at work. " (last_verdict) }
        }
        Verdict::InFlight(_) => html! { "Its baseline is being applied right now. " (last_verdict) },
        Verdict::NoBaseline if claim.source == Source::Unclaimed => {
            html! { "No source declares anything for it." }
        }
        Verdict::NoBaseline => html! {
            "Nothing is declared: it has no annotation " code { (prefix) "/spec-hash" } "."
        },
        Verdict::Unknown(reason, last_known) => html! {
            "It cannot be judged: " (reason.description()) ". "
            @if let Some(record) = object.controller_status().filter(|record| *reason == UnknownReason::PhaseError && !record.message.is_empty()) {
                code { (record.message) } " "
            }
            @if *last_known != LastKnown::NeverJudged { (last_verdict) }
        },
    }
}

fn last_verdict(drifted: Option<bool>) -> &'static str {
    match drifted {
        Some(true) => "When it could last be judged, it had drifted.",
        Some(false) => "When it could last be judged, it was as declared.",
        None => "It was never judged.",
    }
}

fn facts(claims: &[ClaimRow<'_>], jobs: &TerraformJobs, now: Timestamp) -> Markup {
    let Some(row) = claims.first() else { return html! {} };
    let object = &row.entry.object;
    let (key, facts, live) = (object.key(), object.facts(), object.live());
    html! {
        dl.facts {
            dt { "Kind" } dd { (key.kind.kind) span.detail { (key.kind.api_version()) } }
            @if !key.namespace.is_empty() { dt { "Namespace" } dd { (key.namespace) } }
            @if live.is_some() { dt { "Health" } dd { (health(row)) } }
            @if let Some(replicas) = facts.replicas { dt { "Replicas" } dd { (replicas) " wanted" } }
            @if let Some(record) = object.controller_status() { (record_facts(record)) }
            @if let Some(job) = live.and_then(|object| jobs.newest_for(object)) { (job_facts(job, key, now)) }
            @if let Some(instance) = &facts.instance { dt { "Instance" } dd { (instance) } }
            @for claim in claims.iter().map(|row| &row.entry.claim) {
                dt { "Source" } dd { (claim.source) }
                @for declared in claim.declared_by() {
                    dt { "Address" } dd { code { (declared.address) } span.detail { "in " (baseline_word(claim.source)) " " (declared.baseline) } }
                }
                @if let Some(episodes) = claim.episodes { dt { "Episodes in a day" } dd { (episodes.count) } }
            }
            @if let Some(uid) = object.uid() { dt { "Uid" } dd { code { (uid) } } }
            @for watch in watches(row) {
                dt { "Stream" } dd { (watch.spec) span.detail { (watch_health(watch)) } }
            }
        }
    }
}

/// What the object's controller records in the status.
fn record_facts(record: &ControllerStatus) -> Markup {
    html! {
        @if !record.phase.is_empty() { dt { "Phase" } dd { (record.phase) } }
        @if !record.outputs.is_empty() { dt { "Outputs" } dd { (record.outputs.join(", ")) } }
    }
}

fn job_facts(TerraformJob { key: job, run }: TerraformJob<'_>, object: &ObjectKey, now: Timestamp) -> Markup {
    html! {
        dt { "Terraform job" }
        dd {
            @if job == object { (run.subject) } @else { a href=(object_url(job)) { (job.name) } }
            span.detail {
                @match &run.outcome {
                    None => { "running" @if let Some(started) = run.started { ", began " (ago(started, now)) } }
                    Some(outcome) => {
                        @if outcome.succeeded { "succeeded" } @else { "failed" }
                        @if let Some(ended) = outcome.ended { " " (ago(ended, now)) }
                        @if let Some(lasted) = run.duration() { ", took " (duration(lasted)) }
                    }
                }
            }
            @if let Some(failure) = run.outcome.as_ref().filter(|outcome| !outcome.succeeded) {
                span.detail { (failure.reason) @if !failure.message.is_empty() { ": " (failure.message) } }
            }
        }
    }
}
