//! A thousand secrets in Helm releases and their objects: the exporter exposes none of them.

use std::{fmt::Write as _, fs};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    canaries::{Canaries, install_widgets, post},
    support::{
        cluster::{Cluster, User},
        exporter::Exporter,
        gzip::gzip,
        objects::{create_namespace, grant},
        stored::release_secret,
        wait::eventually,
    },
};

/// Number of objects of each kind.
const EACH: usize = 60;

/// Creates objects and the manifest that declares them. Every value is a different secret, so every object drifts.
fn make_objects(cluster: &Cluster, canaries: &mut Canaries) -> String {
    let mut manifest = String::new();
    let mut declare = |document: Value| {
        let kind = document["kind"].as_str().unwrap().to_lowercase();
        write!(manifest, "---\n# Source: shop/templates/{kind}.yaml\n{document}\n").unwrap();
    };
    for at in 0..EACH {
        let name = format!("object-{at}");
        let live = |canaries: &mut Canaries| json!({"name": name, "namespace": "shop", "annotations": {"note": canaries.add()}});
        let metadata =
            |canaries: &mut Canaries| json!({"name": name, "annotations": {"note": canaries.add()}});

        let secret = json!({"metadata": live(canaries), "stringData": {"password": canaries.add()}});
        post(cluster, "/api/v1/namespaces/shop/secrets", &secret);
        declare(json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata(canaries),
            "stringData": {"password": canaries.add()}, "data": {"other": STANDARD.encode(canaries.add())}}));

        let map = json!({"metadata": live(canaries), "data": {"key": canaries.add()}});
        post(cluster, "/api/v1/namespaces/shop/configmaps", &map);
        declare(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(canaries), "data": {"key": canaries.add()}}),
        );

        let spec = |canaries: &mut Canaries| {
            let env = json!([{"name": "PLAIN", "value": canaries.add()}]);
            let container = json!({"name": "web", "image": "nginx", "env": env, "args": [canaries.add()]});
            let template =
                json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}});
            json!({"selector": {"matchLabels": {"app": name}}, "template": template})
        };
        let deployment = json!({"metadata": live(canaries), "spec": spec(canaries)});
        post(cluster, "/apis/apps/v1/namespaces/shop/deployments", &deployment);
        declare(
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(canaries), "spec": spec(canaries)}),
        );

        let widget = |metadata: Value, canaries: &mut Canaries| {
            json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata,
                "spec": {"password": canaries.add(), "users": [{"name": "a", "token": canaries.add()}]}})
        };
        post(cluster, "/apis/example.com/v1/namespaces/shop/widgets", &widget(live(canaries), canaries));
        declare(widget(metadata(canaries), canaries));
    }
    // An unrendered template is next to secrets.
    write!(manifest, "---\n# Source: shop/templates/left.yaml\nkind: Secret\nstringData: {{a: {{{{ .Values.a }}}}, b: {}}}\n", canaries.add()).unwrap();
    manifest
}

fn release(manifest: &str, canaries: &mut Canaries) -> Vec<u8> {
    let many = |canaries: &mut Canaries| -> Value {
        (0..EACH).map(|at| (format!("value{at}"), json!(canaries.add()))).collect()
    };
    let hooks: Vec<Value> = (0..EACH).map(|_| json!({"manifest": canaries.add()})).collect();
    let files: Vec<Value> =
        (0..EACH).map(|_| json!({"name": "f", "data": STANDARD.encode(canaries.add())})).collect();
    let chart = json!({"metadata": {"name": "shop", "version": "1.0.0", "description": canaries.add()},
        "values": many(canaries), "templates": files, "files": files});
    let release = json!({"name": "web", "namespace": "shop", "version": 1, "manifest": manifest, "config": many(canaries),
        "info": {"status": "deployed", "notes": canaries.add(), "description": canaries.add()}, "chart": chart, "hooks": hooks});
    release.to_string().into_bytes()
}

#[test]
fn secrets_of_helm_releases_are_never_exposed() {
    let cluster = Cluster::start();
    let client = cluster.client();
    install_widgets(&cluster);
    cluster.block_on(async {
        create_namespace(&client, "shop").await;
        let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]);
        grant(&client, "exporter", rules).await;
    });
    let mut canaries = Canaries::default();
    let manifest = make_objects(&cluster, &mut canaries);
    let release = release(&manifest, &mut canaries);
    assert!(canaries.count() >= 1_000, "{}", canaries.count());
    let store = |name: &str, text: &[u8]| {
        let secret = release_secret("shop", name, 1, "deployed", &gzip(text));
        post(&cluster, "/api/v1/namespaces/shop/secrets", &secret);
    };
    store("web", &release);
    // The error message of a malformed release must not quote a nearby secret.
    let cut = release.windows(10).position(|part| part == b"\"manifest\"").unwrap() + 400;
    store("broken", &release[..cut]);

    let history = cluster.folder().join("history");
    let settings = cluster.folder().join("settings.yaml");
    fs::write(
        &settings,
        json!({"sources": {"annotation": {}, "helm": {}}, "log": {"level": "trace"}}).to_string(),
    )
    .unwrap();
    let flags = ["--config.file", settings.to_str().unwrap(), "--history.file", history.to_str().unwrap()];
    let exporter = Exporter::start(&cluster.kubeconfig(User::Exporter), cluster.folder(), &flags).ready();
    for kind in ["Secret", "ConfigMap", "Deployment", "Widget"] {
        let labels = [("kind", kind), ("source", "helm"), ("verdict", "drifted")];
        eventually(&format!("every {kind} differs"), || {
            (exporter.sample("drift_resources", &labels) == Some(EACH as f64)).then_some(())
        });
    }
    let errors =
        |reason| exporter.sample("drift_baseline_errors_total", &[("source", "helm"), ("reason", reason)]);
    assert_eq!((errors("truncated"), errors("not_yaml")), (Some(1.0), Some(1.0)));
    // Deleting an object adds transitions to the history.
    let request =
        http::Request::delete("/api/v1/namespaces/shop/configmaps/object-7").body(Vec::new()).unwrap();
    cluster.block_on(client.request::<Value>(request)).unwrap();
    eventually("it is missing", || {
        let text = fs::read_to_string(&history).ok()?;
        text.contains("object-7").then_some(())
    });

    canaries.assert_not_exposed(&exporter, &history);
}
