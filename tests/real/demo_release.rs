//! The demo's recorded release is the one that real Helm creates from its chart, on a real API server.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::{fs, io::Read as _, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use drift_exporter::demo::Shop;
use flate2::read::GzDecoder;
use serde_json::{Map, Value, json};

use crate::{
    demo_state::manifest,
    support::{
        cluster::{Cluster, User},
        helm::Helm,
        objects::create_namespace,
    },
};

const SECRET: &str = "sh.helm.release.v1.notifier.v1";

#[test]
fn recorded_release_matches_helm() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/demo/helm");
    let cluster = Cluster::start();
    let client = cluster.client();
    cluster.block_on(create_namespace(&client, "platform"));
    let helm = Helm::new(&cluster.kubeconfig(User::Admin), "secret");
    helm.run(&["install", "notifier", &folder.join("chart").display().to_string(), "-n", "platform"]);
    let get = |path: &str| -> Value {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        cluster.block_on(client.request(request)).unwrap()
    };
    let secret = get(&format!("/api/v1/namespaces/platform/secrets/{SECRET}"));
    let objects: Map<String, Value> = [
        ("apps/v1", "Deployment", "/apis/apps/v1/namespaces/platform/deployments/notifier"),
        ("v1", "Service", "/api/v1/namespaces/platform/services/notifier"),
        ("v1", "ConfigMap", "/api/v1/namespaces/platform/configmaps/notifier-messages"),
    ]
    .into_iter()
    .map(|(version, kind, path)| {
        let mut object = manifest(get(path));
        (object["apiVersion"], object["kind"]) = (json!(version), json!(kind));
        (format!("{kind}/{}", object["metadata"]["name"].as_str().unwrap()), object)
    })
    .collect();

    let files = [("release.json", decode_release(&secret)), ("objects.json", Value::Object(objects))];
    if std::env::var_os("UPDATE_RELEASE").is_some() {
        for (name, content) in &files {
            fs::write(folder.join(name), format!("{content:#}\n")).unwrap();
        }
    }
    for (name, content) in files {
        let committed = serde_json::from_slice(&fs::read(folder.join(name)).unwrap()).unwrap();
        let change = json_patch::diff(&without_times(committed), &without_times(content));
        assert!(change.is_empty(), "src/demo/helm/{name} is outdated, run `make demo-release`: {change}");
    }

    // The Secret is the same as that of real Helm.
    let shop = Shop::open(drift_exporter::types::Clock::system(), "example.com").unwrap();
    let kind = drift_exporter::demo::Cluster::resolve_kind("v1", "Secret").unwrap();
    let got = shop.cluster().objects(&kind).remove(&("platform".into(), SECRET.into())).unwrap();
    let of = |secret: &Value| (without_times(decode_release(secret)), secret["type"].clone(), labels(secret));
    assert_eq!(of(&secret), of(&got));
}

/// The labels of a release. Newer versions of Helm add a time.
fn labels(secret: &Value) -> Value {
    let mut labels = secret["metadata"]["labels"].clone();
    labels.as_object_mut().unwrap().retain(|name, _| !["modifiedAt", "createdAt"].contains(&name.as_str()));
    labels
}

/// The release in a Secret.
fn decode_release(secret: &Value) -> Value {
    let once = STANDARD.decode(secret["data"]["release"].as_str().unwrap()).unwrap();
    let packed = STANDARD.decode(once).unwrap();
    let mut text = String::new();
    GzDecoder::new(&*packed).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The same without the time of deployment.
fn without_times(mut release: Value) -> Value {
    for name in ["first_deployed", "last_deployed"] {
        if let Some(time) = release.get_mut("info").and_then(|info| info.get_mut(name)) {
            *time = Value::Null;
        }
    }
    // Files of a chart have no order.
    if let Some(Value::Array(templates)) =
        release.get_mut("chart").and_then(|chart| chart.get_mut("templates"))
    {
        templates.sort_by_key(Value::to_string);
    }
    release
}
