//! The rules that have something to say about what differs in an object.

use std::collections::BTreeSet;

use jiff::Timestamp;
use maud::{Markup, html};

use super::{links::encode, rows::Row, rules::expiry};
use crate::{engine::RuleBook, rules::Rule, server::access::Caller};

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
                        tbody { @for rule in rules { (row(rule, caller.sees_everything(), now)) } }
                    }
                }
            }
        }
    }
}

fn row(rule: &Rule, is_linked: bool, now: Timestamp) -> Markup {
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
