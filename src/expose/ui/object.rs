//! The page of one object.

use std::sync::Arc;

use axum::{
    extract::{Path, State, rejection::PathRejection},
    response::Response,
};
use http::StatusCode;
use jiff::Timestamp;
use maud::{Markup, html};

use super::{
    commands::{accept, deploy_again, look, manifest, plan},
    history::{Subject, episodes, item},
    layout::{complaint, page},
    reports::{record_facts, run_facts},
    rows::{Row, health},
    streams::state_of,
    words::{badge, baseline_word, because, by_tool, severity, since, tool, until_now, value},
};
use crate::{
    expose::{
        Exposed,
        access::Caller,
        lookup::{Named, history_of},
        runs::Runs,
        values::Values,
    },
    model::{
        Algorithm, Difference, Episode, Held, ObjectKey, Source, Stamp, Trouble, UnknownReason, Verdict,
        VerdictKind,
    },
    state::{BaselineState, Claim, Snapshot, Transition},
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
        return page(StatusCode::OK, &key.to_string(), now, &main);
    }
    if let Some(key) = named.find_in_history(&snapshot) {
        return page(StatusCode::NOT_FOUND, &key.to_string(), now, &gone(key, &snapshot, now));
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
    let hashed =
        rows.iter().find(|row| matches!(row.found.1.claim.source, Source::Annotation | Source::Nothing));
    let accepts = |row: &Row<'_>| row.episode.is_some() || row.verdict == VerdictKind::NoBaseline;
    html! {
        main #object .object data-live data-keyed {
            (title(key))
            @for row in rows { (claim(row, rows.len() > 1, prefix, &values, now)) }
            div #pair .pair data-keyed {
                section #facts { h2 { "Facts" } (facts(rows, &Runs::of(snapshot), now)) }
                section #commands {
                    h2 { "Commands" }
                    p { "See it, and who owns which field:" }
                    pre { code { (look(key)) } }
                    @if let Some(row) = hashed.filter(|row| accepts(row)) {
                        p { "Accept it as it is now:" }
                        pre { code { (accept(key, prefix, algorithm(&row.found.1.object.stamp))) } }
                    }
                    @for row in rows { (of_tool(&row.found.1.claim, snapshot)) }
                }
            }
            (past(rows.iter().find_map(|row| row.episode), &history, now))
        }
    }
}

/// What the tool that declares an object can do about it.
fn of_tool(claim: &Claim, snapshot: &Snapshot) -> Markup {
    let Some(declared) = claim.declared_by().first() else { return html! {} };
    let is_own =
        |own: &&BaselineState| own.baseline.source == claim.source && own.baseline.name == declared.baseline;
    let baseline = snapshot.baselines.iter().find(is_own);
    let revision = baseline.and_then(|own| own.baseline.version.as_ref()).map(|own| own.serial);
    html! {
        @match claim.source {
            Source::Terraform => {
                p { "See what Terraform would do about it:" }
                pre { code { (plan(&declared.address)) } }
            }
            Source::Helm => {
                p { "See what Helm declares:" }
                pre { code { (manifest(&declared.baseline)) } }
                @if let Some(revision) = revision {
                    p { "Have Helm put back what others changed in the release:" }
                    pre { code { (deploy_again(&declared.baseline, revision)) } }
                }
            }
            Source::Annotation | Source::LastApplied | Source::Manifest | Source::StatusHash | Source::Nothing => {}
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
                div id={ "differences-" (claim.source) } { h2 { "Differences" } (differences(episode.differences.iter(), values, now)) }
            }
            @if claim.verdict.ignored_differences().next().is_some() {
                div id={ "ignored-" (claim.source) } {
                    h2 { "Ignored by rules" }
                    (differences(claim.verdict.ignored_differences(), values, now))
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

/// How the hash was made that the object is stamped with; none where it has none that could be kept to.
fn algorithm(stamp: &Stamp) -> Option<Algorithm> {
    match stamp {
        Stamp::Mismatch(mismatch) => Some(mismatch.algorithm),
        Stamp::Unasked | Stamp::Absent | Stamp::Unusable(_) | Stamp::Match(_) => None,
    }
}

/// An object that is gone, as far as the history remembers it.
fn gone(key: &ObjectKey, snapshot: &Snapshot, now: Timestamp) -> Markup {
    let history: Vec<&Transition> = history_of(snapshot, key).collect();
    html! {
        main #object .object data-live data-keyed {
            (title(key))
            p #headline .headline { "It is gone: deleted, or without its opt-in label. This is what is remembered of it." }
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
        Verdict::Off(episode) if episode.trouble == Trouble::Missing => {
            html! { "for " (until_now(episode.onset, now)) ". It is declared, and not there." }
        }
        Verdict::Off(episode) if episode.trouble == Trouble::Replaced => {
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
            "It cannot be judged: " (because(*reason)) ". "
            @if let Some(record) = entry.object.record().filter(|own| *reason == UnknownReason::PhaseError && !own.message.is_empty()) {
                code { (record.message) } " "
            }
            @if *before != Held::Nothing { (held(entry.claim.verdict.drifted())) }
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

fn differences<'a>(
    differences: impl Iterator<Item = &'a Difference>,
    values: &Values,
    now: Timestamp,
) -> Markup {
    html! {
        div.scroll {
            table.cards {
                thead { tr {
                    @for head in ["Field", "Declared", "Actual", "Severity", "By", "Since"] { th scope="col" { (head) } }
                } }
                tbody {
                    @for difference in differences {
                        tr {
                            td data-label="Field" {
                                code.path { (difference.finding.path) }
                                span.detail { (difference.finding.class) }
                            }
                            td data-label="Declared" { (value(&values.expected(&difference.finding))) }
                            td data-label="Actual" { (value(&values.actual(&difference.finding))) }
                            td data-label="Severity" {
                                (severity(difference.severity))
                                @match &difference.ignored_by {
                                    Some(rule) => { span.detail { "ignored by " (rule) } }
                                    None => { span.detail { (difference.expectation) } }
                                }
                            }
                            td data-label="By" { (tool(difference.actor, difference.manager())) }
                            td data-label="Since" { (since(difference.onset, now)) }
                        }
                    }
                }
            }
        }
    }
}

fn facts<'a>(rows: &[Row<'a>], runs: &Runs<'a>, now: Timestamp) -> Markup {
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
