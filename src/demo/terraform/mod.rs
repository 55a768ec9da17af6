//! The Terraform-managed part of the demo: the objects of `main.tf`, and the state and lock of the Kubernetes backend.
//!
//! `shop.tfstate` is the state that real Terraform wrote for that configuration, and `objects.json` are the objects that
//! it created on a real API server. Only the fields that the server assigns are set here: uid, resource version, cluster IP.

use std::io::Read as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::read::GzDecoder;
use serde_json::{Map, Value, json};

use super::{
    cluster::{Cluster, StatusError, random_uid},
    gzip,
};

/// The field manager of Terraform's Kubernetes provider.
pub(super) const FIELD_MANAGER: &str = "HashiCorp";
/// The namespace of state and lock.
pub const NAMESPACE: &str = "terraform";

const STATE_SECRET: &str = "tfstate-default-payments";
const LOCK_LEASE: &str = "lock-tfstate-default-payments";
const LOCK_INFO_ANNOTATION: &str = "app.terraform.io/lock-info";
const MAX_STATE_BYTES: u64 = 16 << 20;

/// Applies the configuration, stores the state and releases the lock.
pub(super) fn apply(cluster: &Cluster) -> Result<(), StatusError> {
    for object in declared_objects().into_values() {
        cluster.create_or_replace(FIELD_MANAGER, object)?;
    }
    store_state(cluster, declared_state())?;
    unlock(cluster)
}

/// Copies one live value into the state, as `terraform apply -refresh-only` does.
pub(super) fn refresh_attribute(
    cluster: &Cluster,
    address: &str,
    attribute: &str,
    value: &str,
) -> Result<(), StatusError> {
    lock(cluster)?;
    let mut state = load_state(cluster).unwrap_or_else(declared_state);
    for (instance_address, attributes) in instances(&mut state) {
        if let Some(recorded) = attributes.pointer_mut(attribute).filter(|_| instance_address == address) {
            *recorded = value.into();
        }
    }
    store_state(cluster, state)?;
    unlock(cluster)
}

/// Takes the state lock for an apply.
pub(super) fn lock(cluster: &Cluster) -> Result<(), StatusError> {
    let id = random_uid();
    let lock_info = json!({
        "ID": id, "Operation": "OperationTypeApply", "Info": "", "Who": "ci@runner-7",
        "Version": declared_state()["terraform_version"], "Created": cluster.now().to_string(), "Path": "",
    });
    store_lease(
        cluster,
        &json!({LOCK_INFO_ANNOTATION: lock_info.to_string()}),
        &json!({"holderIdentity": id}),
    )
}

/// Like Terraform, keeps the Lease and clears its holder.
fn unlock(cluster: &Cluster) -> Result<(), StatusError> {
    store_lease(cluster, &json!({}), &json!({}))
}

fn store_lease(cluster: &Cluster, annotations: &Value, spec: &Value) -> Result<(), StatusError> {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "namespace": NAMESPACE, "name": LOCK_LEASE, "labels": backend_labels(), "annotations": annotations,
        },
        "spec": spec,
    });
    cluster.create_or_replace(FIELD_MANAGER, lease)
}

/// The objects of the configuration, by resource address.
fn declared_objects() -> Map<String, Value> {
    serde_json::from_str(include_str!("objects.json")).expect("objects.json is valid JSON")
}

/// The state after an apply, with the server-assigned fields of another cluster.
fn declared_state() -> Value {
    serde_json::from_str(include_str!("shop.tfstate")).expect("shop.tfstate is valid JSON")
}

/// `None` if there is no state or it is malformed.
fn load_state(cluster: &Cluster) -> Option<Value> {
    let secret = cluster.get(&Cluster::key_of(&state_secret(None)).ok()?)?;
    let bytes = STANDARD.decode(secret["data"]["tfstate"].as_str()?).ok()?;
    let mut text = String::new();
    GzDecoder::new(&*bytes).take(MAX_STATE_BYTES).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// Stores a state with the next serial and the server-assigned fields of each live object.
fn store_state(cluster: &Cluster, mut state: Value) -> Result<(), StatusError> {
    if let Some(serial) = load_state(cluster).and_then(|stored| stored["serial"].as_u64()) {
        state["serial"] = (serial + 1).into();
    }
    let objects = declared_objects();
    for (address, attributes) in instances(&mut state) {
        let Some(object) = objects.get(&address) else { continue };
        if let Some(live) = cluster.get(&Cluster::key_of(object)?) {
            refresh_computed_attributes(attributes, &live);
        }
    }
    cluster.create_or_replace(FIELD_MANAGER, state_secret(Some(&state)))
}

/// The address and attributes of each resource instance.
fn instances(state: &mut Value) -> impl Iterator<Item = (String, &mut Value)> {
    let resources = state["resources"].as_array_mut().into_iter().flatten();
    resources.flat_map(|resource| {
        let string = |name: &str| resource[name].as_str().unwrap_or("").to_owned();
        let (module, in_module) = (string("module"), format!("{}.{}", string("type"), string("name")));
        let address = if module.is_empty() { in_module } else { format!("{module}.{in_module}") };
        let instances = resource["instances"].as_array_mut().into_iter().flatten();
        instances.map(move |instance| (address.clone(), &mut instance["attributes"]))
    })
}

/// Copies the fields that the server assigns.
fn refresh_computed_attributes(attributes: &mut Value, live: &Value) {
    let live_metadata = &live["metadata"];
    let metadata = &mut attributes["metadata"][0];
    metadata["uid"] = live_metadata["uid"].clone();
    metadata["resource_version"] = live_metadata["resourceVersion"].clone();
    metadata["generation"] = live_metadata["generation"].as_i64().unwrap_or(0).into();
    if live["spec"]["clusterIP"].is_string() {
        attributes["spec"][0]["cluster_ip"] = live["spec"]["clusterIP"].clone();
        attributes["spec"][0]["cluster_ips"] = live["spec"]["clusterIPs"].clone();
    }
}

fn state_secret(state: Option<&Value>) -> Value {
    let mut secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "namespace": NAMESPACE, "name": STATE_SECRET, "labels": backend_labels(), "annotations": {"encoding": "gzip"},
        },
    });
    if let Some(state) = state {
        secret["data"] = json!({"tfstate": STANDARD.encode(gzip(&state.to_string()))});
    }
    secret
}

fn backend_labels() -> Value {
    json!({
        "tfstate": "true", "tfstateSecretSuffix": "payments", "tfstateWorkspace": "default",
        "app.kubernetes.io/managed-by": "terraform",
    })
}
