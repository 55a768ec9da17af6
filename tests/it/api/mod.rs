//! `/v1/…`: queries, response fields, problem details.

pub(crate) mod costs;
mod drift_details;
mod etag;
mod gate;
mod load;
mod object_details;
pub(crate) mod openapi;
mod post;

use axum::body::Body;
use drift_exporter::config::Settings;
use http::{Request, StatusCode, header};
use serde_json::{Value, json};

use crate::support::{
    api_server::ApiServer,
    exporter_fixture::ExporterFixture,
    live_objects::{deployment, edited, service},
};

async fn shop() -> ExporterFixture {
    let api = ApiServer::default();
    api.put("deployments", deployment("web"));
    api.put("deployments", edited(deployment("cart"), 1));
    let mut other = edited(deployment("api"), 9);
    other["metadata"]["namespace"] = json!("other");
    api.put("deployments", other);
    api.put("services", service("web"));
    ExporterFixture::ready(&api).await
}

fn names(list: &Value) -> Vec<&str> {
    list["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|resource| resource["resourceName"].as_str().unwrap())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn drifted_object_has_every_field_of_the_contract() {
    let exporter = shop().await;
    let list =
        exporter.get("/v1/resources?namespace=shop&resourceType=deployment&resourceName=cart").await.json();
    assert_eq!((&list["total"], &list["namespace"]), (&json!(1), &json!("shop")));
    let mut cart = list["resources"][0].clone();
    for (hash, key) in [("desiredSpec", "expected"), ("actualSpec", "actual")] {
        let text = cart[hash]["hash"].as_str().unwrap().to_owned();
        assert_eq!(text.len(), 64);
        assert_eq!(cart["differences"][0][key], text.as_str());
        assert!(cart["driftDetails"][0].as_str().unwrap().contains(&text));
        cart[hash] = json!("a hash");
        cart["differences"][0][key] = json!("a hash");
    }
    cart["driftDetails"] = json!("sentences");
    cart["lastChecked"] = json!("now");
    for forms in ["actualForms", "desiredForms"] {
        assert_eq!(cart.as_object_mut().unwrap().remove(forms), Some(json!({})), "{forms}");
    }
    let difference = json!({"path": "spec", "field": "hash", "expected": "a hash", "actual": "a hash",
        "expectedForm": "plain", "actualForm": "plain",
        "severity": "warning", "expectation": "unexpected", "advice": "alert_only", "actor": "kubectl",
        "manager": "kubectl-edit", "onset": "2026-01-02T00:00:01Z", "onsetSource": "field_manager", "rules": ["manual-change", "hash"], "ignoredBy": null});
    assert_eq!(
        cart,
        json!({"deploymentId": "shop-prod", "apiVersion": "apps/v1", "kind": "Deployment", "resourceType": "deployment", "resourceName": "cart", "namespace": "shop",
            "phase": "Progressing", "healthStatus": "Degraded", "message": "2 of 5 replicas are available",
            "lastChecked": "now", "endpoint": null, "port": 8080, "connectionSecret": null,
            "actualSpec": "a hash", "desiredSpec": "a hash", "driftDetected": true, "driftDetails": "sentences",
            "resourceUsage": {"cpuUsage": "1250m", "memoryUsage": "640Mi", "storageUsage": null, "replicas": 5, "basis": "requests"},
            "estimatedMonthlyCost": null, "driftMonthlyCost": null, "costCurrency": null, "verdict": "drifted", "reason": null, "source": "annotation", "address": null,
            "state": null, "declaredBy": [], "blindFields": [], "outputs": [], "job": null,
            "differences": [difference], "ignored": [], "untrusted": [], "onset": "2026-01-02T00:00:01Z", "onsetSource": "field_manager", "actor": "kubectl", "manager": "kubectl-edit",
            "severity": "warning", "expectation": "unexpected", "advice": "alert_only"})
    );
}

#[tokio::test(start_paused = true)]
async fn service_endpoint_is_its_dns_name() {
    let exporter = shop().await;
    let list = exporter.get("/v1/resources?namespace=shop&resourceType=services").await.json();
    let web = &list["resources"][0];
    assert_eq!((&web["endpoint"], &web["port"]), (&json!("web.shop.svc.cluster.local"), &json!(80)));
    assert_eq!((&web["verdict"], &web["driftDetected"]), (&json!("in_sync"), &json!(false)));
    assert_eq!(web["deploymentId"], "uid-web");
    let list = exporter.get("/v1/resources?namespace=shop&resourceType=deployment").await.json();
    let [cart, web] = list["resources"].as_array().unwrap().as_slice() else { panic!("{list}") };
    assert_eq!((&cart["endpoint"], &cart["port"]), (&json!(null), &json!(8080)), "no Service selects it");
    assert_eq!((&web["endpoint"], &web["port"]), (&json!("web.shop.svc.cluster.local"), &json!(80)));
}

#[tokio::test(start_paused = true)]
async fn list_supports_filter_sort_paging_and_fields() {
    let exporter = shop().await;
    let get = async |query: &str| exporter.get(&format!("/v1/resources?{query}")).await.json();
    assert_eq!(names(&get("namespace=*").await), ["api", "cart", "web", "web"]);
    assert_eq!(names(&get("namespace=*&sort=-onset&limit=2").await), ["api", "cart"]);
    let page = get("namespace=*&sort=name&limit=2&offset=3").await;
    assert_eq!((names(&page), &page["total"]), (vec!["web"], &json!(4)));
    assert_eq!(names(&get("namespace=shop&deploymentId=shop-prod").await), ["cart", "web"]);
    for kind in ["deployment", "Deployments", "deployment.apps"] {
        assert_eq!(names(&get(&format!("namespace=shop&resourceType={kind}")).await), ["cart", "web"]);
    }
    assert_eq!(get("namespace=shop&resourceType=deployment.batch").await["total"], 0);
    let slim = get("namespace=other&fields=resourceName,verdict,verdict").await;
    assert_eq!(slim["resources"], json!([{"resourceName": "api", "verdict": "drifted"}]));
    assert_eq!(get("namespace=nowhere").await, json!({"resources": [], "total": 0, "namespace": "nowhere"}));
}

#[tokio::test(start_paused = true)]
async fn invalid_requests_return_problem_details() {
    let exporter = shop().await;
    let cases = [
        ("/v1/resources", 400, "`namespace` is required"),
        ("/v1/resources?namespace=", 400, "`namespace` is required"),
        ("/v1/resources?namespace=shop&limit=many", 400, "limit"),
        ("/v1/resources?namespace=shop&sort=colour", 400, "cannot sort by `colour`"),
        ("/v1/resources?namespace=shop&fields=verdict,colour", 400, "no field `colour`"),
        ("/v1/resources?namespace=shop&colour=red", 400, "colour"),
        ("/v1/resources?namespace=shop&limit=0", 400, "`limit` is at least 1"),
        ("/v1/resources?namespace=shop&limit=-1", 400, "limit"),
        ("/v1/resources?namespace=shop&offset=x", 400, "offset"),
        ("/v1/resources?namespace=shop&namespace=other", 400, "namespace"),
        ("/v1/resources?namespace=nowhere&fields=colour", 400, "no field `colour`"),
        ("/v1/resources?namespace=shop&fields=,", 400, "names no field"),
        ("/v1/resources/deployment/shop/web?colour=red", 400, "`colour=red`"),
        ("/v1/resources/deployment/shop/%22%3Cscript%3E", 404, "\"<script>"),
        (
            "/v1/history?source=rumour",
            400,
            "unknown value `rumour`, expected one of `annotation`, `terraform`",
        ),
        ("/v1/history?until=later", 400, "neither a sequence number nor an RFC 3339 time"),
        ("/v1/gate?severity=bad", 400, "unknown value `bad`, expected one of `info`, `warning`, `critical`"),
        ("/v1/gate?colour=red", 400, "colour"),
        ("/v1/resources/deployment/shop/nope", 404, "no watched object deployment shop/nope"),
        ("/v1/resources/pod/shop/web", 404, "no watched object pod shop/web"),
        ("/v1/history?since=yesterday", 400, "since"),
        ("/v1/resources/%ff/shop/web", 400, "UTF-8"),
        ("/v1/resources?namespace=shop&resourceName=%ff", 400, "UTF-8"),
        ("/?q=%ff", 400, "UTF-8"),
        ("/v2", 404, "there is no /v2"),
    ];
    for (path, status, detail) in cases {
        let answer = exporter.get(path).await;
        assert_eq!(answer.status.as_u16(), status, "{path}: {}", answer.text());
        assert_eq!(answer.headers[header::CONTENT_TYPE], "application/problem+json", "{path}");
        assert_eq!(answer.headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff", "{path}");
        let problem = answer.json();
        assert!(problem["detail"].as_str().unwrap().contains(detail), "{path}: {problem}");
        assert_eq!(problem["status"], status);
    }
    let posted = exporter.send(Request::post("/metrics").body(Body::empty()).unwrap()).await;
    assert_eq!(posted.status, StatusCode::METHOD_NOT_ALLOWED);
    assert!(posted.headers.contains_key(header::ALLOW), "{:?}", posted.headers);
}

#[tokio::test(start_paused = true)]
async fn unwatched_namespace_is_forbidden() {
    let settings = Settings { namespaces: vec!["shop".into()], ..Settings::default() };
    let api = ApiServer::default();
    let exporter = ExporterFixture::start_with(&api, settings);
    exporter.wait_idle().await;
    assert_eq!(exporter.get("/v1/resources?namespace=other").await.status, 403);
    assert_eq!(exporter.get("/v1/resources?namespace=shop").await.status, 200);
    assert!(
        api.request_urls().iter().all(|url| url.contains("/namespaces/shop/")),
        "{:?}",
        api.request_urls()
    );
}

#[tokio::test(start_paused = true)]
async fn object_includes_its_history() {
    let exporter = shop().await;
    exporter.api.put("deployments", edited(deployment("web"), 3));
    exporter.wait_idle().await;
    let web = exporter.get("/v1/resources/deployments.apps/shop/web").await.json();
    assert_eq!(
        (&web["apiVersion"], &web["kind"], &web["uid"]),
        (&json!("apps/v1"), &json!("Deployment"), &json!("uid-web"))
    );
    assert_eq!(web["claims"][0]["verdict"], "drifted");
    let last = &web["history"][0];
    assert_eq!(
        (&last["from"], &last["to"], &last["manager"]),
        (&json!("in_sync"), &json!("drifted"), &json!("kubectl-edit"))
    );
    assert_eq!(last["paths"], json!(["spec"]));
    let since = exporter.get("/v1/history?since=1").await.json();
    assert_eq!((&since["transitions"], &since["last"]), (&json!([]), &json!(1)));
    for (filter, count) in [
        ("name=cart", 0),
        ("name=web&kind=deployments.apps&source=annotation&namespace=shop", 1),
        ("kind=service", 0),
        ("source=terraform", 0),
        ("since=2026-02-01T12:00:00Z", 1),
        ("since=2027-01-01T00:00:00Z", 0),
        ("until=2026-01-01T00:00:00Z", 0),
        ("until=1", 1),
        ("until=0", 0),
        ("limit=0", 0),
    ] {
        let found = exporter.get(&format!("/v1/history?{filter}")).await.json();
        assert_eq!(found["transitions"].as_array().unwrap().len(), count, "{filter}: {found}");
    }
}
