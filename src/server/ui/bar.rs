//! Verdicts as one bar: how much of it is off is seen before it is read.

use maud::{Markup, html};

use super::{rows::Counts, tiles::BY_URGENCY, words::verdict_word};

/// How wide the drawing is in its own units; it is stretched to the room that there is.
const WIDTH: usize = 1_000;
/// The least width of what is there at all.
const LEAST: usize = 12;

/// A bar of the verdicts, with their numbers as its words.
pub(super) fn bar(counts: &Counts) -> Markup {
    let present = || BY_URGENCY.into_iter().filter_map(|verdict| Some((verdict, *counts.get(&verdict)?)));
    let all = counts.values().sum::<usize>().max(1);
    let words: Vec<String> = present()
        .map(|(verdict, number)| format!("{number} {}", verdict_word(verdict).to_lowercase()))
        .collect();
    let widths: Vec<usize> = present().map(|(_, number)| (number * WIDTH / all).max(LEAST)).collect();
    let drawn = widths.iter().sum::<usize>();
    let starts = widths.iter().scan(0, |end, width| Some(std::mem::replace(end, *end + width)));
    html! {
        svg.bar role="img" aria-label=(words.join(", ")) viewBox={ "0 0 " (drawn) " 10" } preserveAspectRatio="none" {
            title { (words.join(", ")) }
            @for (((verdict, _), start), width) in present().zip(starts).zip(&widths) {
                rect class={ "fill-" (verdict) } x=(start) y="0" width=(width) height="10" {}
            }
        }
    }
}
