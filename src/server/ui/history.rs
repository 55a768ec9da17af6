//! What happened, as sentences.

use jiff::Timestamp;
use maud::{Markup, html};

use super::{
    links::object_url,
    words::{ago, by_tool, ending, exact, lasting, severity, since, tool, until_now, verdict_word},
};
use crate::{
    engine::{EpisodeNote, Transition, Turn},
    types::{Cause, Episode, UnknownReason, VerdictKind},
};

/// Whose transitions a list has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// Those of many objects: each is named, with a link to its page.
    Many,
    /// Those of the object whose page it is.
    This,
}

/// One transition as an item of a list.
pub(super) fn item(transition: &Transition, subject: Subject, now: Timestamp) -> Markup {
    html! {
        li id={ "transition-" (transition.sequence) } class={ "to-" (transition.to.map_or("gone", VerdictKind::as_str)) } {
            span.what { (sentence(transition, subject)) }
            " " span.when { (ago(transition.time, now)) }
        }
    }
}

fn sentence(transition: &Transition, subject: Subject) -> Markup {
    let object = match subject {
        Subject::Many => html! { a href=(object_url(&transition.key)) { (transition.key) } },
        Subject::This => html! { "It" },
    };
    let Some(episode) = &transition.episode else { return plain(transition, &object) };
    let lasted = html! { span.lasting { (lasting(transition.time.duration_since(episode.onset))) } };
    match episode.turn {
        // Nobody signs a deletion.
        Turn::Began if transition.to == Some(VerdictKind::Missing) => html! { (object) " went missing." },
        Turn::Began => html! {
            (object) " " (began(transition.to)) ", changed by "
            (by_tool(episode.actor, episode.manager.as_deref())) "."
        },
        Turn::Ended(Cause::Reverted) => html! { (object) " is as declared again, after " (lasted) "." },
        Turn::Ended(Cause::Absorbed) => {
            html! { (object) " is now declared as it is, after " (lasted) " of drift." }
        }
        Turn::Ended(Cause::Deleted) if transition.to.is_none() => {
            html! { (object) " was deleted, after " (lasted) " of drift." }
        }
        Turn::Ended(Cause::Deleted) => html! { (object) " lost its baseline, after " (lasted) " of drift." },
        Turn::Ended(Cause::Rule) => html! { (object) " is now ignored by a rule, after " (lasted) "." },
        Turn::GoesOn => plain(transition, &object),
    }
}

fn began(to: Option<VerdictKind>) -> &'static str {
    match to {
        Some(VerdictKind::Replaced) => "was replaced",
        _ => "drifted",
    }
}

/// A transition that neither begins nor ends an episode.
fn plain(transition: &Transition, object: &Markup) -> Markup {
    let from = transition.from.map(verdict_word);
    match transition.to {
        None => html! { (object) " is gone." },
        Some(VerdictKind::Unknown) => html! {
            (object) " cannot be judged: " (transition.reason.unwrap_or(UnknownReason::Unreadable).because()) "."
        },
        Some(VerdictKind::NoBaseline) => html! { (object) " has no baseline any more." },
        Some(VerdictKind::InSync) => html! { (object) " is as declared." },
        Some(to) => html! {
            (object) " is " (verdict_word(to).to_lowercase())
            @if let Some(from) = from { ", was " (from.to_lowercase()) } "."
        },
    }
}

/// The episodes of one object: the one that goes on, and those that ended.
pub(super) fn episodes(current: Option<&Episode>, history: &[&Transition], now: Timestamp) -> Markup {
    let ended = history.iter().filter_map(|transition| {
        let note = transition.episode.as_ref()?;
        match note.turn {
            Turn::Ended(cause) => Some((transition.time, note, cause)),
            Turn::Began | Turn::GoesOn => None,
        }
    });
    html! {
        div.scroll {
            table.cards {
                thead { tr {
                    @for head in ["Began", "Lasted", "By", "Fields", "Severity", "How it ended"] { th scope="col" { (head) } }
                } }
                tbody {
                    @if let Some(episode) = current { (going_on(episode, now)) }
                    @for (end, note, cause) in ended { (over(note, end, cause)) }
                }
            }
        }
    }
}

fn going_on(episode: &Episode, now: Timestamp) -> Markup {
    let worst = episode.worst();
    let paths = episode.differences.iter().map(|difference| &*difference.finding.path);
    html! {
        tr {
            td data-label="Began" { (since(episode.onset, now)) }
            td data-label="Lasted" { (until_now(episode.onset, now)) }
            td data-label="By" { (tool(worst.actor, worst.manager)) }
            td data-label="Fields" { (fields(paths)) }
            td data-label="Severity" { (severity(worst.severity)) }
            td data-label="How it ended" { "not yet" }
        }
    }
}

fn over(note: &EpisodeNote, end: Timestamp, cause: Cause) -> Markup {
    html! {
        tr {
            td data-label="Began" { time datetime=(note.onset) { (exact(note.onset)) } }
            td data-label="Lasted" { (lasting(end.duration_since(note.onset))) }
            td data-label="By" { (tool(note.actor, note.manager.as_deref())) }
            td data-label="Fields" { (fields(note.paths.iter().map(|path| &**path))) }
            td data-label="Severity" { (severity(note.severity)) }
            td data-label="How it ended" { (ending(cause)) }
        }
    }
}

/// A few paths, and how many more there are.
pub(super) fn fields<'a>(paths: impl ExactSizeIterator<Item = &'a str>) -> Markup {
    const SHOWN: usize = 3;
    let more = paths.len().saturating_sub(SHOWN);
    html! {
        @for path in paths.take(SHOWN) { code.path { (path) } " " }
        @if more > 0 { span.detail { "and " (more) " more" } }
    }
}
