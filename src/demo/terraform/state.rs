//! The state, as Terraform's Kubernetes backend keeps it: gzip in a labelled Secret.

use std::io::Read as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::read::GzDecoder;
use serde_json::{Value, json};

use super::NAMESPACE;
use crate::demo::{
    cluster::{Cluster, Refusal},
    shop::TERRAFORM,
    stored::{gzip, object_key},
};

const NAME: &str = "tfstate-default-payments";
/// More than this is no state of the demo's.
const LARGEST: u64 = 16 << 20;

/// The state after the configuration was applied, with the uids of another cluster.
pub(super) fn declared() -> Value {
    serde_json::from_str(include_str!("shop.tfstate")).expect("the file was written as JSON")
}

/// The state in the cluster; none where there is none, or nothing that can be read.
pub(super) fn read(cluster: &Cluster) -> Option<Value> {
    let secret = cluster.get(&object_key(&secret(None)).ok()?)?;
    let bytes = STANDARD.decode(secret["data"]["tfstate"].as_str()?).ok()?;
    let mut text = String::new();
    GzDecoder::new(&*bytes).take(LARGEST).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// Stores a state as the next version of the one that is there, with what the server gave to each object.
pub(super) fn write(cluster: &Cluster, mut state: Value) -> Result<(), Refusal> {
    if let Some(serial) = read(cluster).and_then(|stored| stored["serial"].as_u64()) {
        state["serial"] = (serial + 1).into();
    }
    let objects = super::declared();
    for (address, attributes) in instances(&mut state) {
        let Some(object) = objects.get(&address) else { continue };
        if let Some(live) = cluster.get(&object_key(object)?) {
            read_back(attributes, &live);
        }
    }
    let object = secret(Some(&state));
    let key = object_key(&object)?;
    match cluster.get(&key) {
        None => cluster.create(&key.kind, TERRAFORM, object)?,
        Some(_) => cluster.replace(&key, TERRAFORM, object)?,
    };
    Ok(())
}

/// Address and attributes of each resource.
pub(super) fn instances(state: &mut Value) -> impl Iterator<Item = (String, &mut Value)> {
    let resources = state["resources"].as_array_mut().into_iter().flatten();
    resources.flat_map(|resource| {
        let text = |name: &str| resource[name].as_str().unwrap_or("").to_owned();
        let (module, own) = (text("module"), format!("{}.{}", text("type"), text("name")));
        let address = if module.is_empty() { own } else { format!("{module}.{own}") };
        let instances = resource["instances"].as_array_mut().into_iter().flatten();
        instances.map(move |instance| (address.clone(), &mut instance["attributes"]))
    })
}

/// What only the server gives: nobody declares it.
fn read_back(attributes: &mut Value, live: &Value) {
    let own = &live["metadata"];
    let metadata = &mut attributes["metadata"][0];
    metadata["uid"] = own["uid"].clone();
    metadata["resource_version"] = own["resourceVersion"].clone();
    metadata["generation"] = own["generation"].as_i64().unwrap_or(0).into();
    if live["spec"]["clusterIP"].is_string() {
        attributes["spec"][0]["cluster_ip"] = live["spec"]["clusterIP"].clone();
        attributes["spec"][0]["cluster_ips"] = live["spec"]["clusterIPs"].clone();
    }
}

/// The Secret of a state.
fn secret(state: Option<&Value>) -> Value {
    let mut secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"namespace": NAMESPACE, "name": NAME, "labels": labels(), "annotations": {"encoding": "gzip"}},
    });
    if let Some(state) = state {
        secret["data"] = json!({"tfstate": STANDARD.encode(gzip(&state.to_string()))});
    }
    secret
}

/// The labels of state and lock.
pub(super) fn labels() -> Value {
    json!({
        "tfstate": "true", "tfstateSecretSuffix": "payments", "tfstateWorkspace": "default",
        "app.kubernetes.io/managed-by": "terraform",
    })
}
