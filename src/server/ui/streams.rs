//! What we cannot see. Nothing may look fine where we are blind.

use maud::{Markup, html};

use super::words::count;
use crate::{
    engine::{Snapshot, WatchState},
    types::{DownReason, WatchHealth},
};

/// How far we can see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// Everything that is watched was listed, and changes arrive.
    Clear,
    /// Some stream still waits for its first list.
    Waiting,
    /// Some stream is down.
    Blind,
}

pub(super) fn sight(snapshot: &Snapshot) -> Sight {
    match StreamCounts::of(snapshot) {
        StreamCounts { down: 1.., .. } => Sight::Blind,
        StreamCounts { waiting: 1.., .. } => Sight::Waiting,
        StreamCounts { .. } => Sight::Clear,
    }
}

/// How many streams fare how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StreamCounts {
    pub(super) up: usize,
    pub(super) waiting: usize,
    pub(super) down: usize,
}

impl StreamCounts {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let mut counts = Self::default();
        for stream in snapshot.streams() {
            match &stream.health {
                WatchHealth::Up => counts.up += 1,
                WatchHealth::Starting => counts.waiting += 1,
                WatchHealth::Down { .. } => counts.down += 1,
            }
        }
        counts
    }
}

/// The streams that are down or still waiting, each with its reason.
pub(super) fn banner(snapshot: &Snapshot) -> Markup {
    html! {
        div #banner data-live {
            @for state in &snapshot.kinds {
                @for stream in &state.streams {
                    @match &stream.health {
                        WatchHealth::Down { reason, message } => {
                            @let objects = state.blocks.entries()
                                .filter(|entry| stream.spec.brings(&entry.object.key.namespace, &entry.object.key.name))
                                .count();
                            div.banner.down role="alert" {
                                strong { "Blind: " (stream.spec) "." }
                                " " (explain(*reason)) " "
                                @if objects > 0 {
                                    (count(objects, "object is", "objects are")) " unknown until it is back. "
                                } @else {
                                    "None of its objects is known. "
                                }
                                code { (message) }
                            }
                        }
                        WatchHealth::Starting => {
                            div.banner.waiting { "Waiting for the first list of " strong { (stream.spec) } "." }
                        }
                        WatchHealth::Up => {}
                    }
                }
            }
        }
    }
}

/// A stream's state in one word or sentence.
pub(super) fn state_of(stream: &WatchState) -> Markup {
    match &stream.health {
        WatchHealth::Up => html! { "up" },
        WatchHealth::Starting => html! { "waiting for its first list" },
        WatchHealth::Down { reason, message } => {
            html! { strong { "down" } " (" (reason) "): " (message) }
        }
    }
}

fn explain(reason: DownReason) -> &'static str {
    match reason {
        DownReason::Forbidden => "The API server forbids listing or watching it.",
        DownReason::NotFound => "The API server does not know the kind.",
        DownReason::Refused => "It is wanted and not asked for.",
        DownReason::Stalled => "The API server said nothing for too long.",
        DownReason::Error => "The API server cannot be reached, or answers with errors.",
    }
}
