//! How many objects have which verdict. Each tile is a filter.

use maud::{Markup, html};

use super::{
    filter::Filter,
    rows::Overview,
    streams::Sight,
    words::{shape, verdict_word},
};
use crate::types::VerdictKind;

/// Verdicts in the order in which they need attention.
pub(super) const BY_URGENCY: [VerdictKind; 8] = [
    VerdictKind::Drifted,
    VerdictKind::Missing,
    VerdictKind::Replaced,
    VerdictKind::Unknown,
    VerdictKind::InFlight,
    VerdictKind::NoBaseline,
    VerdictKind::Ignored,
    VerdictKind::InSync,
];

/// A tile for each verdict that there is, and for those that people look for.
pub(super) fn tiles(overview: &Overview<'_>, filter: &Filter) -> Markup {
    let usual = |verdict| {
        matches!(
            verdict,
            VerdictKind::Drifted | VerdictKind::Unknown | VerdictKind::NoBaseline | VerdictKind::InSync
        )
    };
    html! {
        nav #tiles .tiles aria-label="Objects by verdict" data-live data-keyed {
            @for verdict in BY_URGENCY {
                @let number = overview.counts.get(&verdict).copied().unwrap_or(0);
                @let total = overview.total(verdict);
                @let chosen = filter.verdict == Some(verdict);
                @if number > 0 || usual(verdict) || chosen {
                    @let target = filter.with_verdict((!chosen).then_some(verdict));
                    a id={ "tile-" (verdict) } class={ "tile " (verdict) @if number == 0 { " none" } }
                        href=(target.url()) aria-current=[chosen.then_some("true")] data-flash {
                        // Where something cannot be seen, none is not known to be none.
                        span.number {
                            @if number == 0 && overview.sight != Sight::Clear { "–" } @else { (number) }
                            // The headline tells about everything; a filter must not seem to contradict it.
                            @if number != total { span.of { " of " (total) } }
                        }
                        span.word { (shape(verdict)) (verdict_word(verdict)) }
                    }
                }
            }
        }
    }
}
