//! Kinds of the cluster's own: what its API server says about them, when that is read, and what happens when it cannot be.

use std::time::Duration;

use drift_exporter::{
    config::Settings,
    types::{Kind, Source, VerdictKind, WantedKind},
};
use serde_json::{Value, json};

use crate::support::{
    api_server::{ApiServer, Mood},
    objects::deployment,
    world::World,
};

const VERSION: &str = "example.com/v1";
const SOON: Duration = Duration::from_secs(6);

fn widget() -> Kind {
    Kind { plural: "widgets".into(), ..Kind::undiscovered("example.com", "v1", "Widget") }
}

/// A Widget to which stages were applied in one order, and which has them in another one.
fn turned(name: &str) -> Value {
    let applied = json!({"apiVersion": VERSION, "kind": "Widget", "metadata": {"name": name, "namespace": "shop"},
        "spec": {"stages": [{"zone": "eu"}, {"zone": "us"}]}});
    json!({"metadata": {"namespace": "shop", "name": name, "uid": format!("uid-{name}"),
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": applied.to_string()}},
        "spec": {"stages": [{"zone": "us"}, {"zone": "eu"}]}})
}

/// The schema of Widgets, by what their stages are known.
fn schema(stages: &Value) -> Value {
    let mut list =
        json!({"type": "array", "items": {"type": "object", "properties": {"zone": {"type": "string"}}}});
    for (name, value) in stages.as_object().unwrap() {
        list[name] = value.clone();
    }
    json!({"type": "object", "x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Widget"}],
        "properties": {"spec": {"type": "object", "properties": {"stages": list}}}})
}

/// A document with this schema, and as many bytes of others.
fn document(schema: &Value, more: usize) -> Vec<u8> {
    let others = "x".repeat(more);
    let other = json!({"type": "object", "description": others, "x-kubernetes-group-version-kind": [
        {"group": "example.com", "version": "v1", "kind": "Gadget"}]});
    json!({"openapi": "3.0.0", "components": {"schemas": {"com.example.v1.Widget": schema, "com.example.v1.Gadget": other}}})
        .to_string()
        .into()
}

fn as_one_value() -> Vec<u8> {
    document(&schema(&json!({"x-kubernetes-list-type": "atomic"})), 0)
}

fn by_zone() -> Vec<u8> {
    let stages = json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["zone"]});
    document(&schema(&stages), 0)
}

fn cluster() -> ApiServer {
    let api = ApiServer::default();
    api.serve(&[widget()]);
    api.put("deployments", deployment("web"));
    api.put("widgets", turned("gear"));
    api
}

fn start(api: &ApiServer) -> World {
    let kinds = vec![WantedKind::exactly(&Kind::deployment()), WantedKind::exactly(&widget())];
    let sources = vec![Source::Annotation, Source::LastApplied];
    World::with(api, Settings { kinds, sources, ..Settings::default() })
}

/// What is said about an object of a kind.
fn verdict(world: &World, kind: &str, name: &str) -> Option<VerdictKind> {
    let snapshot = world.snapshot();
    let state = snapshot.kinds.iter().find(|state| &*state.kind.kind == kind)?;
    let entry = state.blocks.get("shop", name).first()?;
    Some(entry.claim.verdict.kind())
}

async fn wait_for(world: &World, wanted: VerdictKind, patience: Duration) -> Duration {
    let what = format!("it is {wanted:?}");
    world.until(&what, patience, |world| verdict(world, "Widget", "gear") == Some(wanted)).await
}

fn asked(api: &ApiServer, what: &str) -> usize {
    api.requests().iter().filter(|url| url.starts_with(what)).count()
}

#[tokio::test(start_paused = true)]
async fn what_a_schema_says_holds_and_so_does_another_one_that_comes_later() {
    let api = cluster();
    api.describe(VERSION, as_one_value());
    let world = start(&api);
    wait_for(&world, VerdictKind::Drifted, SOON).await;
    assert_eq!(world.snapshot().history.newest_first().count(), 0, "nothing was said before it was known");

    // A server that takes in another schema ends the watches of the kind; it tells of it a little later.
    api.cut();
    tokio::time::sleep(Duration::from_secs(2)).await;
    api.describe(VERSION, by_zone());
    let took = wait_for(&world, VerdictKind::InSync, SOON).await;
    assert!(took < Duration::from_secs(4), "{took:?}");
    api.describe(VERSION, as_one_value());
    api.cut();
    wait_for(&world, VerdictKind::Drifted, SOON).await;
    assert_eq!(asked(&api, "/openapi/v3/apis/example.com/v1?hash="), 3, "each is read once");
    assert_eq!(asked(&api, "/openapi/v3/"), 3, "nothing else is");

    tokio::time::sleep(Duration::from_mins(1)).await;
    let before = asked(&api, "/openapi/v3");
    tokio::time::sleep(Duration::from_hours(1)).await;
    let looks = asked(&api, "/openapi/v3") - before;
    assert!((50..=60).contains(&looks), "{looks} looks in an hour in which nothing happens");
    assert_eq!(asked(&api, "/openapi/v3/"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_schema_that_comes_a_little_later_than_its_kind_is_waited_for() {
    let api = cluster();
    api.describe("other.example/v1", document(&json!({}), 0));
    let world = start(&api);
    wait_for(&world, VerdictKind::InFlight, SOON).await;
    assert_eq!(verdict(&world, "Deployment", "web"), Some(VerdictKind::InSync), "others are not waited with");
    tokio::time::sleep(Duration::from_secs(1)).await;
    api.describe(VERSION, as_one_value());
    wait_for(&world, VerdictKind::Drifted, SOON).await;
    assert_eq!(world.snapshot().history.newest_first().count(), 0);
}

/// Nothing can be read: something is guessed, and nothing else is disturbed.
async fn check_guessed(what: &str, api: ApiServer, patience: Duration) -> usize {
    let world = start(&api);
    wait_for(&world, VerdictKind::InSync, patience).await;
    assert_eq!(verdict(&world, "Deployment", "web"), Some(VerdictKind::InSync), "{what}");
    assert_eq!(world.get("/readyz").await.status, 200, "{what}");
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(verdict(&world, "Widget", "gear"), Some(VerdictKind::InSync), "{what}");
    let (all, documents) = (asked(&api, "/openapi/v3"), asked(&api, "/openapi/v3/"));
    assert!(all - documents <= 14, "{what}: {all} questions in ten minutes");
    documents
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_say_anything_leaves_guesses() {
    check_guessed("no index", cluster(), SOON).await;
    for (code, patience) in [(403, 6), (404, 6), (401, 6), (500, 20), (429, 20)] {
        let api = cluster();
        api.describe(VERSION, as_one_value());
        api.mood("v3", Mood::Refuses(code, None));
        check_guessed(&format!("the index is answered with {code}"), api, Duration::from_secs(patience))
            .await;
        let api = cluster();
        api.describe(VERSION, as_one_value());
        api.mood("v1", Mood::Refuses(code, None));
        check_guessed(&format!("the document is answered with {code}"), api, Duration::from_secs(patience))
            .await;
    }
    let api = cluster();
    api.describe(VERSION, as_one_value());
    api.mood("v3", Mood::Mute);
    check_guessed("the index is never answered", api, Duration::from_secs(50)).await;
    let api = cluster();
    api.describe("other.example/v1", as_one_value());
    check_guessed("the version is not in the index", api, Duration::from_secs(20)).await;
}

#[tokio::test(start_paused = true)]
async fn a_document_that_cannot_be_used_leaves_guesses() {
    let kept = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let named = schema(&json!({}))["x-kubernetes-group-version-kind"].clone();
    let bare = |properties: Value| json!({"type": "object", "x-kubernetes-group-version-kind": named, "properties": properties});
    for (what, text) in [
        ("nothing", Vec::new()),
        ("a part of it", as_one_value()[..200].to_vec()),
        ("no UTF-8", vec![0xff; 64]),
        ("another document", b"{\"kind\": \"Status\"}".to_vec()),
        ("lists for schemas", b"{\"components\": {\"schemas\": []}}".to_vec()),
        ("another kind", document(&json!({"type": "object"}), 0)),
        ("nothing about fields", document(&bare(json!({"metadata": {"type": "object"}})), 0)),
        ("that all is kept", document(&bare(json!({"spec": kept})), 0)),
        ("nesting without end", [b"{\"components\": ".to_vec(), b"[".repeat(1 << 20)].concat()),
        ("more than is read", document(&schema(&json!({})), 33 << 20)),
    ] {
        let api = cluster();
        api.describe(VERSION, text);
        assert_eq!(check_guessed(what, api, SOON).await, 1, "{what}: it is read once");
    }
}

#[tokio::test(start_paused = true)]
async fn of_a_large_document_only_what_is_wanted_is_taken() {
    let api = cluster();
    api.describe(VERSION, document(&schema(&json!({"x-kubernetes-list-type": "atomic"})), 20 << 20));
    wait_for(&start(&api), VerdictKind::Drifted, SOON).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_known_stands_when_it_cannot_be_read_any_more() {
    let api = cluster();
    api.describe(VERSION, as_one_value());
    let world = start(&api);
    wait_for(&world, VerdictKind::Drifted, SOON).await;
    for wrong in ["v3", "v1"] {
        api.mood(wrong, Mood::Refuses(403, None));
        api.describe(VERSION, by_zone());
        api.cut();
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(verdict(&world, "Widget", "gear"), Some(VerdictKind::Drifted), "{wrong}");
        api.mood(wrong, Mood::Well);
        api.cut();
        wait_for(&world, VerdictKind::InSync, SOON).await;
        api.describe(VERSION, as_one_value());
        api.cut();
        wait_for(&world, VerdictKind::Drifted, SOON).await;
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_asks_about_kinds_that_are_known_or_not_compared() {
    let api = cluster();
    api.describe(VERSION, as_one_value());
    let known = Settings {
        kinds: vec![WantedKind::exactly(&Kind::deployment())],
        sources: vec![Source::LastApplied],
        ..Settings::default()
    };
    let not_compared = Settings { kinds: vec![WantedKind::exactly(&widget())], ..Settings::default() };
    for settings in [known, not_compared] {
        let world = World::with(&api, settings);
        tokio::time::sleep(Duration::from_mins(11)).await;
        assert_eq!(asked(&api, "/openapi"), 0);
        drop(world);
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_nobody_wanted_for_a_moment_is_compared_again() {
    let api = cluster();
    api.describe(VERSION, as_one_value());
    let world = start(&api);
    wait_for(&world, VerdictKind::Drifted, SOON).await;
    let wanted = Settings::clone(&world.settings.current());
    let others =
        Settings { kinds: vec![WantedKind::exactly(&Kind::deployment())], ..Settings::clone(&wanted) };
    for _ in 0..3 {
        world.settings.replace(others.clone());
        world.until("it is let go of", SOON, |world| verdict(world, "Widget", "gear").is_none()).await;
        world.settings.replace(wanted.clone());
        wait_for(&world, VerdictKind::Drifted, Duration::from_secs(20)).await;
    }
}
