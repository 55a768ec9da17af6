//! `GET /log`: the newest log lines, filtered by level and text.

use std::sync::Arc;

use axum::{
    extract::{Query, State, rejection::QueryRejection},
    response::Response,
};
use http::StatusCode;
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    format::count,
    layout::{NavPage, error_page, page},
};
use crate::{
    config::LogLevel,
    server::{
        Exposed, LogLine, LogLines,
        query::{QueryError, parse_option},
    },
};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LogQuery {
    /// The least severe level. Empty for all levels.
    level: String,
    /// A substring of the line or of its target.
    q: String,
}

pub(crate) async fn log(
    State(exposed): State<Arc<Exposed>>,
    query: Result<Query<LogQuery>, QueryRejection>,
) -> Response {
    let now = exposed.clock.now();
    let query = query.map_err(QueryError::from);
    let (query, least) =
        match query.and_then(|Query(query)| Ok((parse_option("level", &query.level)?, query))) {
            Ok((level, query)) => (query, level.unwrap_or(LogLevel::Trace)),
            Err(error) => {
                return error_page(StatusCode::BAD_REQUEST, "That cannot be shown", now, &html! { (error) });
            }
        };
    let text = query.q.trim().to_lowercase();
    let all = exposed.log.newest_first();
    let has_text = |line: &&LogLine| {
        text.is_empty() || line.text.to_lowercase().contains(&text) || line.target.contains(&text)
    };
    let shown: Vec<&LogLine> = all.iter().filter(|line| line.level <= least).filter(has_text).collect();
    let kept = LogLines::level(exposed.settings().log_level).as_str();
    let main = html! {
        main.log data-poll="1000" {
            h1 { "Log" }
            (filter_form(&query))
            p #log-summary .summary data-live {
                (shown.len()) " of the last " (count(all.len(), "line", "lines")) ", the newest first. Lines from level "
                code { (kept) } " on are kept; " code { "log.level" } " in the settings can ask for more."
            }
            (line_table(&shown))
        }
    };
    page(StatusCode::OK, "Log", Some(NavPage::Log), now, &main)
}

fn filter_form(query: &LogQuery) -> Markup {
    html! {
        form #filter .filter method="get" action="/log" role="search" {
            input type="search" name="q" value=(query.q) aria-label="Lines that have this text" autocomplete="off"
                spellcheck="false" placeholder="Lines that have this text";
            select name="level" aria-label="Least severe level" {
                option value="" { "Every level" }
                @for name in LogLevel::ALL.iter().map(|level| level.as_str()) {
                    option value=(name) selected[query.level == name] { (name) @if name != "error" { " and worse" } }
                }
            }
            button type="submit" { "Filter" }
        }
    }
}

fn line_table(shown: &[&LogLine]) -> Markup {
    html! {
        section #log-lines data-live data-keyed {
            @if shown.is_empty() {
                p #log-none .none { "No such line." }
            } @else {
                // Focusable, so that the keyboard can scroll a table that is wider than the screen.
                div #log-scroll .scroll.lines tabindex="0" role="region" aria-label="Lines" data-keyed {
                    table #log-table data-keyed {
                        thead #log-heads { tr { @for column in ["Time", "Level", "Line"] { th scope="col" { (column) } } } }
                        tbody #log-rows data-keyed { @for line in shown { (line_row(line)) } }
                    }
                }
            }
        }
    }
}

fn line_row(line: &LogLine) -> Markup {
    html! {
        tr id={ "line-" (line.number) } class={ "level-" (line.level.as_str()) } {
            td { time datetime=(line.time) { (line.time.strftime("%m-%d %H:%M:%S%.3f")) } }
            td { (line.level.as_str()) }
            td { (line.text) span.detail { (line.target) } }
        }
    }
}
