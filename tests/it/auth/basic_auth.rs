//! Basic authentication, headers, limits, and which clients see values.

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

use super::{WebFile, ann, basic, basic_auth, check_problem, drifted_shop, send};
use crate::support::{api_server::ApiServer, exporter_fixture::ExporterFixture, live_objects::deployment};

const OBJECT: &str = "/v1/resources/deployment/shop/web";

async fn status(exporter: &ExporterFixture, path: &str, user: &str, password: &str) -> StatusCode {
    send(exporter, "GET", path, Some(&basic(user, password))).await.status
}

#[tokio::test(start_paused = true)]
async fn users_reload_without_restart_and_invalid_file_denies_access() {
    let file = WebFile::new(&ann());
    let exporter = drifted_shop(basic_auth(&file)).await;
    assert_eq!(status(&exporter, "/metrics", "ann", "secret").await, StatusCode::OK);
    let bob = ann().replace("ann:", "bob:");
    file.write("web.yml", &bob);
    assert_eq!(status(&exporter, "/metrics", "ann", "secret").await, StatusCode::UNAUTHORIZED);
    assert_eq!(status(&exporter, "/metrics", "bob", "secret").await, StatusCode::OK);
    for broken in ["basic_auth_users: {bob: secret}\n", "basic_auth_users: [\n", "basic_auth_user: {}\n"] {
        file.write("web.yml", broken);
        for user in ["ann", "bob"] {
            let answer = send(&exporter, "GET", "/metrics", Some(&basic(user, "secret"))).await;
            check_problem(&answer, StatusCode::INTERNAL_SERVER_ERROR, broken);
        }
        let ready = send(&exporter, "GET", "/readyz", None).await;
        assert_eq!((ready.status, ready.text().as_str()), (StatusCode::OK, "ready\n"));
    }
    std::fs::remove_file(file.path()).unwrap();
    assert_eq!(status(&exporter, "/metrics", "bob", "secret").await, StatusCode::INTERNAL_SERVER_ERROR);
    file.write("web.yml", &bob);
    assert_eq!(status(&exporter, "/metrics", "bob", "secret").await, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn truncated_file_keeps_authentication_on() {
    let complete = format!("http_server_config: {{headers: {{X-Frame-Options: deny}}}}\n{}", ann());
    let file = WebFile::new(&complete);
    let exporter = drifted_shop(basic_auth(&file)).await;
    assert_eq!(status(&exporter, "/metrics", "ann", "secret").await, StatusCode::OK);
    for truncated in
        ["", "\n", "# users\n", "http_server_config:\n", "basic_auth_users:\n", "basic_auth_users: {}\n"]
    {
        // Written in place, as a shell does.
        std::fs::write(file.path(), truncated).unwrap();
        for path in ["/metrics", "/v1/status"] {
            check_problem(&send(&exporter, "GET", path, None).await, StatusCode::UNAUTHORIZED, truncated);
        }
        assert_eq!(
            status(&exporter, "/metrics", "ann", "guess").await,
            StatusCode::UNAUTHORIZED,
            "{truncated}"
        );
        let status_json = send(&exporter, "GET", "/v1/status", Some(&basic("ann", "secret"))).await.json();
        let web = &status_json["webConfig"];
        assert_eq!(
            (&web["successful"], &web["problems"][0]["key"]),
            (&json!(false), &json!("basic_auth_users"))
        );
        let message = web["problems"][0]["message"].as_str().unwrap();
        assert!(message.contains("stay in force until a restart"), "{message}");
    }
    file.write("web.yml", &ann().replace("ann:", "bob:"));
    assert_eq!(status(&exporter, "/metrics", "ann", "secret").await, StatusCode::UNAUTHORIZED);
    let status_json = send(&exporter, "GET", "/v1/status", Some(&basic("bob", "secret"))).await.json();
    assert_eq!(
        (&status_json["webConfig"]["successful"], &status_json["webConfig"]["problems"]),
        (&json!(true), &json!([]))
    );
}

#[tokio::test(start_paused = true)]
async fn unauthenticated_page_sends_basic_challenge() {
    let file = WebFile::new(&ann());
    let exporter = drifted_shop(basic_auth(&file)).await;
    let answer = send(&exporter, "GET", "/", None).await;
    assert_eq!(answer.headers["www-authenticate"], "Basic realm=\"drift-exporter\", charset=\"UTF-8\"");
}

#[tokio::test(start_paused = true)]
async fn configured_headers_do_not_override_page_headers() {
    let headers = "http_server_config:\n  headers: {X-Frame-Options: deny, Content-Security-Policy: default-src *, Strict-Transport-Security: ''}\n";
    let file = WebFile::new(&format!("{headers}{}", ann()));
    let exporter = drifted_shop(basic_auth(&file)).await;
    let denied = send(&exporter, "GET", "/", None).await;
    assert_eq!(
        (&denied.headers["x-frame-options"], &denied.headers["content-security-policy"]),
        (&"deny".parse().unwrap(), &"default-src *".parse().unwrap())
    );
    assert!(!denied.headers.contains_key("strict-transport-security"));
    let page = send(&exporter, "GET", "/", Some(&basic("ann", "secret"))).await;
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
}

#[tokio::test(start_paused = true)]
async fn rate_limit_rejects_requests_but_not_probes() {
    let file = WebFile::new("rate_limit: {interval: 1h, burst: 2}\n");
    let exporter = drifted_shop(basic_auth(&file)).await;
    for _ in 0..5 {
        assert_eq!(send(&exporter, "GET", "/livez", None).await.status, StatusCode::OK);
    }
    let mut answers = Vec::new();
    for _ in 0..3 {
        answers.push(send(&exporter, "GET", "/metrics", None).await);
    }
    assert_eq!([answers[0].status, answers[1].status], [StatusCode::OK, StatusCode::OK]);
    check_problem(&answers[2], StatusCode::TOO_MANY_REQUESTS, "third request");
}

#[tokio::test(start_paused = true)]
async fn rate_limit_applies_to_credentials_on_probes() {
    let file = WebFile::new(&format!("rate_limit: {{interval: 1h, burst: 2}}\n{}", ann()));
    let exporter = drifted_shop(basic_auth(&file)).await;
    let mut detailed = Vec::new();
    for _ in 0..3 {
        assert_eq!(send(&exporter, "GET", "/readyz", None).await.text(), "ready\n");
        let answer = send(&exporter, "GET", "/readyz", Some(&basic("ann", "secret"))).await;
        assert_eq!(answer.status, StatusCode::OK);
        detailed.push(answer.text().contains("listed"));
    }
    assert_eq!(detailed, [true, true, false]);
}

#[tokio::test(start_paused = true)]
async fn large_body_is_rejected() {
    let exporter = drifted_shop(Auth::default()).await;
    let chunks =
        futures::stream::repeat_with(|| Ok::<_, std::convert::Infallible>(vec![b'x'; 1 << 16])).take(160);
    for (what, body) in [("known", Body::from(vec![b'x'; 10 << 20])), ("chunked", Body::from_stream(chunks))]
    {
        let request = Request::post("/v1/resources").body(body).unwrap();
        check_problem(&exporter.send(request).await, StatusCode::PAYLOAD_TOO_LARGE, what);
    }
    let request = Request::post("/v1/status").body(Body::from("{}")).unwrap();
    assert_eq!(exporter.send(request).await.status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test(start_paused = true)]
async fn missing_body_times_out() {
    let exporter = drifted_shop(Auth::default()).await;
    let body = Body::from_stream(futures::stream::pending::<Result<Vec<u8>, std::convert::Infallible>>());
    let start = tokio::time::Instant::now();
    let answer = exporter.send(Request::post("/v1/resources").body(body).unwrap()).await;
    check_problem(&answer, StatusCode::REQUEST_TIMEOUT, "pending body");
    assert_eq!(start.elapsed().as_secs(), 5);
}

/// A Deployment with an environment variable that differs from its last-applied-configuration.
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

/// An exporter with `ShownValues::Full`.
async fn exporter_with_values(auth: Auth) -> ExporterFixture {
    let api = ApiServer::default();
    api.put("deployments", edited_by_hand());
    let settings = Settings {
        shown_values: ShownValues::Full,
        sources: vec![Source::LastApplied],
        kinds: vec![WantedKind::exactly(&Kind::deployment())],
        ..Settings::default()
    };
    let exporter = ExporterFixture::start_with_auth(&api, api.client(), settings, auth);
    exporter
        .until("the exporter is ready", Duration::from_secs(5), |exporter| exporter.snapshot().ready)
        .await;
    exporter.wait_idle().await;
    exporter
}

/// Whether a client sees values, in the API and on the page alike.
async fn sees_values(
    exporter: &ExporterFixture,
    address: &str,
    certified: bool,
    headers: &[(&str, &str)],
) -> bool {
    let peer = Peer { address: address.parse().unwrap(), certified };
    let mut shown = Vec::new();
    for path in [OBJECT, "/objects/deployment/shop/web"] {
        let mut request = Request::get(path).extension(peer);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = exporter.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status, StatusCode::OK);
        // The page marks the part of a value that differs.
        let text = answer.text().replace("<ins>", "").replace("</ins>", "");
        assert!(text.contains("hmac:") != text.contains("edited-value"), "{text}");
        shown.push(text.contains("edited-value"));
    }
    assert_eq!(shown[0], shown[1]);
    shown[0]
}

#[tokio::test(start_paused = true)]
async fn values_are_shown_to_local_and_authenticated_clients() {
    let exporter = exporter_with_values(Auth::default()).await;
    for (address, certified, headers, shown) in [
        ("127.0.0.1:9", false, &[][..], true),
        ("127.0.0.1:9", false, &[("host", "localhost:10374")], true),
        ("127.8.0.1:9", false, &[("host", "127.0.0.1")], true),
        ("[::1]:9", false, &[("host", "[::1]:10374")], true),
        ("[::ffff:127.0.0.1]:9", false, &[("host", "LOCALHOST")], true),
        ("10.0.0.1:9", false, &[("host", "localhost")], false),
        ("127.0.0.1:9", false, &[("x-forwarded-for", "127.0.0.1")], false),
        ("127.0.0.1:9", false, &[("x-forwarded-for", "10.0.0.1")], false),
        ("127.0.0.1:9", false, &[("forwarded", "for=127.0.0.1")], false),
        ("127.0.0.1:9", false, &[("x-real-ip", "127.0.0.1")], false),
        ("127.0.0.1:9", false, &[("host", "evil.example")], false),
        ("127.0.0.1:9", false, &[("host", "localhost.evil.example")], false),
        ("127.0.0.1:9", false, &[("host", "localhost"), ("host", "evil.example")], false),
        ("127.0.0.1:9", false, &[("host", "")], false),
        ("10.0.0.7:9", false, &[], false),
        ("10.0.0.7:9", false, &[("x-forwarded-for", "127.0.0.1")], false),
        ("10.0.0.7:9", true, &[], true),
    ] {
        assert_eq!(sees_values(&exporter, address, certified, headers).await, shown, "{address} {headers:?}");
    }
    let file = WebFile::new(&ann());
    let exporter = exporter_with_values(basic_auth(&file)).await;
    let credentials = basic("ann", "secret");
    assert!(sees_values(&exporter, "10.0.0.7:9", false, &[("authorization", &credentials)]).await);
}
