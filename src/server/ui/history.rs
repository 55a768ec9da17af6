//! The history of objects: transitions as sentences, episodes as a table, verdicts as a timeline.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

use super::format::{
    ago, badge, by_tool, card_table, duration, end_phrase, exact, field_paths, object_url, severity, since,
    tool, until_now, verdict_word,
};
use crate::{
    engine::{EpisodeChange, Transition},
    server::query::ClaimRow,
    types::{Actor, Episode, Severity, Source, UnknownReason, VerdictKind},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// A link to the object.
    Link,
    /// "It", on the page of the object.
    It,
}

pub(super) fn transition_item(transition: &Transition, subject: Subject, now: Timestamp) -> Markup {
    html! {
        li id={ "transition-" (transition.sequence) } class={ "to-" (transition.to.map_or("gone", VerdictKind::as_str)) } {
            span.what { (sentence(transition, subject)) }
            " " span.when { (ago(transition.time, now)) }
        }
    }
}

fn sentence(transition: &Transition, subject: Subject) -> Markup {
    let object = match subject {
        Subject::Link => html! { a href=(object_url(&transition.key)) { (transition.key) } },
        Subject::It => html! { "It" },
    };
    let Some(episode) = &transition.episode else { return verdict_sentence(transition, &object) };
    let lasted = html! { span.lasting { (duration(transition.time.duration_since(episode.onset))) } };
    match episode.change {
        // A deleted object has no managed fields, so the tool is unknown.
        EpisodeChange::Started if transition.to == Some(VerdictKind::Missing) => {
            html! { (object) " went missing." }
        }
        EpisodeChange::Started => html! {
            (object) " " @if transition.to == Some(VerdictKind::Replaced) { "was replaced" } @else { "drifted" }
            ", changed by " (by_tool(episode.actor, episode.manager.as_deref())) "."
        },
        EpisodeChange::Ended(cause) => {
            html! { (object) " " (end_phrase(cause, transition.to)) ", after " (lasted) " of drift." }
        }
        EpisodeChange::Unchanged => verdict_sentence(transition, &object),
    }
}

/// A transition that neither begins nor ends an episode.
fn verdict_sentence(transition: &Transition, object: &Markup) -> Markup {
    let from = transition.from.map(verdict_word);
    match transition.to {
        None => html! { (object) " is gone." },
        Some(VerdictKind::Unknown) => html! {
            (object) " cannot be judged: " (transition.reason.unwrap_or(UnknownReason::Unreadable).description()) "."
        },
        Some(VerdictKind::NoBaseline) => html! { (object) " has no baseline any more." },
        Some(VerdictKind::InSync) => html! { (object) " is as declared." },
        Some(to) => html! {
            (object) " is " (verdict_word(to).to_lowercase())
            @if let Some(from) = from { ", was " (from.to_lowercase()) } "."
        },
    }
}

pub(super) fn history_sections(current: Option<&Episode>, history: &[&Transition], now: Timestamp) -> Markup {
    let had_episode = current.is_some() || history.iter().any(|transition| transition.episode.is_some());
    html! {
        @if had_episode {
            section #episodes { h2 { "Episodes of drift" } (episode_table(current, history, now)) }
        }
        section #history {
            h2 { "History" }
            @if history.is_empty() {
                p.detail { "Its verdict has not changed while we watched." }
            } @else {
                ol.transitions { @for transition in history { (transition_item(transition, Subject::It, now)) } }
            }
        }
    }
}

fn episode_table(current: Option<&Episode>, history: &[&Transition], now: Timestamp) -> Markup {
    let ended = history.iter().filter_map(|transition| {
        let episode = transition.episode.as_ref()?;
        let EpisodeChange::Ended(cause) = episode.change else { return None };
        Some(episode_row(
            &html! { time datetime=(episode.onset) { (exact(episode.onset)) } },
            &html! { (duration(transition.time.duration_since(episode.onset))) },
            (episode.actor, episode.manager.as_deref(), episode.severity),
            episode.paths.iter().map(|path| &**path),
            end_phrase(cause, transition.to),
        ))
    });
    let current = current.map(|episode| {
        let worst = episode.worst();
        episode_row(
            &since(episode.onset, now),
            &until_now(episode.onset, now),
            (worst.actor, worst.manager, worst.severity),
            episode.differences.iter().map(|difference| difference.finding.path.as_str()),
            "not yet",
        )
    });
    let rows = html! { @for row in current.into_iter().chain(ended) { (row) } };
    card_table(None, &["Began", "Lasted", "By", "Fields", "Severity", "How it ended"], &rows)
}

fn episode_row<'a>(
    began: &Markup,
    lasted: &Markup,
    (actor, manager, level): (Actor, Option<&str>, Severity),
    paths: impl ExactSizeIterator<Item = &'a str>,
    end: &str,
) -> Markup {
    html! {
        tr {
            td data-label="Began" { (began) }
            td data-label="Lasted" { (lasted) }
            td data-label="By" { (tool(actor, manager)) }
            td data-label="Fields" { (field_paths(paths)) }
            td data-label="Severity" { (severity(level)) }
            td data-label="How it ended" { (end) }
        }
    }
}

/// The width in user units. The drawing is stretched to the available width.
const WIDTH: i128 = 1_000;
const MIN_SPAN_WIDTH: i128 = 4;
/// The timeline draws this many of the newest transitions.
const MAX_TRANSITIONS: usize = 200;

/// A period with one verdict. `None` means that the object did not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    start: Timestamp,
    end: Timestamp,
    verdict: Option<VerdictKind>,
}

/// The verdicts of one source, oldest first, and the times at which its fields changed.
#[derive(Debug, Default)]
struct Lane {
    spans: Vec<Span>,
    onsets: Vec<Timestamp>,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    start: Timestamp,
    now: Timestamp,
}

/// One lane for each source, coloured by verdict. Empty if no verdict ever changed.
pub(super) fn timeline(claims: &[ClaimRow<'_>], history: &[&Transition], now: Timestamp) -> Markup {
    let Some(window) = Window::new(claims, history, now) else { return html! {} };
    let lanes = lanes(claims, history, window);
    let verdicts = || lanes.values().flat_map(|lane| &lane.spans).filter_map(|span| span.verdict);
    html! {
        section #timeline .timeline {
            h2 { "Timeline" }
            @for (source, lane) in &lanes {
                div.lane { span.lane-name { (source) } (lane_drawing(*source, lane, window)) }
            }
            div.axis aria-hidden="true" {
                span { (exact(window.start)) }
                span { (duration(now.duration_since(window.start))) }
                span { "now" }
            }
            p.legend aria-hidden="true" {
                @for verdict in VerdictKind::ALL.iter().filter(|verdict| verdicts().any(|drawn| drawn == **verdict)) { (badge(*verdict)) }
            }
        }
    }
}

impl Window {
    /// Starts shortly before the first change. `None` if there is no change.
    fn new(claims: &[ClaimRow<'_>], history: &[&Transition], now: Timestamp) -> Option<Self> {
        let drawn = || history.iter().take(MAX_TRANSITIONS);
        let onsets =
            drawn().filter_map(|transition| transition.episode.as_ref()).map(|episode| episode.onset);
        let times = drawn().map(|transition| transition.time);
        let first = times.chain(onsets).chain(claims.iter().filter_map(ClaimRow::onset)).min()?;
        let length = now.duration_since(first).max(SignedDuration::from_secs(60));
        let start = now.checked_sub(length + length / 20).ok()?;
        Some(Self { start, now })
    }

    fn x(&self, time: Timestamp) -> i128 {
        let length = self.now.duration_since(self.start).as_millis().max(1);
        (time.duration_since(self.start).as_millis() * WIDTH / length).clamp(0, WIDTH)
    }
}

fn lanes(claims: &[ClaimRow<'_>], history: &[&Transition], window: Window) -> BTreeMap<Source, Lane> {
    let mut lanes: BTreeMap<Source, Lane> = BTreeMap::new();
    for transition in history.iter().take(MAX_TRANSITIONS).rev() {
        lanes.entry(transition.source).or_default().add(transition, window);
    }
    for row in claims {
        let lane = lanes.entry(row.entry.claim.source).or_default();
        lane.onsets.extend(row.onset());
        let judged = row.entry.claim.verdict.kind();
        if lane.spans.is_empty() {
            lane.spans = spans_since_onset(row, judged, window);
        }
        // A broken watch makes a claim stale without a transition, so the start of that period is unknown.
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

impl Lane {
    /// Adds a transition that is newer than all earlier ones.
    fn add(&mut self, transition: &Transition, window: Window) {
        let Transition { time, from, to, .. } = *transition;
        let (began, onset) = match &transition.episode {
            Some(episode) => {
                (episode.change == EpisodeChange::Started, episode.onset.clamp(window.start, time))
            }
            None => (false, window.start),
        };
        // An episode begins at its onset, even if the exporter observed it later.
        let previous = self.spans.last().map_or(window.start, |last| last.start);
        let time = if began { onset.max(previous) } else { time };
        match self.spans.last_mut() {
            Some(last) => last.end = time,
            None if began => self.spans.push(Span { start: window.start, end: time, verdict: from }),
            // The verdict before an episode that was already open is unknown.
            None => self.spans.push(Span { start: onset, end: time, verdict: from }),
        }
        self.spans.push(Span { start: time, end: window.now, verdict: to });
        self.onsets.extend(transition.episode.as_ref().map(|episode| episode.onset));
    }
}

/// The spans of a claim without transitions. A drifted claim has had its verdict since its onset.
fn spans_since_onset(row: &ClaimRow<'_>, judged: VerdictKind, Window { start, now }: Window) -> Vec<Span> {
    let verdict = Some(judged);
    match row.onset().filter(|onset| *onset > start) {
        Some(onset) => {
            vec![Span { start, end: onset, verdict: None }, Span { start: onset, end: now, verdict }]
        }
        None => vec![Span { start, end: now, verdict }],
    }
}

fn lane_drawing(source: Source, lane: &Lane, window: Window) -> Markup {
    let labels: Vec<String> = lane.spans.iter().filter_map(span_label).collect();
    let label = format!("{source}: {}", labels.join(", then "));
    html! {
        svg.bar role="img" aria-label=(label) viewBox={ "0 0 " (WIDTH) " 20" } preserveAspectRatio="none" {
            @for span in &lane.spans {
                @if let (Some(verdict), Some(label)) = (span.verdict, span_label(span)) {
                    @let start = window.x(span.start).min(WIDTH - MIN_SPAN_WIDTH);
                    rect class={ "fill-" (verdict) } x=(start) y="2" width=((window.x(span.end) - start).max(MIN_SPAN_WIDTH)) height="16" {
                        title { (label) ", from " (exact(span.start)) }
                    }
                }
            }
            @for onset in &lane.onsets {
                @let x = window.x(*onset);
                line.onset x1=(x) x2=(x) y1="0" y2="20" { title { "Changed at " (exact(*onset)) } }
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
    Some(format!("{word} for {}", duration(span.end.duration_since(span.start))))
}
