//! The page of the log.

use drift_exporter::config::LogLevel;
use jiff::Timestamp;

use super::{has, lacks, shop};
use crate::support::world::World;

#[tokio::test(start_paused = true)]
async fn lines_are_shown_by_level_and_text_the_newest_first() {
    let world = World::ready(&shop()).await;
    let time = Timestamp::from_second(1_769_947_200).unwrap();
    for (level, text) in [
        (LogLevel::Info, "Drift began. object=Deployment shop/web"),
        (LogLevel::Warn, "Stream is down. <script>alert(1)</script>"),
        (LogLevel::Error, "The history file cannot be written."),
    ] {
        world.exposed.log.add(time, level, "drift_exporter::app", text);
    }
    let page = world.get("/log").await;
    let text = page.text();
    let places = ["history file", "Stream is down", "Drift began"].map(|words| text.find(words).unwrap());
    assert!(places.is_sorted(), "{places:?}");
    has(&page, "3 of the last 3 lines");
    has(&page, "&lt;script&gt;alert(1)&lt;/script&gt;");
    has(&page, "02-01 12:00:00.000");
    lacks(&page, "<script>alert");
    let warnings = world.get("/log?level=warn").await;
    has(&warnings, "2 of the last 3 lines");
    has(&warnings, "<option value=\"warn\" selected>");
    lacks(&warnings, "Drift began");
    let found = world.get("/log?q=HISTORY").await;
    has(&found, "1 of the last 3 lines");
    has(&world.get("/log?q=nonesuch").await, "No such line.");
    let wrong = world.get("/log?level=loud").await;
    assert_eq!(wrong.status.as_u16(), 400);
    has(&wrong, "There is no level “loud”. There are error, warn, info, debug, trace.");
}
