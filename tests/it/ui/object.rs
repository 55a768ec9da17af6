//! Object pages, and escaping of names.

use serde_json::json;

use super::{assert_contains, assert_not_contains, between, sample_cluster};
use crate::support::{
    api_server::ApiServer,
    exporter_fixture::ExporterFixture,
    live_objects::{deployment, edited},
};

#[tokio::test(start_paused = true)]
async fn object_page_explains_the_verdict() {
    let exporter = ExporterFixture::ready(&sample_cluster()).await;
    exporter.api.put("deployments", edited(deployment("web"), 3));
    exporter.wait_idle().await;
    let page = exporter.get("/objects/deployments.apps/shop/web").await;
    assert_eq!(page.status.as_u16(), 200);
    let text = page.text();
    let headline = between(&text, "id=\"headline-annotation\"", "</p>");
    assert!(headline.contains("Drifted</span> for <time"), "{headline}");
    assert!(
        headline.contains("Last changed by kubectl (field manager <code>kubectl-edit</code>)"),
        "{headline}"
    );
    let web = &exporter.get("/v1/resources/deployment/shop/web").await.json()["claims"][0];
    for hash in [&web["desiredSpec"]["hash"], &web["actualSpec"]["hash"]] {
        let hash = hash.as_str().unwrap();
        assert_contains(&page, &format!("<code title=\"{hash}\">{}…</code>", &hash[..12]));
    }
    assert_contains(&page, "<code>uid-web</code>");
    assert_contains(&page, "5 wanted");
    assert_contains(&page, "kubectl -n shop get deployments.apps web -o yaml --show-managed-fields");
    assert_contains(
        &page,
        "hash=$(drift-exporter hash --algorithm tfdrift-v1 -n shop deployments.apps/web) &amp;&amp; kubectl",
    );
    assert_contains(&page, "tfdrift.jin.dev/spec-hash=&quot;${hash%% *}&quot; --overwrite");
    assert_contains(&page, "<td data-label=\"How it ended\">not yet</td>");
    assert_contains(&page, "<span class=\"what\">It drifted, changed by kubectl");
    assert_not_contains(&page, "href=\"/objects/");

    exporter.api.put("deployments", deployment("web"));
    exporter.wait_idle().await;
    let page = exporter.get("/objects/deployments.apps/shop/web").await;
    assert_contains(&page, "In sync</span>. It is as declared.");
    assert_contains(&page, "<td data-label=\"How it ended\">is as declared again</td>");
    assert_contains(&page, "is as declared again, after <span class=\"lasting\">30 d 11 h</span> of drift.");
    assert_not_contains(&page, "not yet");
    assert_contains(
        &exporter.get("/").await,
        "Deployment shop/web</a> is as declared again, after <span class=\"lasting\">30 d 11 h</span> of drift.",
    );
}

#[tokio::test(start_paused = true)]
async fn deleted_object_keeps_its_history() {
    let exporter = ExporterFixture::ready(&sample_cluster()).await;
    exporter.api.put("deployments", edited(deployment("web"), 3));
    exporter.wait_idle().await;
    exporter.api.delete("deployments", "shop", "web");
    exporter.wait_idle().await;
    let page = exporter.get("/objects/deployment/shop/web").await;
    assert_eq!(page.status.as_u16(), 404);
    assert_contains(&page, "It is gone");
    assert_contains(
        &page,
        "was deleted, or lost its label or baseline, after <span class=\"lasting\">30 d 11 h</span> of drift.",
    );
    assert_contains(&page, "<td data-label=\"How it ended\">was deleted, or lost its label or baseline</td>");
}

#[tokio::test(start_paused = true)]
async fn values_of_the_cluster_are_escaped() {
    let api = ApiServer::default();
    let name = "<script>alert(1)</script>'$(reboot)";
    let mut hostile = edited(deployment(name), 1);
    let edit = hostile["metadata"]["managedFields"].as_array_mut().unwrap().last_mut().unwrap();
    edit["manager"] = json!("\"><img src=x onerror=alert(1)>");
    api.put("deployments", hostile);
    let exporter = ExporterFixture::ready(&api).await;
    let overview = exporter.get("/?q=%22%3E%3Cscript%3E").await;
    assert_contains(&overview, "value=\"&quot;&gt;&lt;script&gt;\"");
    let overview = exporter.get("/").await;
    let url = "/objects/deployments.apps/shop/%3Cscript%3Ealert%281%29%3C%2Fscript%3E%27%24%28reboot%29";
    assert_contains(&overview, &format!("href=\"{url}\""));
    let object = exporter.get(url).await;
    assert_eq!(object.status.as_u16(), 200);
    assert_contains(&object, r"'&lt;script&gt;alert(1)&lt;/script&gt;'\''$(reboot)'");
    for page in [&overview, &object] {
        assert_contains(page, "&lt;script&gt;alert(1)&lt;/script&gt;");
        assert_contains(page, "&quot;&gt;&lt;img src=x onerror=alert(1)&gt;");
        assert_not_contains(page, "<script>alert");
        assert_not_contains(page, "<img");
    }
}
