//! The page of one object.
//! What is known about an object beside its verdict.
//! What controllers say about their objects, and how the Jobs ran that they made.

use std::sync::Arc;

use axum::{
    extract::{Path, State, rejection::PathRejection},
    response::Response,
};
use http::StatusCode;
use jiff::Timestamp;
use maud::{Markup, html};

use super::{
    commands::{Patient, remedies},
    diff::side_by_side,
    format::{ago, badge, baseline_word, by_tool, dashboard_url, lasting, object_url, until_now},
    history::{Subject, episodes, item, timeline},
    layout::{Place, complaint, page},
    overview::{Row, health_cell},
    rules::matching,
    sources::state_of,
};
use crate::{
    engine::{Snapshot, Transition},
    server::{
        Exposed,
        auth::Caller,
        query::{Named, Run, Runs, history_of},
        values::Values,
    },
    types::{
        DriftKind, Episode, JobOutcome, LastKnown, ObjectKey, Record, Source, UnknownReason, Verdict,
        VerdictKind,
    },
};

/// `GET /objects/{kind[.group]}/{namespace or -}/{name}`.
pub(crate) async fn object(
    State(exposed): State<Arc<Exposed>>,
    caller: Caller,
    path: Result<Path<(String, String, String)>, PathRejection>,
) -> Response {
    let now = exposed.clock.now();
    let named = match path {
        Ok(Path(path)) => Named::new(path),
        Err(rejection) => {
            let words = html! { (rejection.body_text()) };
            return complaint(StatusCode::BAD_REQUEST, "That is no object", now, &words);
        }
    };
    let snapshot = caller.snapshot();
    if let Some((state, entries)) = named.find(&snapshot) {
        let rows: Vec<Row<'_>> = entries.iter().map(|entry| Row::new((state, entry))).collect();
        let key = &entries[0].object.key;
        let main = known(&rows, key, &snapshot, &exposed, &caller, now);
        return page(StatusCode::OK, &key.to_string(), Some(Place::Objects), now, &main);
    }
    if let Some(key) = named.find_in_history(&snapshot) {
        let main = gone(key, &snapshot, now);
        return page(StatusCode::NOT_FOUND, &key.to_string(), Some(Place::Objects), now, &main);
    }
    let words = html! {
        "No object " code { (named.kind) " " (named.namespace) "/" (named.name) } " is known here, and nothing is remembered of one. "
        "Objects take part with the label " code { (exposed.settings().annotation_prefix) "/enabled=true" } "."
    };
    complaint(StatusCode::NOT_FOUND, "Not known here", now, &words)
}

fn known(
    rows: &[Row<'_>],
    key: &ObjectKey,
    snapshot: &Snapshot,
    exposed: &Exposed,
    caller: &Caller,
    now: Timestamp,
) -> Markup {
    let settings = exposed.settings();
    let prefix = &*settings.annotation_prefix;
    let values = caller.values();
    let history: Vec<&Transition> = history_of(snapshot, key).collect();
    let patient = Patient { key, rows, snapshot, prefix };
    html! {
        main #object .object data-live data-keyed {
            (title(key))
            @if let Some(grafana) = settings.grafana_url.as_deref() {
                p #grafana { a href=(dashboard_url(grafana, key)) rel="noreferrer" { "Dashboard of this object in Grafana" } }
            }
            // Alerts lead here.
            div #differences data-keyed { @for row in rows { (claim(row, rows.len() > 1, prefix, &values, now)) } }
            (timeline(rows, &history, now))
            (matching(rows, &snapshot.rules, caller, now))
            div #pair .pair data-keyed {
                section #facts { h2 { "Facts" } (facts(rows, &Runs::of(snapshot), now)) }
                section #commands { h2 { "Commands" } (remedies(patient, &values, now)) }
            }
            (past(rows.iter().find_map(|row| row.episode), &history, now))
        }
    }
}

/// What one source says about the object. Where there are several, each is named.
fn claim(row: &Row<'_>, is_named: bool, prefix: &str, values: &Values, now: Timestamp) -> Markup {
    let claim = &row.found.1.claim;
    html! {
        section id={ "claim-" (claim.source) } .claim {
            @if is_named { h2 { "By " (claim.source) } }
            p .headline data-flash id={ "headline-" (claim.source) } {
                (badge(row.verdict)) @if !goes_on_after_the_verdict(row) { "." } " " (headline(row, prefix, now))
            }
            @if let Some(episode) = row.episode {
                div id={ "differences-" (claim.source) } { h2 { "Differences" } (side_by_side(episode.differences.iter(), values, now)) }
            }
            @if claim.verdict.ignored_differences().next().is_some() {
                div id={ "ignored-" (claim.source) } {
                    h2 { "Ignored by rules" }
                    (side_by_side(claim.verdict.ignored_differences(), values, now))
                }
            }
            @if let Some(details) = claim.details.as_ref().filter(|details| !details.blind.is_empty()) {
                div id={ "blind-" (claim.source) } {
                    h2 { "Changed by others, and never read by Terraform" }
                    ul { @for path in &details.blind { li { code.path { (path) } } } }
                }
            }
        }
    }
}

/// An object that is gone, as far as the history remembers it.
fn gone(key: &ObjectKey, snapshot: &Snapshot, now: Timestamp) -> Markup {
    let history: Vec<&Transition> = history_of(snapshot, key).collect();
    html! {
        main #object .object data-live data-keyed {
            (title(key))
            p #headline .headline { "It is gone: deleted, or without its opt-in label. This is what is remembered of it." }
            (timeline(&[], &history, now))
            (past(None, &history, now))
        }
    }
}

fn title(key: &ObjectKey) -> Markup {
    html! {
        p #crumbs .crumbs { a href="/" { "All objects" } }
        h1 #title { (key.name) span.detail { (key.kind.kind) @if !key.namespace.is_empty() { " in " (key.namespace) } } }
    }
}

/// "Drifted for 2 min": one sentence. All others have their own after the verdict.
fn goes_on_after_the_verdict(row: &Row<'_>) -> bool {
    matches!(row.verdict, VerdictKind::Drifted | VerdictKind::Missing | VerdictKind::Replaced)
}

/// The verdict in plain words.
fn headline(row: &Row<'_>, prefix: &str, now: Timestamp) -> Markup {
    let (state, entry) = row.found;
    if row.reason == Some(UnknownReason::Stale) {
        let down = state
            .streams
            .iter()
            .find(|stream| stream.spec.brings(&entry.object.key.namespace, &entry.object.key.name));
        return html! {
            "Changes do not arrive. " (held(entry.claim.verdict.drifted()))
            @if let Some(stream) = down { " The stream of " (stream.spec) " is " (state_of(stream)) }
        };
    }
    match &entry.claim.verdict {
        Verdict::Off(episode) if episode.trouble == DriftKind::Missing => {
            html! { "for " (until_now(episode.onset, now)) ". It is declared, and not there." }
        }
        Verdict::Off(episode) if episode.trouble == DriftKind::Replaced => {
            html! { "for " (until_now(episode.onset, now)) ". Another object has taken its name." }
        }
        Verdict::Off(episode) => {
            let worst = episode.worst();
            html! {
                "for " (until_now(episode.onset, now)) ". Last changed by " (by_tool(worst.actor, worst.manager)) "."
            }
        }
        Verdict::InSync => html! { "It is as declared." },
        Verdict::Ignored(_) => html! { "It differs, and rules ignore all of it." },
        Verdict::InFlight(_) if entry.claim.source == Source::StatusHash => {
            html! { "Its controller is at work. " (held(entry.claim.verdict.drifted())) }
        }
        Verdict::InFlight(_) => {
            html! { "Its baseline is being applied right now. " (held(entry.claim.verdict.drifted())) }
        }
        Verdict::NoBaseline if entry.claim.source == Source::Nothing => {
            html! { "No source declares anything for it." }
        }
        Verdict::NoBaseline => html! {
            "Nothing is declared: it has no annotation " code { (prefix) "/spec-hash" } "."
        },
        Verdict::Unknown(reason, before) => html! {
            "It cannot be judged: " (reason.because()) ". "
            @if let Some(record) = entry.object.record().filter(|own| *reason == UnknownReason::PhaseError && !own.message.is_empty()) {
                code { (record.message) } " "
            }
            @if *before != LastKnown::Nothing { (held(entry.claim.verdict.drifted())) }
        },
    }
}

fn held(drifted: Option<bool>) -> &'static str {
    match drifted {
        Some(true) => "When it could last be judged, it had drifted.",
        Some(false) => "When it could last be judged, it was as declared.",
        None => "It was never judged.",
    }
}

fn past(current: Option<&Episode>, history: &[&Transition], now: Timestamp) -> Markup {
    let had_episode = current.is_some() || history.iter().any(|transition| transition.episode.is_some());
    html! {
        @if had_episode {
            section #episodes { h2 { "Episodes of drift" } (episodes(current, history, now)) }
        }
        section #history {
            h2 { "History" }
            @if history.is_empty() {
                p.detail { "Its verdict has not changed while we watched." }
            } @else {
                ol.transitions { @for transition in history { (item(transition, Subject::This, now)) } }
            }
        }
    }
}

/// Kind, health_cell, what controllers say, what declares it, and how its streams fare.
pub(super) fn facts<'a>(rows: &[Row<'a>], runs: &Runs<'a>, now: Timestamp) -> Markup {
    let Some(row) = rows.first() else { return html! {} };
    let (state, entry) = row.found;
    let (object, facts) = (&entry.object, &entry.object.facts);
    let key = &object.key;
    html! {
        dl.facts {
            dt { "Kind" } dd { (key.kind.kind) span.detail { (key.kind.api_version()) } }
            @if !key.namespace.is_empty() { dt { "Namespace" } dd { (key.namespace) } }
            @if object.exists { dt { "Health" } dd { (health_cell(row)) } }
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
