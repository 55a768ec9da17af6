//! What kubectl wrote down on objects beside what they are, through a running exporter.

use drift_exporter::{
    config::Settings,
    types::{Kind, Scope, Selector, Source, WantedKind},
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::support::{
    api_server::ApiServer,
    world::{BEGIN, World},
};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
const DEPLOYMENTS: &str = "deployments";
const WEB: &str = "deployment.apps/shop/web";

fn config_map() -> Kind {
    Kind { plural: "configmaps".into(), ..Kind::undiscovered("", "v1", "ConfigMap") }
}

fn secret() -> Kind {
    Kind { plural: "secrets".into(), ..Kind::undiscovered("", "v1", "Secret") }
}

fn cluster_role() -> Kind {
    let kind = Kind::undiscovered("rbac.authorization.k8s.io", "v1", "ClusterRole");
    Kind { plural: "clusterroles".into(), namespaced: false, ..kind }
}

/// A manifest of `web` with this many replicas, as kubectl writes it down.
fn manifest(replicas: u64) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"annotations": {}, "labels": {"app": "web"}, "name": "web", "namespace": "shop"},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "web", "image": "nginx:1.27"}]}}}})
}

/// `web` with this many replicas, as a tool set them a minute ago, and what kubectl wrote down on it.
fn web(applied: &str, replicas: u64, manager: &str) -> Value {
    let owned = json!({"f:spec": {"f:replicas": {}}});
    json!({
        "metadata": {"namespace": "shop", "name": "web", "uid": "uid-web", "generation": replicas,
            "labels": {"app": "web"}, "annotations": {ANNOTATION: applied, "note": "of others"},
            "managedFields": [{"manager": manager, "operation": "Update", "time": at(-60), "fieldsV1": owned}]},
        "spec": {"replicas": replicas, "progressDeadlineSeconds": 600, "template": {"spec": {
            "containers": [{"name": "web", "image": "nginx:1.27", "imagePullPolicy": "IfNotPresent"}]}}},
        "status": {"observedGeneration": replicas},
    })
}

/// A moment, in seconds after the beginning of the test.
fn at(second: i64) -> String {
    Timestamp::from_second(BEGIN + second).unwrap().to_string()
}

/// `web` as it was applied.
fn applied(replicas: u64) -> Value {
    web(&manifest(replicas).to_string(), replicas, "kubectl-client-side-apply")
}

/// `web` after somebody has scaled it from what was applied.
fn edited(from: u64, replicas: u64) -> Value {
    web(&manifest(from).to_string(), replicas, "kubectl-edit")
}

/// The same object under another name.
fn called(name: &str, mut object: Value) -> Value {
    let mut document: Value =
        serde_json::from_str(object["metadata"]["annotations"][ANNOTATION].as_str().unwrap()).unwrap();
    document["metadata"]["name"] = name.into();
    object["metadata"]["annotations"][ANNOTATION] = document.to_string().into();
    (object["metadata"]["name"], object["metadata"]["uid"]) = (name.into(), format!("uid-{name}").into());
    object
}

/// An exporter that has listed everything.
async fn world(api: &ApiServer, kinds: &[WantedKind]) -> World {
    let (sources, kinds) = (vec![Source::LastApplied], kinds.to_vec());
    World::listed(api, Settings { sources, kinds, ..Settings::default() }).await
}

/// An exporter that watches Deployments, of which there is this one and another that nobody touches.
async fn shop(web: Value) -> World {
    let api = ApiServer::default();
    api.put(DEPLOYMENTS, web);
    api.put(DEPLOYMENTS, called("api", applied(2)));
    world(&api, &[WantedKind::exactly(&Kind::deployment())]).await
}

/// Shows the exporter another version of `web`.
async fn see(world: &World, object: Value) {
    world.api.put(DEPLOYMENTS, object);
    world.settle().await;
}

/// The one claim on an object.
async fn claim(world: &World, object: &str) -> Value {
    let object = world.get(&format!("/v1/resources/{object}")).await.json();
    assert_eq!(object["claims"].as_array().map(Vec::len), Some(1), "{object}");
    object["claims"][0].clone()
}

/// `web` has this verdict, and this reason where there is one; the other one is as it was applied.
async fn check(world: &World, verdict: &str, reason: Option<&str>) {
    let (web, api) = (claim(world, WEB).await, claim(world, "deployment.apps/shop/api").await);
    let told = |claim: &Value| [&claim["source"], &claim["verdict"], &claim["reason"]].map(Clone::clone);
    assert_eq!(told(&web), [json!("last_applied"), json!(verdict), json!(reason)], "{web}");
    assert_eq!(told(&api), [json!("last_applied"), json!("in_sync"), Value::Null], "{api}");
}

/// The series of `web` with this name.
async fn sample(world: &World, name: &str) -> Option<f64> {
    let object = "group=\"apps\",kind=\"Deployment\",namespace=\"shop\",name=\"web\",source=\"last_applied\"";
    world.sample(&format!("{name}{{{object}")).await
}

/// How many episodes have begun, and how many have ended for this cause.
async fn episodes(world: &World, cause: &str) -> (f64, f64) {
    let place = "group=\"apps\",kind=\"Deployment\",namespace=\"shop\",source=\"last_applied\"";
    let began = world.sample(&format!("drift_detections_total{{{place}")).await;
    let ended = world.sample(&format!("drift_resolutions_total{{{place},cause=\"{cause}\"")).await;
    (began.unwrap_or(0.0), ended.unwrap_or(0.0))
}

#[tokio::test(start_paused = true)]
async fn an_edit_of_what_was_applied_is_drift_until_it_is_undone() {
    let world = shop(applied(3)).await;
    check(&world, "in_sync", None).await;
    assert_eq!(sample(&world, "drift_resource_drifted").await, Some(0.0));

    see(&world, edited(3, 5)).await;
    check(&world, "drifted", None).await;
    let web = claim(&world, WEB).await;
    let difference = &web["differences"][0];
    assert_eq!(web["differences"].as_array().map(Vec::len), Some(1), "{web}");
    let told = ["path", "field", "expected", "actual", "actor", "manager", "onset"];
    assert_eq!(
        told.map(|name| difference[name].as_str().unwrap_or("-")),
        ["spec.replicas", "replicas", "3", "5", "kubectl", "kubectl-edit", &at(-60)]
    );
    assert_eq!(sample(&world, "drift_resource_drifted").await, Some(1.0));
    assert_eq!(sample(&world, "drift_resource_drifted_fields").await, Some(1.0));
    let page = world.get(&format!("/objects/{WEB}")).await.text();
    assert!(page.contains("spec.replicas") && page.contains("last_applied"), "{page}");

    see(&world, edited(3, 3)).await;
    check(&world, "in_sync", None).await;
    assert_eq!(episodes(&world, "reverted").await, (1.0, 1.0));
}

#[tokio::test(start_paused = true)]
async fn an_edit_of_what_nobody_applied_is_none() {
    let world = shop(applied(3)).await;
    let mut object = applied(3);
    object["spec"]["paused"] = true.into();
    object["spec"]["progressDeadlineSeconds"] = 60.into();
    object["metadata"]["labels"]["team"] = "checkout".into();
    object["metadata"]["annotations"]["note"] = "changed".into();
    object["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = "Always".into();
    object["status"]["availableReplicas"] = 1.into();
    see(&world, object).await;
    check(&world, "in_sync", None).await;
    assert_eq!(episodes(&world, "reverted").await, (0.0, 0.0));
}

#[tokio::test(start_paused = true)]
async fn whoever_applies_moves_the_baseline_and_only_what_moves_alone_is_absorbed() {
    let world = shop(applied(3)).await;
    // Both move, and nothing was off before or after.
    see(&world, applied(4)).await;
    check(&world, "in_sync", None).await;
    assert_eq!(episodes(&world, "absorbed").await, (0.0, 0.0));
    // What somebody set by hand is what somebody applies: only the baseline moves.
    see(&world, edited(4, 5)).await;
    check(&world, "drifted", None).await;
    see(&world, edited(5, 5)).await;
    check(&world, "in_sync", None).await;
    assert_eq!(episodes(&world, "absorbed").await, (1.0, 1.0));
    // Something else than what was set by hand is applied: the object moves as well.
    see(&world, edited(5, 7)).await;
    check(&world, "drifted", None).await;
    see(&world, applied(6)).await;
    check(&world, "in_sync", None).await;
    assert_eq!(episodes(&world, "absorbed").await, (2.0, 1.0));
    assert_eq!(episodes(&world, "reverted").await, (2.0, 1.0));
    // The baseline moves, and what is there is still something else: the episode goes on.
    see(&world, edited(6, 9)).await;
    see(&world, edited(8, 9)).await;
    check(&world, "drifted", None).await;
    assert_eq!(claim(&world, WEB).await["differences"][0]["expected"], "8");
    assert_eq!(episodes(&world, "absorbed").await, (3.0, 1.0));
}

/// What stands in the annotation and declares nothing that can be compared.
fn broken() -> Vec<(&'static str, String)> {
    let with = |pointer: &str, value: Value| {
        let mut document = manifest(3);
        *document.pointer_mut(pointer).unwrap() = value;
        document.to_string()
    };
    vec![
        ("no JSON", "{apiVersion: apps/v1}".to_owned()),
        ("cut off", manifest(3).to_string()[..80].to_owned()),
        ("nothing", String::new()),
        ("null", "null".to_owned()),
        ("a number", "3".to_owned()),
        ("a list", format!("[{}]", manifest(3))),
        ("an object without anything", "{}".to_owned()),
        ("too deep", format!("{}{}", "[".repeat(100_000), "]".repeat(100_000))),
        ("of another name", with("/metadata/name", json!("api"))),
        ("of no name", with("/metadata", json!({}))),
        ("of another namespace", with("/metadata/namespace", json!("ops"))),
        ("of another kind", with("/kind", json!("StatefulSet"))),
        ("of another group", with("/apiVersion", json!("extensions/v1"))),
        ("of the core group", with("/apiVersion", json!("v1"))),
    ]
}

#[tokio::test(start_paused = true)]
async fn an_annotation_that_cannot_be_read_or_is_of_another_object_is_told_and_what_was_known_stays() {
    const ERRORS: &str =
        "drift_baseline_errors_total{source=\"last_applied\",reason=\"unreadable_baseline\"}";
    let world = shop(edited(3, 5)).await;
    assert_eq!(world.sample(ERRORS).await, Some(0.0));
    for (count, (what, text)) in (1..).zip(broken()) {
        see(&world, web(&text, 5, "kubectl-edit")).await;
        check(&world, "unknown", Some("unreadable_baseline")).await;
        // It was drifted when it was last compared.
        assert_eq!(sample(&world, "drift_resource_drifted").await, Some(1.0));
        assert_eq!(world.sample(ERRORS).await, Some(f64::from(count)), "{what}");
        let page = world.get(&format!("/objects/{WEB}")).await.text();
        assert!(page.contains("its baseline cannot be read"), "{page}");
        see(&world, edited(3, 5)).await;
        check(&world, "drifted", None).await;
    }
    assert_eq!(episodes(&world, "reverted").await, (0.0, 0.0));
    see(&world, applied(3)).await;
    check(&world, "in_sync", None).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_applied_in_another_version_of_the_group_is_not_compared() {
    let mut document = manifest(3);
    document["apiVersion"] = "apps/v1beta2".into();
    let world = shop(web(&document.to_string(), 5, "kubectl-edit")).await;
    check(&world, "unknown", Some("other_version")).await;
    assert_eq!(sample(&world, "drift_resource_drifted").await, None);
    see(&world, applied(3)).await;
    check(&world, "in_sync", None).await;
}

#[tokio::test(start_paused = true)]
async fn without_the_annotation_nothing_is_claimed_any_more() {
    let world = shop(edited(3, 5)).await;
    check(&world, "drifted", None).await;
    let mut object = edited(3, 5);
    object["metadata"]["annotations"].as_object_mut().unwrap().remove(ANNOTATION);
    see(&world, object.clone()).await;
    let web = claim(&world, WEB).await;
    assert_eq!([&web["source"], &web["verdict"]], ["none", "no_baseline"], "{web}");
    assert_eq!(sample(&world, "drift_resource_drifted").await, None);
    let api = claim(&world, "deployment.apps/shop/api").await;
    assert_eq!(api["verdict"], "in_sync");
    let ended = &world.get("/v1/history").await.json()["transitions"][0];
    assert_eq!([&ended["source"], &ended["cause"]], ["last_applied", "deleted"], "{ended}");
    // The same without any annotation, and with it again.
    object["metadata"].as_object_mut().unwrap().remove("annotations");
    see(&world, object).await;
    assert_eq!(claim(&world, WEB).await["source"], "none");
    see(&world, applied(3)).await;
    check(&world, "in_sync", None).await;
}

#[tokio::test(start_paused = true)]
async fn secrets_are_never_asked_and_what_stands_on_them_is_nowhere() {
    const CANARY: &str = "b25seS1vbi10aGUtc2VjcmV0";
    let api = ApiServer::default();
    api.serve(&[secret()]);
    let document = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"annotations": {}, "name": "psp", "namespace": "shop"}, "data": {"password": CANARY}});
    let object = |password: &str| {
        json!({"metadata": {"namespace": "shop", "name": "psp", "uid": "uid-psp", "labels": {"app": "psp"},
            "annotations": {ANNOTATION: document.to_string()}}, "data": {"password": password}})
    };
    api.put("secrets", object(CANARY));
    api.put(DEPLOYMENTS, edited(3, 5));
    api.put(DEPLOYMENTS, called("api", applied(2)));
    // Secrets are never read by the way: somebody has to say which.
    let (selector, scope) = (Some(Selector::equals("app", "psp")), Scope::new(["shop"], []));
    let secrets = WantedKind { selector, scope, ..WantedKind::exactly(&secret()) };
    let world = world(&api, &[secrets, WantedKind::exactly(&Kind::deployment())]).await;
    for password in [CANARY, "b3RoZXI="] {
        api.put("secrets", object(password));
        world.settle().await;
        let claims = world.get("/v1/resources?namespace=*").await.json();
        let claimed = claims["resources"].as_array().unwrap().iter();
        let claimed: Vec<&Value> =
            claimed.filter(|own| own["source"] == "last_applied").map(|own| &own["resourceName"]).collect();
        assert_eq!(claimed, ["api", "web"]);
        check(&world, "drifted", None).await;
        for path in [
            "/v1/resources?namespace=*",
            "/v1/resources/secret/shop/psp",
            "/objects/secret/shop/psp",
            "/metrics",
            "/",
        ] {
            assert!(!world.get(path).await.text().contains(CANARY), "{path}");
        }
        assert_eq!(claim(&world, "secret/shop/psp").await["source"], "none");
        let snapshot = world.snapshot();
        let secrets = snapshot.kinds.iter().find(|state| &*state.kind.kind == "Secret").unwrap();
        let [entry] = secrets.blocks.get("shop", "psp") else { panic!("there is one claim") };
        assert!(entry.object.applied.is_none() && entry.object.document.is_none(), "{entry:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_largest_annotation_there_may_be_is_compared_like_any_other() {
    /// All annotations of an object together, with their names.
    const LARGEST: usize = 256 << 10;
    let api = ApiServer::default();
    api.serve(&[config_map()]);
    let document = |text: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"text": text, "note": "a"},
            "metadata": {"annotations": {}, "name": "long", "namespace": "shop"}})
        .to_string()
    };
    let room = LARGEST - ANNOTATION.len() - document("").len();
    let text = "a long story ".repeat(room)[..room].to_owned();
    let applied = document(&text);
    assert_eq!(applied.len() + ANNOTATION.len(), LARGEST);
    let object = |text: &str| {
        json!({"metadata": {"namespace": "shop", "name": "long", "uid": "uid-long",
            "annotations": {ANNOTATION: applied}}, "data": {"text": text, "note": "a"}})
    };
    api.put("configmaps", object(&text));
    let world = world(&api, &[WantedKind::exactly(&config_map())]).await;
    let verdict = async || claim(&world, "configmap/shop/long").await["verdict"].clone();
    assert_eq!(verdict().await, "in_sync");
    api.put("configmaps", object(&text.replacen("long", "tall", 1)));
    world.settle().await;
    assert_eq!(verdict().await, "drifted");
    let claim = claim(&world, "configmap/shop/long").await;
    assert_eq!(claim["differences"][0]["path"], "data.text");
    api.put("configmaps", object(&text));
    world.settle().await;
    assert_eq!(verdict().await, "in_sync");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_in_the_manifest_of_a_kind_without_namespaces_does_not_count() {
    let api = ApiServer::default();
    api.serve(&[cluster_role()]);
    let rules = |verb: &str| json!([{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}]);
    let document = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"annotations": {}, "name": "reader", "namespace": "shop"}, "rules": rules("get")});
    let object = |verb: &str| {
        json!({"metadata": {"name": "reader", "uid": "uid-reader",
            "annotations": {ANNOTATION: document.to_string()}}, "rules": rules(verb)})
    };
    api.put("clusterroles", object("get"));
    let world = world(&api, &[WantedKind::exactly(&cluster_role())]).await;
    let role = "clusterrole.rbac.authorization.k8s.io/-/reader";
    assert_eq!(claim(&world, role).await["verdict"], "in_sync");
    api.put("clusterroles", object("delete"));
    world.settle().await;
    let drifted = claim(&world, role).await;
    assert_eq!([&drifted["verdict"], &drifted["differences"][0]["field"]], ["drifted", "rbac"], "{drifted}");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_is_unknown_and_not_unclaimed() {
    let world = shop(edited(3, 5)).await;
    // Deeper than anything that is read.
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    let mut object = edited(3, 5);
    object["spec"]["template"]["metadata"] = json!({"deep": deep});
    see(&world, object).await;
    check(&world, "unknown", Some("unreadable")).await;
    assert_eq!(sample(&world, "drift_resource_drifted").await, Some(1.0));
    see(&world, applied(3)).await;
    check(&world, "in_sync", None).await;
    assert_eq!(episodes(&world, "reverted").await, (0.0, 1.0));
}

#[test]
fn where_namespaces_are_named_nothing_is_wanted_outside_of_them() {
    let wanted = |namespaces: &[&str]| {
        let namespaces = namespaces.iter().map(|name| (*name).into()).collect();
        let settings = Settings { sources: vec![Source::LastApplied], namespaces, ..Settings::default() };
        format!("{:?}", settings.wanted_kinds())
    };
    for kind in ["\"ClusterRole\"", "\"ClusterRoleBinding\"", "\"Namespace\""] {
        assert!(wanted(&[]).contains(kind), "{kind}");
        assert!(!wanted(&["shop"]).contains(kind), "{kind}");
    }
    assert!(wanted(&["shop"]).contains("\"RoleBinding\""));
}
