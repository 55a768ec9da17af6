//! The log page.

use drift_exporter::config::LogLevel;
use jiff::Timestamp;

use super::{assert_contains, assert_not_contains, sample_cluster};
use crate::support::exporter_fixture::ExporterFixture;

#[tokio::test(start_paused = true)]
async fn lines_are_filtered_and_newest_first() {
    let exporter = ExporterFixture::ready(&sample_cluster()).await;
    let time = Timestamp::from_second(1_769_947_200).unwrap();
    for (level, text) in [
        (LogLevel::Info, "Drift began. object=Deployment shop/web"),
        (LogLevel::Warn, "Stream is down. <script>alert(1)</script>"),
        (LogLevel::Error, "The history file cannot be written."),
    ] {
        exporter.exposed.log.add(time, level, "drift_exporter::app", text);
    }
    let page = exporter.get("/log").await;
    let text = page.text();
    let positions = ["history file", "Stream is down", "Drift began"].map(|words| text.find(words).unwrap());
    assert!(positions.is_sorted(), "{positions:?}");
    assert_contains(&page, "3 of the last 3 lines");
    assert_contains(&page, "&lt;script&gt;alert(1)&lt;/script&gt;");
    assert_contains(&page, "02-01 12:00:00.000");
    assert_not_contains(&page, "<script>alert");
    let warnings = exporter.get("/log?level=warn").await;
    assert_contains(&warnings, "2 of the last 3 lines");
    assert_contains(&warnings, "<option value=\"warn\" selected>");
    assert_not_contains(&warnings, "Drift began");
    let found = exporter.get("/log?q=HISTORY").await;
    assert_contains(&found, "1 of the last 3 lines");
    assert_contains(&exporter.get("/log?q=nonesuch").await, "No such line.");
    let wrong = exporter.get("/log?level=loud").await;
    assert_eq!(wrong.status.as_u16(), 400);
    assert_contains(&wrong, "unknown level `loud`; valid values: error, warn, info, debug, trace");
}

#[tokio::test(start_paused = true)]
async fn oldest_lines_are_dropped_and_long_ones_truncated() {
    let exporter = ExporterFixture::ready(&sample_cluster()).await;
    let log = &exporter.exposed.log;
    for number in 0..=1_000 {
        log.add(Timestamp::UNIX_EPOCH, LogLevel::Info, "here", &number.to_string());
    }
    log.add(Timestamp::UNIX_EPOCH, LogLevel::Warn, "here", &"ü".repeat(1_025));
    let page = exporter.get("/log").await.text();
    let ids: Vec<&str> =
        page.split("<tr id=\"line-").skip(1).map(|row| row.split('"').next().unwrap()).collect();
    assert_eq!((ids.len(), ids[0], ids[999]), (1_000, "1002", "3"));
    assert!(page.contains(&format!("<td>{}…<span", "ü".repeat(1_024))));
    let oldest = page.split("<tr id=\"line-3\"").nth(1).unwrap();
    assert!(oldest.contains("<td>2<span"), "{oldest}");
}
