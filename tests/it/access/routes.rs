//! Every route, with every kind of credentials.

use drift_exporter::server::{Auth, Protection, ROUTES};
use http::StatusCode;
use serde_json::{Value, json};

use super::{
    WebFile, ann, ask, basic, by_password, check_problem, shop,
    tokens::{Cluster, token},
};
use crate::{programs::routes::sample, support::world::World};

/// Paths that there are not, and one that somebody spelled in a way of his own.
const NOWHERE: &[&str] =
    &["/nothing", "/v1", "/v1/../metrics", "//metrics", "/%6detrics", "/metrics/", "/%3Cscript%3E"];

#[test]
fn only_probes_are_open_and_only_what_is_not_of_a_namespace_is_shown_whole() {
    let those = |wanted| {
        let own = ROUTES.iter().filter(move |route| route.protection == wanted);
        own.map(|route| route.path).collect::<Vec<_>>()
    };
    assert_eq!(those(Protection::Open), ["/livez"]);
    assert_eq!(those(Protection::Brief), ["/readyz"]);
    assert_eq!(those(Protection::Whole), ["/metrics", "/rules", "/log", "/v1/rules", "/v1/status"]);
}

/// Tries credentials on every route and method. `wanted`: what guarded routes answer; none where they answer as if nobody asked.
async fn check(auth: Auth, cases: &[(&str, Option<String>, Option<StatusCode>)]) {
    let world = shop(auth).await;
    for (what, credentials, wanted) in cases {
        let paths = ROUTES.iter().map(|route| (sample(route.path), route.protection));
        let nowhere = NOWHERE.iter().map(|path| (*path, Protection::Guarded));
        for (path, protection) in paths.chain(nowhere) {
            for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "NONSENSE"] {
                let answer = ask(&world, method, path, credentials.as_deref()).await;
                let what = format!("{what}: {method} {path}");
                match (protection, wanted) {
                    (Protection::Open | Protection::Brief, _) => assert!(
                        [StatusCode::OK, StatusCode::METHOD_NOT_ALLOWED].contains(&answer.status),
                        "{what}: {}",
                        answer.status
                    ),
                    (Protection::Guarded | Protection::Whole, Some(status)) if method == "HEAD" => {
                        assert_eq!(answer.status, *status, "{what}");
                    }
                    (Protection::Guarded | Protection::Whole, Some(status)) => {
                        check_problem(&answer, *status, &what);
                        assert!(!answer.text().contains("<script>"), "{what}");
                    }
                    (Protection::Guarded | Protection::Whole, None) => {
                        let denied = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN];
                        assert!(!denied.contains(&answer.status), "{what}: {}", answer.status);
                        let is_route = !NOWHERE.contains(&path) && !path.starts_with("/assets");
                        let is_fine =
                            path.ends_with("since=nothing") == (answer.status == StatusCode::BAD_REQUEST);
                        assert!(method != "GET" || !is_route || is_fine, "{what}: {}", answer.status);
                    }
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn without_access_settings_everybody_is_answered() {
    check(Auth::default(), &[("nobody", None, None), ("somebody", Some(basic("ann", "x")), None)]).await;
}

#[tokio::test(start_paused = true)]
async fn every_route_wants_the_password_of_a_user() {
    let denied = Some(StatusCode::UNAUTHORIZED);
    let file = WebFile::new(&ann());
    check(
        by_password(&file),
        &[
            ("no credentials", None, denied),
            ("a wrong password", Some(basic("ann", "guess")), denied),
            ("a wrong user", Some(basic("bob", "secret")), denied),
            ("a token", Some("Bearer secret".to_owned()), denied),
            ("nonsense", Some("Basic %%%".to_owned()), denied),
            ("half of it", Some(basic("ann", "secret").replace("Basic ", "Basic")), denied),
            ("good ones", Some(basic("ann", "secret")), None),
        ],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn every_route_wants_a_token_whose_bearer_may_ask() {
    let cluster = Cluster::default();
    check(
        cluster.access(),
        &[
            ("no credentials", None, Some(StatusCode::UNAUTHORIZED)),
            ("a token of nobody", Some(token("nobody")), Some(StatusCode::UNAUTHORIZED)),
            ("a password", Some(basic("ann", "secret")), Some(StatusCode::UNAUTHORIZED)),
            ("an empty token", Some(token("")), Some(StatusCode::UNAUTHORIZED)),
            ("somebody without rights", Some(token("guest")), Some(StatusCode::FORBIDDEN)),
            ("somebody with all rights", Some(token("admin")), None),
        ],
    )
    .await;
}

/// The document as somebody gets it who may.
async fn document(world: &World, credentials: Option<&str>) -> Value {
    ask(world, "GET", "/openapi.json", credentials).await.json()
}

/// Whether every question of the document may be answered with these, and with no denial else.
#[track_caller]
fn check_document(document: &Value, denials: &[u16], schemes: &Value, security: &Value) {
    assert_eq!((&document["components"]["securitySchemes"], &document["security"]), (schemes, security));
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let answers = &operation["responses"];
            assert_eq!(answers["401"].is_object(), denials.contains(&401), "{method} {path}");
            for status in denials {
                let content = &answers[status.to_string()]["content"]["application/problem+json"];
                assert!(content["schema"].is_object(), "{method} {path} {status}: {answers}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_document_says_how_to_prove_who_asks() {
    check_document(&document(&shop(Auth::default()).await, None).await, &[], &json!({}), &json!([]));
    let file = WebFile::new(&ann());
    let own = document(&shop(by_password(&file)).await, Some(&basic("ann", "secret"))).await;
    let schemes = json!({"password": {"type": "http", "scheme": "basic"}});
    check_document(&own, &[401], &schemes, &json!([{"password": []}]));
    let cluster = Cluster::default();
    let world = shop(cluster.access()).await;
    let own = document(&world, Some(&token("admin"))).await;
    let schemes = json!({"token": {"type": "http", "scheme": "bearer"}});
    check_document(&own, &[401, 403, 503], &schemes, &json!([{"token": []}]));
}

#[tokio::test(start_paused = true)]
async fn without_reviews_nobody_is_let_in() {
    let cluster = Cluster::default();
    cluster.break_down();
    let denied = Some(StatusCode::SERVICE_UNAVAILABLE);
    let nobody = Some(StatusCode::UNAUTHORIZED);
    check(cluster.access(), &[("no credentials", None, nobody), ("any token", Some(token("admin")), denied)])
        .await;
}
