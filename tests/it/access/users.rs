//! Users and passwords, headers, limits, and which values are shown.

use std::time::Duration;

use axum::body::Body;
use drift_exporter::{
    config::{Settings, ShownValues},
    server::{Auth, Peer},
    types::{Kind, Source, WantedKind},
};
use futures::StreamExt as _;
use http::{Request, StatusCode};
use serde_json::{Value, json};

use super::{WebFile, ann, ask, basic, by_password, check_problem, shop};
use crate::support::{api_server::ApiServer, objects::deployment, world::World};

const OBJECT: &str = "/v1/resources/deployment/shop/web";

async fn status(world: &World, path: &str, user: &str, password: &str) -> StatusCode {
    ask(world, "GET", path, Some(&basic(user, password))).await.status
}

#[tokio::test(start_paused = true)]
async fn users_come_and_go_without_a_restart_and_a_broken_file_lets_nobody_in() {
    let file = WebFile::new(&ann());
    let world = shop(by_password(&file)).await;
    assert_eq!(status(&world, "/metrics", "ann", "secret").await, StatusCode::OK);
    let bob = ann().replace("ann:", "bob:");
    file.write("web.yml", &bob);
    assert_eq!(status(&world, "/metrics", "ann", "secret").await, StatusCode::UNAUTHORIZED);
    assert_eq!(status(&world, "/metrics", "bob", "secret").await, StatusCode::OK);
    for broken in ["basic_auth_users: {bob: secret}\n", "basic_auth_users: [\n", "basic_auth_user: {}\n"] {
        file.write("web.yml", broken);
        for user in ["ann", "bob"] {
            let answer = ask(&world, "GET", "/metrics", Some(&basic(user, "secret"))).await;
            check_problem(&answer, StatusCode::INTERNAL_SERVER_ERROR, broken);
        }
        let ready = ask(&world, "GET", "/readyz", None).await;
        assert_eq!((ready.status, ready.text().as_str()), (StatusCode::OK, "ready\n"));
    }
    std::fs::remove_file(file.path()).unwrap();
    assert_eq!(status(&world, "/metrics", "bob", "secret").await, StatusCode::INTERNAL_SERVER_ERROR);
    file.write("web.yml", &bob);
    assert_eq!(status(&world, "/metrics", "bob", "secret").await, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_cut_off_opens_no_door() {
    let whole = format!("http_server_config: {{headers: {{X-Frame-Options: deny}}}}\n{}", ann());
    let file = WebFile::new(&whole);
    let world = shop(by_password(&file)).await;
    assert_eq!(status(&world, "/metrics", "ann", "secret").await, StatusCode::OK);
    for cut in
        ["", "\n", "# users\n", "http_server_config:\n", "basic_auth_users:\n", "basic_auth_users: {}\n"]
    {
        // In place, as a shell writes.
        std::fs::write(file.path(), cut).unwrap();
        for path in ["/metrics", "/v1/status"] {
            check_problem(&ask(&world, "GET", path, None).await, StatusCode::UNAUTHORIZED, cut);
        }
        assert_eq!(status(&world, "/metrics", "ann", "guess").await, StatusCode::UNAUTHORIZED, "{cut}");
        let told = ask(&world, "GET", "/v1/status", Some(&basic("ann", "secret"))).await.json();
        let web = &told["webConfig"];
        assert_eq!(
            (&web["successful"], &web["problems"][0]["key"]),
            (&json!(false), &json!("basic_auth_users"))
        );
        let message = web["problems"][0]["message"].as_str().unwrap();
        assert!(message.contains("stay in force until a restart"), "{message}");
    }
    file.write("web.yml", &ann().replace("ann:", "bob:"));
    assert_eq!(status(&world, "/metrics", "ann", "secret").await, StatusCode::UNAUTHORIZED);
    let told = ask(&world, "GET", "/v1/status", Some(&basic("bob", "secret"))).await.json();
    assert_eq!(
        (&told["webConfig"]["successful"], &told["webConfig"]["problems"]),
        (&json!(true), &json!([]))
    );
}

#[tokio::test(start_paused = true)]
async fn a_browser_is_asked_for_a_password() {
    let file = WebFile::new(&ann());
    let world = shop(by_password(&file)).await;
    let answer = ask(&world, "GET", "/", None).await;
    assert_eq!(answer.headers["www-authenticate"], "Basic realm=\"drift-exporter\", charset=\"UTF-8\"");
}

#[tokio::test(start_paused = true)]
async fn headers_are_added_unless_a_page_has_its_own() {
    let headers = "http_server_config:\n  headers: {X-Frame-Options: deny, Content-Security-Policy: default-src *, Strict-Transport-Security: ''}\n";
    let file = WebFile::new(&format!("{headers}{}", ann()));
    let world = shop(by_password(&file)).await;
    let denied = ask(&world, "GET", "/", None).await;
    assert_eq!(
        (&denied.headers["x-frame-options"], &denied.headers["content-security-policy"]),
        (&"deny".parse().unwrap(), &"default-src *".parse().unwrap())
    );
    assert!(!denied.headers.contains_key("strict-transport-security"));
    let page = ask(&world, "GET", "/", Some(&basic("ann", "secret"))).await;
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
}

#[tokio::test(start_paused = true)]
async fn more_requests_than_are_allowed_are_sent_away_but_not_probes() {
    let file = WebFile::new("rate_limit: {interval: 1h, burst: 2}\n");
    let world = shop(by_password(&file)).await;
    for _ in 0..5 {
        assert_eq!(ask(&world, "GET", "/livez", None).await.status, StatusCode::OK);
    }
    let mut answers = Vec::new();
    for _ in 0..3 {
        answers.push(ask(&world, "GET", "/metrics", None).await);
    }
    assert_eq!([answers[0].status, answers[1].status], [StatusCode::OK, StatusCode::OK]);
    check_problem(&answers[2], StatusCode::TOO_MANY_REQUESTS, "the third");
}

#[tokio::test(start_paused = true)]
async fn passwords_that_are_sent_to_a_probe_are_looked_at_no_faster() {
    let file = WebFile::new(&format!("rate_limit: {{interval: 1h, burst: 2}}\n{}", ann()));
    let world = shop(by_password(&file)).await;
    let mut told = Vec::new();
    for _ in 0..3 {
        assert_eq!(ask(&world, "GET", "/readyz", None).await.text(), "ready\n");
        let answer = ask(&world, "GET", "/readyz", Some(&basic("ann", "secret"))).await;
        assert_eq!(answer.status, StatusCode::OK);
        told.push(answer.text().contains("listed"));
    }
    assert_eq!(told, [true, true, false]);
}

#[tokio::test(start_paused = true)]
async fn a_large_body_is_refused_whoever_sends_it() {
    let world = shop(Auth::default()).await;
    let chunks =
        futures::stream::repeat_with(|| Ok::<_, std::convert::Infallible>(vec![b'x'; 1 << 16])).take(160);
    for (what, body) in [("known", Body::from(vec![b'x'; 10 << 20])), ("chunked", Body::from_stream(chunks))]
    {
        let request = Request::post("/v1/resources").body(body).unwrap();
        check_problem(&world.ask(request).await, StatusCode::PAYLOAD_TOO_LARGE, what);
    }
    let request = Request::post("/v1/status").body(Body::from("{}")).unwrap();
    assert_eq!(world.ask(request).await.status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_given_up() {
    let world = shop(Auth::default()).await;
    let body = Body::from_stream(futures::stream::pending::<Result<Vec<u8>, std::convert::Infallible>>());
    let begun = tokio::time::Instant::now();
    let answer = world.ask(Request::post("/v1/resources").body(body).unwrap()).await;
    check_problem(&answer, StatusCode::REQUEST_TIMEOUT, "nothing comes");
    assert_eq!(begun.elapsed().as_secs(), 5);
}

/// A Deployment whose container has an environment variable of another value than kubectl applied.
fn edited_by_hand() -> Value {
    let with = |value: &str| {
        let env = json!([{"name": "LEVEL", "value": value}]);
        json!({"template": {"spec": {"containers": [{"name": "web", "image": "nginx:1.27", "env": env}]}}})
    };
    let applied = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": with("applied-value"),
        "metadata": {"namespace": "shop", "name": "web"}});
    let mut object = deployment("web");
    object["spec"] = with("edited-value");
    object["metadata"]["annotations"] =
        json!({"kubectl.kubernetes.io/last-applied-configuration": applied.to_string()});
    object
}

/// An exporter that may tell all values.
async fn telling(auth: Auth) -> World {
    let api = ApiServer::default();
    api.put("deployments", edited_by_hand());
    let settings = Settings {
        shown_values: ShownValues::Full,
        sources: vec![Source::LastApplied],
        kinds: vec![WantedKind::exactly(&Kind::deployment())],
        ..Settings::default()
    };
    let world = World::with_access(&api, api.client(), settings, auth);
    world.until("it is ready", Duration::from_secs(5), |world| world.snapshot().ready).await;
    world.settle().await;
    world
}

/// Whether values are told to somebody, by the API and by the page alike.
async fn is_told(world: &World, address: &str, certified: bool, headers: &[(&str, &str)]) -> bool {
    let peer = Peer { address: address.parse().unwrap(), certified };
    let mut told = Vec::new();
    for path in [OBJECT, "/objects/deployment/shop/web"] {
        let mut request = Request::get(path).extension(peer);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = world.ask(request.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status, StatusCode::OK);
        // The page marks the part of a value that differs.
        let text = answer.text().replace("<ins>", "").replace("</ins>", "");
        assert!(text.contains("hmac:") != text.contains("edited-value"), "{text}");
        told.push(text.contains("edited-value"));
    }
    assert_eq!(told[0], told[1]);
    told[0]
}

#[tokio::test(start_paused = true)]
async fn values_are_told_to_those_on_this_machine_and_to_those_who_are_known() {
    let world = telling(Auth::default()).await;
    for (address, certified, headers, told) in [
        ("127.0.0.1:9", false, &[][..], true),
        ("127.0.0.1:9", false, &[("x-forwarded-for", "127.0.0.1")], false),
        ("127.0.0.1:9", false, &[("host", "evil.example")], false),
        ("10.0.0.7:9", false, &[], false),
        ("10.0.0.7:9", false, &[("x-forwarded-for", "127.0.0.1")], false),
        ("10.0.0.7:9", true, &[], true),
    ] {
        assert_eq!(is_told(&world, address, certified, headers).await, told, "{address} {headers:?}");
    }
    let file = WebFile::new(&ann());
    let world = telling(by_password(&file)).await;
    let credentials = basic("ann", "secret");
    assert!(is_told(&world, "10.0.0.7:9", false, &[("authorization", &credentials)]).await);
}
