//! Sorting, filters and page size of the table.

use super::{assert_contains, assert_not_contains, between, rows, sample_cluster, tile};
use crate::support::{api_server::ApiServer, exporter_fixture::ExporterFixture, live_objects::deployment};

#[tokio::test(start_paused = true)]
async fn columns_sort_the_table_with_empty_cells_last() {
    let exporter = ExporterFixture::ready(&sample_cluster()).await;
    let names = async |query: &str| {
        let rows = rows(&exporter.get(&format!("/?{query}")).await);
        rows.iter().map(|row| row.rsplit('/').next().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    };
    for (query, wanted) in [
        ("sort=object", "cart ledger odd plain search web web"),
        ("sort=-object", "web web search plain odd ledger cart"),
        ("sort=since", "cart ledger search odd plain web web"),
        ("sort=-since", "search ledger cart odd plain web web"),
        ("sort=-verdict&verdict=drifted", "cart ledger search"),
        ("sort=health&namespace=payments", "ledger"),
    ] {
        assert_eq!(names(query).await, wanted, "{query}");
    }
    let page = exporter.get("/?sort=-since&q=shop&page=1").await;
    assert_contains(
        &page,
        "<th scope=\"col\" role=\"columnheader\" aria-sort=\"descending\"><a href=\"/?q=shop&amp;sort=since\">Since</a>",
    );
    assert_contains(&page, "<th scope=\"col\" role=\"columnheader\"><a href=\"/?q=shop&amp;sort=by\">By</a>");
    assert_contains(&page, "by since, reversed.");
    assert_contains(&page, "<input type=\"hidden\" name=\"sort\" value=\"-since\">");
    assert_contains(
        &exporter.get("/").await,
        "aria-sort=\"ascending\"><a href=\"/?sort=-verdict\">Verdict</a>",
    );
    let wrong = exporter.get("/?sort=colour").await;
    assert_eq!(wrong.status.as_u16(), 400);
    assert_contains(&wrong, "The table has no column “colour” to sort by.");
}

#[tokio::test(start_paused = true)]
async fn severities_and_sources_are_counted_and_can_be_filtered() {
    let exporter = ExporterFixture::ready(&sample_cluster()).await;
    let page = exporter.get("/").await;
    let text = page.text();
    let severities = between(&text, "id=\"glance-severity\"", "</ul>");
    assert!(severities.contains("critical</span> <strong>0</strong>"), "{severities}");
    assert!(severities.contains("warning</span> <strong>3</strong>"), "{severities}");
    let oldest = between(&text, "id=\"glance-oldest\"", "</div>");
    assert!(oldest.contains(">cart</a> in shop") && oldest.contains("30 d 11 h</time>"), "{oldest}");
    let sources = between(&text, "id=\"glance-sources\"", "</dl>");
    assert!(sources.contains("aria-label=\"3 drifted, 1 unknown, 1 no baseline, 2 in sync\""), "{sources}");
    assert!(sources.contains("5 of 7 compared"), "{sources}");
    assert_contains(&page, "<strong>2 up</strong>");

    assert_eq!(rows(&exporter.get("/?severity=warning").await).len(), 3);
    let none = exporter.get("/?severity=critical").await;
    assert_eq!((rows(&none).len(), tile(&none, "drifted")), (0, "0 of 3".to_owned()));
    assert_contains(&none, "href=\"/?severity=warning\"");
    assert_eq!(rows(&exporter.get("/?source=annotation").await).len(), 7);
    let none = exporter.get("/?source=helm").await;
    assert_eq!(rows(&none).len(), 0);
    assert_contains(&none, "<option value=\"helm\" selected>");
    for (query, message) in [
        ("severity=bad", "unknown severity `bad`; valid values: info, warning, critical"),
        ("source=git", "unknown source `git`;"),
        ("rows=7", "A page has [100, 500, 2000] rows, not “7”."),
    ] {
        let wrong = exporter.get(&format!("/?{query}")).await;
        assert_eq!(wrong.status.as_u16(), 400, "{query}");
        assert_contains(&wrong, message);
    }
}

#[tokio::test(start_paused = true)]
async fn rows_parameter_sets_the_page_size() {
    let api = ApiServer::default();
    for number in 0..640 {
        api.put("deployments", deployment(&format!("web-{number:03}")));
    }
    let exporter = ExporterFixture::ready(&api).await;
    let page = exporter.get("/").await;
    assert_eq!(rows(&page).len(), 100);
    assert_contains(&page, "Page 1 of 7");
    assert_contains(&page, "<a href=\"/?rows=2000\">2000</a>");
    let second = exporter.get("/?rows=500&page=2&sort=object").await;
    assert_eq!(rows(&second).len(), 140);
    assert_contains(&second, "<a href=\"/?sort=object&amp;rows=500\" aria-current=\"true\">500</a>");
    let all = exporter.get("/?rows=2000").await;
    assert_eq!(rows(&all).len(), 640);
    assert_not_contains(&all, "Page 1");
}
