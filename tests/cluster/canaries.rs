//! A thousand secrets in states and objects: none of them may come out anywhere.

use std::{
    collections::HashSet,
    fs,
    io::Write as _,
    process::{Command, Stdio},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::support::{
    cluster::{Cluster, User},
    exporter::Exporter,
    objects::{create_namespace, grant},
    process::eventually,
};

/// Objects of each kind.
const EACH: usize = 70;

/// Secrets that were planted.
#[derive(Default)]
pub(crate) struct Canaries(pub(crate) Vec<String>);

impl Canaries {
    pub(crate) fn plant(&mut self) -> String {
        let canary: String = std::iter::repeat_with(fastrand::alphanumeric).take(24).collect();
        self.0.push(canary.clone());
        canary
    }

    /// Looks for each of them in a text, plain and as base64 writes it, wherever it begins.
    #[track_caller]
    pub(crate) fn are_not_in(&self, place: &str, text: &str) {
        assert!(!text.is_empty(), "{place} is empty");
        let mut forms: HashSet<Vec<u8>> = HashSet::new();
        for canary in &self.0 {
            let shifted = |before: &str| STANDARD.encode(format!("{before}{canary}"))[4..].to_owned();
            let encoded = [STANDARD.encode(canary), shifted("x"), shifted("xx")];
            forms.extend([canary].into_iter().chain(&encoded).map(|form| form.as_bytes()[..WINDOW].to_vec()));
        }
        for (at, window) in text.as_bytes().windows(WINDOW).enumerate() {
            let around = || String::from_utf8_lossy(&text.as_bytes()[at.saturating_sub(200)..at + WINDOW]);
            assert!(!forms.contains(window), "{place} tells a secret: {}", around());
        }
    }
}

/// How much of a secret is looked for: more than comes about by chance.
const WINDOW: usize = 16;

pub(crate) fn post(cluster: &Cluster, url: &str, object: &Value) -> Value {
    let request = http::Request::post(url).body(object.to_string().into_bytes()).unwrap();
    cluster.block_on(cluster.client().request(request)).unwrap()
}

fn resource(kind: &str, name: &str, canaries: &mut Canaries, attributes: &Value, sensitive: &Value) -> Value {
    json!({"mode": "managed", "type": kind, "name": name, "provider": "provider[\"registry.terraform.io/hashicorp/kubernetes\"]",
        "instances": [{"schema_version": 1, "attributes": attributes, "sensitive_attributes": sensitive, "private": canaries.plant()}]})
}

/// Creates objects and the state that declares them, each with secrets of its own, so that all of them differ.
fn make_objects(cluster: &Cluster, canaries: &mut Canaries) -> Vec<u8> {
    let mut resources = Vec::new();
    for at in 0..EACH {
        let name = format!("object-{at}");
        let metadata = |canaries: &mut Canaries| {
            json!({"name": name, "namespace": "shop", "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": canaries.plant(), "note": canaries.plant()}})
        };
        let declared = |canaries: &mut Canaries, uid: &Value| {
            json!([{"name": name, "namespace": "shop", "uid": uid, "annotations": {"note": canaries.plant(),
                "kubectl.kubernetes.io/last-applied-configuration": canaries.plant()}}])
        };

        let live = json!({"metadata": metadata(canaries), "stringData": {"password": canaries.plant()}});
        let live = post(cluster, "/api/v1/namespaces/shop/secrets", &live);
        let data = json!({"password": canaries.plant()});
        let attributes = json!({"metadata": declared(canaries, &live["metadata"]["uid"]), "data": data});
        resources.push(resource(
            "kubernetes_secret_v1",
            &format!("s{at}"),
            canaries,
            &attributes,
            &json!([]),
        ));

        let live = json!({"metadata": metadata(canaries), "data": {"key": canaries.plant()}});
        let live = post(cluster, "/api/v1/namespaces/shop/configmaps", &live);
        let data = json!({"key": canaries.plant()});
        let attributes = json!({"metadata": declared(canaries, &live["metadata"]["uid"]), "data": data});
        resources.push(resource(
            "kubernetes_config_map_v1",
            &format!("c{at}"),
            canaries,
            &attributes,
            &json!([]),
        ));

        let env = json!([{"name": "PLAIN", "value": canaries.plant()}, {"name": "MARKED", "value": canaries.plant()}]);
        let container = json!({"name": "web", "image": "nginx", "env": env, "args": [canaries.plant()]});
        let template = json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}});
        let spec = json!({"selector": {"matchLabels": {"app": name}}, "template": template});
        let live = json!({"metadata": metadata(canaries), "spec": spec});
        let live = post(cluster, "/apis/apps/v1/namespaces/shop/deployments", &live);
        let env = json!([{"name": "PLAIN", "value": canaries.plant()}, {"name": "MARKED", "value": canaries.plant()}]);
        let container = json!([{"name": "web", "image": "nginx", "env": env, "args": [canaries.plant()]}]);
        let spec = json!([{"template": [{"spec": [{"container": container}]}]}]);
        let attributes = json!({"metadata": declared(canaries, &live["metadata"]["uid"]), "spec": spec});
        let step = |name: &str| json!({"type": "get_attr", "value": name});
        let index = |at: usize| json!({"type": "index", "value": {"value": at, "type": "number"}});
        let marked = json!([[
            step("spec"),
            index(0),
            step("template"),
            index(0),
            step("spec"),
            index(0),
            step("container"),
            index(0),
            step("env"),
            index(1),
            step("value")
        ]]);
        resources.push(resource(
            "kubernetes_deployment_v1",
            &format!("d{at}"),
            canaries,
            &attributes,
            &marked,
        ));

        let whole = |canaries: &mut Canaries| {
            json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata(canaries),
            "spec": {"password": canaries.plant(), "users": [{"name": "a", "token": canaries.plant()}]}})
        };
        post(cluster, "/apis/example.com/v1/namespaces/shop/widgets", &whole(canaries));
        let attributes = json!({"object": {"type": [], "value": whole(canaries)}, "manifest": {"type": [], "value": whole(canaries)}});
        resources.push(resource("kubernetes_manifest", &format!("w{at}"), canaries, &attributes, &json!([])));

        let attributes = json!({"password": canaries.plant()});
        resources.push(resource("aws_db_instance", &format!("db{at}"), canaries, &attributes, &json!([])));
    }
    let outputs: Value =
        (0..EACH).map(|at| (format!("out{at}"), json!({"value": canaries.plant()}))).collect();
    json!({"version": 4, "serial": 1, "lineage": "canaries", "outputs": outputs, "resources": resources})
        .to_string()
        .into_bytes()
}

pub(crate) fn install_widgets(cluster: &Cluster) {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let names =
        json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}});
    post(cluster, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition);
    let client = cluster.client();
    eventually("widgets are served", Duration::from_secs(20), || {
        let request = http::Request::get("/apis/example.com/v1/widgets").body(Vec::new()).unwrap();
        cluster.block_on(client.request::<Value>(request)).ok()
    });
}

#[test]
fn no_secret_comes_out_anywhere() {
    let cluster = Cluster::start();
    let client = cluster.client();
    install_widgets(&cluster);
    cluster.block_on(async {
        create_namespace(&client, "shop").await;
        let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["list", "watch"]}]);
        grant(&client, "exporter", rules).await;
    });
    let mut canaries = Canaries::default();
    let state = make_objects(&cluster, &mut canaries);
    assert!(canaries.0.len() >= 1_000, "{}", canaries.0.len());
    let states = cluster.folder().join("states");
    fs::create_dir(&states).unwrap();
    let file = states.join("shop.tfstate");
    fs::write(&file, &state).unwrap();
    let history = cluster.folder().join("history");
    let settings = cluster.folder().join("settings.yaml");
    let sources = json!({"annotation": {}, "terraform": {"files": [states], "this_cluster": true}});
    fs::write(&settings, json!({"sources": sources, "log": {"level": "trace"}}).to_string()).unwrap();
    let flags = ["--config.file", settings.to_str().unwrap(), "--history.file", history.to_str().unwrap()];
    let exporter = Exporter::start(&cluster.kubeconfig(User::Exporter), cluster.folder(), &flags).ready();
    let differ = |kind: &str| {
        let labels = [("kind", kind), ("source", "terraform"), ("verdict", "drifted")];
        exporter.sample("drift_resources", &labels)
    };
    for kind in ["Secret", "ConfigMap", "Deployment", "Widget"] {
        eventually(&format!("every {kind} differs"), Duration::from_secs(60), || {
            (differ(kind) == Some(EACH as f64)).then_some(())
        });
    }
    // What cannot be read is complained about; what is wrong may stand next to a secret.
    let cut = state.windows(8).position(|part| part == b"\"value\":").unwrap() + 20;
    fs::write(states.join("broken.tfstate"), &state[..cut]).unwrap();
    fs::write(&file, &state[..state.len() - 5]).unwrap();
    for broken in ["shop.tfstate", "broken.tfstate"] {
        let name = states.join(broken).display().to_string();
        let labels = [("state", name.as_str())];
        exporter.wait_for("drift_terraform_state_readable", &labels, Some(0.0), Duration::from_secs(30));
    }

    canaries.are_not_in("the metrics page", &exporter.metrics());
    let mut paths: Vec<String> = ["/", "/v1/resources?namespace=*", "/v1/history", "/v1/status", "/v1/rules"]
        .map(ToOwned::to_owned)
        .to_vec();
    for (at, kind) in ["secret", "configmap", "deployment.apps", "widget.example.com"].iter().enumerate() {
        paths.push(format!("/v1/resources/{kind}/shop/object-{at}"));
        paths.push(format!("/objects/{kind}/shop/object-{at}"));
    }
    for path in paths {
        let answer = exporter.get(&path).unwrap();
        assert_eq!(answer.status, 200, "{path}");
        canaries.are_not_in(&path, &answer.text());
    }
    let log = exporter.logged();
    assert!(log.contains("DEBUG"), "the log tells everything there is");
    canaries.are_not_in("the log", &log);
    canaries.are_not_in("the history file", &fs::read_to_string(&history).unwrap());

    for input in [&state[..], &state[..cut]] {
        let mut baseline = Command::new(env!("CARGO_BIN_EXE_drift-exporter"))
            .args(["baseline", "--name", "shop"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        baseline.stdin.take().unwrap().write_all(input).unwrap();
        let output = baseline.wait_with_output().unwrap();
        canaries.are_not_in("what is said about the baseline", &String::from_utf8(output.stderr).unwrap());
        let published = String::from_utf8(output.stdout).unwrap();
        if output.status.success() {
            let document: Value = serde_saphyr::from_str(&published).unwrap();
            let packed = STANDARD.decode(document["data"]["baseline"].as_str().unwrap()).unwrap();
            let mut text = String::new();
            std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&packed[..]), &mut text).unwrap();
            canaries.are_not_in("the published baseline", &(published + &text));
        }
    }
}
