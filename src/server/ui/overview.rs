//! The overview at `/`: how many are off, which, since when and by what tool.

use std::sync::Arc;

use axum::{
    extract::{Query, State, rejection::QueryRejection},
    response::Response,
};
use http::StatusCode;
use jiff::Timestamp;
use maud::{Markup, html};

use super::{
    filter::{Filter, FilterQuery},
    glance::glance,
    history::{Subject, item},
    layout::{Place, complaint, page},
    rows::Overview,
    settings::settings_banner,
    states::state_banner,
    streams::{Sight, banner},
    table::{form, results},
    tiles::tiles,
    words::count,
};
use crate::{
    engine::Snapshot,
    server::{Exposed, access::Caller},
    types::VerdictKind,
};

/// Transitions under "Lately".
const LATELY: usize = 10;
/// `GET /`.
pub(crate) async fn overview(
    State(exposed): State<Arc<Exposed>>,
    caller: Caller,
    query: Result<Query<FilterQuery>, QueryRejection>,
) -> Response {
    let now = exposed.clock.now();
    let filter =
        query.map_err(|rejection| rejection.body_text()).and_then(|Query(query)| Filter::parse(query));
    let filter = match filter {
        Ok(filter) => filter,
        Err(wrong) => {
            let words = html! { (wrong) };
            return complaint(StatusCode::BAD_REQUEST, "That cannot be shown", now, &words);
        }
    };
    let snapshot = caller.snapshot();
    let overview = Overview::new(&snapshot, &filter);
    let headline = headline(&overview);
    let main = html! {
        main.overview {
            @if caller.sees_everything() {
                (settings_banner(&exposed.reload_status.borrow(), &exposed.team_problems.borrow(), now))
            }
            (banner(&snapshot))
            (state_banner(&snapshot))
            div role="status" { h1 #headline data-live { (headline) } }
            (tiles(&overview, &filter))
            (glance(&overview, &filter, &snapshot, now))
            div.columns {
                div {
                    (form(&overview, &filter))
                    (results(&overview, &filter, &exposed.settings(), now))
                }
                (lately(&snapshot, now))
            }
        }
    };
    page(StatusCode::OK, &headline, Some(Place::Objects), now, &main)
}

/// The state of everything in one sentence, whatever the filter leaves out.
fn headline(overview: &Overview<'_>) -> String {
    let off: usize = [VerdictKind::Drifted, VerdictKind::Missing, VerdictKind::Replaced]
        .into_iter()
        .map(|verdict| overview.total(verdict))
        .sum();
    let unknown = overview.total(VerdictKind::Unknown);
    let known = overview.known();
    let only_drifted = overview.total(VerdictKind::Drifted) == off;
    let trouble = match (off, only_drifted) {
        (0, _) => None,
        (_, true) => Some(count(off, "object has drifted", "objects have drifted")),
        (_, false) => Some(count(off, "object is not as declared", "objects are not as declared")),
    };
    match (trouble, overview.sight) {
        (Some(trouble), Sight::Clear) => trouble,
        (Some(trouble), Sight::Waiting | Sight::Blind) => {
            format!("{trouble}, and not everything can be seen")
        }
        (None, Sight::Blind) => match overview.had_drifted {
            0 => "Not everything can be seen".to_owned(),
            before => {
                let before = count(before, "object had drifted", "objects had drifted");
                format!("Not everything can be seen; {before} when last seen")
            }
        },
        (None, Sight::Waiting) => "Waiting for the first list".to_owned(),
        (None, Sight::Clear) if known == 0 => "No object takes part yet".to_owned(),
        (None, Sight::Clear) if unknown > 0 => {
            format!(
                "No drift is known, but {}",
                count(unknown, "object cannot be judged", "objects cannot be judged")
            )
        }
        (None, Sight::Clear) if overview.total(VerdictKind::NoBaseline) == known => {
            "Nothing is declared for any object".to_owned()
        }
        (None, Sight::Clear) => "Everything is as declared".to_owned(),
    }
}

fn lately(snapshot: &Snapshot, now: Timestamp) -> Markup {
    html! {
        aside #lately .lately data-live data-keyed {
            h2 #lately-head { "Lately" }
            @if snapshot.history.newest_first().next().is_none() {
                p #lately-none .detail { "No verdict has changed while we watched." }
            } @else {
                ol #transitions .transitions data-keyed {
                    @for transition in snapshot.history.newest_first().take(LATELY) { (item(transition, Subject::Many, now)) }
                }
            }
        }
    }
}
