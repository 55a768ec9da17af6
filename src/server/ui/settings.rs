//! What people have to know about the settings in use.

use jiff::Timestamp;
use maud::{Markup, html};

use super::words::ago;
use crate::config::ReloadStatus;

/// Says that the settings file cannot be used, or that a team's rules cannot.
pub(super) fn settings_banner(status: &ReloadStatus, team_problems: &[String], now: Timestamp) -> Markup {
    html! {
        div #settings data-live {
            @if !status.is_successful() {
                div.banner.down role="alert" {
                    strong { "The settings file cannot be used." }
                    " What holds was taken over " (ago(status.last_success, now)) ". "
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

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::settings_banner;
    use crate::config::{Problem, ReloadStatus};

    #[test]
    fn the_banner_is_a_sentence() {
        let then = Timestamp::UNIX_EPOCH;
        let problems = vec![Problem::whole("cannot be read")];
        let status = ReloadStatus { file: None, last_success: then, problems, warnings: Vec::new() };
        let banner = settings_banner(&status, &[], then + SignedDuration::from_secs(55)).into_string();
        // Words between tags, as a browser without the page's styles shows them.
        let text: String = banner.split('<').filter_map(|part| part.split('>').nth(1)).collect();
        let wanted = "The settings file cannot be used. What holds was taken over 55 s ago. cannot be read";
        assert_eq!(text, wanted);
    }
}
