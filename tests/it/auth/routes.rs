//! Every route, with every kind of credentials.

use drift_exporter::server::{Auth, Protection, ROUTES};
use http::StatusCode;
use serde_json::{Value, json};

use super::{
    WebFile, ann, basic, basic_auth, check_problem, drifted_shop, send,
    tokens::{ReviewServer, token},
};
use crate::{
    api::openapi::check_consistency,
    support::{exporter_fixture::ExporterFixture, routes::sample},
};

/// Paths without a route, and unusual spellings of `/metrics`.
const UNKNOWN_PATHS: &[&str] =
    &["/nothing", "/v1", "/v1/../metrics", "//metrics", "/%6detrics", "/metrics/", "/%3Cscript%3E"];

#[test]
fn only_probes_skip_authentication_and_only_cluster_wide_routes_skip_filtering() {
    let paths = |wanted| {
        let routes = ROUTES.iter().filter(move |route| route.protection == wanted);
        routes.map(|route| route.path).collect::<Vec<_>>()
    };
    assert_eq!(paths(Protection::Open), ["/livez"]);
    assert_eq!(paths(Protection::Brief), ["/readyz"]);
    assert_eq!(paths(Protection::Whole), ["/metrics", "/rules", "/log", "/v1/rules", "/v1/status"]);
}

/// Tries credentials on every route and method. The third value is the status of guarded routes; `None` if access is granted.
async fn check(auth: Auth, cases: &[(&str, Option<String>, Option<StatusCode>)]) {
    let exporter = drifted_shop(auth).await;
    for (case, credentials, wanted) in cases {
        let paths = ROUTES.iter().map(|route| (sample(route.path), route.protection));
        let unknown_paths = UNKNOWN_PATHS.iter().map(|path| (*path, Protection::Guarded));
        for (path, protection) in paths.chain(unknown_paths) {
            for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "NONSENSE"] {
                let answer = send(&exporter, method, path, credentials.as_deref()).await;
                let case = format!("{case}: {method} {path}");
                match (protection, wanted) {
                    (Protection::Open | Protection::Brief, _) => assert!(
                        [StatusCode::OK, StatusCode::METHOD_NOT_ALLOWED].contains(&answer.status),
                        "{case}: {}",
                        answer.status
                    ),
                    (Protection::Guarded | Protection::Whole, Some(status)) if method == "HEAD" => {
                        assert_eq!(answer.status, *status, "{case}");
                    }
                    (Protection::Guarded | Protection::Whole, Some(status)) => {
                        check_problem(&answer, *status, &case);
                        assert!(!answer.text().contains("<script>"), "{case}");
                    }
                    (Protection::Guarded | Protection::Whole, None) => {
                        let denied = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN];
                        assert!(!denied.contains(&answer.status), "{case}: {}", answer.status);
                        let is_route = !UNKNOWN_PATHS.contains(&path) && !path.starts_with("/assets");
                        let is_expected =
                            path.ends_with("since=nothing") == (answer.status == StatusCode::BAD_REQUEST);
                        assert!(method != "GET" || !is_route || is_expected, "{case}: {}", answer.status);
                    }
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn without_authentication_every_request_succeeds() {
    check(Auth::default(), &[("no credentials", None, None), ("a password", Some(basic("ann", "x")), None)])
        .await;
}

#[tokio::test(start_paused = true)]
async fn every_route_requires_basic_auth() {
    let denied = Some(StatusCode::UNAUTHORIZED);
    let file = WebFile::new(&ann());
    check(
        basic_auth(&file),
        &[
            ("no credentials", None, denied),
            ("a wrong password", Some(basic("ann", "guess")), denied),
            ("a wrong user", Some(basic("bob", "secret")), denied),
            ("a token", Some("Bearer secret".to_owned()), denied),
            ("malformed credentials", Some("Basic %%%".to_owned()), denied),
            ("no space after the scheme", Some(basic("ann", "secret").replace("Basic ", "Basic")), denied),
            ("valid credentials", Some(basic("ann", "secret")), None),
        ],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn every_route_requires_authorized_bearer_token() {
    let reviews = ReviewServer::default();
    check(
        reviews.access(),
        &[
            ("no credentials", None, Some(StatusCode::UNAUTHORIZED)),
            ("an unknown token", Some(token("unknown")), Some(StatusCode::UNAUTHORIZED)),
            ("a password", Some(basic("ann", "secret")), Some(StatusCode::UNAUTHORIZED)),
            ("an empty token", Some(token("")), Some(StatusCode::UNAUTHORIZED)),
            ("no permissions", Some(token("guest")), Some(StatusCode::FORBIDDEN)),
            ("all permissions", Some(token("admin")), None),
        ],
    )
    .await;
}

async fn document(exporter: &ExporterFixture, credentials: Option<&str>) -> Value {
    send(exporter, "GET", "/openapi.json", credentials).await.json()
}

/// Checks that every operation describes these denials, and a 401 only if listed.
#[track_caller]
fn check_document(document: &Value, denials: &[u16], schemes: &Value, security: &Value) {
    check_consistency(document);
    assert_eq!((&document["components"]["securitySchemes"], &document["security"]), (schemes, security));
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let responses = &operation["responses"];
            assert_eq!(responses["401"].is_object(), denials.contains(&401), "{method} {path}");
            for status in denials {
                let content = &responses[status.to_string()]["content"]["application/problem+json"];
                assert!(content["schema"].is_object(), "{method} {path} {status}: {responses}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn openapi_describes_authentication() {
    check_document(&document(&drifted_shop(Auth::default()).await, None).await, &[], &json!({}), &json!([]));
    let file = WebFile::new(&ann());
    let document_json = document(&drifted_shop(basic_auth(&file)).await, Some(&basic("ann", "secret"))).await;
    let schemes = json!({"password": {"type": "http", "scheme": "basic"}});
    check_document(&document_json, &[401], &schemes, &json!([{"password": []}]));
    let reviews = ReviewServer::default();
    let exporter = drifted_shop(reviews.access()).await;
    let document_json = document(&exporter, Some(&token("admin"))).await;
    let schemes = json!({"token": {"type": "http", "scheme": "bearer"}});
    check_document(&document_json, &[401, 403, 503], &schemes, &json!([{"token": []}]));
}

#[tokio::test(start_paused = true)]
async fn failed_token_review_denies_access() {
    let reviews = ReviewServer::default();
    reviews.fail();
    let unavailable = Some(StatusCode::SERVICE_UNAVAILABLE);
    let unauthenticated = Some(StatusCode::UNAUTHORIZED);
    check(
        reviews.access(),
        &[("no credentials", None, unauthenticated), ("any token", Some(token("admin")), unavailable)],
    )
    .await;
}
