//! `POST /v1/resources`: the query as a JSON body, and invalid bodies.

use axum::body::Body;
use http::{Request, header};
use serde_json::json;

use super::{names, shop};
use crate::support::exporter_fixture::{ExporterFixture, HttpResponse};

async fn post(exporter: &ExporterFixture, content_type: Option<&str>, body: impl Into<Body>) -> HttpResponse {
    let mut request = Request::post("/v1/resources");
    if let Some(content_type) = content_type {
        request = request.header(header::CONTENT_TYPE, content_type);
    }
    exporter.send(request.body(body.into()).unwrap()).await
}

#[tokio::test(start_paused = true)]
async fn post_returns_the_same_list_as_get() {
    let exporter = shop().await;
    let body = json!({"namespace": "*", "resourceType": "deployment", "sort": "-onset", "limit": 2, "offset": 1,
        "fields": "resourceName,verdict"});
    let query =
        "namespace=*&resourceType=deployment&sort=-onset&limit=2&offset=1&fields=resourceName,verdict";
    let listed = exporter.get(&format!("/v1/resources?{query}")).await.json();
    for content_type in
        ["application/json", "application/json; charset=utf-8", "application/merge-patch+json"]
    {
        let posted = post(&exporter, Some(content_type), body.to_string()).await;
        assert_eq!((posted.status.as_u16(), posted.json()), (200, listed.clone()), "{content_type}");
        assert_eq!(posted.headers[header::CONTENT_TYPE], "application/json");
        assert_eq!(posted.headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
    }
    assert_eq!(names(&listed), ["cart", "web"]);
    // The body that the contract describes.
    let contract = json!({"namespace": "shop", "resourceType": "deployment", "resourceName": "web"});
    let posted = post(&exporter, Some("application/json"), contract.to_string()).await.json();
    assert_eq!((names(&posted), &posted["total"]), (vec!["web"], &json!(1)));
}

#[tokio::test(start_paused = true)]
async fn empty_filters_match_everything() {
    let exporter = shop().await;
    let contract =
        json!({"namespace": "shop", "resourceType": "", "resourceName": "web", "deploymentId": ""})
            .to_string();
    let posted = post(&exporter, Some("application/json"), contract).await.json();
    let listed = exporter.get("/v1/resources?namespace=shop&resourceName=web").await.json();
    assert_eq!((&posted, &posted["total"]), (&listed, &json!(2)));
    let listed =
        exporter.get("/v1/resources?namespace=shop&resourceName=&deploymentId=&resourceType=").await.json();
    assert_eq!(listed["total"], 3);
}

#[tokio::test(start_paused = true)]
async fn invalid_bodies_return_problem_details() {
    let exporter = shop().await;
    let json_type = Some("application/json");
    let cases: &[(Option<&str>, &str, u16, &str)] = &[
        (json_type, "{}", 400, "`namespace` is required"),
        (json_type, r#"{"namespace": ""}"#, 400, "`namespace` is required"),
        (json_type, r#"{"namespace": "shop""#, 400, "line 1 column"),
        (json_type, "", 400, "EOF"),
        (json_type, r#"{"namespace": "shop", "colour": "red"}"#, 400, "unknown field `colour`"),
        (
            json_type,
            r#"{"namespace": "shop", "limit": "many"}"#,
            400,
            "invalid type: string \"many\", want a whole number",
        ),
        (
            json_type,
            r#"{"namespace": "shop", "limit": -1}"#,
            400,
            "invalid value: integer `-1`, want a whole number",
        ),
        (json_type, r#"{"namespace": ["shop"]}"#, 400, "invalid type: sequence, want a text"),
        (json_type, "5", 400, "invalid type: integer `5`, want an object"),
        (json_type, r#"["shop"] "#, 400, "body cannot be read"),
        (json_type, r#"{"namespace": "shop", "sort": "<script>"}"#, 400, "cannot sort by `<script>`"),
        (json_type, "\u{0}", 400, "line 1 column 1"),
        (None, r#"{"namespace": "shop"}"#, 415, "Content-Type: application/json"),
        (Some("application/x-www-form-urlencoded"), "namespace=shop", 415, "has to be JSON"),
        (Some("text/json"), r#"{"namespace": "shop"}"#, 415, "has to be JSON"),
    ];
    for (content_type, body, status, detail) in cases {
        let answer = post(&exporter, *content_type, *body).await;
        assert_eq!(answer.status.as_u16(), *status, "{body}: {}", answer.text());
        assert_eq!(answer.headers[header::CONTENT_TYPE], "application/problem+json");
        assert!(answer.json()["detail"].as_str().unwrap().contains(detail), "{body}: {}", answer.text());
    }
    let large = post(&exporter, json_type, vec![b' '; 10 << 20]).await;
    assert_eq!(large.status.as_u16(), 413, "{}", large.text());
    assert!(large.json()["detail"].as_str().unwrap().contains("64 KiB"), "{}", large.text());
}

#[tokio::test(start_paused = true)]
async fn unknown_and_invalid_parameters_have_readable_errors() {
    let exporter = shop().await;
    for (path, message) in [
        ("/v1/rules?bogus=1", "unknown field `bogus`"),
        ("/v1/status?bogus=1", "unknown field `bogus`, this question takes none"),
        ("/openapi.json?bogus=1", "unknown field `bogus`"),
        ("/v1/resources?namespace=shop&limit=many", "limit: want a whole number"),
        ("/v1/resources?namespace=shop&limit=99999999999999999999", "limit: the number is too large"),
        ("/v1/gate?allowEmpty=perhaps", "allowEmpty: want true or false"),
    ] {
        let answer = exporter.get(path).await;
        assert_eq!(answer.status.as_u16(), 400, "{path}");
        let detail = answer.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(message) && !detail.contains("deserialize"), "{path}: {detail}");
    }
    let body = json!({"namespace": "shop"}).to_string();
    let request =
        Request::post("/v1/resources?namespace=payments").header(header::CONTENT_TYPE, "application/json");
    let answer = exporter.send(request.body(body.into()).unwrap()).await;
    assert_eq!(answer.status.as_u16(), 400, "a query string in addition to the body is rejected");
    let list = r#"["shop",null,null,null,null,null,null,null]"#;
    let answer = post(&exporter, Some("application/json"), list).await;
    assert_eq!(answer.status.as_u16(), 400, "an array is not a valid body");
    assert!(answer.json()["detail"].as_str().unwrap().contains("want an object"));
}
