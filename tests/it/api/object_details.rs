//! The API of one object: owners, rules, ignored fields and their reasons.

use drift_exporter::{
    config::{Overrides, Settings, load},
    rules::{RuleConfig, RuleSet},
};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    costs::{applied, last_applied_exporter, spec},
    shop,
};
use crate::support::{api_server::ApiServer, live_objects::deployment};

const RULES: &str = "rules:
- {name: our-images, match: {fields: [image]}, effect: ignore, owner: platform, reason: our images roll, expires: 2030-01-01}
";

#[tokio::test(start_paused = true)]
async fn ignored_field_names_its_rule_reason_and_owner() {
    let api = ApiServer::default();
    api.put("deployments", applied("web", &spec(1, "nginx:1", "1"), &spec(3, "nginx:2", "1")));
    let exporter = last_applied_exporter(
        &api,
        load(RULES, &Overrides::default(), Timestamp::UNIX_EPOCH).unwrap().settings,
    )
    .await;
    let web = exporter.get("/v1/resources/deployment/shop/web").await.json();
    let image = "spec.template.spec.containers[name=web].image";
    let ignored = json!([{"source": "last_applied", "path": image, "rule": "our-images", "reason": "our images roll",
        "owner": "platform", "expires": "2030-01-02T00:00:00Z"}]);
    assert_eq!(web["ignored"], ignored, "{web}");
    assert_eq!(web["claims"][0]["ignored"][0]["ignoredBy"], "our-images");
    let rules: Vec<&str> =
        web["rules"].as_array().unwrap().iter().map(|rule| rule["name"].as_str().unwrap()).collect();
    assert!(rules.contains(&"our-images") && rules.len() > 1, "{rules:?}");
    let our_images =
        web["rules"].as_array().unwrap().iter().find(|rule| rule["name"] == "our-images").unwrap();
    assert_eq!(
        (&our_images["matches"], &our_images["applies"], &our_images["from"]),
        (&json!(1), &json!(true), &json!("settings"))
    );
    let all = exporter.get("/v1/rules").await.json();
    assert!(
        all["rules"].as_array().unwrap().contains(our_images),
        "the object and /v1/rules return the same rule"
    );
}

#[tokio::test(start_paused = true)]
async fn drift_details_explain_expected_drift() {
    let api = ApiServer::default();
    api.put("deployments", applied("db", &spec(1, "postgres:15", "1"), &spec(1, "postgres:15.2", "1")));
    let exporter = last_applied_exporter(&api, Settings::default()).await;
    let list = exporter.get("/v1/resources?namespace=shop&fields=driftDetails,expectation").await.json();
    let db = &list["resources"][0];
    let [mismatch, closing] = db["driftDetails"].as_array().unwrap().as_slice() else { panic!("{db}") };
    assert_eq!(mismatch, "Image mismatch in container web: desired=postgres:15, actual=postgres:15.2");
    assert!(closing.as_str().unwrap().starts_with("This is expected: rule patch-version"), "{closing}");
    assert_eq!(db["expectation"], "expected");
}

#[tokio::test(start_paused = true)]
async fn owner_references_resolve_through_watched_objects() {
    let exporter = shop().await;
    let owned = |name: &str, kind: &str, owner: &str| {
        let mut object = deployment(name);
        object["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "apps/v1", "kind": kind, "name": owner, "controller": true}]);
        object
    };
    exporter.api.put("deployments", owned("leaf", "Deployment", "branch"));
    exporter.api.put("deployments", owned("branch", "Release", "root"));
    exporter.api.put("deployments", owned("snake", "Deployment", "snake"));
    exporter.wait_idle().await;
    let owners = async |name: &str| {
        exporter.get(&format!("/v1/resources/deployment/shop/{name}")).await.json()["owners"].clone()
    };
    let owner_json = |kind: &str, name: &str, known: bool| json!({"apiVersion": "apps/v1", "kind": kind, "name": name, "known": known});
    assert_eq!(
        owners("leaf").await,
        json!([owner_json("Deployment", "branch", true), owner_json("Release", "root", false)])
    );
    assert_eq!(owners("web").await, json!([]));
    assert_eq!(owners("snake").await.as_array().map(Vec::len), Some(16), "a cycle of owners ends");
}

#[tokio::test(start_paused = true)]
async fn markup_in_labels_stays_text() {
    let name = "\"><script>alert(1)</script>";
    let exporter = shop().await;
    let mut odd = deployment("odd");
    odd["metadata"]["labels"]["app.kubernetes.io/instance"] = json!(name);
    exporter.api.put("deployments", odd);
    exporter.rules(RuleSet::compile(&RuleConfig::default()).unwrap()).await;
    let answer = exporter.get("/v1/resources?namespace=shop&resourceName=odd").await;
    assert_eq!(answer.headers["content-type"], "application/json");
    assert_eq!(answer.headers["x-content-type-options"], "nosniff");
    let list: Value = answer.json();
    assert_eq!(list["resources"][0]["deploymentId"], name);
}
