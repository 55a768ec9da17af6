//! Bearer tokens, the token and access reviews for them, and the caches of both.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use drift_exporter::{
    config::{Settings, ShownValues},
    server::Auth,
};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{check_problem, drifted_shop, send};
use crate::support::{
    api_server::ApiServer,
    exporter_fixture::ExporterFixture,
    live_objects::{deployment, edited, service},
};

/// An API server for `TokenReview` and `SubjectAccessReview`. A token is the name of its account: `admin` may do everything, `team`
/// may get every path and list everything in the namespace `shop`, `guest` may do nothing. Other tokens are invalid.
#[derive(Clone, Default)]
pub(super) struct ReviewServer(pub(super) Arc<Mutex<State>>);

#[derive(Default)]
pub(super) struct State {
    /// Every review that it received.
    pub(super) received: Vec<Value>,
    down: bool,
    silent: bool,
    /// Whether every review takes a second.
    slow: bool,
    /// Resource and namespace that `team` may list; everything in `shop` if unset.
    pub(super) team_permission: Option<(&'static str, &'static str)>,
}

impl ReviewServer {
    pub(super) fn access(&self) -> Auth {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let (status, answer) = server.review(&serde_json::from_slice(&body).unwrap());
                if server.0.lock().unwrap().silent {
                    std::future::pending::<()>().await;
                }
                if server.0.lock().unwrap().slow {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                let answer =
                    Response::builder().status(status).body(Body::from(answer.to_string().into_bytes()));
                Ok::<_, std::convert::Infallible>(answer.unwrap())
            }
        });
        Auth::new(None, Some(kube::Client::new(service, "default")))
    }

    /// Makes every review fail with 500.
    pub(super) fn fail(&self) {
        self.0.lock().unwrap().down = true;
    }

    /// The number of reviews of a kind.
    fn count(&self, kind: &str) -> usize {
        self.0.lock().unwrap().received.iter().filter(|review| review["kind"] == kind).count()
    }

    fn review(&self, review: &Value) -> (StatusCode, Value) {
        let mut state = self.0.lock().unwrap();
        state.received.push(review.clone());
        if state.down {
            return (
                StatusCode::INTERNAL_SERVER_ERROR,
                json!({"kind": "Status", "code": 500, "message": "no"}),
            );
        }
        let team_permission = state.team_permission.unwrap_or(("*", "shop"));
        let spec = &review["spec"];
        let status = if let Some(token) = spec["token"].as_str() {
            let known = ["admin", "team", "guest"].contains(&token);
            json!({"authenticated": known, "user": {"username": token, "groups": ["people"]}})
        } else {
            let (list, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
            assert!(list.is_null() || list["verb"] == "list", "{list}");
            assert!(list.is_null() != path.is_null() && spec["groups"] == json!(["people"]), "{spec}");
            let resource = team_permission.0 == "*" || list["resource"] == team_permission.0;
            let allowed = match spec["user"].as_str() {
                Some("admin") => true,
                Some("team") => list.is_null() || (resource && list["namespace"] == team_permission.1),
                _ => false,
            };
            json!({"allowed": allowed})
        };
        (StatusCode::CREATED, json!({"kind": review["kind"], "spec": spec, "status": status}))
    }
}

/// The value of an `Authorization: Bearer` header.
pub(super) fn token(account: &str) -> String {
    format!("Bearer {account}")
}

pub(super) fn in_attic(mut object: Value) -> Value {
    object["metadata"]["namespace"] = "attic".into();
    object
}

/// An exporter with drifted objects in the namespaces `shop` and `attic`.
pub(super) async fn two_namespaces(auth: Auth) -> ExporterFixture {
    two_namespaces_with(auth, Settings { shown_values: ShownValues::Full, ..Settings::default() }).await
}

pub(super) async fn two_namespaces_with(auth: Auth, settings: Settings) -> ExporterFixture {
    let api = ApiServer::default();
    api.put("deployments", deployment("web"));
    api.put("deployments", in_attic(deployment("chest")));
    api.put("services", service("web"));
    api.put("services", in_attic(service("stairs")));
    let exporter = ExporterFixture::start_with_auth(&api, api.client(), settings, auth);
    exporter
        .until("the exporter is ready", Duration::from_secs(5), |exporter| exporter.snapshot().ready)
        .await;
    exporter.wait_idle().await;
    api.put("deployments", edited(deployment("web"), 1));
    api.put("deployments", edited(in_attic(deployment("chest")), 1));
    api.delete("services", "shop", "stairs");
    exporter.wait_idle().await;
    exporter
}

const OBJECT_PATHS: &[&str] = &["/", "/v1/resources?namespace=*", "/v1/history?limit=1000", "/readyz"];

#[tokio::test(start_paused = true)]
async fn objects_the_caller_may_not_list_are_hidden() {
    let reviews = ReviewServer::default();
    let exporter = two_namespaces(reviews.access()).await;
    for path in OBJECT_PATHS {
        let all = send(&exporter, "GET", path, Some(&token("admin"))).await.text();
        let part = send(&exporter, "GET", path, Some(&token("team"))).await.text();
        for name in ["attic", "chest", "stairs"] {
            assert!(*path == "/readyz" || name == "stairs" || all.contains(name), "{path} {name}: {all}");
            assert!(!part.contains(name), "{path} shows {name}: {part}");
        }
        assert!(*path == "/readyz" || part.contains("web"), "{path}: {part}");
    }
    let listed = send(&exporter, "GET", "/v1/resources?namespace=*", Some(&token("team"))).await.json();
    assert_eq!(listed["total"], 2, "{listed}");
    let metrics = send(&exporter, "GET", "/metrics", Some(&token("team"))).await.text();
    assert!(metrics.contains("chest"), "a scrape is not filtered");
}

#[tokio::test(start_paused = true)]
async fn list_permission_is_reviewed_per_kind() {
    let reviews = ReviewServer::default();
    reviews.0.lock().unwrap().team_permission = Some(("services", "shop"));
    let exporter = two_namespaces(reviews.access()).await;
    let listed = send(&exporter, "GET", "/v1/resources?namespace=shop", Some(&token("team"))).await.json();
    assert_eq!((&listed["total"], &listed["resources"][0]["resourceType"]), (&json!(1), &json!("service")));
    let object = send(&exporter, "GET", "/v1/resources/deployment/shop/web", Some(&token("team"))).await;
    check_problem(&object, StatusCode::NOT_FOUND, "a kind that may not be listed");
}

#[tokio::test(start_paused = true)]
async fn forbidden_namespace_looks_like_unknown_namespace() {
    let exporter = two_namespaces(ReviewServer::default().access()).await;
    for path in [
        "/v1/resources?namespace=NAME",
        "/v1/history?namespace=NAME",
        "/?namespace=NAME",
        "/v1/resources/deployment/NAME/chest",
        "/v1/resources/nothing/NAME/unknown",
        "/objects/deployment/NAME/chest",
    ] {
        let denial = async |name: &str| {
            let answer = send(&exporter, "GET", &path.replace("NAME", name), Some(&token("team"))).await;
            check_problem(&answer, StatusCode::FORBIDDEN, path);
            answer.text().replace(name, "NAME")
        };
        assert_eq!(denial("attic").await, denial("nowhere").await, "{path}");
        let odd = send(&exporter, "GET", &path.replace("NAME", "%3Cb%3E%22"), Some(&token("team"))).await;
        check_problem(&odd, StatusCode::FORBIDDEN, path);
        let visible = send(&exporter, "GET", &path.replace("NAME", "shop"), Some(&token("team"))).await;
        assert!(
            [StatusCode::OK, StatusCode::NOT_FOUND].contains(&visible.status),
            "{path}: {}",
            visible.status
        );
        let all = send(&exporter, "GET", &path.replace("NAME", "attic"), Some(&token("admin"))).await;
        assert!([StatusCode::OK, StatusCode::NOT_FOUND].contains(&all.status), "{path}: {}", all.status);
    }
}

#[tokio::test(start_paused = true)]
async fn reviews_are_cached_like_in_kubernetes() {
    let reviews = ReviewServer::default();
    let exporter = drifted_shop(reviews.access()).await;
    let scrape = async |account: &str| send(&exporter, "GET", "/metrics", Some(&token(account))).await.status;
    let review_counts = || (reviews.count("TokenReview"), reviews.count("SubjectAccessReview"));
    for (after, account, wanted, count) in [
        (0, "admin", StatusCode::OK, (1, 1)),
        (59, "admin", StatusCode::OK, (1, 1)),
        (1, "admin", StatusCode::OK, (2, 1)),
        (239, "admin", StatusCode::OK, (3, 1)),
        (1, "admin", StatusCode::OK, (3, 2)),
        (0, "guest", StatusCode::FORBIDDEN, (4, 3)),
        (29, "guest", StatusCode::FORBIDDEN, (4, 3)),
        (1, "guest", StatusCode::FORBIDDEN, (4, 4)),
        (0, "unknown", StatusCode::UNAUTHORIZED, (5, 4)),
        (59, "unknown", StatusCode::UNAUTHORIZED, (5, 4)),
        (1, "unknown", StatusCode::UNAUTHORIZED, (6, 4)),
    ] {
        tokio::time::sleep(Duration::from_secs(after)).await;
        assert_eq!(scrape(account).await, wanted, "{account}");
        assert_eq!(review_counts(), count, "{account} after {after} s");
    }
}

#[tokio::test(start_paused = true)]
async fn stalled_review_times_out_within_two_seconds() {
    let reviews = ReviewServer::default();
    let exporter = two_namespaces(reviews.access()).await;
    assert_eq!(send(&exporter, "GET", "/", Some(&token("team"))).await.status, StatusCode::OK);
    reviews.0.lock().unwrap().silent = true;
    for (path, account) in [("/metrics", "admin"), ("/", "team"), ("/v1/history", "team")] {
        // Wait until the cached reviews expire.
        tokio::time::sleep(Duration::from_secs(31)).await;
        let begun = Instant::now();
        let answer = send(&exporter, "GET", path, Some(&token(account))).await;
        check_problem(&answer, StatusCode::SERVICE_UNAVAILABLE, path);
        assert_eq!(answer.headers["retry-after"], "1");
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    }
    assert_eq!(send(&exporter, "GET", "/livez", Some(&token("team"))).await.status, StatusCode::OK);
    reviews.0.lock().unwrap().silent = false;
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(send(&exporter, "GET", "/", Some(&token("team"))).await.status, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn livez_sends_no_review() {
    let reviews = ReviewServer::default();
    let exporter = two_namespaces(reviews.access()).await;
    reviews.0.lock().unwrap().silent = true;
    let begun = Instant::now();
    for account in ["admin", "unknown"] {
        assert_eq!(send(&exporter, "GET", "/livez", Some(&token(account))).await.status, StatusCode::OK);
    }
    assert_eq!((begun.elapsed(), reviews.count("TokenReview")), (Duration::ZERO, 0));
}

#[tokio::test(start_paused = true)]
async fn flood_of_invalid_tokens_does_not_block_scrape() {
    let reviews = ReviewServer::default();
    let exporter = two_namespaces(reviews.access()).await;
    let scrape = || send(&exporter, "GET", "/metrics", Some("Bearer admin"));
    assert_eq!(scrape().await.status, StatusCode::OK);
    tokio::time::sleep(Duration::from_secs(61)).await;
    reviews.0.lock().unwrap().slow = true;
    let flood = futures::future::join_all((0..2_000).map(|number| {
        let exporter = &exporter;
        async move { send(exporter, "GET", "/readyz", Some(&format!("Bearer {number}"))).await.status }
    }));
    let (flood, scraped) = tokio::join!(flood, scrape());
    assert_eq!(scraped.status, StatusCode::OK, "{}", scraped.text());
    assert!(flood.iter().all(|status| *status == StatusCode::OK));
    assert!(reviews.count("TokenReview") < 100, "{}", reviews.count("TokenReview"));
}

#[tokio::test(start_paused = true)]
async fn readyz_hides_details_from_unauthorized_callers() {
    let exporter = drifted_shop(ReviewServer::default().access()).await;
    for account in [None, Some(token("unknown")), Some(token("guest"))] {
        let answer = send(&exporter, "GET", "/readyz", account.as_deref()).await;
        assert_eq!((answer.status, answer.text().as_str()), (StatusCode::OK, "ready\n"), "{account:?}");
    }
    let answer = send(&exporter, "GET", "/readyz", Some(&token("admin"))).await.text();
    assert!(answer.contains("deployments.apps: listed"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn authenticated_event_stream_ends_after_five_minutes_and_filters_namespaces() {
    let reviews = ReviewServer::default();
    let exporter = two_namespaces(reviews.access()).await;
    let begun = Instant::now();
    let events = send(&exporter, "GET", "/v1/events?since=0", Some(&token("team"))).await.text();
    assert_eq!(begun.elapsed().as_secs(), 300);
    assert!(events.contains("event: changed") && !events.contains("attic"), "{events}");
    let events = send(&exporter, "GET", "/v1/events?since=0", Some(&token("admin"))).await.text();
    assert!(events.contains("attic"), "{events}");
}
