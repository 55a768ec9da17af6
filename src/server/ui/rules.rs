//! `GET /rules`: all rules. Also the rules that match an object, for the page of that object.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

use super::{
    format::{ago, card_table, count, duration, encode, exact},
    layout::{NavPage, page},
    sources::settings_banner,
};
use crate::{
    engine::Snapshot,
    rules::{MatchSpec, Rule, RuleOrigin},
    server::{Exposed, auth::Caller},
};

/// Rules that expire within this time are highlighted.
const EXPIRES_SOON: SignedDuration = SignedDuration::from_hours(48);

pub(crate) async fn rules(State(exposed): State<Arc<Exposed>>, caller: Caller) -> Response {
    let snapshot = caller.snapshot().await;
    let pool = exposed.blocking.clone();
    pool.run(move || rules_page(&exposed, &snapshot)).await
}

fn rules_page(exposed: &Exposed, snapshot: &Snapshot) -> Response {
    let now = exposed.clock.now();
    let all: Vec<(&Rule, u64)> = snapshot.rules.matches().collect();
    let (custom, built_in): (Vec<_>, Vec<_>) =
        all.iter().copied().partition(|(rule, _)| *rule.origin() != RuleOrigin::BuiltIn);
    let matching = all.iter().filter(|(_, matches)| *matches > 0).count();
    let main = html! {
        main.rules {
            (settings_banner(&exposed.reload_status.borrow(), &exposed.team_problems(), now))
            h1 { "Rules" }
            p #rules-summary data-live {
                (count(all.len(), "rule", "rules")) ", of which " (matching) " match something now. "
                "Where several say something about the same, the last one holds."
            }
            section #own-rules data-live {
                @if custom.is_empty() {
                    p.none { "There are no rules but the built-in ones. Settings and teams can write some." }
                } @else {
                    (rule_table("Rules of settings and teams", &custom, now))
                }
            }
            section #built-in-rules data-live { (rule_table("Built-in rules", &built_in, now)) }
        }
    };
    page(StatusCode::OK, "Rules", Some(NavPage::Rules), now, &main)
}

fn rule_table(title: &str, rules: &[(&Rule, u64)], now: Timestamp) -> Markup {
    let columns = ["Rule", "Is about", "Says", "Owner", "Expires", "Matches"];
    card_table(
        Some(title),
        &columns,
        &html! { @for (rule, matches) in rules { (rule_row(rule, *matches, now)) } },
    )
}

fn rule_row(rule: &Rule, matches: u64, now: Timestamp) -> Markup {
    let spec = rule.spec();
    html! {
        tr id={ "rule-" (rule.name()) } class=[(!rule.applies(now)).then_some("over")] {
            th scope="row" data-label="Rule" {
                (rule.name())
                @if let Some(reason) = &spec.reason { span.detail { (reason) } }
            }
            td data-label="Is about" { (conditions(&spec.matches)) }
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

fn origin(origin: &RuleOrigin) -> String {
    match origin {
        RuleOrigin::BuiltIn => "built in".to_owned(),
        RuleOrigin::Settings => "settings".to_owned(),
        RuleOrigin::Team { namespace } => format!("team of {namespace}"),
    }
}

fn expiry(rule: &Rule, now: Timestamp) -> Markup {
    html! {
        @match rule.expires() {
            None if rule.is_off() => "switched off",
            None => "never",
            Some(end) if end <= now => { strong { "expired" } span.detail { (ago(end, now)) } }
            Some(end) => {
                @let left = end.duration_since(now);
                @if left < EXPIRES_SOON { strong.off { "in " (duration(left)) } } @else { "in " (duration(left)) }
                span.detail { (exact(end)) }
            }
        }
    }
}

fn conditions(matches: &MatchSpec) -> Markup {
    let values: Vec<String> = matches.values.iter().map(|value| value.0.clone()).collect();
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
    let given: Vec<_> = conditions.iter().filter(|(_, patterns)| !patterns.is_empty()).collect();
    html! {
        @if given.is_empty() { "everything" }
        @for (name, patterns) in given {
            span.condition { span.detail { (name) } " " code { (patterns.join(", ")) } }
        }
    }
}

/// The rules that match an object. `is_linked` links them to `/rules`, which not every caller may open.
pub(super) fn matching_rules_section(rules: &[(&Rule, u64)], is_linked: bool, now: Timestamp) -> Markup {
    let rows = html! { @for (rule, _) in rules { (matching_rule_row(rule, is_linked, now)) } };
    html! {
        @if !rules.is_empty() {
            section #rules {
                h2 { "Rules that match" }
                (card_table(None, &["Rule", "Says", "Owner", "Expires"], &rows))
            }
        }
    }
}

fn matching_rule_row(rule: &Rule, is_linked: bool, now: Timestamp) -> Markup {
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
