//! What the overview says where the table has no row.

use maud::{Markup, html};

use super::{filter::Filter, rows::Overview, streams::Sight, words::count};
use crate::config::Settings;

/// Nothing to show: what to do about it.
pub(super) fn empty(overview: &Overview<'_>, filter: &Filter, settings: &Settings) -> Markup {
    let (known, prefix) = (overview.known(), &*settings.annotation_prefix);
    if filter.is_narrow() && known > 0 {
        return html! {
            h2 { "Nothing matches" }
            p { "None of the " (count(known, "object", "objects")) " matches this filter. " a href=(filter.without_filter().url()) { "Show all" } }
        };
    }
    let kinds = overview.kinds.iter().map(String::as_str).collect::<Vec<_>>().join(" and ");
    match overview.sight {
        Sight::Clear if !settings.kinds.is_empty() => html! {
            h2 { "No object is there" }
            p { "Watched are " (kinds) ", where the settings want them, and there is none." }
        },
        Sight::Clear => html! {
            h2 { "Let objects take part" }
            p { "Watched are " (kinds) " with the label " code { (prefix) "/enabled=true" } ", and none has it." }
            p { "Label one, and record its hash in the annotation " code { (prefix) "/spec-hash" } ":" }
            pre { code {
                "kubectl -n NAMESPACE label deployment NAME " (prefix) "/enabled=true\n"
                "hash=$(drift-exporter hash -n NAMESPACE deployment/NAME) && "
                "kubectl -n NAMESPACE annotate deployment NAME " (prefix) "/spec-hash=\"${hash%% *}\""
            } }
            p { "It shows up here within a second." }
        },
        Sight::Waiting => html! {
            h2 { "Nothing is known yet" }
            p { "The API server has not answered every first list. " a href="/readyz" { "What is missing" } }
        },
        Sight::Blind => html! {
            h2 { "Nothing is known" }
            p { "What is said above keeps objects from being seen. It heals by itself once the cause is gone." }
        },
    }
}
