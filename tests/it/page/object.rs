//! The page of one object, and what names cannot do to it.

use serde_json::json;

use super::{between, has, lacks, shop};
use crate::support::{
    api_server::ApiServer,
    objects::{deployment, edited},
    world::World,
};

#[tokio::test(start_paused = true)]
async fn the_page_of_an_object_explains_it() {
    let world = World::ready(&shop()).await;
    world.api.put("deployments", edited(deployment("web"), 3));
    world.settle().await;
    let page = world.get("/objects/deployments.apps/shop/web").await;
    assert_eq!(page.status.as_u16(), 200);
    let text = page.text();
    let headline = between(&text, "id=\"headline-annotation\"", "</p>");
    assert!(headline.contains("Drifted</span> for <time"), "{headline}");
    assert!(
        headline.contains("Last changed by kubectl (field manager <code>kubectl-edit</code>)"),
        "{headline}"
    );
    let web = &world.get("/v1/resources/deployment/shop/web").await.json()["claims"][0];
    for hash in [&web["desiredSpec"]["hash"], &web["actualSpec"]["hash"]] {
        let hash = hash.as_str().unwrap();
        has(&page, &format!("<code title=\"{hash}\">{}…</code>", &hash[..12]));
    }
    has(&page, "<code>uid-web</code>");
    has(&page, "5 wanted");
    has(&page, "kubectl -n shop get deployments.apps web -o yaml --show-managed-fields");
    has(
        &page,
        "hash=$(drift-exporter hash --algorithm tfdrift-v1 -n shop deployments.apps/web) &amp;&amp; kubectl",
    );
    has(&page, "tfdrift.jin.dev/spec-hash=&quot;${hash%% *}&quot; --overwrite");
    has(&page, "<td data-label=\"How it ended\">not yet</td>");
    has(&page, "<span class=\"what\">It drifted, changed by kubectl");
    lacks(&page, "href=\"/objects/");

    world.api.put("deployments", deployment("web"));
    world.settle().await;
    let page = world.get("/objects/deployments.apps/shop/web").await;
    has(&page, "In sync</span>. It is as declared.");
    has(&page, "put back to what was declared");
    has(&page, "is as declared again, after <span class=\"lasting\">30 d 11 h</span>.");
    lacks(&page, "not yet");
    has(
        &world.get("/").await,
        "Deployment shop/web</a> is as declared again, after <span class=\"lasting\">30 d 11 h</span>.",
    );
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_gone_is_remembered() {
    let world = World::ready(&shop()).await;
    world.api.put("deployments", edited(deployment("web"), 3));
    world.settle().await;
    world.api.delete("deployments", "web");
    world.settle().await;
    let page = world.get("/objects/deployment/shop/web").await;
    assert_eq!(page.status.as_u16(), 404);
    has(&page, "It is gone");
    has(&page, "was deleted, after <span class=\"lasting\">30 d 11 h</span> of drift.");
    has(&page, "object or baseline deleted");
}

#[tokio::test(start_paused = true)]
async fn what_the_cluster_says_is_text_and_nothing_more() {
    let api = ApiServer::default();
    let name = "<script>alert(1)</script>'$(reboot)";
    let mut hostile = edited(deployment(name), 1);
    let edit = hostile["metadata"]["managedFields"].as_array_mut().unwrap().last_mut().unwrap();
    edit["manager"] = json!("\"><img src=x onerror=alert(1)>");
    api.put("deployments", hostile);
    let world = World::ready(&api).await;
    let overview = world.get("/?q=%22%3E%3Cscript%3E").await;
    has(&overview, "value=\"&quot;&gt;&lt;script&gt;\"");
    let overview = world.get("/").await;
    let url = "/objects/deployments.apps/shop/%3Cscript%3Ealert%281%29%3C%2Fscript%3E%27%24%28reboot%29";
    has(&overview, &format!("href=\"{url}\""));
    let object = world.get(url).await;
    assert_eq!(object.status.as_u16(), 200);
    has(&object, r"'&lt;script&gt;alert(1)&lt;/script&gt;'\''$(reboot)'");
    for page in [&overview, &object] {
        has(page, "&lt;script&gt;alert(1)&lt;/script&gt;");
        has(page, "&quot;&gt;&lt;img src=x onerror=alert(1)&gt;");
        lacks(page, "<script>alert");
        lacks(page, "<img");
    }
}
