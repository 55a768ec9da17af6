//! Callers with restricted RBAC permissions, and the access reviews for them.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::body::Body;
use drift_exporter::{
    config::{Overrides, Settings, load},
    engine::{History, Transition},
    server::{BlockingPool, router},
    types::{Kind, ObjectKey, Source},
};
use http::{Request, StatusCode, header};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tower::ServiceExt as _;

use super::{
    check_problem, send,
    tokens::{ReviewServer, in_attic, token, two_namespaces, two_namespaces_with},
};
use crate::support::{
    api_server::ApiServer,
    exporter_fixture::{ExporterFixture, HttpResponse},
    live_objects::{deployment, edited, service},
};

async fn get(exporter: &ExporterFixture, account: &str, path: &str) -> HttpResponse {
    send(exporter, "GET", path, Some(&token(account))).await
}

async fn post(exporter: &ExporterFixture, account: &str, body: &Value) -> HttpResponse {
    let request = Request::post("/v1/resources").header(header::AUTHORIZATION, token(account));
    let request = request.header(header::CONTENT_TYPE, "application/json");
    exporter.send(request.body(Body::from(body.to_string())).unwrap()).await
}

/// The namespaces of all `SubjectAccessReview` objects for `list`; empty for a cluster-wide review.
fn reviewed_namespaces(reviews: &ReviewServer) -> BTreeSet<String> {
    let state = reviews.0.lock().unwrap();
    let lists = state
        .received
        .iter()
        .map(|review| &review["spec"]["resourceAttributes"])
        .filter(|review| review.is_object());
    lists.map(|review| review["namespace"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn work_that_grows_with_the_cluster_runs_off_the_threads_that_serve_requests() {
    let work = Arc::new(AtomicUsize::new(0));
    let count = work.clone();
    let pool = BlockingPool::new(move |run| {
        count.fetch_add(1, Ordering::Relaxed);
        run();
    });
    let exporter = two_namespaces(ReviewServer::default().access()).await.with_pool(pool);
    // The visible part of the snapshot, and the list; all namespaces of kinds that the account may not list as a whole.
    for (account, namespace, expected) in [("team", "shop", 2), ("team", "*", 3), ("admin", "*", 2)] {
        work.store(0, Ordering::Relaxed);
        let response = get(&exporter, account, &format!("/v1/resources?namespace={namespace}")).await;
        assert_eq!(
            (response.status.as_u16(), work.load(Ordering::Relaxed)),
            (200, expected),
            "{account} {namespace}"
        );
    }
    // The details of `/readyz` have a line for each watch.
    work.store(0, Ordering::Relaxed);
    let ready = get(&exporter, "admin", "/readyz").await;
    assert!(ready.text().contains("deployments.apps: listed"), "{}", ready.text());
    assert_eq!(work.load(Ordering::Relaxed), 2, "the visible part of the snapshot, and the details");
}

#[tokio::test(start_paused = true)]
async fn namespaced_request_reviews_only_that_namespace() {
    let reviews = ReviewServer::default();
    let exporter = two_namespaces(reviews.access()).await;
    for path in
        ["/v1/resources?namespace=shop", "/v1/resources/deployment/shop/web", "/v1/gate?namespace=shop"]
    {
        assert_ne!(get(&exporter, "team", path).await.status, StatusCode::FORBIDDEN, "{path}");
    }
    assert_eq!(post(&exporter, "team", &json!({"namespace": "shop"})).await.json()["total"], 2);
    assert_eq!(reviewed_namespaces(&reviews), BTreeSet::from([String::new(), "shop".to_owned()]));
    get(&exporter, "team", "/v1/resources?namespace=*").await;
    assert!(reviewed_namespaces(&reviews).contains("attic"));
}

#[tokio::test(start_paused = true)]
async fn too_many_namespaces_require_a_namespace_selector() {
    let (api, reviews) = (ApiServer::default(), ReviewServer::default());
    for number in 0..2_100 {
        for (plural, mut object) in [
            ("deployments", deployment(&format!("web-{number}"))),
            ("services", service(&format!("web-{number}"))),
        ] {
            object["metadata"]["namespace"] = format!("shop-{number}").into();
            api.put(plural, object);
        }
    }
    reviews.0.lock().unwrap().team_permission = Some(("*", "shop-7"));
    let exporter =
        ExporterFixture::start_with_auth(&api, api.client(), Settings::default(), reviews.access());
    exporter
        .until("the exporter is ready", Duration::from_secs(60), |exporter| exporter.snapshot().ready)
        .await;
    exporter.wait_idle().await;
    let all = get(&exporter, "team", "/v1/resources?namespace=*").await;
    check_problem(&all, StatusCode::FORBIDDEN, "all namespaces");
    assert!(all.text().contains("select one with `namespace`"), "{}", all.text());
    assert_eq!(
        reviewed_namespaces(&reviews),
        BTreeSet::from([String::new()]),
        "only the cluster-wide review is sent"
    );
    assert_eq!(get(&exporter, "team", "/v1/resources?namespace=shop-7").await.json()["total"], 2);
    assert_eq!(get(&exporter, "admin", "/v1/resources?namespace=*").await.json()["total"], 4_200);
}

#[tokio::test(start_paused = true)]
async fn post_and_get_authorize_namespaces_alike() {
    let reviews = ReviewServer::default();
    reviews.0.lock().unwrap().team_permission = Some(("*", "nook"));
    let exporter = two_namespaces(reviews.access()).await;
    for (namespace, status) in
        [("nook", StatusCode::OK), ("attic", StatusCode::FORBIDDEN), ("nowhere", StatusCode::FORBIDDEN)]
    {
        let fetched = get(&exporter, "team", &format!("/v1/resources?namespace={namespace}")).await;
        let posted = post(&exporter, "team", &json!({"namespace": namespace})).await;
        assert_eq!((fetched.status, posted.status), (status, status), "{namespace}");
        assert_eq!(fetched.text(), posted.text());
    }
}

#[tokio::test(start_paused = true)]
async fn gate_is_closed_for_kinds_the_caller_may_not_list() {
    let reviews = ReviewServer::default();
    reviews.0.lock().unwrap().team_permission = Some(("deployments", "shop"));
    let exporter = two_namespaces(reviews.access()).await;
    for (account, query, hidden) in [
        ("admin", "severity=critical", &[][..]),
        ("team", "namespace=shop&kind=deployment&severity=critical", &[]),
        ("team", "namespace=shop&severity=critical", &["Service"]),
        ("team", "namespace=shop&kind=service&severity=critical&allowEmpty=true", &["Service"]),
        ("team", "kind=deployment&severity=critical", &["Deployment"]),
        ("team", "severity=critical", &["Deployment", "Service"]),
    ] {
        let answer = get(&exporter, account, &format!("/v1/gate?{query}")).await;
        let wanted = if hidden.is_empty() { StatusCode::OK } else { StatusCode::CONFLICT };
        assert_eq!(answer.status, wanted, "{account} {query}: {}", answer.text());
        let reasons = answer.json()["reasons"].clone();
        let reasons = reasons.as_array().unwrap();
        let kinds: BTreeSet<&str> = reasons.iter().map(|reason| reason["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, hidden.iter().copied().collect(), "{account} {query}");
        for reason in reasons {
            assert_eq!(reason["verdict"], "unknown");
            assert!(
                reason["details"][0].as_str().unwrap().starts_with("This account may not list"),
                "{reason}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn rule_match_is_hidden_from_restricted_callers() {
    let text = "rules: [{name: own, reason: why, match: {namespaces: [shop, attic]}, effect: expected}]\n";
    let rules = load(text, &Overrides::default(), Timestamp::UNIX_EPOCH).unwrap().settings;
    let exporter = two_namespaces_with(ReviewServer::default().access(), rules.clone()).await;
    let object = "/v1/resources/deployment/shop/web";
    let restricted = get(&exporter, "team", object).await;
    assert!(!restricted.text().contains("attic"), "{}", restricted.text());
    let rule = own_rule(&restricted);
    assert_eq!((&rule["reason"], &rule["match"]), (&json!("why"), &json!({})));
    let open = two_namespaces_with(drift_exporter::server::Auth::default(), rules).await;
    let rule = own_rule(&open.get(object).await);
    assert_eq!(rule["match"]["namespaces"], json!(["shop", "attic"]));
}

fn own_rule(answer: &HttpResponse) -> Value {
    let rules = answer.json()["rules"].as_array().unwrap().clone();
    rules.into_iter().find(|rule| rule["name"] == "own").unwrap()
}

/// The `/v1/events` stream of an account.
struct EventStream(Body);

impl EventStream {
    async fn open(exporter: &ExporterFixture, account: &str, query: &str) -> Self {
        let request =
            Request::get(format!("/v1/events{query}")).header(header::AUTHORIZATION, token(account));
        let request = request.body(Body::empty()).unwrap();
        Self(router(exporter.exposed.clone()).oneshot(request).await.unwrap().into_body())
    }

    /// Every frame except heartbeats, until none arrives for half a second.
    async fn read(&mut self) -> Vec<String> {
        let mut frames = Vec::new();
        while let Ok(Some(Ok(frame))) = timeout(Duration::from_millis(500), self.0.frame()).await {
            frames.push(String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap());
        }
        frames.retain(|frame| frame != ":\n\n");
        frames
    }
}

#[tokio::test(start_paused = true)]
async fn changes_in_hidden_namespaces_emit_no_event_and_keep_etag() {
    let exporter = two_namespaces(ReviewServer::default().access()).await;
    let list = "/v1/resources?namespace=*";
    let tag = async || get(&exporter, "team", list).await.headers[header::ETAG].clone();
    let newest = async || get(&exporter, "team", "/v1/history").await.json()["last"].clone();
    let mut stream = EventStream::open(&exporter, "team", "").await;
    stream.read().await;
    let before = (tag().await, newest().await);
    for number in 2..5 {
        exporter.api.put("deployments", edited(in_attic(deployment("chest")), number));
        sleep(Duration::from_millis(200)).await;
        exporter.api.put("deployments", in_attic(deployment("chest")));
        sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(stream.read().await, Vec::<String>::new());
    assert_eq!((tag().await, newest().await), before);
    exporter.api.put("deployments", deployment("web"));
    let events = stream.read().await.concat();
    assert!(events.contains("event: transition") && events.contains("event: changed"), "{events}");
    let after = (tag().await, newest().await);
    assert!(after.0 != before.0 && after.1 != before.1);
}

#[tokio::test(start_paused = true)]
async fn restricted_event_stream_batches_without_loss() {
    let exporter = two_namespaces(ReviewServer::default().access()).await;
    let mut stream = EventStream::open(&exporter, "team", "").await;
    stream.read().await;
    let edits = async {
        for number in 0..100 {
            let web = deployment("web");
            exporter.api.put("deployments", if number % 2 == 0 { web } else { edited(web, 1) });
            sleep(Duration::from_millis(10)).await;
        }
    };
    let ((), frames) = tokio::join!(edits, stream.read());
    let transitions = frames.concat().matches("event: transition").count();
    assert_eq!(transitions, 100);
    assert!((8..=12).contains(&frames.len()), "{} frames in a second", frames.len());
}

#[tokio::test(start_paused = true)]
async fn hidden_transitions_do_not_reset_event_stream() {
    let (api, access) = (ApiServer::default(), ReviewServer::default().access());
    api.put("deployments", deployment("web"));
    api.put("deployments", in_attic(deployment("chest")));
    let key =
        ObjectKey { kind: Arc::new(Kind::deployment()), namespace: "attic".into(), name: "chest".into() };
    // A full history, all of it in the namespace `attic`.
    let history = History::restore((1..=10_100).map(|sequence| Transition {
        sequence,
        time: Timestamp::UNIX_EPOCH,
        key: key.clone(),
        uid: Some("uid".into()),
        source: Source::Annotation,
        from: None,
        to: None,
        reason: None,
        episode: None,
    }));
    let exporter =
        ExporterFixture::start_with_history(&api, api.client(), Settings::default(), access, history);
    exporter
        .until("the exporter is ready", Duration::from_secs(5), |exporter| exporter.snapshot().ready)
        .await;
    let mut stream = EventStream::open(&exporter, "team", "?since=1").await;
    stream.read().await;
    for number in 0..200 {
        let chest = in_attic(deployment("chest"));
        exporter.api.put("deployments", if number % 2 == 0 { edited(chest, 1) } else { chest });
        sleep(Duration::from_millis(1)).await;
    }
    assert!(!exporter.snapshot().history.reaches_back_to(1), "the history has dropped its first entry");
    exporter.api.put("deployments", edited(deployment("web"), 1));
    let events = stream.read().await.concat();
    assert!(events.contains("event: transition") && !events.contains("event: reset"), "{events}");
}
