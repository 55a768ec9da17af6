//! What people have to know about the settings in use.

use jiff::Timestamp;
use maud::{Markup, html};

use super::words::since;
use crate::settings::ReloadStatus;

/// Says that the settings file cannot be used, or that a team's rules cannot.
pub(super) fn settings_banner(status: &ReloadStatus, team_problems: &[String], now: Timestamp) -> Markup {
    html! {
        div #settings data-live {
            @if !status.is_successful() {
                div.banner.down role="alert" {
                    strong { "The settings file cannot be used." }
                    " What holds was taken over " (since(status.last_success, now)) " "
                    @for problem in &status.problems { code { (problem) } }
                }
            }
            @if !team_problems.is_empty() {
                div.banner.waiting {
                    "Some rules of teams do not hold: "
                    @for problem in team_problems { code { (problem) } }
                }
            }
        }
    }
}
