//! Diffs of live objects against the last-applied annotation of kubectl, in a running exporter.

use drift_exporter::{
    config::Settings,
    types::{Kind, LastApplied, Scope, Selector, Source, WantedKind},
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::support::{
    api_server::ApiServer,
    exporter_fixture::{BEGIN, ExporterFixture},
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

/// The manifest of `web` in the last-applied annotation.
fn manifest(replicas: u64) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"annotations": {}, "labels": {"app": "web"}, "name": "web", "namespace": "shop"},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "web", "image": "nginx:1.27"}]}}}})
}

/// `web` with this annotation, and replicas that `manager` set a minute ago.
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

/// The time this many seconds after the start of the test.
fn at(second: i64) -> String {
    Timestamp::from_second(BEGIN + second).unwrap().to_string()
}

/// `web` as applied.
fn applied(replicas: u64) -> Value {
    web(&manifest(replicas).to_string(), replicas, "kubectl-client-side-apply")
}

/// `web` after `kubectl edit` changed the applied replicas.
fn edited(from: u64, replicas: u64) -> Value {
    web(&manifest(from).to_string(), replicas, "kubectl-edit")
}

/// The same object under another name.
fn renamed(name: &str, mut object: Value) -> Value {
    let mut document: Value =
        serde_json::from_str(object["metadata"]["annotations"][ANNOTATION].as_str().unwrap()).unwrap();
    document["metadata"]["name"] = name.into();
    object["metadata"]["annotations"][ANNOTATION] = document.to_string().into();
    (object["metadata"]["name"], object["metadata"]["uid"]) = (name.into(), format!("uid-{name}").into());
    object
}

async fn start_synced(api: &ApiServer, kinds: &[WantedKind]) -> ExporterFixture {
    let (sources, kinds) = (vec![Source::LastApplied], kinds.to_vec());
    ExporterFixture::ready_with(api, Settings { sources, kinds, ..Settings::default() }).await
}

/// An exporter that watches Deployments: `web`, and `api`, which stays as applied.
async fn start_with_web(web: Value) -> ExporterFixture {
    let api = ApiServer::default();
    api.put(DEPLOYMENTS, web);
    api.put(DEPLOYMENTS, renamed("api", applied(2)));
    start_synced(&api, &[WantedKind::exactly(&Kind::deployment())]).await
}

async fn update_web(exporter: &ExporterFixture, object: Value) {
    exporter.api.put(DEPLOYMENTS, object);
    exporter.wait_idle().await;
}

/// The only claim on an object.
async fn claim(exporter: &ExporterFixture, object: &str) -> Value {
    let object = exporter.get(&format!("/v1/resources/{object}")).await.json();
    assert_eq!(object["claims"].as_array().map(Vec::len), Some(1), "{object}");
    object["claims"][0].clone()
}

/// Asserts verdict and reason of `web`, and that `api` is in sync.
async fn check(exporter: &ExporterFixture, verdict: &str, reason: Option<&str>) {
    let (web, api) = (claim(exporter, WEB).await, claim(exporter, "deployment.apps/shop/api").await);
    let summary = |claim: &Value| [&claim["source"], &claim["verdict"], &claim["reason"]].map(Clone::clone);
    assert_eq!(summary(&web), [json!("last_applied"), json!(verdict), json!(reason)], "{web}");
    assert_eq!(summary(&api), [json!("last_applied"), json!("in_sync"), Value::Null], "{api}");
}

/// The value of this series of `web`.
async fn sample(exporter: &ExporterFixture, name: &str) -> Option<f64> {
    let object = "group=\"apps\",kind=\"Deployment\",namespace=\"shop\",name=\"web\",source=\"last_applied\"";
    exporter.sample(&format!("{name}{{{object}")).await
}

/// The number of detections, and of resolutions with this cause.
async fn episodes(exporter: &ExporterFixture, cause: &str) -> (f64, f64) {
    let labels = "group=\"apps\",kind=\"Deployment\",namespace=\"shop\",source=\"last_applied\"";
    let detections = exporter.sample(&format!("drift_detections_total{{{labels}")).await;
    let resolutions = exporter.sample(&format!("drift_resolutions_total{{{labels},cause=\"{cause}\"")).await;
    (detections.unwrap_or(0.0), resolutions.unwrap_or(0.0))
}

#[tokio::test(start_paused = true)]
async fn edit_of_applied_field_is_drift_until_reverted() {
    let exporter = start_with_web(applied(3)).await;
    check(&exporter, "in_sync", None).await;
    assert_eq!(sample(&exporter, "drift_resource_drifted").await, Some(0.0));

    update_web(&exporter, edited(3, 5)).await;
    check(&exporter, "drifted", None).await;
    let web = claim(&exporter, WEB).await;
    let difference = &web["differences"][0];
    assert_eq!(web["differences"].as_array().map(Vec::len), Some(1), "{web}");
    let summary = ["path", "field", "expected", "actual", "actor", "manager", "onset"];
    assert_eq!(
        summary.map(|name| difference[name].as_str().unwrap_or("-")),
        ["spec.replicas", "replicas", "3", "5", "kubectl", "kubectl-edit", &at(-60)]
    );
    assert_eq!(sample(&exporter, "drift_resource_drifted").await, Some(1.0));
    assert_eq!(sample(&exporter, "drift_resource_drifted_fields").await, Some(1.0));
    let page = exporter.get(&format!("/objects/{WEB}")).await.text();
    assert!(page.contains("spec.replicas") && page.contains("last_applied"), "{page}");

    update_web(&exporter, edited(3, 3)).await;
    check(&exporter, "in_sync", None).await;
    assert_eq!(episodes(&exporter, "reverted").await, (1.0, 1.0));
}

#[tokio::test(start_paused = true)]
async fn edit_of_undeclared_field_is_not_drift() {
    let exporter = start_with_web(applied(3)).await;
    let mut object = applied(3);
    object["spec"]["paused"] = true.into();
    object["spec"]["progressDeadlineSeconds"] = 60.into();
    object["metadata"]["labels"]["team"] = "checkout".into();
    object["metadata"]["annotations"]["note"] = "changed".into();
    object["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = "Always".into();
    object["status"]["availableReplicas"] = 1.into();
    update_web(&exporter, object).await;
    check(&exporter, "in_sync", None).await;
    assert_eq!(episodes(&exporter, "reverted").await, (0.0, 0.0));
}

#[tokio::test(start_paused = true)]
async fn apply_moves_the_baseline_and_absorbs_only_unchanged_objects() {
    let exporter = start_with_web(applied(3)).await;
    // Baseline and object change together: no drift before or after.
    update_web(&exporter, applied(4)).await;
    check(&exporter, "in_sync", None).await;
    assert_eq!(episodes(&exporter, "absorbed").await, (0.0, 0.0));
    // The applied value equals the manual edit: only the baseline changes.
    update_web(&exporter, edited(4, 5)).await;
    check(&exporter, "drifted", None).await;
    update_web(&exporter, edited(5, 5)).await;
    check(&exporter, "in_sync", None).await;
    assert_eq!(episodes(&exporter, "absorbed").await, (1.0, 1.0));
    // The applied value differs from the manual edit: the object changes too.
    update_web(&exporter, edited(5, 7)).await;
    check(&exporter, "drifted", None).await;
    update_web(&exporter, applied(6)).await;
    check(&exporter, "in_sync", None).await;
    assert_eq!(episodes(&exporter, "absorbed").await, (2.0, 1.0));
    assert_eq!(episodes(&exporter, "reverted").await, (2.0, 1.0));
    // The baseline changes and the object still differs: the episode continues.
    update_web(&exporter, edited(6, 9)).await;
    update_web(&exporter, edited(8, 9)).await;
    check(&exporter, "drifted", None).await;
    assert_eq!(claim(&exporter, WEB).await["differences"][0]["expected"], "8");
    assert_eq!(episodes(&exporter, "absorbed").await, (3.0, 1.0));
}

/// Annotations that declare nothing comparable.
fn broken() -> Vec<(&'static str, String)> {
    let with = |pointer: &str, value: Value| {
        let mut document = manifest(3);
        *document.pointer_mut(pointer).unwrap() = value;
        document.to_string()
    };
    vec![
        ("not JSON", "{apiVersion: apps/v1}".to_owned()),
        ("truncated", manifest(3).to_string()[..80].to_owned()),
        ("empty", String::new()),
        ("null", "null".to_owned()),
        ("a number", "3".to_owned()),
        ("a list", format!("[{}]", manifest(3))),
        ("an empty object", "{}".to_owned()),
        ("nested too deeply", format!("{}{}", "[".repeat(100_000), "]".repeat(100_000))),
        ("another name", with("/metadata/name", json!("api"))),
        ("no name", with("/metadata", json!({}))),
        ("another namespace", with("/metadata/namespace", json!("ops"))),
        ("another kind", with("/kind", json!("StatefulSet"))),
        ("another group", with("/apiVersion", json!("extensions/v1"))),
        ("the core group", with("/apiVersion", json!("v1"))),
    ]
}

#[tokio::test(start_paused = true)]
async fn invalid_annotation_is_unknown_and_keeps_last_value() {
    const ERRORS: &str =
        "drift_baseline_errors_total{source=\"last_applied\",reason=\"unreadable_baseline\"}";
    let exporter = start_with_web(edited(3, 5)).await;
    assert_eq!(exporter.sample(ERRORS).await, Some(0.0));
    for (count, (what, text)) in (1..).zip(broken()) {
        update_web(&exporter, web(&text, 5, "kubectl-edit")).await;
        check(&exporter, "unknown", Some("unreadable_baseline")).await;
        // The last known verdict was drifted.
        assert_eq!(sample(&exporter, "drift_resource_drifted").await, Some(1.0));
        assert_eq!(exporter.sample(ERRORS).await, Some(f64::from(count)), "{what}");
        let page = exporter.get(&format!("/objects/{WEB}")).await.text();
        assert!(page.contains("its baseline cannot be read"), "{page}");
        update_web(&exporter, edited(3, 5)).await;
        check(&exporter, "drifted", None).await;
    }
    assert_eq!(episodes(&exporter, "reverted").await, (0.0, 0.0));
    update_web(&exporter, applied(3)).await;
    check(&exporter, "in_sync", None).await;
}

#[tokio::test(start_paused = true)]
async fn annotation_in_another_api_version_is_not_compared() {
    let mut document = manifest(3);
    document["apiVersion"] = "apps/v1beta2".into();
    let exporter = start_with_web(web(&document.to_string(), 5, "kubectl-edit")).await;
    check(&exporter, "unknown", Some("other_version")).await;
    assert_eq!(sample(&exporter, "drift_resource_drifted").await, None);
    update_web(&exporter, applied(3)).await;
    check(&exporter, "in_sync", None).await;
}

#[tokio::test(start_paused = true)]
async fn removed_annotation_removes_the_claim() {
    let exporter = start_with_web(edited(3, 5)).await;
    check(&exporter, "drifted", None).await;
    let mut object = edited(3, 5);
    object["metadata"]["annotations"].as_object_mut().unwrap().remove(ANNOTATION);
    update_web(&exporter, object.clone()).await;
    let web = claim(&exporter, WEB).await;
    assert_eq!([&web["source"], &web["verdict"]], ["none", "no_baseline"], "{web}");
    assert_eq!(sample(&exporter, "drift_resource_drifted").await, None);
    let api = claim(&exporter, "deployment.apps/shop/api").await;
    assert_eq!(api["verdict"], "in_sync");
    let resolutions = &exporter.get("/v1/history").await.json()["transitions"][0];
    assert_eq!([&resolutions["source"], &resolutions["cause"]], ["last_applied", "deleted"], "{resolutions}");
    // Without annotations at all, and with the annotation again.
    object["metadata"].as_object_mut().unwrap().remove("annotations");
    update_web(&exporter, object).await;
    assert_eq!(claim(&exporter, WEB).await["source"], "none");
    update_web(&exporter, applied(3)).await;
    check(&exporter, "in_sync", None).await;
}

#[tokio::test(start_paused = true)]
async fn last_applied_annotation_of_secrets_is_never_read_or_exposed() {
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
    api.put(DEPLOYMENTS, renamed("api", applied(2)));
    // The exporter reads Secrets only if the settings select them.
    let (selector, scope) = (Some(Selector::equals("app", "psp")), Scope::new(["shop"], []));
    let secrets = WantedKind { selector, scope, ..WantedKind::exactly(&secret()) };
    let exporter = start_synced(&api, &[secrets, WantedKind::exactly(&Kind::deployment())]).await;
    for password in [CANARY, "b3RoZXI="] {
        api.put("secrets", object(password));
        exporter.wait_idle().await;
        let claims = exporter.get("/v1/resources?namespace=*").await.json();
        let claimed = claims["resources"].as_array().unwrap().iter();
        let claimed: Vec<&Value> = claimed
            .filter(|resource| resource["source"] == "last_applied")
            .map(|resource| &resource["resourceName"])
            .collect();
        assert_eq!(claimed, ["api", "web"]);
        check(&exporter, "drifted", None).await;
        for path in [
            "/v1/resources?namespace=*",
            "/v1/resources/secret/shop/psp",
            "/objects/secret/shop/psp",
            "/metrics",
            "/",
        ] {
            assert!(!exporter.get(path).await.text().contains(CANARY), "{path}");
        }
        assert_eq!(claim(&exporter, "secret/shop/psp").await["source"], "none");
        let snapshot = exporter.snapshot();
        let secrets = snapshot.kinds.iter().find(|state| &*state.kind.kind == "Secret").unwrap();
        let [entry] = secrets.blocks.get("shop", "psp") else { panic!("want one claim") };
        let object = entry.object.live().unwrap();
        assert!(object.applied == LastApplied::NotRequested && object.document.is_none(), "{entry:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn largest_annotation_is_compared() {
    /// The API server's limit for all annotations of an object, names included.
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
    let exporter = start_synced(&api, &[WantedKind::exactly(&config_map())]).await;
    let verdict = async || claim(&exporter, "configmap/shop/long").await["verdict"].clone();
    assert_eq!(verdict().await, "in_sync");
    api.put("configmaps", object(&text.replacen("long", "tall", 1)));
    exporter.wait_idle().await;
    assert_eq!(verdict().await, "drifted");
    let claim = claim(&exporter, "configmap/shop/long").await;
    assert_eq!(claim["differences"][0]["path"], "data.text");
    api.put("configmaps", object(&text));
    exporter.wait_idle().await;
    assert_eq!(verdict().await, "in_sync");
}

#[tokio::test(start_paused = true)]
async fn namespace_of_cluster_scoped_manifest_is_ignored() {
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
    let exporter = start_synced(&api, &[WantedKind::exactly(&cluster_role())]).await;
    let role = "clusterrole.rbac.authorization.k8s.io/-/reader";
    assert_eq!(claim(&exporter, role).await["verdict"], "in_sync");
    api.put("clusterroles", object("delete"));
    exporter.wait_idle().await;
    let drifted = claim(&exporter, role).await;
    assert_eq!([&drifted["verdict"], &drifted["differences"][0]["field"]], ["drifted", "rbac"], "{drifted}");
}

#[tokio::test(start_paused = true)]
async fn unreadable_object_is_unknown() {
    let exporter = start_with_web(edited(3, 5)).await;
    // Nested deeper than the decoder's limit.
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    let mut object = edited(3, 5);
    object["spec"]["template"]["metadata"] = json!({"deep": deep});
    update_web(&exporter, object).await;
    check(&exporter, "unknown", Some("unreadable")).await;
    assert_eq!(sample(&exporter, "drift_resource_drifted").await, Some(1.0));
    update_web(&exporter, applied(3)).await;
    check(&exporter, "in_sync", None).await;
    assert_eq!(episodes(&exporter, "reverted").await, (0.0, 1.0));
}

#[test]
fn namespaces_setting_excludes_cluster_scoped_kinds() {
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
