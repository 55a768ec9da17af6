//! What happened, as sentences.
//! What happened to an object, as a picture: a lane for each source, coloured by verdict, from the first thing that is known until now.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

use super::{
    format::{
        ago, badge, by_tool, ending, exact, lasting, object_url, severity, since, tool, until_now,
        verdict_word,
    },
    overview::Row,
};
use crate::{
    engine::{EpisodeNote, Transition, Turn},
    types::{Cause, Episode, Source, UnknownReason, VerdictKind},
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

/// How wide the drawing is in its own units; it is stretched to the room that there is.
const WIDTH: i128 = 1_000;
/// The least width of what was there at all.
const LEAST: i128 = 4;
/// Transitions of an object that are drawn; older ones are in the list.
const DRAWN: usize = 200;

/// A time with one verdict; none where the object was not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    start: Timestamp,
    end: Timestamp,
    verdict: Option<VerdictKind>,
}

/// The spans of one source, oldest first, and when its fields were changed.
#[derive(Debug, Default)]
struct Lane {
    spans: Vec<Span>,
    onsets: Vec<Timestamp>,
}

/// The time that is drawn.
#[derive(Clone, Copy, Debug)]
struct Window {
    start: Timestamp,
    now: Timestamp,
}

/// The picture; nothing where nothing ever happened.
pub(super) fn timeline(rows: &[Row<'_>], history: &[&Transition], now: Timestamp) -> Markup {
    let Some(window) = Window::of(rows, history, now) else { return html! {} };
    let lanes = lanes(rows, history, window);
    let verdicts = || lanes.values().flat_map(|lane| &lane.spans).filter_map(|span| span.verdict);
    html! {
        section #timeline .timeline {
            h2 { "Timeline" }
            @for (source, lane) in &lanes {
                div.lane { span.lane-name { (source) } (drawing(*source, lane, window)) }
            }
            div.axis aria-hidden="true" {
                span { (exact(window.start)) }
                span { (lasting(now.duration_since(window.start))) }
                span { "now" }
            }
            p.legend aria-hidden="true" {
                @for verdict in VerdictKind::ALL.iter().filter(|own| verdicts().any(|drawn| drawn == **own)) { (badge(*verdict)) }
            }
        }
    }
}

impl Window {
    /// From a little before the first thing that is drawn. None where nothing is known to have changed.
    fn of(rows: &[Row<'_>], history: &[&Transition], now: Timestamp) -> Option<Self> {
        let drawn = || history.iter().take(DRAWN);
        let onsets = drawn().filter_map(|own| own.episode.as_ref()).map(|episode| episode.onset);
        let first =
            drawn().map(|own| own.time).chain(onsets).chain(rows.iter().filter_map(Row::onset)).min()?;
        let length = now.duration_since(first).max(SignedDuration::from_secs(60));
        let start = now.checked_sub(length + length / 20).ok()?;
        Some(Self { start, now })
    }

    /// Where a moment is drawn.
    fn place(&self, time: Timestamp) -> i128 {
        let length = self.now.duration_since(self.start).as_millis().max(1);
        (time.duration_since(self.start).as_millis() * WIDTH / length).clamp(0, WIDTH)
    }
}

fn lanes(rows: &[Row<'_>], history: &[&Transition], window: Window) -> BTreeMap<Source, Lane> {
    let mut lanes: BTreeMap<Source, Lane> = BTreeMap::new();
    for transition in history.iter().take(DRAWN).rev() {
        let lane = lanes.entry(transition.source).or_default();
        let Transition { time, from, to, .. } = **transition;
        let (began, onset) = match &transition.episode {
            Some(episode) => (episode.turn == Turn::Began, episode.onset.clamp(window.start, time)),
            None => (false, window.start),
        };
        // It had drifted since its onset, even if we heard of it later. What was before an episode that we found is not known.
        let before = lane.spans.last().map_or(window.start, |last| last.start);
        let time = if began { onset.max(before) } else { time };
        match lane.spans.last_mut() {
            Some(last) => last.end = time,
            None if began => lane.spans.push(Span { start: window.start, end: time, verdict: from }),
            None => lane.spans.push(Span { start: onset, end: time, verdict: from }),
        }
        lane.spans.push(Span { start: time, end: window.now, verdict: to });
        lane.onsets.extend(transition.episode.as_ref().map(|episode| episode.onset));
    }
    for row in rows {
        let lane = lanes.entry(row.found.1.claim.source).or_default();
        lane.onsets.extend(row.onset());
        let judged = row.found.1.claim.verdict.kind();
        if lane.spans.is_empty() {
            lane.spans = since_onset(row, judged, window);
        }
        // What is stale is not in the history: no claim changed. Nobody knows since when, but now it is.
        if row.verdict != judged {
            let (start, end) = (window.now, window.now);
            lane.spans.push(Span { start, end, verdict: Some(row.verdict) });
        }
    }
    for lane in lanes.values_mut() {
        lane.onsets.sort_unstable();
        lane.onsets.dedup();
        lane.onsets.retain(|onset| *onset >= window.start);
    }
    lanes
}

/// A claim that never changed while we watched. What has been off since before is known to be so from its onset on.
fn since_onset(row: &Row<'_>, judged: VerdictKind, Window { start, now }: Window) -> Vec<Span> {
    let verdict = Some(judged);
    match row.onset().filter(|onset| *onset > start) {
        Some(onset) => {
            vec![Span { start, end: onset, verdict: None }, Span { start: onset, end: now, verdict }]
        }
        None => vec![Span { start, end: now, verdict }],
    }
}

fn drawing(source: Source, lane: &Lane, window: Window) -> Markup {
    let told: Vec<String> = lane.spans.iter().filter_map(span_label).collect();
    let words = format!("{source}: {}", told.join(", then "));
    html! {
        svg.bar role="img" aria-label=(words) viewBox={ "0 0 " (WIDTH) " 20" } preserveAspectRatio="none" {
            @for span in &lane.spans {
                @if let (Some(verdict), Some(told)) = (span.verdict, span_label(span)) {
                    @let start = window.place(span.start).min(WIDTH - LEAST);
                    rect class={ "fill-" (verdict) } x=(start) y="2" width=((window.place(span.end) - start).max(LEAST)) height="16" {
                        title { (told) ", from " (exact(span.start)) }
                    }
                }
            }
            @for onset in &lane.onsets {
                @let place = window.place(*onset);
                line.onset x1=(place) x2=(place) y1="0" y2="20" { title { "Changed at " (exact(*onset)) } }
            }
        }
    }
}

/// `drifted for 2 min 10 s`.
fn span_label(span: &Span) -> Option<String> {
    let word = verdict_word(span.verdict?).to_lowercase();
    if span.start == span.end {
        return Some(format!("{word} now"));
    }
    Some(format!("{word} for {}", lasting(span.end.duration_since(span.start))))
}
