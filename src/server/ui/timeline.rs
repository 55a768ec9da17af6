//! What happened to an object, as a picture: a lane for each source, coloured by verdict, from the first thing that is known until now.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

use super::{
    rows::Row,
    words::{badge, exact, lasting, verdict_word},
};
use crate::{
    engine::{Transition, Turn},
    types::{Source, VerdictKind},
};

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
    let told: Vec<String> = lane.spans.iter().filter_map(sentence).collect();
    let words = format!("{source}: {}", told.join(", then "));
    html! {
        svg.bar role="img" aria-label=(words) viewBox={ "0 0 " (WIDTH) " 20" } preserveAspectRatio="none" {
            @for span in &lane.spans {
                @if let (Some(verdict), Some(told)) = (span.verdict, sentence(span)) {
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
fn sentence(span: &Span) -> Option<String> {
    let word = verdict_word(span.verdict?).to_lowercase();
    if span.start == span.end {
        return Some(format!("{word} now"));
    }
    Some(format!("{word} for {}", lasting(span.end.duration_since(span.start))))
}
