//! Tokens: whose they are, and what their bearers may ask for and see.

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

use super::{ask, check_problem, shop};
use crate::support::{
    api_server::ApiServer,
    objects::{deployment, edited, service},
    world::World,
};

/// A cluster that answers reviews. Tokens are the names of accounts: `admin` may do everything, `team` may ask for every path and
/// list everything in the namespace `shop`, `guest` may do nothing, and there are no others.
#[derive(Clone, Default)]
pub(super) struct Cluster(pub(super) Arc<Mutex<State>>);

#[derive(Default)]
pub(super) struct State {
    /// Everything that it was asked.
    pub(super) asked: Vec<Value>,
    down: bool,
    silent: bool,
    /// Whether every answer takes a second.
    slow: bool,
    /// What `team` may list, where that is not everything in `shop`.
    pub(super) of_team: Option<(&'static str, &'static str)>,
}

impl Cluster {
    pub(super) fn access(&self) -> Auth {
        let own = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let own = own.clone();
            async move {
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let (status, answer) = own.review(&serde_json::from_slice(&body).unwrap());
                if own.0.lock().unwrap().silent {
                    std::future::pending::<()>().await;
                }
                if own.0.lock().unwrap().slow {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                let answer =
                    Response::builder().status(status).body(Body::from(answer.to_string().into_bytes()));
                Ok::<_, std::convert::Infallible>(answer.unwrap())
            }
        });
        Auth::new(None, Some(kube::Client::new(service, "default")))
    }

    /// From now on nothing can be reviewed.
    pub(super) fn break_down(&self) {
        self.0.lock().unwrap().down = true;
    }

    /// How often a token or a right was asked for.
    fn asked(&self, kind: &str) -> usize {
        self.0.lock().unwrap().asked.iter().filter(|own| own["kind"] == kind).count()
    }

    fn review(&self, review: &Value) -> (StatusCode, Value) {
        let mut state = self.0.lock().unwrap();
        state.asked.push(review.clone());
        if state.down {
            return (
                StatusCode::INTERNAL_SERVER_ERROR,
                json!({"kind": "Status", "code": 500, "message": "no"}),
            );
        }
        let of_team = state.of_team.unwrap_or(("*", "shop"));
        let spec = &review["spec"];
        let status = if let Some(token) = spec["token"].as_str() {
            let known = ["admin", "team", "guest"].contains(&token);
            json!({"authenticated": known, "user": {"username": token, "groups": ["people"]}})
        } else {
            let (list, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
            assert!(list.is_null() || list["verb"] == "list", "{list}");
            assert!(list.is_null() != path.is_null() && spec["groups"] == json!(["people"]), "{spec}");
            let resource = of_team.0 == "*" || list["resource"] == of_team.0;
            let allowed = match spec["user"].as_str() {
                Some("admin") => true,
                Some("team") => list.is_null() || (resource && list["namespace"] == of_team.1),
                _ => false,
            };
            json!({"allowed": allowed})
        };
        (StatusCode::CREATED, json!({"kind": review["kind"], "spec": spec, "status": status}))
    }
}

/// The credentials of an account.
pub(super) fn token(account: &str) -> String {
    format!("Bearer {account}")
}

pub(super) fn elsewhere(mut object: Value) -> Value {
    object["metadata"]["namespace"] = "attic".into();
    object
}

/// A shop with an attic, in which something drifts as well.
pub(super) async fn house(auth: Auth) -> World {
    house_with(auth, Settings { shown_values: ShownValues::Full, ..Settings::default() }).await
}

pub(super) async fn house_with(auth: Auth, settings: Settings) -> World {
    let api = ApiServer::default();
    api.put("deployments", deployment("web"));
    api.put("deployments", elsewhere(deployment("chest")));
    api.put("services", service("web"));
    api.put("services", elsewhere(service("stairs")));
    let world = World::with_access(&api, api.client(), settings, auth);
    world.until("it is ready", Duration::from_secs(5), |world| world.snapshot().ready).await;
    world.settle().await;
    api.put("deployments", edited(deployment("web"), 1));
    api.put("deployments", edited(elsewhere(deployment("chest")), 1));
    api.delete("services", "stairs");
    world.settle().await;
    world
}

/// Pages that show objects.
const SHOWING: &[&str] = &["/", "/v1/resources?namespace=*", "/v1/history?limit=1000", "/readyz"];

#[tokio::test(start_paused = true)]
async fn nothing_is_shown_of_what_the_caller_may_not_list() {
    let cluster = Cluster::default();
    let world = house(cluster.access()).await;
    for path in SHOWING {
        let all = ask(&world, "GET", path, Some(&token("admin"))).await.text();
        let part = ask(&world, "GET", path, Some(&token("team"))).await.text();
        for name in ["attic", "chest", "stairs"] {
            assert!(*path == "/readyz" || name == "stairs" || all.contains(name), "{path} {name}: {all}");
            assert!(!part.contains(name), "{path} tells of {name}: {part}");
        }
        assert!(*path == "/readyz" || part.contains("web"), "{path}: {part}");
    }
    let listed = ask(&world, "GET", "/v1/resources?namespace=*", Some(&token("team"))).await.json();
    assert_eq!(listed["total"], 2, "{listed}");
    let metrics = ask(&world, "GET", "/metrics", Some(&token("team"))).await.text();
    assert!(metrics.contains("chest"), "whoever may scrape sees all of it");
}

#[tokio::test(start_paused = true)]
async fn kinds_are_asked_for_one_by_one() {
    let cluster = Cluster::default();
    cluster.0.lock().unwrap().of_team = Some(("services", "shop"));
    let world = house(cluster.access()).await;
    let listed = ask(&world, "GET", "/v1/resources?namespace=shop", Some(&token("team"))).await.json();
    assert_eq!((&listed["total"], &listed["resources"][0]["resourceType"]), (&json!(1), &json!("service")));
    let object = ask(&world, "GET", "/v1/resources/deployment/shop/web", Some(&token("team"))).await;
    check_problem(&object, StatusCode::NOT_FOUND, "a kind that may not be listed");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_may_not_be_seen_is_answered_as_one_that_is_not_there() {
    let world = house(Cluster::default().access()).await;
    for path in [
        "/v1/resources?namespace=NAME",
        "/v1/history?namespace=NAME",
        "/?namespace=NAME",
        "/v1/resources/deployment/NAME/chest",
        "/v1/resources/nothing/NAME/nobody",
        "/objects/deployment/NAME/chest",
    ] {
        let asked = async |name: &str| {
            let answer = ask(&world, "GET", &path.replace("NAME", name), Some(&token("team"))).await;
            check_problem(&answer, StatusCode::FORBIDDEN, path);
            answer.text().replace(name, "NAME")
        };
        assert_eq!(asked("attic").await, asked("nowhere").await, "{path}");
        let odd = ask(&world, "GET", &path.replace("NAME", "%3Cb%3E%22"), Some(&token("team"))).await;
        check_problem(&odd, StatusCode::FORBIDDEN, path);
        let own = ask(&world, "GET", &path.replace("NAME", "shop"), Some(&token("team"))).await;
        assert!([StatusCode::OK, StatusCode::NOT_FOUND].contains(&own.status), "{path}: {}", own.status);
        let all = ask(&world, "GET", &path.replace("NAME", "attic"), Some(&token("admin"))).await;
        assert!([StatusCode::OK, StatusCode::NOT_FOUND].contains(&all.status), "{path}: {}", all.status);
    }
}

#[tokio::test(start_paused = true)]
async fn answers_are_remembered_as_long_as_others_do() {
    let cluster = Cluster::default();
    let world = shop(cluster.access()).await;
    let scrape = async |account: &str| ask(&world, "GET", "/metrics", Some(&token(account))).await.status;
    let asked = || (cluster.asked("TokenReview"), cluster.asked("SubjectAccessReview"));
    for (after, account, wanted, count) in [
        (0, "admin", StatusCode::OK, (1, 1)),
        (59, "admin", StatusCode::OK, (1, 1)),
        (1, "admin", StatusCode::OK, (2, 1)),
        (239, "admin", StatusCode::OK, (3, 1)),
        (1, "admin", StatusCode::OK, (3, 2)),
        (0, "guest", StatusCode::FORBIDDEN, (4, 3)),
        (29, "guest", StatusCode::FORBIDDEN, (4, 3)),
        (1, "guest", StatusCode::FORBIDDEN, (4, 4)),
        (0, "nobody", StatusCode::UNAUTHORIZED, (5, 4)),
        (59, "nobody", StatusCode::UNAUTHORIZED, (5, 4)),
        (1, "nobody", StatusCode::UNAUTHORIZED, (6, 4)),
    ] {
        tokio::time::sleep(Duration::from_secs(after)).await;
        assert_eq!(scrape(account).await, wanted, "{account}");
        assert_eq!(asked(), count, "{account} after {after} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_is_given_up_within_two_seconds() {
    let cluster = Cluster::default();
    let world = house(cluster.access()).await;
    assert_eq!(ask(&world, "GET", "/", Some(&token("team"))).await.status, StatusCode::OK);
    cluster.0.lock().unwrap().silent = true;
    for (path, account) in [("/metrics", "admin"), ("/", "team"), ("/v1/history", "team")] {
        // What was allowed a moment ago is remembered; after a while nobody knows any more.
        tokio::time::sleep(Duration::from_secs(31)).await;
        let begun = Instant::now();
        let answer = ask(&world, "GET", path, Some(&token(account))).await;
        check_problem(&answer, StatusCode::SERVICE_UNAVAILABLE, path);
        assert_eq!(answer.headers["retry-after"], "1");
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    }
    assert_eq!(ask(&world, "GET", "/livez", Some(&token("team"))).await.status, StatusCode::OK);
    cluster.0.lock().unwrap().silent = false;
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(ask(&world, "GET", "/", Some(&token("team"))).await.status, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_whether_a_probe_may_be_answered() {
    let cluster = Cluster::default();
    let world = house(cluster.access()).await;
    cluster.0.lock().unwrap().silent = true;
    let begun = Instant::now();
    for account in ["admin", "nobody"] {
        assert_eq!(ask(&world, "GET", "/livez", Some(&token(account))).await.status, StatusCode::OK);
    }
    assert_eq!((begun.elapsed(), cluster.asked("TokenReview")), (Duration::ZERO, 0));
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_bad_tokens_is_sent_away_and_a_scrape_is_not() {
    let cluster = Cluster::default();
    let world = house(cluster.access()).await;
    let scrape = || ask(&world, "GET", "/metrics", Some("Bearer admin"));
    assert_eq!(scrape().await.status, StatusCode::OK);
    tokio::time::sleep(Duration::from_secs(61)).await;
    cluster.0.lock().unwrap().slow = true;
    let flood = futures::future::join_all((0..2_000).map(|number| {
        let world = &world;
        async move { ask(world, "GET", "/readyz", Some(&format!("Bearer {number}"))).await.status }
    }));
    let (flood, scraped) = tokio::join!(flood, scrape());
    assert_eq!(scraped.status, StatusCode::OK, "{}", scraped.text());
    assert!(flood.iter().all(|status| *status == StatusCode::OK));
    assert!(cluster.asked("TokenReview") < 100, "{}", cluster.asked("TokenReview"));
}

#[tokio::test(start_paused = true)]
async fn strangers_learn_from_readyz_whether_it_is_ready_and_nothing_else() {
    let world = shop(Cluster::default().access()).await;
    for account in [None, Some(token("nobody")), Some(token("guest"))] {
        let answer = ask(&world, "GET", "/readyz", account.as_deref()).await;
        assert_eq!((answer.status, answer.text().as_str()), (StatusCode::OK, "ready\n"), "{account:?}");
    }
    let answer = ask(&world, "GET", "/readyz", Some(&token("admin"))).await.text();
    assert!(answer.contains("deployments.apps: listed"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn whoever_listens_comes_back_after_a_while_and_hears_only_of_his_own() {
    let cluster = Cluster::default();
    let world = house(cluster.access()).await;
    let begun = Instant::now();
    let heard = ask(&world, "GET", "/v1/events?since=0", Some(&token("team"))).await.text();
    assert_eq!(begun.elapsed().as_secs(), 300);
    assert!(heard.contains("event: changed") && !heard.contains("attic"), "{heard}");
    let heard = ask(&world, "GET", "/v1/events?since=0", Some(&token("admin"))).await.text();
    assert!(heard.contains("attic"), "{heard}");
}
