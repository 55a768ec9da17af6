//! What people see in a browser.

/// Nothing looks fine where nothing can be seen.
mod blind;
/// Declared beside actual, and what a person could do.
mod differences;
/// Where lines of the log are shown.
mod log;
/// The page of one object, and what names cannot do to it.
mod object;
/// Rules, and those that match an object.
mod rules;
/// In which order the table is.
mod sorting;
/// Where baselines come from.
mod sources;

use axum::body::Body;
use http::{Request, header};
use serde_json::{Value, json};

use crate::support::{
    api_server::ApiServer,
    objects::{deployment, edited, recorded, service},
    world::{Answer, World},
};

fn elsewhere(mut object: Value, namespace: &str) -> Value {
    object["metadata"]["namespace"] = json!(namespace);
    object
}

/// Three that drifted, one that cannot be judged, one without a baseline, two that are as declared.
fn shop() -> ApiServer {
    let api = ApiServer::default();
    api.put("deployments", deployment("web"));
    api.put("deployments", edited(deployment("cart"), 1));
    api.put("deployments", edited(deployment("search"), 30));
    api.put("deployments", elsewhere(edited(deployment("ledger"), 9), "payments"));
    api.put("deployments", recorded(deployment("odd"), "no hash"));
    let mut plain = deployment("plain");
    plain["metadata"]["annotations"] = json!({});
    api.put("deployments", plain);
    api.put("services", service("web"));
    api
}

/// The objects of the table, in its order.
fn rows(page: &Answer) -> Vec<String> {
    let text = page.text();
    let ids = text.split("<tr id=\"/objects/").skip(1).map(|row| row.split(':').next().unwrap().to_owned());
    ids.map(|id| id.replacen(".apps/", "/", 1)).collect()
}

/// What a tile counts.
fn tile(page: &Answer, verdict: &str) -> String {
    let text = page.text();
    let tile = text.split(&format!("id=\"tile-{verdict}\"")).nth(1).expect("there is such a tile");
    between(tile, "<span class=\"number\">", "<span class=\"word\">")
        .replace("</span>", "")
        .replace("<span class=\"of\">", "")
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let after = text.split_once(start).unwrap_or_else(|| panic!("no {start} in {text}")).1;
    after.split_once(end).unwrap_or_else(|| panic!("no {end} after {start}")).0
}

fn headline(page: &Answer) -> String {
    between(&page.text(), "<h1 id=\"headline\" data-live>", "</h1>").to_owned()
}

#[track_caller]
fn has(page: &Answer, part: &str) {
    assert!(page.text().contains(part), "no {part} in {}", page.text());
}

#[track_caller]
fn lacks(page: &Answer, part: &str) {
    assert!(!page.text().contains(part), "{part} is in {}", page.text());
}

#[tokio::test(start_paused = true)]
async fn the_overview_counts_and_lists_the_worst_first() {
    let world = World::ready(&shop()).await;
    let page = world.get("/").await;
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
    has(&page, "title=\"the recorded hash is malformed\">no hash</span>");
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
async fn filters_leave_what_was_asked_for_and_live_in_the_url() {
    let world = World::ready(&shop()).await;
    let get = async |query: &str| world.get(&format!("/?{query}")).await;
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
    let all = rows(&world.get("/").await);
    assert_eq!(all.len(), 7);
    assert_eq!(rows(&get("verdict=&q=&namespace=&page=&utm_source=chat&q2=x").await), all);
    let page = get("q=shop&verdict=drifted&namespace=shop").await;
    has(&page, "2 of 7 objects, the worst first. ");
    assert_eq!(headline(&page), "3 objects have drifted", "the headline tells about everything");
    assert_eq!((tile(&page, "drifted"), tile(&page, "in_sync")), ("2 of 3".to_owned(), "2".to_owned()));
    assert_eq!(tile(&get("namespace=nowhere").await, "drifted"), "0 of 3");
    has(&page, "href=\"/?q=shop&amp;verdict=in_sync&amp;namespace=shop\"");
    has(&page, "href=\"/?q=shop&amp;namespace=shop\" aria-current=\"true\"");
    has(&page, "name=\"q\" value=\"shop\"");
    has(&page, "<option value=\"drifted\" selected>");
    has(&page, "<option value=\"shop\" selected>");
}

#[tokio::test(start_paused = true)]
async fn a_filter_that_leaves_nothing_says_so() {
    let world = World::ready(&shop()).await;
    let page = world.get("/?q=nonesuch&namespace=nowhere").await;
    assert_eq!((page.status.as_u16(), rows(&page).len()), (200, 0));
    has(&page, "None of the 7 objects matches this filter. <a href=\"/\">Show all</a>");
    has(&page, "<option value=\"nowhere\" selected>");
    lacks(&page, "Let objects take part");
}

#[tokio::test(start_paused = true)]
async fn many_objects_come_in_pages() {
    let api = ApiServer::default();
    for number in 0..250 {
        api.put("deployments", deployment(&format!("web-{number:03}")));
    }
    let world = World::ready(&api).await;
    let mut all = Vec::new();
    for page in 1..=3 {
        let page = world.get(&format!("/?page={page}&namespace=shop")).await;
        all.extend(rows(&page));
    }
    let wanted: Vec<_> = (0..250).map(|number| format!("deployments/shop/web-{number:03}")).collect();
    assert_eq!(all, wanted);
    let second = world.get("/?page=2&namespace=shop").await;
    assert_eq!(rows(&second).len(), 100);
    has(&second, "Page 2 of 3");
    has(&second, "rel=\"prev\" href=\"/?namespace=shop\"");
    has(&second, "rel=\"next\" href=\"/?namespace=shop&amp;page=3\"");
    assert_eq!(rows(&world.get("/?page=99").await).len(), 50, "beyond the end is the end");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_shown_is_told_on_a_page() {
    let world = World::ready(&shop()).await;
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
        let page = world.get(path).await;
        assert_eq!(page.status.as_u16(), status, "{path}");
        assert_eq!(page.headers[header::CONTENT_TYPE], "text/html; charset=utf-8", "{path}");
        has(&page, words);
    }
}

#[tokio::test(start_paused = true)]
async fn a_path_that_there_is_not_is_a_page_in_a_browser_and_a_problem_elsewhere() {
    let world = World::ready(&shop()).await;
    for (accept, media_type) in [
        ("text/html,application/xhtml+xml,*/*;q=0.8", "text/html; charset=utf-8"),
        ("*/*", "application/problem+json"),
        ("application/json", "application/problem+json"),
    ] {
        let request = Request::get("/obects/%3Cb%3E").header(header::ACCEPT, accept).body(Body::empty());
        let answer = world.ask(request.unwrap()).await;
        assert_eq!(answer.status.as_u16(), 404, "{accept}");
        assert_eq!(answer.headers[header::CONTENT_TYPE], media_type, "{accept}");
        has(&answer, "/obects/%3Cb%3E");
    }
}

#[tokio::test(start_paused = true)]
async fn pages_load_only_what_is_their_own() {
    let world = World::ready(&shop()).await;
    let overview = world.get("/").await.text();
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
        let answer = world.get(path).await;
        let header = |name| answer.headers[&name].to_str().unwrap().to_owned();
        assert_eq!(
            header(header::CONTENT_SECURITY_POLICY),
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
             img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
            "{path}"
        );
        assert_eq!(header(header::X_CONTENT_TYPE_OPTIONS), "nosniff", "{path}");
        assert_eq!(header(header::REFERRER_POLICY), "no-referrer", "{path}");
        if header(header::CONTENT_TYPE).starts_with("text/html") {
            let text = answer.text();
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
        let answer = world.get(path).await;
        assert_eq!(answer.headers[header::CONTENT_TYPE], media_type);
        assert_eq!(answer.headers[header::CACHE_CONTROL], "public, max-age=31536000, immutable");
        assert!(answer.body.len() > 1000);
    }
    assert_eq!(world.get("/assets/page.js").await.status.as_u16(), 404);
}

#[tokio::test(start_paused = true)]
async fn without_scripts_the_page_comes_again_by_itself() {
    let world = World::ready(&shop()).await;
    has(&world.get("/").await, "<noscript><meta http-equiv=\"refresh\" content=\"10\"></noscript>");
}

/// The script replaces elements by their id, and looks for children by theirs: each has to have its own.
#[tokio::test(start_paused = true)]
async fn whatever_is_live_has_an_id_of_its_own() {
    let world = World::ready(&shop()).await;
    world.api.put("deployments", edited(deployment("web"), 3));
    world.settle().await;
    let objects = ["/", "/?q=nonesuch", "/objects/deployments/shop/web", "/objects/deployments/shop/nope"];
    for path in objects.into_iter().chain(["/sources", "/rules", "/log"]) {
        let text = world.get(path).await.text();
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
