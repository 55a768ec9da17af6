//! The page of rules: what each says, who answers for it, until when, and how much it matches.
//! The rules that have something to say about what differs in an object.

use std::{collections::BTreeSet, sync::Arc};

use axum::{extract::State, response::Response};
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

use super::{
    format::{ago, count, encode, exact, lasting},
    layout::{Place, page},
    overview::Row,
    sources::settings_banner,
};
use crate::{
    engine::RuleBook,
    rules::{MatchSpec, Origin, Rule},
    server::{Exposed, auth::Caller},
};

/// What ends within this time is worth a word.
const SOON: SignedDuration = SignedDuration::from_hours(48);

/// `GET /rules`.
pub(crate) async fn rules(State(exposed): State<Arc<Exposed>>, caller: Caller) -> Response {
    let now = exposed.clock.now();
    let snapshot = caller.snapshot();
    let all: Vec<(&Rule, u64)> = snapshot.rules.matches().collect();
    let (own, built_in): (Vec<_>, Vec<_>) =
        all.iter().copied().partition(|(rule, _)| *rule.origin() != Origin::BuiltIn);
    let in_use = all.iter().filter(|(_, matches)| *matches > 0).count();
    let main = html! {
        main.rules {
            (settings_banner(&exposed.reload_status.borrow(), &exposed.team_problems.borrow(), now))
            h1 { "Rules" }
            p #rules-summary data-live {
                (count(all.len(), "rule", "rules")) ", of which " (in_use) " match something now. "
                "Where several say something about the same, the last one holds."
            }
            section #own-rules data-live {
                @if own.is_empty() {
                    p.none { "There are no rules but the built-in ones. Settings and teams can write some." }
                } @else {
                    (table("Rules of settings and teams", &own, now))
                }
            }
            section #built-in-rules data-live { (table("Built-in rules", &built_in, now)) }
        }
    };
    page(StatusCode::OK, "Rules", Some(Place::Rules), now, &main)
}

fn table(title: &str, rules: &[(&Rule, u64)], now: Timestamp) -> Markup {
    html! {
        div.scroll {
            table.cards {
                caption { (title) }
                thead { tr {
                    @for head in ["Rule", "Is about", "Says", "Owner", "Expires", "Matches"] { th scope="col" { (head) } }
                } }
                tbody { @for (rule, matches) in rules { (row(rule, *matches, now)) } }
            }
        }
    }
}

fn row(rule: &Rule, matches: u64, now: Timestamp) -> Markup {
    let spec = rule.spec();
    html! {
        tr id={ "rule-" (rule.name()) } class=[(!rule.applies(now)).then_some("over")] {
            th scope="row" data-label="Rule" {
                (rule.name())
                @if let Some(reason) = &spec.reason { span.detail { (reason) } }
            }
            td data-label="Is about" { (about(&spec.matches)) }
            td data-label="Says" { code { (spec.effect) } }
            td data-label="Owner" {
                (spec.owner.as_deref().unwrap_or("–"))
                span.detail { (origin(rule.origin())) }
            }
            td data-label="Expires" { (expiry(rule, now)) }
            td data-label="Matches" {
                @if matches > 0 { a href={ "/?q=" (encode(rule.name())) } { (matches) } } @else { "0" }
            }
        }
    }
}

fn origin(origin: &Origin) -> String {
    match origin {
        Origin::BuiltIn => "built in".to_owned(),
        Origin::Settings => "settings".to_owned(),
        Origin::Team { namespace } => format!("team of {namespace}"),
    }
}

/// Until when a rule applies.
pub(super) fn expiry(rule: &Rule, now: Timestamp) -> Markup {
    html! {
        @match rule.expires() {
            None if rule.is_off() => "switched off",
            None => "never",
            Some(end) if end <= now => { strong { "expired" } span.detail { (ago(end, now)) } }
            Some(end) => {
                @let left = end.duration_since(now);
                @if left < SOON { strong.off { "in " (lasting(left)) } } @else { "in " (lasting(left)) }
                span.detail { (exact(end)) }
            }
        }
    }
}

/// The conditions of a rule, a line each.
fn about(matches: &MatchSpec) -> Markup {
    let values: Vec<String> = matches.values.iter().map(|own| own.0.clone()).collect();
    let labels: Vec<String> = matches.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let conditions = [
        ("kinds", &matches.kinds),
        ("namespaces", &matches.namespaces),
        ("names", &matches.names),
        ("labels", &labels),
        ("sources", &matches.sources),
        ("paths", &matches.paths),
        ("fields", &matches.fields),
        ("actors", &matches.actors),
        ("values", &values),
        ("changes", &matches.changes),
    ];
    let given: Vec<_> = conditions.iter().filter(|(_, own)| !own.is_empty()).collect();
    html! {
        @if given.is_empty() { "everything" }
        @for (name, words) in given {
            span.condition { span.detail { (name) } " " code { (words.join(", ")) } }
        }
    }
}

/// The rules that match any difference, in their order: the last one that says something holds.
pub(super) fn matching(rows: &[Row<'_>], book: &RuleBook, caller: &Caller, now: Timestamp) -> Markup {
    let differences = rows.iter().flat_map(|row| row.found.1.claim.verdict.differences());
    let names: BTreeSet<&str> = differences.flat_map(|own| own.matched.iter().map(|name| &**name)).collect();
    let rules: Vec<&Rule> =
        book.matches().map(|(rule, _)| rule).filter(|rule| names.contains(&**rule.name())).collect();
    html! {
        @if !rules.is_empty() {
            section #rules {
                h2 { "Rules that match" }
                div.scroll {
                    table.cards {
                        thead { tr { @for head in ["Rule", "Says", "Owner", "Expires"] { th scope="col" { (head) } } } }
                        tbody { @for rule in rules { (match_row(rule, caller.sees_everything(), now)) } }
                    }
                }
            }
        }
    }
}

fn match_row(rule: &Rule, is_linked: bool, now: Timestamp) -> Markup {
    let spec = rule.spec();
    html! {
        tr {
            td data-label="Rule" {
                @if is_linked { a href={ "/rules#rule-" (encode(rule.name())) } { (rule.name()) } } @else { (rule.name()) }
                @if let Some(reason) = &spec.reason { span.detail { (reason) } }
            }
            td data-label="Says" { code { (spec.effect) } }
            td data-label="Owner" { (spec.owner.as_deref().unwrap_or("–")) }
            td data-label="Expires" { (expiry(rule, now)) }
        }
    }
}
