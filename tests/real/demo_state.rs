//! The demo's recorded state is the one that real Terraform writes for its configuration, on a real API server.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::{fs, path::Path};

use drift_exporter::{
    demo::Shop,
    sources::terraform::decode,
    types::{Clock, Kind, RedactionKey},
};
use serde_json::{Map, Value, json};

use crate::{
    oracle::cluster::Objects,
    support::{
        cluster::{Cluster, User},
        terraform::{Provider, Terraform},
    },
};

#[test]
fn recorded_state_matches_terraform() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/demo/terraform");
    let cluster = Cluster::start();
    let client = cluster.client();
    for name in ["payments", "terraform"] {
        let body = json!({"metadata": {"name": name}}).to_string().into_bytes();
        let request = http::Request::post("/api/v1/namespaces").body(body).unwrap();
        cluster.block_on(client.request::<Value>(request)).unwrap();
    }
    let terraform = Terraform::init(&folder, Provider::Current, &cluster.kubeconfig(User::Admin));
    terraform.apply();
    let state: Value = serde_json::from_slice(&terraform.state()).unwrap();
    let real = Objects::new(&cluster, false);
    let declared = decode(state.to_string().as_bytes(), &RedactionKey::new([7; 32])).unwrap();
    assert_eq!(declared.skipped, []);
    let objects: Map<String, Value> = declared
        .objects
        .iter()
        .map(|object| (object.address.to_string(), manifest(real.get(object))))
        .collect();

    let files = [("shop.tfstate", state), ("objects.json", Value::Object(objects))];
    if std::env::var_os("UPDATE_STATE").is_some() {
        for (name, content) in &files {
            fs::write(folder.join(name), format!("{content:#}\n")).unwrap();
        }
    }
    for (name, content) in files {
        let committed = serde_json::from_slice(&fs::read(folder.join(name)).unwrap()).unwrap();
        let (committed, content) = (without_cluster_fields(committed), without_cluster_fields(content));
        let change = json_patch::diff(&committed, &content);
        assert!(change.is_empty(), "src/demo/terraform/{name} is outdated, run `make demo-state`: {change}");
    }

    // Secret and Lease are the same as those of the real backend.
    let shop = Shop::open(Clock::system(), "example.com").unwrap();
    let place = ("terraform".into(), "tfstate-default-payments".into());
    let lock = ("terraform".into(), "lock-tfstate-default-payments".into());
    for (path, kind, place) in [
        ("/api/v1/namespaces/terraform/secrets", ("v1", "Secret"), place),
        (
            "/apis/coordination.k8s.io/v1/namespaces/terraform/leases",
            ("coordination.k8s.io/v1", "Lease"),
            lock,
        ),
    ] {
        let request = http::Request::get(format!("{path}/{}", place.1)).body(Vec::new()).unwrap();
        let mut expected: Value = cluster.block_on(client.request(request)).unwrap();
        let kind: Kind = drift_exporter::demo::Cluster::resolve_kind(kind.0, kind.1).unwrap();
        let mut got = shop.cluster().objects(&kind).remove(&place).unwrap();
        for object in [&mut expected, &mut got] {
            for entry in object["metadata"]["managedFields"].as_array_mut().unwrap() {
                entry["time"] = Value::Null;
            }
            for name in ["uid", "resourceVersion", "creationTimestamp"] {
                object["metadata"][name] = Value::Null;
            }
            if object["data"]["tfstate"].is_string() {
                object["data"]["tfstate"] = "gzip".into();
            }
        }
        assert_eq!(expected, got);
    }
}

/// An object without the fields that a server sets.
pub(crate) fn manifest(mut object: Value) -> Value {
    object.as_object_mut().unwrap().remove("status");
    let given = ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"];
    object["metadata"].as_object_mut().unwrap().retain(|name, _| !given.contains(&name.as_str()));
    if object["kind"] == "Service" {
        let given = ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"];
        object["spec"].as_object_mut().unwrap().retain(|name, _| !given.contains(&name.as_str()));
    }
    object
}

/// The same without fields that differ between clusters. Terraform writes `sensitive_attributes` in any order,
/// and increments `serial` for each write, of which a slow apply makes more.
fn without_cluster_fields(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            let other = [
                "uid",
                "resource_version",
                "lineage",
                "serial",
                "cluster_ip",
                "cluster_ips",
                "terraform_version",
            ];
            fields.retain(|name, _| !other.contains(&name.as_str()));
            if let Some(Value::Array(paths)) = fields.get_mut("sensitive_attributes") {
                paths.sort_by_key(Value::to_string);
            }
            fields.values_mut().for_each(|field| *field = without_cluster_fields(field.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = without_cluster_fields(item.take())),
        _ => {}
    }
    value
}
