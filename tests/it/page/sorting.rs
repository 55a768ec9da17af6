//! In which order the table is, what it is filtered by beside the verdict, and how much of it is shown.

use super::{between, has, lacks, rows, shop, tile};
use crate::support::{api_server::ApiServer, objects::deployment, world::World};

#[tokio::test(start_paused = true)]
async fn a_column_sorts_the_table_and_what_has_nothing_in_it_comes_last() {
    let world = World::ready(&shop()).await;
    let names = async |query: &str| {
        let rows = rows(&world.get(&format!("/?{query}")).await);
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
    let page = world.get("/?sort=-since&q=shop&page=1").await;
    has(
        &page,
        "<th scope=\"col\" role=\"columnheader\" aria-sort=\"descending\"><a href=\"/?q=shop&amp;sort=since\">Since</a>",
    );
    has(&page, "<th scope=\"col\" role=\"columnheader\"><a href=\"/?q=shop&amp;sort=by\">By</a>");
    has(&page, "by since, reversed.");
    has(&page, "<input type=\"hidden\" name=\"sort\" value=\"-since\">");
    has(&world.get("/").await, "aria-sort=\"ascending\"><a href=\"/?sort=-verdict\">Verdict</a>");
    let wrong = world.get("/?sort=colour").await;
    assert_eq!(wrong.status.as_u16(), 400);
    has(&wrong, "The table has no column “colour” to sort by.");
}

#[tokio::test(start_paused = true)]
async fn severities_and_sources_are_counted_and_filter() {
    let world = World::ready(&shop()).await;
    let page = world.get("/").await;
    let text = page.text();
    let severities = between(&text, "id=\"glance-severity\"", "</ul>");
    assert!(severities.contains("critical</span> <strong>0</strong>"), "{severities}");
    assert!(severities.contains("warning</span> <strong>3</strong>"), "{severities}");
    let oldest = between(&text, "id=\"glance-oldest\"", "</div>");
    assert!(oldest.contains(">cart</a> in shop") && oldest.contains("30 d 11 h</time>"), "{oldest}");
    let sources = between(&text, "id=\"glance-sources\"", "</dl>");
    assert!(sources.contains("aria-label=\"3 drifted, 1 unknown, 1 no baseline, 2 in sync\""), "{sources}");
    assert!(sources.contains("5 of 7 compared"), "{sources}");
    has(&page, "<strong>2 up</strong>");

    assert_eq!(rows(&world.get("/?severity=warning").await).len(), 3);
    let none = world.get("/?severity=critical").await;
    assert_eq!((rows(&none).len(), tile(&none, "drifted")), (0, "0 of 3".to_owned()));
    has(&none, "href=\"/?severity=warning\"");
    assert_eq!(rows(&world.get("/?source=annotation").await).len(), 7);
    let none = world.get("/?source=helm").await;
    assert_eq!(rows(&none).len(), 0);
    has(&none, "<option value=\"helm\" selected>");
    for (query, says) in [
        ("severity=bad", "unknown severity `bad`; valid values: info, warning, critical"),
        ("source=git", "unknown source `git`;"),
        ("rows=7", "A page has [100, 500, 2000] rows, not “7”."),
    ] {
        let wrong = world.get(&format!("/?{query}")).await;
        assert_eq!(wrong.status.as_u16(), 400, "{query}");
        has(&wrong, says);
    }
}

#[tokio::test(start_paused = true)]
async fn more_rows_than_usual_are_shown_to_those_who_ask() {
    let api = ApiServer::default();
    for number in 0..640 {
        api.put("deployments", deployment(&format!("web-{number:03}")));
    }
    let world = World::ready(&api).await;
    let page = world.get("/").await;
    assert_eq!(rows(&page).len(), 100);
    has(&page, "Page 1 of 7");
    has(&page, "<a href=\"/?rows=2000\">2000</a>");
    let second = world.get("/?rows=500&page=2&sort=object").await;
    assert_eq!(rows(&second).len(), 140);
    has(&second, "<a href=\"/?sort=object&amp;rows=500\" aria-current=\"true\">500</a>");
    let all = world.get("/?rows=2000").await;
    assert_eq!(rows(&all).len(), 640);
    lacks(&all, "Page 1");
}
