//! What those see who may not see everything, and what is asked for that.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use axum::body::Body;
use drift_exporter::{
    config::{Overrides, Settings, load},
    engine::{History, Transition},
    server::router,
    types::{Kind, ObjectKey, Source},
};
use http::{Request, StatusCode, header};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tower::ServiceExt as _;

use super::{
    ask, check_problem,
    tokens::{Cluster, elsewhere, house, house_with, token},
};
use crate::support::{
    api_server::ApiServer,
    objects::{deployment, edited, service},
    world::{Answer, World},
};

async fn get(world: &World, account: &str, path: &str) -> Answer {
    ask(world, "GET", path, Some(&token(account))).await
}

async fn post(world: &World, account: &str, body: &Value) -> Answer {
    let request = Request::post("/v1/resources").header(header::AUTHORIZATION, token(account));
    let request = request.header(header::CONTENT_TYPE, "application/json");
    world.ask(request.body(Body::from(body.to_string())).unwrap()).await
}

/// The namespaces in which it was asked whether something may be listed; empty for all of them at once.
fn asked_for(cluster: &Cluster) -> BTreeSet<String> {
    let state = cluster.0.lock().unwrap();
    let lists =
        state.asked.iter().map(|own| &own["spec"]["resourceAttributes"]).filter(|own| own.is_object());
    lists.map(|own| own["namespace"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn where_a_namespace_is_named_it_is_asked_for_no_other() {
    let cluster = Cluster::default();
    let world = house(cluster.access()).await;
    for path in
        ["/v1/resources?namespace=shop", "/v1/resources/deployment/shop/web", "/v1/gate?namespace=shop"]
    {
        assert_ne!(get(&world, "team", path).await.status, StatusCode::FORBIDDEN, "{path}");
    }
    assert_eq!(post(&world, "team", &json!({"namespace": "shop"})).await.json()["total"], 2);
    assert_eq!(asked_for(&cluster), BTreeSet::from([String::new(), "shop".to_owned()]));
    get(&world, "team", "/v1/resources?namespace=*").await;
    assert!(asked_for(&cluster).contains("attic"));
}

#[tokio::test(start_paused = true)]
async fn more_namespaces_than_can_be_asked_for_have_to_be_named() {
    let (api, cluster) = (ApiServer::default(), Cluster::default());
    for number in 0..2_100 {
        for (plural, mut object) in [
            ("deployments", deployment(&format!("web-{number}"))),
            ("services", service(&format!("web-{number}"))),
        ] {
            object["metadata"]["namespace"] = format!("shop-{number}").into();
            api.put(plural, object);
        }
    }
    cluster.0.lock().unwrap().of_team = Some(("*", "shop-7"));
    let world = World::with_access(&api, api.client(), Settings::default(), cluster.access());
    world.until("it is ready", Duration::from_secs(60), |world| world.snapshot().ready).await;
    world.settle().await;
    let all = get(&world, "team", "/v1/resources?namespace=*").await;
    check_problem(&all, StatusCode::FORBIDDEN, "all namespaces");
    assert!(all.text().contains("select one with `namespace`"), "{}", all.text());
    assert_eq!(asked_for(&cluster), BTreeSet::from([String::new()]), "nothing is asked in vain");
    assert_eq!(get(&world, "team", "/v1/resources?namespace=shop-7").await.json()["total"], 2);
    assert_eq!(get(&world, "admin", "/v1/resources?namespace=*").await.json()["total"], 4_200);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_in_a_body_is_answered_as_one_in_a_url() {
    let cluster = Cluster::default();
    cluster.0.lock().unwrap().of_team = Some(("*", "nook"));
    let world = house(cluster.access()).await;
    for (namespace, status) in
        [("nook", StatusCode::OK), ("attic", StatusCode::FORBIDDEN), ("nowhere", StatusCode::FORBIDDEN)]
    {
        let asked = get(&world, "team", &format!("/v1/resources?namespace={namespace}")).await;
        let posted = post(&world, "team", &json!({"namespace": namespace})).await;
        assert_eq!((asked.status, posted.status), (status, status), "{namespace}");
        assert_eq!(asked.text(), posted.text());
    }
}

#[tokio::test(start_paused = true)]
async fn the_gate_is_closed_for_what_may_not_be_seen() {
    let cluster = Cluster::default();
    cluster.0.lock().unwrap().of_team = Some(("deployments", "shop"));
    let world = house(cluster.access()).await;
    for (account, query, hidden) in [
        ("admin", "severity=critical", &[][..]),
        ("team", "namespace=shop&kind=deployment&severity=critical", &[]),
        ("team", "namespace=shop&severity=critical", &["Service"]),
        ("team", "namespace=shop&kind=service&severity=critical&allowEmpty=true", &["Service"]),
        ("team", "kind=deployment&severity=critical", &["Deployment"]),
        ("team", "severity=critical", &["Deployment", "Service"]),
    ] {
        let answer = get(&world, account, &format!("/v1/gate?{query}")).await;
        let wanted = if hidden.is_empty() { StatusCode::OK } else { StatusCode::CONFLICT };
        assert_eq!(answer.status, wanted, "{account} {query}: {}", answer.text());
        let reasons = answer.json()["reasons"].clone();
        let reasons = reasons.as_array().unwrap();
        let kinds: BTreeSet<&str> = reasons.iter().map(|own| own["kind"].as_str().unwrap()).collect();
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
async fn what_a_rule_of_the_settings_is_about_is_told_to_those_who_see_everything() {
    let text = "rules: [{name: own, reason: why, match: {namespaces: [shop, attic]}, effect: expected}]\n";
    let rules = load(text, &Overrides::default()).unwrap().settings;
    let world = house_with(Cluster::default().access(), rules.clone()).await;
    let object = "/v1/resources/deployment/shop/web";
    let told = get(&world, "team", object).await;
    assert!(!told.text().contains("attic"), "{}", told.text());
    let rule = own_rule(&told);
    assert_eq!((&rule["reason"], &rule["match"]), (&json!("why"), &json!({})));
    let everybody = house_with(drift_exporter::server::Auth::default(), rules).await;
    let rule = own_rule(&everybody.get(object).await);
    assert_eq!(rule["match"]["namespaces"], json!(["shop", "attic"]));
}

fn own_rule(answer: &Answer) -> Value {
    let rules = answer.json()["rules"].as_array().unwrap().clone();
    rules.into_iter().find(|rule| rule["name"] == "own").unwrap()
}

/// What an account hears of events, a frame at a time.
struct Ear(Body);

impl Ear {
    async fn open(world: &World, account: &str, query: &str) -> Self {
        let request =
            Request::get(format!("/v1/events{query}")).header(header::AUTHORIZATION, token(account));
        let request = request.body(Body::empty()).unwrap();
        Self(router(world.exposed.clone()).oneshot(request).await.unwrap().into_body())
    }

    /// Every frame until it is silent for half a second, signs of life aside.
    async fn hear(&mut self) -> Vec<String> {
        let mut frames = Vec::new();
        while let Ok(Some(Ok(frame))) = timeout(Duration::from_millis(500), self.0.frame()).await {
            frames.push(String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap());
        }
        frames.retain(|frame| frame != ":\n\n");
        frames
    }
}

#[tokio::test(start_paused = true)]
async fn what_happens_elsewhere_is_not_heard_and_changes_no_tag() {
    let world = house(Cluster::default().access()).await;
    let list = "/v1/resources?namespace=*";
    let tag = async || get(&world, "team", list).await.headers[header::ETAG].clone();
    let newest = async || get(&world, "team", "/v1/history").await.json()["last"].clone();
    let mut ear = Ear::open(&world, "team", "").await;
    ear.hear().await;
    let before = (tag().await, newest().await);
    for number in 2..5 {
        world.api.put("deployments", edited(elsewhere(deployment("chest")), number));
        sleep(Duration::from_millis(200)).await;
        world.api.put("deployments", elsewhere(deployment("chest")));
        sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(ear.hear().await, Vec::<String>::new());
    assert_eq!((tag().await, newest().await), before);
    world.api.put("deployments", deployment("web"));
    let heard = ear.hear().await.concat();
    assert!(heard.contains("event: transition") && heard.contains("event: changed"), "{heard}");
    let after = (tag().await, newest().await);
    assert!(after.0 != before.0 && after.1 != before.1);
}

#[tokio::test(start_paused = true)]
async fn those_who_may_not_see_everything_are_told_a_few_times_a_second_and_miss_nothing() {
    let world = house(Cluster::default().access()).await;
    let mut ear = Ear::open(&world, "team", "").await;
    ear.hear().await;
    let edits = async {
        for number in 0..100 {
            let web = deployment("web");
            world.api.put("deployments", if number % 2 == 0 { web } else { edited(web, 1) });
            sleep(Duration::from_millis(10)).await;
        }
    };
    let ((), frames) = tokio::join!(edits, ear.hear());
    let told = frames.concat().matches("event: transition").count();
    assert_eq!(told, 100);
    assert!((8..=12).contains(&frames.len()), "{} frames in a second", frames.len());
}

#[tokio::test(start_paused = true)]
async fn a_listener_is_not_reset_by_what_he_does_not_see() {
    let (api, access) = (ApiServer::default(), Cluster::default().access());
    api.put("deployments", deployment("web"));
    api.put("deployments", elsewhere(deployment("chest")));
    let key =
        ObjectKey { kind: Arc::new(Kind::deployment()), namespace: "attic".into(), name: "chest".into() };
    // As many as are kept, all of them in the attic.
    let history = History::restore((1..=10_100).map(|sequence| Transition {
        sequence,
        time: Timestamp::UNIX_EPOCH,
        key: key.clone(),
        uid: "uid".into(),
        source: Source::Annotation,
        from: None,
        to: None,
        reason: None,
        episode: None,
    }));
    let world = World::with_history(&api, api.client(), Settings::default(), access, history);
    world.until("it is ready", Duration::from_secs(5), |world| world.snapshot().ready).await;
    let mut ear = Ear::open(&world, "team", "?since=1").await;
    ear.hear().await;
    for number in 0..200 {
        let chest = elsewhere(deployment("chest"));
        world.api.put("deployments", if number % 2 == 0 { edited(chest, 1) } else { chest });
        sleep(Duration::from_millis(1)).await;
    }
    assert!(!world.snapshot().history.reaches_back_to(1), "it has moved on");
    world.api.put("deployments", edited(deployment("web"), 1));
    let heard = ear.hear().await.concat();
    assert!(heard.contains("event: transition") && !heard.contains("event: reset"), "{heard}");
}
