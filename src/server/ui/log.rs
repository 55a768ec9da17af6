//! The page of the log: what was said lately, from a level on.

use std::sync::Arc;

use axum::{
    extract::{Query, State, rejection::QueryRejection},
    response::Response,
};
use http::StatusCode;
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    format::count,
    layout::{Place, complaint, page},
};
use crate::{
    config::LogLevel,
    server::{Exposed, LogLine, LogLines},
};

const LEVELS: [(LogLevel, &str); 5] = [
    (LogLevel::Error, "error"),
    (LogLevel::Warn, "warn"),
    (LogLevel::Info, "info"),
    (LogLevel::Debug, "debug"),
    (LogLevel::Trace, "trace"),
];

/// Which lines to show.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LogQuery {
    /// The least severe level; empty for all that is logged.
    level: String,
    /// A text that the lines have.
    q: String,
}

/// `GET /log`.
pub(crate) async fn log(
    State(exposed): State<Arc<Exposed>>,
    query: Result<Query<LogQuery>, QueryRejection>,
) -> Response {
    let now = exposed.clock.now();
    let wrong =
        |words: &str| complaint(StatusCode::BAD_REQUEST, "That cannot be shown", now, &html! { (words) });
    let query = match query {
        Ok(Query(query)) => query,
        Err(rejection) => return wrong(&rejection.body_text()),
    };
    let Some(least) = level(&query.level) else {
        let known = LEVELS.map(|(_, word)| word).join(", ");
        return wrong(&format!("There is no level “{}”. There are {known}.", query.level));
    };
    let text = query.q.trim().to_lowercase();
    let all = exposed.log.newest_first();
    let has_text = |line: &&LogLine| {
        text.is_empty() || line.text.to_lowercase().contains(&text) || line.target.contains(&text)
    };
    let shown: Vec<&LogLine> = all.iter().filter(|line| line.level <= least).filter(has_text).collect();
    let kept = word(LogLines::level(exposed.settings().log_level));
    let main = html! {
        main.log data-poll="1000" {
            h1 { "Log" }
            (form(&query))
            p #log-summary .summary data-live {
                (shown.len()) " of the last " (count(all.len(), "line", "lines")) ", the newest first. Lines from level "
                code { (kept) } " on are kept; " code { "log.level" } " in the settings can ask for more."
            }
            (lines(&shown))
        }
    };
    page(StatusCode::OK, "Log", Some(Place::Log), now, &main)
}

/// The least severe level that a word asks for.
fn level(word: &str) -> Option<LogLevel> {
    match word {
        "" => Some(LogLevel::Trace),
        word => LEVELS.iter().find(|(_, own)| *own == word).map(|(level, _)| *level),
    }
}

fn word(level: LogLevel) -> &'static str {
    LEVELS.iter().find(|(own, _)| *own == level).map_or("", |(_, word)| word)
}

fn form(query: &LogQuery) -> Markup {
    html! {
        form #filter .filter method="get" action="/log" role="search" {
            input type="search" name="q" value=(query.q) aria-label="Lines that have this text" autocomplete="off"
                spellcheck="false" placeholder="Lines that have this text";
            select name="level" aria-label="Least severe level" {
                option value="" { "Every level" }
                @for (_, own) in LEVELS {
                    option value=(own) selected[query.level == own] { (own) @if own != "error" { " and worse" } }
                }
            }
            button type="submit" { "Filter" }
        }
    }
}

fn lines(shown: &[&LogLine]) -> Markup {
    html! {
        section #log-lines data-live data-keyed {
            @if shown.is_empty() {
                p #log-none .none { "No such line." }
            } @else {
                // It may be wider than the screen: whoever has no mouse scrolls it once it has the focus.
                div #log-scroll .scroll.lines tabindex="0" role="region" aria-label="Lines" data-keyed {
                    table #log-table data-keyed {
                        thead #log-heads { tr { @for head in ["Time", "Level", "Line"] { th scope="col" { (head) } } } }
                        tbody #log-rows data-keyed { @for line in shown { (row(line)) } }
                    }
                }
            }
        }
    }
}

fn row(line: &LogLine) -> Markup {
    html! {
        tr id={ "line-" (line.number) } class={ "level-" (word(line.level)) } {
            td { time datetime=(line.time) { (clock(line.time)) } }
            td { (word(line.level)) }
            td { (line.text) span.detail { (line.target) } }
        }
    }
}

fn clock(time: Timestamp) -> String {
    time.strftime("%m-%d %H:%M:%S%.3f").to_string()
}
