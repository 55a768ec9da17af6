//! The UI.

/// Declared and live values, and commands.
mod differences;
mod log;
/// Missing data.
mod no_data;
/// Object pages.
mod object;
/// The rules page.
mod rules;
/// Sorting, filters and page size.
mod sorting;
/// The sources page.
mod sources;

use axum::body::Body;
use drift_exporter::types::VerdictKind;
use http::{Request, header};
use serde_json::{Value, json};

use crate::support::{
    api_server::ApiServer,
    exporter_fixture::{ExporterFixture, HttpResponse},
    live_objects::{deployment, edited, recorded, service},
};

fn in_namespace(mut object: Value, namespace: &str) -> Value {
    object["metadata"]["namespace"] = json!(namespace);
    object
}

/// Three drifted objects, one unknown, one without a baseline, two in sync.
fn sample_cluster() -> ApiServer {
    let api = ApiServer::default();
    api.put("deployments", deployment("web"));
    api.put("deployments", edited(deployment("cart"), 1));
    api.put("deployments", edited(deployment("search"), 30));
    api.put("deployments", in_namespace(edited(deployment("ledger"), 9), "payments"));
    api.put("deployments", recorded(deployment("odd"), "no hash"));
    let mut plain = deployment("plain");
    plain["metadata"]["annotations"] = json!({});
    api.put("deployments", plain);
    api.put("services", service("web"));
    api
}

/// The objects of the table, in order.
fn rows(page: &HttpResponse) -> Vec<String> {
    let text = page.text();
    let ids = text.split("<tr id=\"/objects/").skip(1).map(|row| row.split(':').next().unwrap().to_owned());
    ids.map(|id| id.replacen(".apps/", "/", 1)).collect()
}

/// The number on a tile.
fn tile(page: &HttpResponse, verdict: &str) -> String {
    let text = page.text();
    let tile = text.split(&format!("id=\"tile-{verdict}\"")).nth(1).expect("a tile");
    between(tile, "<span class=\"number\">", "<span class=\"word\">")
        .replace("</span>", "")
        .replace("<span class=\"of\">", "")
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let after = text.split_once(start).unwrap_or_else(|| panic!("no {start} in {text}")).1;
    after.split_once(end).unwrap_or_else(|| panic!("no {end} after {start}")).0
}

fn headline(page: &HttpResponse) -> String {
    between(&page.text(), "<h1 id=\"headline\" data-live>", "</h1>").to_owned()
}

#[track_caller]
fn assert_contains(page: &HttpResponse, part: &str) {
    assert!(page.text().contains(part), "no {part} in {}", page.text());
}

#[track_caller]
fn assert_not_contains(page: &HttpResponse, part: &str) {
    assert!(!page.text().contains(part), "{part} is in {}", page.text());
}

#[tokio::test(start_paused = true)]
async fn every_verdict_has_a_shape() {
    let exporter = ExporterFixture::ready(&ApiServer::default()).await;
    let page = exporter.get("/").await;
    for verdict in VerdictKind::ALL {
        assert_contains(&page, &format!("id=\"shape-{verdict}\""));
    }
}

#[tokio::test(start_paused = true)]
async fn overview_counts_objects_and_lists_worst_first() {
    let exporter = ExporterFixture::ready(&sample_cluster()).await;
    let page = exporter.get("/").await;
    assert_eq!(headline(&page), "3 objects have drifted");
    let counts = ["drifted", "unknown", "no_baseline", "in_sync"].map(|verdict| tile(&page, verdict));
    assert_eq!(counts, ["3", "1", "1", "2"]);
    assert_eq!(
        rows(&page),
        [
            "deployments/shop/search",
            "deployments/payments/ledger",
            "deployments/shop/cart",
            "deployments/shop/odd",
            "deployments/shop/plain",
            "services/shop/web",
            "deployments/shop/web",
        ]
    );
    assert_contains(&page, "title=\"the recorded hash is malformed\">no hash</span>");
    let text = page.text();
    let cart = between(&text, "<tr id=\"/objects/deployments.apps/shop/cart:annotation\"", "</tr>");
    for part in [
        "Drifted</span>",
        "<a href=\"/objects/deployments.apps/shop/cart\">cart</a>",
        "<code class=\"path\">spec</code>",
        "kubectl<span class=\"detail\">kubectl-edit</span>",
        "<span class=\"severity warning\">warning</span>",
        "datetime=\"2026-01-02T00:00:01Z\"",
        ">30 d 11 h ago</time><span class=\"exact\">2026-01-02 00:00:01 UTC</span>",
        "Degraded</span><span class=\"detail\">2 of 5 replicas are available</span>",
    ] {
        assert!(cart.contains(part), "no {part} in {cart}");
    }
}

#[tokio::test(start_paused = true)]
async fn filters_select_rows_and_are_kept_in_the_url() {
    let exporter = ExporterFixture::ready(&sample_cluster()).await;
    let get = async |query: &str| exporter.get(&format!("/?{query}")).await;
    let drifted = ["deployments/shop/search", "deployments/payments/ledger", "deployments/shop/cart"];
    for (query, wanted) in [
        ("verdict=drifted", &drifted[..]),
        ("q=kubectl-edit", &drifted),
        ("q=KUBECTL%20spec", &drifted),
        ("q=hash&namespace=payments", &drifted[1..2]),
        ("namespace=payments", &drifted[1..2]),
        ("q=shop/ca", &drifted[2..]),
        ("q=service", &["services/shop/web"]),
        ("verdict=in_sync&q=services", &["services/shop/web"]),
    ] {
        assert_eq!(rows(&get(query).await), wanted, "{query}");
    }
    let all = rows(&exporter.get("/").await);
    assert_eq!(all.len(), 7);
    assert_eq!(rows(&get("verdict=&q=&namespace=&page=&utm_source=chat&q2=x").await), all);
    let page = get("q=shop&verdict=drifted&namespace=shop").await;
    assert_contains(&page, "2 of 7 objects, the worst first. ");
    assert_eq!(headline(&page), "3 objects have drifted", "the headline ignores filters");
    assert_eq!((tile(&page, "drifted"), tile(&page, "in_sync")), ("2 of 3".to_owned(), "2".to_owned()));
    assert_eq!(tile(&get("namespace=nowhere").await, "drifted"), "0 of 3");
    assert_contains(&page, "href=\"/?q=shop&amp;verdict=in_sync&amp;namespace=shop\"");
    assert_contains(&page, "href=\"/?q=shop&amp;namespace=shop\" aria-current=\"true\"");
    assert_contains(&page, "name=\"q\" value=\"shop\"");
    assert_contains(&page, "<option value=\"drifted\" selected>");
    assert_contains(&page, "<option value=\"shop\" selected>");
}

#[tokio::test(start_paused = true)]
async fn filter_without_matches_shows_a_message() {
    let exporter = ExporterFixture::ready(&sample_cluster()).await;
    let page = exporter.get("/?q=nonesuch&namespace=nowhere").await;
    assert_eq!((page.status.as_u16(), rows(&page).len()), (200, 0));
    assert_contains(&page, "None of the 7 objects matches this filter. <a href=\"/\">Show all</a>");
    assert_contains(&page, "<option value=\"nowhere\" selected>");
    assert_not_contains(&page, "Let objects take part");
}

#[tokio::test(start_paused = true)]
async fn many_objects_are_paginated() {
    let api = ApiServer::default();
    for number in 0..250 {
        api.put("deployments", deployment(&format!("web-{number:03}")));
    }
    let exporter = ExporterFixture::ready(&api).await;
    let mut all = Vec::new();
    for page in 1..=3 {
        let page = exporter.get(&format!("/?page={page}&namespace=shop")).await;
        all.extend(rows(&page));
    }
    let wanted: Vec<_> = (0..250).map(|number| format!("deployments/shop/web-{number:03}")).collect();
    assert_eq!(all, wanted);
    let second = exporter.get("/?page=2&namespace=shop").await;
    assert_eq!(rows(&second).len(), 100);
    assert_contains(&second, "Page 2 of 3");
    assert_contains(&second, "rel=\"prev\" href=\"/?namespace=shop\"");
    assert_contains(&second, "rel=\"next\" href=\"/?namespace=shop&amp;page=3\"");
    assert_eq!(rows(&exporter.get("/?page=99").await).len(), 50, "a page beyond the end shows the last page");
}

#[tokio::test(start_paused = true)]
async fn errors_are_shown_as_html() {
    let exporter = ExporterFixture::ready(&sample_cluster()).await;
    for (path, status, words) in [
        ("/?verdict=red", 400, "unknown verdict `red`; valid values: in_sync, drifted"),
        ("/?page=0", 400, "“0” is not the number of a page"),
        ("/?page=-1", 400, "“-1” is not the number of a page"),
        ("/?verdict=%3Cb%3E", 400, "`&lt;b&gt;`"),
        ("/?q=a&q=b", 400, "duplicate field"),
        (
            "/objects/deployments/shop/nope",
            404,
            "No object <code>deployments shop/nope</code> is known here, and nothing is remembered",
        ),
        ("/objects/pods/shop/web", 404, "Not known here"),
        ("/objects/%ff/shop/web", 400, "UTF-8"),
    ] {
        let page = exporter.get(path).await;
        assert_eq!(page.status.as_u16(), status, "{path}");
        assert_eq!(page.headers[header::CONTENT_TYPE], "text/html; charset=utf-8", "{path}");
        assert_contains(&page, words);
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_path_is_html_in_browsers_and_a_problem_elsewhere() {
    let exporter = ExporterFixture::ready(&sample_cluster()).await;
    for (accept, media_type) in [
        ("text/html,application/xhtml+xml,*/*;q=0.8", "text/html; charset=utf-8"),
        ("*/*", "application/problem+json"),
        ("application/json", "application/problem+json"),
    ] {
        let request = Request::get("/obects/%3Cb%3E").header(header::ACCEPT, accept).body(Body::empty());
        let response = exporter.send(request.unwrap()).await;
        assert_eq!(response.status.as_u16(), 404, "{accept}");
        assert_eq!(response.headers[header::CONTENT_TYPE], media_type, "{accept}");
        assert_contains(&response, "/obects/%3Cb%3E");
    }
}

#[tokio::test(start_paused = true)]
async fn pages_load_only_local_assets() {
    let exporter = ExporterFixture::ready(&sample_cluster()).await;
    let overview = exporter.get("/").await.text();
    let style = between(&overview, "<link rel=\"stylesheet\" href=\"", "\"").to_owned();
    let script = between(&overview, "<script src=\"", "\"").to_owned();
    let paths = [
        "/",
        "/?verdict=red",
        "/objects/deployments/shop/web",
        "/objects/deployments/shop/nope",
        "/sources",
        "/rules",
        "/log",
        &style,
        &script,
        "/assets/icon.svg",
    ];
    for path in paths {
        let response = exporter.get(path).await;
        let header = |name| response.headers[&name].to_str().unwrap().to_owned();
        assert_eq!(
            header(header::CONTENT_SECURITY_POLICY),
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
             img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
            "{path}"
        );
        assert_eq!(header(header::X_CONTENT_TYPE_OPTIONS), "nosniff", "{path}");
        assert_eq!(header(header::REFERRER_POLICY), "no-referrer", "{path}");
        if header(header::CONTENT_TYPE).starts_with("text/html") {
            let text = response.text();
            assert_eq!(text.matches("<script").count(), 1, "{path}");
            assert!(
                !text.contains("<style") && !text.contains(" style=") && !text.contains("http://"),
                "{path}"
            );
            assert_eq!(header(header::CACHE_CONTROL), "no-store", "{path}");
        }
    }
    for (path, media_type) in
        [(&style, "text/css; charset=utf-8"), (&script, "text/javascript; charset=utf-8")]
    {
        let response = exporter.get(path).await;
        assert_eq!(response.headers[header::CONTENT_TYPE], media_type);
        assert_eq!(response.headers[header::CACHE_CONTROL], "public, max-age=31536000, immutable");
        assert!(response.body.len() > 1000);
    }
    assert_eq!(exporter.get("/assets/page.js").await.status.as_u16(), 404);
}

#[tokio::test(start_paused = true)]
async fn page_without_scripts_refreshes_itself() {
    let exporter = ExporterFixture::ready(&sample_cluster()).await;
    assert_contains(
        &exporter.get("/").await,
        "<noscript><meta http-equiv=\"refresh\" content=\"10\"></noscript>",
    );
}

/// The script replaces elements by id, so every id must be unique.
#[tokio::test(start_paused = true)]
async fn live_elements_have_unique_ids() {
    let exporter = ExporterFixture::ready(&sample_cluster()).await;
    exporter.api.put("deployments", edited(deployment("web"), 3));
    exporter.wait_idle().await;
    let objects = ["/", "/?q=nonesuch", "/objects/deployments/shop/web", "/objects/deployments/shop/nope"];
    for path in objects.into_iter().chain(["/sources", "/rules", "/log"]) {
        let text = exporter.get(path).await.text();
        let mut ids: Vec<&str> =
            text.split(" id=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all, "{path}: {ids:?}");
        for tag in text.split('<').filter(|tag| tag.split('>').next().unwrap().contains(" data-live")) {
            assert!(tag.split('>').next().unwrap().contains(" id=\""), "{path}: {tag}");
        }
    }
}
